//! Output of `blkkin spans`: trees and JSON of requests from a real LTTng trace, from programs
//! recorded by BlkKin's tracer, from traces that the tests write, and from recordings in progress.

mod support;

use blkkin_trace::{Endpoint, Trace, sample};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::node::{Node, Program, say};
use support::process::{Running, until};
use support::{Scratch, blkkin, recipe, run, text};

/// Returns the path of an LTTng trace of two processes whose requests have the same ids.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/traces/requests")
}

fn spans(arguments: &[&str], trace: &Path) -> Command {
    let mut command = blkkin(Path::new("/"));
    command.env("LC_ALL", "C.UTF-8").env_remove("COLUMNS").arg("spans").args(arguments).arg(trace);
    command
}

#[track_caller]
fn check(output: &Output, status: i32, out: &str, errors: &str) {
    assert_eq!(text(&output.stderr), errors);
    assert_eq!(text(&output.stdout), out, "\n{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(status));
}

const PICTURE: &str = "\
000000005eed0001  qemu: guest write  2026-11-21 08:14:59.336198567  1.99 ms  7 spans
qemu: guest write client          1.99 ms  own 108 µs  █████████████████████████████████████
└ vlmcd: volume server            1.88 ms  own 170 µs    ███████████████████████████████████
  └ mapperd: map server           1.71 ms  own 107 µs     ▕███████████████████████████████▌
    ├ osd.3: write object server   422 µs  own 211 µs       ▐███████▌
    │ └ osd.3: journal             212 µs                     ▕███▋
    └ osd.7: write object server  1.18 ms  own 209 µs               ▐█████████████████████▌
      └ osd.7: journal             972 µs                             ▐█████████████████▋
";

#[test]
fn a_real_request_is_a_tree() {
    let one = ["--filter", "pid == 29524", "--limit", "1"];
    let output = run(spans(&one, &example()).env("COLUMNS", "92"));
    check(&output, 0, PICTURE, "");
    let narrow = run(spans(&one, &example()).env("COLUMNS", "50"));
    let narrow = text(&narrow.stdout);
    assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
    let ascii = run(spans(&one, &example()).env("LC_ALL", "C"));
    assert!(ascii.stdout.is_ascii() && !ascii.stdout.is_empty());
    let colored =
        run(spans(&["--color", "always", "--limit", "1"], &example()).env("NO_COLOR", "1"));
    assert!(text(&colored.stdout).contains("\x1b["));
    assert!(!text(&output.stdout).contains("\x1b["));
}

#[test]
fn requests_are_chosen() {
    let count = |arguments: &[&str]| {
        let output = run(&mut spans(arguments, &example()));
        assert_eq!(text(&output.stderr), "");
        text(&output.stdout).lines().filter(|line| line.starts_with("000000005eed")).count()
    };
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["--limit", "1"]), 1);
    assert_eq!(count(&["--limit", "0"]), 0);
    assert_eq!(count(&["--service", "osd.3"]), 2);
    assert_eq!(count(&["--service", "osd"]), 0);
    assert_eq!(count(&["--min-duration", "1ms"]), 2);
    assert_eq!(count(&["--min-duration", "3.9ms"]), 1);
    assert_eq!(count(&["--min-duration", "1"]), 0);
    assert_eq!(count(&["--end", "08:14:59.337"]), 1);
}

