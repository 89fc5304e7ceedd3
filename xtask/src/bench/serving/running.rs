//! Start, resource usage and end of a span server under measurement. Start at [`Running`].

use crate::process::{Process, end};
use crate::tools::at;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a server has to start, until it logs its addresses or passes its health check. It may
/// read a store first, or start a JVM.
const START_MAX: Duration = Duration::from_secs(180);

/// Maximum processor time of an idle server, as a fraction of one CPU; `QUIET_FOR` is the time for
/// which the server must not use more.
const QUIET_SHARE: f64 = 0.1;
const QUIET_FOR: Duration = Duration::from_millis(500);
const QUIET_AFTER_MAX: Duration = Duration::from_secs(120);

/// A running span server: `blkkin server` or Zipkin's.
pub(in crate::bench) struct Running {
    child: Child,
    places: Addresses,
}

/// Addresses on which a server listens, by protocol.
#[derive(Clone, Debug, Default, PartialEq)]
struct Addresses {
    web: String,
    otlp_http: String,
    otlp_grpc: String,
    scribe: String,
}

impl Running {
    /// Starts `blkkin server` on free ports, with a log in `folder`.
    pub(in crate::bench) fn start(
        blkkin: &Path,
        folder: &Path,
        options: &[OsString],
    ) -> Result<Running, String> {
        let mut command = Command::new(blkkin);
        command.arg("server").args(options);
        for option in ["--listen", "--otlp-http", "--otlp-grpc", "--scribe"] {
            command.args([option, "127.0.0.1:0"]);
        }
        let log = folder.join("server.log");
        let child = start(&mut command, &log)?;
        let mut running = Running { child, places: Addresses::default() };
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(&log).map_err(at(&log))?;
            running.places = Addresses::told(&text);
            if running.places.are_all() {
                return Ok(running);
            }
            running.check(start, &text)?;
        }
    }

    /// Starts Zipkin's server with its store in memory, and a log in `folder`.
    pub(in crate::bench) fn zipkin(
        folder: &Path,
        jar: &Path,
        spans_max: u64,
    ) -> Result<Running, String> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| error.to_string())?.port();
        let web = format!("127.0.0.1:{port}");
        let mut command = Command::new("java");
        // The heap has its final size from the start, and the garbage collector is the one for
        // throughput.
        command.args(["-Xms6g", "-Xmx6g", "-XX:+UseParallelGC", "-jar"]).arg(jar);
        command.env("QUERY_PORT", port.to_string()).env("MEM_MAX_SPANS", spans_max.to_string());
        command.env("STORAGE_TYPE", "mem").env("LOGGING_LEVEL_ROOT", "WARN");
        let log = folder.join("zipkin.log");
        let child = start(&mut command, &log)?;
        let mut running = Running { child, places: Addresses { web, ..Addresses::default() } };
        let start = Instant::now();
        while !running.get("/health").is_ok_and(|answer| answer.contains("\"UP\"")) {
            running.check(start, &fs::read_to_string(&log).unwrap_or_default())?;
        }
        Ok(running)
    }

    /// Sleeps for a short time while a server starts. Fails if the server has ended, or has not
    /// started in time.
    fn check(&mut self, start: Instant, log: &str) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("the server ended with {status}: {}", log.trim()));
        }
        if start.elapsed() > START_MAX {
            return Err(format!("the server does not start: {}", log.trim()));
        }
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    }

    pub(in crate::bench) fn web(&self) -> &str {
        &self.places.web
    }

    /// Returns the address to which spans in a format are sent.
    pub(in crate::bench) fn address(&self, format: &str) -> &str {
        match format {
            "otlp-http" => &self.places.otlp_http,
            "otlp-grpc" => &self.places.otlp_grpc,
            "scribe" => &self.places.scribe,
            _ => &self.places.web,
        }
    }

    fn process(&self) -> Process {
        Process(self.child.id())
    }

    pub(in crate::bench) fn cpu_seconds(&self) -> Result<f64, String> {
        self.process().cpu_seconds().map(|(user, system)| user + system)
    }

    pub(in crate::bench) fn rss_bytes_max(&self) -> Result<u64, String> {
        self.process().rss_bytes_max()
    }

    /// Returns the response to a GET request, with its headers.
    pub(in crate::bench) fn get(&self, path: &str) -> Result<String, String> {
        get(self.web(), path).map_err(|error| format!("{}{path}: {error}", self.web()))
    }

    /// Waits until the server is idle, up to a time limit. Returns how long that took.
    pub(in crate::bench) fn settle(&self) -> Result<Duration, String> {
        let start = Instant::now();
        while start.elapsed() < QUIET_AFTER_MAX {
            let before = self.cpu_seconds()?;
            std::thread::sleep(QUIET_FOR);
            if self.cpu_seconds()? - before <= QUIET_SHARE * QUIET_FOR.as_secs_f64() {
                return Ok(start.elapsed().saturating_sub(QUIET_FOR));
            }
        }
        Ok(start.elapsed())
    }

    /// Terminates the server gracefully, by SIGTERM.
    pub(in crate::bench) fn stop(mut self) {
        end(&mut self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If `stop` was called, the child has ended already.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Addresses {
    fn told(log: &str) -> Addresses {
        let place = |what: &str| {
            let lines = log.lines().filter_map(|line| line.split_once("listening on "));
            let mut places = lines.filter_map(|(_, place)| place.split_once(": "));
            places
                .find(|(_, told)| *told == what)
                .map_or_else(String::new, |(place, _)| place.to_owned())
        };
        Addresses {
            web: place("Zipkin, OpenTelemetry and questions"),
            otlp_http: place("OpenTelemetry over HTTP"),
            otlp_grpc: place("OpenTelemetry over gRPC"),
            scribe: place("Scribe"),
        }
    }

    fn are_all(&self) -> bool {
        [&self.web, &self.otlp_http, &self.otlp_grpc, &self.scribe]
            .iter()
            .all(|place| !place.is_empty())
    }
}

fn start(command: &mut Command, log: &Path) -> Result<Child, String> {
    let file = File::create(log).map_err(at(log))?;
    let other = file.try_clone().map_err(at(log))?;
    command.stdin(Stdio::null()).stdout(other).stderr(file);
    command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))
}

fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the value of the metric `name` on a page in Prometheus's text format.
pub(in crate::bench) fn metric(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_that_the_server_tells() {
        let log = "blkkin server: listening on 127.0.0.1:40001: Zipkin, OpenTelemetry and questions\n\
                   blkkin server: listening on 127.0.0.1:40002: OpenTelemetry over HTTP\n\
                   blkkin server: listening on 127.0.0.1:40003: OpenTelemetry over gRPC\n";
        let places = Addresses::told(log);
        assert_eq!(
            (places.web.as_str(), places.otlp_grpc.as_str()),
            ("127.0.0.1:40001", "127.0.0.1:40003")
        );
        assert!(!places.are_all());
        let log = format!("{log}blkkin server: listening on [::1]:9: Scribe\n");
        let places = Addresses::told(&log);
        assert!(places.are_all() && places.scribe == "[::1]:9");
    }

    #[test]
    fn metrics_are_found() {
        let page = "# TYPE blkkin_store_spans gauge\nblkkin_store_spans_expired_total 12\nblkkin_store_spans 5e3\n";
        assert_eq!(metric(page, "blkkin_store_spans"), Some(5000.0));
        assert_eq!(metric(page, "blkkin_store_spans_expired_total"), Some(12.0));
        assert_eq!(metric(page, "blkkin"), None);
    }
}
