//! Tests that the times of a ring never decrease, and that a packet's times enclose those of its
//! events, also after an interrupted writer. A far-future time from a hostile writer affects only
//! one packet.

mod support;

use blkkin_ring::{Clock, Mode, TakeOutcome, packet};
use blkkin_sys::SharedMemory;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use support::{Harvest, Set, is_recorded, move_to, shape};

/// Offset of `LAST_TIME` of ring 0, as in the crate's documentation.
const LAST_TIME: usize = 4096 + 8;

/// Events after an aborted or killed writer are not earlier than the time that this writer stored.
/// The reader may have used that time as the end of a packet, and the next writer may have read
/// an earlier time from its clock.
#[test]
fn a_time_that_was_left_behind_is_not_passed() {
    move_to(0);
    for with_sequences in [true, false] {
        // One more event, and so many that the first event's sub-buffer is left.
        for count in [1, 40] {
            let set = Set::new(shape(2, 4096, 4, Mode::Discard));
            let writer = |time| {
                let writer = set.writer(Clock::Test(time));
                if with_sequences { writer } else { writer.without_sequences() }
            };
            let (mut readers, mut harvest) = (set.readers(Clock::Test(200)), Harvest::default());
            (0..count).for_each(|number| assert!(is_recorded(&writer(50), 1, number)));
            let memory = SharedMemory::map(set.file.as_fd()).unwrap();
            memory.word(LAST_TIME).store(100, Relaxed);
            set.take_all(&mut readers, true, &mut harvest);
            (0..count).for_each(|number| assert!(is_recorded(&writer(60), 2, number)));
            set.take_all(&mut readers, true, &mut harvest);
            let times: Vec<u64> = harvest.events.iter().map(|event| event.3).collect();
            let expected = [[50].repeat(count as usize), [100].repeat(count as usize)].concat();
            assert_eq!(times, expected, "sequences: {with_sequences}");
        }
    }
}

/// The reader limits a far-future time in the memory to the current time when it generates the
/// packet's header. So later packets have their own times.
#[test]
fn a_time_from_the_future_is_not_that_of_all_later_packets() {
    move_to(0);
    // The time is stored as `LAST_TIME`, as the time of the first event, and as the last time of a
    // left sub-buffer.
    let events = shape(2, 4096, 4, Mode::Discard).data_of(0).start + packet::SIZE;
    for (at, count) in [(LAST_TIME, 1), (events + 2, 1), (events - packet::SIZE + 40, 40)] {
        let set = Set::new(shape(2, 4096, 4, Mode::Discard));
        let (clock, mut harvest) = (Clock::Monotonic, Harvest::default());
        let mut readers = set.readers(clock);
        let writer = set.writer(clock);
        (0..count).for_each(|number| assert!(is_recorded(&writer, 1, number)));
        let memory = SharedMemory::map(set.file.as_fd()).unwrap();
        memory.copy_in(at, &u64::MAX.to_le_bytes());
        let mut bytes = Vec::new();
        let taken = readers[0].take(&set.cells, &set.shape, true, &mut bytes);
        let TakeOutcome::Packet(damaged) = taken else { panic!("{taken:?}") };
        assert!(damaged.header.last_time <= blkkin_sys::monotonic_ns(), "{at}: {damaged:?}");
        memory.word(LAST_TIME).store(0, Relaxed);
        // Checks that times of events are within those of their packets.
        assert!(is_recorded(&writer, 1, count));
        set.take_all(&mut readers, true, &mut harvest);
        assert_eq!(harvest.events.last().map(|event| event.2), Some(count), "{at}");
    }
}

/// Packets have the times of their writer's time namespace, even if its clock is a year ahead of
/// the reader's.
#[test]
fn clocks_of_other_namespaces_are_those_of_their_packets() {
    const YEAR_NS: i64 = 365 * 86400 * 1_000_000_000;
    move_to(0);
    let set = Set::new(shape(2, 4096, 4, Mode::Discard));
    let (clock, mut harvest) = (Clock::MonotonicAhead(YEAR_NS), Harvest::default());
    let writer = set.writer(clock);
    let before = blkkin_sys::monotonic_ns() + YEAR_NS as u64;
    (0..100).for_each(|number| assert!(is_recorded(&writer, 1, number)));
    let mut readers = set.readers(clock);
    // Checks that times of events are within those of their packets.
    set.take_all(&mut readers, true, &mut harvest);
    assert_eq!(harvest.events.last().map(|event| event.2), Some(99));
    assert!(harvest.events.iter().all(|event| event.3 >= before), "{:?}", harvest.events.first());
}
