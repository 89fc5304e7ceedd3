//! Many threads record at once, and migrate all the time. Signal handlers that also record
//! interrupt them tens of thousands of times a second. Meanwhile a reader consumes all packets.
//! Every event is whole, and each thread's events are in order in each ring. In discard mode,
//! recorded and lost events add up to all attempts.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, Slot};
use blkkin_sys::testing::Random;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Harvest, Set, move_to, record, shape};

const THREADS: u64 = 24;
/// Number of the signal handler among the writers; the handler counts as a separate writer.
const HANDLER: u64 = 1000;
/// Events that the handler records in each storm, at least.
const INTERRUPTIONS: u64 = 1000;
/// Time after which a storm fails in which the handler has recorded fewer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Slot that the signal handler records into.
static SLOT: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());
static FROM_HANDLER: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static HANDLER_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Lock by which tests run one at a time, because the signal belongs to the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: null or a slot that outlives the timer.
    #[expect(unsafe_code)]
    let slot = unsafe { SLOT.load(Ordering::Acquire).as_ref() };
    if let Some(slot) = slot {
        let number = HANDLER_NUMBER.fetch_add(1, Ordering::Relaxed);
        let outcome = record(slot, HANDLER, number);
        let index = usize::from(outcome == Outcome::Recorded);
        FROM_HANDLER[index].fetch_add(1, Ordering::Relaxed);
    }
}

/// A timer whose signal interrupts this thread a thousand times a second, until the timer is
/// dropped.
struct Interruptions(libc::timer_t);

impl Interruptions {
    fn begin() -> Interruptions {
        let period = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let times = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: all arguments live until the calls return; zeros are valid for the event.
        #[expect(unsafe_code)]
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGPROF;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
            assert_eq!(made, 0);
            assert_eq!(libc::timer_settime(timer, 0, &times, std::ptr::null_mut()), 0);
            Interruptions(timer)
        }
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        // SAFETY: created above, and deleted once.
        #[expect(unsafe_code)]
        unsafe {
            libc::timer_delete(self.0);
        }
    }
}

fn handle_signal() {
    // SAFETY: the handler is async-signal-safe; the rest of the action is zero.
    #[expect(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
    }
}

fn storm(with_sequences: bool, mode: Mode) {
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    let set = Set::new(shape(processors + 1, 128 << 10, 4, mode));
    let clock = if blkkin_sys::tsc_is_steady() { Clock::Tsc } else { Clock::Monotonic };
    let writer = set.writer(clock);
    let slot = Slot::new();
    slot.put(Box::new(if with_sequences { writer } else { writer.without_sequences() })).unwrap();
    for counter in FROM_HANDLER.iter().chain([&HANDLER_NUMBER]) {
        counter.store(0, Ordering::Relaxed);
    }
    SLOT.store((&raw const slot).cast_mut(), Ordering::Release);
    handle_signal();

    let (mut readers, mut harvest) = (set.readers(clock), Harvest::default());
    let is_over = AtomicBool::new(false);
    let outcomes: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|who| {
                let (slot, is_over) = (&slot, &is_over);
                scope.spawn(move || {
                    let _interruptions = Interruptions::begin();
                    let mut random = Random::new(who + 1);
                    let (mut recorded, mut number) = (0, 0);
                    while !is_over.load(Ordering::Relaxed) {
                        for _ in 0..random.below(200) {
                            recorded += u64::from(record(slot, who, number) == Outcome::Recorded);
                            number += 1;
                        }
                        match random.below(4) {
                            0 => move_to(random.below(processors as u64) as usize),
                            1 => std::thread::yield_now(),
                            _ => {}
                        }
                    }
                    (recorded, number)
                })
            })
            .collect();
        let begin = Instant::now();
        // A processor that other programs use leaves fewer interruptions in the same time.
        let is_enough = || {
            let interruptions = FROM_HANDLER[1].load(Ordering::Relaxed);
            begin.elapsed() > Duration::from_millis(600) && interruptions > INTERRUPTIONS
        };
        while !is_enough() && begin.elapsed() < TIMEOUT {
            set.take_all(&mut readers, true, &mut harvest);
            std::thread::sleep(Duration::from_micros(200));
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    SLOT.store(std::ptr::null_mut(), Ordering::Release);
    assert!(slot.take(Duration::from_secs(10)).unwrap().is_some());
    set.take_all(&mut readers, true, &mut harvest);
    let what = format!("{mode:?}, sequences: {with_sequences}");

    let from_handler = FROM_HANDLER.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    let tried: u64 =
        outcomes.iter().map(|(_, tried)| tried).sum::<u64>() + from_handler[0] + from_handler[1];
    let recorded: u64 =
        outcomes.iter().map(|(recorded, _)| recorded).sum::<u64>() + from_handler[1];
    assert!(
        from_handler[1] > INTERRUPTIONS,
        "{what}: the handler recorded only {} events",
        from_handler[1]
    );
    if mode == Mode::Discard {
        assert_eq!(harvest.events.len() as u64, recorded, "{what}");
        let lost: u64 = set.lost();
        assert_eq!(recorded + lost, tried, "{what}");
        set.finish_all(&mut readers, &mut harvest);
        assert_eq!(harvest.discarded(), lost, "{what}");
    } else {
        assert!(harvest.events.len() as u64 <= recorded, "{what}");
        assert!(harvest.overwritten > 0 || harvest.events.len() as u64 == recorded, "{what}");
    }
    // A thread's events are in order in each ring, and no event is duplicated.
    let mut last: HashMap<(usize, u64), u64> = HashMap::new();
    let mut seen = std::collections::HashSet::new();
    for (ring, who, number, _) in &harvest.events {
        assert!(seen.insert((*who, *number)), "{what}: event {number} of {who} twice");
        // The handlers of all threads share one sequence of numbers.
        if *who != HANDLER
            && let Some(before) = last.insert((*ring, *who), *number)
        {
            assert!(before < *number, "{what}: {who} has {number} after {before}");
        }
    }
}

#[test]
fn nothing_is_torn_or_lost_uncounted() {
    for mode in [Mode::Discard, Mode::Overwrite] {
        for with_sequences in [true, false] {
            storm(with_sequences, mode);
        }
    }
}
