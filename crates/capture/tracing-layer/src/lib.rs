//! Records the spans and events of the `tracing` crate. A program only adds a [`layer`] to its
//! subscriber.
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(blkkin_tracing::layer());
//! tracing::subscriber::with_default(subscriber, || {
//!     let _span = tracing::info_span!("write", oid = "rb.1", bytes = 4096).entered();
//!     tracing::debug!(queue = 3, "dequeued");
//! });
//! ```
//!
//! Each callsite of a span or an event becomes an event type `PROVIDER:NAME`. The provider is the
//! target, with `.` for `::`. The name is the span's name, or the event's explicit name, or else
//! the event's source file and line. Rules select these types by name and level like all others.
//! While no channel wants an event, it costs only the check of `tracing` whether the callsite is
//! enabled.
//!
//! A span is recorded as one event when it closes; an event is recorded at once. The layer's own
//! fields come first, then those of the program. Fields without a value are omitted. A callsite has
//! a separate event type for each of its first seven combinations of field types; in events with
//! further combinations, the program's fields are strings, and empty without a value.
//!
//! ```text
//! span    trace_id trace_id_high span_id parent_span_id start duration
//! event   trace_id trace_id_high span_id        0 outside of all recorded spans
//! both    service_name port_no ip               next, with `layer_of` only
//! ```
//!
//! A request from another process continues in a span that [`with_parent`] makes a child of the
//! sender's span. [`traceparent`] is the header for requests to other processes.
//!
//! The crate is not on a registry yet, so `Cargo.toml` gives its path:
//!
//! ```toml
//! blkkin-tracing = { path = "../blkkin/crates/capture/tracing-layer" }
//! ```
//!
//! Observers outside of the program can read which span a thread has entered: its [current
//! span](blkkin_trace::current_span). If no channel wanted the entered span at its start, a wanted
//! span around it remains the current one. Channels that want `blkkin:run` record the periods in
//! which the thread showed its current spans.
//!
//! Messages of the `log` crate are recorded as `log:log event`, if the program installs
//! `tracing-log`, as `tracing-subscriber` does for a global subscriber.
//!
//! Levels become: `ERROR` err, `WARN` warning, `INFO` info, `DEBUG` debug_line, `TRACE` debug.

mod callsite;
mod current_span;
mod entered;
mod fields;
mod interest;
mod names;
mod remote;
mod spans;

pub use blkkin_trace::Endpoint;
pub use callsite::refused as callsites_refused;
pub use current_span::{current_context, traceparent};
pub use remote::{context_of, parse_traceparent, with_parent};

use blkkin_sys::monotonic_ns;
use blkkin_trace::{Incoming, SpanContext, SpanId, Timestamp, sample};
use callsite::Callsite;
use spans::{EnclosingSpan, OpenSpans, SpanData};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// Returns the layer, with a filter that hides unwanted spans and events from this layer alone. The
/// process's [sampler](sample::global) decides about a request whose span has no parent.
pub fn layer<S>() -> Filtered<Layer, WantedFilter, S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    Layer { spans: OpenSpans::new(), service: None }.with_filter(WantedFilter(()))
}

/// Returns a layer for a service: its spans and events carry the service's name and address. Spans
/// and events of a plain [`layer`] belong to the program as a whole.
pub fn layer_of<S>(service: Endpoint<'static>) -> Filtered<Layer, WantedFilter, S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    Layer { spans: OpenSpans::new(), service: Some(service) }.with_filter(WantedFilter(()))
}

/// Layer that records spans and events; returned by [`layer`] and [`layer_of`].
#[derive(Debug)]
pub struct Layer {
    spans: OpenSpans,
    service: Option<Endpoint<'static>>,
}

impl Layer {
    /// Returns the enclosing span of a new span or event: its parent `id`, or the span whose id
    /// `find` returns if the parent is not among the layer's open spans. Returns
    /// `EnclosingSpan::None` without a parent, or if neither is among them, and
    /// `EnclosingSpan::NotFollowed` if the span's request is not sampled.
    fn enclosing(&self, id: Option<&Id>, find: impl FnOnce() -> Option<Id>) -> EnclosingSpan {
        let Some(id) = id else { return EnclosingSpan::None };
        self.spans
            .enclosing(id)
            .or_else(|| find().and_then(|id| self.spans.enclosing(&id)))
            .unwrap_or(EnclosingSpan::None)
    }
}

