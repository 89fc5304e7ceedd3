//! Tests that ids are unique under threads, forks and signals, with the kernel's help and without;
//! and tests of their randomness and their text.

use super::{SpanId, TraceId, make, prepare};
use blkkin_sys::testing::{Call, Fork, in_child, refuse, refuse_all, while_interrupted};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Adds ids to the set of seen ones; panics if an id is 0 or in the set already.
#[track_caller]
fn check_new(seen: &mut HashSet<u64>, ids: impl IntoIterator<Item = u64>) {
    for id in ids {
        assert_ne!(id, 0);
        assert!(seen.insert(id), "{id:#x} twice");
    }
}

fn some(count: usize) -> Vec<u64> {
    (0..count).map(|_| make().get()).collect()
}

#[test]
fn threads_make_different_ids() {
    let mut seen = HashSet::new();
    // Many threads with few ids each, and a few threads with more ids than a block has.
    for (threads, count) in [(200, 3), (3, 600_000)] {
        let threads: Vec<_> =
            (0..threads).map(|_| std::thread::spawn(move || some(count))).collect();
        for thread in threads {
            check_new(&mut seen, thread.join().expect("no panic"));
        }
    }
    check_new(&mut seen, some(1000));
}

/// Children, and children of children, make unique ids after every kind of fork, and so do their
/// parents afterwards.
#[test]
fn forks_make_different_ids() {
    const COUNT: usize = 100;
    let mut seen = HashSet::new();
    let fill = |words: &[AtomicU64]| {
        for word in words {
            word.store(make().get(), Relaxed);
        }
    };
    check_new(&mut seen, some(COUNT));
    for fork in [Fork::Library, Fork::Raw, Fork::Raw, Fork::Library] {
        let found = in_child(fork, |words: &[AtomicU64; 3 * COUNT]| {
            let (own, childs) = words.split_at(COUNT);
            let found = in_child(fork, |words: &[AtomicU64; COUNT]| fill(words));
            fill(own);
            let (childs, after) = childs.split_at(COUNT);
            for (word, id) in childs.iter().zip(found.unwrap_or([0; COUNT])) {
                word.store(id, Relaxed);
            }
            fill(after);
        });
        check_new(&mut seen, some(COUNT));
        check_new(&mut seen, found.expect("a child that ends"));
    }
}

/// Ids are unique even if `getrandom` fails, or if the kernel cannot wipe memory in children, or
/// both.
#[test]
fn refused_calls_do_no_harm() {
    let mut seen = HashSet::new();
    let both = [Call::Getrandom, Call::Madvise];
    for refused in [&[][..], &both[..1], &both[1..], &both] {
        for fork in [Fork::Library, Fork::Raw] {
            let found = in_child(fork, |words: &[AtomicU64; 150]| {
                let refused = refused.iter().all(|call| refuse(*call));
                let (own, childs) = words.split_at(100);
                let fill = |words: &[AtomicU64]| {
                    for word in words {
                        word.store(if refused { make().get() } else { 0 }, Relaxed);
                    }
                };
                fill(&own[..50]);
                let found = in_child(fork, |words: &[AtomicU64; 50]| fill(words));
                for (word, id) in childs.iter().zip(found.unwrap_or([0; 50])) {
                    word.store(id, Relaxed);
                }
                fill(&own[50..]);
            });
            check_new(&mut seen, found.expect("a child that ends"));
        }
    }
}

/// Ids need no system calls after `prepare`. Seccomp's strict mode kills a thread that makes one.
#[test]
fn ids_need_no_system_calls() {
    let found = in_child(Fork::Library, |words: &[AtomicU64; 100]| {
        prepare();
        let strict = refuse_all();
        for word in words {
            word.store(if strict { make().get() } else { 0 }, Relaxed);
        }
    });
    check_new(&mut HashSet::new(), found.expect("a child that ends"));
}

