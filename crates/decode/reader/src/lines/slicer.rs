//! Division of time into slices of a few packets of each stream.
//!
//! A slice ends right after the begin of a packet of any stream, or of a loss before a packet. A
//! packet that extends beyond that time also belongs to the next slice, which skips its earlier
//! events: half a packet of each stream, on average. So slices should have several packets of each
//! stream. But the text of several slices must fit into memory, and there should be enough slices
//! for all threads until the end.
//!
//! If packets are too large for that, a [`Scout`] in each stream skips over events in steps of at
//! most 32 KiB, always in the stream that is furthest behind. A slice ends at the time that all
//! scouts have passed, and the next slice starts at the scouts' last marks before that time. Scouts
//! cost as much as counting the events, which is a tenth of printing them. If streams are few, a
//! scout hands over its read bytes with the slice, so most bytes are read from the file once.

use crate::alignment::CorrectedScale;
use crate::cursor::{Cursor, PacketBytes};
use crate::error::Problem;
use crate::merge::SliceSpan;
use crate::packet::Mark;
use crate::packet::PacketRef;
use crate::packets::StreamPackets;
use crate::reading::Reading;
use crate::trace::TraceData;
use std::collections::VecDeque;
use std::sync::Arc;

/// Minimum desired number of slices for each thread, if the traces are large enough.
const SLICES_PER_THREAD: u64 = 16;
/// Total packet size up to which a slice may have more than two packets of each stream: 1 MiB.
const SLICE_SIZE_GOOD: u64 = 1 << 20;
/// Maximum desired total size of the packets in a slice, in bytes.
const SLICE_SIZE_MAX: u64 = 16 << 20;
/// Limit for slices of whole packets, in bytes, divided among the threads that wait for their turn.
/// If the first packets of all streams together exceed a thread's share, slices are cut within
/// packets, unless there are more than `SCOUTS_MAX` streams.
const WHOLE_SIZE_MAX: u64 = 1 << 20;
/// Minimum of one thread's share of `WHOLE_SIZE_MAX`, in bytes.
const WHOLE_SIZE_SHARE_MIN: u64 = 256 << 10;
/// Desired number of packet bytes in a slice that is cut within packets: 128 KiB. The slice's text
/// then fits into a thread's limit, and the bytes are still in the processor's cache during
/// printing.
const SCOUTED_SIZE: u64 = 128 << 10;
/// Maximum number of streams in a reading that uses scouts; each scout has a window.
const SCOUTS_MAX: usize = 64;
/// Maximum number of streams in a reading whose scouts hand over their read bytes. The bytes occupy
/// memory for each stream of each slice.
const HANDING_OVER_MAX: usize = 16;
/// Size of a scout's window in bytes. Each handover copies the bytes from the next slice's mark on.
const SCOUT_WINDOW_SIZE: usize = 32 << 10;
/// Number of marks that a scout retains. A scout may be some steps beyond the end of a slice, so a
/// few older marks are needed.
const MARKS: usize = 4;
/// Maximum size of a scout's step, in bytes.
const STEP_SIZE_MAX: u64 = 32 << 10;

/// Range of time whose events one thread prints.
#[derive(Debug)]
pub(super) struct Slice {
    /// Number of the slice in order of time, from 0.
    pub(super) number: usize,
    pub(super) span: SliceSpan,
    /// Packets in the slice, by stream number.
    pub(super) parts: Vec<SlicePart>,
    /// Set if the parts extend to the ends of their streams, because the remaining packets cannot
    /// be divided by time.
    pub(super) extends_to_end: bool,
}

/// Packets that one stream has in a slice.
#[derive(Debug)]
pub(super) struct SlicePart {
    pub(super) packets: VecDeque<PacketRef>,
    /// Number of packets in `packets` that an earlier slice has started.
    pub(super) started_packets: usize,
    /// Number of the stream's last packet that this slice or an earlier one has started or skipped.
    pub(super) last_number: u64,
    /// Bytes of the last packet in `packets` that the stream's scout has read; `None` without a
    /// scout, or if it handed over no bytes.
    pub(super) read: Option<PacketBytes>,
}

#[derive(Debug)]
pub(super) struct Slicer<'r> {
    reading: &'r Reading<'r>,
    streams: Vec<SlicerStream>,
    number: usize,
    /// Begin of the next slice in nanoseconds.
    begin: i64,
    slice_size: u64,
    /// Size of a scout's step in bytes; `None` without scouts.
    step: Option<usize>,
    /// Maximum number of bytes that each scout retains for [`Cursor::hand_over`].
    kept_max: usize,
    /// Spare buffers in which scouts retain bytes.
    spare: Vec<Vec<u8>>,
    is_over: bool,
}

