//! Merge of the events of many streams in order of time.
//!
//! Each stream offers its next item, and the merge returns the earliest. A heap has the offers of
//! all streams except the stream of the last item. Events come in bursts from one stream, and so an
//! event of a burst costs one comparison with the heap's top.
//!
//! Assumption: times within a stream do not decrease, and no event is earlier than its packet. A
//! broken trace can violate the assumption. The merge then treats an event that is too early as if
//! it had the latest time before it in the stream, or its packet's begin if that is later. So the
//! stream keeps its order.

use crate::alignment::CorrectedScale;
use crate::cursor::Cursor;
use crate::error::Problem;
use crate::loss::Loss;
use crate::packet::PacketRef;
use crate::packets::StreamPackets;
use crate::trace::TraceData;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Input of a merge: the events and losses of one stream.
#[derive(Debug)]
pub(crate) struct MergeInput {
    /// Number of the stream, unique in the reading.
    pub(crate) stream: usize,
    pub(crate) data: Arc<TraceData>,
    pub(crate) cursor: Cursor,
    packets: PacketQueue,
    /// Begin of the reading's range in nanoseconds. Packets that end earlier are skipped.
    pub(crate) begin: Option<i64>,
    /// End (exclusive) of a follower's round in nanoseconds; `None` for no end. The first event at
    /// or after the end, and all data behind it, stay in the source for the next round.
    pub(crate) round_end: Option<i64>,
    /// Set if the current packet may have events at or after `round_end`. If the packet's context
    /// declares an earlier end, an event at or after `round_end` is damaged, and does not end the
    /// round of this stream.
    can_exceed_round: bool,
    scale: Option<CorrectedScale>,
    /// Latest time of the input so far, in nanoseconds; no later item is ordered before it.
    floor: i64,
    /// Begin of the current packet in nanoseconds, as its context declares; `i64::MIN` if unknown.
    packet_begin: i64,
    slice: Option<SliceState>,
    /// Set if the current event is at or after the slice's end. The event is then offered only if
    /// the slice is extended.
    is_past_slice: bool,
    /// Undelivered losses of the current packet. They are offered before the packet's events.
    losses: VecDeque<Loss>,
    /// Index of the current event's class in the stream class.
    class: u32,
    has_packet: bool,
    /// Number of events read from the current packet so far. The first `delivered_events` events
    /// were delivered earlier, and are not delivered again.
    events: u64,
    delivered_events: u64,
}

/// Packets of an input: first the packets in `queue`, then those that `source` returns.
#[derive(Debug)]
struct PacketQueue {
    queue: VecDeque<PacketRef>,
    source: Option<StreamPackets>,
}

impl PacketQueue {
    fn next(&mut self, report: &mut MergeReport) -> Option<PacketRef> {
        if let Some(packet) = self.queue.pop_front() {
            return Some(packet);
        }
        let source = self.source.as_mut()?;
        let packet = source.next();
        report.problems.append(&mut source.problems);
        packet
    }
}

/// Range of time in nanoseconds that a slice covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceSpan {
    /// Begin (inclusive) in nanoseconds; used only for packets that an earlier slice has started.
    pub(crate) begin: i64,
    /// End (exclusive); `None` for the end of the streams.
    pub(crate) end: Option<i64>,
}

/// Slice of a stream that an input delivers, and the input's position in the slice.
#[derive(Debug)]
struct SliceState {
    span: SliceSpan,
    /// Number of packets after the current one that an earlier slice has started.
    started_packets: usize,
    /// Set while events before `span.begin` are skipped, which an earlier slice has delivered.
    is_skipping: bool,
    /// End of the current packet in nanoseconds, as its context declares; `i64::MAX` if unknown.
    packet_end: i64,
    /// Number of the last packet that this slice or an earlier one has started or skipped.
    last_number: u64,
}

/// Kind of the item that an input offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemKind {
    Loss,
    Event,
}

