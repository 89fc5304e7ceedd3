//! Tests of the drawings and the JSON of synthetic requests: wide and narrow drawings as text, and
//! a check that no line is too long.

use super::json::{self, End};
use super::{Options, TreePrinter};
use blkkin_model::{Kind, ValueRef};
use blkkin_reader::Stats;
use blkkin_spans::{
    Activity, Assembler, CompleteSpan, Limits, OwnKind, Refusals, ReportContent, Request,
    SpanReport,
};
use serde_json::Value;
use std::ops::ControlFlow;

const START: u64 = 1_795_246_371_000_000_000;
const US: u64 = 1000;

const OPTIONS: Options = Options {
    color: false,
    ascii: false,
    width: 80,
    annotations: false,
    kernel: false,
    utc: true,
    absolute: true,
};

fn span(
    id: u64,
    parent: u64,
    service: &'static str,
    kind: Kind,
    times: (u64, u64),
) -> SpanReport<'static> {
    let (start, duration) = times;
    SpanReport {
        trace_id: 0x5eed,
        trace_id_high: 0,
        span_id: id,
        parent_id: parent,
        name: "write",
        service,
        ip: "10.0.0.1",
        port: 6800,
        time_ns: START + (start + duration) * US,
        source: 0,
        content: ReportContent::Span(CompleteSpan {
            start_ns: START + start * US,
            duration_ns: duration * US,
            kind,
            debug: false,
            target: "",
            fields: &[],
        }),
    }
}

fn note(
    id: u64,
    service: &'static str,
    time: u64,
    what: ReportContent<'static>,
) -> SpanReport<'static> {
    SpanReport {
        time_ns: START + time * US,
        content: what,
        ..span(id, 0, service, Kind::Internal, (0, 0))
    }
}

/// Returns reports on a call with child spans, and on spans with anomalies.
fn events() -> Vec<SpanReport<'static>> {
    vec![
        span(1, 0, "qemu", Kind::Client, (0, 1000)),
        span(1, 0, "vlmcd", Kind::Server, (100, 800)),
        span(2, 1, "osd.3", Kind::Internal, (150, 300)),
        span(3, 1, "osd.7", Kind::Internal, (500, 350)),
        span(4, 3, "journal \u{1b}[31m of a disk", Kind::Internal, (490, 10)),
        span(5, 9, "stray", Kind::Internal, (990, 210)),
        note(6, "once", 600, ReportContent::Event("hello")),
        note(2, "osd.3", 200, ReportContent::Event("queued\nin a second line")),
        note(2, "osd.3", 160, ReportContent::KeyValue("object", ValueRef::Str("rbd_data.1f2e"))),
        note(3, "osd.7", 700, ReportContent::KeyValue("error", ValueRef::Int(-5))),
    ]
}

/// Returns what threads and a disk did for some of the spans of [`events`].
fn activities() -> Vec<SpanReport<'static>> {
    let run = |id, start: u64, duration: u64| {
        let (start_ns, duration_ns) = (START + start * US, duration * US);
        let run = Activity::Run { start_ns, duration_ns, thread: None };
        note(id, "", start + duration, ReportContent::Activity(run))
    };
    let wait = |id, end: u64, reason, blocked: u64, runnable: u64| {
        let (call, waker, thread) = ("futex", 77, Some(5));
        let (blocked_ns, runnable_ns) = (blocked * US, runnable * US);
        let wait = Activity::Wait { reason, call, blocked_ns, runnable_ns, waker, thread };
        note(id, "", end, ReportContent::Activity(wait))
    };
    let disk = |id, end, device, queued: u64, served: u64| {
        let (queued_ns, served_ns) = (queued * US, served * US);
        let disk = Activity::Disk { device, queued_ns, served_ns };
        note(id, "", end, ReportContent::Activity(disk))
    };
    vec![
        run(2, 155, 290),
        wait(2, 440, OwnKind::Disk, 260, 12),
        disk(2, 428, "vda", 20, 235),
        run(3, 500, 350),
        wait(3, 560, OwnKind::Lock, 15, 3),
        wait(3, 700, OwnKind::Network, 15, 0),
        wait(3, 730, OwnKind::Other, 9, 0),
        wait(3, 760, OwnKind::Disk, 4, 0),
        disk(3, 758, "vda", 0, 3),
        disk(3, 790, "vdb", 5, 300),
        wait(5, 1100, OwnKind::Sleep, 40, 2),
    ]
}

