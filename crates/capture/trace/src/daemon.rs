//! The program's end of the conversation with the node daemon, which finds out by it which programs can
//! be traced, and tells them what to record where. What is said is in [`blkkin_control`].
//!
//! # The thread
//!
//! It exists if a daemon accepted when the program started, or later. It is called `blkkin`, has all signals
//! blocked and a small stack, and sleeps until a daemon says something.
//! When a daemon goes, the thread looks for another one every 0.5 s, and its channels are kept for that one
//! for some seconds. While there is somebody to talk to, others that may come are not looked for: the
//! kernel tells when something comes where they would be. No panic leaves the thread.
//!
//! It is begun before `main`, by the module `start`; so `main` finds nothing changed but that thread. The
//! start waits until the thread runs, because a program may then forbid itself what threads do at first, and
//! until the daemon has said what to record: not long, see `WaitLimits`.
//!
//! A daemon that comes later rings the program's bell, and the next event begins the thread. Events can
//! come in signal handlers, where no thread can be made: those leave it to the next one. So nothing is needed
//! for a daemon that never comes but the look at one word.
//!
//! # Life of a process
//!
//! - **fork**: the child writes to none of its parent's rings ([`channels`](crate::channels)) and closes its
//!   descriptors. If the parent had the thread, the child's first event begins one, for which the daemon takes
//!   it for what it is: another process. Where the parent had something to record, that event waits as the
//!   start does. A child of the bare system call gets a thread from [`start`].
//! - **vfork**, **exec**: all descriptors are closed by `exec`, and the new program begins anew.
//! - **closefrom** and the like: descriptors have high numbers, and one that the program has closed is not
//!   used; see [`blkkin_sys::descriptor`]. The connection is then begun anew, as soon as that is noticed:
//!   shortly after it was begun, and whenever the daemon says something. A program without a connection is
//!   not found by daemons that come after that.
//! - **exit**: the daemon is told, if its socket has room.
//! - **Set-user-id programs** are not traced, and read none of the variables.
//!
//! # Environment
//!
//! Variables are read once, before `main`.
//!
//! | variable | what it says |
//! | --- | --- |
//! | `BLKKIN_DISABLE` | 1: do nothing at all |
//! | `BLKKIN_SOCKET` | the one socket where a daemon may listen |
//! | `BLKKIN_WAIT` | so many milliseconds a daemon may have before `main` |
//! | `BLKKIN_PROGRAM` | the program's name, as users see it |
//! | `BLKKIN_SAMPLE` | which requests are followed: [`sample`](crate::sample) |
//! | `BLKKIN_DEBUG` | 1: tell mistakes on standard error |

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
use blkkin_sys::descriptor::{close_inherited, each_held};
use blkkin_sys::socket::send_now;
use blkkin_sys::{monotonic_ns, process};
use connections::Connections;
use settings::WaitLimits;
use state::{ATTACHES, DECIDES, FIRST_EVENT, HAD_RULES, STATE};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Set once there was a thread in this process or in one that it was forked from.
static EVER_RAN: AtomicBool = AtomicBool::new(false);
/// Set by [`hold`]: the start is put off until [`let_go`].
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// Set by [`begin_children_at_once`].
static IS_EAGER: AtomicBool = AtomicBool::new(false);

/// Looks for a daemon, if there is none yet and nobody has looked within the last second, and begins to
/// talk to it. What it wants is recorded a moment later. Programs need not call this: a daemon that is started
/// after them is found by their next event. Not to be called in a signal handler.
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

/// Has this program look for no daemon until [`let_go`]: it is a traced one only in some of its forms. That counts before
/// `main` alone, ahead of what this library does there: in a function of `.init_array.00100`.
pub fn hold() {
    IS_HELD.store(true, Ordering::Relaxed);
}

/// Does what was held back, if it was.
pub fn let_go() {
    if IS_HELD.swap(false, Ordering::Relaxed) {
        before_main();
    }
}

