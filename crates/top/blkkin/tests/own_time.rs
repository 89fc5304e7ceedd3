//! Own times of spans by `blkkin spans`: in drawings, in JSON, and at a server to which the spans
//! are sent. The tests write a session's directory with two traces: of a program,
//! and of the kernel.

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::server::{Server, on_free_ports};
use support::{Scratch, blkkin, recipe, run, text};

/// Metadata that both traces begin with.
const COMMON: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; base = hex; } := hex64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = c; freq = 1000000000; offset_s = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
"#;

/// Metadata of the program's events.
const PROGRAM: &str = r#"
stream { id = 0;
  packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size; };
  event.header := struct { u8 id; time timestamp; };
};
event { name = "blkkin:span"; id = 0; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; hex64 parent_span_id; u64 start; u64 duration; u8 kind; u8 flags; i32 port_no; string span_name; string service_name; string ip; }; };
event { name = "blkkin:run"; id = 1; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; u64 start; u64 duration; }; };
"#;

/// Metadata of the kernel's events, and of three that only resemble them.
const KERNEL: &str = r#"
stream { id = 0;
  packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size; };
  event.header := struct { u8 id; time timestamp; };
  event.context := struct { u32 pid; u32 tid; };
};
event { name = "request:wait"; id = 0; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; enum : u8 { other = 0, runnable = 1, disk = 2, lock = 3, network = 4, sleep = 5, fault = 6, poll = 7 } reason; enum : i32 { none = -1, read = 0, futex = 202 } call; u64 blocked; u64 runnable; u32 waker; }; };
event { name = "request:disk"; id = 1; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; enum : u32 { vda = 265289728 } device; enum : u8 { read = 0, write = 1 } operation; u64 sector; u32 bytes; u64 queued; u64 served; i32 error; }; };
event { name = "request:wait"; id = 2; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; string reason; u64 blocked; u64 runnable; }; };
event { name = "request:wait"; id = 3; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; u8 reason; u64 runnable; }; };
event { name = "request:other"; id = 4; stream_id = 0; fields := struct { u8 x; }; };
event { name = "request:syscall:test"; id = 5; stream_id = 0; fields := struct { hex64 trace_id; hex64 trace_id_high; hex64 span_id; i32 fd; hex64 buf; u64 start; hex64 flags; string path; u8 bytes[2]; i64 ret; u64 duration; }; };
event { name = "request:syscall:other"; id = 6; stream_id = 0; fields := struct { hex64 trace_id; hex64 span_id; u64 duration; }; };
"#;

/// Writes a trace with one packet.
fn trace(path: &Path, metadata: &str, events: &[String]) {
    fs::create_dir_all(path).expect("a directory");
    fs::write(path.join("metadata"), format!("{COMMON}{metadata}")).expect("to write");
    let header = "packet u32le 0xc1fc1fc1 u32le 0\nu64le 1000 u64le 900000 content32le size32le";
    let words = format!("{header}\n{}\nend", events.join("\n"));
    let bytes = recipe::bytes(&words.lines().collect::<Vec<_>>()).expect("a packet");
    fs::write(path.join("stream"), bytes).expect("to write");
}

fn string(text: &str) -> String {
    format!("\"{text}\" u8 0")
}

fn numbers(numbers: &[u64]) -> String {
    numbers.iter().map(|number| format!("u64le {number} ")).collect()
}

/// Returns an event `blkkin:span`, recorded at its end.
fn span(id: u64, parent: u64, start: u64, duration: u64, service: &str) -> String {
    let (end, ids) = (start + duration, numbers(&[7, 0, id, parent, start, duration]));
    let texts = [string("write"), string(service), string("")].join(" ");
    format!("u8 0 u64le {end} {ids} u8 0 u8 0 i32le 0 {texts}")
}

fn run_event(id: u64, start: u64, duration: u64) -> String {
    format!("u8 1 u64le {} {}", start + duration, numbers(&[7, 0, id, start, duration]))
}

/// Returns an event `request:wait` of thread 31.
fn wait(ids: [u64; 2], end: u64, reason: u8, call: i32, times: [u64; 2], waker: u32) -> String {
    let (ids, times) = (numbers(&[ids[0], 0, ids[1]]), numbers(&times));
    format!(
        "u8 0 u64le {end} u32le 30 u32le 31 {ids} u8 {reason} i32le {call} {times} u32le {waker}"
    )
}

fn disk(ids: [u64; 2], end: u64, queued: u64, served: u64) -> String {
    let (ids, times) = (numbers(&[ids[0], 0, ids[1]]), numbers(&[queued, served]));
    format!(
        "u8 1 u64le {end} u32le 30 u32le 31 {ids} u32le 265289728 u8 1 u64le 8 u32le 4096 {times} i32le 0"
    )
}

