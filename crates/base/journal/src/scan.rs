//! Scan of one segment for records. A scan continues after damage. Recovery and readers both use
//! [`Scan`].

use crate::layout::{HEADER_BYTES, Identity, RECORD_HEADER_BYTES, RecordHeader};
use crate::window::Window;
use std::io;
use std::ops::Range;

/// Known limits of a segment's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Offset at which reading stops, in bytes.
    pub(crate) end: u64,
    /// Sequence number that follows the segment's last record; `None` if unknown. If it is known,
    /// all bytes up to `end` belong to records.
    pub(crate) next: Option<u64>,
    /// First sequence number whose record may have been in flight when the writer stopped;
    /// `u64::MAX` if no record was in flight, or if unknown. All records before it were durable.
    pub(crate) certain_before: u64,
}

/// Result of one step of a scan: a record, a gap or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Record {
        offset: u64,
        header: RecordHeader,
    },
    Gap(Gap),
    /// End of the bounds; no more records follow.
    End,
}

/// Range of bytes without valid records. The range is empty if only sequence numbers are missing,
/// as in a truncated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// First missing sequence number, and the sequence number after the last missing one; `None` if
    /// unknown.
    pub(crate) missing: Option<(u64, u64)>,
}

/// End of a segment's records, as found by a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) bounds: Bounds,
    /// Range of the torn bytes after the last record. Trailing zeros are excluded, except in the
    /// last unit of eight bytes and in a record with a damaged payload.
    pub(crate) torn: Range<u64>,
    pub(crate) was_closed: bool,
}

pub(crate) struct Scan {
    identity: Identity,
    offset: u64,
    /// Sequence number that the next record should have; `None` if unknown.
    expected: Option<u64>,
    /// Start offset of the current range without valid records; `None` outside such a range.
    bad: Option<u64>,
    /// Offset after the last non-zero bytes of the range that starts at `bad`; at most `bad` if all
    /// bytes are zero. A record with a damaged payload counts as non-zero.
    dirty_end: u64,
    records_end: u64,
    group_first: u64,
    was_closed: bool,
}

/// Interpretation of the bytes at an offset of the segment.
enum Candidate {
    Record(RecordHeader),
    /// Valid record header with a damaged payload.
    Header(RecordHeader),
    Nothing,
    /// Rest of the segment that is shorter than a record's header.
    Short,
}

impl Scan {
    pub(crate) fn new(identity: Identity, expected: Option<u64>) -> Scan {
        Scan {
            identity,
            offset: HEADER_BYTES,
            expected,
            bad: None,
            dirty_end: HEADER_BYTES,
            records_end: HEADER_BYTES,
            group_first: 0,
            was_closed: false,
        }
    }

    /// Returns the next record, gap or end. The window retains the record's bytes until the next
    /// call.
    pub(crate) fn step(&mut self, window: &mut Window, bounds: &Bounds) -> io::Result<Step> {
        loop {
            match self.find(window, bounds)? {
                Candidate::Record(header) => {
                    if let Some(gap) = self.gap_before(self.offset, header.sequence) {
                        return Ok(Step::Gap(gap));
                    }
                    let offset = self.offset;
                    if self.accept(&header) {
                        return Ok(Step::Record { offset, header });
                    }
                }
                Candidate::Header(header) => self.skip(header.whole_bytes() as u64),
                Candidate::Nothing => self.skip_to_candidate(window, bounds)?,
                Candidate::Short => return self.finish(window, bounds),
            }
        }
    }

    /// Returns the end of the segment's records. Meant for scans with unknown `next` bound, after
    /// [`Step::End`].
    pub(crate) fn tail(&self) -> Tail {
        let next = self.expected;
        let certain_before = if self.was_closed { u64::MAX } else { self.group_first };
        Tail {
            bounds: Bounds { end: self.records_end, next, certain_before },
            torn: self.bad.unwrap_or(self.offset)
                ..self.dirty_end.max(self.bad.unwrap_or(self.offset)),
            was_closed: self.was_closed,
        }
    }