#[derive(Debug)]
struct SlicerStream {
    packets: StreamPackets,
    next: Option<PacketRef>,
    /// Packets that are part of the next slice.
    open: VecDeque<PacketRef>,
    /// Number of open packets that an earlier slice has started.
    started_packets: usize,
    last_number: u64,
    /// End of the stream's last packet so far, in nanoseconds.
    last_end: i64,
    scout: Option<Scout>,
}

/// Cursor that searches the last open packet for positions at which a slice can begin.
#[derive(Debug)]
struct Scout {
    data: Arc<TraceData>,
    scale: CorrectedScale,
    cursor: Cursor,
    /// Number of the packet that the scout reads.
    number: u64,
    /// Begin and end that the packet declares, in nanoseconds.
    span: (i64, i64),
    /// Marks of the last steps, the newest first; `None` before the first step. No event before a
    /// mark is later than the mark's time.
    marks: [Option<Mark>; MARKS],
    /// Set while the packet is the stream's last open packet and may have more events.
    is_active: bool,
}

/// Result of a scout's step. `Moved` has the number of skipped bytes.
enum StepResult {
    Moved(u64),
    /// The packet's times are out of order.
    Disorder,
}

impl<'r> Slicer<'r> {
    pub(super) fn new(reading: &'r Reading<'r>) -> Slicer<'r> {
        let streams: Vec<SlicerStream> =
            (0..reading.stream_count()).map(|n| SlicerStream::new(reading.packets(n))).collect();
        let row: u64 = streams.iter().flat_map(|stream| &stream.next).map(|next| next.size).sum();
        let waiting = (reading.threads as u64).saturating_sub(1).max(1);
        let whole = (WHOLE_SIZE_MAX / waiting).max(WHOLE_SIZE_SHARE_MIN);
        let is_large = row > reading.slice_size.unwrap_or(whole);
        let is_scouted = is_large && streams.len() <= SCOUTS_MAX;
        let scouted_size = reading.slice_size.unwrap_or(SCOUTED_SIZE);
        let step = (scouted_size / (4 * streams.len() as u64).max(1)).clamp(1, STEP_SIZE_MAX);
        let slice_size = match is_scouted {
            true => scouted_size,
            false => reading.slice_size.unwrap_or_else(|| slice_size(reading, row)),
        };
        let kept_max = match streams.len() <= HANDING_OVER_MAX {
            // A single stream may fill a slice, and scouts overshoot its end by some steps.
            true => 2 * scouted_size.min(SLICE_SIZE_MAX) as usize,
            false => 0,
        };
        Slicer {
            kept_max,
            reading,
            streams,
            number: 0,
            begin: i64::MIN,
            slice_size,
            step: is_scouted.then_some(step as usize),
            spare: Vec::new(),
            is_over: false,
        }
    }

    /// Returns true if slices are cut within packets: packets are large, and streams are few enough
    /// for scouts.
    pub(super) fn cuts_packets(&self) -> bool {
        self.step.is_some()
    }

    /// Accepts spare buffers in which scouts can retain bytes.
    pub(super) fn reuse(&mut self, spare: &mut Vec<Vec<u8>>) {
        // Buffers that grew for one large event are freed.
        spare.retain(|buffer| buffer.len() <= self.kept_max + 2 * SCOUT_WINDOW_SIZE);
        self.spare.append(spare);
    }

    /// Returns the next slice in order of time; `None` after the last slice.
    pub(super) fn next(&mut self) -> Option<Slice> {
        if self.is_over {
            return None;
        }
        let (end, is_rest) = match self.pull() {
            SliceEnd::Time(end) => (Some(end), false),
            SliceEnd::EndOfStreams => (None, false),
            SliceEnd::Unsliceable => (None, true),
        };
        self.is_over = end.is_none();
        let parts = self.streams.iter().map(|stream| SlicePart {
            packets: stream.open.clone(),
            started_packets: stream.started_packets,
            last_number: stream.last_number,
            read: None,
        });
        let (number, span) = (self.number, SliceSpan { begin: self.begin, end });
        let mut parts = parts.collect::<Vec<_>>();
        self.number += 1;
        if let Some(end) = end {
            self.begin = end;
            for (stream, part) in self.streams.iter_mut().zip(&mut parts) {
                part.read = stream.end_slice(end, &mut self.spare);
            }
        }
        Some(Slice { number, span, parts, extends_to_end: is_rest })
    }

    /// Removes and returns the problems that were found between packets.
    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        let problems = |stream: &mut SlicerStream| std::mem::take(&mut stream.packets.problems);
        self.streams.iter_mut().flat_map(problems).collect()
    }

    /// Moves the scout of stream `index`, which has the earliest position in time, by one step. If
    /// another scout is then expected to be the earliest, moves that one too: two interleaved walks
    /// take hardly longer than one. Returns the number of bytes skipped by both, or `Disorder`.
    fn step(&mut self, index: usize) -> StepResult {
        let size = self.step.unwrap_or(0);
        let reached = self.streams[index].scout.as_ref().and_then(Scout::next_step_time);
        let others = self.streams.iter().enumerate().filter(|(other, _)| *other != index);
        let next = others.filter_map(|(other, stream)| Some((stream.scout_time()?, other))).min();
        let next = next.filter(|(time, _)| reached.is_some_and(|reached| *time <= reached));
        let pair = next.and_then(|(_, next)| {
            let [one, next] = self.streams.get_disjoint_mut([index, next]).ok()?;
            Some((one.scout.as_mut()?, next.scout.as_mut()?))
        });
        if let Some((one, next)) = pair {
            let cursors = ((&mut one.cursor, &*one.data), (&mut next.cursor, &*next.data));
            let [of_one, of_next] = Cursor::skip_some_of_two(cursors.0, cursors.1, size);
            return one.record_step(of_one).and(next.record_step(of_next));
        }
        let Some(scout) = &mut self.streams[index].scout else { return StepResult::Moved(0) };
        let moved = scout.cursor.skip_some(&scout.data, size);
        scout.record_step(moved)
    }

    /// Collects the packets of the next slice, and returns the slice's end.
    fn pull(&mut self) -> SliceEnd {
        let mut size: u64 = 0;
        let mut cut = None;
        loop {
            let next = |(index, stream): (usize, &SlicerStream)| Some((stream.due_time()?, index));
            let next = self.streams.iter().enumerate().filter_map(next).min();
            let scout =
                |(index, stream): (usize, &SlicerStream)| Some((stream.scout_time()?, index));
            let scout = self.streams.iter().enumerate().filter_map(scout).min();
            if let Some((time, index)) = scout.filter(|_| cut.is_none())
                && next.is_none_or(|(due, _)| time <= due)
            {
                if size >= self.slice_size && time >= self.begin && time < i64::MAX {
                    // All scouts have passed all events before this time. Packets that begin by
                    // then belong to the slice.
                    cut = Some(time + 1);
                    continue;
                }
                if self.reading.end.is_some_and(|end| time > end) {
                    return SliceEnd::EndOfStreams;
                }
                match self.step(index) {
                    StepResult::Moved(bytes) => size += bytes,
                    StepResult::Disorder => return SliceEnd::Unsliceable,
                }
                continue;
            }
            let Some((due, index)) = next else {
                // All remaining events of the streams are in open packets.
                return cut.map_or(SliceEnd::EndOfStreams, SliceEnd::Time);
            };
            if let Some(cut) = cut.filter(|cut| due >= *cut) {
                return SliceEnd::Time(cut);
            }
            let stream = &mut self.streams[index];
            if due < self.begin || !stream.next_is_in_order() {
                return SliceEnd::Unsliceable;
            }
            if self.reading.end.is_some_and(|end| due > end) {
                return SliceEnd::EndOfStreams;
            }
            if size >= self.slice_size && due > self.begin && due < i64::MAX {
                // The cut is right after the packet's begin. With a cut before it, the next slice
                // would have to skip the whole previous packet, which ends when this one begins.
                cut = Some(due + 1);
            }
            let pulled = stream.pull(self.reading.begin);
            let is_scouted = match self.step {
                Some(step) if pulled > 2 * step as u64 => {
                    stream.start_scout(self.reading, index, self.kept_max)
                }
                _ => false,
            };
            size += if is_scouted { 0 } else { pulled };
        }
    }
}

