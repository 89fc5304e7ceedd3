//! What a file's requests are found by, beside the file: who recorded which spans, how long they took, and when their
//! requests began. It can be made again from the file, and those before it.
//!
//! Requests have two numbers here: their place by id, which is their order in the file, and their *ordinal*, their
//! place by time. Those without any time have no ordinal, as no search finds them.
//!
//! ```text
//! file      = magic[8] directory_bytes:u64 directory_crc:u32 body_crc:u32 directory body
//! directory = Directory, by postcard
//! body      = starts  of ordinals, since the first one       ascending
//!             rows    of ordinals: the first row             packed
//!             spans   of ordinals: how many rows             packed
//!             lengths of ordinals: the code of the duration  packed
//!             entries of each group: ordinal, symbol         ascending
//!             the same of groups of spans that are elsewhere
//!             filter of the lower halves of ids
//!             calls of requests by minute, by postcard
//! ```
//!
//! A *group* is all spans with one service, name and other end; its entries are in order of time. The directory has the
//! durations that occur in a group; which of those a span has, and whether it failed, is one number, the *symbol*. How
//! numbers are packed is in [`crate::files::packed`], and those that ascend in [`crate::files::ascending`]. The directory and the
//! filter are in memory while the file is used ([`crate::files::cache`]); of the rest what is asked for is read.
//!
//! Spans of one request may come to several files. What they are found by is in the index of the last one, too, as that
//! of spans that are *elsewhere*: when the request began, how long it took and which conditions it meets is what all of
//! them say together, and is not what a search could put together of files.

mod build;
mod directory;
mod read;

pub(crate) use build::{Builder, Row};
pub(crate) use directory::{Directory, Group, KeyValues, LAST_MINUTE, LinkCount};
pub(crate) use read::{Entry, Index, OpenError, links, may_hold};

use blkkin_journal::File;
use blkkin_store::Durations;

/// The bytes of an index, whose mark and checksums are made right.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some((header, rest)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() else { return bytes };
    header[..8].copy_from_slice(MAGIC);
    let len = header[8..16].iter().rev().fold(0u64, |len, &byte| len << 8 | u64::from(byte));
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
    let (directory, body) = rest.split_at(len);
    header[16..20].copy_from_slice(&crc32c::crc32c(directory).to_le_bytes());
    header[20..24].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    bytes
}

/// Whether a file begins as an index does.
pub(crate) fn is_index(file: &dyn File) -> bool {
    crate::files::bytes::read(file, 0..MAGIC.len() as u64).is_ok_and(|bytes| bytes == MAGIC)
}

const MAGIC: &[u8; 8] = b"blkkidx4";
const HEADER_BYTES: usize = 24;

/// Stands for the duration of a span that has none.
pub(crate) const NO_DURATION: u16 = 0xfff;
const CODE_BITS: u32 = 12;

const _: () = assert!(Durations::code(u64::MAX) < NO_DURATION);

/// The text of groups that stand for many: it may be any.
pub(crate) const ANY_TEXT: u32 = u32::MAX;

#[cfg(test)]
mod tests;
