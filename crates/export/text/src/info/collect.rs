//! Collection of statistics: one [`Collector`] for each thread, merged at the end.

use super::collection::{
    Collection, Counts, EventInfo, LossInfo, StreamInfo, TraceInfo, joint_span,
};
use super::timeline::Timeline;
use blkkin_ctf::decode::{Node, Visitor};
use blkkin_ctf::schema::FieldClass;
use blkkin_reader::{Event, Loss, LossKind, PacketView, Stream, Trace, Unordered};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of losses that are listed individually.
const LOSSES_MAX: usize = 1000;

/// Statistics of the packets and events that one thread reads.
#[derive(Debug)]
pub struct Collector<'t> {
    traces: &'t [Arc<Trace>],
    /// Set if the reader delivers only selected events. A packet, with the losses before it, then
    /// counts only if it has a selected event.
    selected: bool,
    streams: Vec<StreamState<'t>>,
    /// Tallies of all event classes, in the order of traces, stream classes and event classes.
    classes: Vec<Tally>,
    timeline: Timeline,
    losses: Losses,
    /// Index of the current packet's stream.
    current: usize,
    /// Counts of the current packet that are not in the totals yet. They are added together with
    /// `pending_losses`, the losses before the packet: by the packet's first event if `selected` is
    /// set, otherwise at once.
    pending: Option<Counts>,
    pending_losses: Vec<LossInfo>,
    /// True before the first event of the current packet.
    has_no_event: bool,
}

#[derive(Debug)]
struct StreamState<'t> {
    trace: usize,
    stream: &'t Stream,
    /// Index of the stream class's first event class in `Collector::classes`.
    classes: usize,
    /// Set if packets have a field for the CPU.
    has_cpu: bool,
    cpu: Cpu,
    /// Totals of the stream's packets and losses. Its events are counted in `tally`.
    counts: Counts,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cpu {
    Unknown,
    One(u64),
    Several,
}

/// Number of events and their time range; the range is empty if `first` is after `last`.
#[derive(Clone, Copy, Debug)]
struct Tally {
    count: u64,
    first: i64,
    last: i64,
}

