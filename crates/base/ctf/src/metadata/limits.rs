//! Limits on metadata, for both metadata languages.

/// Maximum size of a metadata file, in bytes. Indented JSON of 20,000 event classes reaches it.
pub const METADATA_SIZE_MAX: usize = 64 << 20;
/// Maximum nesting of compound types in TSDL, and of field classes in CTF 2.
pub const DEPTH_MAX: usize = 64;