/// Returns system calls for some of the spans of [`events`].
fn system_calls() -> Vec<SpanReport<'static>> {
    let call = |id, end: u64, duration: u64, name, arguments, result| {
        let call =
            Activity::Call { name, arguments, result, duration_ns: duration * US, thread: Some(5) };
        note(id, "", end, ReportContent::Activity(call))
    };
    let mut calls = vec![
        call(2, 180, 10, "openat", "dfd=-100, filename=\"/a\\u{1b}\", flags=0x2", -2),
        call(2, 440, 260, "pread64", "fd=3, count=4096, pos=0", 4096),
        call(3, 520, 0, "mmap", "", 0x7f00_0000_0000),
    ];
    // More than are shown.
    calls.extend((0..12).map(|number| call(3, 530 + 2 * number, number, "futex", "val=2", 1)));
    calls
}

/// Assembles the requests of `events` and passes each to `print`.
fn with(events: &[SpanReport<'_>], mut print: impl FnMut(&Request<'_>)) {
    let mut assembler = Assembler::new(Limits::default());
    let mut sink = |request: &Request<'_>| {
        print(request);
        ControlFlow::Continue(())
    };
    for said in events {
        assert!(assembler.add(said, 0, &mut sink).is_continue());
    }
    assert!(assembler.finish(&mut sink).is_continue());
}

fn drawn(events: &[SpanReport<'_>], options: Options) -> String {
    let mut out = String::new();
    let mut printer = TreePrinter::new(options);
    with(events, |request| printer.print(&mut out, request));
    out
}

#[track_caller]
fn check(options: Options, expected: &str) {
    let out = drawn(&events(), options);
    assert_eq!(out, expected.strip_prefix('\n').expect("a line of its own"), "\n{out}");
}

#[test]
fn a_request_is_a_tree() {
    check(OPTIONS, WIDE);
}

#[test]
fn narrow_and_ascii() {
    check(Options { width: 52, ascii: true, ..OPTIONS }, NARROW);
}

#[test]
fn with_all_that_was_said() {
    check(Options { width: 72, annotations: true, ..OPTIONS }, ANNOTATED);
}

#[test]
fn own_times_are_below_their_spans() {
    let mut events = events();
    events.extend(activities());
    let out = drawn(&events, Options { width: 100, kernel: true, ..OPTIONS });
    assert_eq!(out, OWN.strip_prefix('\n').expect("a line of its own"), "\n{out}");
    let narrow = Options { width: 60, kernel: true, ascii: true, ..OPTIONS };
    let out = drawn(&events, narrow);
    assert_eq!(out, OWN_NARROW.strip_prefix('\n').expect("a line of its own"), "\n{out}");
    let colored = drawn(&events, Options { width: 100, kernel: true, color: true, ..OPTIONS });
    let disk = "\x1b[34m█████████████████\x1b[0m";
    assert!(colored.contains(disk) && colored.contains("\x1b[34mdisk vda"), "{colored}");
}

#[test]
fn system_calls_are_below_their_spans() {
    let mut events = events();
    events.extend(system_calls());
    let out = drawn(&events, Options { width: 100, kernel: true, ..OPTIONS });
    assert_eq!(out, CALLS.strip_prefix('\n').expect("a line of its own"), "\n{out}");
    assert_eq!(drawn(&events, OPTIONS), WIDE.strip_prefix('\n').expect("a line of its own"));
}

#[test]
fn json_has_system_calls() {
    let mut events = events();
    events.extend(system_calls());
    let mut out = Vec::new();
    with(&events, |request| json::request(&mut out, request));
    let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
    let calls: Vec<Value> = lines.filter_map(|line| line.get("calls").cloned()).collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0], serde_json::from_str::<Value>(CALLS_JSON).expect("JSON"));
    let all = calls[1].as_array().expect("a list");
    let mmap = all.iter().find(|call| call["name"] == "mmap").expect("a call");
    assert_eq!((&mmap["result"], mmap.get("arguments")), (&0x7f00_0000_0000u64.into(), None));
    assert_eq!(all.len(), 13);
}

