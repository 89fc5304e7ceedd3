//! Recording of spans; see [`super`].

use super::NBD;
use blkkin_trace::context::packed;
use blkkin_trace::{Decision, Endpoint, Incoming, Trace, sample};

pub(crate) use blkkin_trace::Span;

/// Starts the root span of a request from outside the chain.
#[inline]
pub(crate) fn root(name: &'static str) -> Span<'static> {
    Trace::root(name, &NBD, sample::global()).server_span()
}

/// Starts the server side of the span that the message carries.
#[inline]
pub(crate) fn server_span(
    name: &'static str,
    endpoint: &'static Endpoint<'static>,
    trace: &[u8; packed::SIZE],
) -> Span<'static> {
    match packed::read(trace) {
        Ok(Some(context)) => Trace::with_context(name, endpoint, &context),
        // Without a context, the request is not sampled: only the NBD server decides about
        // sampling.
        _ => {
            let not_followed = Incoming::Decision(Decision::No);
            Trace::receive(name, endpoint, Some(&not_followed), sample::global())
        }
    }
    .server_span()
}
