//! A run in which batches are sent: the state that all connections share, and the results of each.

use crate::format::Format;
use crate::numbers::{Numbers, RequestIds};
use crate::pool::RequestSource;
use crate::template::Template;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval for which a rate of acknowledged spans is reported.
pub(crate) const SLOT: Duration = Duration::from_millis(500);

/// Delay before a refused batch is sent again; `PATIENCE` is the time after the end of the run
/// during which refused batches are still sent again.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// State of a run that all connections share.
pub(crate) struct IngestRun {
    pub(crate) format: Format,
    pub(crate) host: String,
    pub(crate) numbers: Numbers,
    pub(crate) in_flight: usize,
    /// Time after `start` at which the run ends; `None` if only `requests_end` ends the run.
    pub(crate) until: Option<Duration>,
    pub(crate) requests_end: u64,
    pub(crate) start: Instant,
    pub(crate) next_request: AtomicU64,
    /// Set if each batch is encoded while sending, instead of patching a template. The requests
    /// then differ in more than ids and times.
    pub(crate) is_new: bool,
}

/// Results of one connection in a run.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) spans: u64,
    pub(crate) bytes: u64,
    pub(crate) refusals: u64,
    pub(crate) latencies: Vec<u64>,
    /// Number of acknowledged spans in each interval of [`SLOT`].
    pub(crate) slots: Vec<u64>,
    pub(crate) last: Duration,
}

/// Answer of a server to a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BatchAnswer {
    Accepted,
    /// The server is overloaded, so the batch must be sent again.
    Busy,
    Error(String),
}

impl IngestRun {
    /// Turns `template` into a batch of new requests, and returns the number of its first request.
    /// Returns `None` if the run has ended.
    pub(crate) fn next(&self, template: &mut Template) -> Option<u64> {
        if self.until.is_some_and(|until| self.start.elapsed() >= until) {
            return None;
        }
        let more = |next| (next < self.requests_end).then_some(next + template.requests());
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let first = self.next_request.fetch_update(set, fetch, more).ok()?;
        match self.is_new {
            true => self.make_anew(template, first),
            false => template.patch(&self.numbers, first),
        }
        Some(first)
    }

    /// Encodes a batch of entirely new requests, which costs the sender time. The requests' content
    /// depends only on `first`, the format, the batch size and the run's [`Numbers`].
    fn make_anew(&self, template: &mut Template, first: u64) {
        let mut source = RequestSource::new(self.format, first + 2);
        let mut requests: Vec<_> = (0..template.requests()).map(|_| source.request()).collect();
        for (number, spans) in (first..).zip(&mut requests) {
            RequestIds::of(spans).renumber(spans, &self.numbers, number);
        }
        *template = Template::encoded(self.format, &self.host, &requests);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns true while refused batches are still sent again: until [`PATIENCE`] after the run's
    /// time limit, which is taken as one hour if the run has no limit.
    pub(crate) fn is_patient(&self) -> bool {
        self.start.elapsed() < self.until.unwrap_or(Duration::from_secs(3600)) + PATIENCE
    }
}

impl Tally {
    pub(crate) fn taken(&mut self, run: &IngestRun, template: &Template, since: Instant) {
        self.spans += template.spans();
        self.bytes += template.bytes().len() as u64;
        self.latencies.push(since.elapsed().as_nanos() as u64);
        self.last = run.start.elapsed();
        let slot = (self.last.as_nanos() / SLOT.as_nanos()) as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += template.spans();
    }

    pub(crate) fn refused(&mut self) {
        self.refusals += 1;
    }
}
