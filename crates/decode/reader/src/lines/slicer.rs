//! Cuts time into slices, of a few packets of each stream.
//!
//! A slice ends where a packet of any stream begins. Packets that go on beyond that belong
//! to the next slice too, which passes over what was in this one: half a packet of each stream, on
//! average. So slices should be of several packets of each stream; but several of them must fit
//! into memory as text, and there should be enough of them for all threads until the end.
//!
//! Where packets are too large for that, a [`Scout`] in each stream moves over events without
//! looking at them, in steps of a few kilobytes, the stream that is behind first. A slice ends at
//! the time that all scouts have passed, and the next one begins at the scouts' last marks before
//! that time. Scouts cost what counting the events does, a tenth of printing them. What they read
//! of a slice is handed over with it, so that most bytes are read from the file once.

use crate::cursor::{Cursor, ReadBytes};
use crate::error::Problem;
use crate::packet::Mark;
use crate::packet::PacketRef;
use crate::packets::StreamPackets;
use crate::reading::Reading;
use crate::trace::TraceData;
use blkkin_ctf::clock::TimeScale;
use std::collections::VecDeque;
use std::sync::Arc;

/// Slices for each thread, if the traces are large enough.
const SLICES_PER_THREAD: u64 = 16;
/// Bytes of packets that are enough for a slice, if it has two packets of each stream.
const SLICE_SIZE_GOOD: u64 = 1 << 20;
/// Most bytes of packets.
const SLICE_SIZE_MAX: u64 = 16 << 20;
/// Slices are cut within packets where one packet of each stream has more bytes than this, which
/// the threads that wait for their turn share.
const WHOLE_SIZE_MAX: u64 = 1 << 20;
/// The least share of one thread.
const WHOLE_SIZE_SHARE_MIN: u64 = 256 << 10;
/// Bytes of packets of a slice that is cut within packets. As text they fit into what the threads
/// may keep, and what is read of them still is in a processor's cache when they are printed.
const SCOUTED_SIZE: u64 = 128 << 10;
/// Most streams that have scouts, each of which has a window.
const SCOUTS_MAX: usize = 64;
/// Most streams whose scouts hand over what they have read, which takes memory for each stream of
/// each slice.
const HANDING_OVER_MAX: usize = 16;
/// Bytes of a scout's window. Each slice copies the unread rest of it.
const SCOUT_WINDOW_SIZE: usize = 64 << 10;
/// Places that a scout remembers. Behind its last one may be the slice's end, and one more step
/// ahead of others.
const MARKS: usize = 4;
/// Most bytes of a scout's step.
const STEP_SIZE_MAX: u64 = 32 << 10;

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
    /// Bytes of the last packet, if a scout has read them.
    pub(super) read: Option<ReadBytes>,
}

#[derive(Debug)]
pub(super) struct Slicer<'r> {
    reading: &'r Reading<'r>,
    sources: Vec<Source>,
    number: usize,
    /// Where the next slice begins.
    begin: i64,
    slice_size: u64,
    /// Bytes of a scout's step, if there are scouts.
    step: Option<usize>,
    /// Bytes that each scout keeps to be handed over.
    kept_max: usize,
    /// Buffers for scouts.
    spare: Vec<Vec<u8>>,
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
    scout: Option<Scout>,
}

/// Looks for places in the last open packet where a slice can begin.
#[derive(Debug)]
struct Scout {
    data: Arc<TraceData>,
    scale: TimeScale,
    cursor: Cursor,
    /// The packet's number.
    number: u64,
    /// When it begins and ends.
    span: (i64, i64),
    /// The last positions, newest first; `None` before the first step. No event before a mark is
    /// later than the mark's time.
    marks: [Option<Mark>; MARKS],
    /// Whether there are more events.
    is_active: bool,
}

/// What came of a step.
enum Step {
    Done(u64),
    /// Times are not in order.
    Disorder,
}

