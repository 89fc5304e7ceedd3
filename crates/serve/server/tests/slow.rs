//! Tests of the promise N9: queries on a store on disk are bounded in time, and end when their
//! clients disconnect. While eight slow queries run, a ninth query is still answered.

#[path = "server/support.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod support;

use blkkin_lake::{Lake, Options};
use blkkin_model::{AnnotationRef, SpanId, SpanRef, TraceId};
use blkkin_server::{Listen, Running, Server, Settings};
use blkkin_store::{Batch, Policy, SpanStore};
use blkkin_wire::{Format, encode};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use support::{Reply, any_port, connect, head, request};

/// Maximum number of queries that the server runs at the same time.
const QUERIES_MAX: usize = 8;

/// Stores `spans` spans with an annotation each, of `bytes` bytes rounded down to a multiple of 3.
fn fill(lake: &Lake, spans: u64, bytes: usize) {
    let said = "abc".repeat(bytes / 3);
    let annotations = [AnnotationRef { time_ns: 1_000_000_000, value: &said }];
    for first in (0..spans).step_by(1000) {
        let batch = (first..spans.min(first + 1000)).map(|number| {
            let id = SpanId::from_number(number + 1).expect("not 0");
            let start_ns = Some(1_000_000_000 + number);
            let span = SpanRef::new(TraceId::from(id), id);
            SpanRef { start_ns, duration_ns: Some(1), annotations: &annotations, ..span }
        });
        let mut bytes = Vec::new();
        encode(Format::OtlpProto, batch, &mut bytes);
        let (tell, told) = mpsc::channel();
        let batch = Batch { format: Format::OtlpProto, bytes: &bytes, policy: Policy::Whole };
        lake.accept(batch, Box::new(move |outcome| drop(tell.send(outcome))));
        told.recv().expect("an answer").expect("taken");
    }
}

/// Returns the URL path of a slow search: its filter has 400 patterns, so it takes minutes.
fn slow_path() -> String {
    // Each pattern consists of letters that are frequent in the annotations, but in another order.
    let word = |number: u32| -> String {
        (0..7).map(|digit| char::from(b'a' + (number / 3u32.pow(digit) % 3) as u8)).collect()
    };
    let patterns: Vec<String> =
        (0..400).map(|number| format!("annotation == \"*ba{}*\"", word(number))).collect();
    let filter: String = patterns
        .join(" || ")
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'*' => char::from(byte).to_string(),
            byte => format!("%{byte:02x}"),
        })
        .collect();
    format!("/api/blkkin/v1/search?filter={filter}")
}

fn start(question_time: Duration, in_file: bool) -> (Running, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a folder");
    let (lake, _) = Lake::open(directory.path(), Options::default()).expect("opened");
    fill(&lake, 40_000, 4000);
    if in_file {
        lake.flush().expect("written");
    }
    let listen = Listen { web: vec![any_port()], ..Listen::default() };
    let settings = Settings {
        listen,
        queries_max: QUERIES_MAX,
        query_timeout: question_time,
        ..Settings::default()
    };
    (Server::start(Arc::new(lake), settings).expect("a server"), directory)
}

/// Waits until slow queries use all query slots, so that a short query gets no immediate
/// answer.
fn until_no_place_is_free(web: SocketAddr) {
    let end = Instant::now() + Duration::from_secs(5);
    let is_served = || {
        let mut stream = connect(web);
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let head = head(web, "GET", "/api/v2/trace/1", &[], 0);
        stream.write_all(head.as_bytes()).expect("sent");
        stream.read(&mut [0]).is_ok()
    };
    while is_served() {
        assert!(Instant::now() < end, "slow questions are not slow");
    }
}

/// Sends a slow query without waiting for the answer. Returns its connection.
fn send_slow_query(web: SocketAddr) -> TcpStream {
    let mut stream = connect(web);
    stream.write_all(head(web, "GET", &slow_path(), &[], 0).as_bytes()).expect("sent");
    stream
}

/// Sends a short query. Returns the status and the time until the answer.
fn ask(web: SocketAddr) -> (u16, Duration) {
    let begun = Instant::now();
    let reply = request(web, "GET", "/api/v2/trace/1", &[], b"");
    (reply.status, begun.elapsed())
}

#[test]
fn slow_questions_leave_a_place_for_others() {
    for in_file in [false, true] {
        let question_time = Duration::from_secs(6);
        let (running, _directory) = start(question_time, in_file);
        let web = running.web[0];
        let slow: Vec<TcpStream> = (0..QUERIES_MAX).map(|_| send_slow_query(web)).collect();
        until_no_place_is_free(web);
        let (status, took) = ask(web);
        assert_eq!(status, 200, "after {took:?}");
        assert!(took < question_time, "{took:?}");
        for mut stream in slow {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("an answer");
            assert_eq!(Reply::parse(&bytes).status, 504);
        }
    }
}

#[test]
fn questions_end_when_their_clients_leave() {
    for in_file in [false, true] {
        let (running, _directory) = start(Duration::from_secs(120), in_file);
        let web = running.web[0];
        let slow: Vec<TcpStream> = (0..QUERIES_MAX).map(|_| send_slow_query(web)).collect();
        until_no_place_is_free(web);
        drop(slow);
        let (status, took) = ask(web);
        assert_eq!(status, 200);
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
