//! State of this process's thread, in words that the kernel clears in a forked child.

use super::bell;
use blkkin_sys::WipedOnFork;
use std::sync::atomic::Ordering;

/// Three words, all 0 in a forked child until its fork handler runs. The first is 1 from the start
/// of this process's thread on, and 0 again if the start fails. The second is the child's state, a
/// combination of the bits below; 0 once the child's rules are applied. The third is the number of
/// seccomp filters at the fork; `u64::MAX` if it is unknown.
pub(super) static STATE: WipedOnFork = WipedOnFork::new();
/// Bit of the child's state: the child's first event must start the thread.
pub(super) const FIRST_EVENT: u64 = 1;
/// Bit of the child's state: the thread runs, but has not received all rules from the agent.
pub(super) const ATTACHING: u64 = 2;
/// Bit of the child's state: the rules were received, or a time limit has passed; the rules in
/// force are being applied to all event types.
pub(super) const DECIDING: u64 = 8;
/// Bit of the child's state: the parent had rules, so the child's events wait until the child's
/// rules are applied.
pub(super) const HAD_RULES: u64 = 4;

/// Returns true if it is not yet known which event types are wanted: the program has not connected
/// to an agent yet, or this is a forked child whose thread has not started or waits for rules.
pub(crate) fn is_undecided() -> bool {
    let [_, child] = STATE.words();
    !bell::are_decisions_enabled() || child.load(Ordering::SeqCst) & (FIRST_EVENT | ATTACHING) != 0
}

/// Returns true in a child until its thread has applied the rules to all event types.
pub(crate) fn is_deciding() -> bool {
    let [_, child] = STATE.words();
    child.load(Ordering::SeqCst) != 0
}
