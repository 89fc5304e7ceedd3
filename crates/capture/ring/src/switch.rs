//! The change from one sub-buffer to the next.

use crate::packet;

/// Stores of a change to the next sub-buffer, published by the last of them.
pub(crate) struct SubbufferSwitch {
    /// Whether the ring is filling up.
    pub(crate) is_filling_up: bool,
    /// The sub-buffer to leave: offset of its start, and the final fields of its header (last time,
    /// content size and distance to the next sub-buffer; discarded events).
    pub(crate) leave: Option<(usize, [u8; 24], [u8; 8])>,
    /// The sub-buffer to begin: offset of its start, and its header.
    pub(crate) begin: (usize, [u8; packet::SIZE]),
    /// The ring's last time before the switch.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(crate) last_time: u64,
    /// The current time, not before `last_time`.
    pub(crate) time: u64,
    /// Position of the next event.
    pub(crate) write: u64,
    /// New value of the ring's `RESTART`.
    pub(crate) restart: u64,
}
