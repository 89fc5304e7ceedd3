//! Which segments there are and what is known of each. [`load`] finds it out from a directory; after that the
//! log keeps the [`Table`] as it writes, and readers look into it.

use crate::disk::{Disk, File};
use crate::error::{Error, ErrorKind};
use crate::layout::{
    Before, HEADER_BYTES, HeaderRead, Identity, SEGMENTS_MAX, SegmentHeader, decode_segment_header,
    new_number, segment_name, segment_number,
};
use crate::scan::{Bounds, Scan, Step, Tail};
use crate::window::Window;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// The sequence number of its first record. `None` if its header could not be read.
    pub(crate) first: Option<u64>,
    /// What its header says of the segment before.
    pub(crate) before: Option<Before>,
    pub(crate) bounds: Bounds,
    /// What its file takes.
    pub(crate) file_bytes: u64,
    /// Which copies of its header are damaged.
    pub(crate) damaged_headers: [bool; 2],
}

/// All segments, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) segments: VecDeque<Segment>,
    /// Segments that are not needed any more, and whose files could not be removed yet.
    pub(crate) to_remove: VecDeque<Segment>,
}

/// What a reader does at the end of what it knew of a segment.
pub(crate) enum Beyond {
    /// There is more in it.
    More(Bounds),
    /// There is a segment behind it.
    Later,
    /// Nothing yet.
    Nothing,
}

impl Table {
    /// The first segment behind number `number` that has, or will have, records from `sequence` on.
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

    /// What there is beyond what was known of segment `number`.
    pub(crate) fn beyond(&self, number: u64, known: &Bounds) -> Beyond {
        match self.get(number) {
            Some(segment) if segment.bounds.end > known.end => Beyond::More(segment.bounds),
            _ if self.segments.back().is_some_and(|last| last.number > number) => Beyond::Later,
            _ => Beyond::Nothing,
        }
    }

    /// What all files take.
    pub(crate) fn file_bytes(&self) -> u64 {
        let all = self.segments.iter().chain(&self.to_remove);
        all.fold(0, |sum, segment| sum.saturating_add(segment.file_bytes))
    }

    /// Takes away the oldest segment; never the last one, which says how far sequence numbers have come.
    pub(crate) fn give_up_oldest(&mut self) -> Option<Segment> {
        let oldest = (self.segments.len() > 1).then(|| self.segments.pop_front()).flatten()?;
        self.to_remove.push_back(oldest);
        Some(oldest)
    }

    /// Whether the oldest segment has only records before `sequence`.
    pub(crate) fn oldest_is_before(&self, sequence: u64) -> bool {
        let own = self.segments.front().and_then(|segment| segment.bounds.next);
        // Headers may be damaged.
        let following = self.segments.iter().skip(1).find_map(|segment| segment.first);
        own.or(following).is_some_and(|next| next <= sequence)
    }
}

/// What a directory holds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) table: Table,
    /// `None` if there is no segment whose header can be read.
    pub(crate) identity: Option<Identity>,
    /// Larger than all numbers of segments that there are.
    pub(crate) next_number: Option<u64>,
    pub(crate) next_sequence: u64,
    /// The last segment's, if there is one.
    pub(crate) tail: Option<Tail>,
    /// Files that are of no use: segments in the making, and such as were never used.
    pub(crate) leftovers: Vec<String>,
}

/// Whether somebody may be writing what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    AtRest,
    Written,
}

/// Looks through the directory, and through all of its last segment.
pub(crate) fn load(disk: &dyn Disk, state: State) -> Result<Loaded, Error> {
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
        match following.map(|following| following.before) {
            Some(before) if before.number < number => {
                leftovers.push(segment_name(number));
                continue;
            }
            Some(before) if before.number == number => {
                segment.bounds = bounds_of(&before, &segment)
            }
            _ => {}
        }
        following = header.or(following);
        segments.push_front(segment);
    }
    let mut table = Table { segments, to_remove: VecDeque::new() };
    let tail = match (table.segments.back_mut(), identity) {
        (Some(last), Some(identity)) => Some(read_tail(disk, last, identity, state)?),
        _ => None,
    };
    let next_sequence = next_sequence(disk, &table, identity)?;
    Ok(Loaded { table, identity, next_number, next_sequence, tail, leftovers })
}

/// Within the file: what was cut off is missing, but no bytes that anybody could look at.
fn bounds_of(before: &Before, segment: &Segment) -> Bounds {
    Bounds {
        end: before.end.min(segment.file_bytes).max(HEADER_BYTES),
        next: Some(before.next),
        certain_before: before.certain_before,
    }
}

/// The numbers of segments and of those in the making, sorted.
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
        HeaderRead::Known { header, damaged } => (Some(header), damaged),
        HeaderRead::Damaged => (None, [true; 2]),
        HeaderRead::Newer { version, incompat, read_only_compat } => {
            let kind = ErrorKind::Newer { version, incompat, read_only_compat };
            return Err(Error::new(name, kind));
        }
    };
    let segment = Segment {
        number,
        first: header.map(|header| header.first),
        before: header.map(|header| header.before),
        bounds: Bounds { end: file_bytes, next: None, certain_before: u64::MAX },
        file_bytes,
        damaged_headers,
    };
    Ok((segment, header))
}

/// Finds out where the last segment ends.
fn read_tail(
    disk: &dyn Disk,
    last: &mut Segment,
    identity: Identity,
    state: State,
) -> Result<Tail, Error> {
    let name = segment_name(last.number);
    let file = disk.open(&name).map_err(Error::io(&name, "open it"))?;
    // Who wrote it may have been killed before it was durable, and what is read now will be believed. If they were
    // killed after an attempt that failed, memory may hold what the disk does not, hence `forget`. Its name was
    // durable before there were records in it.
    if state == State::AtRest {
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

/// What follows all that there is.
fn next_sequence(disk: &dyn Disk, table: &Table, identity: Option<Identity>) -> Result<u64, Error> {
    let mut next_sequence = 0;
    for segment in &table.segments {
        let before = segment.before.map(|before| before.next);
        let mut next = segment.bounds.next;
        // The header that should say it is damaged.
        if let (None, Some(identity)) = (next, identity) {
            let name = segment_name(segment.number);
            let file = disk.open(&name).map_err(Error::io(&name, "open it"))?;
            let tail = scan(file, segment, identity).map_err(Error::io(&name, "read it"))?;
            next = tail.bounds.next;
        }
        next_sequence =
            [segment.first, before, next].into_iter().flatten().fold(next_sequence, u64::max);
    }
    Ok(next_sequence)
}

/// The records of a segment, as far as they are known.
pub(crate) fn records(segment: &Segment) -> Range<u64> {
    let first = segment.first.unwrap_or(0);
    first..segment.bounds.next.map_or(first, |next| next.max(first))
}
