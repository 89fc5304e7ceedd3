//! Sets of rings for tests, and events whose fields state their writer and number.
#![allow(dead_code, reason = "each test uses a part")]

use blkkin_ring::{
    Cells, Clock, Event, HEADER_SIZE, Mode, Outcome, Reader, Shape, Slot, TakeOutcome, Writer,
};
use blkkin_sys::SharedMemory;
use std::fs::File;
use std::os::fd::AsFd;

/// A set of rings as an agent creates it: file, mapping and shape.
pub(crate) struct Set {
    pub(crate) file: File,
    pub(crate) cells: Cells,
    pub(crate) shape: Shape,
}

pub(crate) fn shape(
    rings: usize,
    subbuffer_size: usize,
    subbuffer_count: usize,
    mode: Mode,
) -> Shape {
    let (uuid, stream, start) = (*b"a trace's uuid..", 3, 0);
    let (event_size, wait_us) = (0, 0);
    Shape { rings, subbuffer_size, subbuffer_count, mode, uuid, stream, event_size, wait_us, start }
}

impl Set {
    pub(crate) fn new(shape: Shape) -> Set {
        let (file, cells) = Cells::create(c"rings", &shape).unwrap();
        Set { file, cells, shape }
    }

    /// Returns a writer with a separate mapping, as in another process.
    pub(crate) fn writer(&self, clock: Clock) -> Writer {
        let memory = SharedMemory::map(self.file.as_fd()).unwrap();
        Writer::new(Cells::new(memory), clock).unwrap()
    }

    pub(crate) fn readers(&self, clock: Clock) -> Vec<Reader> {
        (0..self.shape.rings).map(|ring| Reader::new(&self.shape, ring, clock)).collect()
    }

    /// Returns the number of lost events so far in all rings.
    pub(crate) fn lost(&self) -> u64 {
        (0..self.shape.rings).map(|ring| self.cells.lost(&self.shape, ring)).sum()
    }

    /// Consumes all packets available to the readers. If `part` is true, also consumes sub-buffers
    /// that are not full.
    pub(crate) fn take_all(&self, readers: &mut [Reader], part: bool, into: &mut Harvest) {
        for reader in readers {
            while self.take_one(reader, part, into) {}
        }
    }

    /// Consumes a packet and adds it to the harvest, or counts overwritten bytes. Returns false if
    /// the ring has neither.
    pub(crate) fn take_one(&self, reader: &mut Reader, part: bool, into: &mut Harvest) -> bool {
        let mut buffer = Vec::new();
        match reader.take(&self.cells, &self.shape, part, &mut buffer) {
            TakeOutcome::Empty => return false,
            TakeOutcome::Overwritten(size) => into.overwritten += size,
            TakeOutcome::Packet(packet) => {
                into.add(packet.header.cpu as usize, packet.header, &buffer)
            }
            TakeOutcome::Invalid => panic!("nonsense: {reader:?}"),
        }
        true
    }
}

impl Set {
    /// Finishes the streams of all readers, which must have consumed all events. Adds the final
    /// packets to the harvest, and returns their number.
    pub(crate) fn finish_all(&self, readers: &mut [Reader], into: &mut Harvest) -> usize {
        let mut packets = 0;
        for (ring, reader) in readers.iter_mut().enumerate() {
            let mut buffer = Vec::new();
            if let Some(packet) = reader.finish(&self.cells, &self.shape, &mut buffer) {
                into.add(ring, packet.header, &buffer);
                packets += 1;
            }
        }
        packets
    }
}

/// Minimum size of an event's fields, in bytes: writer and number. Padding of varying size follows.
const FIELDS_MIN: usize = 16;

/// Target of recorded events: a writer or a slot.
pub(crate) trait Recorder {
    fn record(&self, event: &mut Event<'_>) -> Outcome;
}

impl Recorder for Writer {
    fn record(&self, event: &mut Event<'_>) -> Outcome {
        Writer::record(self, event)
    }
}

impl Recorder for Slot {
    fn record(&self, event: &mut Event<'_>) -> Outcome {
        Slot::record(self, event)
    }
}

/// Records the `number`th event of writer `who`; the size of the event varies with the number.
pub(crate) fn record(writer: &impl Recorder, who: u64, number: u64) -> Outcome {
    let size = size_of(who, number);
    let mut bytes = [0u8; 160];
    bytes[HEADER_SIZE..HEADER_SIZE + 8].copy_from_slice(&who.to_le_bytes());
    bytes[HEADER_SIZE + 8..HEADER_SIZE + 16].copy_from_slice(&number.to_le_bytes());
    bytes[HEADER_SIZE + 16..size].fill(filling(who, number));
    let mut event = Event::new(&mut bytes, size, 7).unwrap();
    writer.record(&mut event)
}

pub(crate) fn is_recorded(writer: &impl Recorder, who: u64, number: u64) -> bool {
    record(writer, who, number) == Outcome::Recorded
}

pub(crate) fn size_of(who: u64, number: u64) -> usize {
    HEADER_SIZE + FIELDS_MIN + ((who * 31 + number * 7) % 113) as usize
}

fn filling(who: u64, number: u64) -> u8 {
    (who ^ number.wrapping_mul(167)) as u8
}

/// Events consumed from rings, and the losses that their packets report.
#[derive(Default)]
pub(crate) struct Harvest {
    /// Ring, writer, number and time of each event; the events of each ring are in order.
    pub(crate) events: Vec<(usize, u64, u64, u64)>,
    /// Number of bytes overwritten unread.
    pub(crate) overwritten: u64,
    /// End time and number of discarded events of each ring's last packet.
    last: std::collections::HashMap<usize, (u64, u64)>,
}

impl Harvest {
    /// Checks a packet, and collects its events.
    fn add(&mut self, ring: usize, header: blkkin_ring::packet::Header, bytes: &[u8]) {
        use blkkin_ring::packet;
        assert_eq!(
            packet::Header::from_bytes(bytes[..packet::SIZE].try_into().unwrap()),
            Some(header)
        );
        assert_eq!(header.content_size, bytes.len() as u64);
        assert!(header.first_time <= header.last_time, "{header:?}");
        let (last_time, discarded) = self.last.get(&ring).copied().unwrap_or_default();
        assert!(header.discarded >= discarded, "{header:?} after {discarded}");
        assert!(header.first_time >= last_time, "{header:?} after {last_time}");
        let mut at = packet::SIZE;
        let mut time_before = header.first_time;
        while at < bytes.len() {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let (time, who, number) =
                (word(at + 2), word(at + HEADER_SIZE), word(at + HEADER_SIZE + 8));
            let size = size_of(who, number);
            assert_eq!(bytes[at..at + 2], [7, 0], "event {number} of {who} at {at}");
            let rest = &bytes[at + HEADER_SIZE + 16..at + size];
            assert!(rest.iter().all(|byte| *byte == filling(who, number)), "torn: {who} {number}");
            assert!(time >= time_before && time <= header.last_time, "{time} {header:?}");
            time_before = time;
            self.events.push((ring, who, number, time));
            at += size;
        }
        self.last.insert(ring, (header.last_time, header.discarded));
    }

    /// Returns the sum of the discarded events that the last packet of each ring reports.
    pub(crate) fn discarded(&self) -> u64 {
        self.last.values().map(|(_, discarded)| discarded).sum()
    }
}

/// Pins this thread, and children that it creates, to one processor.
pub(crate) fn move_to(processor: usize) {
    // SAFETY: passes a set of processors that lives until the call returns.
    #[expect(unsafe_code)]
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
