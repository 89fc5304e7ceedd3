//! The writer of a journal: one thread's, without queues or clocks, so that tests can drive it step by step.
//! Start at [`Log::write`]; the bytes are described in [`layout`](crate::layout).
//!
//! # What makes a record durable
//!
//! A segment is made under another name: reserved, its header written and made durable, then renamed, and the
//! directory made durable. Records are appended by one write and one `fdatasync`, after which they are known to
//! readers and acknowledged. So the data always comes before what speaks of it: a segment's end is said by the
//! next one's header, which is written when that end is durable.
//!
//! # What is never trusted
//!
//! A segment with a failed write or `fdatasync` is given up at its last durable record: the kernel may have
//! dropped what it could not write, and report success the next time. What was not acknowledged is written once
//! more as a whole, to a new segment, or refused. Nor is anything appended to a segment of an earlier run.
//!
//! # Reserved and zeroed
//!
//! A segment is reserved at once, so that there is no lack of room in the midst of it. `fdatasync` of what was
//! only reserved has to write the file's metadata too; where zeros had been written before, it has not. So zeros
//! are written 128 KiB ahead, which took `fdatasync` of 4 to 64 KiB from 205 to 330 µs down to 115 to 160 µs, on
//! ext4 and a virtual disk. For larger groups it does not pay: they write none.

use crate::batch::{Batch, Rest};
use crate::damage::Damage;
use crate::disk::{Disk, File, Lock};
use crate::error::{Error, ErrorKind, Refusal};
use crate::layout::{
    Before, HEADER_BYTES, Identity, SegmentHeader, encode_end, encode_segment_header, new_name,
    segment_name,
};
use crate::options::{AtLimit, Options};
use crate::position;
use crate::quarantine::Quarantine;
use crate::reader::lock_directory;
use crate::scan::Bounds;
use crate::shared::Shared;
use crate::table::{Loaded, Segment, State, load};
use std::sync::Arc;

/// How far ahead zeros are written.
const ZEROS_AHEAD: usize = 128 << 10;

/// Groups of this size and more do not have them written.
const ZEROS_GROUP_MAX: usize = 64 << 10;

static ZEROS: [u8; ZEROS_AHEAD] = [0; ZEROS_AHEAD];

pub(crate) struct Log {
    shared: Arc<Shared>,
    options: Options,
    active: Option<Active>,
    /// Of the next segment; `None` if no number is left.
    next_number: Option<u64>,
    /// The sequence number that follows all records that there may be.
    next_sequence: u64,
    /// What it was when the journal was opened.
    next_sequence_opened: u64,
    segments_given_up: u64,
    _lock: Lock,
}

/// The segment that is being written.
struct Active {
    file: Arc<dyn File>,
    number: u64,
    /// Up to where it is durable.
    end: u64,
    /// The sequence number of the next record.
    next: u64,
    /// Up to where it has zeros that were written.
    zeroed_end: u64,
}

/// What was found when a journal was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The sequence number that the next record gets.
    pub next_sequence: u64,
    /// Whether the journal is new, or was closed in order. If not, records that were never acknowledged may be in
    /// it.
    pub was_closed: bool,
    /// Bytes behind the last record, of one that was being written. They are in quarantine.
    pub torn_bytes: u64,
    /// Positions of consumers that could not be read, and were forgotten.
    pub positions_forgotten: u64,
}

impl Log {
    /// Opens a journal, and makes good what a sudden end has left.
    pub(crate) fn open(disk: Arc<dyn Disk>, options: Options) -> Result<(Log, Recovery), Error> {
        options.check()?;
        let lock = lock_directory(&*disk, true)?;
        let loaded = load(&*disk, State::AtRest)?;
        let identity = match loaded.identity {
            Some(identity) => identity,
            None => Identity::new(disk.random().map_err(Error::io("", "get a random number"))?),
        };
        let positions = position::recover(&*disk)?;
        for name in &loaded.leftovers {
            // If it stays, the next one who opens the journal tries again.
            let _ = disk.remove(name);
        }
        let next_sequence = loaded.next_sequence.max(positions.furthest);
        let tail = loaded.tail.as_ref();
        // A segment gets its name when its headers are whole: one that is shorter was cut, with all that it had.
        let last = loaded.table.segments.back();
        let cut_bytes = last.map_or(0, |last| HEADER_BYTES.saturating_sub(last.file_bytes));
        let recovery = Recovery {
            next_sequence,
            was_closed: loaded.table.segments.is_empty()
                || tail.is_some_and(|tail| tail.was_closed),
            torn_bytes: cut_bytes + tail.map_or(0, |tail| tail.torn.end - tail.torn.start),
            positions_forgotten: positions.forgotten,
        };
        let next_number = loaded.next_number;
        let shared = Log::share(disk, identity, loaded, &options)?;
        let log = Log {
            shared: Arc::new(shared),
            options,
            active: None,
            next_number,
            next_sequence,
            next_sequence_opened: next_sequence,
            segments_given_up: 0,
            _lock: lock,
        };
        Ok((log, recovery))
    }

