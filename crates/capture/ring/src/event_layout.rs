//! Layout of an encoded event, and the units in which its bytes are copied.

/// Bytes of an event's header: its id in 2 bytes, its time in 8.
pub const HEADER_SIZE: usize = 10;

/// Offset of the time in an event.
pub(crate) const TIME_AT: usize = 2;

/// Unit in which strings are encoded, in bytes.
pub(crate) const GRAIN: usize = 16;

/// Unit in which events are copied into rings, in bytes, so that there is no remainder. Models have
/// sub-buffers of few bytes; a larger unit would begin more of them, and give many more
/// interleavings to explore.
pub(crate) const COPIED: usize = if cfg!(loom) { GRAIN } else { 32 };

/// Size of an event that does not fit its memory. No sub-buffer has room for it, so that such an event
/// is never copied.
pub(crate) const TOO_LARGE: usize = 1 << 30;
