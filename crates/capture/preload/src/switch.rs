//! A word that decides whether calls are recorded. Each replaced function loads it first.

use crate::guard;
use blkkin_trace::registry;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Present value of the switch: [`OFF`], [`ON`] or [`UNDECIDED`].
///
/// Relaxed loads and stores: the word orders nothing, and a call at the moment of a change may use
/// either value.
static SWITCH: AtomicU8 = AtomicU8::new(UNDECIDED);

const OFF: u8 = 0;
const ON: u8 = 1;
/// No agent was found yet, or this is a forked child without rules: each call has to check.
const UNDECIDED: u8 = 2;

/// Sets the switch by the decision of the tracer's rules.
pub(crate) fn set(is_on: bool) {
    SWITCH.store(if is_on { ON } else { OFF }, Relaxed);
}

/// Makes each call check for rules, as in a forked child.
pub(crate) fn undecide() {
    SWITCH.store(UNDECIDED, Relaxed);
}

/// Returns false if no call is recorded.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    SWITCH.load(Relaxed) != OFF
}

/// Returns true if calls of this thread are recorded. Called if [`is_on`].
#[inline(always)]
pub(crate) fn is_decided_on() -> bool {
    if SWITCH.load(Relaxed) != ON {
        return !registry::is_quiet() && decide();
    }
    !guard::is_silent()
}

/// Starts the tracer if an agent has requested it, or in a forked child, and waits for the rules as
/// the tracer does at each undecided event. Leaves `errno` unchanged.
#[cold]
#[inline(never)]
fn decide() -> bool {
    if guard::is_silent() {
        return false;
    }
    guard::mark_own_work(true);
    // SAFETY: the C library returns a pointer that is valid for the lifetime of this thread.
    let errno = unsafe { libc::__errno_location().read() };
    let mut before = 0;
    // SAFETY: writes to a live integer. Most of the replaced functions are not cancellation
    // points, and the tracer's work is never one.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    registry::stays_undecided();
    // SAFETY: restores the state, and `errno` as above.
    unsafe {
        pthread_setcancelstate(before, std::ptr::null_mut());
        libc::__errno_location().write(errno);
    }
    guard::mark_own_work(false);
    SWITCH.load(Relaxed) == ON
}

/// `PTHREAD_CANCEL_DISABLE`.
const CANCEL_DISABLE: libc::c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}