/// Parses the lines of an output as JSON.
fn json(output: &Output) -> Vec<serde_json::Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn json_has_spans_behind_their_requests() {
    let output = run(&mut spans(&["--json", "--filter", "pid == 29524"], &example()));
    let lines = json(&output);
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    let one = ["request", "span", "span", "span", "span", "span", "span", "span"];
    assert_eq!(types, [&["begin"][..], &one, &one, &["end"]].concat());
    assert_eq!(lines[0]["schema"], "blkkin.spans.v1");
    let root = &lines[2];
    assert_eq!((&root["kind"], &root["service"]), (&"client".into(), &"qemu".into()));
    assert_eq!((&root["ipv4"], &root["port"]), (&"10.0.0.1".into(), &10809.into()));
    assert_eq!(root["tags"][0]["value"], 4096);
    assert_eq!(root.get("parent"), None);
    for span in &lines[3..9] {
        assert_eq!(span["trace_id"], root["trace_id"]);
        let parent = &lines[2 + span["parent"].as_u64().expect("a parent") as usize];
        assert_eq!(span["parent_id"], parent["id"]);
    }
    let end = &lines[17];
    assert_eq!((&end["requests"], &end["spans"]), (&2.into(), &14.into()));
    assert_eq!((&end["events"], &end["events_of_spans"]), (&42.into(), &42.into()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |arguments: &[&str], message: &str| {
        let output = run(&mut spans(arguments, &example()));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(message), "{output:?}");
    };
    refused(&["--json", "--tree"], "cannot be used with");
    refused(&["--json", "--annotations"], "cannot be used with");
    refused(&["--min-duration", "long"], "not a length of time, such as 5ms");
    refused(&["--memory", "much"], "not a size in bytes");
    refused(&["--filter", "nobody == 1"], "nobody");
    refused(&["--follow", "-"], "--follow cannot read standard input");
    let output = run(&mut spans(&[], Path::new("/nowhere")));
    check(&output, 1, "", "error: /nowhere: cannot open: no such file or directory\n");
}

/// Acts as a tested program: records a request, and reports when it is done.
#[test]
#[ignore = "a program of other tests"]
fn program() {
    static CLIENT: Endpoint<'static> = Endpoint::new("client", "10.0.0.1", 50_000);
    static OSD: Endpoint<'static> = Endpoint::new("osd.3", "10.0.0.2", 6800);
    blkkin_trace::start();
    let request = Trace::root_wide("write", &CLIENT, sample::global()).client_span();
    request.server_address(&OSD);
    request.keyval("bytes", 4096);
    // A server's spans of the same trace, as if its ids had arrived in a message.
    let served = Trace::with_context("write", &OSD, &request.context().expect("ids"));
    served.server_receive();
    std::thread::scope(|scope| {
        let journal = served.child("journal");
        scope.spawn(move || {
            let span = journal.span();
            span.event("queued");
            span.keyval("error", "no space");
        });
    });
    served.server_send();
    drop(request);
    say("\nready");
}

#[test]
fn what_our_tracer_records_is_a_request() {
    let node = Node::new();
    let _agent = node.agent();
    let output = node.output();
    node.run(&["session", "create", "s", "-o", output.to_str().expect("a path")]);
    node.run(&["event", "enable", "zipkin:*"]);
    node.run(&["event", "enable", "blkkin:*"]);
    node.run(&["session", "start", "s"]);
    drop(Program::start(node.test_program(&[], "program")));
    node.end_session();

    let output = run(&mut spans(&["--json"], &output));
    let mut lines = json(&output);
    for line in &mut lines {
        let object = line.as_object_mut().expect("an object");
        if object["type"] == "span" {
            assert!(object["duration"].as_u64().is_some_and(|ns| ns > 0), "{object:?}");
            let id = object["trace_id"].as_str().expect("an id");
            assert!(id.len() == 32 && !id.starts_with("0000000000000000"), "{id}");
        }
        for key in ["trace_id", "id", "parent_id", "start", "duration", "self"] {
            object.remove(key);
        }
        if let Some(annotations) = object.get_mut("annotations").and_then(|all| all.as_array_mut())
        {
            annotations.iter_mut().for_each(|said| said["time"] = 0.into());
        }
    }
    let expected = [
        r#"{"type":"request","spans":3,"errors":1,"events":8,"events_left_out":0,"completion":"ended","oddities":{}}"#,
        r#"{"type":"span","step":0,"kind":"client","name":"write","service":"client","ipv4":"10.0.0.1","port":50000,"remote":{"service":"osd.3","ipv4":"10.0.0.2","port":6800},"tags":[{"key":"bytes","value":4096,"of":"span"}]}"#,
        r#"{"type":"span","step":1,"parent":0,"kind":"server","name":"write","service":"osd.3","ipv4":"10.0.0.2","port":6800,"shared":true}"#,
        r#"{"type":"span","step":2,"parent":1,"kind":"internal","name":"journal","service":"osd.3","ipv4":"10.0.0.2","port":6800,"error":true,"annotations":[{"time":0,"value":"queued"}],"tags":[{"key":"error","value":"no space","of":"span"}]}"#,
    ];
    assert_eq!(lines.len(), 6, "{lines:#?}");
    for (line, expected) in lines[1..5].iter().zip(expected) {
        assert_eq!(line, &serde_json::from_str::<serde_json::Value>(expected).expect("JSON"));
    }
}

/// Metadata of the traces that these tests write: event types of blkin, of the tracer and of the
/// `tracing` crate, and event types that only resemble them.
const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; u64 stream_instance_id; }; };
env { procname = "server"; };
clock { name = c; freq = 1000000000; offset_s = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream { id = 0;
  packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size; u64 packet_seq_num; u64 events_discarded; };
  event.header := struct { u8 id; time timestamp; };
};
stream { id = 1; event.header := struct { u8 id; }; };
event { name = "zipkin:timestamp"; id = 0; stream_id = 0; fields := struct { string trace_name; string service_name; i32 port_no; string ip; i64 trace_id; i64 span_id; i64 parent_span_id; string _event; }; };
event { name = "zipkin:keyval"; id = 1; stream_id = 0; fields := struct { string trace_name; string service_name; i32 port_no; string ip; i64 trace_id; i64 span_id; i64 parent_span_id; string key; string val; }; };
event { name = "blkkin:span"; id = 2; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; i64 span_id; i64 parent_span_id; u64 start; u64 duration; u8 kind; u8 flags; i32 port_no; string span_name; string service_name; string ip; }; };
event { name = "app.db:query"; id = 3; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; i64 span_id; i64 parent_span_id; u64 start; u64 duration; string table; u64 rows; f64 share; u8 kind; }; };
event { name = "app.db:src/db.rs:7"; id = 4; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; i64 span_id; string message; u64 rows; }; };
event { name = "zipkin:other"; id = 5; stream_id = 0; fields := struct { u8 x; }; };
event { name = "zipkin:keyval_string"; id = 6; stream_id = 0; fields := struct { string trace_name; string service_name; i32 port_no; string ip; string trace_id; i64 span_id; i64 parent_span_id; string key; string val; }; };
event { name = "zipkin:keyval_integer"; id = 7; stream_id = 0; fields := struct { string trace_name; string service_name; i32 port_no; string ip; i64 trace_id; i64 parent_span_id; string key; i64 val; }; };
event { name = "app:other"; id = 8; stream_id = 0; fields := struct { u8 x; }; };
event { name = "blkkin:wide_trace_id"; id = 9; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; }; };
event { name = "app.shop:order"; id = 10; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; i64 span_id; i64 parent_span_id; u64 start; u64 duration; string service_name; i32 port_no; string ip; string item; }; };
event { name = "app.shop:paid"; id = 11; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; i64 span_id; string service_name; i32 port_no; string ip; u64 sum; }; };
event { name = "app.shop:pack"; id = 12; stream_id = 0; fields := struct { i64 trace_id; i64 trace_id_high; i64 span_id; i64 parent_span_id; u64 start; u64 duration; string service_name; u8 port_no; }; };
event { name = "zipkin:timestamp"; id = 0; stream_id = 1; fields := struct { string trace_name; string service_name; i32 port_no; string ip; i64 trace_id; i64 span_id; i64 parent_span_id; string _event; }; };
"#;

