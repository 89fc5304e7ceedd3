//! The events of many streams in order of time.
//!
//! Each stream offers its next item; the earliest is taken. A heap holds the streams that wait,
//! and the one that was taken last stays outside it for as long as it is the earliest: events
//! come in bursts from one stream, and a burst costs one comparison an event.
//!
//! Assumption: times within a stream do not decrease, and no event is earlier than its packet.
//! Where that is not so (a broken trace), an event counts as happening at the latest time before
//! it, so that the stream keeps its order.

use crate::cursor::Cursor;
use crate::error::Problem;
use crate::loss::Loss;
use crate::packet::PacketRef;
use crate::packets::StreamPackets;
use crate::trace::TraceData;
use blkkin_ctf::clock::TimeScale;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// One stream in a merge.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Number of the stream among all.
    pub(crate) stream: usize,
    pub(crate) data: Arc<TraceData>,
    pub(crate) cursor: Cursor,
    packets: Packets,
    /// Packets that end before are not wanted.
    pub(crate) begin: Option<i64>,
    scale: Option<TimeScale>,
    /// Latest time so far.
    floor: i64,
    /// When the current packet begins, as it says itself.
    packet_begin: i64,
    slice: Option<Bounds>,
    /// Whether the current event is behind the slice's end, and so not offered.
    is_behind: bool,
    /// What was lost before the packet's first event and is not told yet.
    losses: VecDeque<Loss>,
    /// The current event's class.
    class: u32,
    has_packet: bool,
    /// Events of the packet so far, and how many of them have been passed on already.
    events: u64,
    known_events: u64,
}

/// Where a lane's packets come from: first these, then those.
#[derive(Debug)]
struct Packets {
    queue: VecDeque<PacketRef>,
    rest: Option<StreamPackets>,
}

impl Packets {
    fn next(&mut self, account: &mut Account) -> Option<PacketRef> {
        if let Some(packet) = self.queue.pop_front() {
            return Some(packet);
        }
        let rest = self.rest.as_mut()?;
        let packet = rest.next();
        account.problems.append(&mut rest.problems);
        packet
    }
}

/// Where a slice of the stream begins and ends, and where in it the lane is.
#[derive(Debug)]
struct Bounds {
    /// From when on (inclusive), in packets that an earlier slice has begun.
    begin: i64,
    /// To when (exclusive); `None`: to the end.
    end: Option<i64>,
    /// How many of the next packets an earlier slice has begun.
    begun_packets: usize,
    /// Whether events before `begin` are passed over: they are in an earlier slice.
    is_passing_over: bool,
    /// When the current packet ends, as it says itself.
    packet_end: i64,
    /// Number of the last packet of this slice or one before.
    last_number: u64,
}

/// What a lane offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Loss,
    Event,
}

/// When, from which stream (by rank), of which class, from which lane.
type Key = (i64, u32, u32, usize);

impl Lane {
    /// All of a stream.
    pub(crate) fn new(
        stream: usize,
        data: Arc<TraceData>,
        class: usize,
        packets: StreamPackets,
        window: usize,
    ) -> Lane {
        let mut lane = Lane::empty(stream, data, class, window);
        lane.packets.rest = Some(packets);
        lane
    }

    /// Nothing of a stream yet.
    pub(crate) fn empty(stream: usize, data: Arc<TraceData>, class: usize, window: usize) -> Lane {
        Lane {
            stream,
            scale: data.scale(class),
            cursor: Cursor::new(&data, window),
            data,
            packets: Packets { queue: VecDeque::new(), rest: None },
            begin: None,
            floor: i64::MIN,
            packet_begin: i64::MIN,
            slice: None,
            is_behind: false,
            losses: VecDeque::new(),
            class: 0,
            has_packet: false,
            events: 0,
            known_events: 0,
        }
    }

