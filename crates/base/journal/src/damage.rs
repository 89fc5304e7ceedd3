//! Report of damage in a journal's files.

use crate::layout::segment_name;

/// A range of bytes in a segment that holds no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the segment.
    pub segment: u64,
    /// Offset in the segment's file.
    pub offset: u64,
    /// Size of the range.
    pub bytes: u64,
    /// Number of missing records, if known.
    pub records: Option<u64>,
    /// Whether the records were being written when the journal's writer stopped. None of them may
    /// ever have been acknowledged.
    pub may_be_torn: bool,
}

impl Damage {
    /// File name of the segment.
    pub fn file(&self) -> String {
        segment_name(self.segment)
    }
}
