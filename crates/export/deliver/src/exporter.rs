//! The exporter, as who has spans sees it. Start at [`Exporter::open`].

use crate::client::Client;
use crate::counters::Counters;
use crate::error::{Error, Refusal};
use crate::options::{BATCH_BYTES_MAX, Options, WhenFull};
use crate::queue::Queue;
use crate::refused::Refused;
use crate::sender::Sender;
use crate::shared::{Shared, State, bytes_max};
use blkkin_model::{SpanRef, SpanSink};
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sends spans to a destination. Dropped, it puts what it has into the queue, and ends without waiting for the
/// destination; [`Exporter::close`] also tells the counts.
pub struct Exporter {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<()>>,
}

/// How often those who wait look whether the disk takes something again, of which nobody is told.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often the oldest batches are given up for one that has no room.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// How long giving up the oldest batches may take.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);

impl Exporter {
    /// Opens the queue, and begins to send what waits there.
    pub fn open(options: Options) -> Result<Exporter, Error> {
        options.check()?;
        let client = Client::new(&options)?;
        let (queue, source, found) = match &options.queue {
            Some(folder) => Queue::on_disk(folder, &options)?,
            None => Queue::memory(&options),
        };
        let refused = options.queue.as_ref().map(|folder| folder.join("refused"));
        let refused =
            refused.map(|folder| Refused::open(folder, options.refused_bytes_max)).transpose()?;
        let shared = Arc::new(Shared::new(options, queue, found));
        let io = |source| Error::Io { during: "start a thread", path: Default::default(), source };
        let sender = Sender::new(Arc::clone(&shared), source, client, refused).map_err(io)?;
        let thread = std::thread::Builder::new().name("deliver".to_owned());
        let sender = thread.spawn(move || sender.run()).map_err(io)?;
        Ok(Exporter { shared, sender: Some(sender) })
    }

    /// Takes a span. If it is refused, it is the caller's still, who may try again, or
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
        // What may be much larger than batches should be goes alone.
        if bytes > BATCH_BYTES_MAX / 2 {
            // It was taken, wherever it is.
            drop(self.seal(state));
        }
        Ok(())
    }

    /// Puts all that was pushed into the queue, and so, if that is a folder, onto the disk. It does not wait for the
    /// destination. If this is refused nothing is lost; it can be tried again.
    pub fn flush(&self) -> Result<(), Refusal> {
        self.seal(self.shared.state()).map(drop)
    }

    /// Waits until something can be pushed again, at most for `timeout`; false if it cannot.
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
            state = self.shared.wait(state, left.min(LOOK_EVERY));
        }
    }

    /// Waits until nothing waits any more, at most for `timeout`; false if something still does.
    pub fn wait_until_empty(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state();
        loop {
            // What cannot be queued now is counted as waiting.
            let _ = self.shared.seal(&mut state);
            let left = deadline.saturating_duration_since(Instant::now());
            if state.counters.waiting == 0 || left.is_zero() {
                return state.counters.waiting == 0;
            }
            let pause = if state.is_blocked() { LOOK_EVERY } else { left };
            state = self.shared.wait(state, left.min(pause));
        }
    }

    /// What has become of spans so far.
    pub fn counters(&self) -> Counters {
        self.shared.state().counters
    }

    /// Why nothing is delivered just now, or what the destination has said last; `None` if all is well.
    pub fn trouble(&self) -> Option<String> {
        self.shared.state().trouble.clone()
    }

    /// Puts what is left into the queue, stops sending, and tells what has become of all spans. What was only in
    /// memory is counted as given up.
    pub fn close(mut self) -> Counters {
        self.stop();
        let mut state = self.shared.state();
        state.give_up_what_is_not_durable();
        state.counters
    }

    /// Seals, if need be after others were given up.
    fn seal<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, Refusal> {
        let deadline = Instant::now() + ROOM_TIMEOUT;
        let mut asked: Option<Instant> = None;
        loop {
            let refusal = match self.shared.seal(&mut state) {
                Ok(()) => return Ok(state),
                Err(refusal) => refusal,
            };
            let is_worth_it = self.shared.options.when_full == WhenFull::DropOldest
                && matches!(refusal, Refusal::Full)
                && !state.is_stopping
                && Instant::now() < deadline;
            if !is_worth_it {
                return Err(refusal);
            }
            // A disk takes a moment to notice that there is room; no more is given up meanwhile.
            if asked.is_none_or(|asked| asked.elapsed() > ASK_EVERY) {
                asked = Some(Instant::now());
                state.is_room_wanted = true;
                self.shared.cancel.notify_one();
                self.shared.changed.notify_all();
            }
            state = self.shared.wait(state, LOOK_EVERY);
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
            // If it has panicked, what it had not settled waits.
            let _ = sender.join();
        }
    }
}

/// Takes what is pushed; breaks if the queue is full.
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
