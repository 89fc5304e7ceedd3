//! Times of a ring do not go back, and those of a packet are around those of its events: whatever a
//! writer has left that did not come to its end, and whatever a hostile one has written.

mod support;

use blkkin_ring::{Clock, Mode};
use blkkin_sys::SharedMemory;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use support::{Harvest, Set, is_recorded, move_to, shape};

/// The words that the crate's first comment gives as LAST_TIME of ring 0.
const LAST_TIME: usize = 4096 + 8;

/// A writer that stored its time and was then restarted or killed. The reader took that time for the
/// end of a packet; the next writer had read its own time before.
#[test]
fn a_time_that_was_left_behind_is_not_passed() {
    move_to(0);
    for with_sequences in [true, false] {
        // One event more; and so many that a sub-buffer is left with the first.
        for count in [1, 40] {
            let set = Set::new(shape(2, 4096, 4, Mode::Discard));
            let writer = |time| {
                let writer = set.writer(Clock::Test(time));
                if with_sequences { writer } else { writer.without_sequences() }
            };
            let (mut readers, mut harvest) = (set.readers(), Harvest::default());
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
