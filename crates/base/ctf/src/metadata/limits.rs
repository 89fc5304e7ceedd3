//! Limits on metadata that both of its languages share.

/// Largest metadata file that is looked at: that of 20,000 event classes is up to so large, if it
/// is indented JSON.
pub const METADATA_SIZE_MAX: usize = 64 << 20;
/// Deepest nesting of types and blocks.
pub const DEPTH_MAX: usize = 64;
