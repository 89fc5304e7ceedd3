//! Tests of client and server on real sockets: pipelined requests, slow or silent peers, too many
//! peers, peers of another protocol, bounded memory, and a shutdown that answers received requests.

use blkkin_scribe::{
    Answer, Batch, Client, ClientError, ClientOptions, CloseReason, Entries, Entry, Handler,
    Limits, ResultCode, RunningServer, Server, ServerOptions, Status, read_reply,
};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Time limit for any wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// State of the handler that tests observe and control.
#[derive(Default)]
struct Observations {
    count: AtomicUsize,
    bytes: AtomicUsize,
    tries_later: AtomicBool,
    closed: Mutex<Vec<String>>,
}

struct Counting {
    seen: Arc<Observations>,
    /// Gate of each `Log` call with entries: the call reports its start and waits until the test
    /// lets it continue.
    gate: Option<(Sender<()>, Mutex<Receiver<()>>)>,
}

impl Handler for Counting {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        if let (Some((begun, go_on)), false) = (&self.gate, entries.is_empty()) {
            begun.send(()).expect("the test waits");
            let _ = go_on.lock().expect("no panic").recv();
        }
        if self.seen.tries_later.load(Ordering::Relaxed) {
            return ResultCode::TryLater;
        }
        let count = entries.iter().filter(|entry| entry.category == b"category").count();
        self.seen.count.fetch_add(count, Ordering::Relaxed);
        self.seen.bytes.fetch_add(entries.payload_bytes(), Ordering::Relaxed);
        ResultCode::Ok
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        BTreeMap::from([("n".to_owned(), self.seen.count.load(Ordering::Relaxed) as i64)])
    }

    fn closed(&self, _: Option<SocketAddr>, why: &CloseReason) {
        self.seen.closed.lock().expect("no panic").push(why.to_string());
    }
}

fn start(options: ServerOptions) -> (RunningServer<Counting>, Arc<Observations>) {
    let seen = Arc::new(Observations::default());
    let server = Server::bind("127.0.0.1:0", options).expect("a port");
    let handler = Counting { seen: Arc::clone(&seen), gate: None };
    (server.start(handler).expect("a thread"), seen)
}

fn connect(server: &RunningServer<Counting>) -> Client {
    Client::connect(server.address(), ClientOptions::default()).expect("a connection")
}

fn batch(count: usize, message: &[u8]) -> Batch {
    let mut batch = Batch::default();
    for _ in 0..count {
        batch.push(Entry { category: b"category", message });
    }
    batch
}

/// Waits until a condition holds; panics after the time limit.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it does not come to be");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns true if the peer closes the connection within the time limit.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut rest = [0; 1000];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn a_client_is_answered() {
    for is_strict in [false, true] {
        let (mut server, seen) = start(ServerOptions::default());
        let options = ClientOptions { is_strict, ..ClientOptions::default() };
        let mut client = Client::connect(server.address(), options).expect("a connection");
        assert_eq!(client.probe().expect("an answer"), ResultCode::Ok);
        let mut batch = batch(1000, &[b'm'; 300]);
        assert_eq!(client.log(&mut batch).expect("an answer"), ResultCode::Ok);
        seen.tries_later.store(true, Ordering::Relaxed);
        assert_eq!(client.log(&mut batch).expect("an answer"), ResultCode::TryLater);
        seen.tries_later.store(false, Ordering::Relaxed);
        assert_eq!(client.log(&mut batch).expect("an answer"), ResultCode::Ok);
        assert_eq!(seen.bytes.load(Ordering::Relaxed), 2 * 1000 * (300 + 8));
        assert_eq!(client.counter("n").expect("a counter"), 2000);
        assert_eq!(client.counters().expect("counters")["n"], 2000);
        assert_eq!(client.status().expect("a status"), Status::Alive);
        assert_eq!(client.status_details().expect("details"), "");
        assert_eq!(client.name().expect("a name"), "Scribe");
        assert_eq!(client.version().expect("a version"), "2.2");
        assert!(client.alive_since().expect("a time") > 1_700_000_000);
        client.set_option("key", "value").expect("an answer");
        assert_eq!(client.option("key").expect("a value"), "value");
        client.reinitialize().expect("to be sent");
        client.shutdown().expect("to be sent");
        // One-way calls have no reply, so the next reply is for this call.
        assert_eq!(client.probe().expect("an answer"), ResultCode::Ok);
        assert_eq!(server.counters().connections, 1);
        assert!(server.stop(PATIENCE));
    }
}

