//! The event types that the program has reached, and for each type the decision which channels
//! record its events.
//!
//! A type is registered when the program first reaches its instrumentation point while events can
//! be wanted, on any thread and possibly in a signal handler. So registration allocates nothing and
//! never waits for a lock. The rules in force decide at once which channels record the type, so
//! that its first event is recorded too.
//!
//! The table of types is in `types`, and the rules of all channels are in `rcu`. `decision` matches
//! types with rules.
//!
//! # Why no type is missed
//!
//! A type is in the table once its id is stored, after all its other data. A thread that stores the
//! id, or finds the id of a type that is still undecided, then reads the [catalog](crate::daemon)
//! and the rules. A thread that installs a catalog or changes the rules then reads all types. Both
//! sides have a sequentially consistent fence between their store and their reads, so at least one
//! of the two sees the other's store. Both sides write the type into the catalog before they allow
//! its events. Writing a type twice stores the same bytes at the same offset. Deciding twice is
//! harmless too: a change of rules stores its decision, while the other side only replaces
//! "undecided" (compare-and-swap).

pub(crate) mod channel_rules;
pub(crate) mod decision;
pub(crate) mod rcu;
pub(crate) mod types;

pub use crate::daemon::bell::CALL;
use crate::daemon::{self, state};
pub use blkkin_control::{EventRule, Levels};
pub use decision::{is_quiet, is_undecided, is_wanted, on_change, on_undecided, set_rules};
pub use types::{TYPES_MAX, type_of, types, types_refused};

/// Tries to decide which events are wanted. Called by an event while [`is_undecided`] is true.
/// Starts the thread, which connects to the agent that has requested a connection; in a forked
/// child, waits for the rules if the parent had rules. Returns true if events remain undecided.
/// Costs two loads while [`is_quiet`] is true.
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
