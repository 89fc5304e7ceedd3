//! Empty versions of the recording functions: the baseline for the cost of instrumentation.

use blkkin_trace::Endpoint;
use blkkin_trace::context::packed;
use std::marker::PhantomData;

/// Placeholder for a span, which records nothing.
#[derive(Debug)]
pub(crate) struct Span<'a>(PhantomData<&'a str>);

/// Does nothing on drop. The implementation exists because recorded spans have a `Drop`, too.
impl Drop for Span<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Returns a placeholder for a root span.
#[inline(always)]
pub(crate) fn root(_: &'static str) -> Span<'static> {
    Span(PhantomData)
}

/// Returns a placeholder for the server side of a span.
#[inline(always)]
pub(crate) fn server_span(
    _: &'static str,
    _: &'static Endpoint<'static>,
    _: &[u8; packed::SIZE],
) -> Span<'static> {
    Span(PhantomData)
}

/// Placeholder for the guard of an entered span.
#[derive(Debug)]
pub(crate) struct EnteredSpan<'s>(PhantomData<&'s ()>);

/// Does nothing on drop, like a placeholder for a span.
impl Drop for EnteredSpan<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl<'a> Span<'a> {
    #[inline(always)]
    pub(crate) fn child(&self, _: &'a str) -> Span<'a> {
        Span(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn trace(&self) -> Span<'a> {
        Span(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn enter(&self) -> EnteredSpan<'_> {
        EnteredSpan(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn span(self) -> Span<'a> {
        self
    }

    #[inline(always)]
    pub(crate) fn client_span(self) -> Span<'a> {
        self
    }

    #[inline(always)]
    pub(crate) fn keyval<V>(&self, _: &str, _: V) {}

    #[inline(always)]
    pub(crate) fn event(&self, _: &str) {}

    #[inline(always)]
    pub(crate) fn packed(&self) -> [u8; packed::SIZE] {
        [0; packed::SIZE]
    }

    #[inline(always)]
    pub(crate) fn is_followed(&self) -> bool {
        false
    }
}
