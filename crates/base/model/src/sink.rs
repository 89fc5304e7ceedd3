//! Who takes spans, one after the other.

use crate::owned::Span;
use crate::span::SpanRef;
use std::ops::ControlFlow;

/// Takes spans as they are decoded.
pub trait SpanSink {
    /// Takes a span, which is gone when this returns. Who breaks has not taken it, and wants no
    /// more.
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()>;
}

/// Keeps them.
impl SpanSink for Vec<Span> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        self.push(span.to_owned());
        ControlFlow::Continue(())
    }
}

/// Hands them on.
impl<S: SpanSink + ?Sized> SpanSink for &mut S {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        (**self).span(span)
    }
}

/// Counts them, and keeps none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(
    /// How many there were.
    pub u64,
);

impl SpanSink for Count {
    fn span(&mut self, _: &SpanRef<'_>) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}
