//! Processing of received messages, from the body to the store. Start at [`Collector`].

use crate::body::{Buffers, Message, read};
use crate::counters::{Tally, add};
use crate::decompress::{Compression, KNOWN, decompress};
use crate::rejection::Rejection;
use crate::{Budget, Counters, Settings, Transport};
use blkkin_store::{AcceptedBatch, Batch, Policy, Refusal, SpanStore};
use blkkin_wire::{End, Format};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Body;
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum age of the store's last refusal for which the collector refuses further batches while
/// all workers are busy. The store waits at most two seconds for space before it refuses a batch,
/// so workers renew the refusal in time.
const REFUSAL_AGE_MAX: Duration = Duration::from_secs(5);

/// Maximum age of a refusal that [`Collector::refusal`] reports as the store's state.
const REASON_AGE_MAX: Duration = Duration::from_secs(60);

/// Receiver of messages, which decompresses them, passes their spans to a store, and counts the
/// results.
pub struct Collector {
    store: Arc<dyn SpanStore>,
    pub(crate) settings: Settings,
    buffers: Arc<Buffers>,
    workers: Arc<Semaphore>,
    last_refusal: Arc<LastRefusal>,
    tallies: [Tally; Transport::ALL.len()],
}

/// Received message with its transport, format, policy and compression.
pub(crate) struct Submission {
    pub(crate) transport: Transport,
    pub(crate) format: Format,
    pub(crate) policy: Policy,
    pub(crate) compression: Compression,
    pub(crate) message: Message,
}

impl Collector {
    /// Creates a collector that passes spans to `store`.
    pub fn new(store: Arc<dyn SpanStore>, settings: Settings) -> Collector {
        Collector {
            store,
            settings,
            buffers: Arc::new(Buffers::new(settings.flight_bytes)),
            workers: Arc::new(Semaphore::new(settings.workers.max(1))),
            last_refusal: Arc::default(),
            tallies: Default::default(),
        }
    }

    /// Returns the counters of the messages that arrived by a transport.
    pub fn counters(&self, transport: Transport) -> Counters {
        self.tally(transport).read()
    }

    /// Returns the memory budget that all messages share.
    pub fn budget(&self) -> &Arc<Budget> {
        self.buffers.budget()
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Returns the reason of the store's last refusal; `None` if the store has accepted a batch
    /// since, or if the refusal is older than a minute.
    pub fn refusal(&self) -> Option<String> {
        self.last_refusal.reason()
    }

    /// Passes a batch in memory to the store, and counts it; blocks until the store has accepted or
    /// refused the batch.
    pub fn accept(
        &self,
        transport: Transport,
        format: Format,
        policy: Policy,
        batch: &[u8],
    ) -> Result<AcceptedBatch, Refusal> {
        add(&self.tally(transport).messages, 1);
        let (tell, told) = mpsc::sync_channel(1);
        let done = Box::new(move |result| {
            let _ = tell.send(result);
        });
        self.store.accept(Batch { format, bytes: batch, policy }, done);
        let result = told.recv().unwrap_or_else(|_| Err(store_failed()));
        self.last_refusal.note(&result);
        let wrong = result.clone().map_err(Rejection::from);
        self.count(transport, batch.len(), &wrong);
        result
    }

    /// Counts a message that was refused for lack of memory before it reached the store.
    pub(crate) fn count_turned_away(&self, transport: Transport) {
        add(&self.tally(transport).messages, 1);
        self.tally(transport).messages_turned_away.add(1);
    }

    /// Counts spans that could not be decoded and therefore did not reach the store.
    pub(crate) fn count_unreadable(&self, transport: Transport, spans: u64) {
        self.tally(transport).spans_dropped.add(spans);
    }

    /// Reads the body of a message into memory. Counts the message, and its rejection if reading
    /// fails.
    pub(crate) async fn receive<B>(
        &self,
        transport: Transport,
        body: B,
    ) -> Result<Message, Rejection>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let tally = self.tally(transport);
        add(&tally.messages, 1);
        let message = read(body, self.settings.message_bytes, &self.buffers, &self.settings).await;
        if let Err(trouble) = &message {
            self.count_rejection(transport, trouble);
        }
        message
    }

