//! The program's side of the connection to the agent, the daemon of the node. The agent finds
//! programs that can be traced, and sends them the rules that select events. The protocol is in
//! [`blkkin_control`].
//!
//! # The thread
//!
//! The thread starts once the program has found an agent, or an agent has rung the program's bell:
//! a word in a shared page (module `bell`) by which an agent requests a connection. The thread is
//! called `blkkin`, blocks all signals, has a small stack, and sleeps until an agent sends a
//! message. When an agent has exited, the thread searches for another one every 0.5 s, and keeps
//! the channels for the next agent for some seconds. While a connection exists, the thread polls
//! for further agents for a second only; then the kernel notifies it of files that appear at their
//! paths. No panic leaves the thread.
//!
//! The module `start` starts the thread before `main`, so that `main` finds nothing changed but
//! that thread. The start waits until the thread runs, because the program may then forbid itself
//! the system calls that a new thread makes first. The start also waits until the agent has sent
//! the rules, within the limits of `WaitLimits`.
//!
//! An agent that starts later than the program rings the program's bell, and the next event starts
//! the thread. An event in a signal handler cannot start a thread, so the next event outside of a
//! handler does. So waiting for an agent costs only a few loads per event.
//!
//! # Life of a process
//!
//! - **fork**: the child does not write to its parent's rings ([`channels`](crate::channels)) and
//!   closes the inherited descriptors. If the parent had the thread, the child's first event starts
//!   one, and the agent treats the child as another process. If the parent had rules, that event
//!   waits like the start. A child of the bare system call gets a thread from [`start`].
//! - **vfork**, **exec**: `exec` closes all descriptors, and the new program starts from scratch.
//! - **closefrom** and the like: descriptors have high numbers, and a descriptor that the program
//!   has closed is not used; see [`blkkin_sys::descriptor`]. Shortly after it has connected, and at
//!   each message of the agent, the thread checks whether the connection was closed, and then
//!   connects again. If the program has closed the page of its bell, agents that start later do not
//!   find the program.
//! - **exit**: a `Goodbye` is sent to the agent, if it fits into the socket's buffer.
//! - **Set-user-id programs** are not traced, and read none of the variables.
//!
//! # Environment
//!
//! Variables are read once, before `main`.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `BLKKIN_DISABLE` | 1: do nothing at all |
//! | `BLKKIN_SOCKET` | the only socket where an agent may listen |
//! | `BLKKIN_WAIT` | milliseconds to wait for rules before `main` and at a child's first event |
//! | `BLKKIN_PROGRAM` | the program's name, as users see it |
//! | `BLKKIN_SAMPLE` | which requests are sampled: [`sample`](crate::sample) |
//! | `BLKKIN_DEBUG` | 1: report mistakes on standard error |

pub(crate) mod bell;
pub(crate) mod catalog;
mod catalog_file;
mod connection;
mod connections;
mod purpose;
mod settings;
pub(crate) mod state;

use crate::registry::decision;
use blkkin_control::{FromApplication, encode};
use blkkin_sys::descriptor::{close_inherited, each_registered};
use blkkin_sys::socket::send_now;
use blkkin_sys::{monotonic_ns, process};
use connections::Connections;
use settings::WaitLimits;
use state::{ATTACHING, DECIDING, FIRST_EVENT, HAD_RULES, STATE};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Set before the thread is spawned in this process, or in a process from which this one was
/// forked.
static EVER_RAN: AtomicBool = AtomicBool::new(false);
/// Set by [`postpone_start`]: the start is postponed until [`start_postponed`].
static IS_POSTPONED: AtomicBool = AtomicBool::new(false);
/// Set by [`start_children_at_fork`]: the fork handler starts the thread of a child.
static STARTS_AT_FORK: AtomicBool = AtomicBool::new(false);

/// Connects to an agent, unless there is a connection; at most one attempt a second. The agent's
/// rules apply a moment later. Programs need not call this function, because their next event finds
/// an agent that starts later. Must not be called in a signal handler.
pub fn start() {
    const PAUSE_NS: u64 = 1_000_000_000;
    static LAST: AtomicU64 = AtomicU64::new(0);
    catch_panics(|| {
        let (now, last) = (monotonic_ns(), LAST.load(Ordering::Relaxed));
        let is_due = last == 0 || now.saturating_sub(last) >= PAUSE_NS;
        let relaxed = Ordering::Relaxed;
        if is_due && LAST.compare_exchange(last, now, relaxed, relaxed).is_ok() {
            start_thread(WaitLimits::NONE);
        }
    });
}