/// Pipelined requests are answered in order, even if they arrive byte by byte.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let (server, seen) = start(ServerOptions::default());
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_nodelay(true).expect("an option");
    let mut one = batch(1, b"m");
    let mut sent = Vec::new();
    for sequence in 0..500 {
        sent.extend_from_slice(one.frame(sequence));
    }
    let (slow, fast) = sent.split_at(300);
    for byte in slow {
        stream.write_all(&[*byte]).expect("to be sent");
    }
    stream.write_all(fast).expect("to be sent");
    for sequence in 0..500 {
        let mut head = [0; 4];
        stream.read_exact(&mut head).expect("a reply");
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        stream.read_exact(&mut body).expect("a reply");
        assert_eq!(read_reply(&body, b"Log", sequence), Ok(Answer::I32(0)));
    }
    assert_eq!(seen.count.load(Ordering::Relaxed), 500);
}

#[test]
fn what_is_not_scribe_is_told_and_closed() {
    let limits = Limits { frame_bytes_max: 1 << 20, ..Limits::default() };
    let (server, seen) = start(ServerOptions { limits, ..ServerOptions::default() });
    let check = |bytes: &[u8], expected: &str| {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(bytes).expect("to be sent");
        assert!(is_closed(&stream));
        until(|| seen.closed.lock().expect("no panic").pop().is_some_and(|why| why == expected));
    };
    check(b"GET / HTTP/1.1\r\n\r\n", "that is HTTP; here is Scribe's protocol");
    check(
        b"\x80\x01\0\x01\0\0\0\x03Log",
        "that is Thrift without frames; use its framed transport",
    );
    check(&[0x16, 3, 1, 2], "that is TLS; here is Scribe's protocol, without encryption");
    check(&[0, 0x10, 0, 1], "a frame of 1048577 bytes; 1048576 are permitted");
    check(&[0, 0, 0, 1, 0], "byte 0: the message ends within what begins here");
    assert_eq!(server.counters().closed_bad, 5);
    assert_eq!(server.counters().closed_broken, 0);
}

/// A frame that arrives byte by byte must be complete within the time limit, or its connection is
/// closed. An idle connection is closed, too.
#[test]
fn slow_frames_and_quiet_peers_end() {
    let (server, seen) = start(ServerOptions {
        idle_max: Duration::from_millis(60),
        frame_time_max: Duration::from_millis(50),
        ..ServerOptions::default()
    });
    let mut dripping = TcpStream::connect(server.address()).expect("a connection");
    let frame = batch(1, &[b'm'; 100_000]).frame(0).to_vec();
    let start = std::time::Instant::now();
    let mut bytes = frame.iter();
    while dripping.write_all(&[*bytes.next().expect("enough of them")]).is_ok() {
        thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() < PATIENCE);
    }
    let quiet = TcpStream::connect(server.address()).expect("a connection");
    assert!(is_closed(&quiet));
    until(|| server.counters().connections == 0);
    assert_eq!(server.counters().closed_slow, 2);
    assert_eq!(*seen.closed.lock().expect("no panic"), ["too slow", "quiet for too long"]);
}

/// The server closes the connection of a peer that sends requests and never reads replies.
#[test]
fn who_reads_no_replies_is_closed() {
    let (server, _) = start(ServerOptions {
        frame_time_max: Duration::from_millis(100),
        ..ServerOptions::default()
    });
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    let frame = Batch::default().frame(0).to_vec().repeat(1000);
    while stream.write_all(&frame).is_ok() {}
    until(|| server.counters().connections == 0);
    assert_eq!(server.counters().closed_slow + server.counters().closed_broken, 1);
}

#[test]
fn connections_are_limited() {
    let (server, seen) = start(ServerOptions {
        connections_max: 3,
        idle_evictable: Duration::from_secs(1),
        ..ServerOptions::default()
    });
    let mut clients: Vec<Client> = (0..3).map(|_| connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.probe().expect("an answer"), ResultCode::Ok);
    }
    // No connection has been idle for long enough.
    let over = TcpStream::connect(server.address()).expect("a connection");
    assert!(is_closed(&over));
    thread::sleep(Duration::from_millis(1050));
    for client in &mut clients[1..] {
        assert_eq!(client.probe().expect("an answer"), ResultCode::Ok);
    }
    // The first connection has been idle for long enough and is closed; its client gets an error.
    let mut next = connect(&server);
    assert_eq!(next.probe().expect("an answer"), ResultCode::Ok);
    assert!(matches!(clients[0].probe(), Err(ClientError::Io(_))));
    for client in &mut clients[1..] {
        assert_eq!(client.probe().expect("an answer"), ResultCode::Ok);
    }
    // A client may see that its connection is closed before the server has counted that.
    until(|| server.counters().closed_evicted == 1 && server.counters().connections == 3);
    let counters = server.counters();
    assert_eq!((counters.closed_too_many, counters.accepted), (1, 5));
    assert_eq!(seen.closed.lock().expect("no panic")[0], "too many connections");
}

