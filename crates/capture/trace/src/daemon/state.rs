//! State of this process's thread: words that a forked child finds cleared.

use super::bell;
use blkkin_sys::WipedOnFork;
use std::sync::atomic::Ordering;

/// Three words, all 0 in a forked child: 1 once this process has begun its thread; the child's state, a
/// combination of the bits below; and the number of seccomp filters it had at the fork.
pub(super) static STATE: WipedOnFork = WipedOnFork::new();
/// The child's first event is to begin the thread.
pub(super) const FIRST_EVENT: u64 = 1;
/// The thread runs, and receives what to record from the daemon.
pub(super) const ATTACHES: u64 = 2;
/// The rules have been received, and are being applied to all event types.
pub(super) const DECIDES: u64 = 8;
/// Set besides: the parent had rules, so the child's events wait until its own are applied.
pub(super) const HAD_RULES: u64 = 4;

/// True if event types cannot be decided now: there is no connection, or this is a child whose thread has not
/// received its rules.
pub(crate) fn is_undecided() -> bool {
    let [_, child] = STATE.words();
    !bell::is_listening() || child.load(Ordering::SeqCst) & (FIRST_EVENT | ATTACHES) != 0
}

/// True in a child until its thread has applied the rules to all event types.
pub(crate) fn is_deciding() -> bool {
    let [_, child] = STATE.words();
    child.load(Ordering::SeqCst) != 0
}
