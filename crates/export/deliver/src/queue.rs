//! Where batches wait: in a journal on disk, or in memory. A [`Queue`] is written, a [`Source`] is its reader.

use crate::error::{Error, Refusal};
use crate::options::{BATCH_BYTES_MAX, Options};
use crate::record::{Ledger, Record};
use blkkin_journal::{Item, Journal, Payload, Reader};
use blkkin_wire::Format;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Under which name the journal keeps up to where batches are settled.
const CONSUMER: &str = "deliver";

/// How often that is noted at most, as it takes several writes. What was settled since may be sent twice.
const NOTE_EVERY: Duration = Duration::from_millis(250);

/// Where batches wait.
pub(crate) enum Queue {
    Disk(Arc<Journal>),
    Memory(Memory),
}

/// Batches in memory.
pub(crate) struct Memory {
    records: VecDeque<Record>,
    bytes: u64,
    bytes_max: u64,
}

/// The next batch that waits, with its reader's place.
pub(crate) enum Source {
    Disk(Box<Disk>),
    Memory,
}

/// The reading side of a queue on disk.
pub(crate) struct Disk {
    journal: Arc<Journal>,
    reader: Reader,
    ledger: Ledger,
    /// Up to where batches are settled, and when that was noted.
    settled: u64,
    noted: Option<Instant>,
}

/// What a queue's folder holds when it is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) spans: u64,
    /// The spans of all batches there ever were, as far as that is known.
    pub(crate) spans_up_to: u64,
    /// When the last one was queued, if there is one.
    pub(crate) time_ms: Option<u64>,
}

/// What comes next.
pub(crate) enum Next {
    /// A batch, and how many spans are missing before it.
    Record(Record, u64),
    /// Something that is no batch.
    Damage,
    /// Nothing yet.
    Nothing,
}

impl Queue {
    pub(crate) fn memory(options: &Options) -> (Queue, Source, Found) {
        let memory =
            Memory { records: VecDeque::new(), bytes: 0, bytes_max: options.queue_bytes_max };
        (Queue::Memory(memory), Source::Memory, Found::default())
    }

    pub(crate) fn on_disk(
        folder: &Path,
        options: &Options,
    ) -> Result<(Queue, Source, Found), Error> {
        let journal_options = blkkin_journal::Options {
            segment_bytes: options.segment_bytes(),
            total_bytes_max: options.queue_bytes_max,
            waiting_bytes_max: BATCH_BYTES_MAX + (128 << 10),
            // What cannot be compressed gets a little longer by it.
            payload_bytes_max: BATCH_BYTES_MAX as u32 + (64 << 10),
            ..blkkin_journal::Options::default()
        };
        let made = std::fs::create_dir_all(folder);
        made.map_err(|source| Error::Io {
            during: "make the folder",
            path: folder.to_owned(),
            source,
        })?;
        let (journal, _) = Journal::open(&folder.join("batches"), journal_options)?;
        let settled = journal.position(CONSUMER)?.unwrap_or(0);
        let found = look(journal.reader(settled), options.destination.format())?;
        let journal = Arc::new(journal);
        let reader = journal.reader(settled);
        let disk = Disk {
            journal: Arc::clone(&journal),
            reader,
            ledger: Ledger::default(),
            settled,
            noted: None,
        };
        Ok((Queue::Disk(journal), Source::Disk(Box::new(disk)), found))
    }

    /// Adds a batch. On disk, it is durable when this returns.
    pub(crate) fn append(&mut self, record: &Record) -> Result<(), Refusal> {
        match self {
            Queue::Memory(memory) => memory.append(record),
            Queue::Disk(journal) => {
                let bytes = record.encode();
                let payload = Payload { kind: record.kind(), bytes: &bytes };
                let appended = journal.append(&[payload]).and_then(|ticket| ticket.wait());
                appended.map_err(|refusal| match &refusal {
                    blkkin_journal::Refusal::TryAgain => Refusal::Full,
                    blkkin_journal::Refusal::Full(error)
                        if matches!(error.kind, blkkin_journal::ErrorKind::Limit { .. }) =>
                    {
                        Refusal::Full
                    }
                    _ => Refusal::Disk(Arc::new(refusal)),
                })
            }
        }
    }

    /// The batch that waits for longest; in memory only.
    pub(crate) fn front(&self) -> Option<&Record> {
        match self {
            Queue::Disk(_) => None,
            Queue::Memory(memory) => memory.records.front(),
        }
    }

    /// That batch is settled.
    pub(crate) fn pop(&mut self) {
        if let Queue::Memory(memory) = self
            && let Some(record) = memory.records.pop_front()
        {
            memory.bytes -= record.body.len() as u64;
        }
    }

    /// Whether a batch has room; on disk nobody knows before it is tried.
    pub(crate) fn has_room_in_memory(&self, record: &Record) -> bool {
        matches!(self, Queue::Memory(memory) if memory.has_room(record))
    }

    /// Whether what waits survives the program.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self, Queue::Disk(_))
    }
}

impl Memory {
    fn append(&mut self, record: &Record) -> Result<(), Refusal> {
        if !self.has_room(record) {
            return Err(Refusal::Full);
        }
        self.bytes += record.body.len() as u64;
        self.records.push_back(record.clone());
        Ok(())
    }

    fn has_room(&self, record: &Record) -> bool {
        self.bytes + record.body.len() as u64 <= self.bytes_max
    }
}

/// Goes along what waits, and finds out how much it is.
fn look(mut reader: Reader, wanted: Format) -> Result<Found, Error> {
    let (mut ledger, mut found) = (Ledger::default(), Found::default());
    while let Some(item) = reader.next()? {
        let Item::Record(item) = item else {
            ledger.damage();
            continue;
        };
        let record = Record::decode(item.kind, item.payload).ok_or(Error::Newer)?;
        if record.format != wanted {
            return Err(Error::OtherFormat { found: record.format, wanted });
        }
        found.spans += ledger.record(&record) + u64::from(record.spans);
        found.time_ms = Some(record.time_ms);
    }
    found.spans_up_to = ledger.spans();
    Ok(found)
}

impl Disk {
    /// The next batch.
    pub(crate) fn next(&mut self) -> Result<Next, blkkin_journal::Error> {
        Ok(match self.reader.next()? {
            None => Next::Nothing,
            Some(Item::Record(item)) => match Record::decode(item.kind, item.payload) {
                Some(record) => {
                    let missing = self.ledger.record(&record);
                    Next::Record(record, missing)
                }
                None => {
                    self.ledger.damage();
                    Next::Damage
                }
            },
            Some(Item::Damage(_) | Item::Gone(_)) => {
                self.ledger.damage();
                Next::Damage
            }
        })
    }

    /// All that was read is settled. Whether there is more room now.
    ///
    /// That this could not be noted is no harm now: what was settled since would be sent again. Segments go all the
    /// same, since a full disk may be why; a reader takes those that are missing at its start for settled.
    pub(crate) fn settle(&mut self) -> Result<bool, blkkin_journal::Error> {
        self.settled = self.reader.position();
        let noted = match self.noted {
            Some(noted) if noted.elapsed() < NOTE_EVERY => Ok(()),
            _ => self.note(),
        };
        let trimmed = self.journal.trim_before(self.settled)?;
        noted.map(|()| trimmed.segments > 0)
    }

    /// Notes up to where batches are settled.
    pub(crate) fn note(&mut self) -> Result<(), blkkin_journal::Error> {
        self.noted = Some(Instant::now());
        self.journal.set_position(CONSUMER, self.settled)
    }
}
