//! Tests of the packets of streams: losses between packets, files with several streams, truncated
//! files, files that overlap, and reading without order.

use crate::error::ProblemKind;
use crate::event::{Event, PacketView};
use crate::loss::Loss;
use crate::reading::Reading;
use crate::testing::{TraceFolder, check, check_lines, event_line, loss_line, transcript};
use crate::trace::{Stream, Trace};
use crate::unordered::Unordered;

#[test]
fn losses_are_differences_of_counters() {
    let cases = [
        // Discarded events between two packets.
        ("0..20 -2 | 20 e 1", "30..40 -5 | 40 e 2", "lost 3 events 20..40 0.1"),
        ("0..20 -2 | 20 e 1", "30..40 -2 | 40 e 2", ""),
        // Missing sequence numbers.
        ("0..20 #4 | 20 e 1", "30..40 #7 | 40 e 2", "lost 2 packets 20..30 0.1"),
        ("0..20 #4 | 20 e 1", "30..40 #2 | 40 e 2", ""),
        // Discarded events and missing sequence numbers.
        (
            "0..20 #4 | 20 e 1",
            "30..40 #6 -1 | 40 e 2",
            "lost 1 events 20..40 0.1
             lost 1 packets 20..30 0.1",
        ),
    ];
    for (first, second, losses) in cases {
        let mut expected = format!("20 e1 0.1 \n {losses} \n 40 e2 0.1");
        if first.contains("-2") {
            // The number of events discarded before the first packet's end is unknown.
            expected.insert_str(0, "lost ? events 0..20 0.1 \n");
        }
        check(&format!("a 0.1 {first} \n a 0.1 {second}"), &expected);
    }
}

#[test]
fn a_file_may_hold_streams_of_two_classes() {
    check(
        "a 0.1 10..20 | 10 e 1, 20 f 2
         a 1.1 5..15  | 5 e 3, 15 e 4
         a 1.1 16..30 | 30 e 5
         a 0.1 21..35 | 25 e 6",
        "5 e3 1.1
         10 e1 0.1
         15 e4 1.1
         20 f2 0.1
         25 e6 0.1
         30 e5 1.1",
    );
}

#[test]
fn a_file_may_hold_streams_of_one_class() {
    check(
        "a 0.1 10..20 | 10 e 1, 20 f 2
         a 0.2 5..15  | 5 e 3, 15 e 4
         a 1.2 5..9   | 9 e 5
         a 0.1 21..35 | 25 e 6
         a 0.2 16..40 | 30 e 7",
        "5 e3 0.2
         9 e5 1.2
         10 e1 0.1
         15 e4 0.2
         20 f2 0.1
         25 e6 0.1
         30 e7 0.2",
    );
}

#[test]
fn a_stream_may_have_several_files() {
    // File `b` begins with a copy of the last packet of file `a`.
    check(
        "b 0.1 30..40 #1 | 40 e 3
         b 0.1 50..60 #2 | 60 e 4
         a 0.1 10..20 #0 | 10 e 1, 20 e 2
         a 0.1 30..40 #1 | 40 e 3",
        "10 e1 0.1
         20 e2 0.1
         40 e3 0.1
         60 e4 0.1",
    );
}

#[test]
fn the_last_packet_may_be_truncated() {
    let description = "a 0.1 10..20 | 10 e 1, 20 e 2
                       a 0.1 30..40 | 30 e 3, 40 e 4
                       b 0.2 10..40 | 35 e 5";
    let events = ["10 e1 0.1", "20 e2 0.1", "30 e3 0.1", "35 e5 0.2", "40 e4 0.1"];
    let size = |line: &str| TraceFolder::new("").packet(line).1.len() as u64;
    let packet_size = size("a 0.1 30..40 | 30 e 3, 40 e 4");
    let first_size = size("a 0.1 10..20 | 10 e 1, 20 e 2");
    let event_size = (packet_size - size("a 0.1 30..40 |")) / 2;
    // Each case: number of removed bytes, number of remaining events, problem.
    let cases = [
        (0, 5, String::new()),
        (
            1,
            4,
            format!("offset {}: file ends 1 bytes before its last", first_size + packet_size - 1),
        ),
        (event_size, 4, format!("file ends {event_size} bytes before its last packet does")),
        (event_size + 1, 3, format!("file ends {} bytes before", event_size + 1)),
        (packet_size - 1, 3, format!("offset {first_size}: file ends within a packet's header")),
        (packet_size, 3, String::new()),
    ];
    for (removed, complete, problem) in cases {
        let folder = TraceFolder::new(description);
        folder.truncate("a", removed);
        let text = transcript(&folder, |reading| reading);
        let (problems, lines): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('!'));
        let mut expected = events.to_vec();
        match complete {
            4 => drop(expected.remove(4)),
            3 => drop((expected.remove(4), expected.remove(2))),
            _ => {}
        }
        assert_eq!(lines, expected, "{removed} bytes removed");
        assert_eq!(problems.len(), usize::from(!problem.is_empty()), "{removed}: {text}");
        assert!(problems.iter().all(|line| line.contains(&problem)), "{removed}: {text}");
        check_unordered(&folder, expected.len() as u64);
    }
}

