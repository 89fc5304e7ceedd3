//! Counters of a journal's operations and failures.

/// Counters of operations and failures since the opening of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of records made durable.
    pub durable_records: u64,
    /// Total size of the durable records in bytes, with headers and padding.
    pub durable_bytes: u64,
    /// Number of groups: records that were written together and synced by one `fdatasync`.
    pub groups: u64,
    /// Number of new segments that the writer has started.
    pub segments: u64,
    /// Number of segments abandoned after a failed write or `fdatasync`.
    pub segments_given_up: u64,
    /// Number of payloads refused by back-pressure: the buffer of pending records was full.
    pub refused_try_again: u64,
    /// Number of payloads refused for lack of space: the disk, a quota or the journal itself was
    /// full.
    pub refused_full: u64,
    /// Number of payloads refused because the disk failed, or because segment numbers or sequence
    /// numbers were exhausted.
    pub refused_failing: u64,
    /// Number of records dropped with the oldest segments to free space for new records.
    pub dropped_records: u64,
    /// Number of damaged ranges found in segments. A range that has a copy in quarantine from an
    /// earlier run does not count.
    pub damages: u64,
    /// Total size of the damaged ranges in bytes.
    pub damaged_bytes: u64,
    /// Number of records missing in the damaged ranges. Records before the reader's position, and
    /// ranges with an unknown number, add nothing.
    pub damaged_records: u64,
    /// Number of damaged bytes copied to quarantine.
    pub quarantined_bytes: u64,
    /// Number of damaged bytes not copied to quarantine: it was full, an I/O error occurred, or the
    /// segment's file was truncated.
    pub quarantine_refused_bytes: u64,
    /// Number of failed attempts to truncate a finished segment to the end of its records.
    pub truncate_failures: u64,
}
