//! Counters of connections and denied requests, and latency histograms of requests. Start at
//! [`Counts`] and [`RequestLatencies`].

use blkkin_store::{DatedCounter, Interval};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Event that the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// A connection was accepted.
    Accepted,
    /// An `accept` call failed, mostly for lack of descriptors.
    AcceptsFailed,
    /// A connection got no slot, as all other connections were busy.
    NoSlot,
    /// A connection lost its slot to a new connection.
    Evicted,
    /// A connection was closed after the idle timeout.
    Idle,
    /// A connection came from an untrusted network.
    DeniedNetwork,
    /// A TLS handshake failed or timed out.
    HandshakesFailed,
    /// A request named another host.
    DeniedHost,
    /// A page of an origin that is not allowed sent a request that may change something.
    DeniedOrigin,
    /// A request had no token that permits it.
    DeniedToken,
    /// A query exceeded its time limit, which includes the wait for a slot, or was cancelled
    /// earlier because other queries waited.
    QueriesLate,
    /// An answer was refused for lack of memory.
    AnswersTurnedAway,
}

impl Count {
    /// All events, each with its metric name and help text, in the order of their discriminants.
    pub(crate) const ALL: [(Count, &'static str, &'static str); 12] = [
        (Count::Accepted, "connections_accepted", "Connections that came"),
        (
            Count::AcceptsFailed,
            "connections_failed",
            "Connections that could not be taken, mostly for want of descriptors",
        ),
        (Count::NoSlot, "connections_without_place", "Connections that found all places busy"),
        (Count::Evicted, "connections_made_room", "Connections that were closed for newer ones"),
        (Count::Idle, "connections_idle", "Connections that were closed as nothing happened"),
        (
            Count::DeniedNetwork,
            "connections_denied_network",
            "Connections from networks that are not trusted",
        ),
        (
            Count::HandshakesFailed,
            "handshakes_failed",
            "Connections that did not come to terms on TLS",
        ),
        (Count::DeniedHost, "requests_denied_host", "Requests that were sent to another host"),
        (Count::DeniedOrigin, "requests_denied_origin", "Requests of other sites' pages"),
        (Count::DeniedToken, "requests_denied_token", "Requests without a token that permits them"),
        (Count::QueriesLate, "questions_late", "Questions that took too long"),
        (Count::AnswersTurnedAway, "answers_turned_away", "Answers for which there was no room"),
    ];

    /// Returns whether the event means that a client was denied service.
    pub(crate) const fn is_loss(self) -> bool {
        !matches!(self, Count::Accepted | Count::Evicted | Count::Idle)
    }
}

/// Counter of each event, with the times of the first and the last occurrence.
#[derive(Debug, Default)]
pub(crate) struct Counts([DatedCounter; Count::ALL.len()]);

impl Counts {
    pub(crate) fn add(&self, count: Count) {
        self.0[count as usize].add(1);
    }

    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0[count as usize].get()
    }

    pub(crate) fn interval(&self, count: Count) -> Option<Interval> {
        self.0[count as usize].interval()
    }
}

/// Upper bounds of the buckets of a latency histogram, in seconds.
pub(crate) const BOUNDS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Latency histograms of requests, one for each class of requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLatencies(Mutex<BTreeMap<RequestClass, LatencyHistogram>>);

/// Class of requests: method, status and path template. Clients cannot choose these values freely,
/// so the number of classes is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestClass {
    pub(crate) method: &'static str,
    pub(crate) status: u16,
    pub(crate) uri: &'static str,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencyHistogram {
    pub(crate) buckets: [u64; BOUNDS.len()],
    pub(crate) count: u64,
    pub(crate) sum: Duration,
}

impl RequestLatencies {
    pub(crate) fn add(&self, kind: RequestClass, time: Duration) {
        let mut all = self.0.lock();
        let times = all.entry(kind).or_default();
        times.count += 1;
        times.sum += time;
        let seconds = time.as_secs_f64();
        for (bucket, bound) in times.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    pub(crate) fn read(&self) -> BTreeMap<RequestClass, LatencyHistogram> {
        self.0.lock().clone()
    }
}
