//! Purposes of the descriptors that the thread holds; see [`blkkin_sys::descriptor`].

/// Purpose of sockets on which `Goodbye` may be sent.
pub(super) const GREETED: u32 = 1;
/// Purpose of all other descriptors.
pub(super) const OTHER: u32 = 0;
