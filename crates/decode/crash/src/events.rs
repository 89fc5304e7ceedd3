//! Events in a piece of a sub-buffer: walks over them, and finds the first one after a gap.
//!
//! Events carry no mark of their start. After a gap, each byte is tried as the start of an event:
//! its id must be that of a known event type, its time within the times of the sub-buffer, its
//! fields must fit, and so must all events after it up to the end of the piece. Times have 64 bits
//! and differ little within a sub-buffer, so that other bytes hardly pass.
//!
//! In a forged piece, many starts can lead to long runs that fail at their end. The bytes that are
//! walked over in a piece are therefore limited.

use blkkin_ctf::decode::{Decoder, Machine, NullVisitor, Stop, View};
use std::ops::{Range, RangeInclusive};

/// Events that follow each other without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Bytes of the events.
    pub(crate) place: Range<usize>,
    pub(crate) count: u64,
    /// Times of the first and the last event.
    pub(crate) times: (u64, u64),
    end: RunEnd,
}

/// Cause of the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunEnd {
    /// All bytes are events.
    Complete,
    /// The piece ends within an event.
    CutOff,
    /// The next bytes are no event.
    Invalid,
}

/// Reader of the events of one stream.
#[derive(Debug)]
pub(crate) struct EventWalker<'d> {
    decoder: &'d Decoder,
    machine: Machine,
    stream: usize,
    /// Maximum size of an event, in bytes.
    event_size_max: usize,
    /// Number of bytes of the current piece that may still be walked over.
    bytes_left: usize,
}

/// Size of an event's header, in bytes; no event is smaller.
const HEADER_SIZE: usize = blkkin_ring::HEADER_SIZE;
/// Maximum number of gaps that are searched for a next event in one piece.
const SEARCHES_MAX: usize = 16;
/// Number of times that each byte of a piece is walked over on average, at most. The searches
/// of a valid piece take little more than one walk and, for each gap, a header for each byte.
const WALKS_MAX: usize = 64;

impl<'d> EventWalker<'d> {
    pub(crate) fn new(decoder: &'d Decoder, stream: usize, event_size_max: usize) -> Self {
        EventWalker { decoder, machine: decoder.machine(), stream, event_size_max, bytes_left: 0 }
    }

    /// Returns the events in `piece`, a range of `bytes` without gaps, as runs in their order. The
    /// first event starts at the piece's start if `has_start` is set, else at an unknown place. The
    /// times of all events are within `times`.
    pub(crate) fn runs(
        &mut self,
        bytes: &[u8],
        piece: Range<usize>,
        has_start: bool,
        times: RangeInclusive<u64>,
    ) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let (mut at, mut times) = (piece.start, times);
        self.bytes_left = piece.len().saturating_mul(WALKS_MAX);
        if has_start {
            let run = self.run(bytes, at..piece.end, &times);
            let is_over = run.end != RunEnd::Invalid;
            (at, times) = (run.place.end, run.times.1.max(*times.start())..=*times.end());
            runs.extend(Some(run).filter(|run| run.count > 0));
            if is_over {
                return runs;
            }
        }
        for _ in 0..SEARCHES_MAX {
            let Some(run) = self.search(bytes, at..piece.end, &times) else { break };
            let is_over = run.end != RunEnd::Invalid;
            (at, times) = (run.place.end, run.times.1..=*times.end());
            runs.push(run);
            if is_over {
                break;
            }
        }
        runs
    }

    /// Finds the first run of events in a piece. A run up to the piece's end is better than others.
    /// If the limit of bytes is reached, the longest run so far is found.
    fn search(
        &mut self,
        bytes: &[u8],
        piece: Range<usize>,
        times: &RangeInclusive<u64>,
    ) -> Option<Run> {
        /// Number of events that a run must have if it ends before the piece does.
        const COUNT_MIN: u64 = 3;
        let mut other: Option<Run> = None;
        // An event that began before the piece ends within this size.
        let last = (piece.start + self.event_size_max).min(piece.end.saturating_sub(HEADER_SIZE));
        for start in piece.start..=last {
            if self.bytes_left == 0 {
                break;
            }
            let run = self.run(bytes, start..piece.end, times);
            if run.count > 0 && run.end != RunEnd::Invalid {
                return Some(run);
            }
            let best = other.as_ref().map_or(COUNT_MIN - 1, |other| other.count);
            if run.count > best {
                other = Some(run);
            }
        }
        other
    }

    /// Walks over events from the start of a piece.
    fn run(&mut self, bytes: &[u8], piece: Range<usize>, times: &RangeInclusive<u64>) -> Run {
        let (start, time) = (piece.start, *times.start());
        let mut run =
            Run { place: start..start, count: 0, times: (time, time), end: RunEnd::Complete };
        let view = View::whole(bytes.get(piece).unwrap_or_default());
        let mut position = 0;
        while position < view.end_bits() {
            let earliest = if run.count == 0 { *times.start() } else { run.times.1 };
            match self.event(view, &mut position, earliest..=*times.end()) {
                Ok(time) => run.times = (if run.count == 0 { time } else { run.times.0 }, time),
                Err(end) => {
                    run.end = end;
                    break;
                }
            }
            run.count += 1;
            run.place.end = start + (position / 8) as usize;
        }
        run
    }

    /// Walks over an event whose time is within `times`, and returns its time.
    fn event(
        &mut self,
        view: View<'_>,
        position: &mut u64,
        times: RangeInclusive<u64>,
    ) -> Result<u64, RunEnd> {
        let (stream, machine, start) = (self.stream, &mut self.machine, *position);
        let left = self.bytes_left.checked_sub(1).ok_or(RunEnd::Invalid)?;
        self.bytes_left = left;
        let event = self.decoder.event_header(stream, view, position, machine)?;
        let time = machine.clock;
        if !times.contains(&time) {
            return Err(RunEnd::Invalid);
        }
        let body =
            self.decoder.event_body(stream, event, view, position, machine, &mut NullVisitor);
        // Text without an end is searched up to the end of the piece.
        let end = if body.is_ok() { *position } else { view.end_bits() };
        let walked = (end.saturating_sub(start) / 8) as usize;
        self.bytes_left = left.saturating_sub(walked);
        body?;
        Ok(time)
    }
}

impl From<Stop> for RunEnd {
    fn from(stop: Stop) -> RunEnd {
        match stop {
            Stop::Incomplete => RunEnd::CutOff,
            Stop::Invalid(_) => RunEnd::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Zeros are events of type 0 from each byte on, but the piece ends with bytes that are no
    /// event. Without a limit, the walks over this piece take hours.
    #[test]
    fn time_for_self_similar_pieces_is_limited() {
        const SIZE: usize = 2 << 20;
        let decoder = crate::tests::decoder();
        let mut bytes = vec![0; SIZE];
        bytes[SIZE - 64..].fill(0xff);
        for has_start in [true, false] {
            let mut walker = EventWalker::new(&decoder, 0, SIZE / 2);
            let start = Instant::now();
            let runs = walker.runs(&bytes, 0..SIZE, has_start, 0..=5);
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
            // The walk ends within the invalid bytes or before them.
            assert_eq!(runs[0].place.start, 0);
            assert!(runs[0].place.len() > SIZE - 128, "{runs:?}");
        }
    }
}
