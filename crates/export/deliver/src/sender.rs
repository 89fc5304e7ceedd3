//! The thread that sends batches in order. Each batch is settled before the next batch is read: it
//! is delivered, or dropped with a counted cause. Start at [`Sender::run`].

use crate::backoff::Backoff;
use crate::client::Client;
use crate::counters::Cause;
use crate::options::Options;
use crate::queue::{QueueItem, QueueReader};
use crate::record::Record;
use crate::refused_folder::RefusedFolder;
use crate::state::{SharedState, State};
use crate::verdict::Verdict;
use parking_lot::MutexGuard;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub(crate) struct Sender {
    shared: Arc<SharedState>,
    reader: QueueReader,
    client: Client,
    refused: Option<RefusedFolder>,
    backoff: Backoff,
    runtime: Runtime,
}

/// Result of a batch that is settled: delivered, dropped or refused.
enum Settlement {
    Delivered { rejected: u64, is_malformed: bool },
    Dropped(Cause),
    Refused { is_kept: bool },
}

/// Maximum delay before the sender repeats a failed read of the queue or a refused append. A change
/// of the state ends the delay early.
const DISK_PAUSE: Duration = Duration::from_secs(1);

/// Upper bound of the delay before a retry: 24 hours, since an [`Instant`] has a limited range.
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Timeout of a wait while the queue is empty and there is no current batch.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

