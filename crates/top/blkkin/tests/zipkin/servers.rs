//! Servers under comparison, and the differences between their answers. Start at [`Servers`].

use crate::spans::{Batch, ids};
use crate::support::server::{Reply, Server, http, on_free_ports};
use crate::support::{Scratch, blkkin, is_installed};
use blkkin_lake::{Lake, Options, Retention};
use blkkin_server::{Listen, Running, Settings};
use blkkin_wire::Format;
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for Zipkin's server to start, and to store sent spans, on a busy machine.
const START: Duration = Duration::from_secs(120);

/// Returns the path of Zipkin's server in Maven's local repository; `None` if the server or Java is
/// missing. `cargo xtask peers` has Maven fetch the server.
pub(crate) fn jar() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let jar = ".m2/repository/io/zipkin/zipkin-server/3.6.1/zipkin-server-3.6.1-exec.jar";
    Some(home.join(jar)).filter(|jar| jar.is_file() && is_installed("java"))
}

/// Process of Zipkin's server, killed on drop.
pub(crate) struct Zipkin {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Zipkin {
    fn start(jar: PathBuf, settings: &[(&str, &str)]) -> Zipkin {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let mut command = Command::new("java");
        // Options for a fast start, as the process runs for a short time.
        command.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar"]).arg(jar);
        command.env("QUERY_PORT", address.port().to_string()).env("STORAGE_TYPE", "mem");
        command.envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut zipkin = Zipkin { child: command.spawn().expect("java"), address };
        let start = Instant::now();
        while http(address, "GET", "/health", "", b"").is_none_or(|reply| reply.status != 200) {
            let ended = zipkin.child.try_wait().expect("a child");
            assert!(ended.is_none() && start.elapsed() < START, "{ended:?}");
            thread::sleep(Duration::from_millis(100));
        }
        zipkin
    }
}

impl Drop for Zipkin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server whose store writes all but the last spans into small files and merges them.
fn in_files(folder: &Path, how: &ServerSettings) -> Running {
    let retention = Retention { age: None, bytes: None };
    let options = Options { retention, file_spans: 200, merge_files: 4, ..Options::default() };
    let (lake, _) = Lake::open(folder, options).expect("a store");
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = Listen { web: vec![local], ..Listen::default() };
    let mut settings = Settings { listen, ..Settings::default() };
    settings.query.strict_trace_id = !how.short_ids;
    settings.query.autocomplete_keys = how.keys.iter().map(|&key| key.to_owned()).collect();
    blkkin_server::Server::start(Arc::new(lake), settings).expect("a server")
}

/// Settings that all compared servers share.
#[derive(Default)]
pub(crate) struct ServerSettings {
    /// Set if trace ids are equal when their lower halves are equal.
    pub(crate) short_ids: bool,
    /// Keys of tags whose values are offered for completion.
    pub(crate) keys: &'static [&'static str],
}

/// Zipkin's server, three servers of ours, and the differences between their answers.
pub(crate) struct Servers {
    pub(crate) zipkin: Zipkin,
    pub(crate) ours: [OurServer; 3],
    _processes: [Server; 2],
    _running: Running,
    files: PathBuf,
    differences: Vec<String>,
    asked: usize,
    /// Number of requests to which Zipkin's server answered 200 with more than an empty list.
    told: usize,
}

/// One of our servers; `store` is the name of its store in messages.
pub(crate) struct OurServer {
    pub(crate) store: &'static str,
    pub(crate) web: SocketAddr,
}

impl Servers {
    pub(crate) fn start(scratch: &Scratch, jar: PathBuf, how: &ServerSettings) -> Servers {
        let mut arguments: Vec<&str> =
            how.keys.iter().flat_map(|&key| ["--autocomplete-key", key]).collect();
        arguments.extend(how.short_ids.then_some("--short-trace-ids"));
        let start = |store: &[&str]| {
            Server::start(on_free_ports(&mut blkkin(&scratch.0)).args(store).args(&arguments))
        };
        let processes = [start(&["--memory"]), start(&["--data", "kept", "--keep", "0"])];
        let files = scratch.0.join("files");
        let running = in_files(&files, how);
        let ours = [
            OurServer { store: "memory", web: processes[0].web },
            OurServer { store: "lake", web: processes[1].web },
            OurServer { store: "lake of files", web: running.web[0] },
        ];
        let keys = how.keys.join(",");
        let strict = if how.short_ids { "false" } else { "true" };
        let zipkin =
            Zipkin::start(jar, &[("AUTOCOMPLETE_KEYS", &keys), ("STRICT_TRACE_ID", strict)]);
        Servers {
            zipkin,
            ours,
            _processes: processes,
            _running: running,
            files,
            differences: Vec::new(),
            asked: 0,
            told: 0,
        }
    }

