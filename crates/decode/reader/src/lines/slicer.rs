//! Cuts time into slices, of a few packets of each stream.
//!
//! A slice ends where a packet of any stream begins. Packets that go on beyond that belong
//! to the next slice too, which passes over what was in this one: half a packet of each stream, on
//! average. So slices should be of several packets of each stream; but several of them must fit
//! into memory as text, and there should be enough of them for all threads until the end.

use crate::error::Problem;
use crate::packets::{PacketRef, StreamPackets};
use crate::reading::Reading;
use std::collections::VecDeque;

/// Slices for each thread, if the traces are large enough.
const SLICES_PER_THREAD: u64 = 16;
/// Bytes of packets that are enough for a slice, if it has two packets of each stream.
const SLICE_SIZE_GOOD: u64 = 1 << 20;
/// Most bytes of packets.
const SLICE_SIZE_MAX: u64 = 16 << 20;

/// A part of the time, to be printed by one thread.
#[derive(Debug)]
pub(super) struct Slice {
    /// From 0, in order of time.
    pub(super) number: usize,
    /// From when (inclusive) to when (exclusive).
    pub(super) span: (i64, Option<i64>),
    /// By stream.
    pub(super) parts: Vec<Part>,
    /// Whether the parts go on to their streams' ends, because what comes next cannot be cut.
    pub(super) is_rest: bool,
}

/// A slice of one stream.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) packets: VecDeque<PacketRef>,
    /// How many of the packets an earlier slice has begun.
    pub(super) begun: usize,
    /// Number of the stream's last packet that any slice so far has begun.
    pub(super) last_number: u64,
}

#[derive(Debug)]
pub(super) struct Slicer<'r> {
    reading: &'r Reading<'r>,
    sources: Vec<Source>,
    number: usize,
    /// Where the next slice begins.
    begin: i64,
    slice_size: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Source {
    packets: StreamPackets,
    next: Option<PacketRef>,
    /// Packets of the slice that is being made.
    open: VecDeque<PacketRef>,
    /// How many of these an earlier slice has begun.
    begun: usize,
    last_number: u64,
    /// When the last packet ends.
    last_end: i64,
}

impl<'r> Slicer<'r> {
    pub(super) fn new(reading: &'r Reading<'r>) -> Slicer<'r> {
        let sources: Vec<Source> =
            (0..reading.stream_count()).map(|n| Source::new(reading.packets(n))).collect();
        let row: u64 = sources.iter().flat_map(|source| &source.next).map(|next| next.size).sum();
        Slicer {
            reading,
            sources,
            number: 0,
            begin: i64::MIN,
            slice_size: reading.slice_size.unwrap_or_else(|| slice_size(reading, row)),
            is_over: false,
        }
    }

    /// The next slice.
    pub(super) fn next(&mut self) -> Option<Slice> {
        if self.is_over {
            return None;
        }
        let (end, is_rest) = match self.pull() {
            Cut::At(end) => (Some(end), false),
            Cut::AtEnd => (None, false),
            Cut::Impossible => (None, true),
        };
        self.is_over = end.is_none();
        let parts = self.sources.iter().map(|source| Part {
            packets: source.open.clone(),
            begun: source.begun,
            last_number: source.last_number,
        });
        let (number, span, parts) = (self.number, (self.begin, end), parts.collect());
        let slice = Slice { number, span, parts, is_rest };
        self.number += 1;
        if let Some(end) = end {
            self.begin = end;
            for source in &mut self.sources {
                source.close(end);
            }
        }
        Some(slice)
    }

    /// What was found wrong between packets.
    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        let problems = |source: &mut Source| std::mem::take(&mut source.packets.problems);
        self.sources.iter_mut().flat_map(problems).collect()
    }

    /// Pulls the packets of a slice, and says where it ends.
    fn pull(&mut self) -> Cut {
        let mut size: u64 = 0;
        let mut cut = None;
        loop {
            let next = |(index, source): (usize, &Source)| Some((source.due()?, index));
            let next = self.sources.iter().enumerate().filter_map(next).min();
            let Some((due, index)) = next else { return Cut::AtEnd };
            if let Some(cut) = cut.filter(|cut| due >= *cut) {
                return Cut::At(cut);
            }
            let source = &mut self.sources[index];
            if due < self.begin || !source.next_is_in_order() {
                return Cut::Impossible;
            }
            if self.reading.end.is_some_and(|end| due > end) {
                return Cut::AtEnd;
            }
            if size >= self.slice_size && due > self.begin && due < i64::MAX {
                // Right behind the start of a packet. Before it, the packet before would have to
                // be passed over in whole, because it ends when this one starts.
                cut = Some(due + 1);
            }
            size += source.pull(self.reading.begin);
        }
    }
}

/// Bytes of packets in a slice, where one packet of each stream has `row` bytes.
fn slice_size(reading: &Reading<'_>, row: u64) -> u64 {
    let even = reading.total_bytes() / (SLICES_PER_THREAD * reading.threads as u64);
    even.clamp(row, row.saturating_mul(2).max(SLICE_SIZE_GOOD)).min(SLICE_SIZE_MAX)
}

/// Where a slice ends.
enum Cut {
    At(i64),
    AtEnd,
    /// Packets do not say when they begin and end, or not in order.
    Impossible,
}

impl Source {
    fn new(packets: StreamPackets) -> Source {
        let open = VecDeque::new();
        let (begun, last_number, last_end) = (0, 0, i64::MIN);
        let mut source = Source { packets, next: None, open, begun, last_number, last_end };
        source.next = source.packets.next();
        source
    }

    /// When the next packet, or what was lost before it, begins.
    fn due(&self) -> Option<i64> {
        let packet = self.next.as_ref()?;
        let losses = packet.losses.iter().filter_map(|loss| Some(loss.from?.0));
        Some(packet.begin_ns.into_iter().chain(losses).min().unwrap_or(i64::MIN))
    }

    fn next_is_in_order(&self) -> bool {
        let times = self.next.as_ref().map(|next| (next.begin_ns, next.end_ns));
        matches!(times, Some((Some(begin), Some(end))) if self.last_end <= begin && begin <= end)
    }

    /// Moves the next packet to the open ones, unless it ends before `begin`; gives its size.
    fn pull(&mut self, begin: Option<i64>) -> u64 {
        let Some(packet) = std::mem::replace(&mut self.next, self.packets.next()) else { return 0 };
        self.last_number = packet.number;
        self.last_end = packet.end_ns.unwrap_or(i64::MAX);
        if matches!((packet.end_ns, begin), (Some(end), Some(begin)) if end < begin) {
            return 0;
        }
        let size = packet.size;
        self.open.push_back(packet);
        size
    }

    /// Leaves open what goes on in the slice that begins at `begin`.
    fn close(&mut self, begin: i64) {
        self.open.retain(|packet| packet.end_ns.is_none_or(|end| end >= begin));
        for packet in &mut self.open {
            packet.losses.clear();
        }
        self.begun = self.open.len();
    }
}