impl<'t> Collector<'t> {
    /// Creates a collector for `traces`. `selected` is true if the reader delivers only selected
    /// events.
    pub fn new(traces: &'t [Arc<Trace>], selected: bool) -> Collector<'t> {
        let mut class_count = 0;
        let mut streams = Vec::new();
        for (index, trace) in traces.iter().enumerate() {
            let mut starts = Vec::new();
            for class in &trace.schema().streams {
                starts.push(class_count);
                class_count += class.events.len();
            }
            for stream in &trace.streams {
                let class = &trace.schema().streams[stream.class];
                streams.push(StreamState {
                    trace: index,
                    stream,
                    classes: starts[stream.class],
                    has_cpu: has_member(class.packet_context.as_ref(), CPU_FIELD),
                    cpu: Cpu::Unknown,
                    counts: Counts::default(),
                    tally: Tally::NONE,
                });
            }
        }
        Collector {
            traces,
            selected,
            streams,
            classes: vec![Tally::NONE; class_count],
            timeline: Timeline::default(),
            losses: Losses::default(),
            current: 0,
            pending: None,
            pending_losses: Vec::new(),
            has_no_event: false,
        }
    }

    /// Merges the statistics of several threads. `origin` is the origin of relative times, in
    /// nanoseconds; `None` means the earliest time in the statistics.
    pub fn finish(collectors: Vec<Collector<'t>>, origin: Option<i64>) -> Collection {
        let mut collectors = collectors.into_iter();
        let Some(mut all) = collectors.next() else { return Collection::default() };
        for other in collectors {
            all.merge(&other);
        }
        let mut collection = Collection {
            traces: all.traces.iter().map(|trace| trace_info(trace)).collect(),
            events: all.events(),
            timeline: all.timeline,
            losses_left_out: all.losses.left_out,
            losses: all.losses.earliest,
            selected: all.selected,
            origin,
            ..Collection::default()
        };
        for StreamState { trace, stream, cpu, mut counts, tally, .. } in all.streams {
            counts.events = tally.count;
            counts.span = joint_span(counts.span, tally.span());
            collection.streams.push(StreamInfo {
                trace,
                file: stream.name.clone(),
                class_id: stream.class_id,
                instance: stream.instance,
                cpu: if let Cpu::One(cpu) = cpu { Some(cpu) } else { None },
                counts,
            });
        }
        collection
    }

    fn merge(&mut self, other: &Collector<'_>) {
        for (stream, other) in self.streams.iter_mut().zip(&other.streams) {
            stream.counts.add(&other.counts);
            stream.cpu = stream.cpu.combine(other.cpu);
            stream.tally.add(&other.tally);
        }
        for (class, other) in self.classes.iter_mut().zip(&other.classes) {
            class.add(other);
        }
        self.timeline.merge(&other.timeline);
        self.losses.merge(&other.losses);
    }

    /// Returns the event types with at least one event, merged by name and log level, in descending
    /// order of their counts.
    fn events(&self) -> Vec<EventInfo> {
        let mut tallies: HashMap<(Option<&str>, Option<i64>), Tally> = HashMap::new();
        let streams = self.traces.iter().flat_map(|trace| &trace.schema().streams);
        let classes = streams.flat_map(|stream| &stream.events);
        for (class, tally) in classes.zip(&self.classes).filter(|(_, tally)| tally.count > 0) {
            let key = (class.name.as_deref(), class.log_level);
            tallies.entry(key).or_insert(Tally::NONE).add(tally);
        }
        let info = |((name, log_level), tally): ((Option<&str>, _), Tally)| EventInfo {
            name: name.map(str::to_owned),
            log_level,
            count: tally.count,
            span: tally.span(),
        };
        let mut events: Vec<EventInfo> = tallies.into_iter().map(info).collect();
        events.sort_by(|a, b| {
            let key =
                |event: &EventInfo| (Reverse(event.count), event.name.clone(), event.log_level);
            key(a).cmp(&key(b))
        });
        events
    }

    /// Sets the current stream. Most packets have the same stream as the previous packet.
    fn set_stream(&mut self, stream: &Stream) {
        let is = |state: &StreamState<'_>| std::ptr::eq(state.stream, stream);
        if !self.streams.get(self.current).is_some_and(is) {
            self.current = self.streams.iter().position(is).unwrap_or(0);
        }
    }

    /// Counts the pending packet and losses.
    #[cold]
    fn count_pending(&mut self) {
        let counts = &mut self.streams[self.current].counts;
        if let Some(mut packet) = self.pending.take() {
            if self.selected {
                packet.span = None;
            }
            counts.add(&packet);
        }
        for loss in self.pending_losses.drain(..) {
            match (loss.kind, loss.count) {
                (LossKind::Events, Some(count)) => {
                    counts.events_lost = counts.events_lost.saturating_add(count);
                }
                (LossKind::Events, None) => counts.events_lost_unknown += 1,
                (LossKind::Packets, Some(count)) => {
                    counts.packets_lost = counts.packets_lost.saturating_add(count);
                }
                (LossKind::Packets, None) => counts.packets_lost_unknown += 1,
            }
            if let (Some(from), Some(to)) = (loss.from.or(loss.to), loss.to.or(loss.from)) {
                self.timeline.mark_lost(from, to);
            }
            self.losses.add(loss);
        }
    }

    /// Drops the pending packet and losses if the packet had no event.
    fn drop_pending(&mut self) {
        if self.has_no_event {
            self.pending = None;
            self.pending_losses.clear();
            self.has_no_event = false;
        }
    }

    /// Counts the pending packet, if any, and combines its CPU with that of the stream. Called for
    /// the first event of each packet.
    #[cold]
    fn begin_packet(&mut self, event: &mut Event<'_>) {
        self.has_no_event = false;
        self.count_pending();
        let state = &mut self.streams[self.current];
        if state.has_cpu && state.cpu != Cpu::Several {
            let mut finder = CpuFinder { cpu: Cpu::Unknown };
            event.visit_packet_context(&mut finder);
            state.cpu = state.cpu.combine(finder.cpu);
        }
    }
}

impl Unordered for Collector<'_> {
    fn packet(&mut self, _: &Trace, stream: &Stream, packet: &PacketView<'_>) {
        self.drop_pending();
        self.set_stream(stream);
        let PacketView { place, begin_ns, end_ns } = packet;
        let content = place.packet.content_bits.map_or(place.size, |bits| bits.div_ceil(8));
        self.pending = Some(Counts {
            packets: 1,
            bytes: place.size,
            content_bytes: content.min(place.size),
            span: begin_ns.or(*end_ns).zip(end_ns.or(*begin_ns)),
            ..Counts::default()
        });
        self.has_no_event = true;
        if !self.selected {
            self.count_pending();
        }
    }

