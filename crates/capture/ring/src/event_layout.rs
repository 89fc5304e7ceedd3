//! Layout of an encoded event, and the units in which its bytes are copied.

/// Size of an event's header, in bytes: its id in 2 bytes, its time in 8.
pub const HEADER_SIZE: usize = 10;

/// Offset of the time in an event, in bytes.
pub const TIME_AT: usize = 2;

/// Unit in which strings are copied into an event, in bytes.
pub(crate) const GRAIN: usize = 16;

/// Unit in which restartable sequences copy events into rings, in bytes; copies have no remainder.
/// A writer with a lock copies the event's exact size, but also requires room for whole units. The
/// unit is smaller in models, because their sub-buffers have few bytes. A larger unit would fill
/// those sooner, and give many more interleavings to explore.
pub(crate) const COPIED: usize = if cfg!(loom) { GRAIN } else { 32 };

/// Size that marks an event that did not fit its memory. It exceeds every sub-buffer, so that such
/// an event is never copied.
pub(crate) const TOO_LARGE: usize = 1 << 30;
