//! The thread that finds the calls of spans in memory. Start at [`run`].

use crate::calls::link_table::{LinkResult, LinkTable};
use crate::shared::{HeadLinks, Shared};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often to look whether there is something new in memory.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Looking may take this part of the time.
const LOOKS_PART: u32 = 10;

/// Finds the links of what is in memory, until the store ends.
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
            next = Instant::now() + started.elapsed() * LOOKS_PART;
        }
    }
}

impl Shared {
    /// Finds the links of what is in no file again, and what files have of its requests, if that has changed.
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
