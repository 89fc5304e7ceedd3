//! Delivery by `blkkin spans --to URL`: spans of a real LTTng trace arrive at a server, and the
//! totals account for each of them.

mod support;

use blkkin_model::Span;
use blkkin_wire::{Decoder, Format, Limits};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use support::{Scratch, blkkin, run, text};

/// Returns the path of an example trace, which has two requests with seven spans each.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/traces/requests")
}

/// Server that answers each request with a given status, and stores the requests.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

/// Head and body of a received HTTP request.
type Request = (String, Vec<u8>);

impl Server {
    fn new(status: &'static str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, asked) = (listener.local_addr().expect("an address"), Arc::default());
        let kept: Arc<Mutex<Vec<Request>>> = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let mut reader = BufReader::new(stream);
                while let Some(request) = read(&mut reader) {
                    kept.lock().expect("no panic").push(request);
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nno");
                    if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Server { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn spans(&self, format: Format) -> Vec<Span> {
        let mut spans = Vec::new();
        for (_, body) in &*self.asked.lock().expect("no panic") {
            let outcome = Decoder::new(Limits::default()).decode(format, body, &mut spans);
            assert!(outcome.is_good(), "{outcome:?}");
        }
        spans
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let size = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; size.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn spans(arguments: &[&str]) -> Command {
    let mut command = blkkin(Path::new("/"));
    command.env("LC_ALL", "C.UTF-8").arg("spans").args(arguments);
    command
}

fn send(url: &str, arguments: &[&str]) -> Output {
    run(spans(&["--to", url]).args(arguments).arg(example()))
}

#[track_caller]
fn check(output: &Output, status: i32, out: &str, errors: &str) {
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), (out, errors));
    assert_eq!(output.status.code(), Some(status));
}

#[test]
fn a_trace_is_sent() {
    for (path, arguments, format) in [
        ("/api/v2/spans", &[][..], Format::ZipkinJson),
        ("/api/v2/spans", &["--format", "zipkin-proto"], Format::ZipkinProto),
        ("/v1/traces", &[], Format::OtlpProto),
    ] {
        let server = Server::new("202 Accepted");
        let output = send(&server.url(path), arguments);
        let bytes: usize = server.asked.lock().expect("no panic").iter().map(|it| it.1.len()).sum();
        let expected = format!(
            "SPANS      COUNT  NOTE\n\
             read          14  -\n\
             delivered     14  1 batch, {bytes} bytes, sent again 0 times\n\
             waiting        0  -\n"
        );
        check(&output, 0, &expected, "");
        let spans = server.spans(format);
        let ids: BTreeSet<_> =
            spans.iter().map(|span| (span.trace_id, span.id, span.kind)).collect();
        assert_eq!((spans.len(), ids.len()), (14, 14));
        let names: BTreeSet<_> = spans.iter().map(|span| span.name.as_str()).collect();
        assert!(names.contains("guest write") && names.contains("journal"), "{names:?}");
    }
}

#[test]
fn requests_are_chosen_and_totals_are_json() {
    let server = Server::new("202 Accepted");
    let output = send(&server.url("/api/v2/spans"), &["--limit", "1", "--json"]);
    let totals: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(totals["schema"], "blkkin.delivery.v1");
    assert_eq!(
        (&totals["requests"], &totals["pushed"], &totals["delivered"]),
        (&1.into(), &7.into(), &7.into())
    );
    assert_eq!((&totals["waiting"], &totals["dropped"]["refused"]), (&0.into(), &0.into()));
    assert_eq!(output.status.code(), Some(0));
    // The same for a recording that may continue.
    let output = send(&server.url("/api/v2/spans"), &["--limit", "1", "--follow", "--idle", "1ms"]);
    assert!(text(&output.stdout).contains("delivered      7  "), "{output:?}");
}

/// Returns a URL of a port without a listener.
fn closed_port_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}/api/v2/spans", listener.local_addr().expect("an address"))
}

#[test]
fn what_waits_is_sent_the_next_time() {
    let scratch = Scratch::new("delivery");
    let queue = scratch.0.join("queue");
    let queue = queue.to_str().expect("text");
    let url = closed_port_url();
    let output = send(&url, &["--queue", queue, "--patience", "0.1"]);
    let told = "SPANS      COUNT  NOTE\n\
         read          14  -\n\
         delivered      0  0 batches, 0 bytes, sent again";
    let out = text(&output.stdout);
    assert!(
        out.starts_with(told) && out.ends_with(&format!("waiting       14  in {queue}\n")),
        "{out}"
    );
    let errors = format!(
        "error: 14 of 14 spans not delivered to {url}: cannot connect: Connection refused (os error 111)\n\
         hint: they wait; send them by `blkkin spans --to URL --queue {queue}`\n"
    );
    assert_eq!(text(&output.stderr), errors);
    assert_eq!(output.status.code(), Some(1));

    let server = Server::new("202 Accepted");
    let output = run(&mut spans(&["--to", &server.url("/api/v2/spans"), "--queue", queue]));
    let out = text(&output.stdout);
    assert!(out.contains(&format!("found         14  waited in {queue}\n")), "{out}");
    assert!(out.contains("delivered     14  1 batch, "), "{out}");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(server.spans(Format::ZipkinJson).len(), 14);
}

#[test]
fn what_is_not_delivered_is_a_failure() {
    let output = send(&closed_port_url(), &["--patience", "0.1"]);
    let errors = text(&output.stderr);
    assert!(
        errors.ends_with("hint: with --queue DIR they would wait for the next time\n"),
        "{errors}"
    );
    assert!(text(&output.stdout).contains("ended         14  were only in memory; see --queue\n"));
    assert_eq!(output.status.code(), Some(1));

    let scratch = Scratch::new("delivery");
    let queue = scratch.0.join("queue");
    let server = Server::new("400 Bad Request");
    let output = send(&server.url("/api/v2/spans"), &["--queue", queue.to_str().expect("text")]);
    let errors = text(&output.stderr);
    assert!(
        errors.contains("14 of 14 spans not delivered") && errors.contains("400 Bad Request: no"),
        "{errors}"
    );
    let kept = format!("refused       14  kept in {}\n", queue.join("refused").display());
    assert!(text(&output.stdout).contains(&kept), "{output:?}");
    assert_eq!(fs::read_dir(queue.join("refused")).expect("a folder").count(), 2);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn secrets_are_sent_and_not_shown() {
    let scratch = Scratch::new("delivery");
    let file = scratch.0.join("headers");
    fs::write(&file, "# for the collector\nAuthorization: Bearer sesame-open\n").expect("a file");
    let server = Server::new("403 Forbidden");
    let arguments = [
        "--header-file",
        file.to_str().expect("text"),
        "--header",
        "X-Team: storage",
        "--patience",
        "0.1",
    ];
    let output = send(&server.url("/api/v2/spans?key=sesame-too"), &arguments);
    assert!(text(&output.stderr).contains("403 Forbidden"), "{output:?}");
    assert!(
        !format!("{}{}", text(&output.stdout), text(&output.stderr)).contains("sesame"),
        "{output:?}"
    );
    let asked = server.asked.lock().expect("no panic");
    let head = &asked.first().expect("a request").0;
    assert!(head.starts_with("POST /api/v2/spans?key=sesame-too HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer sesame-open\r\n"), "{head}");
    assert!(head.contains("x-team: storage\r\n"), "{head}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |arguments: &[&str], message: &str| {
        let output = run(&mut spans(arguments));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(message), "{output:?}");
        assert!(!text(&output.stderr).contains("sesame"), "{output:?}");
    };
    let trace = example();
    let trace = trace.to_str().expect("text");
    refused(&["--to", "http://host:1", trace], "otlp://HOST:4317");
    refused(&["--to", "http://me:sesame@host:9411", trace], "a password in a URL");
    refused(&["--to", "http://host:9411"], "<PATH>");
    refused(&["--queue", "q", trace], "--to <URL>");
    refused(&["--queue", "q"], "--to <URL>");
    refused(&["--gzip", trace], "--to <URL>");
    refused(&["--follow", "--to", "http://host:9411", "--queue", "q"], "--follow needs a PATH");
    refused(&["--to", "http://host:9411", "--tree", trace], "cannot be used with");
    refused(
        &["--to", "http://host:9411", "--format", "otlp-json", trace],
        "zipkin-json, zipkin-proto",
    );
    refused(&["--to", "http://host:9411", "--format", "xml", trace], "possible values");
    refused(&["--to", "http://host:9411", "--header", "sesame", trace], "not a header");
}
