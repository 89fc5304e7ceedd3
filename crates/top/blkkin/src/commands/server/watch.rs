//! Thread that logs changes of the server's counters: refusals, damage, losses, and spans removed
//! by retention. Start at [`start`].
//!
//! The first event of a kind is logged within a second. Further events are summed up for a minute,
//! so that a client that is refused all the time does not fill the log.

use super::log::{Level, Log};
use blkkin_server::ServerState;
use blkkin_store::{Counters, SpanStore};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Interval between two readings of the counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two log lines of one alert.
const PAUSE: Duration = Duration::from_secs(60);

/// Values of all watched counters at one moment.
#[derive(Clone, Debug, Default)]
struct Sample {
    store: Counters,
    /// Number of messages that the collector or store temporarily refused. Their senders try again
    /// later.
    turned_away: u64,
    /// Number of messages of which no span was stored because they were invalid, of an unknown
    /// format, too large or late.
    dropped: u64,
    /// Reason of the store's last refusal; `None` if the store has accepted a batch since, or if
    /// the refusal is older than a minute.
    refusal: Option<String>,
}

/// Log line for one counter, written when the counter grows.
struct Alert {
    level: Level,
    count: fn(&Sample) -> u64,
    what: &'static str,
    /// Set if the line ends with the store's reason for refusing.
    has_reason: bool,
}

const ALERTS: [Alert; 7] = [
    Alert {
        level: Level::Error,
        count: |sample| sample.turned_away,
        what: "messages turned away, whose senders should try again",
        has_reason: true,
    },
    Alert {
        level: Level::Warn,
        count: |sample| sample.dropped,
        what: "messages refused, as something was wrong with them",
        has_reason: false,
    },
    Alert {
        level: Level::Warn,
        count: |sample| sample.store.refused,
        what: "spans refused, as something was wrong with them",
        has_reason: false,
    },
    Alert {
        level: Level::Info,
        count: |sample| sample.store.expired,
        what: "spans removed, as they were older than --keep or took more than --keep-bytes",
        has_reason: false,
    },
    Alert {
        level: Level::Error,
        count: |sample| sample.store.lost,
        what: "spans lost with files that cannot be read",
        has_reason: false,
    },
    Alert {
        level: Level::Error,
        count: |sample| sample.store.damaged,
        what: "spans in files of which something cannot be read: answers may be without them",
        has_reason: false,
    },
    Alert {
        level: Level::Error,
        count: |sample| sample.store.quarantined_removed,
        what: "damaged files removed, as there was no room to keep them",
        has_reason: false,
    },
];

/// Handle of the thread that samples the counters. Dropping it ends the thread.
pub(super) struct WatchThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread. It logs how far counters have grown beyond `before`.
pub(super) fn start(
    log: Log,
    store: Arc<dyn SpanStore>,
    conditions: ServerState,
    before: Counters,
) -> io::Result<WatchThread> {
    let (stop, stopped) = mpsc::channel();
    let sample = move || Sample {
        store: store.counters(),
        turned_away: conditions.turned_away(),
        dropped: conditions.dropped(),
        refusal: conditions.refusal(),
    };
    let mut watch = Watch::new(Sample { store: before, ..Sample::default() });
    let thread = Builder::new().name("watch".to_owned()).spawn(move || {
        let mut is_over = false;
        while !is_over {
            is_over = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
            // The last round ignores [`PAUSE`], so that every count is logged.
            let lines = watch.step(sample(), Instant::now(), is_over);
            lines.iter().for_each(|(level, line)| log.line(*level, line));
        }
    })?;
    Ok(WatchThread { stop: Some(stop), thread: Some(thread) })
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Watch {
    /// Counter value at the last log line of each alert (at first the initial value; lowered when
    /// the counter decreases), and the line's time; `None` before the first line.
    logged: [(u64, Option<Instant>); ALERTS.len()],
    refusal: Option<String>,
}

impl Watch {
    fn new(before: Sample) -> Watch {
        Watch { logged: ALERTS.map(|alert| ((alert.count)(&before), None)), refusal: None }
    }

    /// Returns log lines for counts that have grown since the last line of their alert, and a line
    /// when the store's refusal has ended. Unless `is_last` is set, counts within [`PAUSE`] of that
    /// line are left for later.
    fn step(&mut self, sample: Sample, now: Instant, is_last: bool) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        let refusal = sample.refusal.clone();
        for (alert, (logged, time)) in ALERTS.iter().zip(&mut self.logged) {
            let count = (alert.count)(&sample);
            let waits = time.is_some_and(|time| now.duration_since(time) < PAUSE) && !is_last;
            if count <= *logged || waits {
                // The number of damaged spans can also decrease.
                *logged = count.min(*logged);
                continue;
            }
            let mut line = format!("{} {}", count - *logged, alert.what);
            if let Some(why) = refusal.as_ref().filter(|_| alert.has_reason) {
                line = format!("{line}: {why}");
            }
            lines.push((alert.level, line));
            (*logged, *time) = (count, Some(now));
        }
        if self.refusal.is_some() && refusal.is_none() {
            lines.push((Level::Info, "the store takes batches again".to_owned()));
        }
        self.refusal = refusal;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(watch: &mut Watch, sample: Sample, now: Instant, expected: &[&str]) {
        let lines = watch.step(sample, now, false);
        let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_first_is_logged_at_once_and_more_are_gathered() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let expired = |expired| Sample {
            store: Counters { expired, ..Counters::default() },
            ..Sample::default()
        };
        let removed = |spans| {
            format!(
                "{spans} spans removed, as they were older than --keep or took more than --keep-bytes"
            )
        };
        let mut watch = Watch::new(expired(100));
        check(&mut watch, expired(100), at(0), &[]);
        check(&mut watch, expired(107), at(1), &[&removed(7)]);
        for second in 2..61 {
            check(&mut watch, expired(107 + second), at(second), &[]);
        }
        check(&mut watch, expired(200), at(61), &[&removed(93)]);
        check(&mut watch, expired(200), at(200), &[]);
        let last = watch.step(expired(201), at(201), true);
        assert_eq!(last, [(Level::Info, removed(1))]);
    }

    #[test]
    fn refusals_have_their_reason_and_their_end() {
        let now = Instant::now();
        let mut watch = Watch::new(Sample::default());
        let full = Sample {
            turned_away: 3,
            refusal: Some("no space left".to_owned()),
            ..Sample::default()
        };
        let line = "3 messages turned away, whose senders should try again: no space left";
        check(&mut watch, full.clone(), now, &[line]);
        check(&mut watch, full.clone(), now, &[]);
        let good = Sample { refusal: None, ..full };
        check(&mut watch, good.clone(), now, &["the store takes batches again"]);
        check(&mut watch, good, now, &[]);
    }
}
