//! Process of `blkkin server`, and HTTP requests to it or to other servers. Start at [`Server`].

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Maximum time that [`Server::wait_for_log`] and HTTP requests wait for more bytes. A successful
/// test does not reach it.
const HANG: Duration = Duration::from_secs(60);

/// Process of `blkkin server`, killed on drop.
pub struct Server {
    pub child: Child,
    err: BufReader<ChildStderr>,
    /// Text of the log read so far.
    pub log: String,
    pub web: SocketAddr,
}

/// Adds the subcommand `server` with free ports for Zipkin's and Scribe's protocols and without the
/// other ports.
pub fn on_free_ports(command: &mut Command) -> &mut Command {
    let ports = ["--listen", "0", "--otlp-http", "off", "--otlp-grpc", "off", "--scribe", "0"];
    command.arg("server").args(ports)
}

impl Server {
    pub fn start(command: &mut Command) -> Server {
        Server::start_until(command, ": Scribe\n")
    }

    /// Starts a server, and waits until its log contains `ready`.
    pub fn start_until(command: &mut Command, ready: &str) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("a server");
        let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut told = String::new();
        while !told.contains(ready) {
            assert_ne!(err.read_line(&mut told).expect("text"), 0, "it ended: {told}");
        }
        let web = listening(&told, "Zipkin");
        Server { child, err, log: told, web }
    }

    /// Waits until the log contains a text.
    pub fn wait_for_log(&mut self, said: &str) {
        let patience = rustix::time::Timespec { tv_sec: HANG.as_secs() as i64, tv_nsec: 0 };
        while !self.log.contains(said) {
            if self.err.buffer().is_empty() {
                let mut more = [PollFd::new(self.err.get_ref(), PollFlags::IN)];
                let ready = poll(&mut more, Some(&patience)).expect("a pipe");
                assert_ne!(ready, 0, "it never said {said}: {}", self.log);
            }
            let read = self.err.read_line(&mut self.log).expect("text");
            assert_ne!(read, 0, "it ended before it said {said}: {}", self.log);
        }
    }

    /// Returns the address in the log line of this listener.
    pub fn address(&self, what: &str) -> SocketAddr {
        listening(&self.log, what)
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> String {
        let mut stream = send(self.web, method, path, headers, body).expect("a connection");
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Returns the server's peak resident memory, in bytes.
    pub fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    /// Ends the server with SIGTERM; returns its whole log.
    pub fn end(mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it lives");
        self.err.read_to_string(&mut self.log).expect("text");
        assert!(self.child.wait().expect("its end").success(), "{}", self.log);
        std::mem::take(&mut self.log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(told: &str, what: &str) -> SocketAddr {
    let mut lines =
        told.lines().filter_map(|line| line.split_once("listening on ")?.1.split_once(": "));
    let found = lines.find(|(_, of)| of.starts_with(what)).and_then(|(at, _)| at.parse().ok());
    found.unwrap_or_else(|| panic!("no address of {what}: {told}"))
}

/// Sends an HTTP request; returns `None` if nothing listens at the address.
fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Option<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(to).ok()?;
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n{headers}content-length: {len}\r\n\r\n"
    );
    // The server may refuse the request before it has read it completely.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    Some(BufReader::new(stream))
}

/// HTTP answer: the status, and the body as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

/// Sends a request to any server; `None` if there is no HTTP answer.
pub fn http(to: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Option<Reply> {
    let mut stream = send(to, method, path, headers, body)?;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        stream.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    // Zipkin's server closes connections long after its answer, so the length decides.
    let len = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    let mut body = vec![0; len.map_or(Some(0), |len| len.parse().ok())?];
    match len {
        Some(_) => stream.read_exact(&mut body).ok()?,
        None => {
            stream.read_to_end(&mut body).ok()?;
        }
    }
    Some(Reply { status, body: String::from_utf8(body).expect("text") })
}
