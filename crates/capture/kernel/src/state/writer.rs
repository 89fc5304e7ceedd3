//! [`StateWriter`]: state as packets of a stream of its own.

use super::{StateEvent, StateKind, StateRedaction, of_process};
use blkkin_control::EventType;
use blkkin_ring::packet;

/// Size in bytes from which on a packet is complete.
const PACKET_SIZE: usize = 64 << 10;
/// Kinds that are written.
const KINDS: [StateKind; 2] = [StateKind::Process, StateKind::File];

/// Writer of the state of processes, with their open files, as packets of a stream of its own.
#[derive(Debug)]
pub struct StateWriter {
    to: StateStream,
    number: u64,
    /// Events of the packet that is being filled, after room for its header.
    buffer: Vec<u8>,
    begin: u64,
    end: u64,
}

/// Identity of the trace and the stream that state is written to.
#[derive(Clone, Copy, Debug)]
pub struct StateStream {
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// Id of the stream class.
    pub stream: u32,
    /// Index of the stream, which no ring has.
    pub ring: u32,
    /// Ids of the events `state:process` and `state:file`.
    pub ids: [u16; 2],
}

impl StateWriter {
    /// Returns the descriptions of the events, with ids as in [`StateStream::ids`].
    pub fn event_types(ids: [u16; 2]) -> [EventType; 2] {
        [KINDS[0].event_type(ids[0]), KINDS[1].event_type(ids[1])]
    }

    /// Creates a writer.
    pub fn new(to: StateStream) -> StateWriter {
        StateWriter { to, number: 0, buffer: vec![0; packet::SIZE], begin: 0, end: 0 }
    }

    /// Adds the state of a process at `time`, which must not be before that of earlier events.
    /// Passes each packet that is complete to `put`. Leaves out the parts of the state that this
    /// process is not permitted to read.
    pub fn add(&mut self, pid: u32, time: u64, put: &mut impl FnMut(&[u8])) {
        of_process(pid, &KINDS, &StateRedaction::default(), |event| {
            self.event(event, time);
            if self.buffer.len() >= PACKET_SIZE {
                self.flush(put);
            }
        });
    }

    fn event(&mut self, event: &StateEvent<'_>, time: u64) {
        if self.buffer.len() == packet::SIZE {
            self.begin = time;
        }
        self.end = self.end.max(time);
        let id = self.to.ids[usize::from(event.kind == KINDS[1])];
        self.buffer.extend_from_slice(&id.to_le_bytes());
        self.buffer.extend_from_slice(&time.to_le_bytes());
        self.buffer.extend_from_slice(&event.pid.to_le_bytes());
        self.buffer.extend_from_slice(&event.pid.to_le_bytes());
        self.buffer.extend_from_slice(event.fields);
    }

    /// Passes the last packet to `put`, if it has an event.
    pub fn flush(&mut self, put: &mut impl FnMut(&[u8])) {
        if self.buffer.len() == packet::SIZE {
            return;
        }
        let size = self.buffer.len() as u64;
        let header = packet::Header {
            uuid: self.to.uuid,
            stream: self.to.stream,
            cpu: self.to.ring,
            first_time: self.begin,
            last_time: self.end,
            content_size: size,
            packet_size: size,
            number: self.number,
            discarded: 0,
        };
        self.buffer[..packet::SIZE].copy_from_slice(&header.to_bytes());
        put(&self.buffer);
        self.buffer.truncate(packet::SIZE);
        self.number += 1;
    }
}
