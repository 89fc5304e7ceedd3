//! Published client libraries of other projects send a request to `blkkin server` in each of their
//! formats, and Zipkin's API must return the same data. The programs in `tests/clients` use the
//! unchanged libraries, which `cargo xtask peers` installs. Each program sends a request, waits for
//! the acknowledgement, and prints the expected data.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::server::{Server, http};
use support::{Scratch, blkkin, run, skip, text};

/// Two servers, one with its store in memory and one with its store on disk.
struct Servers {
    _scratch: Scratch,
    each: [(&'static str, Server); 2],
}

impl Servers {
    fn start(name: &str) -> Servers {
        let scratch = Scratch::new(name);
        let start = |store: &[&str]| {
            let mut command = blkkin(&scratch.0);
            command.arg("server").args(store);
            command.args([
                "--listen",
                "0",
                "--otlp-http",
                "0",
                "--otlp-grpc",
                "0",
                "--scribe",
                "0",
            ]);
            Server::start(&mut command)
        };
        let each =
            [("memory", start(&["--memory"])), ("lake", start(&["--data", "kept", "--keep", "0"]))];
        Servers { _scratch: scratch, each }
    }

    /// Runs a client against each server, and checks that Zipkin's API returns the data that the
    /// client expects. `to` returns the address that is passed to the client.
    #[track_caller]
    fn check(&self, client: &Command, what: &str, to: impl Fn(&Server) -> String) {
        for (store, server) in &self.each {
            let mut command = Command::new(client.get_program());
            command.args(client.get_args()).args([what, &to(server)]);
            for (name, value) in client.get_envs() {
                command.env(name, value.unwrap_or_default());
            }
            // Proxies of the machine must not be used for a local server.
            for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
                command.env_remove(name);
            }
            let output = run(&mut command);
            let errors = text(&output.stderr);
            assert!(output.status.success(), "{what} ({store}): {errors}");
            let printed = text(&output.stdout);
            let last = printed.lines().next_back().unwrap_or_default();
            let expected: Value = serde_json::from_str(last).expect("JSON");
            let id = expected[0]["traceId"].as_str().expect("an id");
            let reply = http(server.web, "GET", &format!("/api/v2/trace/{id}"), "", b"");
            let reply = reply.expect("an answer");
            assert_eq!(reply.status, 200, "{what} ({store}): {} {errors}", reply.body);
            let found: Value = serde_json::from_str(&reply.body).expect("JSON");
            assert_eq!(by_id(found), by_id(expected), "{what} ({store})");
        }
    }
}

/// Sorts spans by id and their fields by name, so that comparisons ignore the order.
fn by_id(mut spans: Value) -> Value {
    if let Value::Array(spans) = &mut spans {
        spans.sort_by_cached_key(|span| span["id"].to_string());
    }
    spans.sort_all_objects();
    spans
}

/// Returns the path that an environment variable names. Without the variable or the peer `name`,
/// reports the test as skipped and returns `None`.
fn peer(test: &str, name: &str, variable: &str) -> Option<PathBuf> {
    let peers = std::env::var("BLKKIN_PEERS").unwrap_or_default();
    let found = std::env::var_os(variable).map(PathBuf::from);
    let found = found.filter(|_| peers.split(',').any(|peer| peer == name));
    if found.is_none() {
        skip(test, &format!("no {name}"));
    }
    found
}

fn client(interpreter: &Path, script: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut command = Command::new(interpreter);
    command.arg(folder.join(script));
    command
}

fn web(path: &str) -> impl Fn(&Server) -> String {
    move |server| format!("http://{}{path}", server.web)
}

fn otlp_http(server: &Server) -> String {
    format!("http://{}/v1/traces", server.address("OpenTelemetry over HTTP"))
}

fn otlp_grpc(server: &Server) -> String {
    format!("http://{}", server.address("OpenTelemetry over gRPC"))
}

fn scribe(server: &Server) -> String {
    server.address("Scribe").port().to_string()
}

#[test]
fn py_zipkin() {
    let Some(python) = peer("py_zipkin", "python-clients", "BLKKIN_PYTHON") else { return };
    let servers = Servers::start("py-zipkin");
    let client = client(&python, "zipkin.py");
    servers.check(&client, "V2_JSON", web("/api/v2/spans"));
    servers.check(&client, "V2_PROTO3", web("/api/v2/spans"));
    servers.check(&client, "V1_JSON", web("/api/v1/spans"));
}

/// The server accepts thrift spans of the last py_zipkin release with thrift. They are sent over
/// HTTP, and through the client that Scribe's authors published.
#[test]
fn py_zipkin_with_thrift() {
    let name = "py_zipkin_with_thrift";
    let Some(python) = peer(name, "python-clients-older", "BLKKIN_PYTHON_OLDER") else { return };
    let servers = Servers::start("py-zipkin-thrift");
    let client = client(&python, "zipkin.py");
    servers.check(&client, "V1_THRIFT", web("/api/v1/spans"));
    servers.check(&client, "V1_THRIFT", scribe);
}

#[test]
fn opentelemetry_for_python() {
    let name = "opentelemetry_for_python";
    let Some(python) = peer(name, "python-clients", "BLKKIN_PYTHON") else { return };
    let servers = Servers::start("otel-python");
    let client = client(&python, "otel.py");
    servers.check(&client, "otlp-http", otlp_http);
    servers.check(&client, "otlp-http-gzip", web("/v1/traces"));
    servers.check(&client, "otlp-grpc", otlp_grpc);
    servers.check(&client, "otlp-grpc", web(""));
    servers.check(&client, "zipkin-json", web("/api/v2/spans"));
}

/// The server accepts spans of OpenTelemetry's exporter for Zipkin's protobuf format. This exporter
/// needs an older protobuf library than the other exporters.
#[test]
fn opentelemetry_for_python_with_zipkins_protobuf() {
    let name = "opentelemetry_for_python_with_zipkins_protobuf";
    let Some(python) = peer(name, "python-clients-older", "BLKKIN_PYTHON_OLDER") else { return };
    let servers = Servers::start("otel-python-proto");
    servers.check(&client(&python, "otel.py"), "zipkin-proto", web("/api/v2/spans"));
}

fn node(modules: &Path, script: &str) -> Command {
    let mut command = client(Path::new("node"), script);
    command.env("NODE_PATH", modules);
    command
}

#[test]
fn zipkin_for_node() {
    let Some(modules) = peer("zipkin_for_node", "node-clients", "BLKKIN_NODE_MODULES") else {
        return;
    };
    let servers = Servers::start("zipkin-node");
    let client = node(&modules, "zipkin.js");
    servers.check(&client, "v1", web("/api/v1/spans"));
    servers.check(&client, "v2", web("/api/v2/spans"));
    servers.check(&client, "scribe", scribe);
}

#[test]
fn opentelemetry_for_node() {
    let Some(modules) = peer("opentelemetry_for_node", "node-clients", "BLKKIN_NODE_MODULES")
    else {
        return;
    };
    let servers = Servers::start("otel-node");
    let client = node(&modules, "otel.js");
    servers.check(&client, "otlp-json", otlp_http);
    servers.check(&client, "otlp-proto", otlp_http);
    servers.check(&client, "otlp-proto-gzip", web("/v1/traces"));
    servers.check(&client, "otlp-grpc", otlp_grpc);
    servers.check(&client, "zipkin", web("/api/v2/spans"));
}
