//! Sequential reading of a journal, at rest or while it is written. A reader returns records and
//! the gaps between them. Start at [`Reader::next`].

use crate::damage::Damage;
use crate::directory::Directory;
use crate::disk::{Disk, File, Lock};
use crate::error::{Error, ErrorKind};
use crate::layout::{Identity, RecordHeader, SECTOR_BYTES, segment_name};
use crate::scan::{Bounds, Gap, Scan, Step};
use crate::shared::Shared;
use crate::table::{Access, Continuation, Segment, load};
use crate::window::Window;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Item that a reader returns. Items are in the order of sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Valid record of the journal.
    Record(Record<'a>),
    /// Damaged range of a segment.
    Damage(Damage),
    /// Sequence numbers of missing records. The records were trimmed, dropped to free space, or
    /// lost with their segment.
    Missing(Range<u64>),
}

/// Record of a journal, with its payload borrowed from the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Sequence number of the record, unique in the journal.
    pub sequence: u64,
    /// Caller-defined kind of the record.
    pub kind: u8,
    /// Content of the record, as the appender passed it.
    pub payload: &'a [u8],
}

/// Reader of a journal's records in the order of their sequence numbers.
pub struct Reader {
    shared: Arc<Shared>,
    /// Shared lock of the directory if the journal is at rest; `None` if it may be written.
    _lock: Option<Lock>,
    next: u64,
    open: Option<OpenSegment>,
    /// Number of the segment that is being read, or of the last one that was read; 0 before the
    /// first.
    number: u64,
    /// Damaged header copies of the current segment that have not been reported yet.
    headers: Vec<Damage>,
}

/// Segment that the reader is reading.
struct OpenSegment {
    scan: Scan,
    window: Window,
    bounds: Bounds,
    name: String,
}

/// Item of the reader in a form that does not borrow the item's bytes from the window yet.
enum NextItem {
    Record(u64, RecordHeader),
    Damage(Damage),
    Gone(Range<u64>),
}

impl Reader {
    /// Opens a journal at rest, for reading from sequence number `from`. Fails if a process has it
    /// open for writing.
    pub fn open(directory: &Path, from: u64) -> Result<Reader, Error> {
        let disk = Directory::open(directory).map_err(Error::io("", "open the directory"))?;
        Reader::open_on(Arc::new(disk), from)
    }

    /// Opens a journal at rest on any [`Disk`], such as a simulated one.
    pub fn open_on(disk: Arc<dyn Disk>, from: u64) -> Result<Reader, Error> {
        let lock = lock_directory(&*disk, false)?;
        Ok(Reader { _lock: Some(lock), ..Reader::load_from(disk, from, Access::AtRest)? })
    }

    /// Opens a journal that another process may be writing, for reading its present records. The
    /// last records may not be durable yet. Segments trimmed before the opening are reported as
    /// [`Item::Missing`]; a segment trimmed later cannot be opened, which is an error.
    pub fn open_live(disk: Arc<dyn Disk>, from: u64) -> Result<Reader, Error> {
        Reader::load_from(disk, from, Access::Live)
    }

    fn load_from(disk: Arc<dyn Disk>, from: u64, access: Access) -> Result<Reader, Error> {
        let loaded = load(&*disk, access)?;
        // Without a readable header no record matches, whatever the identity.
        let identity = loaded.identity.unwrap_or(Identity::new(0));
        let shared = Shared::new(disk, identity, loaded.table, None);
        Ok(Reader::follow(Arc::new(shared), from))
    }

    /// Makes a reader on a table of segments. If a writer updates the table, the reader returns new
    /// records as soon as they are durable.
    pub(crate) fn follow(shared: Arc<Shared>, from: u64) -> Reader {
        let headers = Vec::new();
        Reader { shared, _lock: None, next: from, open: None, number: 0, headers }
    }

