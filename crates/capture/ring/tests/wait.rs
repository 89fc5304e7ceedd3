//! Tests of events that wait for room instead of being lost: as long as a reader reads, or for a
//! limited time.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, WAIT_FOREVER};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Harvest, Set, is_recorded, move_to, record, shape};

const CLOCK: Clock = Clock::Monotonic;

fn set(wait_us: u32) -> Set {
    let mut shape = shape(2, 4096, 2, Mode::Discard);
    shape.wait_us = wait_us;
    Set::new(shape)
}

/// A burst of many times the ring's size loses no event, even with a slow reader.
#[test]
fn a_burst_into_a_tiny_ring_loses_nothing() {
    for with_sequences in [true, false] {
        let set = set(WAIT_FOREVER);
        let is_over = AtomicBool::new(false);
        let count = 20_000;
        let (mut readers, mut harvest) = (set.readers(CLOCK), Harvest::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                move_to(0);
                let writer = set.writer(CLOCK);
                let writer = if with_sequences { writer } else { writer.without_sequences() };
                (0..count).for_each(|number| assert!(is_recorded(&writer, 1, number), "{number}"));
                is_over.store(true, Relaxed);
            });
            while !is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(500));
                set.take_all(&mut readers, true, &mut harvest);
            }
        });
        set.take_all(&mut readers, true, &mut harvest);
        let mut found: Vec<u64> = harvest.events.iter().map(|event| event.2).collect();
        found.sort_unstable();
        assert!(found.into_iter().eq(0..count));
        assert_eq!(set.lost(), 0);
    }
}

/// Without a reader, only the first event that finds the ring full waits until its time limit.
/// Until the reader reads again, later events are lost without a wait. All lost events are counted.
#[test]
fn waiting_has_an_end() {
    move_to(0);
    let set = set(50_000);
    let writer = set.writer(CLOCK);
    let mut readers = set.readers(CLOCK);
    for round in 1..3 {
        let start = Instant::now();
        let mut number = 0;
        while is_recorded(&writer, 1, number) {
            number += 1;
        }
        assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
        assert_eq!(set.lost(), 1000 * round - 999);
        let start = Instant::now();
        (1..1000).for_each(|_| assert_eq!(record(&writer, 1, number), Outcome::Full));
        // Each of these events would have waited for 50 ms.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(set.lost(), 1000 * round);
        set.take_all(&mut readers, true, &mut Harvest::default());
    }
}
