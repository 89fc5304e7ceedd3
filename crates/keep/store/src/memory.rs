//! The reference store, which keeps all spans in memory and scans them for each query:
//! [`MemoryStore`].
//!
//! Other stores are compared with it, so it is simple rather than fast. A scan takes references to
//! the requests that exist at its start, and does not block changes.

use crate::{
    AcceptCallback, AcceptedBatch, Area, Batch, Condition, Counters, Difference, Durations, Error,
    Example, Heat, Interval, Latency, Link, Linker, Page, Place, Policy, Query, SpanStore, Summary,
    TagField, Tally, Window, compare, fingerprint, is_cancelled, request_start_ns, text_of,
    time_of_day_ns,
};
use blkkin_model::{Span, SpanId, SpanRef, SpanRefBuffer, TraceId, Value};
use blkkin_wire::{Decoder, End, Limits, Outcome};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of example spans for each power of two of the duration.
const EXAMPLES_MAX: usize = 4;
/// Approximate memory of a span without its texts, annotations and tags, in bytes, including
/// indexes and allocation overhead.
const SPAN_BYTES: usize = size_of::<Span>() + 64;

/// Store that keeps all spans in memory. When it is full, it evicts whole requests, the earliest
/// arrival first.
#[derive(Debug)]
pub struct MemoryStore {
    room: Capacity,
    limits: Limits,
    state: RwLock<State>,
}

/// Capacity of a [`MemoryStore`], in spans and in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum number of spans in the store.
    pub spans: u64,
    /// Maximum memory for all spans, in bytes; approximate.
    pub bytes: u64,
}

/// Default capacity. The number of spans is the default of Zipkin's in-memory storage.
impl Default for Capacity {
    fn default() -> Capacity {
        Capacity { spans: 500_000, bytes: 512 << 20 }
    }
}

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<TraceId, Arc<Request>>,
    /// Trace ids of all requests, in the order in which their first spans arrived.
    arrivals: VecDeque<TraceId>,
    counters: Counters,
}

#[derive(Clone, Debug, Default)]
struct Request {
    spans: Vec<Span>,
    /// Indexes into `spans` by fingerprint, for the recognition of duplicates.
    fingerprints: HashMap<u64, Vec<usize>>,
    bytes: u64,
}