/// Returns an event `request:syscall:test` of thread 31.
fn call(ids: [u64; 2], end: u64, result: i64, duration: u64) -> String {
    let ids = numbers(&[ids[0], 0, ids[1]]);
    let arguments = format!("i32le -1 {} {} u8 1 u8 2", numbers(&[1 << 40, 8, 16]), string("/a b"));
    let results = format!("i64le {result} u64le {duration}");
    format!("u8 5 u64le {end} u32le 30 u32le 31 {ids} {arguments} {results}")
}

/// Writes a session's directory: a request of a virtual machine's disk, whose server writes to a
/// disk, and events that make no sense.
fn session() -> Scratch {
    let scratch = Scratch::new("own-time");
    let program = [
        span(3, 2, 300_000, 250_000, "store"),
        run_event(3, 310_000, 235_000),
        run_event(2, 200_000, 500_000),
        span(2, 1, 200_000, 500_000, "server"),
        span(1, 0, 100_000, 700_000, "qemu"),
        // It ends a second later than its event.
        format!("u8 1 u64le 800000 {}", numbers(&[7, 0, 1, 3, 2_000_000_000])),
        format!("u8 1 u64le 800000 {}", numbers(&[7, 0, 0, 3, 4])),
        format!("u8 1 u64le 800000 {}", numbers(&[7, 0, 1, u64::MAX, u64::MAX])),
    ];
    trace(&scratch.0.join("program"), PROGRAM, &program);
    let (ids, context) = (numbers(&[7, 0, 3]), "u32le 30 u32le 31");
    let kernel = [
        wait([7, 2], 260_000, 3, 202, [40_000, 5000], 77),
        disk([7, 3], 523_000, 10_000, 160_000),
        wait([7, 3], 540_000, 2, 0, [190_000, 15_000], 0),
        wait([7, 2], 690_000, 0, 202, [u64::MAX, 1000], 0),
        disk([0, 0], 700_000, 4, 5),
        wait([7, 9], 700_000, 4, -1, [9, 0], 0),
        wait([8, 1], 700_000, 4, -1, [9, 0], 0),
        wait([0, 0], 700_000, 4, -1, [9, 0], 0),
        disk([0, 3], 700_000, 4, 5),
        format!("u8 2 u64le 700000 {context} {ids} {} {}", string("disk"), numbers(&[1, 1])),
        format!("u8 3 u64le 700000 {context} {ids} u8 2 {}", numbers(&[1])),
        format!("u8 4 u64le 700000 {context} u8 1"),
        call([7, 3], 540_000, -2, 205_000),
        call([7, 9], 700_000, 0, 5),
        call([7, 0], 700_000, 0, 5),
        format!("u8 6 u64le 700000 {context} {}", numbers(&[7, 3, 5])),
    ];
    trace(&scratch.0.join("kernel"), KERNEL, &kernel);
    scratch
}

fn spans(arguments: &[&str], session: &Scratch) -> Command {
    let mut command = blkkin(Path::new("/"));
    command.env("LC_ALL", "C.UTF-8").env("COLUMNS", "100");
    command.arg("spans").args(arguments).arg(&session.0);
    command
}

fn json_lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const PICTURE: &str = "\
0000000000000007  qemu: write  1000000000.000100000 s  700 µs  3 spans
qemu: write                                             700 µs  own 200 µs  ████████████████████████
└ server: write                                         500 µs  own 250 µs     ▐████████████████▋
  │     OOOOOOOOOOOOOOOLLLRQ  own 250 µs: other 199 µs, lock 40.0 µs, running 10.0 µs,
  │                                       runnable 1.00 µs
  └ store: write                                        250 µs                    ▕████████▍
        DDDDDDDDDDDDDDDDRRQE  own 250 µs: disk vda 190 µs (queued 10.0 µs), running 30.0 µs,
                                          runnable 15.0 µs, elsewhere 15.0 µs
      · test(fd=-1, start=8, flags=0x10, pa…) = ENOENT  205 µs                      ███████▏
own time by service
server  OOOOOOOOOOOOOOOLLLRQ  own 250 µs: other 199 µs, lock 40.0 µs, running 10.0 µs,
                                          runnable 1.00 µs
store   DDDDDDDDDDDDDDDDRRQE  own 250 µs: disk vda 190 µs (queued 10.0 µs), running 30.0 µs,
                                          runnable 15.0 µs, elsewhere 15.0 µs
";

#[test]
fn own_times_are_drawn() {
    let session = session();
    let output = run(spans(&["--kernel", "--clock-gmt"], &session).env_remove("NO_COLOR"));
    let shown = text(&output.stdout);
    assert_eq!(shown, PICTURE, "\n{shown}");
    let errors = text(&output.stderr);
    assert!(
        errors.contains("3 events of threads and disks for spans that were not recorded"),
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(0));
    let plain = text(&run(&mut spans(&["--clock-gmt"], &session)).stdout);
    assert_eq!(plain.lines().count(), 4, "{plain}");
}