impl<'r> Slicer<'r> {
    pub(super) fn new(reading: &'r Reading<'r>) -> Slicer<'r> {
        let sources: Vec<Source> =
            (0..reading.stream_count()).map(|n| Source::new(reading.packets(n))).collect();
        let row: u64 = sources.iter().flat_map(|source| &source.next).map(|next| next.size).sum();
        let waiting = (reading.threads as u64).saturating_sub(1).max(1);
        let whole = (WHOLE_SIZE_MAX / waiting).max(WHOLE_SIZE_SHARE_MIN);
        let is_large = row > reading.slice_size.unwrap_or(whole);
        let is_scouted = is_large && sources.len() <= SCOUTS_MAX;
        let scouted = reading.slice_size.unwrap_or(SCOUTED_SIZE);
        let step = (scouted / (4 * sources.len() as u64).max(1)).clamp(1, STEP_SIZE_MAX);
        let slice_size = match is_scouted {
            true => scouted,
            false => reading.slice_size.unwrap_or_else(|| slice_size(reading, row)),
        };
        let kept_max = match sources.len() <= HANDING_OVER_MAX {
            // A single stream may fill a slice, and scouts overshoot it by some steps.
            true => 2 * scouted.min(SLICE_SIZE_MAX) as usize,
            false => 0,
        };
        Slicer {
            kept_max,
            reading,
            sources,
            number: 0,
            begin: i64::MIN,
            slice_size,
            step: is_scouted.then_some(step as usize),
            spare: Vec::new(),
            is_over: false,
        }
    }

    /// True if packets are so large that slices are cut inside them.
    pub(super) fn cuts_packets(&self) -> bool {
        self.step.is_some()
    }

    /// Takes buffers that scouts can use.
    pub(super) fn reuse(&mut self, spare: &mut Vec<Vec<u8>>) {
        // Buffers that grew for one large event are freed.
        spare.retain(|buffer| buffer.len() <= self.kept_max + 2 * SCOUT_WINDOW_SIZE);
        self.spare.append(spare);
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
            read: None,
        });
        let (number, span, mut parts) = (self.number, (self.begin, end), parts.collect::<Vec<_>>());
        self.number += 1;
        if let Some(end) = end {
            self.begin = end;
            for (source, part) in self.sources.iter_mut().zip(&mut parts) {
                part.read = source.close(end, &mut self.spare);
            }
        }
        Some(Slice { number, span, parts, is_rest })
    }

    /// What was found wrong between packets.
    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        let problems = |source: &mut Source| std::mem::take(&mut source.packets.problems);
        self.sources.iter_mut().flat_map(problems).collect()
    }

    /// Moves a scout on, the one that is behind all others, and with it the next one if it would be behind then: two
    /// walks take hardly more time than one. Gives how far in bytes.
    fn step(&mut self, index: usize) -> Step {
        let size = self.step.unwrap_or(0);
        let reached = self.sources[index].scout.as_ref().and_then(Scout::reached_by_next_step);
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != index);
        let next = others.filter_map(|(other, source)| Some((source.scouted()?, other))).min();
        let next = next.filter(|(time, _)| reached.is_some_and(|reached| *time <= reached));
        let pair = next.and_then(|(_, next)| {
            let [one, next] = self.sources.get_disjoint_mut([index, next]).ok()?;
            Some((one.scout.as_mut()?, next.scout.as_mut()?))
        });
        if let Some((one, next)) = pair {
            let cursors = ((&mut one.cursor, &*one.data), (&mut next.cursor, &*next.data));
            let [of_one, of_next] = Cursor::skip_some_together(cursors.0, cursors.1, size);
            return one.note(of_one).and(next.note(of_next));
        }
        let Some(scout) = &mut self.sources[index].scout else { return Step::Done(0) };
        let moved = scout.cursor.skip_some(&scout.data, size);
        scout.note(moved)
    }

    /// Pulls the packets of a slice, and says where it ends.
    fn pull(&mut self) -> Cut {
        let mut size: u64 = 0;
        let mut cut = None;
        loop {
            let next = |(index, source): (usize, &Source)| Some((source.due()?, index));
            let next = self.sources.iter().enumerate().filter_map(next).min();
            let scout = |(index, source): (usize, &Source)| Some((source.scouted()?, index));
            let scout = self.sources.iter().enumerate().filter_map(scout).min();
            if let Some((time, index)) = scout.filter(|_| cut.is_none())
                && next.is_none_or(|(due, _)| time <= due)
            {
                if size >= self.slice_size && time >= self.begin && time < i64::MAX {
                    // All scouts have passed all events before this, and packets that begin
                    // until then belong to the slice.
                    cut = Some(time + 1);
                    continue;
                }
                if self.reading.end.is_some_and(|end| time > end) {
                    return Cut::AtEnd;
                }
                match self.step(index) {
                    Step::Done(bytes) => size += bytes,
                    Step::Disorder => return Cut::Impossible,
                }
                continue;
            }
            let Some((due, index)) = next else {
                // What is left is in open packets.
                return cut.map_or(Cut::AtEnd, Cut::At);
            };
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
            let pulled = source.pull(self.reading.begin);
            let is_scouted = match self.step {
                Some(step) if pulled > 2 * step as u64 => {
                    source.begin_scout(self.reading, index, self.kept_max)
                }
                _ => false,
            };
            size += if is_scouted { 0 } else { pulled };
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
        let scout = None;
        let mut source = Source { packets, next: None, open, begun, last_number, last_end, scout };
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
        if let Some(scout) = &mut self.scout {
            scout.is_active = false;
        }
        self.last_number = packet.number;
        self.last_end = packet.end_ns.unwrap_or(i64::MAX);
        if matches!((packet.end_ns, begin), (Some(end), Some(begin)) if end < begin) {
            return 0;
        }
        let size = packet.size;
        self.open.push_back(packet);
        size
    }

    /// Leaves open what goes on in the slice that begins at `begin`, and gives what was read for
    /// the one before.
    fn close(&mut self, begin: i64, spare: &mut Vec<Vec<u8>>) -> Option<ReadBytes> {
        self.open.retain(|packet| packet.end_ns.is_none_or(|end| end >= begin));
        for packet in &mut self.open {
            packet.losses.clear();
        }
        let mut read = None;
        if let (Some(scout), Some(packet)) = (&mut self.scout, self.open.back_mut())
            && scout.number == packet.number
            && let Some(mark) = scout.mark_before(begin)
        {
            packet.mark = Some(mark);
            read = scout.cursor.hand_over(mark.position / 8, spare);
        }
        self.begun = self.open.len();
        read
    }

    /// Until when the scout has come.
    fn scouted(&self) -> Option<i64> {
        let scout = self.scout.as_ref().filter(|scout| scout.is_active)?;
        Some(scout.time())
    }

    /// Starts a scout in the packet that was opened last, which keeps up to `kept_max` bytes; `false`
    /// if that cannot be.
    fn begin_scout(&mut self, reading: &Reading<'_>, stream: usize, kept_max: usize) -> bool {
        let Some(packet) = self.open.back() else { return false };
        let (trace, stream) = reading.stream(stream);
        let (Some(begin), Some(end)) = (packet.begin_ns, packet.end_ns) else { return false };
        let Some(scale) = trace.scale(stream.class) else { return false };
        let mut cursor = match self.scout.take() {
            Some(scout) => scout.cursor,
            None => Cursor::new(&trace.data, SCOUT_WINDOW_SIZE),
        };
        cursor.keep(kept_max);
        let data = trace.data.clone();
        let span = (begin, end);
        let (number, marks) = (packet.number, [None; MARKS]);
        let mut scout = Scout { data, scale, cursor, number, span, marks, is_active: true };
        scout.is_active = scout.cursor.start(&scout.data, packet.clone()).is_ok();
        let is_active = scout.is_active;
        self.scout = Some(scout);
        is_active
    }
}

