//! The way of a message from its body to the store. Start at [`Collector`].

use crate::body::{Buffers, Message, read};
use crate::counters::{Tally, add};
use crate::trouble::Trouble;
use crate::unpack::{KNOWN, Packing, unpack};
use crate::{Budget, Counters, Settings, Transport};
use blkkin_store::{Accepted, Batch, Policy, Refusal, SpanStore};
use blkkin_wire::{End, Format};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Body;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How long a refusal by the store answers further batches while all workers are busy. The store waits at most two
/// seconds for room before it refuses, so the workers renew the refusal in time.
const REFUSAL_AGE_MAX: Duration = Duration::from_secs(5);

/// How long a refusal without another batch says that the store cannot take any.
const REASON_AGE_MAX: Duration = Duration::from_secs(60);

/// Takes spans, and gives them to a store.
pub struct Collector {
    store: Arc<dyn SpanStore>,
    pub(crate) settings: Settings,
    buffers: Arc<Buffers>,
    workers: Arc<Semaphore>,
    last_refusal: Arc<LastRefusal>,
    tallies: [Tally; Transport::ALL.len()],
}

/// A message on its way.
pub(crate) struct Load {
    pub(crate) transport: Transport,
    pub(crate) format: Format,
    pub(crate) policy: Policy,
    pub(crate) packing: Packing,
    pub(crate) message: Message,
}

impl Collector {
    /// A collector for a store.
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

    /// What came on a way so far.
    pub fn counters(&self, transport: Transport) -> Counters {
        self.tally(transport).read()
    }

    /// The bytes that all messages share.
    pub fn budget(&self) -> &Arc<Budget> {
        self.buffers.budget()
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Why the store refused the last batch, if it did, unless that was long ago.
    pub fn refusal(&self) -> Option<String> {
        self.last_refusal.reason()
    }

    /// Takes a batch that is in memory, and waits until it is stored.
    pub fn take(
        &self,
        transport: Transport,
        format: Format,
        policy: Policy,
        batch: &[u8],
    ) -> Result<Accepted, Refusal> {
        add(&self.tally(transport).messages, 1);
        let (tell, told) = mpsc::sync_channel(1);
        let done = Box::new(move |result| {
            let _ = tell.send(result);
        });
        self.store.accept(Batch { format, bytes: batch, policy }, done);
        let result = told.recv().unwrap_or_else(|_| Err(silent()));
        self.last_refusal.note(&result);
        let wrong = result.clone().map_err(Trouble::from);
        self.count(transport, batch.len(), &wrong);
        result
    }

    /// Counts a message for which there was no room before it could be given to the store.
    pub(crate) fn count_turned_away(&self, transport: Transport) {
        add(&self.tally(transport).messages, 1);
        self.tally(transport).messages_turned_away.add(1);
    }

    /// Counts spans that could not even be given to the store, as nothing could be made of them.
    pub(crate) fn count_unreadable(&self, transport: Transport, spans: u64) {
        self.tally(transport).spans_dropped.add(spans);
    }

    /// Reads the body of a message.
    pub(crate) async fn receive<B>(&self, transport: Transport, body: B) -> Result<Message, Trouble>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let tally = self.tally(transport);
        add(&tally.messages, 1);
        let message = read(body, self.settings.message_bytes, &self.buffers, &self.settings).await;
        if let Err(trouble) = &message {
            self.count_trouble(transport, trouble);
        }
        message
    }