/// What happens before `main`.
pub(crate) fn before_main() {
    catch_panics(|| {
        let settings = settings::get();
        if settings.is_inert {
            bell::listen();
            decision::decide_all();
        } else if !IS_HELD.load(Ordering::Relaxed) {
            start_thread(settings.wait_limits);
        }
    });
}

/// What happens at a regular end.
pub(crate) fn after_main() {
    catch_panics(|| {
        let [runs] = STATE.words();
        let mut goodbye = Vec::new();
        let is_written = encode(&FromApplication::Goodbye, &mut goodbye).is_ok();
        if is_written && runs.load(Ordering::Acquire) != 0 {
            each_held(purpose::GREETED, |socket| send_now(socket, &goodbye));
        }
        bell::withdraw_page();
    });
}

/// Reserves the right to begin the process's one thread. False if there is a thread, or may be none.
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

/// Begins to connections, if a daemon listens, and waits for what it says.
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
        // A parent's, that is: a thread of this process would have dropped its own.
        bell::withdraw_page();
        close_inherited();
    }
    let mut connections = Connections::new();
    if !connections.connect() {
        // A daemon that has started between the two attempts has not seen the page.
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
        run_for(&mut connections, limits);
        shared.has_rules.store(true, Ordering::Release);
        run_to_end(connections);
    })?;
    // A seccomp filter that the program installs while the C library sets the thread up could end the program.
    wait_until(Duration::from_secs(1), || progress.is_running.load(Ordering::Acquire));
    wait_until(limits.rules, || progress.has_rules.load(Ordering::Acquire));
    Some(())
}

/// Progress of a new thread.
#[derive(Debug, Default)]
struct StartProgress {
    is_running: AtomicBool,
    /// The daemon has said what to record, or has taken too long.
    has_rules: AtomicBool,
}

/// Polls a condition that another thread is about to make true, up to a limit.
fn wait_until(most: Duration, is_done: impl Fn() -> bool) {
    let end = Instant::now() + most;
    let mut pause = Duration::from_micros(20);
    while !is_done() && Instant::now() < end {
        std::thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(2));
    }
}

/// Slow path of an event whose type is undecided because a daemon has called, or because this is a child: begins
/// the thread, and in a child waits for the rules.
#[cold]
#[inline(never)]
pub(crate) fn start_for_event() {
    /// Pause after an attempt on a thread that cannot begin another one, for example in a signal handler.
    const PAUSE_NS: u64 = 1_000_000;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let [runs, child, filters] = STATE.words();
    // Another event may have begun the thread meanwhile.
    let is_heeded = bell::is_quiet() || bell::is_listening() || runs.load(Ordering::Acquire) != 0;
    let now = monotonic_ns();
    if is_heeded && child.load(Ordering::Acquire) == 0 || now < NEXT.load(Ordering::Relaxed) {
        return;
    }
    let is_child = child.load(Ordering::Acquire) != 0;
    let filters = if is_child { filters } else { bell::filters() };
    if !may_begin(filters.load(Ordering::Relaxed)) {
        NEXT.store(now + PAUSE_NS, Ordering::Relaxed);
        return;
    }
    if !is_child {
        return catch_panics(start_thread_on_call);
    }
    catch_panics(start_thread_in_child);
    if child.load(Ordering::Acquire) & HAD_RULES != 0 {
        // The thread gives up before.
        let most = settings::get().wait_limits.rules * 2;
        wait_until(most, || child.load(Ordering::Acquire) == 0);
    }
}

/// Whether this thread can begin another one, and is permitted what that takes, as far as is known:
/// it has as many seccomp filters as the process had before. A filter of its own may kill it for
/// more than the one question.
fn may_begin(filters: u64) -> bool {
    let has_seccomp = process::has_seccomp();
    if has_seccomp && filters == 0 || !process::may_start_thread() {
        return false;
    }
    !has_seccomp || process::seccomp_filters() == Some(filters)
}

