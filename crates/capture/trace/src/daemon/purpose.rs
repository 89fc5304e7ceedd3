//! Purposes of the descriptors that the thread holds; see [`blkkin_sys::descriptor`].

/// Purpose of a socket whose agent has accepted the program, so that `Goodbye` may be sent.
pub(super) const ACCEPTED: u32 = 1;
/// Purpose of all descriptors other than accepted sockets.
pub(super) const OTHER: u32 = 0;
