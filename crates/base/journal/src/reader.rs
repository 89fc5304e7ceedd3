//! Reads a journal in order, at rest or behind its writer: records, and what is missing between them. Start at
//! [`Reader::next`].

use crate::damage::Damage;
use crate::directory::Directory;
use crate::disk::{Disk, File, Lock};
use crate::error::{Error, ErrorKind};
use crate::layout::{Identity, RecordHeader, SECTOR_BYTES, segment_name};
use crate::scan::{Bounds, Gap, Scan, Step};
use crate::shared::Shared;
use crate::table::{Beyond, Segment, State, load};
use crate::window::Window;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// What comes next in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A record.
    Record(Record<'a>),
    /// Something that is no record, where one should be.
    Damage(Damage),
    /// Records with these sequence numbers are not there any more: they were trimmed, dropped to make room for
    /// others, or their segment is missing.
    Gone(Range<u64>),
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place in the journal.
    pub sequence: u64,
    /// What its writer said of it.
    pub kind: u8,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Where somebody reads.
pub struct Reader {
    shared: Arc<Shared>,
    /// Of a journal at rest.
    _lock: Option<Lock>,
    next: u64,
    place: Option<Place>,
    /// The last segment that was read, or is being read.
    number: u64,
    /// Damaged headers of the segment that is being read.
    headers: Vec<Damage>,
}

/// A segment that is being read.
struct Place {
    scan: Scan,
    window: Window,
    bounds: Bounds,
    name: String,
}

/// What was found, without its bytes.
enum Found {
    Record(u64, RecordHeader),
    Damage(Damage),
    Gone(Range<u64>),
}

impl Reader {
    /// Reads a journal that nobody writes, from the record with the sequence number `from` on.
    pub fn open(directory: &Path, from: u64) -> Result<Reader, Error> {
        let disk = Directory::open(directory).map_err(Error::io("", "open the directory"))?;
        Reader::open_on(Arc::new(disk), from)
    }

    /// The same on another kind of disk.
    pub fn open_on(disk: Arc<dyn Disk>, from: u64) -> Result<Reader, Error> {
        let lock = lock_directory(&*disk, false)?;
        Ok(Reader { _lock: Some(lock), ..Reader::look(disk, from, State::AtRest)? })
    }

    /// Reads what is in a journal at this moment, while another process may write it: the end may not be durable yet.
    /// What is trimmed meanwhile is gone, or fails to be opened.
    pub fn beside_writer(disk: Arc<dyn Disk>, from: u64) -> Result<Reader, Error> {
        Reader::look(disk, from, State::Written)
    }

    fn look(disk: Arc<dyn Disk>, from: u64, state: State) -> Result<Reader, Error> {
        let loaded = load(&*disk, state)?;
        // Without an identity nothing is found, whatever this one is.
        let identity = loaded.identity.unwrap_or(Identity::new(0));
        let shared = Shared::new(disk, identity, loaded.table, None);
        Ok(Reader::of(Arc::new(shared), from))
    }

    /// Reads a journal behind its writer.
    pub(crate) fn of(shared: Arc<Shared>, from: u64) -> Reader {
        let headers = Vec::new();
        Reader { shared, _lock: None, next: from, place: None, number: 0, headers }
    }

    /// The sequence number up to which all has been read.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// What comes next; `None` if there is no more that is durable. More may come, if the journal is being written.
    ///
    /// After an error the same is tried again. Damage is no error.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        let Some(found) = self.find()? else { return Ok(None) };
        Ok(match (found, &self.place) {
            (Found::Record(offset, header), Some(place)) => {
                let bytes = place.window.get(offset, header.whole_bytes());
                let payload = bytes.get(header.payload()).unwrap_or_default();
                let RecordHeader { sequence, kind, .. } = header;
                Some(Item::Record(Record { sequence, kind, payload }))
            }
            (Found::Record(..), None) => None,
            (Found::Damage(damage), _) => Some(Item::Damage(damage)),
            (Found::Gone(range), _) => Some(Item::Gone(range)),
        })
    }

    /// Waits until there may be more to read, at most for `timeout`; false if there is not.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut table = self.shared.table();
        loop {
            let is_more = match &self.place {
                Some(place) => !matches!(table.beyond(self.number, &place.bounds), Beyond::Nothing),
                None => table.find(self.number, self.next).is_some(),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if is_more || left.is_zero() {
                return is_more;
            }
            let waited = self.shared.grown.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn find(&mut self) -> Result<Option<Found>, Error> {
        loop {
            if let Some(damage) = self.headers.pop() {
                return Ok(Some(Found::Damage(damage)));
            }
            let Some(place) = &mut self.place else {
                match self.enter()? {
                    Entered::Segment => continue,
                    Entered::Gone(range) => return Ok(Some(Found::Gone(range))),
                    Entered::Nothing => return Ok(None),
                }
            };
            let step = place.scan.step(&mut place.window, &place.bounds);
            match step.map_err(Error::io(&place.name, "read it"))? {
                Step::Record { header, .. } if header.sequence < self.next => {}
                Step::Record { offset, header } => {
                    self.next = header.sequence + 1;
                    return Ok(Some(Found::Record(offset, header)));
                }
                Step::Gap(gap) => {
                    if let Some(damage) = self.damage(&gap) {
                        return Ok(Some(Found::Damage(damage)));
                    }
                }
                Step::End => {
                    if let Some(found) = self.go_beyond() {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// What a gap means to this reader; `None` if it is before what is wanted.
    fn damage(&mut self, gap: &Gap) -> Option<Damage> {
        let place = self.place.as_ref()?;
        let mut records = None;
        let mut may_be_torn = false;
        if let Some((from, to)) = gap.missing {
            if to < self.next || (to == self.next && from < to) {
                return None;
            }
            may_be_torn = from >= place.bounds.certain_before;
            records = Some(to - from.max(self.next).min(to));
            self.next = to;
        }
        let (offset, bytes) = (gap.offset, gap.bytes);
        let damage = Damage { segment: self.number, offset, bytes, records, may_be_torn };
        self.shared.note(&damage, &**place.window.file());
        Some(damage)
    }

    /// At the end of what was known of a segment: goes on to what has come since, or to the next segment. Otherwise
    /// returns what there is to say.
    fn go_beyond(&mut self) -> Option<Option<Found>> {
        let place = self.place.as_mut()?;
        match self.shared.table().beyond(self.number, &place.bounds) {
            Beyond::More(bounds) => {
                place.bounds = bounds;
                return None;
            }
            Beyond::Nothing => return Some(None),
            Beyond::Later => {}
        }
        let rest = match place.bounds.next {
            Some(_) => None,
            None => self.rest_of_unknown(),
        };
        self.place = None;
        rest.map(|damage| Some(Found::Damage(damage)))
    }

    /// What is behind the last record of a segment of which nobody says where it ends.
    fn rest_of_unknown(&self) -> Option<Damage> {
        let place = self.place.as_ref()?;
        let torn = place.scan.tail().torn;
        let (offset, bytes) = (torn.start, torn.end - torn.start);
        let damage =
            Damage { segment: self.number, offset, bytes, records: None, may_be_torn: false };
        (bytes > 0).then(|| {
            self.shared.note(&damage, &**place.window.file());
            damage
        })
    }

    /// Opens the next segment.
    fn enter(&mut self) -> Result<Entered, Error> {
        loop {
            let Some(segment) = self.shared.table().find(self.number, self.next) else {
                return Ok(Entered::Nothing);
            };
            if let Some(gone) = self.gone_before(&segment) {
                self.next = gone.end;
                return Ok(Entered::Gone(gone));
            }
            let name = segment_name(segment.number);
            match self.shared.disk.open(&name) {
                Ok(file) => {
                    self.begin(&segment, name, file);
                    return Ok(Entered::Segment);
                }
                // Trimmed just now.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && self.shared.table().get(segment.number).is_none() => {}
                Err(error) => return Err(Error::io(&name, "open it")(error)),
            }
        }
    }

    /// What is missing before a segment. Numbers that were refused are not.
    fn gone_before(&self, segment: &Segment) -> Option<Range<u64>> {
        let first = segment.first?;
        let written = segment.before.map_or(first, |before| before.next.min(first));
        (self.next < written).then_some(self.next..written)
    }

    fn begin(&mut self, segment: &Segment, name: String, file: Arc<dyn File>) {
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
            self.shared.note(&damage, &*file);
            self.headers.push(damage);
        }
        let (scan, window) = (Scan::new(self.shared.identity, expected), Window::new(file));
        self.place = Some(Place { scan, window, bounds: segment.bounds, name });
    }
}

enum Entered {
    Segment,
    Gone(Range<u64>),
    Nothing,
}

/// Locks a journal's directory.
pub(crate) fn lock_directory(disk: &dyn Disk, is_exclusive: bool) -> Result<Lock, Error> {
    let lock = disk.lock(is_exclusive).map_err(Error::io("", "lock the directory"))?;
    lock.ok_or_else(|| Error::new("", ErrorKind::Locked))
}