/// Postpones the search for an agent until [`start_postponed`], for a program that is traced only
/// in some of its modes. Works only before `main` and before this library's own start: in a
/// function of `.init_array.00100`.
pub fn postpone_start() {
    IS_POSTPONED.store(true, Ordering::Relaxed);
}

/// Starts the search for an agent that [`postpone_start`] has postponed.
pub fn start_postponed() {
    if IS_POSTPONED.swap(false, Ordering::Relaxed) {
        before_main();
    }
}

/// Starts the thread if an agent listens, and otherwise publishes the bell's page; does neither
/// while the start is postponed. If the library is disabled, decides all event types instead,
/// because no thread will.
pub(crate) fn before_main() {
    catch_panics(|| {
        let settings = settings::get();
        if settings.is_inert {
            bell::enable_decisions();
            decision::decide_all();
        } else if !IS_POSTPONED.load(Ordering::Relaxed) {
            start_thread(settings.wait_limits);
        }
    });
}

/// Sends `Goodbye` to the agents at exit, and withdraws the bell's page.
pub(crate) fn after_main() {
    catch_panics(|| {
        let [runs] = STATE.words();
        let mut goodbye = Vec::new();
        let is_written = encode(&FromApplication::Goodbye, &mut goodbye).is_ok();
        if is_written && runs.load(Ordering::Acquire) != 0 {
            each_registered(purpose::ACCEPTED, |socket| send_now(socket, &goodbye));
        }
        bell::withdraw_page();
    });
}

/// Claims the right to start the library's only thread. Returns false if the process has that
/// thread already, or must not have it.
fn claim_thread() -> bool {
    let [runs] = STATE.words();
    let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
    !settings::get().is_inert
        && STATE.arm()
        && runs.compare_exchange(0, 1, acquire, relaxed).is_ok()
}

fn release_thread() {
    let [runs] = STATE.words();
    runs.store(0, Ordering::Release);
}

/// Starts the thread if an agent listens, and waits for the agent's rules within `limits`.
/// Otherwise publishes the bell's page. In a forked child, starts the thread in any case and does
/// not wait.
fn start_thread(limits: WaitLimits) {
    let [_, child] = STATE.words();
    if child.load(Ordering::Acquire) != 0 {
        start_thread_in_child();
    } else if claim_thread() && start_first_thread(limits).is_none() {
        release_thread();
    }
}

fn start_first_thread(limits: WaitLimits) -> Option<()> {
    if EVER_RAN.load(Ordering::Acquire) {
        // The page is the parent's, or this process's after a call that led to no connection: a
        // thread with a connection has withdrawn the page.
        bell::withdraw_page();
        close_inherited();
    }
    let mut connections = Connections::new();
    if !connections.connect() {
        // An agent that started between the two attempts has not found the page.
        bell::publish_page();
        connections = Connections::new();
        if !connections.connect() {
            return None;
        }
    }
    bell::withdraw_page();
    (crate::channels::prepare() && register_fork_handler()).then_some(())?;
    let progress = Arc::new(StartProgress::default());
    let shared = Arc::clone(&progress);
    spawn_thread(move || {
        shared.is_running.store(true, Ordering::Release);
        serve_until_rules(&mut connections, limits);
        shared.has_rules.store(true, Ordering::Release);
        serve_to_end(connections);
    })?;
    // If the program installs a seccomp filter while the C library still initialises the thread,
    // the filter could end the program.
    wait_until(Duration::from_secs(1), || progress.is_running.load(Ordering::Acquire));
    wait_until(limits.rules, || progress.has_rules.load(Ordering::Acquire));
    Some(())
}

/// Progress of a new thread, shared with the thread that started it.
#[derive(Debug, Default)]
struct StartProgress {
    is_running: AtomicBool,
    /// Set once the agent has sent its rules, or a time limit has passed.
    has_rules: AtomicBool,
}