    /// Begins a slice of the stream: what happened in these packets from `begin` to before `end`.
    /// The first `begun` packets have been begun by an earlier slice; `last_number` is that of
    /// the last packet of this slice or one before.
    pub(crate) fn begin_slice(
        &mut self,
        packets: VecDeque<PacketRef>,
        begun: usize,
        last_number: u64,
        (begin, end): (i64, Option<i64>),
    ) {
        self.packets = Packets { queue: packets, rest: None };
        self.slice = Some(Bounds {
            begin,
            end,
            begun_packets: begun,
            is_passing_over: false,
            packet_end: i64::MAX,
            last_number,
        });
        self.floor = i64::MIN;
        self.losses.clear();
        (self.has_packet, self.is_behind) = (false, false);
    }

    /// Makes the slice go on to the stream's end; `packets` are all of the stream.
    pub(crate) fn go_on(&mut self, mut packets: StreamPackets) {
        let Some(slice) = &mut self.slice else { return };
        slice.end = None;
        while let Some(packet) = packets.next() {
            if packet.number > slice.last_number {
                self.packets.queue.push_back(packet);
                break;
            }
        }
        self.packets.rest = Some(packets);
    }

    /// The packets that are left.
    pub(crate) fn into_packets(self) -> Option<StreamPackets> {
        self.packets.rest
    }

    /// Moves to the next item, and gives its time and kind; `None` at the end.
    fn advance(&mut self, account: &mut Account) -> Option<(i64, Head)> {
        if std::mem::take(&mut self.is_behind) {
            // The slice goes on now.
            return Some((self.floor, Head::Event));
        }
        loop {
            if let Some(loss) = self.losses.front() {
                if let Some((from, _)) = loss.from {
                    self.floor = self.floor.max(from);
                }
                return Some((self.floor, Head::Loss));
            }
            if self.has_packet {
                match self.cursor.next(&self.data) {
                    Ok(Some(class)) => {
                        self.events += 1;
                        if self.events <= self.known_events {
                            continue;
                        }
                        self.class = class;
                        if let Some(time) = self.time() {
                            self.floor = self.floor.max(self.packet_begin).max(time);
                            if let Some(slice) = &mut self.slice {
                                account.is_disordered |=
                                    slice.end.is_some() && time > slice.packet_end;
                                slice.is_passing_over &= self.floor < slice.begin;
                                if slice.is_passing_over {
                                    continue;
                                }
                                if slice.end.is_some_and(|end| self.floor >= end) {
                                    self.is_behind = true;
                                    return None;
                                }
                            }
                        }
                        return Some((self.floor, Head::Event));
                    }
                    Ok(None) => {}
                    Err(problem) => account.problems.extend(self.unless_waiting(problem)),
                }
                self.has_packet = false;
            }
            self.next_packet(account)?;
        }
    }

    /// The problem, unless the packet is to be read on when there is more metadata.
    fn unless_waiting(&mut self, problem: Problem) -> Option<Problem> {
        match &mut self.packets.rest {
            Some(rest) => rest.wait_for_metadata(self.cursor.packet(), self.events, problem),
            None => Some(problem),
        }
    }

    fn next_packet(&mut self, account: &mut Account) -> Option<()> {
        let mut packet = loop {
            let packet = self.packets.next(account)?;
            let is_before = |(end, begin)| end < begin;
            if !packet.end_ns.zip(self.begin).is_some_and(is_before) {
                break packet;
            }
        };
        self.packet_begin = packet.begin_ns.unwrap_or(i64::MIN);
        if let Some(slice) = &mut self.slice {
            slice.packet_end = packet.end_ns.unwrap_or(i64::MAX);
            slice.is_passing_over = slice.begun_packets > 0;
            slice.begun_packets = slice.begun_packets.saturating_sub(1);
        }
        self.losses = std::mem::take(&mut packet.losses).into();
        (self.events, self.known_events) = (0, packet.known_events);
        if !self.slice.as_ref().is_some_and(|slice| slice.is_passing_over) {
            account.bytes += packet.size;
        }
        match self.cursor.start(&self.data, packet).and_then(|()| self.pass_over()) {
            Ok(()) => self.has_packet = true,
            Err(problem) => account.problems.push(problem),
        }
        Some(())
    }

