//! The same calls as of what records, with nothing behind them: what instrumentation costs is measured against this.

use blkkin_trace::Endpoint;
use blkkin_trace::context::packed;
use std::marker::PhantomData;

/// A span that is none.
#[derive(Debug)]
pub(crate) struct Span<'a>(PhantomData<&'a str>);

/// Others do something at their end.
impl Drop for Span<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Of a request as it arrives.
#[inline(always)]
pub(crate) fn root(_: &'static str) -> Span<'static> {
    Span(PhantomData)
}

/// Of a message that has come.
#[inline(always)]
pub(crate) fn arrived(
    _: &'static str,
    _: &'static Endpoint<'static>,
    _: &[u8; packed::SIZE],
) -> Span<'static> {
    Span(PhantomData)
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
