//! Tests of live traces: a producer appends packets in memory, and a follower delivers them in
//! rounds that end at given times. File names in descriptions are the producer's stream numbers.

use crate::follow::Follower;
use crate::live::LiveTrace;
use crate::testing::{TraceFolder, Transcript, check_lines, metadata_text, number, transcript};
use crate::{Reading, Source, open};
use std::fmt::Write as _;
use std::io;

/// Live trace with its producer, and the follower that reads it.
struct Live {
    /// Encoder of the packets.
    folder: TraceFolder,
    trace: LiveTrace,
    follower: Follower,
}

impl Live {
    fn new(description: &str) -> Live {
        let trace = LiveTrace::new("live").expect("a live trace");
        trace.set_metadata(metadata_text("", false).into_bytes()).expect("small metadata");
        let follower = Follower::new(&[Source::Live(trace.clone())]);
        let mut live = Live { folder: TraceFolder::new(""), trace, follower };
        live.append(description);
        live
    }

    fn append(&mut self, description: &str) {
        for (stream, packet) in self.folder.packets(description) {
            self.append_bytes(&stream, &packet);
        }
    }

    fn append_bytes(&self, stream: &str, packet: &[u8]) {
        self.trace.append_packet(number(stream), packet).expect("to append a packet");
    }

    /// Runs a round up to `end_ns`, and returns its transcript.
    fn round(&mut self, end_ns: i64) -> String {
        self.follower.refresh(false);
        let mut transcript = Transcript::default();
        let stats = self.follower.deliver_until(end_ns, |reading| reading, &mut transcript);
        transcript.finish(&self.folder, &stats)
    }

    #[track_caller]
    fn check(&mut self, end_ns: i64, expected: &str) {
        check_lines(&self.round(end_ns), expected, "round");
    }
}

/// Deterministic random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn rounds_end_between_the_events_of_a_packet() {
    let mut live = Live::new(
        "1 0.1 10..40 | 10 e 1, 20 e 2, 35 f 3, 40 e 4
         2 0.2 15..25 | 15 f 5, 25 e 6",
    );
    live.check(5, "");
    // The end is exclusive.
    live.check(20, "10 e1 0.1 \n 15 f5 0.2");
    live.check(20, "");
    live.check(30, "20 e2 0.1 \n 25 e6 0.2");
    live.append("2 0.2 30..50 -3 | 30 e 7, 50 e 8");
    live.check(26, "lost 3 events 25..50 0.2");
    live.check(40, "30 e7 0.2 \n 35 f3 0.1");
    let mut transcript = Transcript::default();
    let stats = live.follower.deliver(|reading| reading, &mut transcript);
    let rest = transcript.finish(&live.folder, &stats);
    check_lines(&rest, "40 e4 0.1 \n 50 e8 0.2", "the rest");
    assert_eq!(live.follower.problems(), []);
}

/// The rounds of a follower together deliver the same events as one reading of a directory. The
/// packets, the ends of rounds and the openings are random.
#[test]
fn rounds_add_up_to_the_whole_trace() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut packets = Vec::new();
        for stream in 0..4 {
            let (mut time, mut discarded) = (random.below(20), 0);
            for _ in 0..random.below(12) {
                let begin = time;
                let mut events = String::new();
                for x in 0..random.below(8) {
                    time += random.below(9);
                    let _ = write!(events, "{time} {} {x},", ["e", "f"][random.below(2) as usize]);
                }
                let end = time + random.below(3);
                discarded += random.below(6).saturating_sub(4);
                time = end + random.below(30);
                let line = format!("{stream} 0.{stream} {begin}..{end} -{discarded} | {events}\n");
                packets.push((end, line));
            }
        }
        // The producer appends packets when they end.
        packets.sort_by_key(|(end, _)| *end);
        let all: String = packets.iter().map(|(_, line)| line.as_str()).collect();
        let expected = transcript(&TraceFolder::new(&all), |reading| reading);
        let mut live = Live::new("");
        let mut delivered = String::new();
        let mut packets = packets.into_iter().peekable();
        let mut now = 0;
        while packets.peek().is_some() {
            now += random.below(40);
            while let Some((_, line)) = packets.next_if(|(end, _)| *end <= now) {
                live.append(&line);
            }
            if random.below(3) == 0 {
                live.trace.append_metadata(b" ").expect("small metadata");
            }
            // Later packets of a stream begin before `now`, so all streams are complete up to the
            // begin of the first of them only.
            let complete = packets.clone().map(|(_, line)| begin_of(&line)).min().unwrap_or(now);
            delivered += &live.round(complete.min(now) as i64);
        }
        delivered += &live.round(i64::MAX);
        let case = format!("seed {seed}\n{all}");
        // A loss is known only when the next packet appears.
        let (events, losses) = split_losses(&delivered);
        let (expected_events, expected_losses) = split_losses(&expected);
        check_lines(&events, &expected_events, &case);
        assert_eq!(losses, expected_losses, "{case}");
        assert_eq!(live.trace.undelivered_bytes(), 0, "seed {seed}");
    }
}

