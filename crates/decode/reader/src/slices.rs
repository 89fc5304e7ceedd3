//! Cuts a reading into slices of time that can be worked on independently.
//!
//! A slice is all that happened in [T0, T1): for each stream the packets that overlap it, and for
//! one that began before T0 the place of its first event in the slice. Where packets begin is
//! known from their headers, so most cuts cost nothing: T1 is taken where the next packet begins,
//! and only packets of other streams that straddle T1 are walked, once, to find the place to go
//! on from. A packet larger than a slice should be is cut inside, by walking it.

use crate::cursor::{Cursor, Resume};
use crate::packets::{PacketRef, StreamPackets};
use crate::trace::TraceData;
use blkkin_ctf::clock::TimeScale;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of packets that a slice should have.
const SLICE_SIZE: u64 = 1 << 20;
/// A slice with more is cut within a packet.
const SLICE_SIZE_MAX: u64 = 4 << 20;

/// What happened in a span of time.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) parts: Vec<Part>,
    /// Exclusive end; `None`: everything.
    pub(crate) until: Option<i64>,
    /// Bytes to be read, roughly.
    pub(crate) size: u64,
    pub(crate) problems: Vec<crate::error::Problem>,
}

/// A stream's share of a slice.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) stream: usize,
    pub(crate) packets: VecDeque<(PacketRef, Option<Resume>)>,
    /// The stream's latest time before.
    pub(crate) floor: i64,
}

#[derive(Debug)]
struct Supply {
    data: Arc<TraceData>,
    scale: TimeScale,
    packets: StreamPackets,
    next: Option<PacketRef>,
    /// Packets that began before the next slice and reach into it; only the first has been cut.
    open: VecDeque<(PacketRef, Option<Resume>)>,
    /// Latest end of the packets so far.
    end: i64,
    floor: i64,
}

impl Supply {
    fn pull(&mut self) {
        if let Some(packet) = self.next.take() {
            self.end = self.end.max(packet.end_ns.unwrap_or(i64::MAX));
            self.open.push_back((packet, None));
        }
        self.next = self.packets.next();
    }

    /// When the next packet counts as begun: not before the ones before it ended.
    fn next_begin(&self) -> Option<i64> {
        let next = self.next.as_ref()?;
        Some(next.begin_ns.unwrap_or(i64::MIN).max(self.end))
    }

    fn open_size(&self) -> u64 {
        let left = |(packet, resume): &(PacketRef, Option<Resume>)| {
            packet.size.saturating_sub(resume.map_or(0, |resume| resume.position_bytes()))
        };
        self.open.iter().map(left).sum()
    }

    /// Where the first event at or after `until` starts in a packet, and the latest time before
    /// it. `None` if all of it is before.
    fn find(
        &self,
        packet: &PacketRef,
        resume: Option<Resume>,
        floor: i64,
        stop: impl Fn(i64, u64) -> bool,
    ) -> Option<(Resume, i64, i64)> {
        let mut cursor = Cursor::new(&self.data, 256 << 10);
        cursor.start(&self.data, packet.clone(), resume).ok()?;
        let mut floor = floor;
        loop {
            let clock = cursor.cycles();
            cursor.next(&self.data).ok()??;
            let time = floor.max(self.scale.ns(cursor.cycles()));
            if stop(time, cursor.position() / 8) {
                return Some((cursor.resume(clock), floor, time));
            }
            floor = time;
        }
    }

    /// Takes what happened before `until`.
    fn take(&mut self, stream: usize, until: Option<i64>) -> Option<Part> {
        let mut part = Part { stream, packets: VecDeque::new(), floor: self.floor };
        while let Some((packet, resume)) = self.open.pop_front() {
            let end = packet.end_ns.unwrap_or(i64::MAX).max(self.floor);
            let place = until
                .filter(|&until| end >= until)
                .and_then(|until| self.find(&packet, resume, self.floor, |time, _| time >= until));
            let straddles = place.is_some();
            part.packets.push_back((packet.clone(), resume));
            if let Some((place, floor, _)) = place {
                self.floor = floor;
                self.open.push_front((packet, Some(place)));
            } else {
                self.floor = self.floor.max(packet.end_ns.unwrap_or(self.floor));
            }
            if straddles {
                break;
            }
        }
        (!part.packets.is_empty()).then_some(part)
    }
}

