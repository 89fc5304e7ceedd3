//! Tests that babeltrace2 reads the packets of rings. It finds all events recorded in discard mode,
//! and reports the numbers of discarded events and of overwritten packets.

mod support;

use blkkin_ring::{Clock, HEADER_SIZE, Mode, Outcome, Reader, TakeOutcome, Writer};
use blkkin_sys::testing::{Scratch, is_installed, skip};
use std::process::Command;
use support::{Set, move_to, shape};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace {
    major = 1; minor = 8; byte_order = le; uuid = "61207472-6163-6527-7320-757569642e2e";
    packet.header := struct {
        uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
    };
};
clock { name = monotonic; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := time_t;
stream {
    id = 3;
    packet.context := struct {
        time_t timestamp_begin; time_t timestamp_end; uint64_t content_size; uint64_t packet_size;
        uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
    };
    event.header := struct { uint16_t id; time_t timestamp; };
};
event { id = 7; name = "numbered"; stream_id = 3; fields := struct { uint64_t number; }; };
"#;

/// Size of an event in bytes.
const EVENT_SIZE: usize = HEADER_SIZE + 8;

fn record(writer: &Writer, number: u64) -> Outcome {
    let mut bytes = [0; 32];
    bytes[HEADER_SIZE..EVENT_SIZE].copy_from_slice(&number.to_le_bytes());
    writer.record(&mut blkkin_ring::Event::new(&mut bytes, EVENT_SIZE, 7).unwrap())
}

/// A set of two rings, and the packets consumed from ring 0. Ring 1 is not used.
struct Stream {
    set: Set,
    writer: Writer,
    reader: Reader,
    packets: Vec<u8>,
}

impl Stream {
    fn new(mode: Mode) -> Stream {
        move_to(0);
        let set = Set::new(shape(2, 4096, 4, mode));
        let writer = set.writer(Clock::Monotonic);
        let reader = Reader::new(&set.shape, 0, Clock::Monotonic);
        Stream { set, writer, reader, packets: Vec::new() }
    }

    /// Records an event for each of these numbers. Returns how many events were recorded.
    fn record(&self, numbers: std::ops::Range<u64>) -> usize {
        numbers.filter(|number| record(&self.writer, *number) == Outcome::Recorded).count()
    }

    /// Consumes all packets. Returns the number of overwritten sub-buffers.
    fn take(&mut self) -> u64 {
        let mut overwritten = 0;
        loop {
            match self.reader.take(&self.set.cells, &self.set.shape, true, &mut self.packets) {
                TakeOutcome::Packet(_) => {}
                TakeOutcome::Overwritten(size) => overwritten += size.div_ceil(4096),
                TakeOutcome::Empty => return overwritten,
                TakeOutcome::Invalid => panic!("nonsense"),
            }
        }
    }

    fn finish(&mut self) {
        self.reader.finish(&self.set.cells, &self.set.shape, &mut self.packets).unwrap();
    }

    /// Returns the number of lines in babeltrace2's output, and its warnings.
    fn read(&self, name: &str) -> (usize, String) {
        let Scratch(path) = &Scratch::new(&format!("ring-{name}"));
        std::fs::write(path.join("metadata"), METADATA).unwrap();
        std::fs::write(path.join("stream"), &self.packets).unwrap();
        let output = Command::new("babeltrace2").arg(path).output().unwrap();
        let warnings = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{warnings}");
        (output.stdout.iter().filter(|byte| **byte == b'\n').count(), warnings)
    }
}

/// Returns true if babeltrace2 is installed; otherwise the test is skipped with a message.
fn has_babeltrace(test: &str) -> bool {
    let is_there = is_installed("babeltrace2");
    if !is_there {
        skip(test, "babeltrace2 is not installed");
    }
    is_there
}

#[test]
fn discarded_events_are_told_where_they_were_and_at_the_end() {
    if !has_babeltrace("discarded_events_are_told_where_they_were_and_at_the_end") {
        return;
    }
    let mut stream = Stream::new(Mode::Discard);
    let fitting = stream.record(0..1000);
    assert!(fitting < 900);
    stream.take();
    let more = stream.record(1000..1010);
    assert_eq!(more, 10);
    stream.take();
    let last = stream.record(2000..3000);
    stream.take();
    // Only the final packet can report these: no event follows them.
    for _ in 0..3 {
        let mut bytes = [0; 4096];
        let mut event = blkkin_ring::Event::new(&mut bytes, 4096, 7).unwrap();
        assert_eq!(stream.writer.record(&mut event), Outcome::TooLarge);
    }
    stream.take();
    stream.finish();
    let (events, warnings) = stream.read("discarded");
    assert_eq!(events, fitting + more + last);
    let expected = [1000 - fitting, 1000 - last, 3];
    for count in expected {
        assert!(warnings.contains(&format!("discarded {count} events")), "{count}: {warnings}");
    }
    assert_eq!(warnings.matches("WARNING").count(), 3, "{warnings}");
}

#[test]
fn lost_packets_are_told() {
    if !has_babeltrace("lost_packets_are_told") {
        return;
    }
    let mut stream = Stream::new(Mode::Overwrite);
    stream.record(0..10);
    assert_eq!(stream.take(), 0);
    stream.record(10..5000);
    let lost = stream.take();
    assert!(lost > 10);
    stream.record(5000..5010);
    assert_eq!(stream.take(), 0);
    let (events, warnings) = stream.read("lost");
    assert!((20..1000).contains(&events), "{events}");
    assert!(warnings.contains(&format!("discarded {lost} packets")), "{lost}: {warnings}");
    assert_eq!(warnings.matches("WARNING").count(), 1, "{warnings}");
}
