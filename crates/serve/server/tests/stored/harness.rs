//! Harness that runs the server, sends requests to it, and checks its answers. Start
//! at [`ServerRun`] and [`SentRequests`].

use crate::program::{MARK, PlantedFault};
use blkkin_sys::testing::own_test;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time limit for any wait; a working server does not reach it.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Number of spans in each request.
pub(crate) const SPANS: u64 = 3;

/// Number of requests in each batch.
const BATCH_REQUESTS: u64 = 4;

/// Number of the newest acknowledged requests that are also queried by trace id.
const QUERIED_REQUESTS: usize = 8;

/// Requests that a client has sent so far, and the statuses of the answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentRequests {
    /// Sent requests by number; true if acknowledged.
    requests: BTreeMap<u64, bool>,
    /// Number of the client's first request; 0 stands for 1.
    begin: u64,
    /// Number of batches by the status of the answer.
    pub(crate) statuses: BTreeMap<u16, u64>,
}

impl SentRequests {
    /// Creates the state of a client whose first request has the number `begin`. Several clients
    /// need distinct ranges of numbers.
    pub(crate) fn from(begin: u64) -> SentRequests {
        SentRequests { begin, ..SentRequests::default() }
    }

    /// Adds the requests of another client. `acknowledged` returns for each number whether the
    /// request counts as acknowledged.
    pub(crate) fn add(&mut self, other: &SentRequests, acknowledged: impl Fn(u64) -> bool) {
        self.requests.extend(other.requests.keys().map(|&number| (number, acknowledged(number))));
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.requests.values().filter(|is| **is).count() as u64
    }

    /// Returns the number that the next request will have.
    pub(crate) fn next(&self) -> u64 {
        self.requests.last_key_value().map_or(self.begin.max(1), |(last, _)| last + 1)
    }

    /// Sends `batches` batches; stops early if the server does not answer.
    pub(crate) fn send(&mut self, life: &ServerRun, batches: u64) {
        for _ in 0..batches {
            if self.send_one(life.web).is_none() {
                return;
            }
        }
    }

    /// Sends one batch. Returns the status of the answer; `None` without an answer.
    pub(crate) fn send_one(&mut self, web: SocketAddr) -> Option<u16> {
        let numbers = self.next()..self.next() + BATCH_REQUESTS;
        let body = format!("[{}]", spans_of(numbers.clone()).join(","));
        self.requests.extend(numbers.clone().map(|number| (number, false)));
        let (status, _) = send_http(web, "POST", "/api/v2/spans", &body)?;
        *self.statuses.entry(status).or_default() += 1;
        if status == 202 {
            self.requests.extend(numbers.map(|number| (number, true)));
        }
        Some(status)
    }

    /// Compares the server's requests with the sent requests. Fails on an unknown, changed or
    /// duplicate request. Returns the numbers of the acknowledged requests that are missing or lack
    /// a span.
    pub(crate) fn compare(&self, found: &Value) -> Result<Vec<u64>, String> {
        let found = found.as_array().ok_or("not a list")?;
        let mut numbers = BTreeSet::new();
        for request in found {
            let spans = request.as_array().filter(|spans| !spans.is_empty()).ok_or("no spans")?;
            let number = number_of(&spans[0]).ok_or_else(|| format!("no number: {}", spans[0]))?;
            if !self.requests.contains_key(&number) {
                return Err(format!("request {number} was never sent"));
            }
            if !numbers.insert(number) {
                return Err(format!("request {number} is there twice"));
            }
            let mut expected: Vec<Value> = spans_of(number..number + 1)
                .iter()
                .map(|span| serde_json::from_str(span).expect("JSON"))
                .collect();
            for span in spans {
                let place = expected.iter().position(|one| one == span);
                let place = place.ok_or_else(|| format!("not what was sent, or twice: {span}"))?;
                expected.remove(place);
            }
            if !expected.is_empty() {
                numbers.remove(&number);
            }
        }
        let is_lost = |(number, is): (&u64, &bool)| *is && !numbers.contains(number);
        Ok(self.requests.iter().filter(|one| is_lost(*one)).map(|(number, _)| *number).collect())
    }

    /// Checks that the server returns all acknowledged requests unchanged, and no request that was
    /// not sent. Succeeds if the server does not answer, because it may have been killed.
    pub(crate) fn check(&self, life: &ServerRun) -> Result<(), String> {
        let Some(found) = life.all() else { return Ok(()) };
        let lost = self.compare(&found?)?;
        if !lost.is_empty() {
            let of = self.acknowledged();
            return Err(format!("{} of {of} are lost: {lost:?}", lost.len()));
        }
        let last = self.requests.iter().rev().filter(|(_, is)| **is).take(QUERIED_REQUESTS);
        for (&number, _) in last {
            let path = format!("/api/v2/trace/{}", trace_id(number));
            let Some((status, body)) = send_http(life.web, "GET", &path, "") else { return Ok(()) };
            let found: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
            let only =
                SentRequests { requests: [(number, true)].into(), ..SentRequests::default() };
            if status != 200 || !only.compare(&Value::Array(vec![found]))?.is_empty() {
                return Err(format!("{path} answers {status} {body}"));
            }
        }
        Ok(())
    }
}

