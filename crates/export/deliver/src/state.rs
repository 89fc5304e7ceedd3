//! State shared by the exporter and its sending thread: current batch, queue and counters.

use crate::counters::{Cause, Counters};
use crate::error::Refusal;
use crate::options::{BATCH_BYTES_MAX, Options};
use crate::queue::{Backlog, Queue};
use crate::record::{Record, with_sizes};
use blkkin_model::SpanRef;
use blkkin_wire::{Batch, Format};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

pub(crate) struct SharedState {
    pub(crate) options: Options,
    pub(crate) clock: QueueClock,
    state: Mutex<State>,
    /// Condition variable, notified after each change that a thread may wait for.
    pub(crate) changed: Condvar,
    /// Signal that cancels the request in progress, or else the next request.
    pub(crate) cancel: Notify,
}

/// State that the exporter and its sending thread change under a lock.
pub(crate) struct State {
    /// Current batch, to which pushed spans are added; `None` if no span was pushed since the last
    /// batch.
    batch: Option<OpenBatch>,
    /// A complete batch that the queue has refused, for lack of room or after a disk error.
    sealed: Option<Record>,
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    /// Number of batches queued so far.
    pub(crate) queued: u64,
    /// Number of spans in all batches sealed so far, including delivered batches. Continues the
    /// count of the last batch that waited when the queue was opened.
    spans_up_to: u64,
    /// Set by a thread that waits for room: the sender then drops the oldest batches, and clears
    /// the flag once there is room or the queue is empty.
    pub(crate) drop_oldest: bool,
    pub(crate) is_stopping: bool,
    /// Last error of the queue or of sending, or last message of the destination. Cleared when the
    /// destination accepts a batch without a message or rejected spans.
    pub(crate) trouble: Option<String>,
}

/// The current batch, to which pushed spans are added.
struct OpenBatch {
    batch: Batch,
    since: Instant,
    /// End offset of each span in the batch, for formats whose records store span sizes.
    ends: Vec<usize>,
}

/// The queue's clock, which runs only while an exporter is open. The clock starts at the current
/// time for an empty queue, and otherwise at the time of the last waiting batch. Time between two
/// exporters does not count, as it cannot be distinguished from a clock adjustment. A system clock
/// that is a year ahead therefore makes no batch too old, and a clock set back keeps no batch for
/// longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueClock {
    opened_ms: u64,
    since: Instant,
}

impl QueueClock {
    /// Starts the clock at the time of the last waiting batch, or at the current time for an empty
    /// queue.
    fn start(last_ms: Option<u64>) -> QueueClock {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let opened_ms = last_ms.unwrap_or_else(|| now().as_millis() as u64);
        QueueClock { opened_ms, since: Instant::now() }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.opened_ms.saturating_add(self.since.elapsed().as_millis() as u64)
    }

    /// Returns the time since `time_ms`; zero if `time_ms` is in the future.
    pub(crate) fn age(&self, time_ms: u64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(time_ms))
    }
}

