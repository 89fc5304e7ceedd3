//! Requests to other processes: the context of this thread's current span, and the header that
//! carries it.

use crate::Layer;
use crate::spans::EnclosingSpan;
use blkkin_trace::context::{Text, w3c};
use blkkin_trace::{Decision, SpanContext};
use tracing_core::dispatcher;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

/// Returns the context of the innermost span that a channel wanted at its start: this thread's
/// current span, or a span around it. Returns `None` without such a span, or if the subscriber has
/// no [`Layer`]. If the request is not sampled, each call returns a context with that decision and
/// new ids.
pub fn current_context() -> Option<SpanContext> {
    dispatcher::get_default(|dispatch| {
        let layer = dispatch.downcast_ref::<Layer>()?;
        let current = dispatch.current_span();
        let id = current.id()?;
        let around = || {
            let registry = dispatch.downcast_ref::<Registry>()?;
            registry.span(id)?.scope().skip(1).find_map(|span| layer.spans.enclosing(&span.id()))
        };
        match layer.spans.enclosing(id).or_else(around)? {
            EnclosingSpan::Span(context) => Some(context),
            EnclosingSpan::NotFollowed => Some(SpanContext::root_wide(Decision::No)),
            EnclosingSpan::None => None,
        }
    })
}

/// Returns the header `traceparent` for requests that this thread's current span makes; see
/// [`current_context`].
pub fn traceparent() -> Option<Text<55>> {
    current_context().map(|context| w3c::write(&context))
}
