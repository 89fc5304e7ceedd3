//! Tests of `blkkin store`: check, adopt, export, import, and the backup and restore commands of
//! docs/backup.md. Also tests the retention limits of `blkkin server` after a restart.

mod support;

use blkkin_lake::{Lake, Options, Retention};
use blkkin_model::{EndpointRef, SpanId, SpanRef, TraceId};
use blkkin_store::{Batch, Policy, Query, SpanStore};
use blkkin_wire::{Format, encode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use support::server::{Server, on_free_ports};
use support::{Scratch, blkkin, run, text};

fn options() -> Options {
    Options { retention: Retention::ALL, ..Options::default() }
}

/// Stores requests of one span each, one request for each number.
fn send(lake: &Lake, numbers: std::ops::Range<u64>) {
    let spans = numbers.map(|number| {
        let id = SpanId::from_number(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let id = id.expect("not 0");
        SpanRef {
            name: "read",
            start_ns: Some(1_700_000_000_000_000_123 + number),
            duration_ns: Some(1001),
            local: EndpointRef { service: "disk", ..EndpointRef::NONE },
            ..SpanRef::new(TraceId::from(id), id)
        }
    });
    let mut bytes = Vec::new();
    encode(Format::OtlpProto, spans, &mut bytes);
    let (tell, told) = mpsc::channel();
    let batch = Batch { format: Format::OtlpProto, bytes: &bytes, policy: Policy::Whole };
    lake.accept(batch, Box::new(move |result| tell.send(result).expect("the test waits")));
    told.recv().expect("an answer").expect("accepted");
}

/// Creates a store of two files with 100 spans each, and 50 spans only in the journal.
fn store(directory: &Path) {
    let (lake, _) = Lake::open(directory, options()).expect("opened");
    for file in 0..2 {
        send(&lake, file * 100..file * 100 + 100);
        lake.flush().expect("written");
    }
    send(&lake, 200..250);
}

fn kept(directory: &Path) -> Vec<(String, Option<u64>)> {
    let (lake, _) = Lake::open(directory, options()).expect("opened");
    let page = lake.search(&Query::new(100_000)).expect("found");
    assert!(page.requests.iter().all(|request| request.spans == 1), "a span is there twice");
    let span = |request: &blkkin_store::Summary| {
        let spans = lake.trace(request.trace_id).expect("read");
        (request.trace_id.to_string(), spans[0].start_ns)
    };
    let mut all: Vec<_> = page.requests.iter().map(span).collect();
    all.sort();
    all
}

fn command(directory: &Path, of: &str, more: &[&str]) -> Output {
    let mut command = blkkin(Path::new("/"));
    run(command.args(["store", of, "--data"]).arg(directory).args(more))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join("spans")).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "parquet"));
    paths.sort();
    paths
}

#[track_caller]
fn check(output: &Output, status: i32, told: &str) {
    let all = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{all}");
    assert!(all.contains(told), "{told}: {all}");
}

/// The commands of docs/backup.md run in order. The stores from the export and from the full copy
/// have all spans.
#[test]
fn the_document_backs_up_and_restores() {
    let scratch = Scratch::new("store-backup");
    let (data, backup) = (scratch.0.join("data"), scratch.0.join("backup"));
    fs::create_dir(&backup).expect("made");
    store(&data);
    let expected = kept(&data);
    assert_eq!(expected.len(), 250);
    let document = include_str!("../../../../docs/backup.md");
    let blocks = document.split("```sh\n").skip(1);
    let script: String = blocks.filter_map(|block| block.split("```").next()).collect();
    assert_eq!(script.lines().count(), 12, "{script}");
    let program = Path::new(env!("CARGO_BIN_EXE_blkkin")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-euxc", &script]).env("PATH", path).env("DATA", &data).env("BACKUP", &backup);
    check(&run(&mut shell), 0, "blkkin store adopt");
    assert!(kept(&scratch.0.join("data.new")) == expected, "the export");
    assert!(kept(&scratch.0.join("data.copy")) == expected, "the copy");
    // The copy of the files lacks the spans that are only in the journal.
    assert_eq!(kept(&scratch.0.join("data.files")).len(), 200);
}

#[test]
fn each_format_comes_back() {
    let scratch = Scratch::new("store-formats");
    let data = scratch.0.join("data");
    store(&data);
    let expected = kept(&data);
    let micros = |spans: &[(String, Option<u64>)]| -> Vec<(String, Option<u64>)> {
        spans.iter().map(|(id, start)| (id.clone(), start.map(|ns| ns / 1000))).collect()
    };
    for format in ["parquet", "zipkin", "otlp"] {
        let output = scratch.0.join(format);
        let shown = output.to_str().expect("text");
        check(&command(&data, "export", &["--format", format, "-o", shown]), 0, "250 spans");
        check(&command(&data, "export", &["--format", format, "-o", shown]), 2, "exists");
        let back = scratch.0.join(format!("{format}-back"));
        for news in ["250 spans", "0 spans"] {
            let imported = command(&back, "import", &[shown]);
            check(&imported, 0, news);
        }
        let found = kept(&back);
        match format {
            "zipkin" => assert_eq!(micros(&found), micros(&expected)),
            _ => assert_eq!(found, expected, "{format}"),
        }
    }
    let leftovers = fs::read_dir(&scratch.0).expect("a folder");
    let names = leftovers.map(|entry| entry.expect("an entry").file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().ends_with(".unfinished")));
}