fn trace_id(number: u64) -> String {
    // Consecutive numbers are spread over the id space, like random ids.
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn number_of(span: &Value) -> Option<u64> {
    span["tags"]["number"].as_str()?.parse().ok()
}

/// Returns the spans of the requests with these numbers, in the JSON that the server returns.
fn spans_of(numbers: Range<u64>) -> Vec<String> {
    let services = ["guest", "nbd", "disk"];
    let span = |number: u64, place: u64| {
        let id = |place: u64| format!("{:016x}", number * SPANS + place + 1);
        let parent = match place.checked_sub(1) {
            Some(above) => format!(r#""parentId":"{}","#, id(above)),
            None => String::new(),
        };
        format!(
            r#"{{"traceId":"{}",{parent}"id":"{}","kind":"SERVER","name":"read-{place}","timestamp":{},"duration":{},"localEndpoint":{{"serviceName":"{}"}},"tags":{{"number":"{number}"}}}}"#,
            trace_id(number),
            id(place),
            1_700_000_000_000_000 + number * 1000 + place,
            100 * (SPANS - place),
            services[place as usize],
        )
    };
    numbers.flat_map(|number| (0..SPANS).map(move |place| span(number, place))).collect()
}

/// Sends an HTTP request. Returns status and body of the answer; `None` if sending fails or the
/// answer is incomplete.
pub(crate) fn send_http(
    web: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(web).ok()?;
    stream.set_read_timeout(Some(HANG)).ok()?;
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {web}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).ok()?;
    let mut reply = BufReader::new(stream);
    let (mut head, mut text) = (String::new(), String::new());
    while !head.ends_with("\r\n\r\n") {
        reply.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    reply.read_to_string(&mut text).ok()?;
    let len = head.split("content-length: ").nth(1)?.lines().next()?.parse::<usize>().ok()?;
    (text.len() == len).then_some((head.split(' ').nth(1)?.parse().ok()?, text))
}

/// Server running as a child process.
pub(crate) struct ServerRun {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Lines with the prefix [`MARK`] that the server printed before it listened. The prefix is
    /// removed.
    pub(crate) said: Vec<String>,
    pub(crate) web: SocketAddr,
    /// Time from the start of the process until it listened.
    pub(crate) took: Duration,
}

impl ServerRun {
    /// Starts the server, with `starter` before its command line. If the server ends before it
    /// listens, returns its exit status and its output.
    pub(crate) fn start(
        starter: &[String],
        directory: &Path,
        plant: PlantedFault,
    ) -> Result<ServerRun, (ExitStatus, Vec<String>)> {
        let mut command = own_test(starter, "program::serves");
        command.env("TEST_DATA", directory).env("TEST_PLANT", format!("{plant:?}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("a program");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = Vec::new();
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap_or(0) == 0 {
                return Err((child.wait().expect("its end"), said));
            }
            let Some((_, what)) = line.trim_end().split_once(MARK) else { continue };
            match what.strip_prefix("listening ") {
                Some(web) => {
                    let (web, input) = (web.parse().expect("an address"), child.stdin.take());
                    return Ok(ServerRun {
                        child,
                        input,
                        output,
                        said,
                        web,
                        took: begun.elapsed(),
                    });
                }
                None => said.push(what.to_owned()),
            }
        }
    }

    /// Returns all requests in the server's store; `None` without an answer.
    pub(crate) fn all(&self) -> Option<Result<Value, String>> {
        let path = "/api/v2/traces?limit=1000000&endTs=1800000000000&lookback=1800000000000";
        let (status, body) = send_http(self.web, "GET", path, "")?;
        let parsed = serde_json::from_str(&body).map_err(|error| error.to_string());
        Some(if status == 200 { parsed } else { Err(format!("{status} {body}")) })
    }

    /// Returns the value of a metric from `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, text) = send_http(self.web, "GET", "/metrics", "").expect("an answer");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    }

    /// Ends the server by closing its standard input, and returns its exit status.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        // Drains the output, so that the server does not block on a full pipe.
        let _ = self.output.read_to_string(&mut String::new());
        self.child.wait().expect("its end")
    }

    /// Kills the process, and waits until it has ended.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("its end");
    }
}

impl Drop for ServerRun {
    fn drop(&mut self) {
        // A failed test must not leave a process with open files.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server without a deliberate fault; panics if it does not start.
pub(crate) fn start(directory: &Path) -> ServerRun {
    ServerRun::start(&[], directory, PlantedFault::None).unwrap_or_else(|end| panic!("{end:?}"))
}
