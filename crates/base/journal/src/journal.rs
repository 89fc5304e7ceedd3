//! The journal for concurrent appenders. A single thread writes the records of many appends
//! together and then acknowledges them. Start at [`Journal::append`].

use crate::batch::Payload;
use crate::counters::Counters;
use crate::directory::Directory;
use crate::disk::Disk;
use crate::error::{Error, Refusal};
use crate::log::{Log, Recovery};
use crate::options::{OnDurable, Options};
use crate::position;
use crate::queue::{Limits, Queue, Work};
use crate::reader::Reader;
use crate::shared::{Shared, TrimResult};
use crate::ticket::{Outcome, Ticket};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Journal that is open for writing. Dropping the value writes all pending records and closes the
/// journal.
pub struct Journal {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<Result<(), Error>>>,
}

impl Journal {
    /// Opens the journal in `directory`. Creates the directory if it does not exist.
    pub fn open(directory: &Path, options: Options) -> Result<(Journal, Recovery), Error> {
        let disk = Directory::make(directory).map_err(Error::io("", "open the directory"))?;
        Journal::open_on(Arc::new(disk), options)
    }

    /// Opens a journal on any [`Disk`], such as a simulated one.
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<(Journal, Recovery), Error> {
        let (log, recovery) = Log::open(disk, options.clone())?;
        let shared = Arc::clone(log.shared());
        let limits = Limits {
            identity: shared.identity,
            waiting_bytes_max: options.waiting_bytes_max,
            payload_bytes_max: options.payload_bytes_max,
        };
        let queue = Arc::new(Queue::new(limits, recovery.next_sequence));
        let writer = Writer {
            queue: Arc::clone(&queue),
            retry_after: options.retry_after,
            memory_bytes_max: options.waiting_bytes_max,
            on_durable: options.on_durable,
        };
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let writer = thread.spawn(move || writer.run(log));
        let writer = writer.map_err(Error::io("", "start a thread"))?;
        Ok((Journal { queue, shared, writer: Some(writer) }, recovery))
    }

    /// Queues all payloads contiguously and in order, or refuses all of them. The records are
    /// durable only once the ticket reports success. Never waits for the disk.
    pub fn append(&self, payloads: &[Payload<'_>]) -> Result<Ticket, Refusal> {
        self.count_refusal(payloads, self.queue.append(payloads, None))
    }

    /// Appends like [`append`](Self::append), and reports the outcome to a callback. The writing
    /// thread calls the callback, or this function itself if `payloads` is empty. If this function
    /// returns a refusal, the callback is not called. Meant for callers that must not block: their
    /// callback sends on a channel or wakes a task. A panic of the callback in the writing thread
    /// ends that thread, and all later appends are refused.
    pub fn append_then(
        &self,
        payloads: &[Payload<'_>],
        callback: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<Ticket, Refusal> {
        self.count_refusal(payloads, self.queue.append(payloads, Some(Box::new(callback))))
    }

    fn count_refusal(
        &self,
        payloads: &[Payload<'_>],
        result: Result<Ticket, Refusal>,
    ) -> Result<Ticket, Refusal> {
        if let Err(refusal) = &result {
            let payloads = payloads.len() as u64;
            self.shared.count(|counters| match refusal {
                Refusal::TryAgain => counters.refused_try_again += payloads,
                Refusal::Full(_) => counters.refused_full += payloads,
                Refusal::Failing(_) => counters.refused_failing += payloads,
                Refusal::TooLarge { .. } | Refusal::Closed => {}
            });
        }
        result
    }

    /// Returns the refusal that all appends currently receive, [`Refusal::Full`] or
    /// [`Refusal::Failing`]; `None` if there is no such refusal. Reports neither back-pressure nor
    /// the end of the writing thread.
    pub fn refusal(&self) -> Option<Refusal> {
        self.queue.refusal()
    }

    /// Makes a reader that starts at sequence number `from` and then follows the writer. The reader
    /// returns durable records only.
    pub fn reader(&self, from: u64) -> Reader {
        Reader::follow(Arc::clone(&self.shared), from)
    }

    /// Removes segments whose records all precede `sequence`, but never the last segment.
    pub fn trim_before(&self, sequence: u64) -> Result<TrimResult, Error> {
        let trimmed = self.shared.trim_before(sequence);
        self.queue.try_now();
        trimmed
    }

    /// Returns the stored position of a consumer; `None` if none is stored or its file is damaged.
    pub fn position(&self, consumer: &str) -> Result<Option<u64>, Error> {
        position::read(&*self.shared.disk, consumer)
    }

    /// Stores a consumer's position durably. It states that the consumer has finished all records
    /// before `sequence`. Does not trim the journal.
    pub fn set_position(&self, consumer: &str, sequence: u64) -> Result<(), Error> {
        position::write(&*self.shared.disk, consumer, sequence)
    }

    /// Removes the position of a consumer that no longer exists.
    pub fn forget_position(&self, consumer: &str) -> Result<(), Error> {
        position::forget(&*self.shared.disk, consumer)
    }

    /// Returns the counters, which start at 0 when the journal is opened.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Returns the disk space that all segments occupy, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.shared.table().file_bytes()
    }

    /// Writes all pending records, and an end mark to the active segment if there is one. The mark
    /// shows that the journal was closed cleanly.
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.queue.close();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        // After a panic, all pending appends have an outcome already.
        let panicked = |_| Err(Error::io("", "close it")(io::Error::other("its thread panicked")));
        writer.join().unwrap_or_else(panicked)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Callers that need the result call `close`.
        let _ = self.finish();
    }
}

/// State of the thread that writes the records of all appends.
struct Writer {
    queue: Arc<Queue>,
    retry_after: Duration,
    memory_bytes_max: usize,
    on_durable: Option<OnDurable>,
}

impl Writer {
    fn run(self, mut log: Log) -> Result<(), Error> {
        let mut memory = Vec::new();
        loop {
            memory = match self.queue.next_work(memory, self.retry_after) {
                Work::Close => return log.close(),
                Work::Probe => {
                    self.queue.end_write(log.prepare().err());
                    Vec::new()
                }
                Work::Write(waiting) => {
                    let outcome = log.write(&waiting.batch);
                    let next = waiting.batch.next();
                    let count = waiting.batch.count().into();
                    self.queue.end_write(outcome.as_ref().err().cloned());
                    self.report(&outcome, next, count, &log);
                    let memory = waiting.finish(&outcome);
                    if memory.capacity() > self.memory_bytes_max { Vec::new() } else { memory }
                }
            };
        }
    }

    fn report(&self, outcome: &Outcome, next: u64, count: u64, log: &Log) {
        match outcome {
            Ok(()) => {
                if let Some(on_durable) = &self.on_durable {
                    on_durable(next);
                }
            }
            Err(Refusal::Full(_)) => log.shared().count(|counters| counters.refused_full += count),
            Err(_) => log.shared().count(|counters| counters.refused_failing += count),
        }
    }
}

/// Releases all waiting appenders if the writer panics.
impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}
