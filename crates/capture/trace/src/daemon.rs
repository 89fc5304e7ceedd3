//! The program's end of the conversation with the node daemon, which finds out by it which programs can
//! be traced, and tells them what to record where. What is said is in [`blkkin_control`].
//!
//! # The thread
//!
//! It exists if a daemon accepted when the program started, or when [`start`] was called later. It is
//! called `blkkin`, has all signals blocked and a small stack, and sleeps until a daemon says something.
//! When a daemon goes, the thread looks for another one every 0.5 s, and its channels are kept for that one
//! for some seconds. While there is somebody to talk to, others that may come are not looked for: the
//! kernel tells when something comes where they would be. No panic leaves the thread.
//!
//! It is begun before `main`, by the module `start`; so `main` finds nothing changed but that thread.
//! Nobody waits for the daemon, except where `BLKKIN_WAIT` says for how long: then all that is enabled
//! when the program starts is recorded from the first line of `main` on.
//!
//! # Life of a process
//!
//! - **fork**: the child writes to none of its parent's rings ([`channels`](crate::channels)), closes its
//!   descriptors, and, if the parent had the thread, begins one of its own, for which the daemon takes it
//!   for what it is: another process. Its events count from some milliseconds on; where `BLKKIN_WAIT` is
//!   set, from the first, for which `fork` waits. A child of the bare system call gets one from [`start`].
//! - **vfork**, **exec**: all descriptors are closed by `exec`, and the new program begins anew.
//! - **closefrom** and the like: descriptors have high numbers, and one that the program has closed is not
//!   used; see [`blkkin_sys::descriptor`]. The connection is then begun anew, as soon as that is noticed:
//!   shortly after it was begun, and whenever the daemon says something.
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

pub(crate) mod catalog;
mod connection;
mod settings;
mod thread;

use blkkin_control::{FromApplication, encode};
use blkkin_sys::descriptor::{close_inherited, each_held};
use blkkin_sys::socket::send_now;
use blkkin_sys::{WipedOnFork, process};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thread::Talk;

/// Whether there is a thread, or was; a child has none.
static RUNS: WipedOnFork = WipedOnFork::new();
/// Whether there ever was one, in this process or in one that it descends from.
static EVER_RAN: AtomicBool = AtomicBool::new(false);
/// Whether what happens before `main` is to happen later.
static HELD: AtomicBool = AtomicBool::new(false);

/// Looks for a daemon, if there is none yet and nobody has looked within the last second, and begins to
/// talk to it. What it wants is recorded a moment later. Programs need not call this, unless the daemon may
/// be started after them. Not to be called in a signal handler.
pub fn start() {
    const PAUSE_NS: u64 = 1_000_000_000;
    static LAST: AtomicU64 = AtomicU64::new(0);
    quietly(|| {
        let (now, last) = (blkkin_sys::monotonic_ns(), LAST.load(Ordering::Relaxed));
        let is_due = last == 0 || now.saturating_sub(last) >= PAUSE_NS;
        let relaxed = Ordering::Relaxed;
        if is_due && LAST.compare_exchange(last, now, relaxed, relaxed).is_ok() {
            begin(Duration::ZERO);
        }
    });
}

/// Has this program look for no daemon until [`let_go`]: it is a traced one only in some of its forms. That counts before
/// `main` alone, ahead of what this library does there: in a function of `.init_array.00100`.
pub fn hold() {
    HELD.store(true, Ordering::Relaxed);
}

/// Does what was held back, if it was.
pub fn let_go() {
    if HELD.swap(false, Ordering::Relaxed) {
        before_main();
    }
}

/// What happens before `main`.
pub(crate) fn before_main() {
    quietly(|| {
        let settings = settings::get();
        if !settings.is_inert && !HELD.load(Ordering::Relaxed) {
            begin(settings.wait);
        }
    });
}

/// What happens at a regular end.
pub(crate) fn after_main() {
    quietly(|| {
        let [runs] = RUNS.words();
        let mut goodbye = Vec::new();
        let is_written = encode(&FromApplication::Goodbye, &mut goodbye).is_ok();
        if is_written && runs.load(Ordering::Acquire) != 0 {
            each_held(connection::GREETED, |socket| send_now(socket, &goodbye));
        }
    });
}

/// Begins to talk, if a daemon listens, and talks to it for so long, or until it has told all.
fn begin(wait: Duration) {
    let [runs] = RUNS.words();
    let is_first = || runs.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if settings::get().is_inert || !RUNS.arm() || !is_first() {
        return;
    }
    if begin_first(wait).is_none() {
        runs.store(0, Ordering::Release);
    }
}

fn begin_first(wait: Duration) -> Option<()> {
    // A parent's, that is: a thread of this process would have dropped its own.
    close_inherited();
    let mut talk = Talk::new();
    if !talk.connect() || !crate::channels::prepare() {
        return None;
    }
    hear_of_forks()?;
    talk_for(&mut talk, wait);
    run(talk, Duration::ZERO)
}

/// Talks for so long, or until the daemons have told all.
fn talk_for(talk: &mut Talk, wait: Duration) {
    let end = Instant::now() + wait;
    talk.until(|talk| talk.has_answered() || Instant::now() >= end, Some(end));
}

/// Has the thread go on with it, a moment later.
fn run(mut talk: Talk, moment: Duration) -> Option<()> {
    process::keep_loaded(after_main);
    EVER_RAN.store(true, Ordering::Release);
    // Where it ends, no daemon will ever want to talk to this program, or there was a panic. So no other
    // one is begun.
    let body = move || {
        quietly(|| {
            std::thread::sleep(moment);
            talk.until(|talk| talk.is_over(), None);
        });
        quietly(|| drop(talk));
    };
    let thread = std::thread::Builder::new().name("blkkin".to_owned()).stack_size(STACK_SIZE);
    process::without_signals(|| thread.spawn(body)).ok().map(drop)
}

/// Room for filters of the deepest nesting, and for what the C library puts there.
const STACK_SIZE: usize = 256 << 10;

fn hear_of_forks() -> Option<()> {
    static HEARS: AtomicBool = AtomicBool::new(false);
    let is_new = !HEARS.swap(true, Ordering::AcqRel);
    (!is_new || process::in_forked_children(in_child)).then_some(())
}

/// Most children become another program before that, or have done with replacing their files.
const CHILDS_MOMENT: Duration = Duration::from_millis(5);

/// On the only thread of a child. Its parent may have been anywhere, so no lock of the parent's is taken.
extern "C" fn in_child() {
    quietly(|| {
        let [runs] = RUNS.words();
        let had_thread = EVER_RAN.load(Ordering::Acquire);
        let is_first = runs.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if had_thread && is_first {
            close_inherited();
            let (mut talk, wait) = (Talk::new(), settings::get().wait);
            let moment = match wait.is_zero() {
                true => CHILDS_MOMENT,
                false => Duration::ZERO,
            };
            if !wait.is_zero() && talk.connect() {
                talk_for(&mut talk, wait);
            }
            if run(talk, moment).is_none() {
                runs.store(0, Ordering::Release);
            }
        }
    });
}

/// Keeps panics from the program.
fn quietly(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // Dropping what somebody panicked with could panic again.
        std::mem::forget(payload);
    }
}