/// Ids made in a signal handler differ from those of the interrupted code and of all other threads,
/// even if the handler interrupts another handler.
#[test]
fn handlers_make_different_ids() {
    const HANDLED_MAX: usize = 2_000_000;
    static HANDLED: [AtomicU64; HANDLED_MAX] = [const { AtomicU64::new(0) }; HANDLED_MAX];
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    fn handler() {
        // Three ids, so that more handlers are interrupted while they make one.
        for id in [make(), make(), make()] {
            if let Some(slot) = HANDLED.get(COUNT.fetch_add(1, Relaxed)) {
                slot.store(id.get(), Relaxed);
            }
        }
    }
    // Several threads, because a thread starts with a used-up block, the most error-prone state.
    // Many ids, so that more blocks are used up.
    const KEPT: usize = 700_000;
    let mut seen = HashSet::new();
    for handled_until in [1_500, 3_000, 4_500, 6_000] {
        let thread = std::thread::spawn(move || {
            let mut ids = vec![0; KEPT];
            let deadline = Instant::now() + Duration::from_secs(60);
            let interrupted = while_interrupted(handler, || {
                // A busy machine may be slow to send signals, so the loop may go on; the latest ids
                // are kept.
                let more = || COUNT.load(Relaxed) < handled_until && Instant::now() < deadline;
                for round in (0..).take_while(|round| *round < KEPT / 1000 || more()) {
                    for index in 0..1000 {
                        ids[(round * 1000 + index) % KEPT] = make().get();
                    }
                }
            });
            interrupted.map(|()| ids)
        });
        check_new(&mut seen, thread.join().expect("no panic").expect("signals"));
        let handled = COUNT.load(Relaxed);
        assert!(handled >= handled_until, "only {handled} ids were made in handlers");
    }
    let handled = COUNT.load(Relaxed).min(HANDLED_MAX);
    check_new(&mut seen, HANDLED[..handled].iter().map(|id| id.load(Relaxed)));
}

/// Destructors that run when a thread ends can make ids.
#[test]
fn ending_threads_make_ids() {
    struct AtEnd(mpsc::Sender<Vec<u64>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let _ = self.0.send(some(10));
        }
    }
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    let mut seen = HashSet::new();
    for ids_before in [0, 10] {
        let sender = sender.clone();
        let thread = std::thread::spawn(move || {
            AT_END.with_borrow_mut(|slot| *slot = Some(AtEnd(sender)));
            some(ids_before)
        });
        check_new(&mut seen, thread.join().expect("no panic"));
        check_new(&mut seen, receiver.recv().expect("ids of the ending thread"));
    }
    assert_eq!(seen.len(), 30);
}

/// Each bit is set in half of 65536 ids, and flips between half of all successive ids, within six
/// standard deviations.
#[test]
fn ids_look_random() {
    let ids = some(1 << 16);
    let check = |what: &str, words: &[u64]| {
        let half = words.len() as f64 / 2.0;
        let allowed = 6.0 * (words.len() as f64 / 4.0).sqrt();
        for bit in 0..64 {
            let set = words.iter().filter(|word| *word >> bit & 1 == 1).count() as f64;
            assert!((set - half).abs() < allowed, "{what}, bit {bit}: {set} of {}", words.len());
        }
    };
    check("set", &ids);
    let steps: Vec<u64> = ids.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
    check("flipped", &steps);
}

#[test]
fn ids_as_text() {
    let check = |number: u128, expected: &str| {
        let shown = TraceId::from_number(number).map(|id| id.to_string()).unwrap_or_default();
        assert_eq!(shown, expected);
    };
    check(0, "");
    check(1, "0000000000000001");
    check(u128::from(u64::MAX), "ffffffffffffffff");
    check(1 << 64, "00000000000000010000000000000000");
    check(u128::MAX, "ffffffffffffffffffffffffffffffff");
    let span = SpanId::from_number(0xabc).expect("not zero");
    assert_eq!(span.to_string(), "0000000000000abc");
    assert_eq!(
        format!("{span:?} {:?}", TraceId::from(span)),
        "SpanId(0000000000000abc) TraceId(0000000000000abc)"
    );
    assert_eq!(SpanId::from_number(0), None);
}
