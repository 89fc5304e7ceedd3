//! Report of damage in a journal's files.

use crate::layout::segment_name;

/// Range of bytes in a segment without valid records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the segment.
    pub segment: u64,
    /// Offset in the segment's file, in bytes.
    pub offset: u64,
    /// Size of the range in bytes.
    pub bytes: u64,
    /// Number of missing records, if known.
    pub records: Option<u64>,
    /// Whether the records may have been in flight when the journal's writer stopped. None of them
    /// may ever have been acknowledged.
    pub may_be_torn: bool,
}

impl Damage {
    /// Returns the file name of the segment.
    pub fn file(&self) -> String {
        segment_name(self.segment)
    }
}