impl SharedState {
    pub(crate) fn new(options: Options, queue: Queue, backlog: Backlog) -> SharedState {
        let counters =
            Counters { recovered: backlog.spans, waiting: backlog.spans, ..Counters::default() };
        let state = State {
            batch: None,
            sealed: None,
            queue,
            counters,
            queued: 0,
            spans_up_to: backlog.spans_up_to,
            drop_oldest: false,
            is_stopping: false,
            trouble: None,
        };
        let (state, changed, cancel) = (Mutex::new(state), Condvar::new(), Notify::new());
        SharedState { options, clock: QueueClock::start(backlog.time_ms), state, changed, cancel }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits for a change of the state, for at most `timeout`.
    pub(crate) fn wait(&self, state: &mut MutexGuard<'_, State>, timeout: Duration) {
        self.changed.wait_for(state, timeout);
    }

    /// Queues the complete batch that waits for room, if any, then completes and queues the current
    /// batch. A refused batch is kept, and queued by a later call.
    pub(crate) fn seal(&self, state: &mut State) -> Result<(), Refusal> {
        self.append(state)?;
        let Some(OpenBatch { batch, ends, .. }) = state.batch.take() else { return Ok(()) };
        let spans = batch.count() as u32;
        let body = batch.finish();
        let body = if ends.is_empty() { body } else { with_sizes(&body, &ends) };
        state.sealed = Some(self.record(state, body, spans));
        self.append(state)
    }

    fn append(&self, state: &mut State) -> Result<(), Refusal> {
        let Some(sealed) = &state.sealed else { return Ok(()) };
        state.queue.append(sealed)?;
        state.sealed = None;
        state.queued += 1;
        self.changed.notify_all();
        Ok(())
    }

    fn record(&self, state: &mut State, body: Vec<u8>, spans: u32) -> Record {
        let body = if self.options.gzip { compressed(&body) } else { body };
        let spans_before = state.spans_up_to;
        state.spans_up_to += u64::from(spans);
        Record {
            format: self.options.destination.format(),
            is_gzip: self.options.gzip,
            spans,
            spans_before,
            time_ms: self.clock.now_ms(),
            body: Bytes::from(body),
        }
    }

    /// Adds a span to the current batch. A span that is too large is dropped and counted.
    pub(crate) fn add(&self, state: &mut State, span: &SpanRef<'_>) {
        state.counters.pushed += 1;
        state.counters.waiting += 1;
        let format = self.options.destination.format();
        let new =
            || OpenBatch { batch: Batch::new(format), since: Instant::now(), ends: Vec::new() };
        if state.batch.is_none() {
            // Wake the sender: it has to wait for the new batch's due time.
            self.changed.notify_all();
        }
        let open_batch = state.batch.get_or_insert_with(new);
        open_batch.batch.span(span);
        if format == Format::ZipkinThriftSpan {
            open_batch.ends.push(open_batch.batch.size());
        }
        // A span that is too large is alone in its batch.
        if open_batch.batch.size() > BATCH_BYTES_MAX - END_BYTES_MAX {
            let count = open_batch.batch.count() as u64;
            state.batch = None;
            state.counters.drop_waiting(Cause::TooLarge, count);
        }
    }
}

/// Maximum number of bytes that completing a batch adds to [`Batch::size`], such as closing bytes.
const END_BYTES_MAX: usize = 1024;

impl State {
    /// Returns true if a complete batch could not be queued.
    pub(crate) fn is_blocked(&self) -> bool {
        self.sealed.is_some()
    }

    /// Returns true if no complete batch waits for room, or if a queue in memory has room for that
    /// batch. Always false for a disk queue that lacked room, as only an append can test it.
    pub(crate) fn has_room_in_memory(&self) -> bool {
        self.sealed.as_ref().is_none_or(|sealed| self.queue.has_room_in_memory(sealed))
    }

    /// Returns the time until the current batch is due; `None` without a batch.
    pub(crate) fn due_in(&self, age: Duration) -> Option<Duration> {
        self.batch.as_ref().map(|open_batch| age.saturating_sub(open_batch.since.elapsed()))
    }

    /// Returns true if the current batch must be sealed before a span of `bytes` bytes is added.
    pub(crate) fn is_due(&self, options: &Options, bytes: usize) -> bool {
        self.batch.as_ref().is_some_and(|OpenBatch { batch, since, .. }| {
            batch.size() >= options.batch_bytes
                || batch.size() + bytes > BATCH_BYTES_MAX / 2
                || since.elapsed() >= options.batch_age
        })
    }

    /// Returns the number of waiting spans that are not in the queue yet.
    pub(crate) fn outside_queue(&self) -> u64 {
        let open_batch =
            self.batch.as_ref().map_or(0, |open_batch| open_batch.batch.count() as u64);
        open_batch + self.sealed.as_ref().map_or(0, |record| record.spans.into())
    }

    /// Drops all spans that are in memory only, and counts them.
    pub(crate) fn drop_volatile(&mut self) {
        let lost = match self.queue.is_durable() {
            true => self.outside_queue(),
            false => self.counters.waiting,
        };
        self.counters.drop_waiting(Cause::Ended, lost);
        (self.batch, self.sealed) = (None, None);
    }
}

/// Returns an upper bound for the size of a span in any format, so that a large span gets a batch
/// of its own.
pub(crate) fn bytes_max(span: &SpanRef<'_>) -> usize {
    use blkkin_model::ValueRef;
    // A control character takes six bytes in JSON.
    let text = |text: &str| text.len() * 6;
    let tag = |value: ValueRef<'_>| match value {
        ValueRef::Str(value) => text(value),
        ValueRef::Bytes(bytes) => bytes.len() * 2,
        ValueRef::Int(_) | ValueRef::Bool(_) | ValueRef::Double(_) => 512,
    };
    let annotations = span.annotations.iter().map(|one| text(one.value) + 400).sum::<usize>();
    let tags = span.tags.iter().map(|one| text(one.key) + tag(one.value) + 400).sum::<usize>();
    // The v1 formats repeat the endpoint for each annotation and tag, and 400 bytes do not cover
    // long names.
    let lists = span.annotations.len() + span.tags.len() + 8;
    let services = text(span.local.service) * lists + text(span.remote.service) * 2;
    1024 + text(span.name) + services + annotations + tags
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