#[test]
fn a_file_without_a_whole_header_is_a_problem() {
    let folder = TraceFolder::new("a 0.1 10..20 | 10 e 1 \n b 0.2 10..20 | 15 e 2");
    let size = std::fs::metadata(folder.path().join("a")).expect("a file").len();
    folder.truncate("a", size - 3);
    let opened = folder.open();
    let kinds: Vec<_> = opened.problems.iter().map(|problem| &problem.kind).collect();
    assert_eq!(kinds, [&ProblemKind::TruncatedHeader]);
    assert_eq!(opened.traces.len(), 1);
    assert_eq!(opened.traces[0].streams.len(), 1);
}

/// Consumer without order that collects a line for each packet, event and loss.
#[derive(Default)]
struct Lines(Vec<String>);

impl Unordered for Lines {
    fn packet(&mut self, _: &Trace, _: &Stream, packet: &PacketView<'_>) {
        let (begin, end) = (packet.begin_ns.expect("a begin"), packet.end_ns.expect("an end"));
        self.0.push(format!("packet {begin}..{end}"));
    }

    fn event(&mut self, event: &mut Event<'_>) {
        self.0.extend(event_line(event));
    }

    fn loss(&mut self, _: &Trace, stream: &Stream, loss: &Loss) {
        self.0.push(loss_line(stream, loss));
    }
}

/// Consumer that receives no events, so that they are only counted.
struct Counter;

impl Unordered for Counter {
    const EVENTS: bool = false;
    fn packet(&mut self, _: &Trace, _: &Stream, _: &PacketView<'_>) {}
    fn event(&mut self, _: &mut Event<'_>) {}
    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) {}
}

/// Checks the number of events that are counted without order, both by skipping and by decoding.
fn check_unordered(folder: &TraceFolder, events: u64) {
    let opened = folder.open();
    for threads in [1, 3] {
        let (_, stats) = Reading::new(&opened.traces).threads(threads).unordered(|| Counter);
        assert_eq!(stats.events, events, "skipped by {threads} threads");
        let reading = Reading::new(&opened.traces).threads(threads).range(Some(0), None);
        let (_, stats) = reading.unordered(|| Counter);
        assert_eq!(stats.events, events, "decoded by {threads} threads");
    }
}

#[test]
fn unordered_consumers_get_each_packet_once() {
    let folder = TraceFolder::new(
        "a 0.1 10..20    | 10 e 1, 20 f 2
         b 1.2 10..30    | 15 e 3
         a 0.1 30..40 -2 | 30 e 4",
    );
    let opened = folder.open();
    for threads in [1, 2] {
        let reading = Reading::new(&opened.traces).threads(threads);
        let (consumers, stats) = reading.unordered(Lines::default);
        let mut lines: Vec<String> = consumers.into_iter().flat_map(|lines| lines.0).collect();
        lines.sort();
        let expected = "10 e1 0.1
                        15 e3 1.2
                        20 f2 0.1
                        30 e4 0.1
                        lost 2 events 20..40 0.1
                        packet 10..20
                        packet 10..30
                        packet 30..40";
        check_lines(&lines.join("\n"), expected, &format!("{threads} threads"));
        assert_eq!((stats.events, stats.events_lost), (4, 2));
    }
    check_unordered(&folder, 4);
}
