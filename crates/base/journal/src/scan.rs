//! Finds the records of one segment, also behind damage. [`Scan`] is where it has come; it is the only one that
//! reads records, at recovery and for consumers.

use crate::layout::{HEADER_BYTES, Identity, RECORD_HEADER_BYTES, RecordHeader};
use crate::window::Window;
use std::io;
use std::ops::Range;

/// What is known of where a segment's records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Nothing is read from here on.
    pub(crate) end: u64,
    /// The sequence number that follows the records; if it is known, all up to `end` is records.
    pub(crate) next: Option<u64>,
    /// Records from this one on may have been in writing when power failed.
    pub(crate) certain_before: u64,
}

/// What comes next in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Record {
        offset: u64,
        header: RecordHeader,
    },
    Gap(Gap),
    /// No more within the bounds.
    End,
}

/// Where something else was than records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The records that are missing, if it is known which.
    pub(crate) missing: Option<(u64, u64)>,
}

/// How a segment ended of which it was not known where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) bounds: Bounds,
    /// What is behind the last record, up to the last eight bytes that are not zero.
    pub(crate) torn: Range<u64>,
    pub(crate) was_closed: bool,
}

pub(crate) struct Scan {
    identity: Identity,
    offset: u64,
    /// The sequence number of the next record.
    expected: Option<u64>,
    /// Where those bytes began of which none has yet been followed by a record.
    bad: Option<u64>,
    /// Behind the last byte among them that is not zero.
    dirty_end: u64,
    records_end: u64,
    group_first: u64,
    was_closed: bool,
}

/// What is at an offset.
enum Found {
    Record(RecordHeader),
    /// A header whose payload is damaged.
    Header(RecordHeader),
    Nothing,
    /// Not even room for a record.
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

    /// The next record or gap. The record's bytes can be got from the window until the next call.
    pub(crate) fn step(&mut self, window: &mut Window, bounds: &Bounds) -> io::Result<Step> {
        loop {
            match self.find(window, bounds)? {
                Found::Record(header) => {
                    if let Some(gap) = self.gap_before(self.offset, header.sequence) {
                        return Ok(Step::Gap(gap));
                    }
                    let offset = self.offset;
                    if self.take(&header) {
                        return Ok(Step::Record { offset, header });
                    }
                }
                Found::Header(header) => self.pass_over(header.whole_bytes() as u64),
                Found::Nothing => self.look_further(window, bounds)?,
                Found::Short => return self.finish(window, bounds),
            }
        }
    }

    /// After [`Step::End`], if the bounds did not say what comes next: how it ended.
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

    fn find(&self, window: &mut Window, bounds: &Bounds) -> io::Result<Found> {
        if window.fill(self.offset, RECORD_HEADER_BYTES, bounds.end)? < RECORD_HEADER_BYTES {
            return Ok(Found::Short);
        }
        let bytes = window.get(self.offset, RECORD_HEADER_BYTES);
        let Some(header) = RecordHeader::decode(bytes, self.identity) else {
            return Ok(Found::Nothing);
        };
        let whole = header.whole_bytes();
        let comes_too_early = self.expected.is_some_and(|expected| header.sequence < expected);
        let is_beyond = match bounds.next {
            Some(next) => header.sequence >= next && !header.is_end,
            None => header.sequence == u64::MAX,
        };
        if comes_too_early || is_beyond || window.fill(self.offset, whole, bounds.end)? < whole {
            return Ok(Found::Nothing);
        }
        let is_whole = header.matches(window.get(self.offset, whole), self.identity);
        Ok(if is_whole { Found::Record(header) } else { Found::Header(header) })
    }

    /// What is missing if at `offset` there is what has that sequence number.
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

    /// Goes behind a record; false if it was the mark of the end.
    fn take(&mut self, header: &RecordHeader) -> bool {
        let offset = self.offset;
        self.offset += header.whole_bytes() as u64;
        if header.is_end {
            // What is damaged before it was once whole.
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

    fn pass_over(&mut self, size: u64) {
        self.bad.get_or_insert(self.offset);
        self.offset += size;
        self.dirty_end = self.offset;
    }

    /// Goes to the next place where a record may begin, or to the end of what has been read.
    fn look_further(&mut self, window: &mut Window, bounds: &Bounds) -> io::Result<()> {
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

    /// What remains is too small for a record.
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