/// Sort key of an offer: time, rank of the stream, index of the event class (0 for a loss), index
/// of the input.
type MergeKey = (i64, u32, u32, usize);

impl MergeInput {
    /// Makes an input that delivers all packets of `packets`.
    pub(crate) fn new(
        stream: usize,
        data: Arc<TraceData>,
        class: usize,
        packets: StreamPackets,
        window: usize,
    ) -> MergeInput {
        let mut input = MergeInput::empty(stream, data, class, window);
        input.packets.source = Some(packets);
        input
    }

    /// Makes an input without packets, for use with [`MergeInput::begin_slice`].
    pub(crate) fn empty(
        stream: usize,
        data: Arc<TraceData>,
        class: usize,
        window: usize,
    ) -> MergeInput {
        MergeInput {
            stream,
            scale: data.scale(class),
            cursor: Cursor::new(&data, window),
            data,
            packets: PacketQueue { queue: VecDeque::new(), source: None },
            begin: None,
            round_end: None,
            can_exceed_round: false,
            floor: i64::MIN,
            packet_begin: i64::MIN,
            slice: None,
            is_past_slice: false,
            losses: VecDeque::new(),
            class: 0,
            has_packet: false,
            events: 0,
            delivered_events: 0,
        }
    }

    /// Starts a slice: the input delivers the events of these packets within `span`. An earlier
    /// slice has started the first `started_packets` packets. `last_number` is the number of the
    /// last packet that this slice or an earlier one has started or skipped.
    pub(crate) fn begin_slice(
        &mut self,
        packets: VecDeque<PacketRef>,
        started_packets: usize,
        last_number: u64,
        span: SliceSpan,
    ) {
        self.packets = PacketQueue { queue: packets, source: None };
        self.slice = Some(SliceState {
            span,
            started_packets,
            is_skipping: false,
            packet_end: i64::MAX,
            last_number,
        });
        self.floor = i64::MIN;
        self.losses.clear();
        (self.has_packet, self.is_past_slice) = (false, false);
    }

    /// Extends the slice to the stream's end. `packets` must return all packets of the stream from
    /// the first one on.
    pub(crate) fn extend_to_end(&mut self, mut packets: StreamPackets) {
        let Some(slice) = &mut self.slice else { return };
        slice.span.end = None;
        while let Some(packet) = packets.next() {
            if packet.number > slice.last_number {
                self.packets.queue.push_back(packet);
                break;
            }
        }
        self.packets.source = Some(packets);
    }

    /// Returns the source of the packets that were not read, which a later round can continue.
    /// `None` if the input reads from a queue only.
    pub(crate) fn into_packets(self) -> Option<StreamPackets> {
        self.packets.source
    }

    /// Moves to the next item, and returns its time and kind. Returns `None` at the end of the
    /// slice or of the packets.
    fn advance(&mut self, report: &mut MergeReport) -> Option<(i64, ItemKind)> {
        if std::mem::take(&mut self.is_past_slice) {
            // The slice has been extended, so the event is offered now.
            return Some((self.floor, ItemKind::Event));
        }
        loop {
            if let Some(loss) = self.losses.front() {
                if let Some((from, _)) = loss.from {
                    self.floor = self.floor.max(from);
                }
                return Some((self.floor, ItemKind::Loss));
            }
            if self.has_packet {
                match self.cursor.next(&self.data) {
                    Ok(Some(class)) => {
                        self.events += 1;
                        if self.events <= self.delivered_events {
                            continue;
                        }
                        self.class = class;
                        if let Some(time) = self.time() {
                            let time_in_packet = self.packet_begin.max(time);
                            self.floor = self.floor.max(time_in_packet);
                            if self.can_exceed_round
                                && self.round_end.is_some_and(|end| time_in_packet >= end)
                            {
                                self.put_back_rest();
                                return None;
                            }
                            if let Some(slice) = &mut self.slice {
                                report.is_disordered |=
                                    slice.span.end.is_some() && time > slice.packet_end;
                                slice.is_skipping &= self.floor < slice.span.begin;
                                if slice.is_skipping {
                                    continue;
                                }
                                if slice.span.end.is_some_and(|end| self.floor >= end) {
                                    self.is_past_slice = true;
                                    return None;
                                }
                            }
                        }
                        return Some((self.floor, ItemKind::Event));
                    }
                    Ok(None) => {}
                    Err(problem) => report.problems.extend(self.unless_deferred(problem)),
                }
                self.has_packet = false;
            }
            self.next_packet(report)?;
        }
    }

