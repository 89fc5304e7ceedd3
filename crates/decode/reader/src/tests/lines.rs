//! Tests of lines that several threads print, in slices of various sizes. The text must equal the
//! text that one thread prints.

use crate::event::Event;
use crate::lines::{LinePrinter, Target};
use crate::loss::Loss;
use crate::reading::Reading;
use crate::testing::{TraceFolder, check_lines, event_line, loss_line};
use crate::text::Text;
use crate::trace::{Stream, Trace};
use std::fmt::Write as _;
use std::ops::{ControlFlow, Range};

/// Printer whose lines have the time since the previous event. Losses become messages.
struct Printer;

impl LinePrinter for Printer {
    fn now(&self, event: &Event<'_>) -> Option<u64> {
        event.time().map(|time| time as u64)
    }

    fn event(&mut self, out: &mut Text, event: &mut Event<'_>) -> Option<Range<u16>> {
        out.extend_from_slice(b"??");
        out.extend_from_slice(b" ");
        out.extend_from_slice(event_line(event)?.as_bytes());
        out.extend_from_slice(b"\n");
        Some(0..2)
    }

    fn loss(&mut self, out: &mut Text, _: &Trace, stream: &Stream, loss: &Loss) -> Target {
        out.extend_from_slice(loss_line(stream, loss).as_bytes());
        out.extend_from_slice(b"\n");
        Target::Messages
    }

    fn put_delta(&self, place: &mut [u8], now: u64, last: Option<u64>) -> bool {
        let delta = delta(now, last);
        let is_exact = delta.len() == place.len();
        if is_exact {
            place.copy_from_slice(delta.as_bytes());
        }
        is_exact
    }

    fn delta(&self, out: &mut Text, now: u64, last: Option<u64>) {
        out.extend_from_slice(delta(now, last).as_bytes());
    }
}

fn delta(now: u64, last: Option<u64>) -> String {
    last.map_or("--".to_owned(), |last| format!("{:+}", now as i64 - last as i64))
}

/// Runs the reading and returns the printed text, in which `?` marks messages, and a last line with
/// the number of events.
fn print(reading: &Reading<'_>) -> String {
    let mut out = String::new();
    let stats = reading.lines(
        || Printer,
        |target, text| {
            let mark = if target == Target::Messages { "? " } else { "" };
            let _ = write!(out, "{mark}{}", String::from_utf8_lossy(text));
            ControlFlow::Continue(())
        },
    );
    assert_eq!(stats.problems, []);
    let _ = writeln!(out, "{} events", stats.events);
    out
}

/// Checks the text that one thread prints, and the text that several threads print with slices of
/// several sizes.
#[track_caller]
fn check(description: &str, expected: &str) {
    let folder = TraceFolder::new(description);
    let opened = folder.open();
    let text = print(&Reading::new(&opened.traces));
    check_lines(&text, expected, description);
    for threads in [2, 3] {
        for size in [1, 100, 250, 500, 1000, 10_000] {
            let reading = Reading::new(&opened.traces).threads(threads).slice_size(size);
            check_lines(&print(&reading), expected, &format!("{threads} threads, {size} bytes"));
        }
    }
}

#[test]
fn slices_give_the_text_of_one_thread() {
    check(
        "a 0.1 10..40    | 10 e 1, 20 e 2, 21 e 3, 40 e 4
         b 0.2 10..25    | 15 e 5, 25 e 6
         b 0.2 30..60 -2 | 30 e 7, 31 f 8, 60 e 9
         a 0.1 41..50    | 41 e 10, 50 e 11
         a 0.1 55..70 #3 | 70 e 12",
        "-- 10 e1 0.1
         +5 15 e5 0.2
         +5 20 e2 0.1
         +1 21 e3 0.1
         +4 25 e6 0.2
         ? lost 2 events 25..60 0.2
         +5 30 e7 0.2
         +1 31 f8 0.2
         +9 40 e4 0.1
         +1 41 e10 0.1
         +9 50 e11 0.1
         ? lost 1 packets 50..55 0.1
         +10 60 e9 0.2
         +10 70 e12 0.1
         12 events",
    );
}

#[test]
fn slices_within_large_packets_give_the_text_of_one_thread() {
    // Two packets of 700 kB, so that scouts search for the ends of slices.
    let events = |odd: u64| {
        let times = (0..35_000).map(|number| 2 * number + odd);
        times.map(|time| format!("{time} e {time}")).collect::<Vec<_>>().join(", ")
    };
    let (even, odd) = (events(0), events(1));
    let folder = TraceFolder::new(&format!("a 0.1 0..70000 | {even} \n b 0.2 1..70001 | {odd}"));
    let opened = folder.open();
    let expected: String = (0..70_000)
        .map(|time| {
            let delta = if time == 0 { "--" } else { "+1" };
            format!("{delta} {time} e{time} 0.{}\n", 1 + time % 2)
        })
        .collect();
    for threads in [1, 2, 3] {
        let text = print(&Reading::new(&opened.traces).threads(threads));
        assert!(text == format!("{expected}70000 events\n"), "{threads} threads");
    }
}

#[test]
fn slices_keep_events_at_one_time_in_order() {
    check(
        "a 0.1 7..7 | 7 e 1, 7 e 2
         b 0.2 7..9 | 7 e 3, 7 e 4, 9 e 5
         a 0.1 7..9 | 7 e 6, 9 e 7",
        "-- 7 e1 0.1
         +0 7 e2 0.1
         +0 7 e6 0.1
         +0 7 e3 0.2
         +0 7 e4 0.2
         +2 9 e7 0.1
         +0 9 e5 0.2
         7 events",
    );
}

#[test]
fn slices_with_late_events_extend_to_the_end() {
    // The event at 65 is later than its packet's end.
    check(
        "a 0.1 10..20 | 10 e 1, 65 e 2
         b 0.2 10..30 | 15 e 3, 30 e 4
         a 0.1 40..50 | 45 e 5, 50 e 6
         b 0.2 60..70 | 60 e 7, 70 e 8",
        "-- 10 e1 0.1
         +5 15 e3 0.2
         +15 30 e4 0.2
         +30 60 e7 0.2
         +5 65 e2 0.1
         -20 45 e5 0.1
         +5 50 e6 0.1
         +20 70 e8 0.2
         8 events",
    );
}