impl Step {
    fn and(self, other: Step) -> Step {
        match (self, other) {
            (Step::Done(one), Step::Done(other)) => Step::Done(one + other),
            _ => Step::Disorder,
        }
    }
}

impl Scout {
    /// Until when it has come.
    fn time(&self) -> i64 {
        self.marks[0].map_or(self.span.0, |mark| mark.ns)
    }

    /// Until when it will probably have come after its next step.
    fn reached_by_next_step(&self) -> Option<i64> {
        let (last, before) = (self.marks[0]?, self.marks[1]?);
        Some(last.ns.saturating_add(last.ns.saturating_sub(before.ns)))
    }

    /// Notes a step.
    fn note(&mut self, moved: Option<(Mark, bool)>) -> Step {
        let Some((mark, more)) = moved else { return Step::Disorder };
        let before = self.marks[0].map_or(0, |mark| mark.position);
        // An event before its packet's time counts as happening at its begin.
        let time = self.scale.ns(mark.clock);
        if time > self.span.1 {
            return Step::Disorder;
        }
        self.marks.rotate_right(1);
        self.marks[0] = Some(Mark { ns: time.max(self.span.0), ..mark });
        self.is_active = more;
        Step::Done((mark.position - before) / 8)
    }

    /// The last place behind which all events from `begin` on are.
    fn mark_before(&self, begin: i64) -> Option<Mark> {
        self.marks.into_iter().flatten().find(|mark| mark.ns < begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::{Source as Path, open};
    use std::fs;

    const METADATA: &str = "/* CTF 1.8 */
        typealias integer { size = 32; align = 8; } := u32;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };
        clock { name = c; freq = 1000000000; };
        typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
        stream {
          packet.context := struct {
            time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size;
          };
          event.header := struct { time timestamp; };
        };
        event { name = e; fields := struct { u32 x; }; };";

    /// Slices of a packet of so many events, at these times; the largest number of bytes that a
    /// slice has of it, from where it begins.
    fn slices(count: u64, time: impl Fn(u64) -> u64) -> (usize, u64) {
        let directory = tempfile::tempdir().expect("a folder");
        fs::write(directory.path().join("metadata"), METADATA).expect("to write");
        let size = 28 + 12 * count as u32;
        let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
        bytes.extend(time(0).to_le_bytes());
        bytes.extend(time(count - 1).to_le_bytes());
        bytes.extend([size * 8, size * 8].map(u32::to_le_bytes).concat());
        for number in 0..count {
            bytes.extend(time(number).to_le_bytes());
            bytes.extend((number as u32).to_le_bytes());
        }
        fs::write(directory.path().join("stream"), bytes).expect("to write");
        let opened = open(&[Path::Path(directory.path().to_owned())]);
        let reading = Reading::new(&opened.traces).threads(2);
        let mut slicer = Slicer::new(&reading);
        let mut starts = Vec::new();
        while let Some(slice) = slicer.next() {
            // The last slice may have nothing.
            let packet = slice.parts[0].packets.back();
            let start = |packet: &PacketRef| packet.mark.map_or(0, |mark| mark.position / 8);
            starts.extend(packet.map(start));
        }
        assert!(starts.is_sorted(), "{starts:?}");
        let ends = starts[1..].iter().copied().chain([u64::from(size)]);
        let largest = starts.iter().zip(ends).map(|(start, end)| end - start).max();
        (starts.len(), largest.unwrap_or(0))
    }

    /// A slice once ended only where a packet begins, so that one thread printed eight megabytes
    /// while the other one waited.
    #[test]
    fn slices_end_within_a_large_packet() {
        let near = SCOUTED_SIZE + 4 * STEP_SIZE_MAX;
        // Evenly, all at its end, and with many events at each time.
        let times: [fn(u64) -> u64; 3] = [
            |number| 1000 + 10 * number,
            |number| if number < 500_000 { number } else { 1_000_000_000 + number },
            |number| number / 1000,
        ];
        for time in times {
            let (count, largest) = slices(700_000, time);
            assert!((50..=68).contains(&count), "{count} slices");
            assert!(largest <= near, "{largest} bytes");
        }
        // What happened at one time cannot be cut.
        assert_eq!(slices(700_000, |_| 7).0, 1);
        assert_eq!(slices(80_000, |number| number).0, 1);
    }
}