/// Creates a trace with [`METADATA`] and no streams.
fn begin(path: &Path) {
    fs::create_dir_all(path).expect("to make a folder");
    fs::write(path.join("metadata"), METADATA).expect("to write");
}

/// Header of a written packet.
struct PacketHeader {
    /// Number of the packet's stream.
    stream: u64,
    /// Number of the packet in its stream.
    seq: u64,
    /// Number of events of the stream that were lost up to the packet's end.
    lost: u64,
    /// Begin and end of the packet, in cycles.
    times: RangeInclusive<u64>,
}

/// Returns the header of the first packet of stream 0.
fn header(times: RangeInclusive<u64>) -> PacketHeader {
    PacketHeader { stream: 0, seq: 0, lost: 0, times }
}

/// Appends a packet with this header and these events.
fn packet(trace: &Path, header: PacketHeader, events: &[String]) {
    let PacketHeader { stream, seq, lost, times } = header;
    let (begin, end) = (times.start(), times.end());
    let mut words = format!(
        "packet u32le 0xc1fc1fc1 u32le 0 u64le {stream}\nu64le {begin} u64le {end} content32le size32le u64le {seq} u64le {lost}\n"
    );
    for event in events {
        words.push_str(event);
        words.push('\n');
    }
    words.push_str("end\n");
    append(trace, stream, &recipe::bytes(&words.lines().collect::<Vec<_>>()).expect("a packet"));
}

fn append(trace: &Path, stream: u64, bytes: &[u8]) {
    let path = trace.join(format!("stream_{stream}"));
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
    file.write_all(bytes).expect("to write");
}

