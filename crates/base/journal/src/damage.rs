//! Damage in a journal's files.

use crate::layout::segment_name;

/// A place in a segment where something else was than records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's number.
    pub segment: u64,
    /// From where in its file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How many records are missing, if that is known.
    pub records: Option<u64>,
    /// Whether they were being written when the journal's writer stopped, so that perhaps none of them was ever
    /// acknowledged.
    pub may_be_torn: bool,
}

impl Damage {
    /// The segment's file.
    pub fn file(&self) -> String {
        segment_name(self.segment)
    }
}
