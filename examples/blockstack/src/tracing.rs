//! What the roles in Rust record, and how a request's span travels with messages.
//!
//! Who asks another role begins a client's span and sends its ids along; who is asked records the server's half of
//! the same span, and whatever it causes is a child of that. A half is one event, at its end. A request that
//! is not followed travels with zeros, and costs the other roles a comparison.

use crate::message::Kind;
use blkkin_trace::context::packed;
use blkkin_trace::{Decision, Endpoint, Incoming, Span, Trace, sample};

/// Services that there is one of.
pub(crate) static NBD: Endpoint<'static> = Endpoint::named("nbd");
pub(crate) static COMPOSER: Endpoint<'static> = Endpoint::named("composer");

/// Of a request as it arrives from outside: the root of all that it causes.
#[inline]
pub(crate) fn root(name: &'static str) -> Span<'static> {
    Trace::root(name, &NBD, sample::global()).server_span()
}

/// The server's half of the span that a message came with.
#[inline]
pub(crate) fn arrived(
    name: &'static str,
    endpoint: &'static Endpoint<'static>,
    trace: &[u8; packed::SIZE],
) -> Span<'static> {
    match packed::read(trace) {
        Ok(Some(context)) => Trace::with_context(name, endpoint, &context),
        // Nobody else decides.
        _ => {
            let not_followed = Incoming::Decision(Decision::No);
            Trace::receive(name, endpoint, Some(&not_followed), sample::global())
        }
    }
    .server_span()
}

/// What the NBD server asks the composer for.
pub(crate) fn volume_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "volume read",
        Kind::Write => "volume write",
        Kind::Flush => "volume flush",
        Kind::Zero => "volume zero",
        Kind::List => "volume list",
    }
}

/// What the composer asks the mapper for.
pub(crate) fn object_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "object read",
        Kind::Write => "object write",
        Kind::Flush => "object flush",
        Kind::Zero => "object zero",
        Kind::List => "object list",
    }
}

/// What the mapper asks stores for.
pub(crate) fn copy_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "copy read",
        Kind::Write => "copy write",
        Kind::Flush => "copy flush",
        Kind::Zero => "copy zero",
        Kind::List => "copy list",
    }
}