impl MemoryStore {
    /// Creates an empty store. `limits` are the decoder's limits for each batch.
    pub fn new(room: Capacity, limits: Limits) -> MemoryStore {
        MemoryStore { room, limits, state: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    /// Returns a snapshot of the requests in the store. Later changes do not affect it.
    fn requests(&self) -> Vec<(TraceId, Arc<Request>)> {
        self.read().requests.iter().map(|(id, request)| (*id, request.clone())).collect()
    }

    /// Returns the spans of requests whose trace ids have the lower half `low`. They are in order
    /// of trace id and then of [`compare`].
    fn spans_of(&self, low: u64) -> Vec<Span> {
        let requests = self.requests();
        let wanted = requests.iter().filter(|(id, _)| id.low() == low);
        sorted(wanted.flat_map(|(_, request)| request.spans.iter().cloned()).collect())
    }

    /// Applies `text` to all spans. Returns the distinct nonempty texts in byte order.
    fn texts(&self, text: impl Fn(&SpanRef<'_>) -> Option<String>) -> Vec<String> {
        let mut texts = BTreeSet::new();
        for (_, request) in self.requests() {
            request.visit(|span| texts.extend(text(span).filter(|text| !text.is_empty())));
        }
        texts.into_iter().collect()
    }

    /// Calls `look` with each matching span, together with its start and duration. Spans that lack
    /// either are skipped.
    fn visit_matching(&self, condition: &Condition, mut look: impl FnMut(&SpanRef<'_>, u64, u64)) {
        for (_, request) in self.requests().into_iter().take_while(|_| !is_cancelled()) {
            request.visit(|span| {
                if let (Some(start), Some(duration)) = (span.start_ns, span.duration_ns)
                    && condition.holds(span)
                {
                    look(span, start, duration);
                }
            });
        }
    }

    /// Returns all requests that match a query, regardless of pages, each with its position in the
    /// order of results.
    fn find(&self, query: &Query) -> Vec<(Place, Summary)> {
        let requests = self.requests().into_iter().take_while(|_| !is_cancelled());
        let found = requests.filter_map(|(id, request)| {
            request.borrowed(|spans| {
                let began = request_start_ns(spans)?;
                let summary = Summary::of(spans).filter(|_| query.holds(spans))?;
                Some((query.order.place(id, began, summary.duration_ns), summary))
            })
        });
        found.collect()
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(Capacity::default(), Limits::default())
    }
}

impl SpanStore for MemoryStore {
    fn accept(&self, batch: Batch<'_>, done: AcceptCallback) {
        let mut spans: Vec<Span> = Vec::new();
        let mut decoder = Decoder::new(self.limits).strict(batch.policy == Policy::Whole);
        let outcome = decoder.decode(batch.format, batch.bytes, &mut spans);
        self.write().add_batch(spans, &outcome, &self.room);
        done(Ok(AcceptedBatch { outcome }));
    }

    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        // The query succeeds even if `each` stopped the iteration.
        let _ = self.spans_of(low).iter().try_for_each(|span| each(&span.ref_buffer().as_ref()));
        Ok(())
    }

    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        for (_, request) in self.requests().iter().filter(|(of, _)| of.low() == low) {
            let spans = request.spans.iter().filter(|span| id.is_none_or(|id| span.id == id));
            spans.for_each(|span| each(&span.ref_buffer().as_ref()));
        }
        Ok(())
    }

    fn search(&self, query: &Query) -> Result<Page, Error> {
        let (places, summaries): (Vec<Place>, Vec<Summary>) = self.find(query).into_iter().unzip();
        let mut summaries: HashMap<TraceId, Summary> =
            summaries.into_iter().map(|summary| (summary.trace_id, summary)).collect();
        let (places, next) = query.page(places);
        let requests = places.iter().filter_map(|place| summaries.remove(&place.trace_id));
        Ok(Page { requests: requests.collect(), next })
    }

    fn services(&self) -> Result<Vec<String>, Error> {
        Ok(self.texts(|span| Some(span.local.service.to_owned())))
    }

    fn span_names(&self, service: &str) -> Result<Vec<String>, Error> {
        Ok(self.texts(|span| {
            let is_asked_for = span.local.service.eq_ignore_ascii_case(service);
            is_asked_for.then(|| span.name.to_owned())
        }))
    }

    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error> {
        Ok(self.texts(|span| {
            let is_asked_for = span.local.service.eq_ignore_ascii_case(service);
            is_asked_for.then(|| span.remote.service.to_owned())
        }))
    }

    fn tag_keys(&self) -> Result<Vec<TagField>, Error> {
        let mut keys: BTreeMap<String, u64> = BTreeMap::new();
        for (_, request) in self.requests() {
            request.visit(|span| {
                let distinct: BTreeSet<&str> = span.tags.iter().map(|tag| tag.key).collect();
                for key in distinct {
                    *keys.entry(key.to_owned()).or_default() += 1;
                }
            });
        }
        Ok(keys.into_iter().map(|(key, spans)| TagField { key, spans }).collect())
    }

    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error> {
        let mut values = self.texts(|span| span.tag(key).map(|value| text_of(value).into_owned()));
        values.truncate(limit);
        Ok(values)
    }

    fn links(&self, window: Window) -> Result<Vec<Link>, Error> {
        // Spans of services that know only the lower half of a trace id belong to the same request.
        let mut by_low: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
        for (id, request) in self.requests() {
            by_low.entry(id.low()).or_default().extend(request.spans.iter().cloned());
        }
        let mut links: BTreeMap<(String, String), Link> = BTreeMap::new();
        let mut linker = Linker::default();
        for spans in by_low.into_values() {
            let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(Span::ref_buffer).collect();
            let spans: Vec<SpanRef<'_>> = held.iter().map(SpanRefBuffer::as_ref).collect();
            if !request_start_ns(&spans).is_some_and(|began| window.holds(began)) {
                continue;
            }
            linker.link(
                &spans,
                |_| true,
                |call| {
                    let ends = (call.parent.to_owned(), call.child.to_owned());
                    links.entry(ends).or_insert_with(|| Link::between(&call)).add(&call);
                },
            );
        }
        Ok(links.into_values().collect())
    }

    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error> {
        let mut durations = Durations::default();
        let mut examples: BTreeMap<Option<u32>, Vec<Example>> = BTreeMap::new();
        for (trace_id, request) in self.requests() {
            let began = request.borrowed(|spans| request_start_ns(spans));
            if !began.is_some_and(|began| window.holds(began)) {
                continue;
            }
            request.visit(|span| {
                let Some(duration_ns) = span.duration_ns else { return };
                if !condition.holds(span) {
                    return;
                }
                durations.add(Durations::code(duration_ns), 1);
                let alike = examples.entry(duration_ns.checked_ilog2()).or_default();
                if alike.len() < EXAMPLES_MAX {
                    alike.push(Example { trace_id, id: span.id, duration_ns });
                }
            });
        }
        let mut examples: Vec<Example> = examples.into_values().flatten().collect();
        examples.sort_by_key(|example| (example.duration_ns, example.trace_id, example.id));
        Ok(Latency { durations, examples })
    }

    fn starts(&self) -> Result<Option<Window>, Error> {
        let mut starts: Option<Window> = None;
        for (_, request) in self.requests() {
            request.spans.iter().filter_map(|span| span.start_ns).for_each(|start| {
                let known = starts.get_or_insert(Window { start_ns: start, end_ns: start });
                known.start_ns = known.start_ns.min(start);
                known.end_ns = known.end_ns.max(start);
            });
        }
        Ok(starts)
    }

    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error> {
        self.visit_matching(condition, |_, start, duration| cells.add(start, duration));
        Ok(())
    }

    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error> {
        let mut tally = Tally::default();
        for side in [true, false] {
            self.visit_matching(condition, |span, start, duration| {
                if window.holds(start) && area.holds(start, duration) == side {
                    tally.add_span(side, span);
                }
            });
        }
        Ok(tally.finish())
    }

    fn counters(&self) -> Counters {
        self.read().counters
    }

    fn is_durable(&self) -> bool {
        false
    }
}

impl State {
    /// Adds the spans of a decoded batch, updates the counters, and evicts requests until the store
    /// is within its capacity.
    fn add_batch(&mut self, spans: Vec<Span>, outcome: &Outcome, room: &Capacity) {
        let broken = u64::from(matches!(outcome.end, End::Broken(_)));
        self.counters.batches += u64::from(outcome.is_good() || outcome.accepted > 0);
        let refused = outcome.refused + broken;
        self.counters.refused += refused;
        if refused > 0 {
            Interval::extend(&mut self.counters.times.refused, time_of_day_ns());
        }
        for span in spans {
            self.add(span);
            while self.counters.kept > room.spans || self.counters.memory_bytes > room.bytes {
                self.evict();
            }
        }
    }

    fn add(&mut self, span: Span) {
        let counters = &mut self.counters;
        counters.accepted += 1;
        let request = self.requests.entry(span.trace_id).or_insert_with(|| {
            self.arrivals.push_back(span.trace_id);
            Arc::default()
        });
        match Arc::make_mut(request).add(span) {
            Some(bytes) => {
                counters.kept += 1;
                counters.memory_bytes += bytes;
            }
            None => counters.duplicates += 1,
        }
    }

    /// Evicts the request whose first span arrived earliest.
    fn evict(&mut self) {
        let Some(id) = self.arrivals.pop_front() else { return };
        let Some(request) = self.requests.remove(&id) else { return };
        self.counters.kept -= request.spans.len() as u64;
        self.counters.expired += request.spans.len() as u64;
        Interval::extend(&mut self.counters.times.expired, time_of_day_ns());
        self.counters.memory_bytes -= request.bytes;
    }
}

impl Request {
    /// Adds a span to the request and returns the span's size in bytes; `None` for a duplicate.
    fn add(&mut self, span: Span) -> Option<u64> {
        let held = span.ref_buffer();
        let alike = self.fingerprints.entry(fingerprint(&held.as_ref())).or_default();
        let is_same = |at: &usize| {
            self.spans
                .get(*at)
                .is_some_and(|it| compare(&it.ref_buffer().as_ref(), &held.as_ref()).is_eq())
        };
        if alike.iter().any(is_same) {
            return None;
        }
        alike.push(self.spans.len());
        let bytes = bytes_of(&span);
        self.bytes += bytes;
        self.spans.push(span);
        Some(bytes)
    }

    fn borrowed<T>(&self, look: impl FnOnce(&[SpanRef<'_>]) -> T) -> T {
        let held: Vec<SpanRefBuffer<'_>> = self.spans.iter().map(Span::ref_buffer).collect();
        let spans: Vec<SpanRef<'_>> = held.iter().map(SpanRefBuffer::as_ref).collect();
        look(&spans)
    }

    fn visit(&self, mut look: impl FnMut(&SpanRef<'_>)) {
        self.spans.iter().for_each(|span| look(&span.ref_buffer().as_ref()));
    }
}

/// Returns the approximate size of a span in memory, in bytes.
fn bytes_of(span: &Span) -> u64 {
    let texts = span.name.len() + span.local.service.len() + span.remote.service.len();
    let annotations = span.annotations.iter().map(|it| size_of_val(it) + it.value.len());
    let tags = span.tags.iter().map(|it| {
        let value = match &it.value {
            Value::Str(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Int(_) | Value::Bool(_) | Value::Double(_) => 0,
        };
        size_of_val(it) + it.key.len() + value
    });
    (SPAN_BYTES + texts + annotations.sum::<usize>() + tags.sum::<usize>()) as u64
}

fn sorted(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|one, other| {
        let ids = one.trace_id.cmp(&other.trace_id);
        ids.then_with(|| compare(&one.ref_buffer().as_ref(), &other.ref_buffer().as_ref()))
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::{SpanId, Value};
    use blkkin_wire::{Format, encode};

    fn span(trace: u128, id: u64) -> Span {
        let trace = TraceId::from_number(trace).expect("not 0");
        SpanRef::new(trace, SpanId::from_number(id).expect("not 0")).to_owned()
    }

    fn accept(store: &MemoryStore, spans: &[Span]) {
        let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(Span::ref_buffer).collect();
        let mut bytes = Vec::new();
        encode(Format::ZipkinProto, held.iter().map(SpanRefBuffer::as_ref), &mut bytes);
        let batch = Batch { format: Format::ZipkinProto, bytes: &bytes, policy: Policy::Whole };
        store.accept(batch, Box::new(|done| assert!(done.is_ok_and(|it| it.outcome.is_good()))));
    }

    fn kept(store: &MemoryStore) -> Vec<(u128, usize)> {
        let requests = store.requests();
        requests.iter().map(|(id, request)| (id.number(), request.spans.len())).collect()
    }

    /// Eviction removes whole requests in the order in which their first spans arrived. Later spans
    /// of a request do not postpone its eviction.
    #[test]
    fn whole_requests_make_room() {
        let store =
            MemoryStore::new(Capacity { spans: 4, ..Capacity::default() }, Limits::default());
        accept(&store, &[span(3, 1), span(3, 2), span(1, 1), span(3, 3)]);
        assert_eq!(kept(&store), [(1, 1), (3, 3)]);
        accept(&store, &[span(3, 2), span(3, 3)]);
        assert_eq!(kept(&store), [(1, 1), (3, 3)], "what is there takes no room");
        accept(&store, &[span(2, 1)]);
        assert_eq!(kept(&store), [(1, 1), (2, 1)]);
        let counters = store.counters();
        let Counters { batches, accepted, kept: count, duplicates, expired, .. } = counters;
        assert_eq!((batches, accepted, count, duplicates, expired), (3, 7, 2, 2, 3));
        // A request that exceeds the capacity alone is evicted, too.
        let many: Vec<Span> = (1..=6).map(|id| span(9, id)).collect();
        accept(&store, &many);
        assert_eq!(kept(&store), [(9, 1)]);
        let Counters { accepted, kept, duplicates, expired, .. } = store.counters();
        assert_eq!((accepted, kept, duplicates, expired), (13, 1, 2, 10));
    }

    /// The sizes of texts count for the capacity, and eviction frees them.
    #[test]
    fn bytes_are_bounded() {
        let room = Capacity { bytes: 100_000, ..Capacity::default() };
        let store = MemoryStore::new(room, Limits::default());
        let mut large = span(1, 1);
        let text = || "x".repeat(20_000);
        large.name = text();
        large.tags.push(blkkin_model::Tag {
            key: text(),
            value: Value::Str(text()),
            origin: blkkin_model::Origin::Span,
        });
        large.annotations.push(blkkin_model::Annotation { time_ns: 1000, value: text() });
        accept(&store, &[large.clone()]);
        let bytes = store.counters().memory_bytes;
        assert!((80_000..82_000).contains(&bytes), "{bytes}");
        accept(&store, &[Span { trace_id: span(2, 1).trace_id, ..large }]);
        assert_eq!(kept(&store), [(2, 1)]);
        assert_eq!(store.counters().memory_bytes, bytes);
        // Many small spans are bounded as well.
        let many: Vec<Span> = (1..2000).map(|id| span(3, id)).collect();
        accept(&store, &many);
        let after = store.counters();
        assert!(after.memory_bytes <= room.bytes && after.kept < 1000, "{after:?}");
        assert_eq!(after.accepted, after.kept + after.expired);
    }
}