fn string(text: &str) -> String {
    format!("\"{text}\" u8 0")
}

/// Returns the common fields of an annotation: name, service, address, ids.
fn voice(service: &str, trace: i64, span: i64, parent: i64) -> String {
    let (name, service, ip) = (string("io"), string(service), string("10.0.0.1"));
    format!("{name} {service} i32le 80 {ip} i64le {trace} i64le {span} i64le {parent}")
}

fn timestamp(time: u64, service: &str, ids: [i64; 3], event: &str) -> String {
    let [trace, span, parent] = ids;
    format!("u8 0 u64le {time} {} {}", voice(service, trace, span, parent), string(event))
}

fn span(time: u64, ids: [i64; 4], times: [u64; 2], kind: u8) -> String {
    let ids = ids.map(|id| format!("i64le {id}")).join(" ");
    let times = times.map(|time| format!("u64le {time}")).join(" ");
    let texts = [string("step"), string("osd"), string("::1")].join(" ");
    format!("u8 2 u64le {time} {ids} {times} u8 {kind} u8 1 i32le 80 {texts}")
}

#[test]
fn all_kinds_of_events_are_understood() {
    let scratch = Scratch::new("spans-kinds");
    begin(&scratch.0);
    let query = "i64le -1 i64le 0 i64le 3 i64le 2 u64le 1100 u64le 300";
    let events = [
        timestamp(1000, "vm", [-1, 1, 0], "cs"),
        format!("u8 1 u64le 1001 {} {} {}", voice("vm", -1, 1, 0), string("object"), string("rbd")),
        format!("u8 4 u64le 1200 i64le -1 i64le 0 i64le 3 {} u64le 7", string("found")),
        format!("u8 4 u64le 1201 i64le 0 i64le 0 i64le 0 {} u64le 7", string("elsewhere")),
        format!(
            "u8 3 u64le 1400 {query} {} u64le 18446744073709551615 f64le 0.5 u8 9",
            string("users")
        ),
        span(1500, [-1, 0, 2, 1], [1050, 450], 2),
        "u8 8 u64le 1600 u8 1".to_owned(),
        "u8 9 u64le 1650 i64le -1 i64le 1".to_owned(),
        timestamp(2000, "vm", [-1, 1, 0], "cr"),
    ];
    packet(&scratch.0, header(1000..=2000), &events);
    let output = run(spans(&["--annotations"], &scratch.0).env("COLUMNS", "90"));
    check(
        &output,
        0,
        "\
0000000000000001ffffffffffffffff  vm: io  1000000000.000001000 s  1.00 µs  3 spans
vm: io client         1.00 µs  own 550 ns  ███████████████████████████████████████████████
│ · object = rbd
└ osd: step server     450 ns  own 150 ns    ▐████████████████████▌
  └ server: query      300 ns                  ▕█████████████▊
      · found rows=7  +200 ns                       ╵
      · kind = 9
      · rows = 18446744073709551615
      · share = 0.5
      · table = users
      · target = app.db
",
        "",
    );
    let end = json(&run(&mut spans(&["--json"], &scratch.0))).pop().expect("a line");
    assert_eq!((&end["events"], &end["events_of_spans"]), (&9.into(), &7.into()));
    assert_eq!(end["events_of_others"], 2);
}

/// Spans and events of the `tracing` crate belong to the service that their fields name, or else to
/// the program. The program's own fields may have the same names as the fields for the service.
#[test]
fn spans_of_the_tracing_crate_say_their_service() {
    let scratch = Scratch::new("spans-service");
    begin(&scratch.0);
    let service = format!("{} i32le 8080 {}", string("checkout"), string("10.0.0.3"));
    let events = [
        format!("u8 11 u64le 1200 i64le 5 i64le 0 i64le 5 {service} u64le 7"),
        format!(
            "u8 12 u64le 1300 i64le 5 i64le 0 i64le 6 i64le 5 u64le 1210 u64le 80 {} u8 9",
            string("own")
        ),
        format!(
            "u8 10 u64le 1400 i64le 5 i64le 0 i64le 5 i64le 0 u64le 1100 u64le 300 {service} {}",
            string("book")
        ),
    ];
    packet(&scratch.0, header(1200..=1400), &events);
    let output = run(spans(&["--annotations"], &scratch.0).env("COLUMNS", "90"));
    let shown = text(&output.stdout);
    for line in
        ["checkout: order", "· paid sum=7", "· item = book", "server: pack", "· service_name = own"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("2 spans") && !shown.contains("service_name = checkout"), "{shown}");
}