    #[inline]
    fn event(&mut self, event: &mut Event<'_>) {
        if self.has_no_event {
            self.begin_packet(event);
        }
        let state = &mut self.streams[self.current];
        let class = &mut self.classes[state.classes + event.class_index()];
        state.tally.count += 1;
        class.count += 1;
        if let Some(time) = event.time() {
            state.tally.cover(time);
            class.cover(time);
            self.timeline.add(time);
        }
    }

    fn loss(&mut self, _: &Trace, stream: &Stream, loss: &Loss) {
        self.drop_pending();
        self.set_stream(stream);
        self.pending_losses.push(LossInfo {
            from: loss.from.map(|(ns, _)| ns),
            to: loss.to.map(|(ns, _)| ns),
            stream: self.current,
            kind: loss.kind,
            count: loss.count,
        });
    }
}

impl Tally {
    const NONE: Tally = Tally { count: 0, first: i64::MAX, last: i64::MIN };

    #[inline]
    fn cover(&mut self, time: i64) {
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }

    fn span(&self) -> Option<(i64, i64)> {
        (self.first <= self.last).then_some((self.first, self.last))
    }

    fn add(&mut self, other: &Tally) {
        self.count += other.count;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

impl Cpu {
    fn combine(self, other: Cpu) -> Cpu {
        match (self, other) {
            (Cpu::Unknown, cpu) | (cpu, Cpu::Unknown) => cpu,
            (one, other) if one == other => one,
            _ => Cpu::Several,
        }
    }
}

/// Earliest losses, and the number of later losses.
#[derive(Debug, Default)]
struct Losses {
    earliest: Vec<LossInfo>,
    left_out: u64,
}

impl Losses {
    fn add(&mut self, loss: LossInfo) {
        let key = |loss: &LossInfo| {
            (loss.from, loss.to, loss.stream, loss.kind == LossKind::Packets, loss.count)
        };
        let place = self.earliest.partition_point(|other| key(other) <= key(&loss));
        if place < LOSSES_MAX {
            self.earliest.insert(place, loss);
        } else {
            self.left_out += 1;
        }
        if self.earliest.len() > LOSSES_MAX {
            self.earliest.truncate(LOSSES_MAX);
            self.left_out += 1;
        }
    }

    fn merge(&mut self, other: &Losses) {
        other.earliest.iter().for_each(|loss| self.add(loss.clone()));
        self.left_out += other.left_out;
    }
}

fn trace_info(trace: &Trace) -> TraceInfo {
    let schema = trace.schema();
    TraceInfo {
        name: trace.name.clone(),
        path: trace.path.clone(),
        uuid: schema.trace.uuid,
        version: schema.version,
        env: schema.trace.env.clone(),
        clocks: schema.clocks.clone(),
    }
}

/// Name of the CPU field in packet contexts of LTTng and BlkKin.
const CPU_FIELD: &str = "cpu_id";

fn has_member(class: Option<&FieldClass>, name: &str) -> bool {
    match class {
        Some(FieldClass::Struct(class)) => class.members.iter().any(|member| member.name == name),
        _ => false,
    }
}

/// Visitor that finds the CPU in a packet context.
struct CpuFinder {
    cpu: Cpu,
}

impl Visitor for CpuFinder {
    fn restart(&mut self) {
        self.cpu = Cpu::Unknown;
    }

    fn unsigned(&mut self, node: &Node, value: u64) {
        if node.name.as_deref() == Some(CPU_FIELD) {
            self.cpu = Cpu::One(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same losses are listed, regardless of the order and thread in which they are added.
    #[test]
    fn the_earliest_losses_are_kept() {
        let loss = |from: i64| LossInfo {
            from: Some(from),
            to: None,
            stream: 0,
            kind: LossKind::Events,
            count: None,
        };
        let mut parts = [Losses::default(), Losses::default()];
        for step in 0..3000 {
            parts[step as usize % 2].add(loss(step * 7 % 3000));
        }
        for order in [[0, 1], [1, 0]] {
            let mut merged = Losses::default();
            order.iter().for_each(|&part| merged.merge(&parts[part]));
            assert_eq!(merged.left_out, 2000);
            assert_eq!(merged.earliest, (0..1000).map(loss).collect::<Vec<_>>());
        }
    }
}
