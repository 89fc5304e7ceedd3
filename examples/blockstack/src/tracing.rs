//! What the roles in Rust record, and how a request's span travels with messages.
//!
//! Who asks another role begins a client's span and sends its ids along; who is asked records the server's half of
//! the same span, and whatever it causes is a child of that. A half is one event, at its end. A request that
//! is not followed travels with zeros, and costs the other roles a comparison.

#[cfg(not(feature = "untraced"))]
mod traced;
#[cfg(feature = "untraced")]
mod untraced;

use crate::message::Kind;
use blkkin_trace::Endpoint;

#[cfg(not(feature = "untraced"))]
pub(crate) use traced::{Span, arrived, root};
#[cfg(feature = "untraced")]
pub(crate) use untraced::{Span, arrived, root};

/// Services that there is one of.
#[cfg_attr(feature = "untraced", allow(dead_code, reason = "only roots say it"))]
pub(crate) static NBD: Endpoint<'static> = Endpoint::named("nbd");
pub(crate) static COMPOSER: Endpoint<'static> = Endpoint::named("composer");

/// What the NBD server does with a volume in its memory.
pub(crate) fn memory_call(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "memory read",
        Kind::Write => "memory write",
        Kind::Flush => "memory flush",
        Kind::Zero => "memory zero",
        Kind::List => "memory list",
    }
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
