//! [`SpanStore`]: the trait of stores.

use crate::{
    Area, Batch, Condition, Difference, Done, Error, Heat, Interval, Latency, Link, Page, Query,
    Window,
};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use std::ops::ControlFlow;

/// Store of spans. All methods may be called from any thread; no query waits for another one.
///
/// A span that is sent again is stored once; two spans are the same if they are equal in all
/// fields. Queries compare services and names without regard to the case of ASCII letters, and
/// return them as sent.
pub trait SpanStore: Send + Sync {
    /// Accepts a batch. Decodes it before returning, and calls `done` once its spans are durable
    /// and queryable, or rejected.
    fn accept(&self, batch: Batch<'_>, done: Done);

    /// Calls `each` with the spans of all requests whose trace ids have this lower half, each once,
    /// in order of trace id and then of [`compare`](crate::compare), until `each` breaks off.
    /// However many there are, they are not all held at once.
    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// The spans of a request, in order of start, those without one first. Empty if there is none.
    fn trace(&self, id: TraceId) -> Result<Vec<Span>, Error> {
        let mut spans = self.traces_of_low(id.low())?;
        spans.retain(|span| span.trace_id == id);
        Ok(spans)
    }

    /// The spans of all requests whose trace ids have this lower half.
    fn traces_of_low(&self, low: u64) -> Result<Vec<Span>, Error> {
        let mut spans = Vec::new();
        self.each_span(low, &mut |span| {
            spans.push(span.to_owned());
            ControlFlow::Continue(())
        })?;
        Ok(spans)
    }

    /// Calls `each` with the spans of all requests whose trace ids have this lower half, restricted
    /// to a span id if one is given. Spans come one at a time in any order; a span that was sent
    /// again may come again.
    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error>;

    /// Searches for requests.
    fn search(&self, query: &Query) -> Result<Page, Error>;

    /// The services that have recorded spans, in order.
    fn services(&self) -> Result<Vec<String>, Error>;

    /// The names of a service's spans, in order.
    fn span_names(&self, service: &str) -> Result<Vec<String>, Error>;

    /// The remote services that a service's spans name, in order.
    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error>;

    /// The keys of tags, in order.
    fn tag_keys(&self) -> Result<Vec<TagField>, Error>;

    /// Values of a tag as text, in order, at most `limit`.
    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// The calls of requests that began in the window, in order of caller and callee. Calls of the
    /// last seconds may be missing, and the window may be extended to whole minutes.
    fn links(&self, window: Window) -> Result<Vec<Link>, Error>;

    /// The durations of spans that meet the condition, in requests that began in the window. If
    /// very many durations are close to a bound of the condition, it may be rounded to the
    /// precision of [`Durations`].
    ///
    /// [`Durations`]: crate::Durations
    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error>;

    /// The earliest and the latest start of all spans; `None` if no span has a start.
    fn starts(&self) -> Result<Option<Window>, Error>;

    /// Counts the spans that meet the condition, started in the window of `cells` and have a
    /// duration.
    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error>;

    /// Compares the spans in a box with all others, among those that meet the condition, started in
    /// the window and have a duration.
    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error>;

    /// The counters of accepted, stored and removed spans.
    fn counters(&self) -> Counters;

    /// Returns whether accepted spans outlive the process.
    fn is_durable(&self) -> bool;
}

/// Tag key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagField {
    /// The key.
    pub key: String,
    /// Approximate number of spans with this key.
    pub spans: u64,
}

/// Counters of a store, in spans unless noted otherwise. `accepted = kept + duplicates + expired +
/// lost` always holds. Spans that are sent again later may count as kept until the duplicate is
/// recognized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted batches.
    pub batches: u64,
    /// Accepted spans since the store was created.
    pub accepted: u64,
    /// Invalid spans that were refused.
    pub refused: u64,
    /// Valid batches that were rejected: there was no room, or the disk failed.
    pub turned_away: u64,
    /// Spans in the store.
    pub kept: u64,
    /// Accepted spans that were already in the store.
    pub duplicates: u64,
    /// Spans that were removed because of their age or for lack of room.
    pub expired: u64,
    /// Spans that have become unreadable.
    pub lost: u64,
    /// Spans in damaged files: answers may lack some of them.
    pub damaged: u64,
    /// Damaged places found when the store was opened, with or without loss of spans.
    pub damages: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Disk space in bytes.
    pub disk_bytes: u64,
    /// Part of `disk_bytes` taken by damaged files that were put aside.
    pub aside_bytes: u64,
    /// Damaged files that were removed for lack of room.
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
