//! Tests that several threads print the same lines as one thread, for slices of several sizes and
//! traces with each [`Flaw`]. An unordered reading without a range must count the same number of
//! events.

use blkkin_reader::{
    Event, Loss, PacketView, Reading, Source, Stats, Stream, Target, Trace, Unordered, open,
};
use blkkin_sys::testing::{Random, Scratch};
use blkkin_text::json::JsonPrinter;
use blkkin_text::pretty::{Options, Printer};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = c; CLOCK };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := time;
stream { id = 0;
  packet.context := struct { TIMES u32 content_size; u32 packet_size; u32 events_discarded; u32 packet_seq_num; };
  event.header := HEADER;
};
event { id = 0; name = "first"; stream_id = 0; fields := struct { u32 number; string text; }; };
event { id = 1; name = "second"; stream_id = 0; fields := struct { u32 number; u8 few[2]; }; };
event { id = 2; name = "third"; stream_id = 0; fields := struct { u32 number; u8 n; u8 few[n]; }; };
"#;

/// Clocks of the tested traces: frequency in Hz, and offset as metadata text.
const CLOCKS: [(u64, &str); 4] = [
    (1_000_000_000, ""),
    (1_000_000_000, "offset_s = 1500000000; offset = 7;"),
    (1_000_000, "offset_s = 5; offset = 123456;"),
    (3_000_000_000, "offset = 10000000001;"),
];

const HEADERS: [&str; 3] = [
    "struct { u8 id; time timestamp; }",
    "struct { enum : integer { size = 16; align = 8; } { compact = 0 ... 65534, extended = 65535 } id;
        variant <id> { struct { integer { size = 32; align = 8; map = clock.c.value; } timestamp; } compact;
            struct { u32 id; time timestamp; } extended; } v; } align(8)",
    "struct { enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
        variant <id> { struct { integer { size = 27; align = 1; map = clock.c.value; } timestamp; } compact;
            struct { u32 id; time timestamp; } extended; } v; } align(8)",
];

/// Irregularity of a tested trace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    /// Many events and packets have equal times.
    Ties,
    /// Some events are earlier than the previous event.
    EventsDisordered,
    /// Some events are after their packet's end.
    EventsOutside,
    /// Some packets begin before the end of the previous packet.
    PacketsDisordered,
    /// Some events are before their packet's begin.
    EventsBefore,
    /// Packets do not declare their begin and end.
    NoPacketTimes,
    /// Some events have the id of no event class.
    Damage,
    /// Stream files lack up to 99 bytes at their end.
    Cut,
}

const FLAWS: [Flaw; 9] = [
    Flaw::None,
    Flaw::Ties,
    Flaw::EventsDisordered,
    Flaw::EventsOutside,
    Flaw::PacketsDisordered,
    Flaw::EventsBefore,
    Flaw::NoPacketTimes,
    Flaw::Damage,
    Flaw::Cut,
];

/// Exclusive upper limits of the number of packets of a stream and of events of a packet.
type Sizes = (u64, u64);

/// Writes a random trace with the given flaw; returns the frequency of its clock.
fn write_trace(directory: &Path, random: &mut Random, flaw: Flaw, sizes: Sizes) -> u64 {
    let (frequency, offset) = CLOCKS[random.below(CLOCKS.len() as u64) as usize];
    let header = random.below(HEADERS.len() as u64) as usize;
    let times = match flaw {
        Flaw::NoPacketTimes => "",
        _ => "u64 timestamp_begin; u64 timestamp_end;",
    };
    let times = times.replace("u64 timestamp", "time timestamp");
    let metadata = METADATA
        .replace("TIMES", &times)
        .replace("CLOCK", &format!("freq = {frequency}; {offset}"))
        .replace("HEADER", HEADERS[header]);
    fs::write(directory.join("metadata"), metadata).unwrap();
    for stream in 0..1 + random.below(4) {
        let mut packets = RandomStream {
            time: 1000 + random.below(50),
            random,
            flaw,
            header,
            bytes: Vec::new(),
            discarded: 0,
            number: 0,
        };
        for packet in 0..packets.random.below(sizes.0) {
            packets.write_packet(packet, sizes.1);
        }
        let mut bytes = packets.bytes;
        if flaw == Flaw::Cut {
            bytes.truncate(bytes.len() - bytes.len().min(random.below(100) as usize));
        }
        fs::write(directory.join(format!("stream_{stream}")), bytes).unwrap();
    }
    frequency
}

/// Stream of random packets.
struct RandomStream<'r> {
    /// Source of times, ids and sizes.
    random: &'r mut Random,
    /// Irregularity of the trace.
    flaw: Flaw,
    /// Index of the layout of event headers in [`HEADERS`].
    header: usize,
    /// Packets written so far.
    bytes: Vec<u8>,
    /// End of the last packet, in cycles. While a packet is written, the time of its latest event
    /// before the flaw changes that time.
    time: u64,
    /// Number of discarded events so far.
    discarded: u32,
    /// Number of events so far.
    number: u32,
}