    fn find(&self, window: &mut Window, bounds: &Bounds) -> io::Result<Candidate> {
        if window.fill(self.offset, RECORD_HEADER_BYTES, bounds.end)? < RECORD_HEADER_BYTES {
            return Ok(Candidate::Short);
        }
        let bytes = window.get(self.offset, RECORD_HEADER_BYTES);
        let Some(header) = RecordHeader::decode(bytes, self.identity) else {
            return Ok(Candidate::Nothing);
        };
        let whole = header.whole_bytes();
        let comes_too_early = self.expected.is_some_and(|expected| header.sequence < expected);
        let is_beyond = match bounds.next {
            Some(next) => header.sequence >= next && !header.is_end,
            None => header.sequence == u64::MAX,
        };
        if comes_too_early || is_beyond || window.fill(self.offset, whole, bounds.end)? < whole {
            return Ok(Candidate::Nothing);
        }
        let is_whole = header.matches(window.get(self.offset, whole), self.identity);
        Ok(if is_whole { Candidate::Record(header) } else { Candidate::Header(header) })
    }

    /// Ends the current gap at `offset`. `sequence` is the sequence number of the record there, or
    /// of the segment's end. Returns the gap, if any.
    fn gap_before(&mut self, offset: u64, sequence: u64) -> Option<Gap> {
        let missing = self.expected.map(|expected| (expected, sequence));
        let is_missing = missing.is_some_and(|(from, to)| from < to);
        if self.bad.is_none() && !is_missing {
            return None;
        }
        let from = self.bad.take().unwrap_or(offset);
        self.expected = Some(sequence);
        Some(Gap { offset: from, bytes: offset.saturating_sub(from), missing })
    }

    /// Moves past a record or the end mark. Returns false for the end mark.
    fn accept(&mut self, header: &RecordHeader) -> bool {
        let offset = self.offset;
        self.offset += header.whole_bytes() as u64;
        if header.is_end {
            // A damaged range before the end mark once had valid records.
            self.records_end = offset;
            self.was_closed = true;
            self.expected = Some(header.sequence);
            return false;
        }
        self.records_end = self.offset;
        self.expected = header.sequence.checked_add(1);
        self.group_first = header.group_first();
        true
    }

    fn skip(&mut self, size: u64) {
        self.bad.get_or_insert(self.offset);
        self.offset += size;
        self.dirty_end = self.offset;
    }

    /// Moves to the next offset that may start a record, or to the end of the window.
    fn skip_to_candidate(&mut self, window: &mut Window, bounds: &Bounds) -> io::Result<()> {
        self.bad.get_or_insert(self.offset);
        let available = window.fill(self.offset, RECORD_HEADER_BYTES, bounds.end)?;
        let marker = self.identity.marker();
        let mut passed = 0;
        for eight in window.get(self.offset, available).chunks_exact(8) {
            if passed > 0 && eight[..4] == marker {
                break;
            }
            passed += 8;
            if eight != [0; 8] {
                self.dirty_end = self.offset + passed;
            }
        }
        self.offset += passed;
        Ok(())
    }

    /// Handles the end of the bounds, where the remaining bytes are too few for a record's header.
    /// If the segment's end is known, returns the last gap, if any, before [`Step::End`].
    fn finish(&mut self, window: &mut Window, bounds: &Bounds) -> io::Result<Step> {
        if let Some(next) = bounds.next {
            let end = bounds.end.max(self.offset);
            if self.offset < end {
                self.bad.get_or_insert(self.offset);
            }
            let gap = self.gap_before(end, next.max(self.expected.unwrap_or(0)));
            self.offset = end;
            return Ok(gap.map_or(Step::End, Step::Gap));
        }
        let available = window.fill(self.offset, RECORD_HEADER_BYTES, bounds.end)?;
        let rest = window.get(self.offset, available);
        if let Some(last) = rest.iter().rposition(|&byte| byte != 0) {
            self.bad.get_or_insert(self.offset);
            self.dirty_end = self.offset + last as u64 + 1;
        }
        Ok(Step::End)
    }
}