/// Returns the desired size in bytes of the packets in a slice. `row` is the total size of one
/// packet of each stream.
fn slice_size(reading: &Reading<'_>, row: u64) -> u64 {
    let even = reading.total_bytes() / (SLICES_PER_THREAD * reading.threads as u64);
    even.clamp(row, row.saturating_mul(2).max(SLICE_SIZE_GOOD)).min(SLICE_SIZE_MAX)
}

/// End of a slice: a time, or the reason why the slice has no end time.
enum SliceEnd {
    Time(i64),
    EndOfStreams,
    /// A packet declares no begin or no end, or the times of packets or events are out of order.
    Unsliceable,
}

impl SlicerStream {
    fn new(packets: StreamPackets) -> SlicerStream {
        let open = VecDeque::new();
        let (started_packets, last_number, last_end) = (0, 0, i64::MIN);
        let scout = None;
        let mut stream = SlicerStream {
            packets,
            next: None,
            open,
            started_packets,
            last_number,
            last_end,
            scout,
        };
        stream.next = stream.packets.next();
        stream
    }

    /// Returns the begin of the next packet, or of a loss before it if that is earlier; `i64::MIN`
    /// if neither is known. Returns `None` if the stream has no more packets.
    fn due_time(&self) -> Option<i64> {
        let packet = self.next.as_ref()?;
        let losses = packet.losses.iter().filter_map(|loss| Some(loss.from?.0));
        Some(packet.begin_ns.into_iter().chain(losses).min().unwrap_or(i64::MIN))
    }

