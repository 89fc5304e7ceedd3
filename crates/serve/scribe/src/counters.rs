//! Counters of the daemon for `getCounters`. Counters that Scribe's own daemon has, too, have the
//! same names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one category, or of the daemon. Messages that were not queued count only for the
/// daemon; a reload resets only the counters of categories.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received_good: AtomicU64,
    pub(crate) received_bad: AtomicU64,
    pub(crate) received_blank: AtomicU64,
    pub(crate) denied_for_rate: AtomicU64,
    pub(crate) denied_for_queue_size: AtomicU64,
    pub(crate) denied_for_categories: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) requeue: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) bytes_lost: AtomicU64,
    pub(crate) ignored: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) too_large: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// Adds all non-zero counters to `all`, under `<category>:<name>`.
    pub(crate) fn add_to(&self, category: &str, all: &mut BTreeMap<String, i64>) {
        let named = [
            ("received good", &self.received_good),
            ("received bad", &self.received_bad),
            ("received blank category", &self.received_blank),
            ("denied for rate", &self.denied_for_rate),
            ("denied for queue size", &self.denied_for_queue_size),
            ("denied for number of categories", &self.denied_for_categories),
            ("retries", &self.retries),
            ("requeue", &self.requeue),
            ("lost", &self.lost),
            ("bytes lost", &self.bytes_lost),
            ("ignored", &self.ignored),
            ("sent", &self.sent),
            ("too large", &self.too_large),
            ("damaged in the journal", &self.damaged),
        ];
        for (name, counter) in named {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                all.insert(format!("{category}:{name}"), count);
            }
        }
    }
}
