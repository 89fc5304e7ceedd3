//! Counters of each transport. Start at [`Counters`].

use blkkin_store::{DatedCounter, Interval};
use std::sync::atomic::{AtomicU64, Ordering};

/// Protocol and transport by which spans arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Zipkin's formats over HTTP.
    Http,
    /// Zipkin's service over gRPC.
    Grpc,
    /// Zipkin's spans over Scribe.
    Scribe,
    /// OpenTelemetry's protocol over HTTP.
    OtlpHttp,
    /// OpenTelemetry's protocol over gRPC.
    OtlpGrpc,
}

/// Counters of one transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages: request bodies, or calls.
    pub messages: u64,
    /// Messages of which no span was stored, as they were invalid.
    pub messages_dropped: u64,
    /// Messages refused for lack of room, or as the store failed. The sender was asked to try
    /// again.
    pub messages_turned_away: u64,
    /// Bytes of messages after decompression.
    pub bytes: u64,
    /// Accepted spans.
    pub spans: u64,
    /// Refused spans, as far as they could be counted.
    pub spans_dropped: u64,
    /// Number of spans in the last message.
    pub message_spans: u64,
    /// Number of bytes in the last message.
    pub message_bytes: u64,
    /// First and last time that a message was dropped.
    pub messages_dropped_in: Option<Interval>,
    /// First and last time that a message was turned away.
    pub messages_turned_away_in: Option<Interval>,
    /// First and last time that a span was dropped.
    pub spans_dropped_in: Option<Interval>,
}

impl Transport {
    /// All transports.
    pub const ALL: [Transport; 5] = [
        Transport::Http,
        Transport::Grpc,
        Transport::Scribe,
        Transport::OtlpHttp,
        Transport::OtlpGrpc,
    ];

    /// Name in metrics.
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

/// Atomic counters of one transport.
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

/// Adds to a counter. Relaxed is enough, as nothing else depends on the value.
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