impl RandomStream<'_> {
    /// Returns the time from one event to the next.
    fn step(&mut self) -> u64 {
        match self.flaw {
            Flaw::Ties if self.random.below(3) > 0 => 0,
            // Some deltas are longer than a second.
            _ if self.random.below(200) == 0 => 12_000_000_000,
            _ => self.random.below(20),
        }
    }

    /// Writes an event's header. Most headers have the compact form, if the trace has one that can
    /// represent the time.
    fn write_header(&mut self, bytes: &mut Vec<u8>, id: u8, time: u64, clock: &mut Option<u64>) {
        let before = clock.replace(time);
        let is_near = |bits: u32| {
            before.is_some_and(|before| time >= before && (time - before) >> bits == 0u64)
        };
        match self.header {
            1 if is_near(32) && self.random.below(20) > 0 => {
                bytes.extend([id, 0]);
                bytes.extend((time as u32).to_le_bytes());
                return;
            }
            2 if is_near(27) && self.random.below(20) > 0 => {
                return bytes.extend((u32::from(id) | (time as u32) << 5).to_le_bytes());
            }
            0 => bytes.push(id),
            1 => bytes.extend([0xff, 0xff, id, 0, 0, 0]),
            _ => bytes.extend([31, id, 0, 0, 0]),
        }
        bytes.extend(time.to_le_bytes());
    }

    /// Appends a packet with fewer than `events_max` events.
    fn write_packet(&mut self, packet: u64, events_max: u64) {
        let flaw = self.flaw;
        if self.random.below(3) == 0 {
            self.time += self.random.below(30);
        }
        let begin = match flaw {
            Flaw::PacketsDisordered if self.random.below(3) == 0 => {
                self.time.saturating_sub(self.random.below(60))
            }
            _ => self.time,
        };
        let with_times = flaw != Flaw::NoPacketTimes;
        let mut clock = with_times.then_some(begin);
        let mut events = Vec::new();
        for _ in 0..self.random.below(events_max) {
            let time = self.time + self.step();
            self.time = time;
            let random = &mut *self.random;
            let shown = match flaw {
                Flaw::EventsDisordered if random.below(9) == 0 => {
                    time.saturating_sub(random.below(60))
                }
                Flaw::EventsOutside if random.below(9) == 0 => time + random.below(100),
                Flaw::EventsBefore if random.below(3) == 0 => {
                    begin.saturating_sub(random.below(40))
                }
                _ => time,
            };
            let id = random.below(3) as u8;
            let id = if flaw == Flaw::Damage && random.below(40) == 0 { 9 } else { id };
            self.write_header(&mut events, id, shown, &mut clock);
            events.extend(self.number.to_le_bytes());
            self.number += 1;
            let random = &mut *self.random;
            match id {
                0 if random.below(20) == 0 => {
                    let length = random.below(6000) as usize;
                    events.extend((0..length).map(|index| b'a' + (index % 26) as u8));
                    events.push(0);
                }
                2 => {
                    let length = random.below(4) as u8;
                    events.push(length);
                    events.extend((0..length).map(|_| random.below(256) as u8));
                }
                0 => events.extend_from_slice(
                    &b"some'text, long enough for two\0"[random.below(31) as usize..],
                ),
                _ => events.extend([random.below(256) as u8, 7]),
            }
        }
        self.time += self.step();
        let random = &mut *self.random;
        if random.below(5) == 0 {
            self.discarded += 1 + random.below(3) as u32;
        }
        let header = 8 + if with_times { 16 } else { 0 } + 16;
        let content = (header + events.len()) as u32;
        let size = content + random.below(16) as u32;
        let bytes = &mut self.bytes;
        bytes.extend(0xC1FC_1FC1u32.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        if with_times {
            bytes.extend(begin.to_le_bytes());
            bytes.extend(self.time.to_le_bytes());
        }
        let seq = packet as u32 + u32::from(random.below(10) == 0);
        for field in [content * 8, size * 8, self.discarded, seq] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(events);
        bytes.extend(vec![0; (size - content) as usize]);
    }
}

type Output = (String, Vec<String>, Stats);

/// Returns the lines and messages printed for a reading, and its totals with sorted problems. Each
/// message begins with the number of bytes of lines printed before it.
fn print(reading: &Reading<'_>, json: bool) -> Output {
    let (mut text, mut messages) = (String::new(), Vec::new());
    let sink = |target, bytes: &[u8]| {
        let part = String::from_utf8(bytes.to_vec()).unwrap();
        match target {
            Target::Output => text.push_str(&part),
            Target::Messages => messages.push(format!("{} {part}", text.len())),
        }
        ControlFlow::Continue(())
    };
    let mut stats = match json {
        true => reading.lines(JsonPrinter::default, sink),
        false => reading.lines(|| Printer::new(Options { utc: true, ..Options::default() }), sink),
    };
    stats.problems.sort_by_key(|problem| problem.to_string());
    (text, messages, stats)
}