    fn next_is_in_order(&self) -> bool {
        let times = self.next.as_ref().map(|next| (next.begin_ns, next.end_ns));
        matches!(times, Some((Some(begin), Some(end))) if self.last_end <= begin && begin <= end)
    }

    /// Moves the next packet to the open packets. Returns the packet's size in bytes, or 0 if there
    /// is no packet or the packet ends before `begin` and is dropped.
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

    /// Ends a slice. Retains the open packets that extend into the next slice, which starts at
    /// `begin`. Returns the bytes of the last packet that the scout hands over, if any.
    fn end_slice(&mut self, begin: i64, spare: &mut Vec<Vec<u8>>) -> Option<PacketBytes> {
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
        self.started_packets = self.open.len();
        read
    }

    /// Returns the time that the stream's scout has reached; `None` without an active scout.
    fn scout_time(&self) -> Option<i64> {
        let scout = self.scout.as_ref().filter(|scout| scout.is_active)?;
        Some(scout.time())
    }

    /// Starts a scout in the last open packet. The scout retains up to `kept_max` bytes. Returns
    /// false if no packet is open, the packet declares no begin or no end, its stream has no clock,
    /// or the packet cannot be read.
    fn start_scout(&mut self, reading: &Reading<'_>, stream: usize, kept_max: usize) -> bool {
        let Some(packet) = self.open.back() else { return false };
        let (trace, stream) = reading.stream(stream);
        let (Some(begin), Some(end)) = (packet.begin_ns, packet.end_ns) else { return false };
        let Some(scale) = trace.data.scale(stream.class) else { return false };
        let mut cursor = match self.scout.take() {
            Some(scout) => scout.cursor,
            None => Cursor::new(&trace.data, SCOUT_WINDOW_SIZE),
        };
        cursor.retain(kept_max);
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

impl StepResult {
    fn and(self, other: StepResult) -> StepResult {
        match (self, other) {
            (StepResult::Moved(one), StepResult::Moved(other)) => StepResult::Moved(one + other),
            _ => StepResult::Disorder,
        }
    }
}

impl Scout {
    /// Returns the time in nanoseconds that the scout has reached.
    fn time(&self) -> i64 {
        self.marks[0].map_or(self.span.0, |mark| mark.ns)
    }

    /// Returns an estimate of the time that the scout will reach with its next step; `None` before
    /// it has made two steps.
    fn next_step_time(&self) -> Option<i64> {
        let (last, before) = (self.marks[0]?, self.marks[1]?);
        Some(last.ns.saturating_add(last.ns.saturating_sub(before.ns)))
    }

    /// Records the mark that a step has reached. Returns `Disorder` if the clock went backwards, or
    /// if the mark's time is after the packet's end.
    fn record_step(&mut self, moved: Option<(Mark, bool)>) -> StepResult {
        let Some((mark, more)) = moved else { return StepResult::Disorder };
        let before = self.marks[0].map_or(0, |mark| mark.position);
        // An event before its packet's begin counts as happening at that begin.
        let time = self.scale.ns(mark.clock);
        if time > self.span.1 {
            return StepResult::Disorder;
        }
        self.marks.rotate_right(1);
        self.marks[0] = Some(Mark { ns: time.max(self.span.0), ..mark });
        self.is_active = more;
        StepResult::Moved((mark.position - before) / 8)
    }

    /// Returns the last retained mark that precedes all events from `begin` on.
    fn mark_before(&self, begin: i64) -> Option<Mark> {
        self.marks.into_iter().flatten().find(|mark| mark.ns < begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::{Source as Path, open};
    use crate::testing::{TraceFolder, check_lines};
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

    /// Cuts a packet with `count` events into slices; `time` returns the time of each event.
    /// Returns the number of slices with a part of the packet, and the largest part in bytes.
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
            // The last slice may be empty.
            let packet = slice.parts[0].packets.back();
            let start = |packet: &PacketRef| packet.mark.map_or(0, |mark| mark.position / 8);
            starts.extend(packet.map(start));
        }
        assert!(starts.is_sorted(), "{starts:?}");
        let ends = starts[1..].iter().copied().chain([u64::from(size)]);
        let largest = starts.iter().zip(ends).map(|(start, end)| end - start).max();
        (starts.len(), largest.unwrap_or(0))
    }

    /// Slices also end within a large packet. (When slices ended only at the begin of a packet, one
    /// thread printed eight megabytes while the other thread waited.)
    #[test]
    fn slices_end_within_a_large_packet() {
        let near = SCOUTED_SIZE + 4 * STEP_SIZE_MAX;
        // Times evenly spread, most at the begin, and with many events at each time.
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
        // A packet whose events are all at one time, or which is small, is one slice.
        assert_eq!(slices(700_000, |_| 7).0, 1);
        assert_eq!(slices(80_000, |number| number).0, 1);
    }

    /// Checks how streams are cut into slices of the size of two packets with one event each. `end`
    /// is the end of the reading's range. `expected` has a line for each slice: its begin and end,
    /// and for each stream the begins of its packets, or `-` without packets. A packet that an
    /// earlier slice has started is marked with `<`, and a slice that extends to the ends of the
    /// streams with `rest`.
    #[track_caller]
    fn check_slices(description: &str, end: Option<i64>, expected: &str) {
        let mut folder = TraceFolder::new(description);
        let opened = folder.open();
        let packet_size = folder.packet("a 0.1 1..2 | 2 e 1").1.len() as u64;
        let reading = Reading::new(&opened.traces).threads(2).slice_size(2 * packet_size);
        let reading = reading.range(None, end);
        let mut slicer = Slicer::new(&reading);
        assert!(!slicer.cuts_packets());
        let mut actual = String::new();
        while let Some(slice) = slicer.next() {
            let begin = Some(slice.span.begin).filter(|begin| *begin > i64::MIN);
            let text = |time: Option<i64>| time.map_or(String::new(), |time| time.to_string());
            let parts: Vec<String> = slice.parts.iter().map(part_text).collect();
            let rest = if slice.extends_to_end { " rest" } else { "" };
            let (begin, end) = (text(begin), text(slice.span.end));
            actual.push_str(&format!("{begin}..{end}: {}{rest}\n", parts.join(" / ")));
        }
        check_lines(&actual, expected, description);
    }

    fn part_text(part: &SlicePart) -> String {
        let packets = part.packets.iter().enumerate().map(|(index, packet)| {
            let mark = if index < part.started_packets { "<" } else { "" };
            format!("{mark}{}", packet.begin_ns.expect("a begin"))
        });
        let text = packets.collect::<Vec<_>>().join(" ");
        if text.is_empty() { "-".to_owned() } else { text }
    }

    #[test]
    fn slices_end_after_the_begin_of_a_packet() {
        let streams = "a 0.1 10..20 | 10 e 1
                       b 0.2 10..25 | 15 e 2
                       a 0.1 30..40 | 30 e 3
                       b 0.2 30..45 | 35 e 4
                       a 0.1 50..60 | 50 e 5
                       b 0.2 50..65 | 55 e 6";
        check_slices(streams, None, "..31: 10 30 / 10 30 \n 31..: <30 50 / <30 50");
        check_slices(streams, Some(35), "..31: 10 30 / 10 30 \n 31..: <30 / <30");
        check_slices(streams, Some(25), "..: 10 / 10");
    }

    #[test]
    fn a_slice_before_packets_that_overlap_is_the_last_one() {
        check_slices(
            "a 0.1 10..20 | 10 e 1
             b 0.2 10..25 | 15 e 2
             a 0.1 30..40 | 30 e 3
             a 0.1 35..60 | 50 e 4
             b 0.2 50..65 | 55 e 5",
            None,
            "..31: 10 30 / 10
             31..: <30 / - rest",
        );
    }

    #[test]
    fn a_loss_belongs_to_the_slice_in_which_it_begins() {
        // The packet at 50 is due at 40, where the loss before it begins, so the packet at 49 is
        // the third one of its slice.
        check_slices(
            "a 0.1 10..20 | 10 e 1
             b 0.2 10..25 | 15 e 2
             a 0.1 30..40 | 30 e 3
             a 0.1 50..60 -2 | 50 e 4
             b 0.2 45..48 | 47 e 5
             b 0.2 49..65 | 55 e 6",
            None,
            "..31: 10 30 / 10
             31..50: <30 50 / 45 49
             50..: <50 / <49",
        );
    }
}
