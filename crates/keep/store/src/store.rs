//! The interface of stores: [`SpanStore`] and its [`Counters`].

use crate::{
    Area, Batch, Condition, Difference, Done, Error, Heat, Interval, Latency, Link, Page, Query,
    Window,
};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use std::ops::ControlFlow;

/// Store of spans. All methods may be called from any thread; queries do not wait for each other.
///
/// Duplicates of a span are stored once; two spans are duplicates if they are equal in all fields.
/// Queries compare services and names without regard to the case of ASCII letters, and return them
/// as received.
pub trait SpanStore: Send + Sync {
    /// Decodes a batch before returning, and calls `done` once its spans are durable and queryable,
    /// or rejected.
    fn accept(&self, batch: Batch<'_>, done: Done);

    /// Calls `each` with the distinct spans of all requests whose trace ids have this lower half,
    /// in order of trace id and then of [`compare`](crate::compare), until `each` returns `Break`.
    /// Memory does not grow with the number of spans.
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

    /// Returns the spans of all requests whose trace ids have this lower half.
    fn traces_of_low(&self, low: u64) -> Result<Vec<Span>, Error> {
        let mut spans = Vec::new();
        self.each_span(low, &mut |span| {
            spans.push(span.to_owned());
            ControlFlow::Continue(())
        })?;
        Ok(spans)
    }

    /// Calls `each` with the spans of all requests whose trace ids have this lower half, restricted
    /// to a span id if one is given. The order is arbitrary, and duplicates may be visited again.
    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error>;

    /// Returns a page of the requests that match a query.
    fn search(&self, query: &Query) -> Result<Page, Error>;

    /// Returns the services that recorded spans, in order.
    fn services(&self) -> Result<Vec<String>, Error>;

    /// Returns the names of a service's spans, in order.
    fn span_names(&self, service: &str) -> Result<Vec<String>, Error>;

    /// Returns the remote services that a service's spans name, in order.
    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error>;

    /// Returns the keys of tags, in order.
    fn tag_keys(&self) -> Result<Vec<TagField>, Error>;

    /// Returns at most `limit` values of a tag as text, in order.
    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// Returns the calls of requests that began in the window, in order of caller and callee. Calls
    /// of the last seconds may be missing, and the window may be extended to whole minutes.
    fn links(&self, window: Window) -> Result<Vec<Link>, Error>;

    /// Returns the durations of spans that match the condition, in requests that began in the
    /// window. If very many durations are close to a bound of the condition, the bound may be
    /// rounded to the precision of [`Durations`].
    ///
    /// [`Durations`]: crate::Durations
    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error>;

    /// Returns the earliest and the latest start of all spans; `None` if no span has a start.
    fn starts(&self) -> Result<Option<Window>, Error>;

    /// Counts in `cells` the spans that match the condition, started in the window of `cells` and
    /// have a duration.
    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error>;

    /// Compares the words of the spans inside a box with those of the spans outside. Both sides are
    /// limited to spans that match the condition, started in the window and have a duration.
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

/// Key of tags, with its frequency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagField {
    /// Text of the key.
    pub key: String,
    /// Approximate number of spans with this key.
    pub spans: u64,
}

/// Counters of a store, in spans unless noted otherwise. `accepted = kept + duplicates + expired +
/// lost` always holds. A duplicate may count as kept until the store recognizes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted batches.
    pub batches: u64,
    /// Accepted spans since the store was created.
    pub accepted: u64,
    /// Invalid spans that were refused.
    pub refused: u64,
    /// Valid batches that were rejected because the store was full or the disk failed.
    pub turned_away: u64,
    /// Spans in the store.
    pub kept: u64,
    /// Accepted spans that were already in the store.
    pub duplicates: u64,
    /// Spans that were removed because of their age or to free space.
    pub expired: u64,
    /// Spans that have become unreadable.
    pub lost: u64,
    /// Spans in damaged files; answers may lack some of them.
    pub damaged: u64,
    /// Damaged places found when the store was opened, with or without loss of spans.
    pub damages: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Disk space in bytes.
    pub disk_bytes: u64,
    /// Part of `disk_bytes` used by damaged files that were moved aside.
    pub aside_bytes: u64,
    /// Damaged files that were removed to free space.
    pub aside_removed: u64,
    /// Times of rejections and losses.
    pub times: LossTimes,
}

/// First and last time of each kind of rejection and loss, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes {
    /// Times of [`Counters::refused`].
    pub refused: Option<Interval>,
    /// Times of [`Counters::turned_away`].
    pub turned_away: Option<Interval>,
    /// Times of [`Counters::expired`].
    pub expired: Option<Interval>,
    /// Times at which [`Counters::lost`] was detected.
    pub lost: Option<Interval>,
    /// Times at which [`Counters::damages`] was detected.
    pub damages: Option<Interval>,
}