/// Returns the context of a new span without a parent in this process; `None` if its request is not
/// sampled.
fn root() -> Option<SpanContext> {
    let parent = remote::parent();
    let decision = sample::global().decide(parent.as_ref(), monotonic_ns);
    decision.is_followed().then(|| match parent.as_ref().and_then(Incoming::context) {
        Some(parent) => SpanContext { decision, ..parent.child() },
        None => SpanContext::root(decision),
    })
}

/// Filter that hides spans and events that no channel wants. A callsite that is neither registered
/// nor in the table passes; the layer then checks its spans and events.
#[derive(Debug)]
pub struct WantedFilter(());

impl<S> Filter<S> for WantedFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        // A callsite that is not in the table yet is checked at its first event.
        callsite::find(metadata).is_none_or(Callsite::is_wanted)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match callsite::add(metadata).map(Callsite::decide) {
            Some(Some(true)) => Interest::always(),
            // No agent has connected yet, or this is a forked child without its rules.
            Some(None) => Interest::sometimes(),
            _ => Interest::never(),
        }
    }
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        interest::follow_rules(dispatch);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(callsite) = callsite::find_wanted(attributes.metadata()) else { return };
        let find = || Some(context.span(id)?.parent()?.id());
        let enclosing = match attributes.parent() {
            Some(parent) => self.enclosing(Some(parent), find),
            None if attributes.is_root() => EnclosingSpan::None,
            None => self.enclosing(context.current_span().id(), find),
        };
        let context = match enclosing {
            EnclosingSpan::Span(parent) => parent.child(),
            EnclosingSpan::None => match root() {
                Some(context) => context,
                None => return self.spans.insert(id, None),
            },
            EnclosingSpan::NotFollowed => return self.spans.insert(id, None),
        };
        let mut span = SpanData::new(callsite.fields_count());
        span.context = Some(context);
        span.callsite = Some(callsite);
        attributes.record(&mut span.values);
        // Measured last, so that the time to record the values is not part of the span.
        span.start = Timestamp::now();
        self.spans.insert(id, Some(span));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        let mut late = SpanData::new(record.len());
        record.record(&mut late.values);
        self.spans.record(id, &late.values);
        late.recycle();
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(callsite) = callsite::find_wanted(event.metadata()) else { return };
        let find = || Some(context.event_span(event)?.id());
        let enclosing = match event.parent() {
            Some(parent) => self.enclosing(Some(parent), find),
            None if event.is_root() => EnclosingSpan::None,
            None => self.enclosing(context.current_span().id(), find),
        };
        let ids = match enclosing {
            EnclosingSpan::NotFollowed => return,
            EnclosingSpan::None => [0; 3],
            EnclosingSpan::Span(SpanContext { trace_id, span_id, .. }) => {
                [trace_id.low(), trace_id.high(), span_id.number()]
            }
        };
        let mut span = SpanData::new(callsite.fields_count());
        event.record(&mut span.values);
        callsite.record(&span.values, ids, self.service.as_ref());
        span.recycle();
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        // If the span is not in the table, no channel wanted it at its start.
        if let Some(context) = self.spans.context(id) {
            entered::enter(id.into_u64(), context.as_ref());
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        entered::exit(id.into_u64());
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let Some(span) = self.spans.remove(&id) else { return };
        if let (Some(context), Some(callsite)) = (&span.context, span.callsite)
            && let Some((start, duration)) = span.start.elapsed()
        {
            let SpanContext { trace_id, span_id, parent_span_id, .. } = *context;
            let parent = parent_span_id.map_or(0, SpanId::number);
            let [low, high] = [trace_id.low(), trace_id.high()];
            let own = [low, high, span_id.number(), parent, start, duration];
            callsite.record(&span.values, own, self.service.as_ref());
        }
        span.recycle();
    }
}