/// Returns the lines of events, and the sorted lines of losses.
fn split_losses(transcript: &str) -> (String, Vec<&str>) {
    let (mut losses, events): (Vec<&str>, Vec<&str>) =
        transcript.lines().partition(|line| line.starts_with("lost"));
    losses.sort();
    (events.join("\n"), losses)
}

/// Returns the begin time of the packet that a line describes.
fn begin_of(line: &str) -> u64 {
    let times = line.split_whitespace().nth(2).expect("BEGIN..END");
    number(times.split_once("..").expect("BEGIN..END").0)
}

#[test]
fn new_streams_and_metadata_are_noticed_at_once() {
    let trace = LiveTrace::new("live").expect("a live trace");
    let mut follower = Follower::new(&[Source::Live(trace.clone())]);
    assert!(!follower.refresh(false));
    assert_eq!((follower.traces().len(), follower.problems()), (0, vec![]));
    trace.set_metadata(metadata_text("", false).into_bytes()).expect("small metadata");
    assert!(follower.refresh(false));
    assert_eq!(follower.traces()[0].name, "live");
    let mut live = Live { folder: TraceFolder::new(""), trace, follower };
    live.append("7 0.1 10..20 | 10 e 1");
    assert!(live.follower.refresh(false) && !live.follower.refresh(false));
    live.check(100, "10 e1 0.1");
    live.append("7 0.1 20..30 | 30 e 2 \n 8 1.1 20..30 | 25 e 3");
    live.check(100, "25 e3 1.1 \n 30 e2 0.1");
    live.trace.set_metadata(metadata_text("", true).into_bytes()).expect("small metadata");
    live.append("7 0.1 40..50 | 45 g 4 \n 8 1.1 40..50 | 40 g 5");
    live.check(100, "40 g5 1.1 \n 45 g4 0.1");
    // Streams with the same class and id, and packets of another trace.
    let other = LiveTrace::new("other").expect("a live trace");
    other.set_metadata(metadata_text("o", false).into_bytes()).expect("small metadata");
    other.append_packet(7, &live.folder.packet("7 0.1 60..70 | 60 e 6").1).expect("to append");
    live.follower = Follower::new(&[Source::Live(live.trace.clone()), Source::Live(other.clone())]);
    live.append("9 0.1 61..70 | 61 e 7");
    live.check(100, "60 e6 0.1 \n 61 e7 0.1");
}

/// Partly read packets and losses are kept when the sources are opened again.
#[test]
fn remaining_events_outlast_openings() {
    let mut live = Live::new(
        "1 0.1 10..40   | 10 e 1, 20 f 2, 30 f 3
         1 0.1 50..60 -2 | 50 e 4
         2 0.2 70..80   | 70 e 5",
    );
    live.check(15, "10 e1 0.1");
    for seconds in 0..3 {
        live.trace.append_metadata(b"\n").expect("small metadata");
        assert!(live.follower.refresh(false), "{seconds}");
    }
    live.trace.set_metadata(metadata_text("", true).into_bytes()).expect("small metadata");
    live.append("3 1.3 25..26 | 25 g 6");
    assert!(live.follower.refresh(false));
    live.check(30, "20 f2 0.1 \n 25 g6 1.3");
    live.trace.append_metadata(b"\n").expect("small metadata");
    live.check(45, "30 f3 0.1 \n lost 2 events 40..60 0.1");
    live.trace.append_metadata(b"\n").expect("small metadata");
    live.check(100, "50 e4 0.1 \n 70 e5 0.2");
}

