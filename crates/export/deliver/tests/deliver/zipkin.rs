//! Tests with Zipkin's real server: it accepts batches in each of its formats, and returns the
//! spans unchanged.

use crate::accounts::{PATIENCE, finish, numbers, of_format, options, push};
use blkkin_deliver::{Exporter, Options};
use blkkin_sys::testing::{is_installed, skip};
use blkkin_wire::Format;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for the server's start on a busy machine.
const START: Duration = Duration::from_secs(120);

/// Returns the path of Zipkin's server in Maven's local repository; `None` if the file is missing.
/// `cargo xtask peers` downloads the server.
fn jar() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let jar = ".m2/repository/io/zipkin/zipkin-server/3.6.1/zipkin-server-3.6.1-exec.jar";
    Some(home.join(jar)).filter(|jar| jar.is_file())
}

/// A running Zipkin server, killed when dropped.
struct Zipkin {
    child: Child,
    http: u16,
    scribe: u16,
}

impl Zipkin {
    fn start(jar: PathBuf) -> Zipkin {
        let (http, scribe) = (free_port(), free_port());
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-jar"]).arg(jar);
        command.env("QUERY_PORT", http.to_string()).env("STORAGE_TYPE", "mem");
        command.env("COLLECTOR_SCRIBE_ENABLED", "true").env("COLLECTOR_PORT", scribe.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut zipkin = Zipkin { child: command.spawn().expect("java"), http, scribe };
        let start = Instant::now();
        while zipkin.get("/health").is_none_or(|(status, _)| status != StatusCode::OK) {
            let ended = zipkin.child.try_wait().expect("a child");
            assert!(ended.is_none() && start.elapsed() < START, "{ended:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        zipkin
    }

    fn get(&self, path: &str) -> Option<(StatusCode, Bytes)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let stream =
                tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.http)).await.ok()?;
            let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, driver) = shaken.ok()?;
            tokio::spawn(driver);
            let request =
                Request::get(path).header("host", "localhost").body(Empty::<Bytes>::new());
            let response = sender.send_request(request.expect("a request")).await.ok()?;
            let status = response.status();
            Some((status, response.into_body().collect().await.ok()?.to_bytes()))
        })
    }

    /// Waits until an accepted span is searchable, and checks that the span is unchanged.
    #[track_caller]
    fn find(&self, number: u64) {
        let start = Instant::now();
        loop {
            let found = self.get(&format!("/api/v2/trace/{:016x}", number + 1)).expect("an answer");
            if found.0 == StatusCode::OK {
                return assert_eq!(numbers(Format::ZipkinJson, &found.1), [number]);
            }
            assert!(start.elapsed() < PATIENCE, "{number}: {found:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Zipkin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn spans_are_found_again() {
    let jar = jar().filter(|_| is_installed("java"));
    let Some(jar) = jar else {
        return skip("deliver: zipkin", "there is no server of Zipkin's, or no java to run it");
    };
    let zipkin = Zipkin::start(jar);
    let http = |path: &str| format!("http://127.0.0.1:{}{path}", zipkin.http);
    let mut next = 0;
    let mut send = |options: Options| {
        let exporter = Exporter::open(options).expect("an exporter");
        let numbers = next..next + 20;
        numbers.clone().for_each(|number| push(&exporter, number));
        next = numbers.end;
        let counters = finish(exporter);
        assert_eq!((counters.delivered, counters.retries), (20, 0));
        numbers.for_each(|number| zipkin.find(number));
    };
    for (path, format) in [
        ("/api/v2/spans", Format::ZipkinJson),
        ("/api/v2/spans", Format::ZipkinProto),
        ("/api/v1/spans", Format::ZipkinV1Json),
        ("/api/v1/spans", Format::ZipkinThrift),
    ] {
        for gzip in [false, true] {
            send(Options { gzip, ..of_format(&http(path), Some(format)) });
        }
    }
    send(options(&format!("scribe://127.0.0.1:{}", zipkin.scribe)));
    // The server finds no span that was never sent.
    assert_eq!(zipkin.get(&format!("/api/v2/trace/{:016x}", next + 1)).expect("an answer").0, 404);
}