    /// What readers see of it. What was torn is kept.
    fn share(
        disk: Arc<dyn Disk>,
        identity: Identity,
        loaded: Loaded,
        options: &Options,
    ) -> Result<Shared, Error> {
        let quarantine = Quarantine::new(Arc::clone(&disk), options.quarantine_bytes_max);
        let last = loaded.table.segments.back().map(|last| last.number);
        let shared = Shared::new(disk, identity, loaded.table, Some(quarantine));
        if let (Some(segment), Some(tail)) = (last, loaded.tail)
            && !tail.torn.is_empty()
        {
            let (offset, bytes) = (tail.torn.start, tail.torn.end - tail.torn.start);
            let damage = Damage { segment, offset, bytes, records: None, may_be_torn: true };
            let name = segment_name(segment);
            let file = shared.disk.open(&name).map_err(Error::io(&name, "open it"))?;
            shared.note(&damage, &*file);
        }
        Ok(shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Makes all records of the batch durable, or says why it could not. Their sequence numbers must be larger than
    /// all before.
    pub(crate) fn write(&mut self, batch: &Batch) -> Result<(), Refusal> {
        #[cfg(test)]
        if crate::plant::is(crate::plant::Plant::WriteSkipped) {
            return Ok(());
        }
        let mut rest = batch.all();
        let given_up = self.segments_given_up;
        let mut result = self.write_rest(&mut rest);
        if result.is_err() && self.segments_given_up > given_up {
            // It may have been the segment's fault. What is durable by now stays so.
            result = self.write_rest(&mut rest);
        }
        self.next_sequence = batch.next();
        result.map_err(Refusal::from)
    }

    /// Makes a segment ready if there is none, to find out whether writing is possible again.
    pub(crate) fn prepare(&mut self) -> Result<(), Refusal> {
        if self.active.is_none() {
            self.begin(self.next_sequence)?;
        }
        Ok(())
    }

    /// Notes that all is there. Nothing can be written afterwards.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        let Some(active) = self.active.take() else { return Ok(()) };
        let mut mark = Vec::new();
        encode_end(active.next, self.shared.identity, &mut mark);
        let name = segment_name(active.number);
        let failed = |during| Error::io(&name, during);
        active.file.write_at(&mark, active.end).map_err(failed("write it"))?;
        active.file.sync().map_err(failed("make it durable"))?;
        self.give_back(active.number, active.end + mark.len() as u64);
        Ok(())
    }

    /// Writes what remains, and takes off what is durable. After an error the segment is not used any more.
    fn write_rest(&mut self, rest: &mut Rest<'_>) -> Result<(), Error> {
        while !rest.bytes.is_empty() {
            let written = self.write_piece(rest);
            if written.is_err() && self.active.take().is_some() {
                self.segments_given_up += 1;
                self.shared.count(|counters| counters.segments_given_up += 1);
            }
            rest.written(written?);
        }
        Ok(())
    }

    /// Makes durable what fits into one segment: so many bytes, and so many records.
    fn write_piece(&mut self, rest: &Rest<'_>) -> Result<(usize, u64), Error> {
        let piece = match self.fitting(rest) {
            (0, _) => {
                self.begin(rest.first)?;
                self.fitting(rest)
            }
            piece => piece,
        };
        let Some(active) = self.active.as_mut().filter(|_| piece.0 > 0) else {
            return Err(Error::new("", ErrorKind::Options("a payload must fit into a segment")));
        };
        let bytes = &rest.bytes[..piece.0];
        active.write(bytes, self.options.segment_bytes)?;
        active.end += bytes.len() as u64;
        active.next += piece.1;
        let bounds = active.bounds();
        let mut table = self.shared.table();
        if let Some(segment) = table.get_mut(active.number) {
            segment.bounds = bounds;
        }
        drop(table);
        self.shared.grown.notify_all();
        self.shared.count(|counters| {
            counters.durable_records += piece.1;
            counters.durable_bytes += piece.0 as u64;
            counters.groups += 1;
        });
        Ok(piece)
    }

    /// What of it fits into the segment that is being written.
    fn fitting(&self, rest: &Rest<'_>) -> (usize, u64) {
        match &self.active {
            Some(active) if active.next == rest.first => {
                let room = self.options.segment_bytes.saturating_sub(active.end);
                rest.fitting(room, self.shared.identity)
            }
            _ => (0, 0),
        }
    }

    /// Begins a new segment.
    fn begin(&mut self, first: u64) -> Result<(), Error> {
        self.active = None;
        let exhausted = || Error::new("", ErrorKind::NumbersExhausted);
        let number = self.next_number.ok_or_else(exhausted)?;
        // Whatever becomes of this one: if it fails half-way, its name may be taken.
        self.next_number = number.checked_add(1);
        let last = self.shared.table().segments.back().copied();
        if let Some(last) = &last {
            // Before the new one needs the room. Its end is durable, though nobody says so yet.
            self.give_back(last.number, last.bounds.end);
        }
        self.make_room()?;
        let before = self.before(last.as_ref(), first);
        let header = SegmentHeader { identity: self.shared.identity, number, first, before };
        let file = self.make(&header)?;
        let active = Active { file, number, end: HEADER_BYTES, next: first, zeroed_end: 0 };
        self.shared.table().segments.push_back(Segment {
            number,
            first: Some(first),
            before: Some(before),
            bounds: active.bounds(),
            file_bytes: self.options.segment_bytes,
            damaged_headers: [false; 2],
        });
        self.active = Some(active);
        self.shared.count(|counters| counters.segments += 1);
        Ok(())
    }

    /// What the next segment says of the last one.
    fn before(&self, last: Option<&Segment>, first: u64) -> Before {
        // If consumers have come to somewhere in a journal without segments, these were lost. What was refused
        // since is not.
        let Some(last) = last else {
            return Before { next: self.next_sequence_opened, ..Before::default() };
        };
        Before {
            number: last.number,
            end: last.bounds.end,
            next: last.bounds.next.unwrap_or(first),
            certain_before: last.bounds.certain_before,
        }
    }

    fn make_room(&self) -> Result<(), Error> {
        let bytes_max = self.options.total_bytes_max;
        let others_max = bytes_max.saturating_sub(self.options.segment_bytes);
        if self.options.at_limit == AtLimit::DropOldest {
            self.shared.drop_oldest(others_max)?;
        }
        match self.shared.table().file_bytes() <= others_max {
            true => Ok(()),
            false => Err(Error::new("", ErrorKind::Limit { bytes_max })),
        }
    }

    /// Makes a segment's file. If that fails, nothing of it stays, if that can be had.
    fn make(&self, header: &SegmentHeader) -> Result<Arc<dyn File>, Error> {
        let (new, name) = (new_name(header.number), segment_name(header.number));
        let made = self.make_as(header, &new, &name);
        if made.is_err() {
            let disk = &self.shared.disk;
            // A rename that failed may have happened all the same.
            let _ = disk.remove(&new);
            let _ = disk.remove(&name);
        }
        made
    }

    fn make_as(
        &self,
        header: &SegmentHeader,
        new: &str,
        name: &str,
    ) -> Result<Arc<dyn File>, Error> {
        let failed = |during| Error::io(new, during);
        let disk = &self.shared.disk;
        let file = disk.create(new).map_err(failed("create it"))?;
        file.reserve(self.options.segment_bytes).map_err(failed("reserve room for it"))?;
        file.write_at(&encode_segment_header(header), 0).map_err(failed("write it"))?;
        file.sync().map_err(failed("make it durable"))?;
        disk.rename(new, name).map_err(failed("rename it"))?;
        disk.sync().map_err(Error::io("", "make the directory durable"))?;
        Ok(file)
    }

    /// Gives back what a segment has reserved and will not use. Nothing depends on it but room.
    fn give_back(&self, number: u64, end: u64) {
        let file_bytes = self.shared.table().get(number).map_or(0, |segment| segment.file_bytes);
        if file_bytes <= end {
            return;
        }
        if self.shared.disk.truncate(&segment_name(number), end).is_err() {
            self.shared.count(|counters| counters.truncate_failures += 1);
        } else if let Some(segment) = self.shared.table().get_mut(number) {
            segment.file_bytes = end;
        }
    }
}

impl Active {
    /// Writes records behind what is durable, and makes them durable.
    fn write(&mut self, bytes: &[u8], segment_bytes: u64) -> Result<(), Error> {
        let name = segment_name(self.number);
        let failed = |during| Error::io(&name, during);
        self.file.write_at(bytes, self.end).map_err(failed("write it"))?;
        let end = self.end + bytes.len() as u64;
        if end > self.zeroed_end && bytes.len() < ZEROS_GROUP_MAX {
            let room = segment_bytes.saturating_sub(end);
            let size = usize::try_from(room).map_or(ZEROS_AHEAD, |room| room.min(ZEROS_AHEAD));
            self.file.write_at(&ZEROS[..size], end).map_err(failed("write it"))?;
            self.zeroed_end = end + size as u64;
        }
        self.file.sync().map_err(failed("make it durable"))
    }

    fn bounds(&self) -> Bounds {
        Bounds { end: self.end, next: Some(self.next), certain_before: u64::MAX }
    }
}