    /// Decompresses a message, validates the batch with `check`, passes the batch to the store, and
    /// waits for the result. An empty batch is accepted at once: it is neither validated nor passed
    /// to the store.
    pub(crate) async fn store(
        &self,
        load: Submission,
        check: fn(Format, &[u8]) -> Result<(), String>,
    ) -> Result<AcceptedBatch, Rejection> {
        let Submission { transport, format, policy, compression, message } = load;
        let permit = self.worker().await.inspect_err(|trouble| {
            self.count_rejection(transport, trouble);
        })?;
        let (store, buffers) = (self.store.clone(), self.buffers.clone());
        let last_refusal = self.last_refusal.clone();
        let limit = self.settings.message_bytes;
        let (tell, told) = oneshot::channel();
        let work = move || {
            let checked = decompress(compression, message, limit, &buffers).and_then(|batch| {
                if !batch.is_empty() {
                    check(format, &batch).map_err(Rejection::Invalid)?;
                }
                Ok(batch)
            });
            let batch = match checked {
                Ok(batch) => batch,
                Err(trouble) => {
                    let _ = tell.send((0, Err(trouble)));
                    return;
                }
            };
            let len = batch.len();
            if len == 0 {
                let _ = tell.send((0, Ok(AcceptedBatch { outcome: Default::default() })));
                return;
            }
            let done = Box::new(move |result: Result<AcceptedBatch, Refusal>| {
                last_refusal.note(&result);
                let _ = tell.send((len, result.map_err(Rejection::from)));
            });
            store.accept(Batch { format, bytes: &batch, policy }, done);
        };
        // Small batches use a blocking thread, too: the store may wait for space, which would block
        // the runtime's thread and all its connections. `told` resolves when the result is known.
        drop(tokio::task::spawn_blocking(move || {
            work();
            drop(permit);
        }));
        let (len, result) = told.await.unwrap_or_else(|_| (0, Err(store_failed().into())));
        self.count(transport, len, &result);
        result
    }

    /// Waits until a worker is free, and reserves it. If no worker is free while the store refuses
    /// batches, the batch is refused at once; a batch that is already queued is refused as soon as
    /// it gets a worker. A batch that finds a free worker is always passed to the store, which
    /// shows when the store accepts again.
    async fn worker(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        if let Ok(permit) = self.workers.clone().try_acquire_owned() {
            return Ok(permit);
        }
        self.last_refusal.check()?;
        let acquired = self.workers.clone().acquire_owned().await;
        let permit = acquired.map_err(|_| Rejection::from(store_failed()))?;
        self.last_refusal.check()?;
        Ok(permit)
    }

    fn tally(&self, transport: Transport) -> &Tally {
        &self.tallies[transport as usize]
    }

    fn count(&self, transport: Transport, bytes: usize, result: &Result<AcceptedBatch, Rejection>) {
        use std::sync::atomic::Ordering::Relaxed;
        let tally = self.tally(transport);
        match result {
            Ok(AcceptedBatch { outcome }) => {
                add(&tally.bytes, bytes as u64);
                add(&tally.spans, outcome.accepted);
                // A truncated batch lost at least one span after the fault.
                let broken = u64::from(matches!(outcome.end, End::Broken(_)));
                tally.spans_dropped.add(outcome.refused + broken);
                if outcome.accepted == 0 && !outcome.is_good() {
                    tally.messages_dropped.add(1);
                }
                tally.message_spans.store(outcome.accepted + outcome.refused, Relaxed);
                tally.message_bytes.store(bytes as u64, Relaxed);
            }
            Err(trouble) => self.count_rejection(transport, trouble),
        }
    }

    pub(crate) fn count_rejection(&self, transport: Transport, trouble: &Rejection) {
        let tally = self.tally(transport);
        match trouble {
            Rejection::Busy { .. } => tally.messages_turned_away.add(1),
            _ => tally.messages_dropped.add(1),
        }
    }
}

/// Refusal of the last batch by the store, with its time; empty if the last batch was accepted.
#[derive(Debug, Default)]
struct LastRefusal(Mutex<Option<(Instant, Refusal)>>);

impl LastRefusal {
    fn note(&self, result: &Result<AcceptedBatch, Refusal>) {
        let refusal = result.as_ref().err().map(|refusal| (Instant::now(), refusal.clone()));
        *self.0.lock() = refusal;
    }

    fn reason(&self) -> Option<String> {
        match &*self.0.lock() {
            Some((time, refusal)) if time.elapsed() < REASON_AGE_MAX => {
                Some(refusal.reason.clone())
            }
            _ => None,
        }
    }

    fn check(&self) -> Result<(), Rejection> {
        match &*self.0.lock() {
            Some((time, refusal)) if time.elapsed() < REFUSAL_AGE_MAX => {
                Err(refusal.clone().into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the compression that `Content-Encoding` names.
pub(crate) fn compression(headers: &HeaderMap) -> Result<Compression, Rejection> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Compression::None) };
    let value = value.to_str().unwrap_or("?");
    Compression::of(value).ok_or_else(|| {
        Rejection::Unknown(format!("content encoding {value:?} is not known here; {KNOWN} are"))
    })
}

/// Returns the media type in `Content-Type`, in lower case and without parameters; empty if
/// missing.
pub(crate) fn kind(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let name = value.unwrap_or_default().split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

/// Creates the refusal of a batch whose callback the store dropped without a result. The store has
/// failed in this case.
fn store_failed() -> Refusal {
    let reason = "the store failed while it read the batch".to_owned();
    Refusal { reason, retry_after: Duration::from_secs(1) }
}
