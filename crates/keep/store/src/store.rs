//! The interface that all span stores implement: [`SpanStore`] and its [`Counters`].

use crate::{
    AcceptCallback, Area, Batch, Condition, Difference, Error, Heat, Interval, Latency, Link, Page,
    Query, Window,
};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use std::ops::ControlFlow;

/// Store of spans. All methods may be called from any thread; queries do not wait for each other.
///
/// Duplicates of a span are stored once; spans are duplicates if they are equal in all fields.
/// Counters and statistics may include a duplicate until the store recognizes it.
///
/// Queries compare names of services and spans ignoring the case of ASCII letters, and return the
/// names as received.
pub trait SpanStore: Send + Sync {
    /// Decodes a batch, then returns. A full store may delay the call, or reject the batch without
    /// decoding it. Calls `done` once the spans of the batch are queryable and as durable as the
    /// store makes them, or the batch is rejected.
    fn accept(&self, batch: Batch<'_>, done: AcceptCallback);

    /// Calls `each` with the distinct spans of all requests whose trace ids have the lower half
    /// `low`, until `each` returns `Break`. Spans are in order of trace id and then of
    /// [`compare`](crate::compare). The callback borrows one span at a time, so that the caller
    /// need not hold all of them.
    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// Returns the spans of a request in order of start, spans without a start first. Empty if the
    /// request is unknown.
    fn trace(&self, id: TraceId) -> Result<Vec<Span>, Error> {
        let mut spans = self.traces_of_low(id.low())?;
        spans.retain(|span| span.trace_id == id);
        Ok(spans)
    }

    /// Returns the spans of all requests whose trace ids have the lower half `low`.
    fn traces_of_low(&self, low: u64) -> Result<Vec<Span>, Error> {
        let mut spans = Vec::new();
        self.each_span(low, &mut |span| {
            spans.push(span.to_owned());
            ControlFlow::Continue(())
        })?;
        Ok(spans)
    }

    /// Calls `each` with the spans of all requests whose trace ids have the lower half `low`. If
    /// `id` is given, spans with other span ids are skipped. The order is arbitrary, and duplicates
    /// may be visited again.
    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error>;

    /// Returns a page of the requests that match a query.
    fn search(&self, query: &Query) -> Result<Page, Error>;

    /// Returns the names of services that recorded spans, in byte order.
    fn services(&self) -> Result<Vec<String>, Error>;

    /// Returns the distinct names of the spans that a service recorded, in byte order.
    fn span_names(&self, service: &str) -> Result<Vec<String>, Error>;

    /// Returns the distinct remote services that a service's spans name, in byte order.
    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error>;

    /// Returns the keys of all stored tags with their frequency, in order of key.
    fn tag_keys(&self) -> Result<Vec<TagField>, Error>;

    /// Returns at most `limit` distinct nonempty values of a tag, converted to text, in byte order.
    /// If a key has very many values, some may be missing.
    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// Returns the call totals of each pair of services, over the requests that began in the
    /// window, in order of caller and callee. Calls of the last seconds may be missing. A store may
    /// round the window outwards to whole minutes.
    fn links(&self, window: Window) -> Result<Vec<Link>, Error>;

    /// Returns the latency of spans that match the condition, in requests that began in the window.
    /// If parts of a request arrived far apart, a store may assign each part to the window by the
    /// part's own start. If very many durations are close to a bound of the condition, the store
    /// may round the bound to the precision of [`Durations`].
    ///
    /// [`Durations`]: crate::Durations
    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error>;

    /// Returns the earliest and the latest start of all spans; `None` if no span has a start.
    fn starts(&self) -> Result<Option<Window>, Error>;

    /// Counts spans in the heat map `cells`. A span counts if it matches the condition, started in
    /// the map's window and has a duration.
    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error>;

    /// Compares the words of the spans inside `area`, a box of start times and durations, with the
    /// words of the spans outside. Words are the values of fields and tags. Also compares the own
    /// times of these spans. Only spans that match the condition, started in the window and have a
    /// duration are compared.
    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error>;

    /// Returns the counters of accepted, stored and removed spans.
    fn counters(&self) -> Counters;

    /// Returns whether accepted spans survive a restart of the process.
    fn is_durable(&self) -> bool;
}

/// Key of tags in the store, with its frequency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagField {
    /// Key as the sender wrote it.
    pub key: String,
    /// Approximate number of spans with this key.
    pub spans: u64,
}

/// Counters of a store. `accepted = kept + duplicates + expired + lost` always holds for these
/// numbers of spans. A duplicate may count as kept until the store recognizes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of batches accepted since the store was opened, including those recovered from the
    /// journal.
    pub batches: u64,
    /// Number of spans accepted since the store was created, including spans of adopted files.
    pub accepted: u64,
    /// Number of invalid spans, which were refused. A batch whose decoding stopped at a fault
    /// counts as one more.
    pub refused: u64,
    /// Number of batches rejected with a [`Refusal`](crate::Refusal), for example because the store
    /// was full or the disk failed.
    pub turned_away: u64,
    /// Number of spans that are in the store now.
    pub kept: u64,
    /// Number of accepted spans that were already in the store.
    pub duplicates: u64,
    /// Number of spans removed because of their age or to free space.
    pub expired: u64,
    /// Number of accepted spans in files that were damaged or unreadable when the store was opened.
    pub lost: u64,
    /// Number of spans in damaged files; answers may lack some of them.
    pub damaged: u64,
    /// Number of damaged parts of files and journal that were found when the store was opened, with
    /// or without loss of spans.
    pub damages: u64,
    /// Memory that the store uses for spans, indexes and caches, in bytes; approximate.
    pub memory_bytes: u64,
    /// Disk space that the store uses, in bytes.
    pub disk_bytes: u64,
    /// Part of `disk_bytes` used by damaged files. They were renamed and are no longer read.
    pub quarantined_bytes: u64,
    /// Number of renamed damaged files that were deleted since the store was opened, because they
    /// were too many or too large.
    pub quarantined_removed: u64,
    /// Times of rejections and losses.
    pub times: LossTimes,
}

/// First and last time of each kind of rejection and loss, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes {
    /// First and last time at which [`Counters::refused`] grew; `None` if it did not.
    pub refused: Option<Interval>,
    /// First and last time at which [`Counters::turned_away`] grew; `None` if it did not.
    pub turned_away: Option<Interval>,
    /// First and last time at which [`Counters::expired`] grew; `None` if it did not.
    pub expired: Option<Interval>,
    /// First and last time at which [`Counters::lost`] grew or files were still unreadable; `None`
    /// if there was no such time.
    pub lost: Option<Interval>,
    /// First and last time at which [`Counters::damages`] grew; `None` if it did not.
    pub damages: Option<Interval>,
}