/// After 100 MiB of packets were appended, only the undelivered packets and one page for each
/// stream occupy memory. After the trace is opened again, the stream is identified by its first
/// packet.
#[test]
fn delivered_packets_are_freed() {
    const PACKET_SIZE: usize = 64 << 10;
    let mut live = Live::new("");
    let mut expected = String::new();
    let mut delivered = String::new();
    for number in 0..800 {
        let (begin, end) = (10 * number + 1, 10 * number + 10);
        for stream in [1, 2] {
            let line = format!("{stream} 0.{stream} {begin}..{end} | {end} e {number}");
            let (stream, mut packet) = live.folder.packet(&line);
            // Padding; the size in bits is the fourth number of the context.
            packet.resize(PACKET_SIZE + 100, 0);
            let bits = packet.len() as u64 * 8;
            packet[40..48].copy_from_slice(&bits.to_le_bytes());
            live.append_bytes(&stream, &packet);
            let _ = writeln!(expected, "{end} e{number} 0.{stream}");
        }
        if number % 100 == 0 {
            live.trace.append_metadata(b" ").expect("small metadata");
        }
        // The last packet of each stream stays.
        delivered += &live.round(i64::from(end));
        assert!(live.trace.undelivered_bytes() <= 3 * (PACKET_SIZE as u64 + 200));
        let allocated = live.trace.allocated_size();
        assert!(allocated <= 2 * (PACKET_SIZE as u64 + 4 * 4096), "{number}: {allocated}");
    }
    delivered += &live.round(i64::MAX);
    check_lines(&delivered, &expected, "all rounds");
    assert_eq!(live.trace.undelivered_bytes(), 0);
    assert!(live.trace.allocated_size() <= 2 * 3 * 4096);
    // Another follower finds the streams, and no delivered packets.
    live.follower = Follower::new(&[Source::Live(live.trace.clone())]);
    assert_eq!(live.follower.traces()[0].streams.len(), 2);
    live.check(i64::MAX, "");
    live.append("1 0.1 9000..9010 #800 | 9001 e 1");
    live.check(i64::MAX, "9001 e1 0.1");
}

#[test]
fn a_damaged_packet_costs_only_itself() {
    /// Damage to a packet.
    type Damage = fn(&mut Vec<u8>);
    let cases: [(Damage, &str); 6] = [
        (|packet| packet[0] ^= 1, "magic"),
        (|packet| packet.truncate(20), "packet ends within its header"),
        (|packet| packet[40..48].fill(0), "packet of 0 bits claims"),
        (|packet| packet[32..48].fill(0), "packet claims 0 bits of content"),
        (|packet| packet[8] = 5, "packet is of another stream than those before it"),
        (|packet| packet.truncate(packet.len() - 1), "file ends 1 bytes before"),
    ];
    for (damage, message) in cases {
        let mut live = Live::new("1 0.1 10..20 | 10 e 1 \n 2 0.2 10..20 | 11 e 2");
        let (stream, mut packet) = live.folder.packet("1 0.1 30..40 #1 | 30 e 3, 40 e 4");
        damage(&mut packet);
        live.append_bytes(&stream, &packet);
        live.append("1 0.1 50..60 #1 | 50 e 5 \n 2 0.2 50..60 | 51 e 6");
        let text = live.round(100);
        let (problems, events): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('!'));
        let events = events.join("\n").replace("30 e3 0.1\n", "");
        check_lines(&events, "10 e1 0.1 \n 11 e2 0.2 \n 50 e5 0.1 \n 51 e6 0.2", message);
        let is_expected =
            |problem: &&str| problem.starts_with("! live/1: offset ") && problem.contains(message);
        assert!(problems.len() == 1 && is_expected(&problems[0]), "{message}: {problems:?}");
        assert_eq!(live.trace.undelivered_bytes(), 0, "{message}");
    }
}

/// The metadata of a live trace precedes its packets, so an event of an unknown class counts as
/// damaged, and the stream does not wait for newer metadata.
#[test]
fn an_unknown_event_costs_its_packet() {
    let mut live = Live::new("1 0.1 10..20 | 10 e 1, 15 g 2, 20 e 3 \n 1 0.1 30..40 | 30 e 4");
    let text = live.round(100);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["10 e1 0.1", "30 e4 0.1"], "{text}");
    assert!(lines.len() == 3 && lines[2].starts_with("! live/1: offset "), "{text}");
}

/// An event that is later than its packet's end does not delay the rest of the stream.
#[test]
fn a_wrong_time_costs_only_its_event() {
    let mut live = Live::new("");
    let (stream, mut packet) = live.folder.packet("1 0.1 10..20 | 10 e 1, 20 e 2");
    // The last event has 20 bytes, the first 4 of which are the id.
    let start = packet.len() - 16;
    packet[start..start + 8].copy_from_slice(&1_000_000_u64.to_le_bytes());
    live.append_bytes(&stream, &packet);
    live.append("1 0.1 30..40 | 30 e 3, 40 e 4 \n 2 0.2 10..40 | 25 e 5");
    live.check(35, "10 e1 0.1 \n 25 e5 0.2 \n 1000000 e2 0.1 \n 30 e3 0.1");
    live.check(100, "40 e4 0.1");
}

