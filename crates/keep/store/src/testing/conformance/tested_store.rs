//! The store under test, with helper functions for the conformance cases. Start at [`Subject`].

use crate::zipkin::{Parameters, conditions};
use crate::{
    AcceptedBatch, Batch, Condition, Order, Page, Policy, Query, SpanStore, Summary, Window,
    compare,
};
use blkkin_model::{
    Annotation, Endpoint, Kind, Span, SpanId, SpanRef, SpanRefBuffer, Tag, TraceId, Value,
};
use blkkin_wire::{Format, encode};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Base of the times in the cases, in nanoseconds since 1970; the first nanosecond of a minute.
pub(super) const NOON: u64 = 1_793_491_200_000_000_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const US: u64 = 1_000;

/// Time limit for a store to report the result of a batch.
const PATIENCE: Duration = Duration::from_secs(60);

/// Store under test. It is empty at the start of each case.
pub struct Subject {
    store: Arc<dyn SpanStore>,
    settle: Box<dyn Fn()>,
    pub(super) measures_parts: bool,
}

impl Subject {
    /// Wraps a store that derives calls from spans as soon as it accepts them.
    pub fn new(store: impl SpanStore + 'static) -> Subject {
        Subject::settling(Arc::new(store), || {})
    }

    /// Wraps a store that derives calls later. `settle` returns once the calls of all accepted
    /// spans are counted. The closure may also own resources that must outlive the store.
    pub fn settling(store: Arc<dyn SpanStore>, settle: impl Fn() + 'static) -> Subject {
        Subject { store, settle: Box::new(settle), measures_parts: false }
    }

    /// Declares that the store measures latency separately for each part of a request, by the start
    /// of the part. A part is the request's spans in one span file.
    pub fn measuring_parts(self) -> Subject {
        Subject { measures_parts: true, ..self }
    }

    pub(super) fn store(&self) -> &dyn SpanStore {
        &*self.store
    }

    pub(super) fn settle(&self) {
        (self.settle)();
    }

    /// Sends a batch and waits until the store has accepted it.
    pub(super) fn send_batch(&self, format: Format, bytes: &[u8], policy: Policy) -> AcceptedBatch {
        let (said, heard) = mpsc::channel();
        let done = Box::new(move |result| drop(said.send(result)));
        self.store.accept(Batch { format, bytes, policy }, done);
        match heard.recv_timeout(PATIENCE) {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(refusal)) => panic!("a batch was turned away: {}", refusal.reason),
            Err(error) => panic!("nothing was said of a batch: {error}"),
        }
    }

    /// Sends valid spans in a format of Zipkin, which truncates times to microseconds and converts
    /// names to lower case.
    pub(super) fn accept(&self, spans: &[Span]) {
        self.accept_as(Format::ZipkinProto, spans);
    }

    pub(super) fn accept_as(&self, format: Format, spans: &[Span]) {
        let accepted = self.send_batch(format, &encoded(format, spans), Policy::Whole);
        assert!(accepted.outcome.is_good(), "{:?}", accepted.outcome);
        assert_eq!(accepted.outcome.accepted, spans.len() as u64);
    }

    /// Returns the spans of a request. Asserts their trace id and that they are in order of start.
    pub(super) fn trace(&self, id: TraceId) -> Vec<Span> {
        let spans = self.store.trace(id).expect("an answer");
        assert!(spans.iter().all(|span| span.trace_id == id), "spans of another request");
        assert_ordered(&spans);
        spans
    }

    /// Asserts that the store has exactly the expected spans of their request.
    #[track_caller]
    pub(super) fn assert_trace(&self, expected: &[Span]) {
        assert_same(&self.trace(expected[0].trace_id), expected);
    }

    /// Returns a page of results. Asserts that the page is within the limit, and that its summaries
    /// agree with the stored spans.
    #[track_caller]
    pub(super) fn page(&self, query: &Query) -> Page {
        let page = self.store.search(query).expect("an answer");
        assert!(page.requests.len() <= query.limit, "more than asked for");
        for summary in &page.requests {
            let spans = self.trace(summary.trace_id);
            let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(Span::ref_buffer).collect();
            let spans: Vec<SpanRef<'_>> = held.iter().map(SpanRefBuffer::as_ref).collect();
            assert_eq!(Summary::of(&spans).as_ref(), Some(summary));
        }
        page
    }

    /// Returns the trace ids of the requests on a page, in the page's order.
    #[track_caller]
    pub(super) fn found(&self, query: &Query) -> Vec<u128> {
        self.page(query).requests.iter().map(|summary| summary.trace_id.number()).collect()
    }

    /// Returns the trace ids of requests that match Zipkin's parameters, in the order of results.
    #[track_caller]
    pub(super) fn search_zipkin(&self, parameters: &Parameters<'_>) -> Vec<u128> {
        let conditions = conditions(parameters).expect("a good question");
        self.found(&Query { conditions, ..Query::new(100) })
    }

    /// Returns the trace ids of requests that match a filter, in the order of results.
    #[track_caller]
    pub(super) fn search_filter(&self, filter: &str) -> Vec<u128> {
        let conditions = vec![condition(filter)];
        self.found(&Query { conditions, ..Query::new(100) })
    }

    /// Returns the trace ids of requests that began between two times, in nanoseconds since
    /// [`NOON`].
    #[track_caller]
    pub(super) fn search_starts(&self, first: u64, last: u64) -> Vec<u128> {
        let window = Window { start_ns: NOON + first, end_ns: NOON + last };
        self.found(&Query { window, ..Query::new(100) })
    }

    /// Returns the trace ids of all requests in an order; the results are read page by page.
    pub(super) fn all_pages(&self, order: Order, limit: usize) -> Vec<u128> {
        let mut query = Query { order, ..Query::new(limit) };
        let mut all = Vec::new();
        loop {
            let page = self.page(&query);
            assert!(!page.requests.is_empty() || page.next.is_none(), "an empty page");
            all.extend(page.requests.iter().map(|summary| summary.trace_id.number()));
            assert!(all.len() < 10_000, "pages do not end");
            match page.next {
                Some(next) => query.after = Some(next),
                None => return all,
            }
        }
    }
}

