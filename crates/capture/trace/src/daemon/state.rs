//! State of this process's thread, in words that the kernel clears in a forked child.

use super::bell;
use blkkin_sys::WipedOnFork;
use std::sync::atomic::Ordering;

/// Three words, all 0 in a forked child until its fork handler runs. The first is 1 once this
/// process has started its thread. The second is the child's state, a combination of the bits
/// below. The third is the number of seccomp filters at the fork.
pub(super) static STATE: WipedOnFork = WipedOnFork::new();
/// Bit of the child's state: the child's first event must start the thread.
pub(super) const FIRST_EVENT: u64 = 1;
/// Bit of the child's state: the thread runs, but has not received all rules from the agent.
pub(super) const ATTACHING: u64 = 2;
/// Bit of the child's state: the rules were received, and are being applied to all event types.
pub(super) const DECIDING: u64 = 8;
/// Bit of the child's state: the parent had rules, so the child's events wait until the child's
/// rules are applied.
pub(super) const HAD_RULES: u64 = 4;

/// Returns true if it is not yet known which event types are wanted: no agent has connected yet, or
/// this is a forked child that has not received its rules.
pub(crate) fn is_undecided() -> bool {
    let [_, child] = STATE.words();
    !bell::are_decisions_enabled() || child.load(Ordering::SeqCst) & (FIRST_EVENT | ATTACHING) != 0
}

/// Returns true in a child until its thread has applied the rules to all event types.
pub(crate) fn is_deciding() -> bool {
    let [_, child] = STATE.words();
    child.load(Ordering::SeqCst) != 0
}