#[test]
fn own_times_are_in_json() {
    let session = session();
    let lines = json_lines(&run(&mut spans(&["--json"], &session)));
    let of = |service: &str| {
        let span = lines.iter().find(|line| line["service"] == service).expect("a span");
        span.get("own").cloned()
    };
    assert_eq!(of("qemu"), None);
    let expected = json!({
        "sums": { "running": 30_000, "disk": 190_000, "runnable": 15_000, "elsewhere": 15_000 },
        "disk": { "vda": { "requests": 1, "queued": 10_000, "served": 160_000 } },
        "bands": [
            { "kind": "elsewhere", "start": 0, "duration": 10_000 },
            { "kind": "running", "start": 10_000, "duration": 25_000 },
            { "kind": "disk", "start": 35_000, "duration": 190_000, "device": "vda" },
            { "kind": "runnable", "start": 225_000, "duration": 15_000 },
            { "kind": "running", "start": 240_000, "duration": 5000 },
            { "kind": "elsewhere", "start": 245_000, "duration": 5000 },
        ],
    });
    assert_eq!(of("store"), Some(expected));
    let server = of("server").expect("an own time");
    // The wait without end begins with the span; the lock counts first.
    assert_eq!(server["bands"][0]["call"], "futex");
    assert_eq!(
        server["bands"][1],
        json!({ "kind": "lock", "start": 15_000, "duration": 40_000, "waker": 77 })
    );
    assert_eq!(server["sums"]["running"], 10_000);
    let sums = server["sums"].as_object().expect("sums").values();
    assert_eq!(sums.filter_map(Value::as_u64).sum::<u64>(), 250_000);

    let end = lines.last().expect("totals");
    assert_eq!(
        (&end["events_of_no_span"], &end["events_of_unknown_spans"]),
        (&1.into(), &3.into())
    );
    assert_eq!(end["events_of_others"], 1);
    let store = lines.iter().find(|line| line["service"] == "store").expect("a span");
    let start = 1_000_000_000_000_335_000u64;
    let expected = json!([{
        "name": "test", "arguments": "fd=-1, start=8, flags=0x10, path=\"/a b\"", "result": -2,
        "error": "ENOENT", "start": start, "duration": 205_000, "tid": 31,
    }]);
    assert_eq!(store["calls"], expected);
    let reasons = json!({
        "a span that ends after the event of its end": 1,
        "a time before 1970 or beyond all bounds": 1,
        "`span_id` is 0": 2,
        "`trace_id` is 0": 2,
        "field `reason` is not what it has to be": 1,
        "no field `blocked`": 1,
        "no field `ret`": 1,
    });
    assert_eq!(end["not_understood"]["reasons"], reasons);
}

#[test]
fn own_times_are_sent() {
    let session = session();
    let store = Scratch::new("own-time-store");
    let mut command = blkkin(&store.0);
    on_free_ports(&mut command).args(["--data", "store"]);
    let server = Server::start(&mut command);
    let url = format!("http://{}/api/v2/spans", server.web);
    let sent = run(&mut spans(&["--to", &url], &session));
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let reply = server.ask("GET", "/zipkin/api/v2/trace/0000000000000007", "", b"");
    let body = reply.split_once("\r\n\r\n").expect("a body").1;
    let spans: Vec<Value> = serde_json::from_str(body).unwrap_or_else(|_| panic!("{reply}"));
    let of = |service: &str| {
        let of = |span: &&Value| span["localEndpoint"]["serviceName"] == service;
        spans.iter().find(of).expect("a span")["tags"].clone()
    };
    let expected = json!({
        "blkkin.own.running": "30000",
        "blkkin.own.disk": "190000",
        "blkkin.own.runnable": "15000",
        "blkkin.own.elsewhere": "15000",
        "blkkin.disk.vda.queued": "10000",
        "blkkin.disk.vda.served": "160000",
        "blkkin.own.bands": "elsewhere 0 10000;running 10000 25000;disk 35000 190000 vda;\
            runnable 225000 15000;running 240000 5000;elsewhere 245000 5000",
    });
    assert_eq!(of("store"), expected);
    assert_eq!(of("qemu"), Value::Null);
}

#[test]
fn a_recording_without_the_events_is_explained() {
    let scratch = Scratch::new("own-time-none");
    trace(&scratch.0.join("program"), PROGRAM, &[span(1, 0, 100_000, 700_000, "qemu")]);
    let output = run(&mut spans(&["--kernel"], &scratch));
    let errors = text(&output.stderr);
    assert!(errors.contains("blkkin event enable --kernel 'request:*'"), "{errors}");
    assert_eq!(text(&output.stdout).lines().count(), 2);
    assert_eq!(text(&run(&mut spans(&[], &scratch)).stderr), "");
    for other in [["--json", ""], ["--to", "http://localhost:1"]] {
        let other = other.into_iter().filter(|word| !word.is_empty());
        let arguments: Vec<&str> = ["--kernel"].into_iter().chain(other).collect();
        let output = run(&mut spans(&arguments, &scratch));
        assert!(text(&output.stderr).contains("cannot be used with"), "{output:?}");
    }
}
