//! What traces hold, at a glance: counts, rates over time, losses.
//!
//! A [`Collector`] a thread gathers, [`Collector::finish`] merges them into one [`Collection`]
//! (which does not depend on how many there were), [`draw`] makes text of that and [`to_json`] an
//! object for programs. Memory is bounded: the [`Timeline`] widens its buckets as time goes on,
//! and of losses only the earliest are kept one by one.

mod chart;
mod collect;
mod draw;
mod json;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod timeline;
pub mod units;

pub use collect::Collector;
pub use draw::{Options, draw};
pub use json::{SCHEMA, to_json};
pub use timeline::Timeline;

use blkkin_ctf::schema::{Clock, ClockOrigin, EnvValue, Uuid, Version};
use blkkin_reader::LossKind;
use std::path::PathBuf;

/// All that was gathered.
#[derive(Debug, Default)]
pub struct Collection {
    /// In the order in which they were opened.
    pub traces: Vec<TraceInfo>,
    /// Of all traces.
    pub streams: Vec<StreamInfo>,
    /// Event types of the same name and severity in one; those that came most often come first.
    pub events: Vec<EventInfo>,
    /// The earliest ones, in order of time.
    pub losses: Vec<LossInfo>,
    /// Losses that are not in `losses`.
    pub losses_left_out: u64,
    /// When events happened and when some were lost.
    pub timeline: Timeline,
    /// Only some events were looked at; packets are those that hold them.
    pub selected: bool,
    /// What times that are shown as distances count from; the same as for `--begin +1s`.
    pub origin: Option<i64>,
}

/// What the metadata says of a trace.
#[derive(Debug)]
pub struct TraceInfo {
    /// The name that babeltrace2 gives it.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its UUID.
    pub uuid: Option<Uuid>,
    /// Which CTF.
    pub version: Version,
    /// Its environment.
    pub env: Vec<(String, EnvValue)>,
    /// Its clocks.
    pub clocks: Vec<Clock>,
}

/// A stream and what it holds.
#[derive(Debug)]
pub struct StreamInfo {
    /// Index of the trace.
    pub trace: usize,
    /// Path of its first file.
    pub file: String,
    /// Id of the stream class.
    pub class_id: u64,
    /// Id of the stream within its class.
    pub instance: Option<u64>,
    /// Where all its packets come from, if they say it and agree.
    pub cpu: Option<u64>,
    /// What it holds.
    pub counts: Counts,
}

/// Sums over packets and events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that are there.
    pub events: u64,
    /// Packets that are there.
    pub packets: u64,
    /// Bytes of packets.
    pub bytes: u64,
    /// Bytes of packets that are in use.
    pub content_bytes: u64,
    /// Events that the tracer discarded.
    pub events_lost: u64,
    /// Places where it discarded events but does not say how many.
    pub events_lost_unknown: u64,
    /// Packets that are missing.
    pub packets_lost: u64,
    /// Places where an unknown number of packets is missing.
    pub packets_lost_unknown: u64,
    /// The time that it covers, both ends inclusive.
    pub span: Option<(i64, i64)>,
}

/// An event type and how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventInfo {
    /// As in `provider:event`.
    pub name: Option<String>,
    /// Severity, if it has one.
    pub log_level: Option<i64>,
    /// How many.
    pub count: u64,
    /// When the first and the last one happened.
    pub span: Option<(i64, i64)>,
}

/// A place where something is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossInfo {
    /// When it began, in nanoseconds.
    pub from: Option<i64>,
    /// When it ended.
    pub to: Option<i64>,
    /// Index of the stream.
    pub stream: usize,
    /// What is missing.
    pub kind: LossKind,
    /// How many; `None` if the trace only says that there were some.
    pub count: Option<u64>,
}

impl Collection {
    /// The sums over all streams of `trace`, or of all traces.
    pub fn counts(&self, trace: Option<usize>) -> Counts {
        let mut sum = Counts::default();
        for stream in &self.streams {
            if trace.is_none_or(|trace| trace == stream.trace) {
                sum.add(&stream.counts);
            }
        }
        sum
    }

    /// Where distances in time count from.
    fn origin(&self) -> i64 {
        let first = || self.counts(None).span.map(|(first, _)| first);
        self.origin.or_else(first).unwrap_or(0)
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.content_bytes += other.content_bytes;
        self.events_lost = self.events_lost.saturating_add(other.events_lost);
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost = self.packets_lost.saturating_add(other.packets_lost);
        self.packets_lost_unknown += other.packets_lost_unknown;
        self.span = joined(self.span, other.span);
    }

    /// Nanoseconds covered.
    pub fn duration_ns(&self) -> Option<u64> {
        self.span.map(|(first, last)| last.abs_diff(first))
    }

    /// Events in a second, on average.
    pub fn events_per_second(&self) -> Option<f64> {
        let duration = self.duration_ns().filter(|&duration| duration > 0)?;
        Some(self.events as f64 * 1e9 / duration as f64)
    }

    /// Bytes that an event takes, with its share of packet headers; wrong if packets hold events
    /// that were not selected.
    fn bytes_per_event(&self) -> Option<f64> {
        (self.events > 0).then(|| self.content_bytes as f64 / self.events as f64)
    }

    fn any_lost(&self) -> bool {
        self.events_lost > 0
            || self.events_lost_unknown > 0
            || self.packets_lost > 0
            || self.packets_lost_unknown > 0
    }
}

impl TraceInfo {
    /// Whether times are dates.
    fn absolute(&self) -> bool {
        self.clocks.first().is_some_and(|clock| clock.origin == ClockOrigin::UnixEpoch)
    }
}

/// The least span that holds both.
fn joined(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}
