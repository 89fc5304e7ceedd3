//! The trait. Start at [`SpanStore`].

use crate::{
    Area, Batch, Condition, Difference, Done, Error, Heat, Interval, Latency, Link, Page, Query,
    Window,
};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use std::ops::ControlFlow;

/// Keeps spans, and finds them. All can be called from any thread, and none waits for another one's question.
///
/// A span that is sent again is kept once: two are the same if all that they say is. Services and names are compared
/// without regard to the case of ASCII letters wherever they are asked for, and are given as they came.
pub trait SpanStore: Send + Sync {
    /// Takes a batch. Reads it before it returns, and calls `done` when what is taken is durable and can be found, or
    /// cannot be taken.
    fn accept(&self, batch: Batch<'_>, done: Done);

    /// Hands over the spans of all requests whose ids have this lower half, each once, in order of
    /// id and then of [`compare`](crate::compare), until `each` breaks off. However many there are,
    /// they are not held at once.
    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// The spans of a request, in order of start, those without one first; empty if none is known.
    fn trace(&self, id: TraceId) -> Result<Vec<Span>, Error> {
        let mut spans = self.traces_of_low(id.low())?;
        spans.retain(|span| span.trace_id == id);
        Ok(spans)
    }

    /// The spans of all requests whose ids have this lower half, whatever the upper one is.
    fn traces_of_low(&self, low: u64) -> Result<Vec<Span>, Error> {
        let mut spans = Vec::new();
        self.each_span(low, &mut |span| {
            spans.push(span.to_owned());
            ControlFlow::Continue(())
        })?;
        Ok(spans)
    }

    /// Hands over the spans of all requests whose ids have this lower half, or those that have an id of a span too, one
    /// after the other and in whatever order, however many there are. A span that was sent again may come again.
    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error>;

    /// Requests.
    fn search(&self, query: &Query) -> Result<Page, Error>;

    /// The services that have recorded spans, in order.
    fn services(&self) -> Result<Vec<String>, Error>;

    /// The names of a service's spans, in order.
    fn span_names(&self, service: &str) -> Result<Vec<String>, Error>;

    /// The services that a service's spans name as the other end, in order.
    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error>;

    /// The keys of tags, in order.
    fn tag_keys(&self) -> Result<Vec<TagField>, Error>;

    /// Values of a tag as text, in order; at most `limit`.
    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// Who calls whom, of requests that began in the window, in order of parent and child. What came in the last
    /// seconds may be missing, and the window may be taken to whole minutes.
    fn links(&self, window: Window) -> Result<Vec<Link>, Error>;

    /// How long the spans take that meet the condition, of requests that began in the window. Where very many spans
    /// took about as long as a bound in the condition, it may be taken as exactly as [`Durations`] are.
    ///
    /// [`Durations`]: crate::Durations
    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error>;

    /// When the first of all spans started, and the last; none if no span has a start.
    fn starts(&self) -> Result<Option<Window>, Error>;

    /// Counts the spans that meet the condition, started in the window of the cells and have a duration.
    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error>;

    /// What those spans say that are in a box, and all others that meet the condition, started in the window and have a
    /// duration.
    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error>;

    /// What has been taken, is kept and is gone.
    fn counters(&self) -> Counters;

    /// Whether what is taken outlives the process.
    fn is_durable(&self) -> bool;
}

/// The key of a tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagField {
    /// The key.
    pub key: String,
    /// How many spans have it, about.
    pub spans: u64,
}

/// What has been taken, is kept and is gone, in spans if it does not say otherwise. Of spans, always:
/// `accepted = kept + duplicates + expired + lost`, but for spans that are sent again later, which may count as kept
/// until they are met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches that were accepted.
    pub batches: u64,
    /// Accepted since the store was made.
    pub accepted: u64,
    /// Refused, as there was something wrong with them.
    pub refused: u64,
    /// Batches that were not taken though nothing was wrong with them: no room, or the disk failed.
    pub turned_away: u64,
    /// There are so many.
    pub kept: u64,
    /// Were there before.
    pub duplicates: u64,
    /// Removed as they were too old, or there was no room for so many.
    pub expired: u64,
    /// Could not be read any more.
    pub lost: u64,
    /// Kept together with something that cannot be read: answers may be without some of them.
    pub damaged: u64,
    /// Places where something was found damaged when the store was opened, which may have cost spans or not.
    pub damages: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Of these, files that were found damaged, and are kept aside.
    pub aside_bytes: u64,
    /// Such files that had to go, as there was no room for them.
    pub aside_removed: u64,
    /// When it was that something was not taken, or went.
    pub times: LossTimes,
}

/// When what is counted happened, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossTimes {
    /// Of [`Counters::refused`].
    pub refused: Option<Interval>,
    /// Of [`Counters::turned_away`].
    pub turned_away: Option<Interval>,
    /// Of [`Counters::expired`].
    pub expired: Option<Interval>,
    /// Of [`Counters::lost`]: when it was found out.
    pub lost: Option<Interval>,
    /// Of [`Counters::damages`]: the same.
    pub damages: Option<Interval>,
}
