//! Has `tracing` ask again which callsites are enabled when somebody wants other events than before.

use crate::callsite;
use blkkin_trace::{daemon, registry};
use std::sync::{Mutex, Once, PoisonError};
use tracing_core::dispatcher::{self, Dispatch, WeakDispatch};

/// The subscribers that have our layer.
static DISPATCHES: Mutex<Vec<WeakDispatch>> = Mutex::new(Vec::new());

pub(crate) fn follow_rules(dispatch: &Dispatch) {
    static ONCE: Once = Once::new();
    let mut dispatches = DISPATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    dispatches.retain(|dispatch| dispatch.upgrade().is_some());
    dispatches.push(dispatch.downgrade());
    drop(dispatches);
    ONCE.call_once(|| {
        registry::on_change(ask_again);
        // `tracing` caches which callsites are off, also for children, and never calls the Layer for them.
        daemon::begin_children_at_once();
    });
}

/// As long as there was only one subscriber, `tracing` asks none but this thread's, and takes it that
/// there is none if the only one is another thread's: so it has to be this thread's, too. Where there
/// are several, all are asked.
fn ask_again() {
    let dispatches = DISPATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let one = dispatches.iter().find_map(WeakDispatch::upgrade);
    drop(dispatches);
    if let Some(one) = one {
        dispatcher::with_default(&one, tracing_core::callsite::rebuild_interest_cache);
    }
    // Also of those that `tracing` does not know.
    callsite::decide_all();
}
