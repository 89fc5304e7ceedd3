//! Statistics of all traces, merged from all threads.

use super::timeline::Timeline;
use blkkin_ctf::schema::{Clock, ClockOrigin, EnvValue, Uuid, Version};
use blkkin_reader::LossKind;
use std::path::PathBuf;

/// Statistics of all traces, streams and event types, merged from all threads.
#[derive(Debug, Default)]
pub struct Collection {
    /// Traces in the order in which they were opened.
    pub traces: Vec<TraceInfo>,
    /// Streams of all traces.
    pub streams: Vec<StreamInfo>,
    /// Event types with at least one event, merged by name and log level, in descending order of
    /// their counts.
    pub events: Vec<EventInfo>,
    /// Earliest losses, in order of their begins; losses with an unknown begin come first.
    pub losses: Vec<LossInfo>,
    /// Number of losses that are not in `losses`.
    pub losses_left_out: u64,
    /// Histogram of events over time, with the times of losses.
    pub timeline: Timeline,
    /// Set if only selected events are counted. A packet, with the losses before it, then counts
    /// only if it has a selected event.
    pub selected: bool,
    /// Origin of relative times in nanoseconds, the same as for `--begin +1s`; `None` means the
    /// earliest time of packets and events.
    pub origin: Option<i64>,
}

/// Name, directory and metadata of a trace.
#[derive(Debug)]
pub struct TraceInfo {
    /// Name that babeltrace2 gives the trace.
    pub name: String,
    /// Directory of the trace; the first one if the trace has several.
    pub path: PathBuf,
    /// UUID in the trace's metadata; `None` if it has none.
    pub uuid: Option<Uuid>,
    /// CTF version of the trace.
    pub version: Version,
    /// Environment of the trace: keys and values.
    pub env: Vec<(String, EnvValue)>,
    /// Clocks that the metadata declares.
    pub clocks: Vec<Clock>,
}

/// Identity and totals of a stream.
#[derive(Debug)]
pub struct StreamInfo {
    /// Index of the stream's trace in [`Collection::traces`].
    pub trace: usize,
    /// Path of the stream's first file.
    pub file: String,
    /// Id of the stream class in the metadata.
    pub class_id: u64,
    /// Id of the stream within its class; `None` if its packets have none.
    pub instance: Option<u64>,
    /// CPU that the stream's packets name; `None` if they name none or several. Only packets with
    /// counted events are examined.
    pub cpu: Option<u64>,
    /// Events, packets, bytes and losses of the stream.
    pub counts: Counts,
}

/// Totals of packets, events and losses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of events, of only the selected ones if [`Collection::selected`] is set.
    pub events: u64,
    /// Number of packets, of only those with selected events if [`Collection::selected`] is set.
    pub packets: u64,
    /// Total size of the packets with padding, in bytes.
    pub bytes: u64,
    /// Total size of the packets without padding, in bytes.
    pub content_bytes: u64,
    /// Number of events that the tracer discarded.
    pub events_lost: u64,
    /// Number of event losses whose size is unknown.
    pub events_lost_unknown: u64,
    /// Number of packets that are missing according to the sequence numbers.
    pub packets_lost: u64,
    /// Number of packet losses whose size is unknown.
    pub packets_lost_unknown: u64,
    /// First and last time of packets and events, both inclusive, in nanoseconds. The times of
    /// packets are left out if [`Collection::selected`] is set.
    pub span: Option<(i64, i64)>,
}

/// Statistics of an event type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// Name of the event type, such as `provider:event`; `None` if it has none.
    pub name: Option<String>,
    /// Log level in the metadata, if any.
    pub log_level: Option<i64>,
    /// Number of events of this type.
    pub count: u64,
    /// Times of the first and the last event, in nanoseconds.
    pub span: Option<(i64, i64)>,
}

/// Loss of events or packets in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossInfo {
    /// Begin of the loss, in nanoseconds; `None` if unknown.
    pub from: Option<i64>,
    /// End of the loss, in nanoseconds; `None` if unknown.
    pub to: Option<i64>,
    /// Index of the stream in [`Collection::streams`].
    pub stream: usize,
    /// Kind of the loss: lost events or lost packets.
    pub kind: LossKind,
    /// Number of lost events or packets; `None` if it is unknown.
    pub count: Option<u64>,
}

impl Collection {
    /// Returns the totals of all streams of `trace`, or of all traces for `None`.
    pub fn counts(&self, trace: Option<usize>) -> Counts {
        let mut sum = Counts::default();
        for stream in &self.streams {
            if trace.is_none_or(|trace| trace == stream.trace) {
                sum.add(&stream.counts);
            }
        }
        sum
    }

    /// Returns the origin of relative times, in nanoseconds.
    pub(super) fn origin(&self) -> i64 {
        let first = || self.counts(None).span.map(|(first, _)| first);
        self.origin.or_else(first).unwrap_or(0)
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.content_bytes += other.content_bytes;
        self.events_lost = self.events_lost.saturating_add(other.events_lost);
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost = self.packets_lost.saturating_add(other.packets_lost);
        self.packets_lost_unknown += other.packets_lost_unknown;
        self.span = joint_span(self.span, other.span);
    }

    /// Returns the nanoseconds from the first to the last time; `None` without times.
    pub fn duration_ns(&self) -> Option<u64> {
        self.span.map(|(first, last)| last.abs_diff(first))
    }

    /// Returns the average number of events per second; `None` without a duration.
    pub fn events_per_second(&self) -> Option<f64> {
        let duration = self.duration_ns().filter(|&duration| duration > 0)?;
        Some(self.events as f64 * 1e9 / duration as f64)
    }

    /// Returns the average size of an event in bytes, with its share of packet headers; `None`
    /// without events. The result is too large if packets have events that are not selected.
    pub(super) fn bytes_per_event(&self) -> Option<f64> {
        (self.events > 0).then(|| self.content_bytes as f64 / self.events as f64)
    }

    pub(super) fn any_lost(&self) -> bool {
        self.events_lost > 0
            || self.events_lost_unknown > 0
            || self.packets_lost > 0
            || self.packets_lost_unknown > 0
    }
}

impl TraceInfo {
    /// Returns true if the first clock of the trace counts from 1970, so that times can be printed
    /// as dates.
    pub(super) fn absolute(&self) -> bool {
        self.clocks.first().is_some_and(|clock| clock.origin == ClockOrigin::UnixEpoch)
    }
}

/// Returns the smallest time range that contains both ranges. `None` is an empty range.
pub(super) fn joint_span(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}
