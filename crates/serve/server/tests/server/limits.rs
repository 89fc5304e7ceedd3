//! Tests of resource limits: a client cannot take more than its share of memory, connections or
//! threads by large, slow or many requests.

use crate::support::{HANG, Reply, connect, gzip, head, request, start, start_with, until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

const JSON: (&str, &str) = ("content-type", "application/json");
const GZIP: (&str, &str) = ("content-encoding", "gzip");

/// Reads to the end of the stream. Returns whether the server has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn bombs_are_refused() {
    let tested = start();
    // A gibibyte of blanks. `bombs.rs` measures the memory, in a process of its own.
    let bomb = gzip(&vec![b' '; 1 << 20]).repeat(1024);
    for path in ["/api/v2/spans", "/v1/traces"] {
        let reply = request(tested.web(), "POST", path, &[JSON, GZIP], &bomb);
        assert_eq!(reply.status, 413, "{path} {reply:?}");
    }
}

#[test]
fn deep_json_is_refused() {
    let tested = start();
    let deep = |open: &str| format!("[{{\"x\":{}", open.repeat(100_000));
    for open in ["[", "{\"x\":"] {
        for path in ["/api/v2/spans", "/api/v1/spans", "/v1/traces"] {
            let reply = request(tested.web(), "POST", path, &[JSON], deep(open).as_bytes());
            assert_eq!(reply.status, 400, "{path} {reply:?}");
        }
    }
}

#[test]
fn bodies_are_limited() {
    let tested = start_with(|settings| settings.collector.message_bytes = 1000);
    let blanks = |len: usize| format!("[{}]", " ".repeat(len - 2));
    let post = |headers: &[(&str, &str)], body: &[u8]| {
        request(tested.web(), "POST", "/api/v2/spans", headers, body).status
    };
    assert_eq!(post(&[JSON], blanks(1000).as_bytes()), 202);
    assert_eq!(post(&[JSON], blanks(1001).as_bytes()), 413);
    assert_eq!(post(&[JSON, GZIP], &gzip(blanks(1000).as_bytes())), 202);
    assert_eq!(post(&[JSON, GZIP], &gzip(blanks(1001).as_bytes())), 413);
    let name = "zipkin_collector_messages_dropped_total{transport=\"http\"}";
    assert_eq!(tested.metric(name), 2);
    // The server refuses by `content-length`, before the client sends the body.
    let mut stream = connect(tested.web());
    let head = head(tested.web(), "POST", "/api/v2/spans", &[JSON], 1 << 40);
    stream.write_all(head.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    assert_eq!(Reply::parse(&bytes).status, 413);
}

#[test]
fn bodies_share_what_room_there_is() {
    let tested = start_with(|settings| settings.collector.flight_bytes = 1 << 20);
    let body = format!("[{}]", " ".repeat(900_000));
    let mut slow = connect(tested.web());
    let head = head(tested.web(), "POST", "/api/v2/spans", &[JSON], body.len());
    slow.write_all(head.as_bytes()).expect("sent");
    slow.write_all(&body.as_bytes()[..800_000]).expect("sent");
    until("most of the room is taken", || {
        tested.metric("blkkin_server_flight_free_bytes") < 300_000
    });
    let reply = request(tested.web(), "POST", "/api/v2/spans", &[JSON], body.as_bytes());
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{reply:?}");
    slow.shutdown(Shutdown::Both).expect("closed");
    until("it is free again", || tested.metric("blkkin_server_flight_free_bytes") == 1 << 20);
    let reply = request(tested.web(), "POST", "/api/v2/spans", &[JSON], body.as_bytes());
    assert_eq!(reply.status, 202);
    let name = "zipkin_collector_messages_turned_away_total{transport=\"http\"}";
    assert_eq!(tested.metric(name), 1);
}

#[test]
fn who_sends_slowly_is_not_waited_for() {
    let tested = start_with(|settings| {
        settings.idle_timeout = Duration::from_millis(200);
        settings.collector.part_patience = Duration::from_millis(200);
    });
    // The server closes connections without a request, with an unfinished head, with an unfinished
    // HTTP/2 preface, and with only the preface.
    for begun in
        ["", "G", "GET /health HTTP/1.1\r\nhost: ", "PRI * HTT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut stream = connect(tested.web());
        stream.write_all(begun.as_bytes()).expect("sent");
        assert!(is_closed(&mut stream), "{begun:?}");
    }
    // An unfinished body gets a response with status 408.
    let mut stream = connect(tested.web());
    let head = head(tested.web(), "POST", "/api/v2/spans", &[JSON], 100);
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(b"[").expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    assert_eq!(Reply::parse(&bytes).status, 408);
}

#[test]
fn those_who_only_hold_connections_hurt_nobody() {
    let tested = start_with(|settings| settings.connections_max = 50);
    let mut many: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = connect(tested.web());
            let begun = ["", "GET /", "GET / HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n"];
            // The server may already have closed the connection.
            let _ = stream.write_all(begun[number % begun.len()].as_bytes());
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(tested.get("/api/v2/services").status, 200);
    }
    assert!(tested.metric("blkkin_server_connections_made_room_total") >= 150);
    assert!(tested.metric("blkkin_server_connections") <= 50);
    let closed = many.iter_mut().take(100).filter_map(|stream| is_closed(stream).then_some(()));
    assert_eq!(closed.count(), 100, "the first of them had to leave");
}

