//! Spans recorded by the roles in Rust, and their propagation with messages.
//!
//! A caller starts a client span and sends its ids with the message. The callee records the server
//! side of the same span, and its own calls are children of that span. Each side is one event,
//! recorded at its end. The messages of a request that is not sampled carry zeros instead of ids,
//! and each of its spans costs a role only a few branches.

#[cfg(not(feature = "untraced"))]
mod traced;
#[cfg(feature = "untraced")]
mod untraced;

use crate::message::Kind;
use blkkin_trace::Endpoint;

#[cfg(not(feature = "untraced"))]
pub(crate) use traced::{Span, root, server_span};
#[cfg(feature = "untraced")]
pub(crate) use untraced::{Span, root, server_span};

/// Endpoint in the spans of the NBD server; [`COMPOSER`] is the composer's. Each of the two roles
/// is a single process, so its endpoint is a constant.
#[cfg_attr(feature = "untraced", allow(dead_code, reason = "only roots say it"))]
pub(crate) static NBD: Endpoint<'static> = Endpoint::named("nbd");
pub(crate) static COMPOSER: Endpoint<'static> = Endpoint::named("composer");

/// Returns the span name of an operation on a volume in memory.
pub(crate) fn memory_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "memory read",
        Kind::Write => "memory write",
        Kind::Flush => "memory flush",
        Kind::Zero => "memory zero",
        Kind::List => "memory list",
    }
}

/// Returns the span name of the NBD server's call to the composer.
pub(crate) fn volume_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "volume read",
        Kind::Write => "volume write",
        Kind::Flush => "volume flush",
        Kind::Zero => "volume zero",
        Kind::List => "volume list",
    }
}

/// Returns the span name of the composer's call to the mapper.
pub(crate) fn object_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "object read",
        Kind::Write => "object write",
        Kind::Flush => "object flush",
        Kind::Zero => "object zero",
        Kind::List => "object list",
    }
}

/// Returns the span name of the mapper's call to a store.
pub(crate) fn copy_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "copy read",
        Kind::Write => "copy write",
        Kind::Flush => "copy flush",
        Kind::Zero => "copy zero",
        Kind::List => "copy list",
    }
}
