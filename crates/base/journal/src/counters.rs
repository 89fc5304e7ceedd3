//! Counters of a journal's work and its failures.

/// Counters since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records made durable.
    pub durable_records: u64,
    /// Size of these records, with headers and padding.
    pub durable_bytes: u64,
    /// Groups of records that were written and synced together.
    pub groups: u64,
    /// Segments started.
    pub segments: u64,
    /// Segments abandoned after a failed write or `fdatasync`.
    pub segments_given_up: u64,
    /// Payloads refused because the buffer of pending records was full.
    pub refused_try_again: u64,
    /// Payloads refused because of a lack of space.
    pub refused_full: u64,
    /// Payloads refused because the disk failed.
    pub refused_failing: u64,
    /// Records removed, with their segments, to make room for new ones.
    pub dropped_records: u64,
    /// Damaged ranges found.
    pub damages: u64,
    /// Size of the damaged ranges in bytes.
    pub damaged_bytes: u64,
    /// Records missing in them, as far as known.
    pub damaged_records: u64,
    /// Bytes copied to quarantine.
    pub quarantined_bytes: u64,
    /// Damaged bytes not copied to quarantine: no room there, or an I/O error.
    pub quarantine_refused_bytes: u64,
    /// Failed attempts to truncate a finished segment to its records.
    pub truncate_failures: u64,
}
