//! Limits on the memory that a trace can occupy in the reader, and on the search for traces.

/// Maximum size of one event, in bytes.
pub(crate) const EVENT_SIZE_MAX: usize = 16 << 20;

/// Maximum number of streams that share one file, and of streams of a live trace.
pub(crate) const STREAMS_MAX: usize = 1 << 14;

/// Maximum depth to which directories are searched for traces.
pub(crate) const DEPTH_MAX: usize = 32;