    /// Returns the smallest sequence number that the next record can have.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Reads the next item. Returns `None` at the end of the known records. If the reader follows a
    /// writer, a later call returns records that have become durable since.
    ///
    /// After an error the next call reads the same item again. Damage is no error.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        let Some(found) = self.next_item()? else { return Ok(None) };
        Ok(match (found, &self.open) {
            (NextItem::Record(offset, header), Some(open)) => {
                let bytes = open.window.get(offset, header.whole_bytes());
                let payload = bytes.get(header.payload()).unwrap_or_default();
                let RecordHeader { sequence, kind, .. } = header;
                Some(Item::Record(Record { sequence, kind, payload }))
            }
            (NextItem::Record(..), None) => None,
            (NextItem::Damage(damage), _) => Some(Item::Damage(damage)),
            (NextItem::Gone(range), _) => Some(Item::Missing(range)),
        })
    }

    /// Waits for more durable records, up to `timeout`. Returns true if there may be more. Call it
    /// after [`next`](Self::next) has returned `None`: it ignores unread records within the bounds
    /// of the open segment that the reader already knows.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut table = self.shared.table();
        loop {
            let is_more = match &self.open {
                Some(open) => {
                    !matches!(table.continuation(self.number, &open.bounds), Continuation::End)
                }
                None => table.find(self.number, self.next).is_some(),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if is_more || left.is_zero() {
                return is_more;
            }
            self.shared.grown.wait_for(&mut table, left);
        }
    }

    fn next_item(&mut self) -> Result<Option<NextItem>, Error> {
        loop {
            if let Some(damage) = self.headers.pop() {
                return Ok(Some(NextItem::Damage(damage)));
            }
            let Some(open) = &mut self.open else {
                match self.open_next_segment()? {
                    Transition::Segment => continue,
                    Transition::Gone(range) => return Ok(Some(NextItem::Gone(range))),
                    Transition::Nothing => return Ok(None),
                }
            };
            let step = open.scan.step(&mut open.window, &open.bounds);
            match step.map_err(Error::io(&open.name, "read it"))? {
                Step::Record { header, .. } if header.sequence < self.next => {}
                Step::Record { offset, header } => {
                    self.next = header.sequence + 1;
                    return Ok(Some(NextItem::Record(offset, header)));
                }
                Step::Gap(gap) => {
                    if let Some(damage) = self.damage(&gap) {
                        return Ok(Some(NextItem::Damage(damage)));
                    }
                }
                Step::End => {
                    if let Some(found) = self.continue_after_end() {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Converts a gap in a segment to a damage report, records the damage, and moves the position
    /// past the missing records. Returns `None` if the whole gap precedes the reader's position.
    fn damage(&mut self, gap: &Gap) -> Option<Damage> {
        let open = self.open.as_ref()?;
        let mut records = None;
        let mut may_be_torn = false;
        if let Some((from, to)) = gap.missing {
            if to < self.next || (to == self.next && from < to) {
                return None;
            }
            may_be_torn = from >= open.bounds.certain_before;
            records = Some(to - from.max(self.next).min(to));
            self.next = to;
        }
        let (offset, bytes) = (gap.offset, gap.bytes);
        let damage = Damage { segment: self.number, offset, bytes, records, may_be_torn };
        self.shared.record_damage(&damage, &**open.window.file());
        Some(damage)
    }

    /// Looks up in the table of segments whether records follow the known end of the open segment.
    /// Returns `None` if the reader should continue reading, in this segment or a later one.
    /// Otherwise returns the result of this read: the report of a torn tail, or `Some(None)` at the
    /// end of the journal.
    fn continue_after_end(&mut self) -> Option<Option<NextItem>> {
        let open = self.open.as_mut()?;
        match self.shared.table().continuation(self.number, &open.bounds) {
            Continuation::Grown(bounds) => {
                open.bounds = bounds;
                return None;
            }
            Continuation::End => return Some(None),
            Continuation::NextSegment => {}
        }
        let rest = match open.bounds.next {
            Some(_) => None,
            None => self.torn_tail(),
        };
        self.open = None;
        rest.map(|damage| Some(NextItem::Damage(damage)))
    }

    /// Returns a damage report for the bytes after a segment's last record; `None` if all are zero.
    /// The segment's end must be unknown.
    fn torn_tail(&self) -> Option<Damage> {
        let open = self.open.as_ref()?;
        let torn = open.scan.tail().torn;
        let (offset, bytes) = (torn.start, torn.end - torn.start);
        let damage =
            Damage { segment: self.number, offset, bytes, records: None, may_be_torn: false };
        (bytes > 0).then(|| {
            self.shared.record_damage(&damage, &**open.window.file());
            damage
        })
    }

    /// Opens the next segment with records from the reader's position on. If sequence numbers are
    /// missing before that segment, only moves the position past them and returns them.
    fn open_next_segment(&mut self) -> Result<Transition, Error> {
        loop {
            let Some(segment) = self.shared.table().find(self.number, self.next) else {
                return Ok(Transition::Nothing);
            };
            if let Some(gone) = self.gone_before(&segment) {
                self.next = gone.end;
                return Ok(Transition::Gone(gone));
            }
            let name = segment_name(segment.number);
            match self.shared.disk.open(&name) {
                Ok(file) => {
                    self.start_segment(&segment, name, file);
                    return Ok(Transition::Segment);
                }
                // The segment has been trimmed meanwhile.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && self.shared.table().get(segment.number).is_none() => {}
                Err(error) => return Err(Error::io(&name, "open it")(error)),
            }
        }
    }

    /// Returns the sequence numbers that are missing before a segment, or `None`. Sequence numbers
    /// refused directly before the segment do not count as missing.
    fn gone_before(&self, segment: &Segment) -> Option<Range<u64>> {
        let first = segment.first?;
        let written = segment.previous.map_or(first, |previous| previous.next.min(first));
        (self.next < written).then_some(self.next..written)
    }

    fn start_segment(&mut self, segment: &Segment, name: String, file: Arc<dyn File>) {
        let expected = segment.first.or((self.number != 0).then_some(self.next));
        if let Some(first) = segment.first {
            self.next = self.next.max(first);
        }
        self.number = segment.number;
        for (copy, _) in segment.damaged_headers.iter().enumerate().filter(|(_, is)| **is).rev() {
            let damage = Damage {
                segment: segment.number,
                offset: (copy * SECTOR_BYTES) as u64,
                bytes: SECTOR_BYTES as u64,
                records: Some(0),
                may_be_torn: false,
            };
            self.shared.record_damage(&damage, &*file);
            self.headers.push(damage);
        }
        let (scan, window) = (Scan::new(self.shared.identity, expected), Window::new(file));
        self.open = Some(OpenSegment { scan, window, bounds: segment.bounds, name });
    }
}

enum Transition {
    Segment,
    Gone(Range<u64>),
    Nothing,
}

/// Locks a journal's directory. Fails with [`ErrorKind::Locked`] if another lock excludes this one.
pub(crate) fn lock_directory(disk: &dyn Disk, is_exclusive: bool) -> Result<Lock, Error> {
    let lock = disk.lock(is_exclusive).map_err(Error::io("", "lock the directory"))?;
    lock.ok_or_else(|| Error::new("", ErrorKind::Locked))
}