    pub(crate) fn ask(&mut self, path: &str) {
        self.exchange("GET", path, "", b"");
    }

    /// Sends a request to all servers, and records the differences between their answers.
    pub(crate) fn exchange(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        self.asked += 1;
        let ask = |to| normalize(http(to, method, path, headers, body).expect("an answer"));
        let expected = ask(self.zipkin.address);
        let is_framework = FRAMEWORK.iter().any(|words| expected.body.starts_with(words));
        self.told += usize::from(expected.status == 200 && expected.body.len() > 2);
        for &OurServer { store, web } in &self.ours {
            let mut found = ask(web);
            let has_words = match method {
                "POST" => found.body.contains(" reading List<Span> from json (span "),
                _ => is_framework && !found.body.is_empty(),
            };
            if has_words && found.status == expected.status {
                found.body.clone_from(&expected.body);
            }
            if found != expected {
                let told = format!(
                    "{method} {path} ({store}):\n  Zipkin {expected:?}\n  ours   {found:?}"
                );
                self.differences.push(told.chars().take(6000).collect());
            }
        }
    }

    /// Sends batches to all servers, and waits until Zipkin's server, which answers before storing,
    /// has stored them.
    pub(crate) fn send(&mut self, batches: &[Batch]) {
        for batch in batches {
            let (path, headers) = match batch.format {
                Format::ZipkinProto => {
                    ("/api/v2/spans", "content-type: application/x-protobuf\r\n")
                }
                Format::ZipkinV1Json => ("/api/v1/spans", JSON),
                Format::ZipkinThrift => ("/api/v1/spans", "content-type: application/x-thrift\r\n"),
                _ => ("/api/v2/spans", JSON),
            };
            self.exchange("POST", path, headers, &batch.body);
        }
        let start = Instant::now();
        for id in batches.iter().filter_map(|batch| ids(batch).pop_last()) {
            let path = format!("/api/v2/trace/{id}");
            while http(self.zipkin.address, "GET", &path, "", b"").expect("an answer").status != 200
            {
                assert!(start.elapsed() < START, "{id}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    #[track_caller]
    pub(crate) fn agree(self) {
        let files = fs::read_dir(self.files.join("spans")).expect("a folder").flatten();
        let files = files.filter(|file| file.path().extension().is_some_and(|it| it == "parquet"));
        assert!(files.count() > 0, "no spans are in files");
        assert!(self.told * 2 > self.asked, "{} of {} answers", self.told, self.asked);
        let count = self.differences.len();
        assert_eq!(count, 0, "of {} answers:\n{}", self.asked, self.differences.join("\n"));
    }
}

pub(crate) const JSON: &str = "content-type: application/json\r\n";

/// Beginnings of error messages that the framework of Zipkin's server creates. Our server words
/// these errors differently.
const FRAMEWORK: &[&str] =
    &["Mandatory parameter", "Cannot set null to primitive", "For input string", "404 Not Found"];

/// Normalizes an answer by sorting the parts that have no defined order: the fields of objects, the
/// spans of a request, links, and adjacent requests with the same lower half of their ids.
fn normalize(reply: Reply) -> Reply {
    // Zipkin's server counts more bytes than it writes in answers with U+2028, and pads with zeros.
    let text = reply.body.trim_end_matches('\0');
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            order(&mut value);
            Reply { body: value.to_string(), ..reply }
        }
        Err(_) => reply,
    }
}

fn order(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.iter_mut().for_each(order);
            // Spans of a request and links have no order; requests, names and annotations have.
            let first = values.first();
            if first.is_some_and(|it| it.get("traceId").or_else(|| it.get("child")).is_some()) {
                values.sort_by_cached_key(Value::to_string);
            }
            // Requests with the same lower half of their ids have no order in Zipkin's store.
            let low = |request: &Value| {
                let id = request[0]["traceId"].as_str().unwrap_or_default();
                id[id.len().saturating_sub(16)..].to_owned()
            };
            for group in values.chunk_by_mut(|one, other| one.is_array() && low(one) == low(other))
            {
                group.sort_by_cached_key(Value::to_string);
            }
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(order);
            fields.sort_keys();
        }
        _ => {}
    }
}
