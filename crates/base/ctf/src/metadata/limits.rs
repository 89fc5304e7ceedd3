//! Limits on metadata that both of its languages share.

/// Size of the largest accepted metadata file, in bytes. Indented JSON of 20,000 event classes
/// reaches it.
pub const METADATA_SIZE_MAX: usize = 64 << 20;
/// Maximum nesting of types and blocks.
pub const DEPTH_MAX: usize = 64;
