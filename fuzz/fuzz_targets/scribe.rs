//! Fuzzes client and server of Scribe's protocol. Each reply is complete, decoded entries
//! round-trip unchanged, and the replies do not depend on how the stream is split.
//!
//! The first byte selects client or server, and where the stream is split.
#![no_main]

use blkkin_scribe::{
    Answer, Batch, ConnectionAction, Entries, Frames, Handler, Header, Limits, Request, ResultCode,
    Service, Status, base64, read_reply, read_request,
};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

struct CheckingHandler;

impl Handler for CheckingHandler {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        assert_eq!(entries.iter().count(), entries.len());
        let sizes = entries.iter().map(|entry| entry.category.len() + entry.message.len());
        assert_eq!(sizes.sum::<usize>(), entries.payload_bytes());
        let mut batch = Batch::new(entries.len() % 2 == 0);
        entries.iter().for_each(|entry| batch.push(entry));
        let frame = batch.frame(7);
        let (header, request) = read_request(&frame[4..], &Limits::default()).expect("a call");
        assert_eq!((header.name, header.sequence), (&b"Log"[..], 7));
        let Ok(Request::Log(again)) = request else { panic!("{request:?}") };
        assert!(again.iter().eq(entries.iter()));
        let mut out = Vec::new();
        for entry in entries {
            if base64::decode(entry.message, &mut out).is_ok() {
                let (mut text, mut read) = (String::new(), Vec::new());
                base64::encode(&out, &mut text);
                base64::decode(text.as_bytes(), &mut read).expect("our own");
                assert_eq!(read, out);
            }
        }
        if entries.len() % 2 == 0 { ResultCode::Ok } else { ResultCode::TryLater }
    }

    fn status(&self) -> Status {
        Status::Alive
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        BTreeMap::from([("a".to_owned(), 1)])
    }
}

const LIMITS: Limits = Limits { frame_bytes_max: 4096, entries_max: 100 };
const FRAMES: Frames = Frames { frame_bytes_max: LIMITS.frame_bytes_max };

/// Returns all replies of a server to a stream whose first `first` bytes arrive separately.
fn serve(stream: &[u8], first: usize) -> Vec<u8> {
    let from: SocketAddr = (Ipv4Addr::LOCALHOST, 1).into();
    let service = Service::new(CheckingHandler, LIMITS);
    let mut out = Vec::new();
    let mut start = 0;
    for end in [first.min(stream.len()), stream.len()] {
        loop {
            match FRAMES.next(&stream[start..end]) {
                Err(_) => return out,
                Ok(None) => break,
                Ok(Some((body, size))) => {
                    assert!(size == body.len() + 4 && start + size <= end);
                    start += size;
                    let before = out.len();
                    let next = service.answer(body, from, &mut out);
                    check(body, &out[before..]);
                    if let ConnectionAction::Close(fault) = next {
                        assert!(fault.offset <= body.len());
                        return out;
                    }
                }
            }
        }
    }
    out
}

/// Checks that a reply is a single frame and matches the request.
fn check(body: &[u8], reply: &[u8]) {
    if reply.is_empty() {
        return;
    }
    let large = Frames { frame_bytes_max: 1 << 20 };
    let (answer, size) = large.next(reply).expect("a frame").expect("a whole one");
    assert_eq!(size, reply.len());
    let (asked, _) = Header::read(body).expect("what was answered");
    read_reply(answer, asked.name, asked.sequence).expect("a reply");
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    if choice & 1 == 0 {
        let mut whole = serve(bytes, bytes.len());
        let mut cut = serve(bytes, usize::from(choice >> 1) * 8);
        // The start times of two services may differ.
        for out in [&mut whole, &mut cut] {
            if out.windows(10).any(|window| window == b"aliveSince") {
                out.clear();
            }
        }
        assert_eq!(whole, cut);
        return;
    }
    let Ok(Some((body, _))) = FRAMES.next(bytes) else { return };
    for name in ["Log", "getCounters", "getOptions", "getName"] {
        if let Ok(Answer::Texts(texts)) = read_reply(body, name.as_bytes(), 0) {
            let size: usize = texts.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert!(size <= body.len());
        }
    }
});