/// Makes slices, the earliest first.
#[derive(Debug)]
pub(crate) struct Slicer {
    supplies: Vec<Supply>,
    done: bool,
    wanted: (Option<i64>, Option<i64>),
}

impl Slicer {
    /// `None` if the streams cannot be cut: their packets do not say when they begin and end.
    pub(crate) fn new(
        streams: Vec<(Arc<TraceData>, usize, StreamPackets)>,
        wanted: (Option<i64>, Option<i64>),
    ) -> Result<Slicer, Vec<StreamPackets>> {
        let mut supplies = Vec::with_capacity(streams.len());
        let mut fit = true;
        for (data, class, mut packets) in streams {
            let scale = data.scale(class);
            let next = packets.next();
            fit &= scale.is_some()
                && next
                    .as_ref()
                    .is_none_or(|next| next.begin_ns.is_some() && next.end_ns.is_some());
            let scale = scale.unwrap_or(TimeScale::IDENTITY);
            let open = VecDeque::new();
            let (end, floor) = (i64::MIN, i64::MIN);
            supplies.push(Supply { data, scale, packets, next, open, end, floor });
        }
        match fit {
            true => Ok(Slicer { supplies, done: false, wanted }),
            false => Err(supplies.into_iter().map(|supply| supply.packets).collect()),
        }
    }

    fn skip_unwanted(&mut self) {
        let (begin, end) = self.wanted;
        for supply in &mut self.supplies {
            while let Some(next) = &supply.next {
                let before = begin.is_some_and(|begin| next.end_ns.is_some_and(|end| end < begin));
                let after = end.is_some_and(|end| next.begin_ns.is_some_and(|begin| begin > end));
                if after {
                    supply.next = None;
                } else if before {
                    supply.next = supply.packets.next();
                } else {
                    break;
                }
            }
        }
    }
}

impl Iterator for Slicer {
    type Item = Slice;

    fn next(&mut self) -> Option<Slice> {
        if self.done {
            return None;
        }
        self.skip_unwanted();
        let mut size: u64 = self.supplies.iter().map(Supply::open_size).sum();
        let mut pulled = 0;
        let next_supply = |supplies: &[Supply]| {
            (0..supplies.len())
                .filter_map(|index| Some((supplies[index].next_begin()?, index)))
                .min()
        };
        while pulled == 0 || size < SLICE_SIZE {
            if size > SLICE_SIZE_MAX {
                break;
            }
            let Some((_, index)) = next_supply(&self.supplies) else { break };
            self.supplies[index].pull();
            self.skip_unwanted();
            pulled += 1;
            size = self.supplies.iter().map(Supply::open_size).sum();
        }
        let mut until = next_supply(&self.supplies).map(|(begin, _)| begin);
        if size > SLICE_SIZE_MAX {
            let largest = self.supplies.iter().max_by_key(|supply| supply.open_size())?;
            if let Some((packet, resume)) = largest.open.front() {
                let start = resume.map_or(0, |resume| resume.position_bytes());
                let found = largest.find(packet, *resume, largest.floor, |_, position| {
                    position >= start + SLICE_SIZE_MAX / 2
                });
                if let Some((_, _, time)) = found {
                    let first = largest.floor.saturating_add(1);
                    until = Some(until.map_or(time.max(first), |until| until.min(time.max(first))));
                }
            }
        }
        self.done = until.is_none();
        let mut problems = Vec::new();
        let mut parts = Vec::with_capacity(self.supplies.len());
        for (stream, supply) in self.supplies.iter_mut().enumerate() {
            parts.extend(supply.take(stream, until));
            problems.append(&mut supply.packets.problems);
        }
        Some(Slice { parts, until, size: size.min(2 * SLICE_SIZE_MAX), problems })
    }
}
