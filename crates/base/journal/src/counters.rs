//! What a journal has done, and what it has not, since it was opened.

/// Counts since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that were made durable.
    pub durable_records: u64,
    /// Payload bytes of them, with what each record takes besides.
    pub durable_bytes: u64,
    /// Writes that were followed by making them durable.
    pub groups: u64,
    /// Segments that were begun.
    pub segments: u64,
    /// Segments that nothing was written to any more because a write or `fdatasync` had failed.
    pub segments_given_up: u64,
    /// Payloads that were refused because too much was waiting.
    pub refused_try_again: u64,
    /// Payloads that were refused because there was no room.
    pub refused_full: u64,
    /// Payloads that were refused because the disk failed.
    pub refused_failing: u64,
    /// Records that were given up, with their segments, to make room for new ones.
    pub dropped_records: u64,
    /// Places where something else was found than records.
    pub damages: u64,
    /// Bytes of such places.
    pub damaged_bytes: u64,
    /// Records that are missing there, as far as that is known.
    pub damaged_records: u64,
    /// Bytes that were copied to quarantine.
    pub quarantined_bytes: u64,
    /// Bytes that should have been, but found no room there, could not be read, or could not be written.
    pub quarantine_refused_bytes: u64,
    /// Attempts that failed to give back what a finished segment had reserved.
    pub truncate_failures: u64,
}
