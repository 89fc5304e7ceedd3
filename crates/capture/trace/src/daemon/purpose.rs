//! Purposes of the descriptors that the thread holds; see [`blkkin_sys::descriptor`].

/// Purpose of sockets of agents that have accepted the program; `Goodbye` may be sent on them.
pub(super) const ACCEPTED: u32 = 1;
/// Purpose of all other descriptors.
pub(super) const OTHER: u32 = 0;
