//! The table of segments. [`load`] builds it from a directory. Later the log updates the [`Table`]
//! with each write, and readers look up segments in it.

use crate::disk::{Disk, File};
use crate::error::{Error, ErrorKind};
use crate::layout::{
    DecodedHeader, HEADER_BYTES, Identity, PreviousSegment, SEGMENTS_MAX, SegmentHeader,
    decode_segment_header, new_number, segment_name, segment_number,
};
use crate::scan::{Bounds, Scan, Step, Tail};
use crate::window::Window;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// One segment of the journal, as an entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Sequence number of the segment's first record; `None` if its header is damaged.
    pub(crate) first: Option<u64>,
    /// Previous segment, as described in this segment's header; `None` if the header is damaged.
    pub(crate) previous: Option<PreviousSegment>,
    pub(crate) bounds: Bounds,
    /// Size of the segment's file in bytes.
    pub(crate) file_bytes: u64,
    /// Flags for the two copies of the segment's header; true marks a damaged copy.
    pub(crate) damaged_headers: [bool; 2],
}

/// Table of all segments in ascending order, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) segments: VecDeque<Segment>,
    /// Segments that were removed from the journal and whose files still exist.
    pub(crate) to_remove: VecDeque<Segment>,
}

/// Next step of a reader at the last known end of a segment.
pub(crate) enum Continuation {
    /// Reading on in the same segment, which has grown to these bounds.
    Grown(Bounds),
    /// Reading on in a later segment.
    NextSegment,
    /// Waiting, since there are no newer records.
    End,
}

impl Table {
    /// Returns the first segment after segment `number` that has records from `sequence` on. A
    /// segment of unknown end also counts.
    pub(crate) fn find(&self, number: u64, sequence: u64) -> Option<Segment> {
        let mut later = self.segments.iter().filter(|segment| segment.number > number);
        later.find(|segment| segment.bounds.next.is_none_or(|next| next > sequence)).copied()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Segment> {
        let index = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        self.segments.get(index)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Segment> {
        let index = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        self.segments.get_mut(index)
    }

    /// Compares the reader's bounds of segment `number` with those in the table, and returns the
    /// reader's next step.
    pub(crate) fn continuation(&self, number: u64, known: &Bounds) -> Continuation {
        match self.get(number) {
            Some(segment) if segment.bounds.end > known.end => Continuation::Grown(segment.bounds),
            _ if self.segments.back().is_some_and(|last| last.number > number) => {
                Continuation::NextSegment
            }
            _ => Continuation::End,
        }
    }

    /// Returns the total size of all segment files in bytes, including those of removed segments.
    pub(crate) fn file_bytes(&self) -> u64 {
        let all = self.segments.iter().chain(&self.to_remove);
        all.fold(0, |sum, segment| sum.saturating_add(segment.file_bytes))
    }

    /// Moves the oldest segment to `to_remove` and returns it. Never removes the last segment,
    /// which determines the next sequence number.
    pub(crate) fn remove_oldest(&mut self) -> Option<Segment> {
        let oldest = (self.segments.len() > 1).then(|| self.segments.pop_front()).flatten()?;
        self.to_remove.push_back(oldest);
        Some(oldest)
    }

    /// Returns true if all records of the oldest segment precede `sequence`.
    pub(crate) fn oldest_is_before(&self, sequence: u64) -> bool {
        let own = self.segments.front().and_then(|segment| segment.bounds.next);
        // If the segment's end is unknown, the next readable header gives the bound.
        let following = self.segments.iter().skip(1).find_map(|segment| segment.first);
        own.or(following).is_some_and(|next| next <= sequence)
    }
}

/// Contents of a journal's directory when the journal was opened.
#[derive(Debug)]
pub(crate) struct LoadedJournal {
    pub(crate) table: Table,
    /// Identity of the journal; `None` if no segment has a readable header.
    pub(crate) identity: Option<Identity>,
    /// Number for the next segment, larger than all existing ones; `None` if the numbers are
    /// exhausted.
    pub(crate) next_number: Option<u64>,
    pub(crate) next_sequence: u64,
    /// End of the last segment's records; `None` without segments or without a readable header.
    pub(crate) tail: Option<Tail>,
    /// Names of files to remove, which belong to unfinished or unused segments.
    pub(crate) leftovers: Vec<String>,
}

/// State of the journal while it is loaded: without a writer (`AtRest`), or with a possible writer
/// (`Live`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    AtRest,
    Live,
}

/// Builds the table of segments. Reads the directory, all segment headers, and the whole of each
/// segment whose end no header states, such as the last one.
pub(crate) fn load(disk: &dyn Disk, access: Access) -> Result<LoadedJournal, Error> {
    let (numbers, new) = list(disk)?;
    let next_number = numbers.iter().chain(&new).max().map_or(Some(1), |last| last.checked_add(1));
    let mut leftovers: Vec<String> = new.into_iter().map(crate::layout::new_name).collect();
    let mut segments = VecDeque::new();
    let mut identity = None;
    let mut following: Option<SegmentHeader> = None;
    for &number in numbers.iter().rev() {
        let (mut segment, header) = read_segment(disk, number)?;
        if let Some(header) = header
            && *identity.get_or_insert(header.identity) != header.identity
        {
            return Err(Error::new(segment_name(number), ErrorKind::Foreign));
        }
        match following.map(|following| following.previous) {
            Some(previous) if previous.number < number => {
                leftovers.push(segment_name(number));
                continue;
            }
            Some(previous) if previous.number == number => {
                segment.bounds = bounds_of(&previous, &segment)
            }
            _ => {}
        }
        following = header.or(following);
        segments.push_front(segment);
    }
    let mut table = Table { segments, to_remove: VecDeque::new() };
    let tail = match (table.segments.back_mut(), identity) {
        (Some(last), Some(identity)) => Some(read_tail(disk, last, identity, access)?),
        _ => None,
    };
    let next_sequence = next_sequence(disk, &table, identity)?;
    Ok(LoadedJournal { table, identity, next_number, next_sequence, tail, leftovers })
}

/// Returns a segment's bounds from the next segment's header, limited to the size of the file. The
/// bytes that a truncated file lacks are not reported as damage.
fn bounds_of(previous: &PreviousSegment, segment: &Segment) -> Bounds {
    Bounds {
        end: previous.end.min(segment.file_bytes).max(HEADER_BYTES),
        next: Some(previous.next),
        certain_before: previous.certain_before,
    }
}

/// Returns the sorted numbers of all segments, and the numbers of unfinished segments.
fn list(disk: &dyn Disk) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let (mut numbers, mut new) = (Vec::new(), Vec::new());
    disk.list(&mut |name| {
        numbers.extend(segment_number(name));
        new.extend(new_number(name));
        numbers.len().max(new.len()) <= SEGMENTS_MAX
    })
    .map_err(Error::io("", "list the directory"))?;
    if numbers.len().max(new.len()) > SEGMENTS_MAX {
        return Err(Error::new("", ErrorKind::TooManySegments));
    }
    numbers.sort_unstable();
    Ok((numbers, new))
}

