//! Consumers to which decoders pass spans.

use crate::owned_span::Span;
use crate::span::SpanRef;
use std::ops::ControlFlow;

/// Consumer to which a decoder passes spans.
pub trait SpanSink {
    /// Consumes a span, which is valid only during the call. A sink that returns `Break` has not
    /// consumed the span and accepts no more.
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()>;
}

/// Sink that stores a copy of each span.
impl SpanSink for Vec<Span> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        self.push(span.to_owned());
        ControlFlow::Continue(())
    }
}

/// Passes spans on to the borrowed sink.
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
