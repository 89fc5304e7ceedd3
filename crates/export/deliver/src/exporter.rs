//! The public interface for pushing spans. Start at [`Exporter::open`].

use crate::client::Client;
use crate::counters::Counters;
use crate::error::{Error, Refusal};
use crate::options::{BATCH_BYTES_MAX, Options, WhenFull};
use crate::queue::Queue;
use crate::refused_folder::RefusedFolder;
use crate::sender::Sender;
use crate::state::{SharedState, State, bytes_max};
use blkkin_model::{SpanRef, SpanSink};
use parking_lot::MutexGuard;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Exporter of spans to a destination. When dropped, it flushes to the queue and stops without
/// waiting for the destination; [`Exporter::close`] also returns the counters.
pub struct Exporter {
    shared: Arc<SharedState>,
    sender: Option<JoinHandle<()>>,
}

/// Interval at which waiting calls poll a disk queue. A disk queue sends no notification of free
/// space.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum interval between requests to drop the oldest batches.
const DROP_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum time to wait until the sender has dropped old batches to make room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);

impl Exporter {
    /// Opens the queue and starts sending its batches.
    pub fn open(options: Options) -> Result<Exporter, Error> {
        options.check()?;
        let client = Client::new(&options)?;
        let (queue, reader, backlog) = match &options.queue {
            Some(folder) => Queue::on_disk(folder, &options)?,
            None => Queue::memory(&options),
        };
        let refused = options.queue.as_ref().map(|folder| folder.join("refused"));
        let refused = refused
            .map(|folder| RefusedFolder::open(folder, options.refused_bytes_max))
            .transpose()?;
        let shared = Arc::new(SharedState::new(options, queue, backlog));
        let io = |source| Error::Io { during: "start a thread", path: Default::default(), source };
        let sender = Sender::new(Arc::clone(&shared), reader, client, refused).map_err(io)?;
        let thread = std::thread::Builder::new().name("deliver".to_owned());
        let sender = thread.spawn(move || sender.run()).map_err(io)?;
        Ok(Exporter { shared, sender: Some(sender) })
    }

    /// Adds a span. The caller keeps a refused span, and may retry or
    /// [wait](Exporter::wait_for_room).
    pub fn push(&self, span: &SpanRef<'_>) -> Result<(), Refusal> {
        let bytes = bytes_max(span);
        let mut state = self.shared.state();
        if state.is_stopping {
            return Err(Refusal::Closed);
        }
        if state.is_blocked() || state.is_due(&self.shared.options, bytes) {
            state = self.seal(state)?;
        }
        self.shared.add(&mut state, span);
        // A span that may exceed the batch size is sent in its own batch.
        if bytes > BATCH_BYTES_MAX / 2 {
            // The span was accepted, even if its batch is not queued yet.
            drop(self.seal(state));
        }
        Ok(())
    }

    /// Moves all pushed spans to the queue without waiting for the destination. With a queue
    /// folder, the spans are durable if the result is `Ok`. A refused flush keeps the spans in
    /// memory and can be repeated.
    pub fn flush(&self) -> Result<(), Refusal> {
        self.seal(self.shared.state()).map(drop)
    }

    /// Waits until a span can be pushed again; returns false after `timeout`.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state();
        loop {
            if !state.is_blocked() || self.shared.seal(&mut state).is_ok() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.shared.wait(&mut state, left.min(POLL_INTERVAL));
        }
    }

    /// Waits until each span is delivered or dropped; returns false after `timeout`.
    pub fn wait_until_empty(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state();
        loop {
            // Spans that cannot be queued now are counted as waiting.
            let _ = self.shared.seal(&mut state);
            let left = deadline.saturating_duration_since(Instant::now());
            if state.counters.waiting == 0 || left.is_zero() {
                return state.counters.waiting == 0;
            }
            let pause = if state.is_blocked() { POLL_INTERVAL } else { left };
            self.shared.wait(&mut state, left.min(pause));
        }
    }

    /// Returns the counters since the exporter was opened.
    pub fn counters(&self) -> Counters {
        self.shared.state().counters
    }

    /// Returns the reason why delivery is blocked, or the destination's last error message; `None`
    /// if delivery works.
    pub fn trouble(&self) -> Option<String> {
        self.shared.state().trouble.clone()
    }

    /// Moves the remaining spans to the queue, stops sending, and returns the final counters. Spans
    /// that are only in memory are counted as dropped.
    pub fn close(mut self) -> Counters {
        self.stop();
        let mut state = self.shared.state();
        state.drop_volatile();
        state.counters
    }

    /// Moves the current batch to the queue. If the queue is full, [`WhenFull::DropOldest`] first
    /// drops the oldest batches.
    fn seal<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, Refusal> {
        let deadline = Instant::now() + ROOM_TIMEOUT;
        let mut requested: Option<Instant> = None;
        loop {
            let refusal = match self.shared.seal(&mut state) {
                Ok(()) => return Ok(state),
                Err(refusal) => refusal,
            };
            let may_drop = self.shared.options.when_full == WhenFull::DropOldest
                && matches!(refusal, Refusal::Full)
                && !state.is_stopping
                && Instant::now() < deadline;
            if !may_drop {
                return Err(refusal);
            }
            // A disk queue notices free space with a delay; drop no more batches meanwhile.
            if requested.is_none_or(|requested| requested.elapsed() > DROP_INTERVAL) {
                requested = Some(Instant::now());
                state.drop_oldest = true;
                self.shared.cancel.notify_one();
                self.shared.changed.notify_all();
            }
            self.shared.wait(&mut state, POLL_INTERVAL);
        }
    }

    fn stop(&mut self) {
        let mut state = self.shared.state();
        let _ = self.shared.seal(&mut state);
        state.is_stopping = true;
        drop(state);
        self.shared.changed.notify_all();
        self.shared.cancel.notify_one();
        if let Some(sender) = self.sender.take() {
            // If the thread panicked, the batches that it has not settled remain in the queue.
            let _ = sender.join();
        }
    }
}

/// Pushes each span; returns `ControlFlow::Break` if the span is refused.
impl SpanSink for Exporter {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        match self.push(span) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop();
    }
}
