//! Tests of assembly, with reports and requests as text: [`report`] parses lines such as
//!
//! ```text
//! 10 1/2<1 osd:write sr               at 10 ns, trace 1, span 2 with parent 1, service and name
//! 12 1/2<1 osd:write key=value        a string; `key=#4096` is an integer
//! 30 1/2<1 osd:write @client 12+18    a complete span, reported at its end
//! 31 1/2 wide 7                       the upper half of a trace id
//! 30 1/2 run 20 t5                    thread 5 ran for 20 ns, until 30 ns; `t5` may be absent
//! 30 1/2 wait disk 9+1 t5 w6 read     it waited for 9 ns, was runnable for 1 ns; thread 6 woke it
//! 30 1/2 disk vda 2+7                 a disk's request was queued for 2 ns and served for 7 ns
//! ```
//! `~ADDRESS` or `~ADDRESS/PORT` may follow the name, and `^` with the upper half may follow the
//! trace id. `undated` stands for a complete span without start and duration. [`TreeText`] formats
//! requests as indented trees.

mod bounds;
mod clocks;
mod hostile;
mod join;
mod losses;
mod order;
mod own_time;
mod skew;
mod trees;

use crate::{
    Activity, Assembler, CompleteSpan, Completion, Detail, Limits, Oddity, OwnKind, ReportContent,
    Request, Sink, SpanReport, Step,
};
use blkkin_model::{Kind, ValueRef};
use std::fmt::Write;
use std::ops::ControlFlow;

/// Sink that formats requests in the order of their emission.
#[derive(Default)]
struct TreeText(String);

impl Sink for TreeText {
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()> {
        draw(&mut self.0, request);
        ControlFlow::Continue(())
    }
}

fn draw(out: &mut String, request: &Request<'_>) {
    let _ = write!(out, "{:x}", request.id.number());
    let of_request = [Oddity::Duplicate, Oddity::Late];
    for (odd, count) in request.oddities.iter().filter(|odd| of_request.contains(&odd.0)) {
        let _ = write!(out, " {}:{count}", odd.word());
    }
    if request.completion == Completion::Evicted {
        out.push_str(" evicted");
    }
    if request.events_left_out > 0 {
        let _ = write!(out, " left_out:{}", request.events_left_out);
    }
    out.push('\n');
    for step in &request.steps {
        draw_step(out, step);
    }
}

fn draw_step(out: &mut String, step: &Step<'_>) {
    let span = &step.span;
    let _ = write!(out, "{:indent$}{:x}", "", span.id.number(), indent = 2 * step.depth + 2);
    let _ = write!(out, " {}:{}", span.local.service, span.name);
    match span.kind {
        Kind::Unspecified => {}
        kind => {
            let _ = write!(out, " {}", format!("{kind:?}").to_lowercase());
        }
    }
    for (flag, word) in [(span.shared, "shared"), (span.debug, "debug")] {
        if flag {
            let _ = write!(out, " {word}");
        }
    }
    if let Some(start) = span.start_ns {
        let _ = write!(out, " {start}");
    }
    if let Some(duration) = span.duration_ns {
        let _ = write!(out, "+{duration}");
    }
    if let Some(own) = step.self_ns.filter(|own| Some(*own) != span.duration_ns) {
        let _ = write!(out, " self {own}");
    }
    for (word, endpoint) in [("at", span.local), ("with", span.remote)] {
        let ip = endpoint.ipv4.map(|ip| ip.to_string()).or(endpoint.ipv6.map(|ip| ip.to_string()));
        let service = if word == "with" { endpoint.service } else { "" };
        if ip.is_some() || endpoint.port != 0 || !service.is_empty() {
            let (ip, port) = (ip.unwrap_or_default(), endpoint.port);
            let _ = write!(out, " {word} {service}[{ip}]:{port}");
        }
    }
    for annotation in span.annotations {
        let _ = write!(out, " ({} {})", annotation.time_ns, annotation.value);
    }
    for tag in span.tags {
        let _ = match tag.value {
            ValueRef::Str(text) => write!(out, " {}={text}", tag.key),
            ValueRef::Int(number) => write!(out, " {}=#{number}", tag.key),
            value => write!(out, " {}={value:?}", tag.key),
        };
    }
    for odd in step.oddities() {
        let _ = write!(out, " !{}", odd.word());
    }
    if let Some(moved) = step.moved_ns {
        let _ = write!(out, " {moved:+}");
    }
    draw_own_time(out, step);
    out.push('\n');
}

/// Formats bands as `[KIND START+DURATION DETAIL, ...]`, and disks as `{DEVICE QUEUED+SERVED}`.
fn draw_own_time(out: &mut String, step: &Step<'_>) {
    let Some(own) = &step.own else { return };
    assert_eq!(Some(own.total_ns()), step.self_ns);
    let bands = own.bands.iter().map(|band| {
        let mut text = format!("{} {}+{}", band.kind.name(), band.start_ns, band.duration_ns);
        let _ = match band.detail {
            Detail::None => Ok(()),
            Detail::Device(name) | Detail::Call(name) => write!(text, " {name}"),
            Detail::Waker(thread) => write!(text, " {thread}"),
        };
        text
    });
    let _ = write!(out, " [{}]", bands.collect::<Vec<_>>().join(", "));
    for disk in &own.disks {
        let _ = write!(out, " {{{} {}+{}}}", disk.device, disk.queued_ns, disk.served_ns);
    }
}

