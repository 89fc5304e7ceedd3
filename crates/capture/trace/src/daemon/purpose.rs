//! Purposes under which descriptors are held; see [`blkkin_sys::descriptor`].

/// Sockets on which `Goodbye` may be sent.
pub(super) const GREETED: u32 = 1;
/// All other descriptors.
pub(super) const OTHER: u32 = 0;
