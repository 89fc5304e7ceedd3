//! The thread that sends: takes batches in their order, and does not go on to the next before the one at hand is
//! settled: delivered, or given up for a reason that is counted. Start at [`Sender::run`].

use crate::backoff::Backoff;
use crate::client::Client;
use crate::counters::Cause;
use crate::options::Options;
use crate::queue::{Next, Source};
use crate::record::Record;
use crate::refused::Refused;
use crate::shared::{Shared, State};
use crate::verdict::Verdict;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub(crate) struct Sender {
    shared: Arc<Shared>,
    source: Source,
    client: Client,
    refused: Option<Refused>,
    backoff: Backoff,
    runtime: Runtime,
}

/// How a batch is settled.
enum End {
    Delivered { rejected: u64, is_odd: bool },
    Dropped(Cause),
    Refused { is_kept: bool },
}

/// How long to wait before reading again from a disk that fails.
const DISK_PAUSE: Duration = Duration::from_secs(1);

/// No pause is longer, whatever is asked for: an [`Instant`] has an end.
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long nobody needs to look.
const IDLE: Duration = Duration::from_secs(60);

impl Sender {
    pub(crate) fn new(
        shared: Arc<Shared>,
        source: Source,
        client: Client,
        refused: Option<Refused>,
    ) -> io::Result<Sender> {
        let backoff = Backoff::new(shared.options.pause_first, shared.options.pause_max);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Sender { shared, source, client, refused, backoff, runtime })
    }

    pub(crate) fn run(mut self) {
        while let Some(record) = self.next() {
            let Some(end) = self.settle(&record) else { break };
            self.settled(&record, end);
        }
        if let Source::Disk(disk) = &mut self.source {
            // What could not be noted is sent again.
            let _ = disk.note();
        }
        // A look-up of a name may hang for longer than anybody wants to wait.
        self.runtime.shutdown_background();
    }

    /// Waits for the next batch; `None` if there is to be no more.
    fn next(&mut self) -> Option<Record> {
        loop {
            let queued = self.shared.state().queued;
            let read = match &mut self.source {
                Source::Memory => Ok(Next::Nothing),
                Source::Disk(disk) => disk.next(),
            };
            let mut state = self.shared.state();
            if state.is_stopping {
                return None;
            }
            if let Some(record) = state.queue.front() {
                return Some(record.clone());
            }
            match read {
                Ok(Next::Record(record, missing)) => {
                    state.counters.drop_waiting(Cause::Damaged, missing);
                    return Some(record);
                }
                Ok(Next::Damage) => state.counters.damages += 1,
                Ok(Next::Nothing) if state.queued == queued => {
                    // All that can be read is settled.
                    let lost = state.counters.waiting - state.outside_queue();
                    state.counters.drop_waiting(Cause::Damaged, lost);
                    self.shared.changed.notify_all();
                    self.wait(state);
                }
                Ok(Next::Nothing) => {}
                Err(error) => {
                    state.trouble = Some(error.to_string());
                    drop(self.shared.wait(state, DISK_PAUSE));
                }
            }
        }
    }

    /// There is nothing to send: waits until there may be, or queues what is being filled when it is due.
    fn wait(&self, mut state: MutexGuard<'_, State>) {
        // Nothing is left that could be given up.
        state.is_room_wanted = false;
        match state.due_in(self.shared.options.batch_age) {
            Some(Duration::ZERO) => {
                if let Err(refusal) = self.shared.seal(&mut state) {
                    state.trouble = Some(refusal.to_string());
                    drop(self.shared.wait(state, DISK_PAUSE));
                }
            }
            due => drop(self.shared.wait(state, due.unwrap_or(IDLE))),
        }
    }

    /// Sends a batch as often as it takes. `None` if there is to be no more before it is settled.
    fn settle(&mut self, record: &Record) -> Option<End> {
        let mut attempts = 0;
        loop {
            {
                let state = self.shared.state();
                if state.is_stopping {
                    return None;
                }
                if state.is_room_wanted {
                    return Some(End::Dropped(Cause::QueueFull));
                }
            }
            if self.shared.clock.age(record.time_ms) > self.shared.options.age_max {
                return Some(End::Dropped(Cause::TooOld));
            }
            let Some(verdict) = self.send(record) else { continue };
            attempts += 1;
            match verdict {
                Verdict::Delivered { rejected, message, is_odd } => {
                    self.backoff.reset();
                    let is_told = rejected > 0 || !message.is_empty();
                    let told =
                        is_told.then(|| format!("{rejected} spans were rejected: {message}"));
                    self.shared.state().trouble = told.map(|told| self.without_secrets(&told));
                    return Some(End::Delivered { rejected, is_odd });
                }
                Verdict::Refused { reason } => return Some(self.refuse(record, &reason)),
                Verdict::Perhaps { reason } if attempts >= self.shared.options.attempts_max => {
                    return Some(self.refuse(record, &reason));
                }
                Verdict::Perhaps { reason } => self.pause(record, &reason, None),
                Verdict::Later { reason, after } => self.pause(record, &reason, after),
            }
        }
    }

    /// Sends it once; `None` if that was broken off.
    fn send(&mut self, record: &Record) -> Option<Verdict> {
        let Sender { shared, client, runtime, .. } = self;
        runtime.block_on(async {
            let sent = std::pin::pin!(client.send(record));
            let cancelled = std::pin::pin!(shared.cancel.notified());
            first(sent, cancelled).await
        })
    }

    /// Waits before the next attempt; as long as the destination wants, but no longer than the batch may wait.
    fn pause(&mut self, record: &Record, reason: &str, asked: Option<Duration>) {
        let Options { pause_asked_max, age_max, .. } = self.shared.options;
        let pause = match asked {
            // A little more, so that not all come back at the same moment; nor at once, if that is what is asked.
            Some(asked) => asked.min(pause_asked_max).saturating_add(self.backoff.least()),
            None => self.backoff.pause(),
        };
        let left = age_max.saturating_sub(self.shared.clock.age(record.time_ms));
        let pause = pause.min(left.saturating_add(Duration::from_millis(1))).min(PAUSE_MAX);
        let deadline = Instant::now() + pause;
        let mut state = self.shared.state();
        state.counters.retries += 1;
        state.trouble = Some(self.without_secrets(reason));
        self.shared.changed.notify_all();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.is_stopping || state.is_room_wanted {
                return;
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Puts a batch aside.
    fn refuse(&mut self, record: &Record, reason: &str) -> End {
        let reason = self.without_secrets(reason);
        // In their order, and never one name for two.
        let name = format!("{:013}-{:016x}", record.time_ms, record.spans_before);
        let kept = match &mut self.refused {
            Some(refused) => refused.keep(&name, record, &reason),
            None => Ok(false),
        };
        let (is_kept, trouble) = match kept {
            Ok(is_kept) => (is_kept, format!("a batch was refused: {reason}")),
            Err(error) => {
                (false, format!("a batch was refused, and cannot be kept ({error}): {reason}"))
            }
        };
        self.shared.state().trouble = Some(trouble);
        End::Refused { is_kept }
    }

    fn settled(&mut self, record: &Record, end: End) {
        let freed = match &mut self.source {
            Source::Memory => Ok(false),
            Source::Disk(disk) => disk.settle(),
        };
        let mut state = self.shared.state();
        state.queue.pop();
        let freed = freed.map(|is_freed| is_freed || state.has_room_in_memory());
        let spans = u64::from(record.spans);
        let counters = &mut state.counters;
        match end {
            End::Delivered { rejected, is_odd } => {
                counters.deliver(spans, rejected, record.body.len() as u64);
                counters.answers_odd += u64::from(is_odd);
            }
            End::Dropped(cause) => counters.drop_waiting(cause, spans),
            End::Refused { is_kept } => {
                counters.drop_waiting(Cause::Refused, spans);
                counters.refused_kept += u64::from(is_kept);
                counters.refused_not_kept += u64::from(!is_kept);
            }
        }
        match freed {
            Ok(true) => state.is_room_wanted = false,
            Ok(false) => {}
            Err(error) => state.trouble = Some(format!("the queue's {error}")),
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn without_secrets(&self, text: &str) -> String {
        self.shared.options.headers.without_secrets(text)
    }
}

/// What `work` gives, or nothing if `end` comes before.
async fn first<T>(
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
