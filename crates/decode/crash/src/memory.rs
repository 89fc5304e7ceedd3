//! Pieces of memory: pages, segments, and little-endian numbers.

use std::ops::Range;

/// Size of a page in bytes, on all supported machines.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a page.
pub(crate) type Page = [u8; PAGE];

/// Processor family of an image, which determines the form of page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86,
    /// 64-bit ARM with pages of 4 KiB.
    Arm,
}

/// A part of memory: whole pages from `address` on, at `offset` in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Machine {
    /// Returns the family for which this program was compiled.
    pub(crate) fn own() -> Machine {
        if cfg!(target_arch = "aarch64") { Machine::Arm } else { Machine::X86 }
    }
}

impl Segment {
    /// Returns the whole pages of the segment; `None` if it has no whole page, or if addresses
    /// wrap.
    pub(crate) fn whole_pages(self) -> Option<Segment> {
        let page = PAGE as u64;
        let address = self.address.checked_next_multiple_of(page)?;
        let skipped = address - self.address;
        let size = self.size.checked_sub(skipped)? / page * page;
        address.checked_add(size)?;
        let offset = self.offset.checked_add(skipped)?;
        (size > 0).then_some(Segment { address, offset, size })
    }

    /// Returns the pages with these indexes.
    pub(crate) fn part(self, pages: Range<u64>) -> Segment {
        let start = pages.start * PAGE as u64;
        let size = (pages.end - pages.start) * PAGE as u64;
        Segment { address: self.address + start, offset: self.offset + start, size }
    }

    /// Returns the part of the segment from address `start` on; `None` if it ends before.
    pub(crate) fn after(self, start: u64) -> Option<Segment> {
        let skipped = start.saturating_sub(self.address);
        (skipped < self.size).then(|| self.part(skipped / PAGE as u64..self.size / PAGE as u64))
    }
}

/// Returns the little-endian number of 2 bytes at `at`; 0 beyond the end.
pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    word(bytes, at) as u16
}

/// Returns the little-endian number of 4 bytes at `at`; missing bytes are 0.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    long(bytes, at) as u32
}

/// Returns the little-endian number of 8 bytes at `at`; missing bytes are 0.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    let size = rest.len().min(8);
    word[..size].copy_from_slice(&rest[..size]);
    u64::from_le_bytes(word)
}
