//! What came on which way. Start at [`Counters`].

use blkkin_store::{DatedCounter, Interval};
use std::sync::atomic::{AtomicU64, Ordering};

/// A way on which spans come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Zipkin's, over HTTP.
    Http,
    /// Zipkin's, over gRPC.
    Grpc,
    /// Zipkin's, over Scribe.
    Scribe,
    /// OpenTelemetry's, over HTTP.
    OtlpHttp,
    /// OpenTelemetry's, over gRPC.
    OtlpGrpc,
}

/// What came on one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages: a body each, or a call.
    pub messages: u64,
    /// Of them, those of which nothing was taken, as there was something wrong with them.
    pub messages_dropped: u64,
    /// Of them, those that were not taken for lack of room, or as the store could not. Who sent them was told.
    pub messages_turned_away: u64,
    /// Unpacked.
    pub bytes: u64,
    /// Spans that were taken.
    pub spans: u64,
    /// Spans that were refused, as far as they could be counted.
    pub spans_dropped: u64,
    /// Spans of the last message.
    pub message_spans: u64,
    /// Bytes of the last message.
    pub message_bytes: u64,
    /// When messages were dropped.
    pub messages_dropped_in: Option<Interval>,
    /// When messages were turned away.
    pub messages_turned_away_in: Option<Interval>,
    /// When spans were dropped.
    pub spans_dropped_in: Option<Interval>,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 5] = [
        Transport::Http,
        Transport::Grpc,
        Transport::Scribe,
        Transport::OtlpHttp,
        Transport::OtlpGrpc,
    ];

    /// A word for it, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Grpc => "grpc",
            Transport::Scribe => "scribe",
            Transport::OtlpHttp => "otlp-http",
            Transport::OtlpGrpc => "otlp-grpc",
        }
    }
}

/// The counters of one way, which all threads add to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) messages: AtomicU64,
    pub(crate) messages_dropped: DatedCounter,
    pub(crate) messages_turned_away: DatedCounter,
    pub(crate) bytes: AtomicU64,
    pub(crate) spans: AtomicU64,
    pub(crate) spans_dropped: DatedCounter,
    pub(crate) message_spans: AtomicU64,
    pub(crate) message_bytes: AtomicU64,
}

/// Adds to one. Nothing else depends on these numbers.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Tally {
    pub(crate) fn read(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            messages: read(&self.messages),
            messages_dropped: self.messages_dropped.get(),
            messages_turned_away: self.messages_turned_away.get(),
            bytes: read(&self.bytes),
            spans: read(&self.spans),
            spans_dropped: self.spans_dropped.get(),
            message_spans: read(&self.message_spans),
            message_bytes: read(&self.message_bytes),
            messages_dropped_in: self.messages_dropped.interval(),
            messages_turned_away_in: self.messages_turned_away.interval(),
            spans_dropped_in: self.spans_dropped.interval(),
        }
    }
}