/// Begins the thread because of a call, which need not come from a daemon: any process that may open the page
/// can write to it.
#[inline(never)]
fn start_thread_on_call() {
    let body = || {
        let mut connections = Connections::new();
        if !connections.connect() || !crate::channels::prepare() || !register_fork_handler() {
            bell::clear_call();
            return release_thread();
        }
        bell::withdraw_page();
        run_to_end(connections);
    };
    process::without_signals(|| {
        if claim_thread() && spawn_thread(body).is_none() {
            bell::clear_call();
            release_thread();
        }
    });
}

/// Begins the thread of a child, unless it has one.
#[inline(never)]
fn start_thread_in_child() {
    let body = || {
        let mut connections = Connections::new();
        let is_met = connections.connect();
        let limits = settings::get().wait_limits;
        run_for(&mut connections, if is_met { limits } else { WaitLimits::NONE });
        let [_, child] = STATE.words();
        // The waiting event may continue only after `decide_all`, whose last step updates the levels that C's
        // macros read.
        child.store(DECIDES | child.load(Ordering::Relaxed) & HAD_RULES, Ordering::SeqCst);
        decision::decide_all();
        child.store(0, Ordering::SeqCst);
        run_to_end(connections);
    };
    process::without_signals(|| {
        if !claim_thread() {
            return;
        }
        let [_, child] = STATE.words();
        let before = child.load(Ordering::Acquire);
        child.store(ATTACHES | before & HAD_RULES, Ordering::Release);
        if spawn_thread(body).is_none() {
            child.store(before, Ordering::Release);
            release_thread();
        }
    });
}

/// Talks as long as the program waits at most, or until the daemons have said what to record.
fn run_for(connections: &mut Connections, limits: WaitLimits) {
    let begin = Instant::now();
    let (greeting, orders) = (begin + limits.greeting, begin + limits.rules);
    connections.run_until(
        |connections| connections.is_greeted() || Instant::now() >= greeting,
        Some(greeting),
    );
    if connections.is_greeted() {
        connections.run_until(
            |connections| connections.has_answered() || Instant::now() >= orders,
            Some(orders),
        );
    }
}

/// Talks to the end.
fn run_to_end(mut connections: Connections) {
    // Where it ends, no daemon will ever want to talk to this program, or there was a panic. So no other
    // thread is progress.
    catch_panics(|| connections.run_until(|connections| connections.is_over(), None));
    catch_panics(|| drop(connections));
}

/// Begins the thread.
fn spawn_thread(body: impl FnOnce() + Send + 'static) -> Option<()> {
    process::keep_loaded(after_main);
    EVER_RAN.store(true, Ordering::Release);
    let thread = std::thread::Builder::new().name("blkkin".to_owned()).stack_size(STACK_SIZE);
    process::without_signals(|| thread.spawn(move || catch_panics(body))).ok().map(drop)
}

/// Room for filters of the deepest nesting, and for what the C library puts there.
const STACK_SIZE: usize = 256 << 10;

/// False if the C library cannot tell of forks.
fn register_fork_handler() -> bool {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    let is_new = !IS_REGISTERED.swap(true, Ordering::AcqRel);
    !is_new || process::in_forked_children(in_child)
}

/// Has children begin their thread at the fork instead of with their first event. For callers that cache that an
/// event is not wanted, and so would never have a first event in a child.
pub fn begin_children_at_once() {
    IS_EAGER.store(true, Ordering::Relaxed);
}

/// On the only thread of a child. Its parent may have been anywhere, so no lock of the parent's is taken.
extern "C" fn in_child() {
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
        if IS_EAGER.load(Ordering::Relaxed) {
            start_thread_in_child();
        }
    });
}

/// Keeps panics from the program.
fn catch_panics(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // Dropping what somebody panicked with could panic again.
        std::mem::forget(payload);
    }
}
