//! Layout of an encoded event, and the units in which its bytes are copied.

/// What an event starts with: its id in 2 bytes, its time in 8.
pub const HEADER_SIZE: usize = 10;

/// Where in an event its time is.
pub(crate) const TIME_AT: usize = 2;

/// Strings are encoded by so many bytes.
pub(crate) const GRAIN: usize = 16;

/// Events are copied into rings by so many bytes, so that there is no remainder. Models have sub-buffers of
/// few bytes, and more of them to begin would be many more orders to look at.
pub(crate) const COPIED: usize = if cfg!(loom) { GRAIN } else { 32 };

/// Size of an event that does not fit its memory. No sub-buffer has room for it, so that such an event
/// is never copied.
pub(crate) const TOO_LARGE: usize = 1 << 30;
