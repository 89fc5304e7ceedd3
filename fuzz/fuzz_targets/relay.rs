//! Fuzzes a relay's connections: two control connections, a data connection and a viewer's, all of
//! one relay. Replies decode, and no file is written outside of the relay's directory.
//!
//! The input is a sequence of pieces. A piece is a byte that selects the connection, two bytes of
//! length, and the bytes that arrive.
#![no_main]

use blkkin_lttng::relay::{Command, DataHeader, MINOR};
use blkkin_lttng::viewer::{Reply, Request, RequestKind};
use blkkin_relay::{Control, DataReceiver, Sessions, Viewing};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Maximum number of pieces, which bounds the number of files.
const PIECES_MAX: usize = 40;
/// Minimum size of a packet in bytes that is not sent to the relay, which would write its padding.
const LARGE: u64 = 1 << 16;

/// A connection with the bytes that it has not used.
struct Buffered<C> {
    connection: Option<C>,
    input: Vec<u8>,
}

impl<C> Buffered<C> {
    fn new(connection: C) -> Buffered<C> {
        Buffered { connection: Some(connection), input: Vec::new() }
    }

    /// Passes bytes to the connection, and returns its replies. An error ends the connection.
    fn receive<E>(
        &mut self,
        bytes: &[u8],
        receive: impl Fn(&mut C, &[u8], &mut Vec<u8>) -> Result<usize, E>,
    ) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let mut output = Vec::new();
        while let Some(connection) = &mut self.connection {
            match receive(connection, &self.input, &mut output) {
                Ok(0) => break,
                Ok(used) => drop(self.input.drain(..used)),
                Err(_) => self.connection = None,
            }
        }
        output
    }
}

/// Returns a directory for the relay, alone in a directory of this process.
fn directory() -> PathBuf {
    let own = std::env::temp_dir().join(format!("blkkin-fuzz-relay-{}", std::process::id()));
    let root = own.join("root");
    let _ = fs::remove_dir_all(&own);
    fs::create_dir_all(&root).expect("a directory");
    root
}

fn check_codec(bytes: &[u8]) {
    if let Ok(Some((command, size))) = Command::decode(bytes, MINOR) {
        assert!(size <= bytes.len());
        let mut out = Vec::new();
        command.encode(&mut out);
        let again = Command::decode(&out, MINOR).expect("our own").expect("a whole command");
        assert_eq!(again, (command, out.len()));
    }
    if let Ok(Some((request, size))) = Request::decode(bytes) {
        assert!(size <= bytes.len());
        let mut out = Vec::new();
        request.encode(&mut out);
        let again = Request::decode(&out).expect("our own").expect("a whole request");
        assert_eq!(again, (request, out.len()));
    }
}

fuzz_target!(|data: &[u8]| {
    let root = directory();
    let sessions = Arc::new(Sessions::new(root.clone(), |_| {}));
    let control = || Buffered::new(Control::new(sessions.clone(), PEER));
    let (mut first, mut second) = (control(), control());
    let mut packets = Some(DataReceiver::new(sessions.clone(), PEER));
    let mut viewer = Buffered::new(Viewing::new(sessions.clone()).expect("a descriptor"));
    let mut rest = data;
    for _ in 0..PIECES_MAX {
        let [kind, high, low, after @ ..] = rest else { break };
        let size = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (piece, after) = after.split_at(size);
        rest = after;
        check_codec(piece);
        match kind % 4 {
            0 => drop(first.receive(piece, |it, input, out| it.receive(input, out))),
            1 => drop(second.receive(piece, |it, input, out| it.receive(input, out))),
            2 => {
                if let Ok(Some(header)) = DataHeader::decode(piece)
                    && u64::from(header.data_size) + u64::from(header.padding_size) > LARGE
                {
                    continue;
                }
                if packets.as_mut().is_some_and(|packets| packets.receive(piece).is_err()) {
                    packets = None;
                }
            }
            _ => {
                let request = Request::decode(piece).ok().flatten().map(|(request, _)| request);
                let waits = viewer.connection.as_ref().is_some_and(Viewing::is_waiting);
                let is_alone = viewer.input.is_empty() && !waits;
                let output = viewer.receive(piece, |it, input, out| it.receive(input, out));
                let kind = request.and_then(|request| request.kind());
                if let (true, false, Some(kind)) = (is_alone, output.is_empty(), kind) {
                    assert!(matches!(Reply::decode(kind, &output), Ok(Some(_))));
                }
            }
        }
        // News may come after each piece.
        let mut output = Vec::new();
        if let Some(viewing) = &mut viewer.connection {
            viewing.answer_wait(&mut output);
        }
        if !output.is_empty() {
            assert!(matches!(Reply::decode(RequestKind::Await, &output), Ok(Some(_))));
        }
    }
    let parent = root.parent().expect("a parent");
    let names = fs::read_dir(parent).expect("a directory").count();
    assert_eq!(names, 1, "a file outside of the relay's directory");
    let _ = fs::remove_dir_all(parent);
});
