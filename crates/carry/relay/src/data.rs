//! State of a producer's data connection, without its socket. Packets are written to the files as
//! they arrive.

use crate::close::Close;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::stream::Stream;
use blkkin_lttng::relay::{DATA_HEADER_SIZE, DataHeader};
use std::fs::File;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// State of a data connection.
#[derive(Debug)]
pub struct DataReceiver {
    sessions: Arc<Sessions>,
    peer: IpAddr,
    /// Number of the connection, unique at the relay.
    connection: u64,
    /// Part of a header that has arrived.
    header: Vec<u8>,
    packet: Option<Writing>,
    /// Sessions whose packets have arrived on this connection.
    own: Vec<Weak<Session>>,
}

/// Packet that is being written.
#[derive(Debug)]
struct Writing {
    stream: Arc<Stream>,
    header: DataHeader,
    file: Arc<File>,
    /// Offset of the next byte in the file.
    offset: u64,
    /// Number of bytes that have not arrived.
    remaining: usize,
}

impl DataReceiver {
    /// Makes the state of a connection from the address `peer`.
    pub fn new(sessions: Arc<Sessions>, peer: IpAddr) -> DataReceiver {
        let connection = sessions.new_id();
        let (header, packet, own) = (Vec::new(), None, Vec::new());
        DataReceiver { sessions, peer, connection, header, packet, own }
    }

    /// Takes bytes of the connection, in any division.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), Close> {
        let received = self.take(input);
        self.own.iter().filter_map(Weak::upgrade).for_each(|session| session.waiters.wake());
        received
    }

    /// Takes bytes as [`receive`](Self::receive) does, and leaves it to the caller to wake viewers.
    pub(crate) fn take(&mut self, mut input: &[u8]) -> Result<(), Close> {
        loop {
            if let Some(packet) = &mut self.packet {
                let (part, rest) = input.split_at(packet.remaining.min(input.len()));
                packet.stream.disk().write(&packet.file, part, packet.offset)?;
                packet.offset += part.len() as u64;
                packet.remaining -= part.len();
                input = rest;
                if packet.remaining > 0 {
                    return Ok(());
                }
                self.end_packet()?;
            }
            let missing = DATA_HEADER_SIZE - self.header.len();
            let (part, rest) = input.split_at(missing.min(input.len()));
            self.header.extend_from_slice(part);
            input = rest;
            let Some(header) = DataHeader::decode(&self.header)? else { return Ok(()) };
            self.header.clear();
            self.begin_packet(header)?;
        }
    }

    fn begin_packet(&mut self, header: DataHeader) -> Result<(), Close> {
        let found = self.sessions.stream(header.stream);
        let found = found.filter(|(session, _)| session.admits(self.connection, self.peer));
        let (session, stream) = found.ok_or(Close::Order("the stream is not of this producer"))?;
        let weak = Arc::downgrade(&session);
        if !self.own.iter().any(|own| own.ptr_eq(&weak)) {
            self.own.push(weak);
        }
        if stream.is_metadata {
            return Err(Close::Order("metadata is not sent on a data connection"));
        }
        let (file, offset) = stream.begin_packet()?;
        let remaining = header.data_size as usize;
        self.packet = Some(Writing { stream, header, file, offset, remaining });
        Ok(())
    }

    fn end_packet(&mut self) -> Result<(), Close> {
        let Some(packet) = self.packet.take() else { return Ok(()) };
        // Padding is a hole in the file.
        let grown = match u64::from(packet.header.padding_size) {
            0 => Ok(()),
            padding => packet.file.set_len(packet.offset + padding),
        };
        let header = grown.is_ok().then_some(packet.header);
        packet.stream.end_packet(header)?;
        Ok(grown?)
    }
}

impl Drop for DataReceiver {
    fn drop(&mut self) {
        // A packet that is not complete is overwritten by the next one, or cut off.
        if let Some(packet) = self.packet.take() {
            let _ = packet.file.set_len(packet.offset - self.received(&packet));
            let _ = packet.stream.end_packet(None);
        }
        self.own.iter().filter_map(Weak::upgrade).for_each(|session| session.end_data());
    }
}

impl DataReceiver {
    fn received(&self, packet: &Writing) -> u64 {
        (packet.header.data_size as usize - packet.remaining) as u64
    }
}
