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
    /// Sessions of relays, whose requests the server's process assembles itself.
    Relay,
}

/// Counters of the messages and spans that arrived by one transport since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received messages. A message is the body of an HTTP request or gRPC call, or a Scribe call.
    /// Accepted Scribe calls without a readable span are not counted.
    pub messages: u64,
    /// Messages of which no span was stored because they were invalid, of an unknown format, too
    /// large or not received in time.
    pub messages_dropped: u64,
    /// Messages refused for lack of memory or space, or because the store failed. The answer
    /// requested a retry.
    pub messages_turned_away: u64,
    /// Total size of the messages that the store has decoded, after decompression, in bytes.
    pub bytes: u64,
    /// Spans that the store accepted.
    pub spans: u64,
    /// Refused spans. A message that cannot be decoded to its end adds one for all further spans,
    /// as their number is unknown; a message that is refused before decoding adds none.
    pub spans_dropped: u64,
    /// Number of accepted and refused spans in the message that the store decoded last.
    pub message_spans: u64,
    /// Size of that message after decompression, in bytes.
    pub message_bytes: u64,
    /// First and last time at which [`Self::messages_dropped`] grew; `None` if it is 0.
    pub messages_dropped_in: Option<Interval>,
    /// First and last time at which [`Self::messages_turned_away`] grew; `None` if it is 0.
    pub messages_turned_away_in: Option<Interval>,
    /// First and last time at which [`Self::spans_dropped`] grew; `None` if it is 0.
    pub spans_dropped_in: Option<Interval>,
}

impl Transport {
    /// All transports, in the order of their discriminants.
    pub const ALL: [Transport; 6] = [
        Transport::Http,
        Transport::Grpc,
        Transport::Scribe,
        Transport::OtlpHttp,
        Transport::OtlpGrpc,
        Transport::Relay,
    ];

    /// Returns the transport's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Grpc => "grpc",
            Transport::Scribe => "scribe",
            Transport::OtlpHttp => "otlp-http",
            Transport::OtlpGrpc => "otlp-grpc",
            Transport::Relay => "relay",
        }
    }
}

/// Counters of one transport, updated by all threads.
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

/// Adds `count` to a counter. Relaxed is enough, as no other memory depends on the value.
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
