//! L11: memory follows use. Pages of a ring are allocated when they are written. A writer whose
//! reader keeps up reuses a few pages.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, Reader};
use std::os::unix::fs::MetadataExt;
use support::{Harvest, Set, is_recorded, move_to, record, shape};

const CLOCK: Clock = Clock::Monotonic;
const SUBBUFFER: usize = 64 << 10;
const COUNT: usize = 64;

/// Returns the number of bytes that are allocated for a set of rings.
fn touched(set: &Set) -> u64 {
    set.file.metadata().unwrap().blocks() * 512
}

/// Runs `test` with and without restartable sequences, from position 0 and from shortly before
/// positions wrap.
fn check(test: impl Fn(&dyn Fn(u64) -> Outcome, &Set, &mut Vec<Reader>)) {
    move_to(0);
    for with_sequences in [true, false] {
        for start in [0, 0u64.wrapping_sub(3 * (SUBBUFFER * COUNT) as u64)] {
            let mut shape = shape(2, SUBBUFFER, COUNT, Mode::Discard);
            shape.start = start;
            let set = Set::new(shape);
            let writer = set.writer(CLOCK);
            let writer = if with_sequences { writer } else { writer.without_sequences() };
            let mut readers = set.readers(CLOCK);
            test(&|number| record(&writer, 1, number), &set, &mut readers);
        }
    }
}

#[test]
fn l11_one_event_takes_a_few_pages() {
    check(|record, set, readers| {
        assert!(touched(set) <= 8192, "{} before", touched(set));
        assert_eq!(record(1), Outcome::Recorded);
        let mut harvest = Harvest::default();
        set.take_all(readers, true, &mut harvest);
        assert_eq!(harvest.events.len(), 1);
        assert!(touched(set) <= 16384, "{} behind", touched(set));
    });
}

/// Only two sub-buffers are allocated for almost four times the ring's size, recorded and read in
/// small parts. The parts rarely end at the end of a sub-buffer.
#[test]
fn l11_a_ring_that_is_read_in_time_uses_two_subbuffers() {
    check(|record, set, readers| {
        let mut harvest = Harvest::default();
        for number in 0..200_000 {
            assert_eq!(record(number), Outcome::Recorded);
            if number % 97 == 0 {
                set.take_all(readers, true, &mut harvest);
            }
        }
        set.take_all(readers, true, &mut harvest);
        assert!(harvest.events.iter().map(|event| event.2).eq(0..200_000));
        let most = 2 * SUBBUFFER as u64 + 16384;
        assert!(touched(set) <= most, "{} bytes", touched(set));
    });
}

/// A ring has room for a burst in all sub-buffers but two, at any position of the reader. The
/// events are read in order.
#[test]
fn l11_a_ring_that_was_reused_holds_a_burst() {
    check(|record, set, readers| {
        let (mut number, mut lost) = (0, 0);
        let mut harvest = Harvest::default();
        for before in [0, 100, 800, 900, 5000, 77, 12_345, 1] {
            for _ in 0..before {
                assert_eq!(record(number), Outcome::Recorded);
                number += 1;
                if number % 50 == 0 {
                    set.take_all(readers, true, &mut harvest);
                }
            }
            let (first, mut bytes) = (number, 0);
            while record(number) == Outcome::Recorded {
                bytes += support::size_of(1, number);
                number += 1;
            }
            lost += 1;
            let least = (COUNT - 2) * (SUBBUFFER - 512);
            assert!(bytes > least, "{bytes} of {least} from {first}");
            set.take_all(readers, true, &mut harvest);
        }
        assert!(harvest.events.iter().map(|event| event.2).eq(0..number));
        assert_eq!(set.lost(), lost);
    });
}

/// After a burst has filled the ring and was read, a steady load touches no further pages.
#[test]
fn l11_a_ring_calms_down_behind_a_burst() {
    move_to(0);
    let set = Set::new(shape(2, SUBBUFFER, COUNT, Mode::Discard));
    let writer = set.writer(CLOCK);
    let mut readers = set.readers(CLOCK);
    let (mut number, mut harvest) = (0, Harvest::default());
    while is_recorded(&writer, 1, number) {
        number += 1;
    }
    let most = touched(&set);
    assert!(most > (SUBBUFFER * (COUNT - 1)) as u64);
    set.take_all(&mut readers, true, &mut harvest);
    for _ in 0..10_000 {
        assert!(is_recorded(&writer, 1, number));
        number += 1;
        set.take_all(&mut readers, true, &mut harvest);
        let waiting: u64 = readers.iter().map(|one| one.unread_size(&set.cells, &set.shape)).sum();
        assert_eq!(waiting, 0, "at {number}");
    }
    assert!(harvest.events.iter().map(|event| event.2).eq(0..number));
    assert_eq!(touched(&set), most);
}