#[test]
fn damaged_packets_may_precede_the_first_sound_one() {
    let mut live = Live::new("");
    for _ in 0..2 {
        live.append_bytes("1", b"damaged");
        live.check(100, "");
        assert_eq!(live.follower.problems().len(), 1);
    }
    live.append("1 0.1 10..20 | 10 e 1");
    let text = live.round(100);
    assert_eq!(text.matches("! live/1").count(), 2, "{text}");
    assert!(text.starts_with("10 e1 0.1\n"), "{text}");
    assert_eq!(live.follower.problems(), []);
    assert_eq!(live.trace.undelivered_bytes(), 0);
}

#[test]
fn appending_is_limited() {
    let trace = LiveTrace::new("live").expect("a live trace");
    let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
    assert_eq!(kind(trace.append_packet(1, b"1234")), Err(io::ErrorKind::InvalidInput));
    let mut live = Live::new("1 0.1 10..20 | 10 e 1");
    live.trace.set_size_max(200);
    let (_, packet) = live.folder.packet("1 0.1 30..40 | 30 e 2");
    assert_eq!(kind(live.trace.append_packet(1, &packet)), Ok(()));
    assert_eq!(kind(live.trace.append_packet(2, &packet)), Err(io::ErrorKind::StorageFull));
    assert_eq!(kind(live.trace.append_packet(1, b"")), Err(io::ErrorKind::InvalidInput));
    live.check(100, "10 e1 0.1 \n 30 e2 0.1");
    assert_eq!(kind(live.trace.append_packet(1, &packet)), Ok(()));
    assert!(LiveTrace::new("").is_err() && LiveTrace::new("a\0").is_err());
}

/// A reading without a follower delivers the packets of the opening, and frees nothing.
#[test]
fn a_live_trace_can_be_read_like_a_finished_one() {
    let mut live = Live::new("1 0.1 10..20 | 10 e 1 \n 2 0.2 10..20 | 11 f 2, 12 e 3");
    let opened = open(&[Source::Live(live.trace.clone())]);
    assert_eq!(opened.problems, []);
    live.append("1 0.1 30..40 | 30 e 4");
    for _ in 0..2 {
        let mut transcript = Transcript::default();
        let stats = Reading::new(&opened.traces).ordered(&mut transcript);
        let text = transcript.finish(&live.folder, &stats);
        check_lines(&text, "10 e1 0.1 \n 11 f2 0.2 \n 12 e3 0.2", "reading");
    }
    live.check(100, "10 e1 0.1 \n 11 f2 0.2 \n 12 e3 0.2 \n 30 e4 0.1");
}

/// Events with a truncated timestamp, as LTTng writes them, are decoded with the clock of the
/// previous event.
#[test]
fn truncated_times_continue_in_the_next_round() {
    let metadata = metadata_text("", false).replace(
        "event.header := struct { u32 id; time timestamp; }",
        "event.header := struct {
           u32 id; integer { size = 32; align = 8; map = clock.c.value; } timestamp;
         }",
    );
    let mut live = Live::new("");
    live.trace.set_metadata(metadata.into_bytes()).expect("small metadata");
    let times: [u64; 4] = [(1 << 32) - 5, (1 << 32) + 5, (2 << 32) + 3, (3 << 32) + 1];
    let size = 68 + 16 * times.len() as u64;
    let mut packet = Vec::new();
    packet.extend([0xc1, 0x1f, 0xfc, 0xc1, 0, 0, 0, 0]);
    for number in [1, times[0] - 1, times[3], 8 * size, 8 * size, 0, 0] {
        packet.extend(number.to_le_bytes());
    }
    packet.extend([1, 0, 0, 0]);
    for (number, time) in times.iter().enumerate() {
        for word in [0, *time as u32, 0, number as u32] {
            packet.extend(word.to_le_bytes());
        }
    }
    live.append_bytes("1", &packet);
    for (number, time) in times.iter().enumerate() {
        live.check(*time as i64, "");
        live.check(*time as i64 + 1, &format!("{time} e{number} 0.1"));
        live.trace.append_metadata(b" ").expect("small metadata");
    }
}
