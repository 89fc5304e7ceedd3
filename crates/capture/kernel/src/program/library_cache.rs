//! Cache of the dynamic linker (`/etc/ld.so.cache`): paths of the installed libraries by name.
//!
//! ```text
//! header   "glibc-ld.so.cache1.1", number of entries, size of the texts, flags, extensions:
//!          48 bytes
//! entries  flags, offset of the name, offset of the path, unused: 4 bytes each; processor features
//! texts    terminated by NUL, with offsets from the start of the header
//! ```
//!
//! An older format may stand in front of it: "ld.so-1.7.0", the number of entries, and entries of
//! 12 bytes.

use super::elf::{long, word};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Start of the cache.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Start of the older format.
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// Size in bytes of the header.
const HEADER_BYTES: usize = 48;
/// Size in bytes of an entry.
const ENTRY_BYTES: usize = 24;
/// Flags of libraries for this processor.
pub(super) const FLAGS: u32 = if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 };

/// Library of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedLibrary<'c> {
    /// Name by which programs are linked with the library, such as `libc.so.6`.
    pub(super) name: &'c OsStr,
    pub(super) path: &'c Path,
}

/// Iterates over the libraries for this processor, without variants for processors with special
/// features. A cache of an unknown format has no libraries.
pub(super) fn libraries(cache: &[u8]) -> impl Iterator<Item = CachedLibrary<'_>> {
    let cache = current_format(cache);
    let count = word(cache, MAGIC.len()) as usize;
    let entries = cache.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES);
    entries.take(count).filter_map(move |entry| {
        if word(entry, 0) != FLAGS || long(entry, 16) != 0 {
            return None;
        }
        let name = text(cache, word(entry, 4))?;
        let path = Path::new(text(cache, word(entry, 8))?);
        path.is_absolute().then_some(CachedLibrary { name, path })
    })
}

/// Returns the part of the cache in the current format; an empty one if there is no such part.
fn current_format(cache: &[u8]) -> &[u8] {
    let mut start = 0;
    if cache.starts_with(OLD_MAGIC) {
        let size = (word(cache, 12) as usize).saturating_mul(12).saturating_add(16);
        start = size.checked_next_multiple_of(8).unwrap_or(size);
    }
    let cache = cache.get(start..).unwrap_or_default();
    if cache.starts_with(MAGIC) { cache } else { &[] }
}

fn text(cache: &[u8], offset: u32) -> Option<&OsStr> {
    // The longest path of the system has 4,096 bytes.
    let bytes = cache.get(offset as usize..)?;
    let bytes = &bytes[..bytes.len().min(4096)];
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(OsStr::from_bytes(&bytes[..end]))
}