/// Returns the number of events, counted by an unordered reading.
fn count(reading: &Reading<'_>) -> u64 {
    struct Nobody;
    impl Unordered for Nobody {
        const EVENTS: bool = false;
        fn packet(&mut self, _: &Trace, _: &Stream, _: &PacketView<'_>) {}
        fn event(&mut self, _: &mut Event<'_>) {}
        fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) {}
    }
    reading.unordered(|| Nobody).1.events
}

#[test]
fn slices_give_what_one_thread_gives() {
    let root = Scratch::new("slices");
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut lines = 0;
    for (round, flaw) in (0..60).flat_map(|round| FLAWS.map(|flaw| (round, flaw))) {
        let directory = root.0.join(format!("{flaw:?}-{round}"));
        fs::create_dir_all(&directory).unwrap();
        let frequency = write_trace(&directory, &mut random, flaw, (12, 25));
        let opened = open(&[Source::Path(directory.clone())]);
        assert!(!opened.traces.is_empty());
        let first = Reading::new(&opened.traces).span().map_or(0, |span| span.0);
        let second = 1_000_000_000;
        let bound = |random: &mut Random| {
            (random.below(4) == 0).then(|| first + (random.below(500) * second / frequency) as i64)
        };
        let (begin, end) = (bound(&mut random), bound(&mut random));
        let reading = || Reading::new(&opened.traces).range(begin, end);
        let json = round % 4 == 3;
        let expected = print(&reading(), json);
        lines += expected.0.lines().count();
        // A range selects the same events in both readings only if times are in order.
        if (begin, end) == (None, None) || matches!(flaw, Flaw::None | Flaw::Ties | Flaw::Cut) {
            let counted = count(&reading().threads(1 + round % 3));
            assert_eq!(counted, expected.2.events, "{flaw:?} {round} from {begin:?} to {end:?}");
        }
        for (threads, size) in [(2, 1), (2, 300), (3, 1), (3, 2000), (5, 700), (2, 1 << 20)] {
            let got = print(&reading().threads(threads).slice_size(size), json);
            let what = format!(
                "{flaw:?} {round} from {begin:?} to {end:?}: {threads} threads, slices of {size}"
            );
            assert_eq!(got.0, expected.0, "{what}");
            assert_eq!(got.1, expected.1, "{what}");
            // A reading of a range may report problems outside of the range or not.
            let is_whole = (begin, end) == (None, None);
            let account = |stats: &Stats| {
                let problems = stats.problems.iter().filter(|_| is_whole);
                let problems: Vec<_> = problems.map(|p| p.to_string()).collect();
                (stats.events, stats.events_lost, stats.packets_lost, problems)
            };
            assert_eq!(account(&got.2), account(&expected.2), "{what}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
    assert!(lines > 10_000, "only {lines} lines were printed");
}

#[test]
fn events_without_a_bit_end_a_packet() {
    let scratch = Scratch::new("slices-empty");
    let directory = &scratch.0;
    // The reader must decode the events' bodies to detect that they are empty.
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; }; stream { };
        event { name = e; fields := struct { struct { } a[3]; }; };";
    fs::write(directory.join("metadata"), metadata).unwrap();
    fs::write(directory.join("stream"), "abc").unwrap();
    let opened = open(&[Source::Path(directory.clone())]);
    let reading = || Reading::new(&opened.traces);
    assert_eq!(count(&reading()), 0);
    let (text, _, stats) = print(&reading(), false);
    assert_eq!((&*text, stats.events, stats.problems.len()), ("", 0, 1), "{:?}", stats.problems);
}

#[test]
fn disorder_in_much_text() {
    let root = Scratch::new("slices-much");
    let mut random = Random::new(0x0123_4567_89ab_cdef);
    for (round, flaw) in [Flaw::EventsOutside, Flaw::PacketsDisordered, Flaw::NoPacketTimes]
        .into_iter()
        .flat_map(|flaw| (0..3).map(move |round| (round, flaw)))
    {
        let directory = root.0.join(format!("{flaw:?}-{round}"));
        fs::create_dir_all(&directory).unwrap();
        write_trace(&directory, &mut random, flaw, (60, 1500));
        let opened = open(&[Source::Path(directory.clone())]);
        assert!(!opened.traces.is_empty());
        let expected = print(&Reading::new(&opened.traces), false);
        for (threads, size) in [(2, 100_000), (3, 200_000), (4, 30_000), (3, 1 << 20)] {
            let reading = Reading::new(&opened.traces).threads(threads).slice_size(size);
            let got = print(&reading, false);
            assert!(got.0 == expected.0, "{flaw:?} {round}: {threads} threads, slices of {size}");
        }
    }
}
