//! Tests with a hostile program that writes random data anywhere in the memory while a reader
//! reads. The reader returns plausible packets, or reports invalid data. Its memory is bounded, and
//! an undamaged ring is read as usual.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, Reader, TakeOutcome, packet};
use blkkin_sys::SharedMemory;
use blkkin_sys::testing::Random;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Harvest, Set, record, shape};

/// Guard that stops the thread that writes random data, even when a check fails.
struct StopGuard<'e>(&'e AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Consumes and checks packets until the ring is empty or has invalid data, with at most 1000 calls
/// of [`Reader::take`]. Returns the number of packets.
fn drain(set: &Set, ring: usize, reader: &mut Reader) -> usize {
    let mut packets = 0;
    let mut last_time = 0;
    // Bounded, because a scribbler that is as fast as the reader could continue for ever.
    for _ in 0..1000 {
        let mut bytes = Vec::new();
        match reader.take(&set.cells, &set.shape, true, &mut bytes) {
            TakeOutcome::Empty | TakeOutcome::Invalid => break,
            TakeOutcome::Overwritten(_) => {}
            TakeOutcome::Packet(taken) => {
                let header = taken.header;
                assert!(bytes.len() <= set.shape.subbuffer_size);
                assert_eq!(header.content_size, bytes.len() as u64);
                assert_eq!((header.uuid, header.stream), (set.shape.uuid, set.shape.stream));
                assert_eq!(header.cpu, ring as u32);
                assert!(last_time <= header.first_time && header.first_time <= header.last_time);
                assert_eq!(
                    packet::Header::from_bytes(bytes[..packet::SIZE].try_into().unwrap()),
                    Some(header)
                );
                last_time = header.last_time;
                packets += 1;
            }
        }
    }
    packets
}

/// Returns a random word, biased towards values close to valid ones.
fn word(random: &mut Random, set: &Set) -> u64 {
    let sizes = [set.shape.subbuffer_size as u64, set.shape.ring_size() as u64, 84, 84 * 8, 0];
    let size = sizes[random.below(sizes.len() as u64) as usize];
    let near = random.below(40u64).wrapping_sub(20);
    match random.below(6) {
        0 => random.next(),
        1 => 0u64.wrapping_sub(random.below(200)),
        2 => size.wrapping_mul(random.below(9)).wrapping_add(near),
        3 => size.wrapping_mul(8).wrapping_add(near),
        4 => random.below(1 << 16),
        _ => size.wrapping_add(near),
    }
}

#[test]
fn a_scribbler_gains_nothing() {
    for (seed, mode) in [(1, Mode::Discard), (2, Mode::Overwrite), (3, Mode::Discard)] {
        let set = Set::new(shape(3, 4096, 4, mode));
        let theirs = SharedMemory::map(set.file.as_fd()).unwrap();
        let controls = 4096..4096 + 3 * 256;
        let is_over = AtomicBool::new(false);
        let (mut packets, mut readings) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random::new(seed);
                while !is_over.load(Relaxed) {
                    let value = word(&mut random, &set);
                    // Half of the writes hit control words, a quarter hit the start of a
                    // sub-buffer, and a quarter hit any word.
                    let at = match random.below(4) {
                        0 | 1 => controls.start as u64 + random.below(3 * 256),
                        2 => {
                            set.shape.data_of(0).start as u64
                                + random.below(12) * 4096
                                + random.below(96)
                        }
                        _ => random.below(set.shape.memory_size() as u64),
                    };
                    theirs.word(at as usize & !7).store(value, Relaxed);
                }
            });
            let _ending = StopGuard(&is_over);
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                for ring in 0..3 {
                    // Invalid data end a ring, so each round has a new reader.
                    let mut reader = match readings % 2 {
                        0 => Reader::new(&set.shape, ring, Clock::Monotonic),
                        _ => Reader::from_oldest(&set.cells, &set.shape, ring, Clock::Monotonic),
                    };
                    packets += drain(&set, ring, &mut reader);
                    readings += 1;
                }
            }
        });
        assert!(packets > 0, "{mode:?}: the scribbler never looked sound, so little was tried");
        assert!(readings > 1000);
    }
}

#[test]
fn nonsense_in_one_ring_leaves_the_others_alone() {
    let set = Set::new(shape(3, 4096, 4, Mode::Discard));
    let memory = SharedMemory::map(set.file.as_fd()).unwrap();
    let writer = set.writer(Clock::Monotonic).without_sequences();
    let mut numbers = 0;
    while record(&writer, 1, numbers) == Outcome::Recorded {
        numbers += 1;
    }
    // Sets WRITE of ring 2, which is unused while other rings are free, far beyond the ring's size.
    memory.word(4096 + 2 * 256).store(u64::MAX / 2, Relaxed);
    let mut buffer = Vec::new();
    let mut damaged = Reader::new(&set.shape, 2, Clock::Monotonic);
    assert_eq!(damaged.take(&set.cells, &set.shape, true, &mut buffer), TakeOutcome::Invalid);
    assert_eq!(damaged.take(&set.cells, &set.shape, true, &mut buffer), TakeOutcome::Empty);
    assert!(buffer.is_empty());
    let mut readers = vec![
        Reader::new(&set.shape, 0, Clock::Monotonic),
        Reader::new(&set.shape, 1, Clock::Monotonic),
    ];
    let mut harvest = Harvest::default();
    set.take_all(&mut readers, true, &mut harvest);
    assert_eq!(harvest.events.len() as u64, numbers);
}
