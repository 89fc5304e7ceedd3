//! Helpers of the tests: a server under test ([`TestServer`]), a minimal HTTP client, and a store
//! with injectable faults ([`FaultyStore`]).

use blkkin_model::{SpanId, SpanRef};
use blkkin_server::{Listen, Running, Server, Settings};
use blkkin_store::{
    AcceptCallback, AcceptedBatch, Area, Batch, Capacity, Condition, Counters, Difference, Error,
    Heat, Latency, Link, MemoryStore, Page, Query, Refusal, SpanStore, TagField, Window,
};
use blkkin_wire::Limits;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time limit for anything that a test waits for; a working server does not reach it.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// Running server under test, and the store behind it.
pub(crate) struct TestServer {
    pub(crate) running: Running,
    pub(crate) store: Arc<FaultyStore>,
}

/// Store in memory that refuses, delays or panics if a test sets a flag.
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    /// True to refuse all batches.
    pub(crate) refuses: AtomicBool,
    /// True to delay the acknowledgements of accepted batches. They are collected in `delayed`.
    pub(crate) delays: AtomicBool,
    pub(crate) delayed: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// True to make `accept` and `services` panic.
    pub(crate) panics: AtomicBool,
    /// Lock that blocks the query `services` while a test holds it.
    pub(crate) services: Mutex<()>,
    /// True once a query `services` has begun.
    pub(crate) services_has_begun: AtomicBool,
}

impl FaultyStore {
    fn new() -> FaultyStore {
        FaultyStore {
            inner: MemoryStore::new(Capacity::default(), Limits::default()),
            refuses: AtomicBool::new(false),
            delays: AtomicBool::new(false),
            delayed: Mutex::default(),
            panics: AtomicBool::new(false),
            services: Mutex::default(),
            services_has_begun: AtomicBool::new(false),
        }
    }
}

impl SpanStore for FaultyStore {
    fn accept(&self, batch: Batch<'_>, done: AcceptCallback) {
        assert!(!self.panics.load(Ordering::SeqCst), "it was told to panic");
        if self.refuses.load(Ordering::SeqCst) {
            let retry_after = Duration::from_millis(2500);
            return done(Err(Refusal { reason: "the disk is full".into(), retry_after }));
        }
        let (tell, told) = std::sync::mpsc::channel();
        self.inner.accept(batch, Box::new(move |result| tell.send(result).expect("taken")));
        let result: Result<AcceptedBatch, Refusal> = told.recv().expect("in memory, at once");
        if self.delays.load(Ordering::SeqCst) {
            self.delayed.lock().expect("no panic").push(Box::new(move || done(result)));
        } else {
            done(result);
        }
    }

    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.inner.each_span(low, each)
    }

    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        self.inner.visit(low, id, each)
    }

    fn search(&self, query: &Query) -> Result<Page, Error> {
        self.inner.search(query)
    }

    fn services(&self) -> Result<Vec<String>, Error> {
        assert!(!self.panics.load(Ordering::SeqCst), "it was told to panic");
        self.services_has_begun.store(true, Ordering::SeqCst);
        drop(self.services.lock());
        self.inner.services()
    }

    fn span_names(&self, service: &str) -> Result<Vec<String>, Error> {
        self.inner.span_names(service)
    }

    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error> {
        self.inner.remote_services(service)
    }

    fn tag_keys(&self) -> Result<Vec<TagField>, Error> {
        self.inner.tag_keys()
    }

    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error> {
        self.inner.tag_values(key, limit)
    }

    fn links(&self, window: Window) -> Result<Vec<Link>, Error> {
        self.inner.links(window)
    }

    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error> {
        self.inner.latency(window, condition)
    }

    fn starts(&self) -> Result<Option<Window>, Error> {
        self.inner.starts()
    }

    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error> {
        self.inner.heat(condition, cells)
    }

    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error> {
        self.inner.difference(window, condition, area)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }
}

/// Returns a loopback address with port 0, so that the system chooses a free port.
pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Starts a server with default settings and a listener for each protocol.
pub(crate) fn start() -> TestServer {
    start_with(|_| {})
}

/// Starts a server whose settings `change` has modified.
pub(crate) fn start_with(change: impl FnOnce(&mut Settings)) -> TestServer {
    let mut settings = Settings {
        listen: Listen {
            web: vec![any_port()],
            otlp_http: vec![any_port()],
            otlp_grpc: vec![any_port()],
            scribe: vec![any_port()],
        },
        ..Settings::default()
    };
    change(&mut settings);
    let store = Arc::new(FaultyStore::new());
    let running = Server::start(store.clone(), settings).expect("a server");
    TestServer { running, store }
}

impl TestServer {
    pub(crate) fn web(&self) -> SocketAddr {
        self.running.web[0]
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        request(self.web(), "GET", path, &[], b"")
    }

    /// Posts spans in Zipkin's JSON; panics unless the server accepts them.
    pub(crate) fn post_spans(&self, spans: &str) {
        let reply = self.post("/api/v2/spans", "application/json", spans.as_bytes());
        assert_eq!((reply.status, reply.text()), (202, String::new()), "{spans}");
    }

    pub(crate) fn post(&self, path: &str, kind: &str, body: &[u8]) -> Reply {
        request(self.web(), "POST", path, &[("content-type", kind)], body)
    }

    /// Returns the value of a Prometheus metric. `name` includes the labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    }
}

/// HTTP response that the server sent.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Parses a response whose body extends to the end of the connection.
    pub(crate) fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| {
            panic!("no head in {:?}", String::from_utf8_lossy(bytes));
        });
        let head = std::str::from_utf8(&bytes[..end]).expect("text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Reply {
            status: status.and_then(|status| status.parse().ok()).expect("a status"),
            headers: headers.collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    stream.set_write_timeout(Some(HANG)).expect("a timeout");
    stream
}

/// Returns the head of a request, with a `host` header unless `headers` has one.
pub(crate) fn head(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    len: usize,
) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head += &format!("host: {address}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if len > 0 || method == "POST" {
        head += &format!("content-length: {len}\r\n");
    }
    head + "\r\n"
}

/// Sends a request on a new connection and reads the response.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut stream = connect(address);
    let head = head(address, method, path, headers, body.len());
    stream.write_all(head.as_bytes()).expect("sent");
    // The server may refuse the request early, without reading the body.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert!(!bytes.is_empty(), "{error}");
    }
    Reply::parse(&bytes)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

pub(crate) fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).expect("gzip");
    out
}

/// Waits until `holds` returns true; panics with `what` after [`HANG`].
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let end = std::time::Instant::now() + HANG;
    while !holds() {
        assert!(std::time::Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
