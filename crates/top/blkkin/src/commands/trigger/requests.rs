//! Whole requests out of the rings of a session for snapshots (tail sampling): finds the spans of
//! chosen requests, of all programs, and sends them.

use super::files::{TriggerFiles, remove_tree};
use super::options::RequestArgs;
use super::schedule::Cause;
use crate::commands::receiver_headers;
use crate::exit::Error;
use blkkin_client::Client;
use blkkin_control::{RecentSnapshot, Request, Snapshot};
use blkkin_deliver::{Exporter, Options, WhenFull};
use blkkin_reader::{Consumer, Event, Loss, Reading, Source, Stream, Trace};
use blkkin_spans::{Assembler, Extractor, Limits, Request as FoundRequest, Sink};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Sender of requests.
pub(super) struct RequestSender {
    progress: RequestProgress,
    session: String,
    window: Duration,
}

/// Progress of a sender, for another thread.
#[derive(Clone)]
pub(super) struct RequestProgress {
    exporter: Arc<Exporter>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Number of requests that were found.
    found: AtomicU64,
    /// Number of requests of which the rings had nothing.
    missing: AtomicU64,
}

/// Maximum size of the queue of spans that wait for the receiver, in bytes. The oldest are dropped.
const QUEUE_BYTES_MAX: u64 = 1 << 30;

impl RequestSender {
    /// Opens the queue of the trigger; `None` if it sends no requests. `state` has the numbers of
    /// earlier processes.
    pub(super) fn open(
        files: &TriggerFiles,
        args: &RequestArgs,
        state: &Value,
    ) -> Result<Option<RequestSender>, Error> {
        let Some((session, destination)) = args.requests.clone().zip(args.to.clone()) else {
            return Ok(None);
        };
        let options = Options {
            headers: receiver_headers::read(&[], args.header_file.as_deref())?,
            ca: args.ca.clone(),
            queue: Some(files.queue()),
            queue_bytes_max: QUEUE_BYTES_MAX,
            when_full: WhenFull::DropOldest,
            ..Options::new(destination)
        };
        let exporter = Exporter::open(options).map_err(|error| Error::failed(error.to_string()))?;
        let number = |name: &str| AtomicU64::new(state[name].as_u64().unwrap_or(0));
        let counts = Arc::new(Counts { found: number("found"), missing: number("missing") });
        let progress = RequestProgress { exporter: Arc::new(exporter), counts };
        let window = Duration::from_millis(args.window);
        Ok(Some(RequestSender { progress, session, window }))
    }

    pub(super) fn progress(&self) -> RequestProgress {
        self.progress.clone()
    }

    /// Finds the spans of the cause's requests, and queues them for the receiver. Requests that are
    /// not found, for whatever reason, are counted. `directory` is made for the snapshot, and
    /// removed.
    pub(super) fn send(
        &mut self,
        client: &mut Client,
        cause: &Cause,
        directory: &Path,
    ) -> Result<(), String> {
        let wanted = &cause.requests;
        remove_tree(directory).map_err(|error| error.to_string())?;
        let snapshot =
            Snapshot { session: self.session.clone(), output: Some(directory.to_owned()) };
        let keep = self.window + cause.waited;
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let request = Request::RecentSnapshot(RecentSnapshot { snapshot, keep_ms });
        let taken = client.request_all(&request).map_err(|error| error.to_string());
        let found = taken.and_then(|_| self.read(wanted, directory));
        remove_tree(directory).map_err(|error| error.to_string())?;
        let Counts { found: all, missing } = &*self.progress.counts;
        let count = *found.as_ref().unwrap_or(&0);
        all.fetch_add(count, Relaxed);
        missing.fetch_add((wanted.len() as u64).saturating_sub(count), Relaxed);
        found.map(drop)
    }

    /// Queues the spans of requests in the traces of a directory. Returns how many requests were
    /// found.
    fn read(&mut self, wanted: &BTreeSet<u64>, directory: &Path) -> Result<u64, String> {
        let opened = blkkin_reader::open(&[Source::Path(directory.to_owned())]);
        let exporter = &*self.progress.exporter;
        let sink = QueueSink { exporter, requests: 0, refusal: None };
        let mut choosing = RequestSelector {
            wanted,
            extractor: Extractor::default(),
            assembler: Assembler::new(Limits { idle_ns: u64::MAX / 4, ..Limits::default() }),
            sink,
        };
        Reading::new(&opened.traces).ordered(&mut choosing);
        let RequestSelector { mut assembler, mut sink, .. } = choosing;
        let _ = assembler.finish(&mut sink);
        let QueueSink { requests, refusal, .. } = sink;
        let flushed = exporter.flush().map_err(|error| error.to_string());
        match refusal {
            Some(why) => Err(why),
            None => flushed.map(|()| requests),
        }
    }
}

impl RequestProgress {
    /// Returns the numbers for `blkkin trigger ls`.
    pub(super) fn state(&self) -> Value {
        let counters = self.exporter.counters();
        json!({
            "found": self.counts.found.load(Relaxed),
            "missing": self.counts.missing.load(Relaxed),
            "spans_delivered": counters.delivered,
            "spans_dropped": counters.dropped_total(),
            "spans_waiting": counters.waiting,
            "trouble": self.exporter.trouble(),
        })
    }

    /// Returns whether spans wait for the receiver.
    pub(super) fn is_busy(&self) -> bool {
        self.exporter.counters().waiting > 0
    }

    /// Waits until the receiver has all spans, for a limited time.
    pub(super) fn wait(&self, time: Duration) {
        self.exporter.wait_until_empty(time);
    }
}

/// Consumer that assembles chosen requests.
struct RequestSelector<'a> {
    wanted: &'a BTreeSet<u64>,
    extractor: Extractor,
    assembler: Assembler,
    sink: QueueSink<'a>,
}

impl Consumer for RequestSelector<'_> {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let RequestSelector { wanted, extractor, assembler, sink } = self;
        let time = event.time().unwrap_or_default();
        let added = extractor.read(event, |report| match wanted.contains(&report.trace_id) {
            true => assembler.add(report, time, sink),
            false => ControlFlow::Continue(()),
        });
        added.unwrap_or(ControlFlow::Continue(()))
    }

    fn loss(&mut self, trace: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        let ns = |time: Option<(i64, u64)>| time.map(|(ns, _)| ns);
        self.assembler.add_loss(trace.id as u32, ns(loss.from), ns(loss.to));
        ControlFlow::Continue(())
    }
}

/// Sink that queues requests for the receiver.
struct QueueSink<'a> {
    exporter: &'a Exporter,
    requests: u64,
    refusal: Option<String>,
}

impl Sink for QueueSink<'_> {
    fn request(&mut self, request: &FoundRequest<'_>) -> ControlFlow<()> {
        self.requests += 1;
        for step in &request.steps {
            let pushed = step.with_own_tags(|span| self.exporter.push(span));
            if let Err(error) = pushed {
                self.refusal = Some(error.to_string());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}