#[test]
fn json_has_own_times() {
    let mut events = events();
    events.extend(activities());
    let mut out = Vec::new();
    with(&events, |request| json::request(&mut out, request));
    let own = |id: &str| {
        let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
        let mut spans = lines.filter(|line| line["id"] == format!("{id:0>16}"));
        spans.next().expect("a span").get("own").cloned()
    };
    assert_eq!(own("6"), None);
    assert_eq!(own("2"), serde_json::from_str(OWN_JSON).expect("JSON"));
    assert_eq!(own("3").expect("an own time")["bands"][1]["waker"], 77);
    assert_eq!(own("3").expect("an own time")["bands"][6]["call"], "futex");
    assert_eq!(own("5").expect("an own time")["sums"]["unknown"], 168_000);
}

#[test]
fn no_line_is_too_long() {
    let mut events = events();
    let long: &'static str = Box::leak("é very long ".repeat(30).into_boxed_str());
    events.push(SpanReport { span_id: 100, parent_id: 5, service: long, ..events[0] });
    events.push(note(2, "osd.3", 170, ReportContent::Event(long)));
    events.push(note(2, "osd.3", 170, ReportContent::KeyValue(long, ValueRef::Str(long))));
    events.push(SpanReport {
        time_ns: u64::MAX,
        ..note(200, "late", 0, ReportContent::Event("end of time"))
    });
    // A span of duration 0 at the very end.
    let ReportContent::Span(whole) = events[0].content else { panic!("a span") };
    let whole = CompleteSpan { start_ns: u64::MAX, duration_ns: 0, ..whole };
    events.push(SpanReport { span_id: 201, content: ReportContent::Span(whole), ..events[0] });
    for id in 10..90 {
        events.push(span(id, id - 1, "deep", Kind::Internal, (id, 500)));
    }
    events.extend(activities());
    events.extend(system_calls());
    let device: &'static str = Box::leak("a long name".repeat(9).into_boxed_str());
    let disk = Activity::Disk { device, queued_ns: 77 * US, served_ns: u64::MAX };
    events.push(note(89, "", 400, ReportContent::Activity(disk)));
    for width in 20..200 {
        for ascii in [false, true] {
            let options = Options { width, ascii, annotations: true, kernel: true, ..OPTIONS };
            let out = drawn(&events, options);
            assert!(!ascii || out.is_ascii(), "{out}");
            for line in out.lines() {
                // The parts of a line that are always printed have 34 characters.
                assert!(line.chars().count() <= width.max(34), "{width}: {line}");
                assert_eq!(line.trim_end(), line);
            }
            let plain = Options { color: true, kernel: false, ..options };
            let out = drawn(&events, Options { kernel: false, ..options });
            let plain = drawn(&events, plain);
            let plain: String =
                plain.split('\x1b').enumerate().fold(String::new(), |all, (at, piece)| {
                    all + if at == 0 { piece } else { piece.split_once('m').expect("a colour").1 }
                });
            let unpadded: String =
                plain.lines().map(|line| format!("{}\n", line.trim_end())).collect();
            assert_eq!(unpadded, out);
        }
    }
}

#[test]
fn json_says_everything() {
    let mut out = Vec::new();
    with(&events(), |request| json::request(&mut out, request));
    let lines: Vec<Value> = out
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    let expected: Vec<Value> =
        JSON.trim_start().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(line, expected, "\n{line}");
    }
    assert_eq!(lines.len(), expected.len(), "\n{}", String::from_utf8_lossy(&out));
}

