//! Purposes of the descriptors that the library registers; see [`blkkin_sys::descriptor`].

/// Purpose of a socket whose agent has accepted the program, so that `Goodbye` may be sent.
pub(super) const ACCEPTED: u32 = 1;
/// Purpose of all other descriptors.
pub(super) const OTHER: u32 = 0;