#[test]
fn check_tells_what_is_wrong() {
    let scratch = Scratch::new("store-check");
    let data = scratch.0.join("data");
    store(&data);
    check(&command(&data, "check", &[]), 0, "in no file by the manifest: 50 spans");
    let json = text(&command(&data, "check", &["--json"]).stdout);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["good"], true, "{json}");
    assert_eq!(value["files"].as_array().map(Vec::len), Some(2));

    let [one, other] = &files(&data)[..] else { panic!("two files") };
    let bytes = fs::read(one).expect("read");
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    fs::write(one, damaged).expect("written");
    check(&command(&data, "check", &[]), 1, "damaged");
    fs::write(one, "").expect("written");
    check(&command(&data, "check", &[]), 1, "damaged");
    fs::remove_file(one).expect("removed");
    check(&command(&data, "check", &[]), 1, "missing");
    fs::write(one, &bytes).expect("written");
    fs::copy(other, data.join("spans/0000000099.parquet")).expect("copied");
    check(&command(&data, "check", &[]), 1, "unnamed");
    check(&command(&data, "export", &["-o", "/nowhere"]), 1, "blkkin store adopt");
    check(&command(&data, "adopt", &[]), 0, "0000000099.parquet.duplicate");
    check(&command(&data, "check", &[]), 0, "0000000099.parquet.duplicate");
    assert_eq!(kept(&data).len(), 250);
    check(&command(&scratch.0.join("none"), "check", &[]), 1, "there is no store");
    check(&command(&scratch.0.join("none"), "adopt", &[]), 1, "there is no store");
    check(&command(&data, "import", &["/etc/hostname.parquet"]), 1, "cannot read");
}

#[test]
fn a_store_that_a_server_holds_is_left_alone() {
    let scratch = Scratch::new("store-held");
    let data = scratch.0.join("data");
    store(&data);
    let server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).arg("--data").arg(&data));
    let output = scratch.0.join("out");
    let shown = output.to_str().expect("text");
    for (of, more) in
        [("check", &[][..]), ("adopt", &[]), ("export", &["-o", shown]), ("import", &["/dev/null"])]
    {
        check(&command(&data, of, more), 1, "stop `blkkin server`");
    }
    assert!(!output.exists());
    server.end();
}

/// The server keeps the retention limits of its previous start if it is started without options.
#[test]
fn a_forgotten_keep_removes_nothing() {
    let scratch = Scratch::new("store-keep");
    let data = scratch.0.join("data");
    let start = |options: &[&str]| {
        let mut command = blkkin(&scratch.0);
        Server::start(on_free_ports(&mut command).arg("--data").arg(&data).args(options)).end()
    };
    let told = start(&[]);
    assert!(told.contains("spans are kept for 7d and within 50G"), "{told}");
    let told = start(&["--keep", "0", "--keep-bytes", "200G"]);
    assert!(told.contains("spans are kept within 200G\n"), "{told}");
    let told = start(&[]);
    assert!(told.contains("within 200G, as the store was last told"), "{told}");
    let told = start(&["--keep", "1h"]);
    assert!(told.contains("for 1h and within 200G, and no longer within 200G"), "{told}");
    let json = text(&command(&data, "check", &["--json"]).stdout);
    assert!(json.contains(r#""keepSeconds":3600,"keepBytes":214748364800"#), "{json}");
    // The default age limit, which would remove older files, does not apply again.
    let told = start(&["--keep", "0"]);
    assert!(told.contains("spans are kept within 200G\n"), "{told}");
}