/// Spans with any ids, numbers and texts give valid JSON.
#[test]
fn json_is_json() {
    let texts = [
        "",
        "plain",
        "\"quoted\"",
        "back\\slash",
        "new\nline\u{1}\u{7f}",
        "gr\u{f6}\u{df}e \u{2028}",
    ];
    for (number, text) in (0..).zip(texts) {
        let max = u64::MAX - number;
        let said = SpanReport {
            trace_id: max,
            trace_id_high: number,
            span_id: max,
            parent_id: number,
            name: text,
            service: text,
            ip: text,
            time_ns: max,
            content: ReportContent::KeyValue(text, ValueRef::Str(text)),
            ..events()[0]
        };
        let double = ReportContent::KeyValue("double", ValueRef::Double(f64::NAN));
        let mut out = Vec::new();
        let all = [
            said,
            SpanReport { content: ReportContent::Event(text), ..said },
            SpanReport { content: double, ..said },
        ];
        with(&all, |request| json::request(&mut out, request));
        let line = out.split(|byte| *byte == b'\n').nth(1).expect("a span");
        let span: Value = serde_json::from_slice(line).expect("JSON");
        let high = if number > 0 { format!("{number:016x}") } else { String::new() };
        assert_eq!(span["trace_id"], format!("{high}{max:016x}"));
        assert_eq!(span["id"], format!("{max:016x}"));
        assert_eq!(span["start"], max);
        assert_eq!(span["annotations"][0]["value"], text);
        let tags = span["tags"].as_array().expect("tags");
        let value = |key: &str| &tags.iter().find(|tag| tag["key"] == key).expect("a tag")["value"];
        assert_eq!((value(text), value("double")), (&text.into(), &"NaN".into()));
        assert_eq!(span.get("name").and_then(Value::as_str).unwrap_or_default(), text);
    }
}

#[test]
fn the_last_line_has_the_totals() {
    let (refusals, stats) = (Refusals::default(), Stats { events: 9, ..Stats::default() });
    let end = End {
        counts: Default::default(),
        shown: 1,
        refusals: &refusals,
        others: 2,
        unattributed: 3,
        stats: &stats,
    };
    let mut out = Vec::new();
    json::end(&mut out, &end);
    let end: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!((&end["type"], &end["events"]), (&"end".into(), &9.into()));
    assert_eq!((&end["requests_shown"], &end["events_of_others"]), (&1.into(), &2.into()));
    assert_eq!(
        (&end["events_of_no_span"], &end["events_of_unknown_spans"]),
        (&3.into(), &0.into())
    );
}

const WIDE: &str = "
0000000000005eed  qemu: write  2026-11-21 07:32:51.000000000  1.20 ms  7 spans
  1 error  1 span whose parent is missing  1 more root
  1 span before the parent (clocks?)
