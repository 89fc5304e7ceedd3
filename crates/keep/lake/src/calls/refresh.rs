//! The thread that refreshes the calls of spans in memory. Start at [`run`].

use crate::calls::link_table::{LinkResult, LinkTable};
use crate::shared::{HeadLinks, Shared};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which the thread checks whether the head has changed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Ratio of the pause after a refresh to the time of the refresh, which bounds its CPU share.
const REFRESH_FRACTION: u32 = 10;

/// Refreshes the calls of spans in memory until the store closes; the body of the thread.
pub(crate) fn run(shared: &Shared) {
    let mut next = Instant::now();
    loop {
        {
            let state = shared.memory.state();
            if state.is_closing {
                return;
            }
            if state.wait_timeout(&shared.memory.work, POLL_INTERVAL).is_closing {
                return;
            }
        }
        if Instant::now() >= next {
            let started = Instant::now();
            shared.refresh_head_links();
            next = Instant::now() + started.elapsed() * REFRESH_FRACTION;
        }
    }
}

impl Shared {
    /// Links the spans in memory anew if the head has changed, together with the spans of the same
    /// requests in files.
    pub(crate) fn refresh_head_links(&self) {
        let (snapshot, added, written) = {
            let mut state = self.memory.state();
            (self.snapshot_of(&mut state), state.head.added, state.head.written)
        };
        {
            let links = self.head_links.lock();
            if (links.added, links.written) == (added, written) {
                return;
            }
        }
        let LinkResult { table, earlier, .. } = LinkTable::of(&snapshot.sorted(), &snapshot.files);
        let (links, earlier) = (Arc::new(table.counts()), Arc::new(earlier));
        *self.head_links.lock() = HeadLinks { links, earlier, added, written };
    }
}
