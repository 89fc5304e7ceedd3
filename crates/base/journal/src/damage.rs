//! Report of a damaged range in a journal's files.

use crate::layout::segment_name;

/// Damaged range: bytes of a segment without valid records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the damaged segment, as in its file name.
    pub segment: u64,
    /// Offset of the range in the segment's file, in bytes.
    pub offset: u64,
    /// Size of the range in bytes, which is 0 if the file was truncated after a whole record.
    pub bytes: u64,
    /// Number of missing records from the reader's position on; `None` if unknown.
    pub records: Option<u64>,
    /// Set if the missing records may have been in flight when the writer stopped, and so may never
    /// have been acknowledged.
    pub may_be_torn: bool,
}

impl Damage {
    /// Returns the file name of the damaged segment.
    pub fn file(&self) -> String {
        segment_name(self.segment)
    }
}