    /// Unpacks a message that was received, has the store read it, and waits until it is stored. `check` looks at
    /// the batch before.
    pub(crate) async fn store(
        &self,
        load: Load,
        check: fn(Format, &[u8]) -> Result<(), String>,
    ) -> Result<Accepted, Trouble> {
        let Load { transport, format, policy, packing, message } = load;
        let permit = self.worker().await.inspect_err(|trouble| {
            self.count_trouble(transport, trouble);
        })?;
        let (store, buffers) = (self.store.clone(), self.buffers.clone());
        let last_refusal = self.last_refusal.clone();
        let limit = self.settings.message_bytes;
        let (tell, told) = oneshot::channel();
        let work = move || {
            let checked = unpack(packing, message, limit, &buffers).and_then(|batch| {
                if !batch.is_empty() {
                    check(format, &batch).map_err(Trouble::Bad)?;
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
                let _ = tell.send((0, Ok(Accepted { outcome: Default::default() })));
                return;
            }
            let done = Box::new(move |result: Result<Accepted, Refusal>| {
                last_refusal.note(&result);
                let _ = tell.send((len, result.map_err(Trouble::from)));
            });
            store.accept(Batch { format, bytes: &batch, policy }, done);
        };
        // Also for small batches: the store may wait for room, which would stop the runtime's thread and all that it
        // serves. `told` reports the end of the work.
        drop(tokio::task::spawn_blocking(move || {
            work();
            drop(permit);
        }));
        let (len, result) = told.await.unwrap_or_else(|_| (0, Err(silent().into())));
        self.count(transport, len, &result);
        result
    }

    /// Waits for a worker, but not behind others that wait while the store has no room: those batches are refused at
    /// once. The batches that do have a worker find out whether there is room again.
    async fn worker(&self) -> Result<OwnedSemaphorePermit, Trouble> {
        if let Ok(permit) = self.workers.clone().try_acquire_owned() {
            return Ok(permit);
        }
        self.last_refusal.check()?;
        let acquired = self.workers.clone().acquire_owned().await;
        let permit = acquired.map_err(|_| Trouble::from(silent()))?;
        self.last_refusal.check()?;
        Ok(permit)
    }

    fn tally(&self, transport: Transport) -> &Tally {
        &self.tallies[transport as usize]
    }

    fn count(&self, transport: Transport, bytes: usize, result: &Result<Accepted, Trouble>) {
        use std::sync::atomic::Ordering::Relaxed;
        let tally = self.tally(transport);
        match result {
            Ok(Accepted { outcome }) => {
                add(&tally.bytes, bytes as u64);
                add(&tally.spans, outcome.given);
                // Behind the place where a batch breaks off there was at least one.
                let broken = u64::from(matches!(outcome.end, End::Broken(_)));
                tally.spans_dropped.add(outcome.refused + broken);
                if outcome.given == 0 && !outcome.is_good() {
                    tally.messages_dropped.add(1);
                }
                tally.message_spans.store(outcome.given + outcome.refused, Relaxed);
                tally.message_bytes.store(bytes as u64, Relaxed);
            }
            Err(trouble) => self.count_trouble(transport, trouble),
        }
    }

    pub(crate) fn count_trouble(&self, transport: Transport, trouble: &Trouble) {
        let tally = self.tally(transport);
        match trouble {
            Trouble::Busy { .. } => tally.messages_turned_away.add(1),
            _ => tally.messages_dropped.add(1),
        }
    }
}

/// The last batch's refusal by the store, if the store refused it.
#[derive(Debug, Default)]
struct LastRefusal(Mutex<Option<(Instant, Refusal)>>);

impl LastRefusal {
    fn note(&self, result: &Result<Accepted, Refusal>) {
        let refusal = result.as_ref().err().map(|refusal| (Instant::now(), refusal.clone()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    fn reason(&self) -> Option<String> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((time, refusal)) if time.elapsed() < REASON_AGE_MAX => {
                Some(refusal.reason.clone())
            }
            _ => None,
        }
    }

    fn check(&self) -> Result<(), Trouble> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((time, refusal)) if time.elapsed() < REFUSAL_AGE_MAX => {
                Err(refusal.clone().into())
            }
            _ => Ok(()),
        }
    }
}

/// How the body of a request is packed.
pub(crate) fn packing(headers: &HeaderMap) -> Result<Packing, Trouble> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Packing::None) };
    let value = value.to_str().unwrap_or("?");
    Packing::of(value).ok_or_else(|| {
        Trouble::Unknown(format!("content encoding {value:?} is not known here; {KNOWN} are"))
    })
}

/// The type of a request's body, in lower case, without what is said behind it.
pub(crate) fn kind(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let name = value.unwrap_or_default().split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

/// The store does not say what became of a batch, so it has failed.
fn silent() -> Refusal {
    let reason = "the store failed while it read the batch".to_owned();
    Refusal { reason, retry_after: Duration::from_secs(1) }
}
