//! The index of a span file, stored beside the file: groups of similar spans, durations, and the
//! order of requests by time. The index can be rebuilt from the file and earlier files.
//!
//! A request has two numbers. Its position in the order of ids is also its position in the file.
//! Its *ordinal* is its position in the order of time. Requests without any time have no ordinal,
//! since no search finds them.
//!
//! ```text
//! file      = magic[8] directory_bytes:u64 directory_crc:u32 body_crc:u32 directory body
//! directory = Directory, by postcard
//! body      = starts  of ordinals, since the first start         ascending
//!             rows    of ordinals: the first row                 packed
//!             spans   of ordinals: number of rows                packed
//!             lengths of ordinals: the code of the duration      packed
//!             entries of each group: ordinal, symbol             ascending
//!             the same for groups of spans that are elsewhere
//!             Bloom filter of the lower halves of trace ids
//!             calls of requests by minute, by postcard
//! ```
//!
//! A *group* consists of all spans with the same service, name and remote service; its entries are
//! in order of time. If a file has too many groups, the other spans are grouped by service alone,
//! and beyond a second limit in one group ([`ANY_TEXT`]). The directory lists the durations that
//! occur in a group. A *symbol* encodes the duration of a span as an index into that list, and
//! whether the span failed. [`crate::files::packed`] and [`crate::files::ascending`] define the
//! encodings of numbers. The directory and the Bloom filter are in memory while the file is in use
//! ([`crate::files::cache`]); the other sections are read on demand.
//!
//! Spans of one request may be in several files. The index of each of these files also covers the
//! request's spans in earlier files, which are called *elsewhere*. Start, duration and matching
//! conditions of a request depend on all of its spans, and a search cannot combine them across
//! files.

mod build;
mod directory;
mod read;

pub(crate) use build::{Builder, Row};
pub(crate) use directory::{Directory, Group, KeyValues, LAST_MINUTE, LinkCount};
pub(crate) use read::{Entry, Index, OpenError, links, may_hold};

use blkkin_journal::File;
use blkkin_store::Durations;

/// Returns an index with its magic and checksums corrected, for tests.
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

/// Returns whether a file starts with the magic of an index.
pub(crate) fn is_index(file: &dyn File) -> bool {
    crate::files::bytes::read(file, 0..MAGIC.len() as u64).is_ok_and(|bytes| bytes == MAGIC)
}

const MAGIC: &[u8; 8] = b"blkkidx4";
const HEADER_BYTES: usize = 24;

/// Duration code of spans without a duration.
pub(crate) const NO_DURATION: u16 = 0xfff;
const CODE_BITS: u32 = 12;

const _: () = assert!(Durations::code(u64::MAX) < NO_DURATION);

/// Text index that stands for any text. Groups that combine spans with different names or services
/// use it.
pub(crate) const ANY_TEXT: u32 = u32::MAX;

#[cfg(test)]
mod tests;