/// A batch is refused as a whole while other connections use up the memory.
#[test]
fn memory_is_limited_over_all_connections() {
    let (server, seen) =
        start(ServerOptions { memory_bytes_max: 1 << 20, ..ServerOptions::default() });
    let mut large = batch(1, &[b'm'; 900_000]);
    let mut holding = TcpStream::connect(server.address()).expect("a connection");
    let frame = large.frame(0).to_vec();
    // All but the last byte: memory is allocated as bytes arrive.
    let (most, rest) = frame.split_at(frame.len() - 1);
    holding.write_all(most).expect("to be sent");
    until(|| server.counters().memory_bytes > 800_000);
    let mut client = connect(&server);
    assert_eq!(client.log(&mut large).expect("an answer"), ResultCode::TryLater);
    assert_eq!(server.counters().refused_memory, 1);
    // The connection continues and still accepts small batches.
    assert_eq!(client.log(&mut batch(10, b"m")).expect("an answer"), ResultCode::Ok);
    assert_eq!(seen.count.load(Ordering::Relaxed), 10);
    holding.write_all(rest).expect("to be sent");
    // When memory is scarce, connections free their spare memory.
    until(|| seen.count.load(Ordering::Relaxed) == 11);
    until(|| client.log(&mut large).expect("an answer") == ResultCode::Ok);
    assert_eq!(seen.count.load(Ordering::Relaxed), 12);
    until(|| server.counters().memory_bytes < 1 << 16);
}

/// The announced length of a frame reserves no memory. A peer that announces a large frame and
/// sends little costs little memory.
#[test]
fn lengths_reserve_nothing() {
    let limits = Limits { frame_bytes_max: 1 << 30, ..Limits::default() };
    let options = ServerOptions { limits, memory_bytes_max: 1 << 20, ..ServerOptions::default() };
    let (server, _) = start(options);
    let mut liars = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(&[0x3f, 0xff, 0xff, 0xff, 0, 0, 0, 3]).expect("to be sent");
        liars.push(stream);
    }
    let mut client = connect(&server);
    let mut large = batch(1, &[b'm'; 500_000]);
    assert_eq!(client.log(&mut large).expect("an answer"), ResultCode::Ok);
    assert_eq!(server.counters().refused_memory, 0);
}

/// A call that is in progress when the server stops is answered. Later calls fail or get
/// `TRY_LATER`, and new connections are refused.
#[test]
fn the_end_is_in_order() {
    let seen = Arc::new(Observations::default());
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let server = Server::bind("127.0.0.1:0", ServerOptions::default()).expect("a port");
    let gate = Some((begun, Mutex::new(may_go_on)));
    let handler = Counting { seen: Arc::clone(&seen), gate };
    let mut server = server.start(handler).expect("a thread");
    let address = server.address();
    let mut quiet = connect(&server);
    assert_eq!(quiet.probe().expect("an answer"), ResultCode::Ok);
    let mut client = connect(&server);
    let asking = thread::spawn(move || {
        let first = client.log(&mut batch(1, b"m"));
        (first, client.log(&mut batch(1, b"m")))
    });
    has_begun.recv().expect("a call");
    let stopping = thread::spawn(move || server.stop(PATIENCE));
    // Stopping waits for the call, and accepts no new connections.
    until(|| TcpStream::connect(address).is_err());
    go_on.send(()).expect("the handler waits");
    assert!(stopping.join().expect("no panic"));
    let (first, second) = asking.join().expect("no panic");
    assert_eq!(first.expect("an answer"), ResultCode::Ok);
    assert!(matches!(second, Err(ClientError::Io(_)) | Ok(ResultCode::TryLater)), "{second:?}");
    assert!(quiet.probe().is_err());
    assert_eq!(seen.count.load(Ordering::Relaxed), 1);
}

/// A client's calls end in time even if the server is slow or silent, or sends malformed replies.
#[test]
fn servers_can_be_slow_silent_or_strange() {
    let options = || ClientOptions { timeout: Duration::from_millis(80), ..Default::default() };
    let check = |answer: &'static [u8], pause_ms: u64, expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut asked = vec![0; Batch::default().frame_bytes()];
            stream.read_exact(&mut asked).expect("a request");
            for byte in answer {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(pause_ms));
            }
            if pause_ms > 0 {
                // Wait until the client has closed the connection.
                let _ = stream.read(&mut asked);
            }
        });
        let mut client = Client::connect(address, options()).expect("a connection");
        let error = client.probe().expect_err("no answer");
        assert!(error.to_string().starts_with(expected), "{error}");
        drop(client);
        server.join().expect("no panic");
    };
    check(&[0; 1], 1, "the server takes too long");
    check(&[0, 0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 20, "the server takes too long");
    check(b"HTTP/1.1 400 Bad", 0, "not an answer of Scribe's: that is HTTP");
    check(&[0x7f, 0, 0, 0], 0, "not an answer of Scribe's: a frame of 2130706432 bytes");
    check(&[0, 0, 0, 1, 0], 0, "the answer makes no sense: byte 0");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let error = Client::connect(address, options()).expect_err("nobody is there");
    assert!(error.to_string().starts_with("cannot connect: "), "{error}");
}