/// Polls until another thread makes a condition true, or until a time limit. The pauses grow with
/// the time waited, so that a thousand waiting programs leave the processors to the agent. The
/// condition is noticed late by at most 2 ms, or a sixteenth of that time.
fn wait_until(most: Duration, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        let waited = start.elapsed();
        if is_done() || waited >= most {
            return;
        }
        std::thread::sleep(pause.min(most - waited));
        pause = (pause * 5 / 4).min((waited / 16).max(Duration::from_millis(2)));
    }
}

/// Starts the thread, and in a forked child whose parent had rules waits for the child's rules.
/// Slow path of an event with an undecided type: an agent has requested a connection (see `bell`),
/// or this is a forked child.
#[cold]
#[inline(never)]
pub(crate) fn start_for_event() {
    /// Pause in nanoseconds after an attempt by a thread that cannot start another thread, such as
    /// a thread in a signal handler.
    const PAUSE_NS: u64 = 1_000_000;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let [runs, child, filters] = STATE.words();
    // Another event may have started the thread meanwhile.
    let is_served =
        bell::is_quiet() || bell::are_decisions_enabled() || runs.load(Ordering::Acquire) != 0;
    let now = monotonic_ns();
    if is_served && child.load(Ordering::Acquire) == 0 || now < NEXT.load(Ordering::Relaxed) {
        return;
    }
    let is_child = child.load(Ordering::Acquire) != 0;
    let filters = if is_child { filters } else { bell::filters() };
    if !can_start_thread(filters.load(Ordering::Relaxed)) {
        NEXT.store(now + PAUSE_NS, Ordering::Relaxed);
        return;
    }
    if !is_child {
        return catch_panics(start_thread_on_call);
    }
    catch_panics(start_thread_in_child);
    if child.load(Ordering::Acquire) & HAD_RULES != 0 {
        // The thread's own limit is half of this, so the thread gives up first.
        let most = settings::get().wait_limits.rules * 2;
        wait_until(most, || child.load(Ordering::Acquire) == 0);
    }
}

/// Returns true if this thread can start another one, and is probably permitted the system calls
/// for that: it has as many seccomp filters as the process had at the fork, or when it published
/// the bell's page. The function must not simply try, because an additional filter may kill the
/// process for a forbidden call.
fn can_start_thread(filters: u64) -> bool {
    let has_seccomp = process::has_seccomp();
    if has_seccomp && filters == 0 || !process::may_start_thread() {
        return false;
    }
    !has_seccomp || process::seccomp_filters() == Some(filters)
}

/// Starts the thread because the call word of the `bell` is set. The word does not prove that an
/// agent exists: any process that may open the page can write to it.
#[inline(never)]
fn start_thread_on_call() {
    let body = || {
        let mut connections = Connections::new();
        if !connections.connect() || !crate::channels::prepare() || !register_fork_handler() {
            bell::clear_call();
            return release_thread();
        }
        bell::withdraw_page();
        serve_to_end(connections);
    };
    process::without_signals(|| {
        if claim_thread() && spawn_thread(body).is_none() {
            bell::clear_call();
            release_thread();
        }
    });
}

/// Starts the thread of a forked child, unless the child has one.
#[inline(never)]
fn start_thread_in_child() {
    let body = || {
        let mut connections = Connections::new();
        let is_met = connections.connect();
        let limits = settings::get().wait_limits;
        serve_until_rules(&mut connections, if is_met { limits } else { WaitLimits::NONE });
        let [_, child] = STATE.words();
        // The waiting event may continue only after `decide_all`, whose last step updates the
        // levels that C's macros read.
        child.store(DECIDING | child.load(Ordering::Relaxed) & HAD_RULES, Ordering::SeqCst);
        decision::decide_all();
        child.store(0, Ordering::SeqCst);
        serve_to_end(connections);
    };
    process::without_signals(|| {
        if !claim_thread() {
            return;
        }
        let [_, child] = STATE.words();
        let before = child.load(Ordering::Acquire);
        child.store(ATTACHING | before & HAD_RULES, Ordering::Release);
        if spawn_thread(body).is_none() {
            child.store(before, Ordering::Release);
            release_thread();
        }
    });
}