    /// Returns the problem, unless newer metadata may resolve it. In that case returns `None`, and
    /// the packet will be read again.
    fn unless_deferred(&mut self, problem: Problem) -> Option<Problem> {
        match &mut self.packets.source {
            Some(source) => source.defer_to_metadata(self.cursor.packet(), self.events, problem),
            None => Some(problem),
        }
    }

    /// Leaves the current event, and all data behind it, in the source for the next round.
    fn put_back_rest(&mut self) {
        self.has_packet = false;
        if let (Some(source), Some(packet)) = (&mut self.packets.source, self.cursor.packet()) {
            let mark = Some(self.cursor.mark_before_event());
            source.put_back(PacketRef { mark, delivered_events: 0, ..packet.clone() });
        }
    }

    fn next_packet(&mut self, report: &mut MergeReport) -> Option<()> {
        let mut packet = loop {
            let packet = self.packets.next(report)?;
            let ends_too_early = |(end, begin)| end < begin;
            if !packet.end_ns.zip(self.begin).is_some_and(ends_too_early) {
                break packet;
            }
        };
        if let (Some(end), Some(source)) = (self.round_end, &mut self.packets.source) {
            let is_due = |loss: &Loss| loss.from.is_some_and(|(from, _)| from < end);
            if packet.begin_ns.is_some_and(|begin| begin >= end)
                && !packet.losses.iter().any(is_due)
            {
                source.put_back(packet);
                return None;
            }
            self.can_exceed_round = packet.end_ns.is_none_or(|packet_end| packet_end >= end);
        }
        self.packet_begin = packet.begin_ns.unwrap_or(i64::MIN);
        if let Some(slice) = &mut self.slice {
            slice.packet_end = packet.end_ns.unwrap_or(i64::MAX);
            slice.is_skipping = slice.started_packets > 0;
            slice.started_packets = slice.started_packets.saturating_sub(1);
        }
        self.losses = std::mem::take(&mut packet.losses).into();
        (self.events, self.delivered_events) = (0, packet.delivered_events);
        if !self.slice.as_ref().is_some_and(|slice| slice.is_skipping) {
            report.bytes += packet.size;
        }
        match self.cursor.start(&self.data, packet).and_then(|()| self.skip_earlier_slice()) {
            Ok(()) => self.has_packet = true,
            Err(problem) => report.problems.push(problem),
        }
        Some(())
    }