fn read_segment(disk: &dyn Disk, number: u64) -> Result<(Segment, Option<SegmentHeader>), Error> {
    let name = segment_name(number);
    let file = disk.open(&name).map_err(Error::io(&name, "open it"))?;
    let file_bytes = file.size_bytes().map_err(Error::io(&name, "ask for its size"))?;
    let mut window = Window::new(file);
    let size = HEADER_BYTES as usize;
    window.fill(0, size, HEADER_BYTES).map_err(Error::io(&name, "read it"))?;
    let (header, damaged_headers) = match decode_segment_header(window.get(0, size), number) {
        DecodedHeader::Valid { header, damaged } => (Some(header), damaged),
        DecodedHeader::Damaged => (None, [true; 2]),
        DecodedHeader::Newer { version, incompat, read_only_compat } => {
            let kind = ErrorKind::Newer { version, incompat, read_only_compat };
            return Err(Error::new(name, kind));
        }
    };
    let segment = Segment {
        number,
        first: header.map(|header| header.first),
        previous: header.map(|header| header.previous),
        bounds: Bounds { end: file_bytes, next: None, certain_before: u64::MAX },
        file_bytes,
        damaged_headers,
    };
    Ok((segment, header))
}

/// Scans the last segment for the end of its records.
fn read_tail(
    disk: &dyn Disk,
    last: &mut Segment,
    identity: Identity,
    access: Access,
) -> Result<Tail, Error> {
    let name = segment_name(last.number);
    let file = disk.open(&name).map_err(Error::io(&name, "open it"))?;
    // `sync`, because the last writer may have been killed before its records were durable, and
    // readers will rely on them. `forget`, because a writer killed after a failed `sync` may have
    // left pages in the cache that the disk lacks. The file's name was durable before its first
    // record.
    if access == Access::AtRest {
        file.sync().map_err(Error::io(&name, "make it durable"))?;
        file.forget().map_err(Error::io(&name, "read it from the disk"))?;
    }
    let tail = scan(file, last, identity).map_err(Error::io(&name, "read it"))?;
    last.bounds = tail.bounds;
    Ok(tail)
}

fn scan(file: Arc<dyn File>, segment: &Segment, identity: Identity) -> io::Result<Tail> {
    let mut window = Window::new(file);
    let mut scan = Scan::new(identity, segment.first);
    while scan.step(&mut window, &segment.bounds)? != Step::End {}
    Ok(scan.tail())
}

/// Returns the sequence number that follows all existing records.
fn next_sequence(disk: &dyn Disk, table: &Table, identity: Option<Identity>) -> Result<u64, Error> {
    let mut next_sequence = 0;
    for segment in &table.segments {
        let previous = segment.previous.map(|previous| previous.next);
        let mut next = segment.bounds.next;
        // The next segment's header, which states the end, is damaged.
        if let (None, Some(identity)) = (next, identity) {
            let name = segment_name(segment.number);
            let file = disk.open(&name).map_err(Error::io(&name, "open it"))?;
            let tail = scan(file, segment, identity).map_err(Error::io(&name, "read it"))?;
            next = tail.bounds.next;
        }
        next_sequence =
            [segment.first, previous, next].into_iter().flatten().fold(next_sequence, u64::max);
    }
    Ok(next_sequence)
}

/// Returns the range of the sequence numbers of a segment's records, as far as known.
pub(crate) fn records(segment: &Segment) -> Range<u64> {
    let first = segment.first.unwrap_or(0);
    first..segment.bounds.next.map_or(first, |next| next.max(first))
}
