//! The queue of waiting batches: a journal on disk, or memory. A [`Queue`] is the writing side, a
//! [`QueueReader`] the reading side.

use crate::error::{Error, Refusal};
use crate::options::{BATCH_BYTES_MAX, Options};
use crate::record::{GapCounter, Record};
use blkkin_journal::{Item, Journal, Payload, Reader};
use blkkin_wire::Format;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Consumer name under which the journal stores the position up to which batches are settled.
const CONSUMER: &str = "deliver";

/// Minimum interval between updates of the stored position, except for the update at stop. An
/// update requires several writes. Batches settled since the last update may be sent twice after a
/// crash.
const SAVE_INTERVAL: Duration = Duration::from_millis(250);

/// Writing side of the queue of waiting batches, on disk or in memory.
pub(crate) enum Queue {
    Disk(Arc<Journal>),
    Memory(MemoryQueue),
}

/// Queue in memory, whose batches are lost with the program.
pub(crate) struct MemoryQueue {
    records: VecDeque<Record>,
    bytes: u64,
    bytes_max: u64,
}

/// Reading side of a queue. A queue in memory is read through the exporter's shared state instead.
pub(crate) enum QueueReader {
    Disk(Box<DiskReader>),
    Memory,
}

/// Reading side of a queue on disk.
pub(crate) struct DiskReader {
    journal: Arc<Journal>,
    reader: Reader,
    gaps: GapCounter,
    /// Position up to which batches are settled. `saved` is the time of the last attempt to store
    /// the position.
    settled: u64,
    saved: Option<Instant>,
}

/// Contents of a queue folder when it is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) spans: u64,
    /// Number of spans up to and including the last readable waiting batch, as stored with the
    /// batch; 0 without such a batch.
    pub(crate) spans_up_to: u64,
    /// Time of the last readable waiting batch; `None` without such a batch.
    pub(crate) time_ms: Option<u64>,
}

/// Result of reading a queue: a batch, damage, or nothing.
pub(crate) enum QueueItem {
    /// A batch, and the number of spans missing before it.
    Record(Record, u64),
    /// Damaged or missing data in the journal, or a record that cannot be decoded.
    Damage,
    /// The queue contains no further batch yet.
    Nothing,
}

impl Queue {
    pub(crate) fn memory(options: &Options) -> (Queue, QueueReader, Backlog) {
        let memory =
            MemoryQueue { records: VecDeque::new(), bytes: 0, bytes_max: options.queue_bytes_max };
        (Queue::Memory(memory), QueueReader::Memory, Backlog::default())
    }

    pub(crate) fn on_disk(
        folder: &Path,
        options: &Options,
    ) -> Result<(Queue, QueueReader, Backlog), Error> {
        let journal_options = blkkin_journal::Options {
            segment_bytes: options.segment_bytes(),
            total_bytes_max: options.queue_bytes_max,
            waiting_bytes_max: BATCH_BYTES_MAX + (128 << 10),
            // Incompressible data grows a little when it is compressed.
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
        let backlog = count_backlog(journal.reader(settled), options.destination.format())?;
        let journal = Arc::new(journal);
        let reader = journal.reader(settled);
        let disk = DiskReader {
            journal: Arc::clone(&journal),
            reader,
            gaps: GapCounter::default(),
            settled,
            saved: None,
        };
        Ok((Queue::Disk(journal), QueueReader::Disk(Box::new(disk)), backlog))
    }

    /// Appends a batch. A batch in a queue on disk is durable on return.
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

    /// Returns the oldest waiting batch of a queue in memory; `None` if the queue is empty or on
    /// disk.
    pub(crate) fn front(&self) -> Option<&Record> {
        match self {
            Queue::Disk(_) => None,
            Queue::Memory(memory) => memory.records.front(),
        }
    }

    /// Removes the oldest batch, which is settled, from a queue in memory. Does nothing for a queue
    /// on disk.
    pub(crate) fn pop(&mut self) {
        if let Queue::Memory(memory) = self
            && let Some(record) = memory.records.pop_front()
        {
            memory.bytes -= record.body.len() as u64;
        }
    }

    /// Returns true if a queue in memory has room for a batch. Always false for a queue on disk,
    /// where only an append can show whether there is room.
    pub(crate) fn has_room_in_memory(&self, record: &Record) -> bool {
        matches!(self, Queue::Memory(memory) if memory.has_room(record))
    }

    /// Returns true if waiting batches survive a crash of the program.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self, Queue::Disk(_))
    }
}

impl MemoryQueue {
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

/// Counts the spans of the waiting batches, and the spans missing between them. A batch that cannot
/// be decoded, or has a format other than `wanted`, is an error.
fn count_backlog(mut reader: Reader, wanted: Format) -> Result<Backlog, Error> {
    let (mut gaps, mut backlog) = (GapCounter::default(), Backlog::default());
    while let Some(item) = reader.next()? {
        let Item::Record(item) = item else {
            gaps.mark_gap();
            continue;
        };
        let record = Record::decode(item.kind, item.payload).ok_or(Error::Newer)?;
        if record.format != wanted {
            return Err(Error::OtherFormat { queued: record.format, expected: wanted });
        }
        backlog.spans += gaps.add(&record) + u64::from(record.spans);
        backlog.time_ms = Some(record.time_ms);
    }
    backlog.spans_up_to = gaps.spans_up_to();
    Ok(backlog)
}

impl DiskReader {
    /// Reads the next batch, or reports damage or the end of the queue.
    pub(crate) fn next(&mut self) -> Result<QueueItem, blkkin_journal::Error> {
        Ok(match self.reader.next()? {
            None => QueueItem::Nothing,
            Some(Item::Record(item)) => match Record::decode(item.kind, item.payload) {
                Some(record) => {
                    let missing = self.gaps.add(&record);
                    QueueItem::Record(record, missing)
                }
                None => {
                    self.gaps.mark_gap();
                    QueueItem::Damage
                }
            },
            Some(Item::Damage(_) | Item::Missing(_)) => {
                self.gaps.mark_gap();
                QueueItem::Damage
            }
        })
    }

    /// Marks all batches read so far as settled. Returns true if disk space was freed.
    ///
    /// An error while storing the position is harmless: the batches would only be sent again.
    /// Segments are removed nevertheless, since a full disk may be the cause; no spans count as
    /// lost for missing segments at the start.
    pub(crate) fn settle(&mut self) -> Result<bool, blkkin_journal::Error> {
        self.settled = self.reader.position();
        let saved = match self.saved {
            Some(saved) if saved.elapsed() < SAVE_INTERVAL => Ok(()),
            _ => self.save_position(),
        };
        let trimmed = self.journal.trim_before(self.settled)?;
        saved.map(|()| trimmed.segments > 0)
    }

    /// Stores the position up to which batches are settled.
    pub(crate) fn save_position(&mut self) -> Result<(), blkkin_journal::Error> {
        self.saved = Some(Instant::now());
        self.journal.set_position(CONSUMER, self.settled)
    }
}
