//! The change from one sub-buffer to the next.

use crate::packet;

/// Writes that belong together, and become visible with the last one.
pub(crate) struct SubbufferSwitch {
    /// Whether the ring fills up.
    pub(crate) fills: bool,
    /// Where in the data the sub-buffer to leave starts, and what its header is to say at the end:
    /// last time, content size and distance to the next sub-buffer; discarded events.
    pub(crate) leave: Option<(usize, [u8; 24], [u8; 8])>,
    /// Where the one to begin starts, and its header.
    pub(crate) begin: (usize, [u8; packet::SIZE]),
    /// The ring's last time before.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(crate) last_time: u64,
    /// Now, which is not before that.
    pub(crate) time: u64,
    /// Where the next event goes.
    pub(crate) write: u64,
    /// The ring's `RESTART` from then on.
    pub(crate) restart: u64,
}
