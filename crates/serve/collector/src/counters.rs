//! Counters of received messages and spans, by transport. Start at [`Counters`].

use blkkin_store::{DatedCounter, Interval};
use std::sync::atomic::{AtomicU64, Ordering};

/// Format family and protocol by which spans arrive.
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

/// Counters of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of messages: request bodies, or calls.
    pub messages: u64,
    /// Invalid messages of which no span was stored.
    pub messages_dropped: u64,
    /// Messages refused for lack of memory or space, or because the store failed. The sender is
    /// asked to retry.
    pub messages_turned_away: u64,
    /// Bytes of messages after decompression.
    pub bytes: u64,
    /// Number of accepted spans.
    pub spans: u64,
    /// Refused spans, if their number is known.
    pub spans_dropped: u64,
    /// Number of spans in the last message.
    pub message_spans: u64,
    /// Number of bytes in the last message.
    pub message_bytes: u64,
    /// First and last time that a message was dropped.
    pub messages_dropped_in: Option<Interval>,
    /// First and last time that a message was refused with a request to retry.
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

    /// Returns the name in metrics.
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

/// Atomic counters of a transport.
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

/// Adds to a counter. Relaxed is enough, as no other memory depends on the value.
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