impl Sender {
    pub(crate) fn new(
        shared: Arc<SharedState>,
        reader: QueueReader,
        client: Client,
        refused: Option<RefusedFolder>,
    ) -> io::Result<Sender> {
        let backoff = Backoff::new(shared.options.pause_first, shared.options.pause_max);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Sender { shared, reader, client, refused, backoff, runtime })
    }

    pub(crate) fn run(mut self) {
        while let Some(record) = self.next_batch() {
            let Some(end) = self.deliver(&record) else { break };
            self.settle(&record, end);
        }
        if let QueueReader::Disk(disk) = &mut self.reader {
            // If the position cannot be stored, the batches are sent again.
            let _ = disk.save_position();
        }
        // Do not wait for a blocked DNS lookup.
        self.runtime.shutdown_background();
    }

    /// Waits for the next batch; `None` if the exporter stops.
    fn next_batch(&mut self) -> Option<Record> {
        loop {
            let queued = self.shared.state().queued;
            let read = match &mut self.reader {
                QueueReader::Memory => Ok(QueueItem::Nothing),
                QueueReader::Disk(disk) => disk.next(),
            };
            let mut state = self.shared.state();
            if state.is_stopping {
                return None;
            }
            if let Some(record) = state.queue.front() {
                return Some(record.clone());
            }
            match read {
                Ok(QueueItem::Record(record, missing)) => {
                    state.counters.drop_waiting(Cause::Damaged, missing);
                    return Some(record);
                }
                Ok(QueueItem::Damage) => state.counters.damages += 1,
                Ok(QueueItem::Nothing) if state.queued == queued => {
                    // All readable batches are settled.
                    let lost = state.counters.waiting - state.outside_queue();
                    state.counters.drop_waiting(Cause::Damaged, lost);
                    self.shared.changed.notify_all();
                    self.wait(state);
                }
                Ok(QueueItem::Nothing) => {}
                Err(error) => {
                    state.trouble = Some(error.to_string());
                    self.shared.wait(&mut state, DISK_PAUSE);
                }
            }
        }
    }

    /// Waits while no batch can be sent, and queues the current batch when it is due.
    fn wait(&self, mut state: MutexGuard<'_, State>) {
        // The queue has no batch to drop.
        state.drop_oldest = false;
        match state.due_in(self.shared.options.batch_age) {
            Some(Duration::ZERO) => {
                if let Err(refusal) = self.shared.seal(&mut state) {
                    state.trouble = Some(refusal.to_string());
                    self.shared.wait(&mut state, DISK_PAUSE);
                }
            }
            due => self.shared.wait(&mut state, due.unwrap_or(IDLE_TIMEOUT)),
        }
    }

    /// Sends a batch until it is settled; `None` if the exporter stops first.
    fn deliver(&mut self, record: &Record) -> Option<Settlement> {
        // Attempts that failed perhaps because of the batch. Those during an outage do not count.
        let mut doubtful_attempts = 0;
        loop {
            {
                let state = self.shared.state();
                if state.is_stopping {
                    return None;
                }
                if state.drop_oldest {
                    return Some(Settlement::Dropped(Cause::QueueFull));
                }
            }
            if self.shared.clock.age(record.time_ms) > self.shared.options.age_max {
                return Some(Settlement::Dropped(Cause::TooOld));
            }
            let Some(verdict) = self.send(record) else { continue };
            match verdict {
                Verdict::Delivered { rejected, message, is_malformed } => {
                    self.backoff.reset();
                    let has_message = rejected > 0 || !message.is_empty();
                    let trouble =
                        has_message.then(|| format!("{rejected} spans were rejected: {message}"));
                    self.shared.state().trouble = trouble.map(|trouble| self.redact(&trouble));
                    return Some(Settlement::Delivered { rejected, is_malformed });
                }
                Verdict::Refused { reason } => return Some(self.refuse(record, &reason)),
                Verdict::LimitedRetry { reason } => {
                    doubtful_attempts += 1;
                    if doubtful_attempts >= self.shared.options.attempts_max {
                        return Some(self.refuse(record, &reason));
                    }
                    self.pause(record, &reason, None);
                }
                Verdict::Retry { reason, after } => self.pause(record, &reason, after),
            }
        }
    }

    /// Sends a batch once; `None` if sending was cancelled.
    fn send(&mut self, record: &Record) -> Option<Verdict> {
        let Sender { shared, client, runtime, .. } = self;
        runtime.block_on(async {
            let sent = std::pin::pin!(client.send(record));
            let cancelled = std::pin::pin!(shared.cancel.notified());
            or_cancelled(sent, cancelled).await
        })
    }

    /// Waits before the next attempt: for the requested delay, up to `pause_asked_max` and with
    /// jitter added, or else for the backoff's delay. The wait ends early when the batch becomes
    /// too old, the exporter stops, or the oldest batches must be dropped.
    fn pause(&mut self, record: &Record, reason: &str, requested: Option<Duration>) {
        let Options { pause_asked_max, age_max, .. } = self.shared.options;
        let pause = match requested {
            // The jitter keeps clients from returning at the same moment, and turns a requested
            // delay of 0 into a pause.
            Some(requested) => requested.min(pause_asked_max).saturating_add(self.backoff.least()),
            None => self.backoff.pause(),
        };
        let left = age_max.saturating_sub(self.shared.clock.age(record.time_ms));
        let pause = pause.min(left.saturating_add(Duration::from_millis(1))).min(PAUSE_MAX);
        let deadline = Instant::now() + pause;
        let mut state = self.shared.state();
        state.counters.retries += 1;
        state.trouble = Some(self.redact(reason));
        self.shared.changed.notify_all();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.is_stopping || state.drop_oldest {
                return;
            }
            self.shared.wait(&mut state, left);
        }
    }

    /// Stores a refused batch. `is_kept` in the result is false without a queue folder, without
    /// room, and after a disk error.
    fn refuse(&mut self, record: &Record, reason: &str) -> Settlement {
        let reason = self.redact(reason);
        // Within an exporter, names are unique and sort in order.
        let name = format!("{:013}-{:016x}", record.time_ms, record.spans_before);
        let kept = match &mut self.refused {
            Some(refused) => refused.store(&name, record, &reason),
            None => Ok(false),
        };
        let (is_kept, trouble) = match kept {
            Ok(is_kept) => (is_kept, format!("a batch was refused: {reason}")),
            Err(error) => {
                (false, format!("a batch was refused, and cannot be kept ({error}): {reason}"))
            }
        };
        self.shared.state().trouble = Some(trouble);
        Settlement::Refused { is_kept }
    }

    fn settle(&mut self, record: &Record, end: Settlement) {
        let freed = match &mut self.reader {
            QueueReader::Memory => Ok(false),
            QueueReader::Disk(disk) => disk.settle(),
        };
        let mut state = self.shared.state();
        state.queue.pop();
        let freed = freed.map(|is_freed| is_freed || state.has_room_in_memory());
        let spans = u64::from(record.spans);
        let counters = &mut state.counters;
        match end {
            Settlement::Delivered { rejected, is_malformed } => {
                counters.deliver(spans, rejected, record.body.len() as u64);
                counters.answers_malformed += u64::from(is_malformed);
            }
            Settlement::Dropped(cause) => counters.drop_waiting(cause, spans),
            Settlement::Refused { is_kept } => {
                counters.drop_waiting(Cause::Refused, spans);
                counters.refused_stored += u64::from(is_kept);
                counters.refused_not_stored += u64::from(!is_kept);
            }
        }
        match freed {
            Ok(true) => state.drop_oldest = false,
            Ok(false) => {}
            Err(error) => state.trouble = Some(format!("the queue's {error}")),
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn redact(&self, text: &str) -> String {
        self.shared.options.headers.redact(text)
    }
}

/// Runs `work` and returns its result; `None` if `end` completes first.
async fn or_cancelled<T>(
    mut work: std::pin::Pin<&mut impl Future<Output = T>>,
    mut end: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> Option<T> {
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(done));
        }
        end.as_mut().poll(context).map(|()| None)
    })
    .await
}
