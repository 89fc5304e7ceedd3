//! Makes `tracing` refresh its cache of enabled callsites after a change of the rules.

use crate::callsite;
use blkkin_trace::{daemon, registry};
use std::sync::{Mutex, Once, PoisonError};
use tracing_core::dispatcher::{self, Dispatch, WeakDispatch};

/// Subscribers that include a [`Layer`](crate::Layer).
static DISPATCHES: Mutex<Vec<WeakDispatch>> = Mutex::new(Vec::new());

pub(crate) fn follow_rules(dispatch: &Dispatch) {
    static ONCE: Once = Once::new();
    let mut dispatches = DISPATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    dispatches.retain(|dispatch| dispatch.upgrade().is_some());
    dispatches.push(dispatch.downgrade());
    drop(dispatches);
    ONCE.call_once(|| {
        registry::on_change(refresh_interest);
        // `tracing` caches disabled callsites, also in forked children, and never calls the layer
        // for them.
        daemon::start_children_at_fork();
    });
}

/// Makes `tracing` rebuild its cache, and decides all callsites again. While there is only one
/// subscriber, `tracing` queries this thread's default subscriber, and so would miss a subscriber
/// that is set only on another thread. So the subscriber is set for this thread during the rebuild.
/// If there are several subscribers, `tracing` queries all.
fn refresh_interest() {
    let dispatches = DISPATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let one = dispatches.iter().find_map(WeakDispatch::upgrade);
    drop(dispatches);
    if let Some(one) = one {
        dispatcher::with_default(&one, tracing_core::callsite::rebuild_interest_cache);
    }
    // Includes callsites that are not registered with `tracing`.
    callsite::decide_all();
}
