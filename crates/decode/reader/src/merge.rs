//! The events of many streams in order of time.
//!
//! Each stream offers its next item; the earliest is taken. A heap holds the streams that wait,
//! and the one that was taken last stays outside it for as long as it is the earliest: events
//! come in bursts from one stream, and a burst costs one comparison an event.
//!
//! Assumption: times within a stream do not decrease. Where they do (a broken trace), an event
//! counts as happening at the latest time before it, so that the stream keeps its order.

use crate::cursor::Cursor;
use crate::error::Problem;
use crate::loss::Loss;
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
    packets: StreamPackets,
    scale: Option<TimeScale>,
    /// Latest time so far.
    floor: i64,
    /// What was lost before the packet's first event and is not told yet.
    losses: VecDeque<Loss>,
    /// The current event's class.
    class: u32,
    has_packet: bool,
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
    pub(crate) fn new(
        stream: usize,
        data: Arc<TraceData>,
        class: usize,
        packets: StreamPackets,
        window: usize,
    ) -> Lane {
        Lane {
            stream,
            scale: data.scale(class),
            cursor: Cursor::new(&data, window),
            data,
            packets,
            floor: i64::MIN,
            losses: VecDeque::new(),
            class: 0,
            has_packet: false,
        }
    }

    /// Moves to the next item, and gives its time and kind; `None` at the end.
    fn advance(&mut self, account: &mut Account) -> Option<(i64, Head)> {
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
                        self.class = class;
                        if let Some(scale) = self.scale {
                            self.floor = self.floor.max(scale.ns(self.cursor.cycles()));
                        }
                        return Some((self.floor, Head::Event));
                    }
                    Ok(None) => {}
                    Err(problem) => account.problems.push(problem),
                }
                self.has_packet = false;
            }
            self.next_packet(account)?;
        }
    }

    fn next_packet(&mut self, account: &mut Account) -> Option<()> {
        let packet = self.packets.next();
        account.problems.append(&mut self.packets.problems);
        let mut packet = packet?;
        self.losses = std::mem::take(&mut packet.losses).into();
        account.bytes += packet.size;
        match self.cursor.start(&self.data, packet) {
            Ok(()) => self.has_packet = true,
            Err(problem) => account.problems.push(problem),
        }
        Some(())
    }

    /// The current event's time.
    pub(crate) fn time(&self) -> Option<i64> {
        Some(self.scale?.ns(self.cursor.cycles()))
    }
}

/// What the merge gives next.
pub(crate) enum Item<'m> {
    Event { lane: &'m mut Lane, class: u32 },
    Loss { stream: usize, loss: Loss },
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

    /// The next item.
    pub(crate) fn next(&mut self) -> Option<Item<'_>> {
        let offered = self.taken.take().and_then(|index| self.offer(index));
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