#[test]
fn events_that_make_no_sense_are_counted() {
    let scratch = Scratch::new("spans-hostile");
    begin(&scratch.0);
    let common = format!("{} {} i32le 80 {}", string("io"), string("vm"), string("ip"));
    let rest = format!("{} {}", string("key"), string("value"));
    let events = [
        timestamp(1000, "vm", [1, 1, 0], "good"),
        timestamp(1001, "vm", [0, 1, 0], "no trace"),
        timestamp(1002, "vm", [1, 0, 0], "no span"),
        "u8 5 u64le 1003 u8 1".to_owned(),
        format!("u8 6 u64le 1004 {common} {} i64le 1 i64le 0 {rest}", string("1")),
        format!("u8 7 u64le 1005 {common} i64le 1 i64le 0 {} i64le 7", string("key")),
        span(1006, [0, 0, 2, 1], [1, 1], 0),
        span(1007, [1, 0, 2, 1], [u64::MAX, u64::MAX], 0),
        span(1008, [1, 0, 2, 1], [2_000_000_000, 1], 0),
        // The remaining events are unusual, but shown.
        span(1009, [1, 0, 2, 2], [1, 1], 200),
        timestamp(1010, "vm", [1, 3, 77], "stray"),
    ];
    packet(&scratch.0, header(1000..=1010), &events);
    // An event of a stream without a clock.
    let words = format!(
        "packet u32le 0xc1fc1fc1 u32le 1 u64le 0\nu8 0 {} {}\nend",
        voice("vm", 1, 1, 0),
        string("when")
    );
    append(&scratch.0, 9, &recipe::bytes(&words.lines().collect::<Vec<_>>()).expect("a packet"));

    let output = run(&mut spans(&["--json"], &scratch.0));
    let lines = json(&output);
    let end = lines.last().expect("a line");
    assert_eq!(end["events_not_understood"], 9, "{end:#}");
    let reasons = serde_json::json!({
        "no time": 1,
        "a time before 1970 or beyond all bounds": 1,
        "no field `span_id`": 1,
        "field `trace_id` is not what it has to be": 1,
        "`span_id` is 0": 1,
        "`trace_id` is 0": 2,
        "a span that ends after the event of its end": 1,
        "an annotation of an unknown kind": 1,
    });
    assert_eq!(end["not_understood"]["reasons"], reasons);
    assert_eq!(lines[1]["oddities"], serde_json::json!({ "missing_parent": 1, "cycle": 1 }));
    let errors = text(&output.stderr);
    assert!(errors.starts_with("warning: could not be understood: 9 events (first: "), "{errors}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn traces_without_requests_and_losses_are_told() {
    let scratch = Scratch::new("spans-none");
    begin(&scratch.0);
    packet(&scratch.0, header(1..=2), &["u8 8 u64le 1 u8 1".to_owned()]);
    packet(
        &scratch.0,
        PacketHeader { seq: 1, lost: 7, ..header(3..=4) },
        &["u8 8 u64le 4 u8 1".to_owned()],
    );
    check(
        &run(&mut spans(&[], &scratch.0)),
        0,
        "",
        "no request: none of 2 events says anything of spans\n\
         lost by the tracer in all: 7 events (0 requests shown)\n",
    );
}

#[test]
fn ends_that_may_be_lost_are_told_so() {
    let scratch = Scratch::new("spans-ends-lost");
    begin(&scratch.0);
    let begun = |time, trace| timestamp(time, "vm", [trace, 1, 0], "cs");
    packet(&scratch.0, header(1000..=2000), &[begun(1000, 1)]);
    // Four events were lost after the first packet and before the end of this packet. The event of
    // the complete span is in it, so that span lacks nothing.
    let whole = span(4100, [2, 0, 1, 0], [4000, 100], 1);
    packet(
        &scratch.0,
        PacketHeader { seq: 1, lost: 4, ..header(3000..=9000) },
        &[whole, begun(5000, 3)],
    );
    packet(&scratch.0, PacketHeader { seq: 2, lost: 4, ..header(9001..=9500) }, &[begun(9100, 4)]);

    let output = run(&mut spans(&["--json"], &scratch.0));
    let lines = json(&output);
    let told: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "span")
        .map(|line| {
            let tag = line["tags"].as_array().into_iter().flatten();
            let tag = tag.filter(|tag| tag["key"] == "blkkin.end").map(|tag| &tag["value"]);
            let id = u64::from_str_radix(line["trace_id"].as_str().expect("an id"), 16);
            (id.expect("a number"), line["odd"].to_string(), tag.count())
        })
        .collect();
    let lost = || r#"["end_lost"]"#.to_owned();
    let (nothing, unfinished) = ("null".to_owned(), r#"["unfinished"]"#.to_owned());
    assert_eq!(told, [(1, lost(), 1), (2, nothing, 0), (3, lost(), 1), (4, unfinished, 0)]);
    let picture = run(&mut spans(&["--tree"], &scratch.0));
    let picture = text(&picture.stdout);
    let count = |words: &str| picture.matches(words).count();
    assert_eq!((count("end lost?"), count("whose end may be lost")), (2, 2), "{picture}");
    assert_eq!(count("1 unfinished"), 1, "{picture}");
}

#[test]
fn what_finds_no_room_is_shown_early_and_told() {
    let scratch = Scratch::new("spans-memory");
    begin(&scratch.0);
    let events: Vec<String> = (0..3000)
        .map(|number| timestamp(1000 + number, "vm", [number as i64 % 1000 + 1, 1, 0], "event"))
        .collect();
    packet(&scratch.0, header(1000..=4000), &events);
    let output = run(&mut spans(&["--json", "--memory", "100K"], &scratch.0));
    let lines = json(&output);
    let end = lines.last().expect("a line");
    let count = |key: &str| end[key].as_u64().expect("a number");
    assert!(count("requests_evicted") > 1000 && count("requests_late") > 1000, "{end:#}");
    let events: u64 = lines.iter().filter_map(|line| line["events"].as_u64()).sum();
    assert_eq!(events, 6000, "each once, and the total");
    assert!(text(&output.stderr).contains("shown before complete: the memory was full"));
}

fn follow(trace: &Path, arguments: &[&str]) -> Running {
    Running::start(spans(&[&["--follow"], arguments].concat(), trace).env("COLUMNS", "80"))
}

#[test]
fn requests_come_when_nothing_more_comes_for_them() {
    let scratch = Scratch::new("spans-follow");
    begin(&scratch.0);
    packet(&scratch.0, header(1000..=1000), &[timestamp(1000, "vm", [1, 1, 0], "cs")]);
    let mut running = follow(&scratch.0, &["--json", "--idle", "0.7s"]);
    let line = |running: &mut Running| -> serde_json::Value {
        serde_json::from_str(&running.line()).expect("JSON")
    };
    assert_eq!(line(&mut running)["type"], "begin");
    // The server's side of the call is in another stream and arrives late.
    packet(
        &scratch.0,
        PacketHeader { stream: 1, ..header(1400..=2000) },
        &[timestamp(1400, "osd", [1, 1, 0], "sr"), timestamp(1600, "osd", [1, 1, 0], "ss")],
    );
    packet(
        &scratch.0,
        PacketHeader { seq: 1, ..header(2000..=2000) },
        &[timestamp(2000, "vm", [1, 1, 0], "cr")],
    );
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let line = line(&mut running);
        // A new file causes a `begin` line.
        if line["type"] != "begin" {
            seen.push(line);
        }
    }
    assert_eq!((&seen[0]["completion"], &seen[0]["events"]), (&"idle".into(), &4.into()));
    assert_eq!((&seen[1]["service"], &seen[2]["service"]), (&"vm".into(), &"osd".into()));

    // Spans open at Ctrl-C are printed, too.
    packet(
        &scratch.0,
        PacketHeader { seq: 2, ..header(3000..=3000) },
        &[timestamp(3000, "vm", [2, 1, 0], "open")],
    );
    until("it listens", || support::process::handles_sigint(running.id()));
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130));
    let last: Vec<serde_json::Value> =
        ended.lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<_> = last.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(types, ["request", "span", "end"]);
    assert_eq!((&last[0]["completion"], &last[2]["requests"]), (&"ended".into(), &2.into()));
}

#[test]
fn a_limit_ends_it() {
    let scratch = Scratch::new("spans-follow-limit");
    begin(&scratch.0);
    packet(
        &scratch.0,
        header(1000..=1001),
        &[timestamp(1000, "vm", [1, 1, 0], "one"), timestamp(1001, "vm", [2, 1, 0], "two")],
    );
    let ended = follow(&scratch.0, &["--limit", "1", "--idle", "0.1s"]).end();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.lines.len(), 2, "{ended:?}");
}
