//! What who pushes and the thread that sends have in common: the batch that is being filled, the queue, the counts.

use crate::counters::{Cause, Counters};
use crate::error::Refusal;
use crate::options::{BATCH_BYTES_MAX, Options};
use crate::queue::Queue;
use crate::record::{Record, with_sizes};
use blkkin_model::SpanRef;
use blkkin_wire::{Batch, Format};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    state: Mutex<State>,
    /// Notified when anything has changed that somebody may wait for.
    pub(crate) changed: Condvar,
    /// Breaks off what is being sent.
    pub(crate) cancel: Notify,
}

/// What changes.
pub(crate) struct State {
    /// What is being filled.
    batch: Option<Filling>,
    /// A full batch for which the queue had no room.
    sealed: Option<Record>,
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    /// How many batches were queued.
    pub(crate) queued: u64,
    /// The spans of all batches that were ever sealed.
    spans_up_to: u64,
    /// Somebody waits for room, and the oldest batches are to be given up for it.
    pub(crate) is_room_wanted: bool,
    pub(crate) is_stopping: bool,
    /// Why nothing is delivered just now.
    pub(crate) trouble: Option<String>,
}

/// A batch that is being filled.
struct Filling {
    batch: Batch,
    since: Instant,
    /// Where each span ends, for who has to know.
    ends: Vec<usize>,
}

/// The queue's own time, which runs while an exporter does: an empty queue begins with the time of day, and one in which
/// something waits goes on where its last batch was queued. What passes between two exporters counts for nothing, as
/// nobody can tell it from a clock that was set; one that is a year ahead when an exporter is opened, or becomes so
/// later, makes no batch too old, and one that goes back keeps none for longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    opened_ms: u64,
    since: Instant,
}

impl Clock {
    /// Goes on behind the last batch that waits.
    fn start(last_ms: Option<u64>) -> Clock {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let opened_ms = last_ms.unwrap_or_else(|| now().as_millis() as u64);
        Clock { opened_ms, since: Instant::now() }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.opened_ms.saturating_add(self.since.elapsed().as_millis() as u64)
    }

    /// How long ago that was; nothing if it is yet to come.
    pub(crate) fn age(&self, time_ms: u64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(time_ms))
    }
}

impl Shared {
    pub(crate) fn new(options: Options, queue: Queue, found: crate::queue::Found) -> Shared {
        let counters = Counters { found: found.spans, waiting: found.spans, ..Counters::default() };
        let state = State {
            batch: None,
            sealed: None,
            queue,
            counters,
            queued: 0,
            spans_up_to: found.spans_up_to,
            is_room_wanted: false,
            is_stopping: false,
            trouble: None,
        };
        let (state, changed, cancel) = (Mutex::new(state), Condvar::new(), Notify::new());
        Shared { options, clock: Clock::start(found.time_ms), state, changed, cancel }
    }

    /// What changes stays right when somebody panics.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes, at most for `timeout`.
    pub(crate) fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        timeout: Duration,
    ) -> MutexGuard<'s, State> {
        self.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Puts what is being filled into the queue, so that there is nothing left outside it.
    pub(crate) fn seal(&self, state: &mut State) -> Result<(), Refusal> {
        self.append(state)?;
        let Some(Filling { batch, ends, .. }) = state.batch.take() else { return Ok(()) };
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

    /// Adds a span to what is being filled.
    pub(crate) fn add(&self, state: &mut State, span: &SpanRef<'_>) {
        state.counters.pushed += 1;
        state.counters.waiting += 1;
        let format = self.options.destination.format();
        let new = || Filling { batch: Batch::new(format), since: Instant::now(), ends: Vec::new() };
        if state.batch.is_none() {
            // Who sends has to know when it will be due.
            self.changed.notify_all();
        }
        let filling = state.batch.get_or_insert_with(new);
        filling.batch.span(span);
        if format == Format::ZipkinThriftSpan {
            filling.ends.push(filling.batch.size());
        }
        // It was alone.
        if filling.batch.size() > BATCH_BYTES_MAX - END_BYTES_MAX {
            let count = filling.batch.count() as u64;
            state.batch = None;
            state.counters.drop_waiting(Cause::TooLarge, count);
        }
    }
}

/// What a batch may have besides [`Batch::size`], with room to spare.
const END_BYTES_MAX: usize = 1024;

impl State {
    /// Whether there is something that could not be queued.
    pub(crate) fn is_blocked(&self) -> bool {
        self.sealed.is_some()
    }

    /// Whether what could not be queued can now; only a queue in memory knows.
    pub(crate) fn has_room_in_memory(&self) -> bool {
        self.sealed.as_ref().is_none_or(|sealed| self.queue.has_room_in_memory(sealed))
    }

    /// How long what is being filled may wait; `None` if there is nothing.
    pub(crate) fn due_in(&self, age: Duration) -> Option<Duration> {
        self.batch.as_ref().map(|filling| age.saturating_sub(filling.since.elapsed()))
    }

    /// Whether what is being filled should go before something is added that takes so many bytes.
    pub(crate) fn is_due(&self, options: &Options, bytes: usize) -> bool {
        self.batch.as_ref().is_some_and(|Filling { batch, since, .. }| {
            batch.size() >= options.batch_bytes
                || batch.size() + bytes > BATCH_BYTES_MAX / 2
                || since.elapsed() >= options.batch_age
        })
    }

    /// Spans that wait, and are not in the queue yet.
    pub(crate) fn outside_queue(&self) -> u64 {
        let filling = self.batch.as_ref().map_or(0, |filling| filling.batch.count() as u64);
        filling + self.sealed.as_ref().map_or(0, |record| record.spans.into())
    }

    /// What is not in a queue that survives is lost when the program ends now.
    pub(crate) fn give_up_what_is_not_durable(&mut self) {
        let lost = match self.queue.is_durable() {
            true => self.outside_queue(),
            false => self.counters.waiting,
        };
        self.counters.drop_waiting(Cause::Ended, lost);
        (self.batch, self.sealed) = (None, None);
    }
}

/// At most so many bytes a span takes in any format, so that what is too large is known before it is added.
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
    // The first formats repeat the endpoint with each of them, which 400 does not cover for long names.
    let lists = span.annotations.len() + span.tags.len() + 8;
    let services = text(span.local.service) * lists + text(span.remote.service) * 2;
    1024 + text(span.name) + services + annotations + tags
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Memory takes all that is written.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