/// A further connection gets an answer with status 503 while all connections are processing
/// requests.
#[test]
fn a_connection_without_a_place_is_answered() {
    let tested = start_with(|settings| settings.connections_max = 4);
    let (web, stuck) = (tested.web(), tested.store.services.lock().expect("no panic"));
    std::thread::scope(|scope| {
        let asking = [1, 2, 3, 4].map(|number| {
            let asking = scope.spawn(|| tested.get("/api/v2/services").status);
            // The connection that requests the metric counts, too; with it there are at most four.
            if number < 4 {
                let is_here = || tested.metric("blkkin_server_connections") == number + 1;
                until("the question is asked", is_here);
            }
            asking
        });
        let refused = || request(web, "GET", "/health", &[], b"");
        // Before the fourth query has arrived, its connection would be evicted as idle.
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..20 {
            let reply = refused();
            assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{reply:?}");
            assert_eq!(reply.header("connection"), "close");
        }
        drop(stuck);
        assert_eq!(asking.map(|asking| asking.join().expect("no panic")), [200; 4]);
    });
    assert!(tested.metric("blkkin_server_connections_without_place_total") >= 20);
}

#[test]
fn questions_take_their_time_and_no_more() {
    let tested = start_with(|settings| {
        settings.queries_max = 2;
        settings.query_timeout = Duration::from_millis(300);
    });
    let stuck = tested.store.services.lock().expect("no panic");
    let reply = tested.get("/api/v2/services");
    assert_eq!((reply.status, reply.text().as_str()), (500, "the question takes too long"));
    let reply = tested.get("/api/blkkin/v1/fields?of=services");
    assert_eq!(reply.status, 504);
    // All query threads are blocked, so this query fails, too, although it does not use the locked
    // `services`.
    assert_eq!(tested.get("/api/v2/trace/a").status, 500);
    assert_eq!(tested.get("/health").status, 200);
    let post = request(
        tested.web(),
        "POST",
        "/api/v2/spans",
        &[JSON],
        b"[{\"traceId\":\"a\",\"id\":\"a\"}]",
    );
    assert_eq!(post.status, 202, "spans are taken nevertheless");
    assert_eq!(tested.metric("blkkin_server_questions_late_total"), 3);
    drop(stuck);
    until("it is answered again", || tested.get("/api/v2/trace/a").status == 200);
}

#[test]
fn answers_are_limited() {
    let tested = start_with(|settings| settings.query.answer_bytes = 1000);
    for number in 1..20 {
        tested.post_spans(&format!(
            r#"[{{"traceId":"a","id":"{number:x}","name":"name {number}"}}]"#
        ));
    }
    tested.post_spans(r#"[{"traceId":"b","id":"1"}]"#);
    for path in ["/api/v2/trace/a", "/api/v2/traceMany?traceIds=a,b", "/api/blkkin/v1/trace/a"] {
        let reply = tested.get(path);
        assert_eq!(reply.status, 400, "{path}");
        assert!(reply.text().contains("larger than 1000 bytes"), "{path} {}", reply.text());
    }
    assert_eq!(tested.get("/api/v2/trace/b").status, 200);
}

#[test]
fn who_is_being_answered_when_the_server_ends_is_answered() {
    let tested = start();
    let (web, store) = (tested.web(), tested.store.clone());
    let stuck = store.services.lock().expect("no panic");
    let asking = std::thread::spawn(move || request(web, "GET", "/api/v2/services", &[], b""));
    let mut idle = connect(web);
    until("the query has begun", || store.services_has_begun.load(Ordering::SeqCst));
    until("all connections are accepted", || tested.metric("blkkin_server_connections") >= 3);
    let ending = std::thread::spawn(move || tested.running.stop());
    assert!(is_closed(&mut idle), "nothing was asked there");
    until("nobody is let in", || TcpStream::connect_timeout(&web, HANG).is_err());
    drop(stuck);
    assert_eq!(asking.join().expect("no panic").status, 200);
    assert!(ending.join().expect("no panic"), "all were answered");
}
