//! The stores by which a writer changes from one sub-buffer to the next.

use crate::packet;

/// Stores by which a writer changes to the next sub-buffer; the last store publishes the others.
pub(crate) struct SubbufferSwitch {
    /// Set if more than a quarter of the ring is unread.
    pub(crate) is_filling_up: bool,
    /// The sub-buffer to leave: offset of its start, and the final fields of its header (last time,
    /// content size and distance to the next sub-buffer; discarded events).
    pub(crate) leave: Option<(usize, [u8; 24], [u8; 8])>,
    /// The sub-buffer to begin: offset of its start, and its header.
    pub(crate) begin: (usize, [u8; packet::SIZE]),
    /// Value of the ring's `LAST_TIME` before the switch.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(crate) last_time: u64,
    /// Time of the switch, not before `last_time`.
    pub(crate) time: u64,
    /// Position of the next event, which is the new value of the ring's `WRITE`.
    pub(crate) write: u64,
    /// New value of the ring's `RESTART`.
    pub(crate) restart: u64,
}
