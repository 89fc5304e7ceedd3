//! Thread that periodically derives the calls between services from the spans in memory. Start at
//! [`run`].

use crate::calls::link_table::{LinkResult, LinkTable};
use crate::shared::{HeadLinks, Shared};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time until the thread checks again whether a refresh is due.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum ratio of the pause after a refresh to the duration of the refresh. It bounds the CPU
/// share of the thread.
const REFRESH_FRACTION: u32 = 10;

/// Runs the thread: refreshes the calls of the spans in memory until the store closes.
pub(crate) fn run(shared: &Shared) {
    let mut next = Instant::now();
    loop {
        {
            let mut state = shared.memory.state();
            if state.is_closing {
                return;
            }
            state.wait_timeout(&shared.memory.work, POLL_INTERVAL);
            if state.is_closing {
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
    /// Derives the calls of the head (the spans that are in no file yet) again if the head has
    /// changed. Spans of the same requests in files are included.
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