/// Serves the connections until the agents have sent their rules, or a time limit has passed.
fn serve_until_rules(connections: &mut Connections, limits: WaitLimits) {
    let begin = Instant::now();
    let (greeting, orders) = (begin + limits.acceptance, begin + limits.rules);
    connections.run_until(
        |connections| connections.is_accepted() || Instant::now() >= greeting,
        Some(greeting),
    );
    if connections.is_accepted() {
        connections.run_until(
            |connections| connections.has_initial_rules() || Instant::now() >= orders,
            Some(orders),
        );
    }
}

/// Serves the connections until every agent has refused this program for good.
fn serve_to_end(mut connections: Connections) {
    // The flag of a started thread stays set after the end: all agents have refused this program
    // for good, or there was a panic. So no other thread is started.
    catch_panics(|| connections.run_until(|connections| connections.is_refused_by_all(), None));
    catch_panics(|| drop(connections));
}

/// Spawns the thread, with all signals blocked. Returns `None` on failure.
fn spawn_thread(body: impl FnOnce() + Send + 'static) -> Option<()> {
    process::keep_loaded(after_main);
    EVER_RAN.store(true, Ordering::Release);
    let thread = std::thread::Builder::new().name("blkkin".to_owned()).stack_size(STACK_SIZE);
    process::without_signals(|| thread.spawn(move || catch_panics(body))).ok().map(drop)
}

/// Size of the thread's stack, in bytes. Suffices for filters of the deepest nesting, and for the C
/// library's data.
const STACK_SIZE: usize = 256 << 10;

/// Registers [`after_fork`] with the C library, once per process. Returns false on failure.
fn register_fork_handler() -> bool {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    let is_new = !IS_REGISTERED.swap(true, Ordering::AcqRel);
    !is_new || process::in_forked_children(after_fork)
}

/// Makes children start their thread at the fork instead of at their first event. For callers that
/// cache the decision not to record an event, and so would have no first event in a child.
pub fn start_children_at_fork() {
    STARTS_AT_FORK.store(true, Ordering::Relaxed);
}

/// Function registered by [`on_own_work`].
static ON_OWN_WORK: OnceLock<fn(bool)> = OnceLock::new();

/// Registers a function that is called around the work of this library other than recording: with
/// true before, and with false afterwards, on the same thread. It is called on the library's
/// thread, at start, at exit, in a forked child, and when an event starts the thread. Calls may
/// nest. The function must not acquire locks. Only the first registration counts.
///
/// A library that records calls of the C library distinguishes the tracer's own calls by this.
pub fn on_own_work(on_own_work: fn(bool)) {
    let _ = ON_OWN_WORK.set(on_own_work);
}

/// Fork handler, on the only thread of a child. The fork may have interrupted any code of the
/// parent, so the handler locks nothing.
extern "C" fn after_fork() {
    catch_panics(|| {
        let [runs, child, filters] = STATE.words();
        if !EVER_RAN.load(Ordering::Acquire) || runs.load(Ordering::Acquire) != 0 {
            return;
        }
        close_inherited();
        filters.store(process::seccomp_filters().unwrap_or(u64::MAX), Ordering::Relaxed);
        let had_rules = if decision::has_rules() { HAD_RULES } else { 0 };
        child.store(FIRST_EVENT | had_rules, Ordering::SeqCst);
        decision::undecide_all();
        if STARTS_AT_FORK.load(Ordering::Relaxed) {
            start_thread_in_child();
        }
    });
}

/// Runs `work`, as work of this library, and discards a panic.
fn catch_panics(work: impl FnOnce()) {
    let on_own_work = |is_begin: bool| {
        if let Some(on_own_work) = ON_OWN_WORK.get() {
            on_own_work(is_begin);
        }
    };
    on_own_work(true);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // Dropping the panic's payload could panic again.
        std::mem::forget(payload);
    }
    on_own_work(false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Polling at a constant interval of 2 ms takes 500 polls. A slow machine polls less often.
    #[test]
    fn long_waits_poll_rarely() {
        let polls = Cell::new(0);
        wait_until(Duration::from_secs(1), || {
            polls.set(polls.get() + 1);
            false
        });
        assert!((2..150).contains(&polls.get()), "{polls:?}");
    }
}