    /// Skips events of the current packet that an earlier slice has delivered, without decoding
    /// their fields. A few of these events may remain.
    fn skip_earlier_slice(&mut self) -> Result<(), Problem> {
        match (&self.slice, &self.scale) {
            // An event counts as happening no earlier than its packet's begin, so a packet that
            // begins at or after the slice has no events of an earlier slice.
            (Some(slice), Some(scale))
                if slice.is_skipping && self.floor.max(self.packet_begin) < slice.span.begin =>
            {
                // Conversion uses floating point, so `before` may not be the very last cycle before
                // the slice.
                let before = scale.cycles(slice.span.begin).saturating_sub(1);
                match scale.ns(before) < slice.span.begin {
                    true => self.cursor.skip_to(&self.data, before),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns the effective time of the current event in nanoseconds, by which the merge orders
    /// it.
    pub(crate) fn floor(&self) -> i64 {
        self.floor
    }

    /// Returns the recorded time of the current event in nanoseconds; `None` if the stream has no
    /// clock.
    pub(crate) fn time(&self) -> Option<i64> {
        Some(self.scale.as_ref()?.ns(self.cursor.cycles()))
    }
}

/// Next item in a merge: an event or a loss, or a report of disorder.
pub(crate) enum Item<'m> {
    Event {
        input: &'m mut MergeInput,
        class: u32,
    },
    Loss {
        stream: usize,
        loss: Loss,
    },
    /// An event is later than its packet's end, so slices cannot be separated by time.
    Disorder,
}

/// Merge of the inputs of all streams, in order of time.
pub(crate) struct Merge<'r> {
    inputs: Vec<MergeInput>,
    /// Rank of each stream for items at the same time, by stream number.
    ranks: &'r [u32],
    heap: BinaryHeap<Reverse<(MergeKey, bool)>>,
    /// Index of the input of the last item. This input advances in the next call.
    last_input: Option<usize>,
    pub(crate) report: MergeReport,
}

/// Problems and totals that a merge has collected.
#[derive(Debug, Default)]
pub(crate) struct MergeReport {
    pub(crate) problems: Vec<Problem>,
    /// Total size of the packets started since the last progress report, in bytes.
    pub(crate) bytes: u64,
    /// Set if an event of a slice with an end time is later than its packet's end. Cleared when the
    /// slices are extended.
    is_disordered: bool,
}

impl<'r> Merge<'r> {
    pub(crate) fn new(inputs: Vec<MergeInput>, ranks: &'r [u32]) -> Merge<'r> {
        let mut merge = Merge {
            heap: BinaryHeap::with_capacity(inputs.len()),
            inputs,
            ranks,
            last_input: None,
            report: MergeReport::default(),
        };
        for index in 0..merge.inputs.len() {
            if let Some(entry) = merge.offer(index) {
                merge.heap.push(Reverse(entry));
            }
        }
        merge
    }

    fn offer(&mut self, index: usize) -> Option<(MergeKey, bool)> {
        let input = &mut self.inputs[index];
        let (time, kind) = input.advance(&mut self.report)?;
        let class = if kind == ItemKind::Event { input.class } else { 0 };
        Some(((time, self.ranks[input.stream], class, index), kind == ItemKind::Event))
    }

    /// Extends all slices to the ends of their streams. `packets` must return all packets of the
    /// stream with the given number.
    pub(crate) fn extend_to_end(&mut self, packets: impl Fn(usize) -> StreamPackets) {
        self.report.is_disordered = false;
        let offered: Vec<usize> = self.heap.iter().map(|entry| entry.0.0.3).collect();
        for index in 0..self.inputs.len() {
            let input = &mut self.inputs[index];
            input.extend_to_end(packets(input.stream));
            if !offered.contains(&index) {
                let entry = self.offer(index);
                self.heap.extend(entry.map(Reverse));
            }
        }
    }

    /// Returns the inputs, for reuse in the next merge.
    pub(crate) fn into_inputs(self) -> Vec<MergeInput> {
        self.inputs
    }

    /// Returns the earliest item of all inputs; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Item<'_>> {
        let offered = self.last_input.take().and_then(|index| self.offer(index));
        if self.report.is_disordered {
            self.heap.extend(offered.map(Reverse));
            return Some(Item::Disorder);
        }
        let (key, is_event) = match (offered, self.heap.peek_mut()) {
            (Some(entry), Some(mut first)) if first.0 < entry => {
                std::mem::replace(&mut *first, Reverse(entry)).0
            }
            (Some(entry), _) => entry,
            (None, Some(first)) => std::collections::binary_heap::PeekMut::pop(first).0,
            (None, None) => return None,
        };
        let index = key.3;
        self.last_input = Some(index);
        let input = &mut self.inputs[index];
        if !is_event && let Some(loss) = input.losses.pop_front() {
            return Some(Item::Loss { stream: input.stream, loss });
        }
        let class = input.class;
        Some(Item::Event { input, class })
    }
}