pub(super) fn condition(filter: &str) -> Condition {
    Condition::parse(filter).unwrap_or_else(|error| panic!("{}", error.render(false)))
}

pub(super) fn encoded(format: Format, spans: &[Span]) -> Vec<u8> {
    let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(Span::ref_buffer).collect();
    let mut bytes = Vec::new();
    encode(format, held.iter().map(SpanRefBuffer::as_ref), &mut bytes);
    bytes
}

pub(super) fn trace_id(number: u128) -> TraceId {
    TraceId::from_number(number).expect("an id is not 0")
}

/// Creates a root span that starts `start_ms` milliseconds after [`NOON`].
pub(super) fn span(trace: u128, id: u64, start_ms: u64, service: &str, name: &str) -> Span {
    let id = SpanId::from_number(id).expect("an id is not 0");
    Span {
        start_ns: Some(NOON + start_ms * MS),
        duration_ns: Some(MS),
        local: endpoint(service),
        name: name.to_owned(),
        ..SpanRef::new(trace_id(trace), id).to_owned()
    }
}

pub(super) fn endpoint(service: &str) -> Endpoint {
    Endpoint { service: service.to_owned(), ..Endpoint::default() }
}

/// Builder methods that set a field of a span, or add a tag or annotation.
pub(super) trait SpanBuilder {
    /// Sets the parent's id. A parent of 0 means no parent.
    fn child_of(self, parent: u64) -> Span;
    fn kind(self, kind: Kind) -> Span;
    fn remote(self, service: &str) -> Span;
    fn lasting(self, duration_ns: u64) -> Span;
    fn tag(self, key: &str, value: &str) -> Span;
    fn annotation(self, time_ns: u64, value: &str) -> Span;
    fn shared(self) -> Span;
}

impl SpanBuilder for Span {
    fn child_of(self, parent: u64) -> Span {
        Span { parent_id: SpanId::from_number(parent), ..self }
    }

    fn kind(self, kind: Kind) -> Span {
        Span { kind, ..self }
    }

    fn remote(self, service: &str) -> Span {
        Span { remote: endpoint(service), ..self }
    }

    fn lasting(self, duration_ns: u64) -> Span {
        Span { duration_ns: Some(duration_ns), ..self }
    }

    fn tag(mut self, key: &str, value: &str) -> Span {
        let (key, value) = (key.to_owned(), Value::Str(value.to_owned()));
        self.tags.push(Tag { key, value, origin: Default::default() });
        self.tags.sort_by(|one, other| one.key.cmp(&other.key));
        self
    }

    fn annotation(mut self, time_ns: u64, value: &str) -> Span {
        self.annotations.push(Annotation { time_ns, value: value.to_owned() });
        self.annotations.sort();
        self
    }

    fn shared(self) -> Span {
        Span { shared: true, ..self }
    }
}

/// Asserts that spans are in order of start, spans without a start first.
#[track_caller]
pub(super) fn assert_ordered(spans: &[Span]) {
    for pair in spans.windows(2) {
        assert!(pair[0].start_ns <= pair[1].start_ns, "not in order of start: {pair:?}");
    }
}

/// Asserts that both lists have the same spans, in any order.
#[track_caller]
pub(super) fn assert_same(found: &[Span], expected: &[Span]) {
    let sorted = |spans: &[Span]| {
        let mut spans = spans.to_vec();
        spans.sort_by(|one, other| {
            compare(&one.ref_buffer().as_ref(), &other.ref_buffer().as_ref())
        });
        spans
    };
    let (found, expected) = (sorted(found), sorted(expected));
    assert_eq!(found.len(), expected.len(), "found {found:#?}\nof {expected:#?}");
    for (one, other) in found.iter().zip(&expected) {
        let is_same = compare(&one.ref_buffer().as_ref(), &other.ref_buffer().as_ref()).is_eq();
        assert!(is_same, "found {one:#?}\ninstead of {other:#?}");
    }
}