    /// Passes over most or all of what an earlier slice has of the packet, without looking closely.
    fn pass_over(&mut self) -> Result<(), Problem> {
        match (&self.slice, self.scale) {
            // No event of a packet that begins later is in an earlier slice: it counts as happening
            // when its packet begins, even if it says that it happened before.
            (Some(slice), Some(scale))
                if slice.is_passing_over && self.floor.max(self.packet_begin) < slice.begin =>
            {
                // Times are computed in floating point, so this may not be the very last one before.
                let before = scale.cycles(slice.begin).saturating_sub(1);
                match scale.ns(before) < slice.begin {
                    true => self.cursor.skip_to(&self.data, before),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// When the current event counts as happening.
    pub(crate) fn floor(&self) -> i64 {
        self.floor
    }

    /// The current event's time.
    pub(crate) fn time(&self) -> Option<i64> {
        Some(self.scale?.ns(self.cursor.cycles()))
    }
}

/// What the merge gives next.
pub(crate) enum Item<'m> {
    Event {
        lane: &'m mut Lane,
        class: u32,
    },
    Loss {
        stream: usize,
        loss: Loss,
    },
    /// There are events behind the ends of their packets, so that nobody can say what belongs to
    /// which slice.
    Disorder,
}

/// Lanes in order of time.
pub(crate) struct Merge<'r> {
    lanes: Vec<Lane>,
    /// By stream number: its place in the order of streams.
    ranks: &'r [u32],
    waiting: BinaryHeap<Reverse<(Key, bool)>>,
    /// The lane that gave the last item and has not moved on yet.
    taken: Option<usize>,
    pub(crate) account: Account,
}

/// What happened on the way.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) problems: Vec<Problem>,
    /// Of packets begun.
    pub(crate) bytes: u64,
    /// Whether a lane with a slice has met an event behind its packet's end.
    is_disordered: bool,
}

impl<'r> Merge<'r> {
    pub(crate) fn new(lanes: Vec<Lane>, ranks: &'r [u32]) -> Merge<'r> {
        let mut merge = Merge {
            waiting: BinaryHeap::with_capacity(lanes.len()),
            lanes,
            ranks,
            taken: None,
            account: Account::default(),
        };
        for index in 0..merge.lanes.len() {
            if let Some(entry) = merge.offer(index) {
                merge.waiting.push(Reverse(entry));
            }
        }
        merge
    }

    fn offer(&mut self, index: usize) -> Option<(Key, bool)> {
        let lane = &mut self.lanes[index];
        let (time, head) = lane.advance(&mut self.account)?;
        let class = if head == Head::Event { lane.class } else { 0 };
        Some(((time, self.ranks[lane.stream], class, index), head == Head::Event))
    }

    /// Makes slices go on to the streams' ends; `packets` gives all packets of a stream.
    pub(crate) fn go_on(&mut self, packets: impl Fn(usize) -> StreamPackets) {
        self.account.is_disordered = false;
        let waiting: Vec<usize> = self.waiting.iter().map(|entry| entry.0.0.3).collect();
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            lane.go_on(packets(lane.stream));
            if !waiting.contains(&index) {
                let entry = self.offer(index);
                self.waiting.extend(entry.map(Reverse));
            }
        }
    }

    /// The lanes, to merge what comes later.
    pub(crate) fn into_lanes(self) -> Vec<Lane> {
        self.lanes
    }

    /// The next item.
    pub(crate) fn next(&mut self) -> Option<Item<'_>> {
        let offered = self.taken.take().and_then(|index| self.offer(index));
        if self.account.is_disordered {
            self.waiting.extend(offered.map(Reverse));
            return Some(Item::Disorder);
        }
        let (key, is_event) = match (offered, self.waiting.peek_mut()) {
            (Some(entry), Some(mut first)) if first.0 < entry => {
                std::mem::replace(&mut *first, Reverse(entry)).0
            }
            (Some(entry), _) => entry,
            (None, Some(first)) => std::collections::binary_heap::PeekMut::pop(first).0,
            (None, None) => return None,
        };
        let index = key.3;
        self.taken = Some(index);
        let lane = &mut self.lanes[index];
        if !is_event && let Some(loss) = lane.losses.pop_front() {
            return Some(Item::Loss { stream: lane.stream, loss });
        }
        let class = lane.class;
        Some(Item::Event { lane, class })
    }
}
