//! Consumers to which decoders pass spans.

use crate::owned_span::Span;
use crate::span::SpanRef;
use std::ops::ControlFlow;

/// Consumer to which a decoder passes spans.
pub trait SpanSink {
    /// Consumes a span, which is valid only during the call. Returns `ControlFlow::Break` if the
    /// sink has not consumed the span and accepts no more spans.
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()>;
}

/// Sink that appends an owned copy of each span.
impl SpanSink for Vec<Span> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        self.push(span.to_owned());
        ControlFlow::Continue(())
    }
}

/// Sink that passes all spans to the borrowed sink.
impl<S: SpanSink + ?Sized> SpanSink for &mut S {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        (**self).span(span)
    }
}

/// Sink that only counts the spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(
    /// Number of spans received so far.
    pub u64,
);

impl SpanSink for Count {
    fn span(&mut self, _: &SpanRef<'_>) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}