qemu: write client                     1.00 ms  own 200 µs  ████████████████▋
├ vlmcd: write server                   800 µs               ▐█████████████
├ osd.3: write                          300 µs                ▐████▌
└ osd.7: write error                    350 µs                      ▐█████▏
  └ journal ?[31m of a disk: write (…  10.0 µs                      ▎
once: write (another root)                                            ▏
stray: write (parent 000000000000000…   210 µs                              ▐███
";
const NARROW: &str = "
0000000000005eed  qemu: write
  2026-11-21 07:32:51.000000000  1.20 ms  7 spans
  1 error  1 span whose parent is missing
  1 more root  1 span before the parent (clocks?)
qemu: write client            1.00 ms  ###########
+ vlmcd: write server          800 us   ########:
+ osd.3: write                 300 us   :###
` osd.7: write error           350 us       :###.
  ` journal ?[31m of a dis..  10.0 us       .
once: write (another root)                   |
stray: write (parent 00000..   210 us            .##
";
const ANNOTATED: &str = "
0000000000005eed  qemu: write  2026-11-21 07:32:51.000000000  1.20 ms
  7 spans  1 error  1 span whose parent is missing  1 more root
  1 span before the parent (clocks?)
qemu: write client               1.00 ms  own 200 µs  ███████████████
├ vlmcd: write server             800 µs               ▐███████████▌
├ osd.3: write                    300 µs                ▐███▊
│   · queued?in a second line    +200 µs                 ╵
│   · object = rbd_data.1f2e
└ osd.7: write error              350 µs                     ▐████▊
  │ · error = -5
  └ journal ?[31m of a disk: w…  10.0 µs                     ▏
once: write (another root)                                     ▏
  · hello                        +600 µs                       ╵
stray: write (parent 000000000…   210 µs                            ▕███
";
const OWN: &str = "
0000000000005eed  qemu: write  2026-11-21 07:32:51.000000000  1.20 ms  7 spans  1 error
  1 span whose parent is missing  1 more root  1 span before the parent (clocks?)
qemu: write client                                     1.00 ms  own 200 µs  ████████████████████
├ vlmcd: write server                                   800 µs                ████████████████
├ osd.3: write                                          300 µs                 ██████
│      DDDDDDDDDDDDDDDDDRQE  own 300 µs: disk vda 260 µs (queued 20.0 µs), running 18.0 µs,
│                                        runnable 12.0 µs, elsewhere 10.0 µs
└ osd.7: write error                                    350 µs                        ███████
  │    RRRRRRRRRRRRRRRLNODQ  own 350 µs: running 304 µs, lock 15.0 µs, network 15.0 µs,
  │                                      other 9.00 µs, disk 4.00 µs, runnable 3.00 µs,
  │                                      vda served 3.00 µs, vdb served 300 µs (queued 5.00 µs)
  └ journal ?[31m of a disk: write (before its paren…  10.0 µs                       ▕
once: write (another root)                                                              ▏
stray: write (parent 0000000000000009 missing)          210 µs                                 ▕████
       ???????????????SSSSQ  own 210 µs: unknown 168 µs, sleep 40.0 µs, runnable 2.00 µs
own time by service
osd.3  DDDDDDDDDDDDDDDDDRQE  own 300 µs: disk vda 260 µs (queued 20.0 µs), running 18.0 µs,
                                         runnable 12.0 µs, elsewhere 10.0 µs
osd.7  RRRRRRRRRRRRRRRLNODQ  own 350 µs: running 304 µs, lock 15.0 µs, network 15.0 µs,
                                         other 9.00 µs, disk 4.00 µs, runnable 3.00 µs,
                                         vda served 3.00 µs, vdb served 300 µs (queued 5.00 µs)
stray  ???????????????SSSSQ  own 210 µs: unknown 168 µs, sleep 40.0 µs, runnable 2.00 µs
";
const OWN_NARROW: &str = "
0000000000005eed  qemu: write  2026-11-21 07:32:51.000000000
  1.20 ms  7 spans  1 error  1 span whose parent is missing
  1 more root  1 span before the parent (clocks?)
qemu: write client                  1.00 ms  ############:
+ vlmcd: write server                800 us   :#########.
+ osd.3: write                       300 us   .###:
|      own 300 us: disk vda 260 us (queued 20.0 us),
|                  running 18.0 us, runnable 12.0 us,
|                  elsewhere 10.0 us
` osd.7: write error                 350 us        :###:
  |    own 350 us: running 304 us, lock 15.0 us,
  |                network 15.0 us, other 9.00 us,
  |                disk 4.00 us, runnable 3.00 us,
  |                vda served 3.00 us,
  |                vdb served 300 us (queued 5.00 us)
  ` journal ?[31m of a disk: wri..  10.0 us        .
once: write (another root)                          |
stray: write (parent 00000000000..   210 us              :##
       own 210 us: unknown 168 us, sleep 40.0 us,
                   runnable 2.00 us
own time by service
osd.3  own 300 us: disk vda 260 us (queued 20.0 us),
                   running 18.0 us, runnable 12.0 us,
                   elsewhere 10.0 us
osd.7  own 350 us: running 304 us, lock 15.0 us,
                   network 15.0 us, other 9.00 us,
                   disk 4.00 us, runnable 3.00 us,
                   vda served 3.00 us,
                   vdb served 300 us (queued 5.00 us)
stray  own 210 us: unknown 168 us, sleep 40.0 us,
                   runnable 2.00 us
";
const OWN_JSON: &str = r#"{"sums":{"running":18000,"disk":260000,"runnable":12000,"elsewhere":10000},"disk":{"vda":{"requests":1,"queued":20000,"served":235000}},"bands":[{"kind":"elsewhere","start":0,"duration":5000},{"kind":"running","start":5000,"duration":13000},{"kind":"disk","start":18000,"duration":260000,"device":"vda"},{"kind":"runnable","start":278000,"duration":12000},{"kind":"running","start":290000,"duration":5000},{"kind":"elsewhere","start":295000,"duration":5000}]}"#;
const JSON: &str = r#"
{"type":"request","trace_id":"0000000000005eed","start":1795246371000000000,"duration":1200000,"spans":7,"errors":1,"events":10,"events_left_out":0,"completion":"ended","oddities":{"missing_parent":1,"other_root":1,"before_parent":1}}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000001","step":0,"kind":"client","name":"write","service":"qemu","ipv4":"10.0.0.1","port":6800,"start":1795246371000000000,"duration":1000000,"self":200000}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000001","step":1,"parent":0,"kind":"server","name":"write","service":"vlmcd","ipv4":"10.0.0.1","port":6800,"start":1795246371000100000,"duration":800000,"self":800000,"shared":true}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000002","parent_id":"0000000000000001","step":2,"parent":0,"kind":"internal","name":"write","service":"osd.3","ipv4":"10.0.0.1","port":6800,"start":1795246371000150000,"duration":300000,"self":300000,"annotations":[{"time":1795246371000200000,"value":"queued\nin a second line"}],"tags":[{"key":"object","value":"rbd_data.1f2e","of":"span"}]}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000003","parent_id":"0000000000000001","step":3,"parent":0,"kind":"internal","name":"write","service":"osd.7","ipv4":"10.0.0.1","port":6800,"start":1795246371000500000,"duration":350000,"self":350000,"error":true,"tags":[{"key":"error","value":-5,"of":"span"}]}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000004","parent_id":"0000000000000003","step":4,"parent":3,"kind":"internal","name":"write","service":"journal \u001b[31m of a disk","ipv4":"10.0.0.1","port":6800,"start":1795246371000490000,"duration":10000,"self":10000,"odd":["before_parent"]}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000006","step":5,"name":"write","service":"once","ipv4":"10.0.0.1","port":6800,"start":1795246371000600000,"annotations":[{"time":1795246371000600000,"value":"hello"}],"odd":["other_root"]}
{"type":"span","trace_id":"0000000000005eed","id":"0000000000000005","parent_id":"0000000000000009","step":6,"kind":"internal","name":"write","service":"stray","ipv4":"10.0.0.1","port":6800,"start":1795246371000990000,"duration":210000,"self":210000,"odd":["missing_parent"]}
"#;

const CALLS: &str = r#"
0000000000005eed  qemu: write  2026-11-21 07:32:51.000000000  1.20 ms  7 spans  1 error
  1 span whose parent is missing  1 more root  1 span before the parent (clocks?)
qemu: write client                                     1.00 ms  own 200 µs  ████████████████████
├ vlmcd: write server                                   800 µs                ████████████████
├ osd.3: write                                          300 µs                 ██████
│   · openat(dfd=-100, filename="/a\u{1b}"…) = ENOENT  10.0 µs                 ▎
│   · pread64(fd=3, count=4096, pos=0) = 4096           260 µs                 ▐████▊
└ osd.7: write error                                    350 µs                        ███████
  │ · futex(val=2) = 1                                 2.00 µs                        ▕
  │ · futex(val=2) = 1                                 3.00 µs                        ▕
  │ · futex(val=2) = 1                                 4.00 µs                        ▕
  │ · futex(val=2) = 1                                 5.00 µs                        ▕
  │ · futex(val=2) = 1                                 6.00 µs                        ▕
  │ · futex(val=2) = 1                                 7.00 µs                        ▕
  │ · futex(val=2) = 1                                 8.00 µs                        ▕
  │ · futex(val=2) = 1                                 9.00 µs                        ▕
  │ · futex(val=2) = 1                                 10.0 µs                        ▕
  │ · futex(val=2) = 1                                 11.0 µs                        ▕
  │ · 3 shorter calls                                  1.00 µs
  └ journal ?[31m of a disk: write (before its paren…  10.0 µs                       ▕
once: write (another root)                                                              ▏
stray: write (parent 0000000000000009 missing)          210 µs                                 ▕████
"#;

const CALLS_JSON: &str = r#"[
    { "name": "openat", "arguments": "dfd=-100, filename=\"/a\\u{1b}\", flags=0x2", "start": 1795246371000170000, "duration": 10000, "result": -2, "error": "ENOENT", "tid": 5 },
    { "name": "pread64", "arguments": "fd=3, count=4096, pos=0", "start": 1795246371000180000, "duration": 260000, "result": 4096, "tid": 5 }
]"#;
