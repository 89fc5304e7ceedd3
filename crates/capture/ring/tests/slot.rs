//! Tests of a slot whose writer is inserted, replaced and removed while threads record. The memory
//! is unmapped as soon as the writer has left the slot, so a thread that still used it would crash.
//! In discard mode, as many events are read as were reported as recorded.

mod support;

use blkkin_ring::{Clock, Encoder, Mode, Outcome, Room, Slot};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::{Harvest, Set, record, shape};

const THREADS: usize = 6;

fn check(clock: Clock, with_sequences: bool, mode: Mode) {
    let what = format!("{clock:?}, sequences: {with_sequences}, {mode:?}");
    let slot = Slot::new();
    let is_over = AtomicBool::new(false);
    let recorded = AtomicU64::new(0);
    let processors = std::thread::available_parallelism().unwrap().get();
    let mut read = 0;
    let mut rounds_with_events = 0;
    std::thread::scope(|scope| {
        for who in 0..THREADS {
            let (slot, is_over, recorded) = (&slot, &is_over, &recorded);
            scope.spawn(move || {
                let mut number = 0;
                while !is_over.load(Relaxed) {
                    if record(slot, who as u64, number) == Outcome::Recorded {
                        recorded.fetch_add(1, Relaxed);
                    }
                    number += 1;
                }
            });
        }
        for round in 0..150 {
            let set = Set::new(shape(processors + 1, 4096, 4, mode));
            let writer = set.writer(clock);
            let writer = if with_sequences { writer } else { writer.without_sequences() };
            slot.put(Box::new(writer)).unwrap();
            std::thread::sleep(Duration::from_micros(50 * (round % 20)));
            let (mut readers, mut harvest) = (set.readers(clock), Harvest::default());
            let taken = slot.take(Duration::from_secs(30)).unwrap();
            assert!(taken.is_some(), "{what}");
            drop(taken);
            // From here on, any use of the writer's mapping would crash or hit another mapping.
            set.take_all(&mut readers, true, &mut harvest);
            read += harvest.events.len() as u64;
            rounds_with_events += u64::from(!harvest.events.is_empty());
        }
        is_over.store(true, Relaxed);
    });
    assert!(rounds_with_events > 50, "{what}: only {rounds_with_events} rounds had events");
    if mode == Mode::Discard {
        assert_eq!(read, recorded.load(Relaxed), "{what}");
    }
    assert_eq!(record(&slot, 0, 0), Outcome::NoWriter);
    assert!(slot.take(Duration::ZERO).unwrap().is_none());
}

#[test]
fn a_writer_can_be_taken_out_at_any_time() {
    let clocks = [Clock::Tsc, Clock::Monotonic];
    for clock in
        clocks.into_iter().filter(|clock| *clock != Clock::Tsc || blkkin_sys::tsc_is_steady())
    {
        for with_sequences in [true, false] {
            for mode in [Mode::Discard, Mode::Overwrite] {
                check(clock, with_sequences, mode);
            }
        }
    }
}

#[test]
fn a_slot_holds_one_writer() {
    let set = Set::new(shape(2, 4096, 4, Mode::Discard));
    let slot = Slot::new();
    slot.put(Box::new(set.writer(Clock::Monotonic))).unwrap();
    assert!(slot.put(Box::new(set.writer(Clock::Monotonic))).is_err());
    assert!(slot.take(Duration::ZERO).unwrap().is_some());
    slot.put(Box::new(set.writer(Clock::Monotonic))).unwrap();
    assert!(slot.take(Duration::ZERO).unwrap().is_some());
}