/// Parses the words of an activity.
fn activity<'l>(kind: &str, mut words: impl Iterator<Item = &'l str>, time: u64) -> Activity<'l> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let of = words.next().expect("a duration, a reason or a device");
    if kind == "run" {
        let duration_ns = number(of);
        let thread = words.next().and_then(|word| word.strip_prefix('t')?.parse().ok());
        return Activity::Run { start_ns: time - duration_ns, duration_ns, thread };
    }
    let parts = words.next().and_then(|word| word.split_once('+')).expect("two durations");
    let (first, second) = (number(parts.0), number(parts.1));
    if kind == "disk" {
        return Activity::Disk { device: of, queued_ns: first, served_ns: second };
    }
    let reason = OwnKind::ALL.into_iter().find(|kind| kind.name() == of).expect("a reason");
    let (mut thread, mut waker, mut call) = (None, 0, "");
    for word in words {
        match (word.strip_prefix('t'), word.strip_prefix('w').map(str::parse)) {
            (Some(number), _) => thread = number.parse().ok(),
            (_, Some(Ok(number))) => waker = number,
            _ => call = word,
        }
    }
    Activity::Wait { reason, call, blocked_ns: first, runnable_ns: second, waker, thread }
}

/// Parses a line into a report.
fn report(line: &str) -> SpanReport<'_> {
    let mut words = line.split_whitespace();
    let time = words.next().expect("a time");
    let ids = words.next().expect("ids");
    let (trace, span) = ids.split_once('/').expect("TRACE/SPAN");
    let (span, parent) = span.split_once('<').unwrap_or((span, "0"));
    let (trace, high) = trace.split_once('^').unwrap_or((trace, "0"));
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{line}: `{text}`"));
    let mut report = SpanReport {
        trace_id: number(trace),
        trace_id_high: number(high),
        span_id: number(span),
        parent_id: number(parent),
        name: "",
        service: "",
        ip: "",
        port: 0,
        time_ns: number(time),
        source: 0,
        content: ReportContent::WideTraceId,
    };
    let mut word = words.next().expect("something");
    if word == "wide" {
        report.trace_id_high = number(words.next().expect("a number"));
        return report;
    }
    if matches!(word, "run" | "wait" | "disk") {
        report.content = ReportContent::Activity(activity(word, words, report.time_ns));
        return report;
    }
    (report.service, report.name) = word.split_once(':').expect("SERVICE:NAME");
    word = words.next().expect("something");
    if let Some(address) = word.strip_prefix('~') {
        let (ip, port) = address.split_once('/').unwrap_or((address, "0"));
        (report.ip, report.port) = (ip, port.parse().expect("a port"));
        word = words.next().expect("something");
    }
    report.content = if word == "undated" {
        ReportContent::Undated(Kind::Server)
    } else if let Some(kind) = word.strip_prefix('@') {
        let kind = match kind {
            "client" => Kind::Client,
            "server" => Kind::Server,
            "internal" => Kind::Internal,
            _ => panic!("{line}"),
        };
        let (start, duration) = words.next().and_then(|word| word.split_once('+')).expect("times");
        let (start_ns, duration_ns) = (number(start), number(duration));
        ReportContent::Span(CompleteSpan {
            start_ns,
            duration_ns,
            kind,
            debug: false,
            target: "",
            fields: &[],
        })
    } else {
        match word.split_once('=') {
            None => ReportContent::Event(word),
            Some((key, value)) => ReportContent::KeyValue(
                key,
                match value.strip_prefix('#') {
                    Some(value) => ValueRef::Int(value.parse().expect("a number")),
                    None => ValueRef::Str(value),
                },
            ),
        }
    };
    report
}

/// Returns the lines of a text without indentation, comments and empty lines.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

fn assemble(limits: Limits, text: &str) -> (String, Assembler) {
    let mut assembler = Assembler::new(limits);
    let mut drawn = TreeText::default();
    for line in lines(text) {
        let report = report(line);
        assert!(assembler.add(&report, report.time_ns as i64, &mut drawn).is_continue());
    }
    assert!(assembler.finish(&mut drawn).is_continue());
    assert_eq!((assembler.bytes(), assembler.open()), (0, 0));
    (drawn.0, assembler)
}

/// Checks the requests assembled from an input, and from the same input in reverse order.
#[track_caller]
fn check(input: &str, expected: &str) {
    check_with(Limits::default(), input, expected);
}

#[track_caller]
fn check_with(limits: Limits, input: &str, expected: &str) {
    let indent = expected.lines().nth(1).map_or(0, |line| line.len() - line.trim_start().len());
    let unindented = expected.lines().skip(1).map(|line| line.get(indent..).unwrap_or_default());
    let expected: String =
        unindented.filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    let (drawn, _) = assemble(limits, input);
    assert_eq!(drawn, expected, "\n{drawn}");
    let reversed: Vec<&str> = input.lines().rev().collect();
    let (drawn, _) = assemble(limits, &reversed.join("\n"));
    assert_eq!(drawn, expected, "the other way round\n{drawn}");
}
