//! Tests with children that share memory and thread pointer with their parent thread, like those of
//! `vfork`. The processor number in the shared area is the parent's, and the children's sequences
//! are not restarted. So a child on another processor must not write to the ring of its parent's
//! processor; it writes to the ring with a lock.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, Slot};
use blkkin_sys::testing::in_sharing_child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::{Harvest, Set, move_to, record, shape};

const PARENT: u64 = 1;
const CHILD: u64 = 2;
const OTHER: u64 = 3;

/// Lock by which tests run one at a time: threads are pinned, so two tests would share two
/// processors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the clocks to test. The TSC is omitted if it is not steady, and on processors without
/// `rdpid`: there the fast path, which supports only the TSC, does not check the processor's
/// number.
fn clocks() -> Vec<Clock> {
    #[cfg(target_arch = "x86_64")]
    let has_rdpid = std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 22 != 0;
    #[cfg(not(target_arch = "x86_64"))]
    let has_rdpid = false;
    match has_rdpid && blkkin_sys::tsc_is_steady() {
        true => vec![Clock::Tsc, Clock::Monotonic],
        false => vec![Clock::Monotonic],
    }
}

fn check(clock: Clock) {
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let set = Set::new(shape(3, 64 << 10, 4, Mode::Discard));
    let slot = Slot::new();
    slot.put(Box::new(set.writer(clock))).unwrap();
    std::thread::scope(|scope| {
        let slot = &slot;
        scope.spawn(move || {
            move_to(0);
            record(slot, PARENT, 0);
            let body = || {
                move_to(1);
                for number in 0..100 {
                    record(slot, CHILD, number);
                }
            };
            assert!(in_sharing_child(&body));
            record(slot, PARENT, 1);
        });
    });
    let mut harvest = Harvest::default();
    set.take_all(&mut set.readers(clock), true, &mut harvest);
    let rings = |who| {
        let events = harvest.events.iter().filter(move |event| event.1 == who);
        events.map(|event| event.0).collect::<Vec<_>>()
    };
    assert_eq!(rings(PARENT), [0, 0], "{clock:?}");
    assert_eq!(rings(CHILD), [2; 100], "{clock:?}: where the one ring with a lock is");
}

#[test]
fn a_child_does_not_write_where_its_parent_was() {
    clocks().into_iter().for_each(check);
}

/// All events of a child, and of a thread on the parent's processor, are recorded or counted as
/// lost.
#[test]
fn children_and_threads_do_not_meet() {
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    for clock in clocks() {
        let set = Set::new(shape(3, 64 << 10, 4, Mode::Discard));
        let slot = Slot::new();
        slot.put(Box::new(set.writer(clock))).unwrap();
        let is_over = AtomicBool::new(false);
        let (recorded, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        let count = |outcome| {
            let counter = if outcome == Outcome::Recorded { &recorded } else { &lost };
            counter.fetch_add(1, Relaxed);
        };
        let (mut readers, mut harvest) = (set.readers(clock), Harvest::default());
        std::thread::scope(|scope| {
            let (slot, is_over, count) = (&slot, &is_over, &count);
            scope.spawn(move || {
                move_to(0);
                for number in 0.. {
                    count(record(slot, OTHER, number));
                    if is_over.load(Relaxed) {
                        break;
                    }
                }
            });
            let parent = scope.spawn(move || {
                for round in 0..100 {
                    move_to(0);
                    let body = || {
                        move_to(1);
                        for number in 0..100 {
                            count(record(slot, CHILD, 100 * round + number));
                        }
                    };
                    assert!(in_sharing_child(&body));
                }
            });
            while !parent.is_finished() {
                set.take_all(&mut readers, true, &mut harvest);
                std::thread::sleep(Duration::from_micros(200));
            }
            is_over.store(true, Relaxed);
        });
        set.take_all(&mut readers, true, &mut harvest);
        assert_eq!(harvest.events.len() as u64, recorded.load(Relaxed), "{clock:?}");
        assert_eq!(set.lost(), lost.load(Relaxed), "{clock:?}");
        let children = harvest.events.iter().filter(|event| event.1 == CHILD).count();
        assert!(children > 1000, "{clock:?}: only {children} events of children");
    }
}