/// An event that does not fit its room is counted as too large, and has no other effect.
#[test]
fn what_is_too_large_is_counted() {
    let set = Set::new(shape(2, 4096, 2, Mode::Discard));
    for clock in [Clock::Tsc, Clock::Monotonic] {
        let slot = Slot::new();
        slot.put(Box::new(set.writer(clock))).unwrap();
        let mut room = Room::new();
        let mut encoder = Encoder::new(&mut room, 7);
        for _ in 0..300 {
            encoder.put([1; 16]);
        }
        let before = set.lost();
        assert_eq!(slot.record(&mut encoder.event()), Outcome::TooLarge);
        assert_eq!(set.lost(), before + 1);
        assert!(slot.take(Duration::ZERO).unwrap().is_some());
    }
    let mut harvest = Harvest::default();
    set.take_all(&mut set.readers(Clock::Monotonic), true, &mut harvest);
    assert!(harvest.events.is_empty());
}

/// Threads that record into an empty slot do not prevent the removal of a writer that is inserted
/// later.
#[test]
fn an_empty_slot_has_no_users() {
    let slot = Slot::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for who in 0..4 {
            let (slot, is_over) = (&slot, &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    record(slot, who, 0);
                }
            });
        }
        for _ in 0..200 {
            let set = Set::new(shape(2, 4096, 4, Mode::Overwrite));
            slot.put(Box::new(set.writer(Clock::Monotonic).without_sequences())).unwrap();
            assert!(slot.take(Duration::from_secs(10)).unwrap().is_some());
        }
        is_over.store(true, Relaxed);
    });
}

/// Several threads may insert and remove writers at once.
#[test]
fn changes_do_not_meet() {
    let slot = Slot::new();
    let set = Set::new(shape(3, 4096, 4, Mode::Overwrite));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (slot, set, is_over) = (&slot, &set, &is_over);
        for who in 0..2 {
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    record(slot, who, 0);
                }
            });
        }
        let changers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    for _ in 0..300 {
                        let _ = slot.put(Box::new(set.writer(Clock::Tsc)));
                        // Fails if another thread's change is in progress.
                        let _ = slot.take(Duration::from_secs(10));
                    }
                })
            })
            .collect();
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        is_over.store(true, Relaxed);
    });
    slot.take(Duration::from_secs(10)).unwrap();
    assert_eq!(record(&slot, 0, 0), Outcome::NoWriter);
}

/// Each event is recorded in the old rings or the new ones while rings are replaced. Every attempt
/// is found in one of the two sets of rings, or counted there as discarded.
#[test]
fn rings_are_replaced_without_a_gap() {
    let clocks = [Clock::Tsc, Clock::Monotonic];
    for clock in
        clocks.into_iter().filter(|clock| *clock != Clock::Tsc || blkkin_sys::tsc_is_steady())
    {
        let processors = std::thread::available_parallelism().unwrap().get();
        let new_set = || Set::new(shape(processors + 1, 4096, 4, Mode::Discard));
        let slot = Slot::new();
        let mut set = new_set();
        slot.put(Box::new(set.writer(clock))).unwrap();
        let (is_over, tried) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut accounted = 0;
        let mut account = |set: &Set| {
            let mut harvest = Harvest::default();
            set.take_all(&mut set.readers(clock), true, &mut harvest);
            accounted += harvest.events.len() as u64 + set.lost();
        };
        std::thread::scope(|scope| {
            for who in 0..THREADS {
                let (slot, is_over, tried) = (&slot, &is_over, &tried);
                scope.spawn(move || {
                    let mut number = 0;
                    while !is_over.load(Relaxed) {
                        assert_ne!(record(slot, who as u64, number), Outcome::NoWriter);
                        number += 1;
                    }
                    tried.fetch_add(number, Relaxed);
                });
            }
            for _ in 0..100 {
                std::thread::sleep(Duration::from_micros(300));
                let new = new_set();
                let replaced = slot.replace(Box::new(new.writer(clock)), Duration::from_secs(30));
                drop(replaced.unwrap().unwrap());
                account(&set);
                set = new;
            }
            is_over.store(true, Relaxed);
        });
        account(&set);
        assert_eq!(accounted, tried.load(Relaxed), "{clock:?}");
        assert!(slot.take(Duration::ZERO).unwrap().is_some());
        assert!(slot.replace(Box::new(set.writer(clock)), Duration::ZERO).is_err());
    }
}
