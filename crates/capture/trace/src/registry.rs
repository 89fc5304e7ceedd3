//! All kinds of events that the program is known to have, and which channels want which.
//!
//! A type becomes known when its place in the program is first come by, on whatever thread, maybe in a
//! signal handler: so adding one takes no lock that it would wait for and allocates nothing. Who wants
//! its events is then decided by the rules that are in force, at once, so that the first event counts.
//!
//! # Why no type is missed
//!
//! A type is there once it has its id, which is stored when all else of it is. Whoever gives it one, or
//! finds one there before anybody has decided, then looks at the [catalog](crate::daemon) and at the
//! rules; whoever makes a catalog, or changes the rules, then looks at all types. Between what either
//! did and what it looks at is a sequentially consistent fence, so at least one of the two sees the
//! other. Both tell the type before they let anybody record its events. Telling a type twice writes the
//! same bytes to the same place. Deciding twice does no harm either: the one who changes rules stores,
//! the others only replace that nobody has decided.

pub(crate) mod channel_rules;
pub(crate) mod decision;
pub(crate) mod rcu;
pub(crate) mod types;

pub use crate::daemon::bell::CALL;
use crate::daemon::{self, state};
pub use blkkin_control::{EventRule, Levels};
pub use decision::{is_quiet, is_undecided, is_wanted, on_change, on_undecided, set_rules};
pub use types::{TYPES_MAX, type_of, types, types_refused};

/// To be called with an event, not ahead of it, while it [is undecided](is_undecided) who wants it: finds out
/// whether there is a daemon by now, which may take the time that a child waits for it. Whether it is still
/// undecided. Costs next to nothing as long as no daemon has come.
#[inline]
pub fn stays_undecided() -> bool {
    is_quiet() || connect_if_called()
}

#[cold]
#[inline(never)]
fn connect_if_called() -> bool {
    if state::is_undecided() || state::is_deciding() {
        daemon::start_for_event();
    }
    state::is_undecided()
}
