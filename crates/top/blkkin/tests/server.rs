//! Tests of the process `blkkin server`: its log, shutdown, signals, and limits.

mod support;

use blkkin_sys::testing::Mounted;
use flate2::{Compression, write::GzEncoder};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;
use support::server::{Server, on_free_ports};
use support::{Scratch, blkkin, run, skip, with_limit};

/// Adds the subcommand `server` with options that select free ports, turn off OpenTelemetry's
/// ports, and keep the spans in memory.
fn quiet(command: &mut Command) -> &mut Command {
    on_free_ports(command).arg("--memory")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

#[test]
fn spans_go_in_and_come_out() {
    let scratch = Scratch::new("server-spans");
    let server = Server::start(quiet(&mut blkkin(&scratch.0)));
    let spans = br#"[{"traceId":"a","id":"b","name":"work"}]"#;
    let kind = "content-type: application/json\r\n";
    let reply = server.ask("POST", "/api/v2/spans", kind, spans);
    assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    let reply = server.ask("GET", "/api/v2/trace/a", "", b"");
    assert!(reply.contains(r#""name":"work""#), "{reply}");
    let told = server.end();
    assert!(told.ends_with("blkkin server: ending: answering what was asked\n"), "{told}");
}

#[test]
fn spans_outlive_a_server_that_is_killed() {
    let scratch = Scratch::new("server-killed");
    let start = || Server::start(on_free_ports(&mut blkkin(&scratch.0)).args(["--data", "kept"]));
    let kind = "content-type: application/json\r\n";
    for round in 1..=3_u32 {
        let mut server = start();
        let spans = format!(r#"[{{"traceId":"{round}","id":"b","name":"work-{round}"}}]"#);
        let reply = server.ask("POST", "/api/v2/spans", kind, spans.as_bytes());
        assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
        for before in 1..=round {
            let reply = server.ask("GET", &format!("/api/v2/trace/{before}"), "", b"");
            assert!(reply.contains(&format!("work-{before}")), "{reply}");
        }
        server.child.kill().expect("it lives");
        server.child.wait().expect("its end");
    }
    let server = start();
    assert!(
        server.log.contains("keeping spans in kept: 0 in 0 files and 3 in the journal"),
        "{}",
        server.log
    );
    let other = run(on_free_ports(&mut blkkin(&scratch.0)).args(["--data", "kept"]));
    let told = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot keep spans in kept: "), "{told}");
    server.end();
    // After graceful termination, spans are in files or still in the journal.
    let server = start();
    let reply = server.ask("GET", "/api/v2/traceMany?traceIds=1,2,3", "", b"");
    assert!((1..=3).all(|round| reply.contains(&format!("work-{round}"))), "{reply}");
    server.end();
}

#[test]
fn bombs_take_little_memory() {
    let scratch = Scratch::new("server-bomb");
    let server = Server::start(quiet(&mut blkkin(&scratch.0)));
    let paths = ["/api/v2/spans", "/api/v1/spans", "/v1/traces"];
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    // Loads the code first, so that the measurement is of data alone.
    for path in paths {
        let reply = server.ask("POST", path, headers, &gzip(b"nonsense"));
        assert!(reply.starts_with("HTTP/1.1 400 "), "{path} {reply}");
    }
    let before = server.memory();
    // 1 GiB of blanks.
    let bomb = gzip(&vec![b' '; 1 << 20]).repeat(1024);
    for path in paths {
        let reply = server.ask("POST", path, headers, &bomb);
        assert!(reply.starts_with("HTTP/1.1 413 "), "{path} {reply}");
    }
    let grown = server.memory() - before;
    assert!(grown <= 32 << 20, "{grown} bytes");
    server.end();
}

#[test]
fn tokens_are_never_printed() {
    let scratch = Scratch::new("server-tokens");
    fs::write(scratch.0.join("tokens"), "planted-secret\n").expect("written");
    let server = Server::start(quiet(&mut blkkin(&scratch.0)).args(["--token-file", "tokens"]));
    for (token, status) in [("planted-secret", "200"), ("other-secret", "401")] {
        let header = format!("authorization: Bearer {token}\r\n");
        for (path, status) in [
            ("/health", "200"),
            ("/metrics", "200"),
            ("/info", status),
            ("/api/blkkin/v1/counters", status),
            ("/api/blkkin/v1/status", status),
        ] {
            let reply = server.ask("GET", path, &header, b"");
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
            assert!(!reply.contains("secret"), "{reply}");
        }
    }
    let told = server.end();
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn it_does_not_start_where_anybody_could_come_in() {
    let scratch = Scratch::new("server-open");
    let check = |arguments: &[&str], status: i32, expected: &str| {
        let output = run(blkkin(&scratch.0).args(["server", "--memory"]).args(arguments));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(told.contains(expected), "{told}");
    };
    check(&["--listen", "0.0.0.0:0"], 1, "there is no TLS: give --tls-cert and --tls-key");
    check(&["--scribe", "0.0.0.0:0"], 1, "Scribe has neither TLS nor tokens");
    check(&["--token-file", "nothing"], 1, "nothing");
    check(&["--read-token-file", "nothing"], 1, "tokens for writing are missing");
    check(&["--trusted-network", "10.0.0.0/8", "--scribe", "0.0.0.0:0"], 1, "Scribe has neither");
    check(&["--trusted-network", "10.0.0.0/99"], 2, "not a network, such as 10.0.0.0/8");
    check(&["--tls-cert", "cert.pem"], 2, "--tls-key");
    check(&["--data", "kept"], 2, "cannot be used with");
    check(&["--keep", "1y"], 2, "not a time, such as");
    check(&["--listen", "nowhere"], 2, "not an address and port");
}

/// The server raises the soft limit of descriptors (1024 in most shells and services) to the hard
/// limit. Idle connections do not use up all descriptors: some remain for files, and other clients
/// can still connect.
#[test]
fn descriptors_are_raised_and_shared_out() {
    let scratch = Scratch::new("server-descriptors");
    let mut command = blkkin(&scratch.0);
    on_free_ports(&mut command).args(["--data", "kept"]);
    let server = Server::start(&mut with_limit("-S -n 64 && ulimit -H -n 256", &command));
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.child.id())).expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    assert_eq!(line.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["256", "256"]);
    let idle = |to| (0..300).map(|_| TcpStream::connect(to)).collect::<Vec<_>>();
    let held = [idle(server.address("Scribe")), idle(server.web)];
    let kind = "content-type: application/json\r\n";
    for round in 1..=20_u32 {
        let spans = format!(r#"[{{"traceId":"{round}","id":"b"}}]"#);
        let reply = server.ask("POST", "/api/v2/spans", kind, spans.as_bytes());
        assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    }
    let reply = server.ask("GET", "/metrics", "", b"");
    assert!(reply.contains("\nblkkin_server_connections_failed_total 0\n"), "{reply}");
    let files = fs::read_dir(format!("/proc/{}/fd", server.child.id())).expect("files").count();
    assert!(files <= 256 - 64, "{files} descriptors");
    drop(held);
    server.end();
}

/// SIGHUP reloads the tokens and never ends the server. A file without a token only causes a log
/// message.
#[test]
fn hangups_reload() {
    let scratch = Scratch::new("server-hangup");
    let tokens = scratch.0.join("tokens");
    fs::write(&tokens, "first\n").expect("written");
    let mut server = Server::start(quiet(&mut blkkin(&scratch.0)).args(["--token-file", "tokens"]));
    let pid = Pid::from_child(&server.child);
    let status = |server: &Server, token: &str| {
        let header = format!("authorization: Bearer {token}\r\n");
        server.ask("GET", "/info", &header, b"")[9..12].to_owned()
    };
    let statuses = |server: &Server| [status(server, "first"), status(server, "second")];
    assert_eq!(statuses(&server), ["200", "401"]);
    for (content, expected, said) in [
        ("\n", ["200", "401"], "stay as they are: tokens: has no token"),
        ("second\n", ["401", "200"], "certificate and tokens were read again"),
    ] {
        fs::write(&tokens, content).expect("written");
        kill_process(pid, Signal::HUP).expect("it lives");
        server.wait_for_log(said);
        assert_eq!(statuses(&server), expected, "{content}");
    }
    server.end();
}

/// The port of Scribe is closed by default if tokens are configured, as Scribe's protocol has no
/// tokens.
#[test]
fn scribe_is_off_where_there_are_tokens() {
    let scratch = Scratch::new("server-scribe");
    fs::write(scratch.0.join("tokens"), "secret\n").expect("written");
    let ports = ["--listen", "0", "--otlp-http", "off", "--otlp-grpc", "off"];
    let mut command = blkkin(&scratch.0);
    command.args(["server", "--memory", "--token-file", "tokens"]).args(ports);
    let server = Server::start_until(&mut command, "listening on 127.0.0.1");
    assert!(server.log.contains("not listening for Scribe"), "{}", server.log);
    let told = server.end();
    assert!(!told.contains(": Scribe\n"), "{told}");
    let server = Server::start(command.args(["--scribe", "0"]));
    assert!(
        server.log.contains("WARN blkkin server: Scribe's port needs no token"),
        "{}",
        server.log
    );
    server.end();
}

#[test]
fn lines_can_be_json() {
    let scratch = Scratch::new("server-json");
    let mut command = blkkin(&scratch.0);
    quiet(&mut command).args(["--log-format", "json"]);
    let server = Server::start_until(&mut command, ": Scribe\"");
    let told = server.end();
    let lines: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.len() >= 3, "{told}");
    for line in lines {
        assert_eq!(
            (line["level"].as_str(), line["program"].as_str()),
            (Some("info"), Some("blkkin server"))
        );
        let time = line["time"].as_str().expect("text");
        assert!(time.starts_with("20") && time.ends_with('Z') && time.len() == 24, "{time}");
    }
}

/// The server runs as a service: it reads options from a file and from the environment, and tells
/// systemd when it is ready and when it stops.
#[test]
fn it_runs_as_a_service() {
    let scratch = Scratch::new("server-service");
    let manager = UnixDatagram::bind(scratch.0.join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let said = || {
        let mut bytes = [0; 100];
        let len = manager.recv(&mut bytes).expect("a word");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let file = "# Ports of this machine.\nlisten = 0\notlp-http = off\notlp-grpc = off\nlog-format = json\n";
    fs::write(scratch.0.join("server.conf"), file).expect("written");
    let mut command = blkkin(&scratch.0);
    command.args(["server", "--scribe", "0"]);
    command.env("BLKKIN_SERVER_CONFIG", "server.conf").env("BLKKIN_SERVER_MEMORY", "true");
    command.env("BLKKIN_SERVER_LOG_FORMAT", "text").env("NOTIFY_SOCKET", "notify");
    let server = Server::start(&mut command);
    assert_eq!(said(), "READY=1");
    assert!(server.ask("GET", "/health", "", b"").starts_with("HTTP/1.1 200 "));
    let told = server.end();
    assert_eq!(said(), "STOPPING=1");
    assert!(told.contains(" INFO blkkin server: ") && !told.contains("4318"), "{told}");
    let output = run(blkkin(&scratch.0).args(["server", "--config", "none"]));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    fs::write(scratch.0.join("server.conf"), "listens = 0\n").expect("written");
    let output = run(blkkin(&scratch.0).args(["server", "--config=server.conf"]));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("server.conf, line 1: there is no option `listens`"), "{told}");
}

/// The good spans of a batch with a bad span are stored, unless `--whole-batches` is set.
#[test]
fn good_spans_are_taken_from_bad_ones() {
    let scratch = Scratch::new("server-spans-each");
    let tags: Vec<String> = (0..1025).map(|tag| format!(r#""{tag}":"""#)).collect();
    let spans = format!(
        r#"[{{"traceId":"a","id":"b"}},{{"traceId":"a","id":"c","tags":{{{}}}}},{{"traceId":"a","id":"d"}}]"#,
        tags.join(",")
    );
    for (argument, kept) in [(None, "HTTP/1.1 200 "), (Some("--whole-batches"), "HTTP/1.1 404 ")] {
        let server = Server::start(quiet(&mut blkkin(&scratch.0)).args(argument));
        let kind = "content-type: application/json\r\n";
        let reply = server.ask("POST", "//api/v2/spans", kind, spans.as_bytes());
        assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("(span 1, "), "{reply}");
        assert_eq!(reply.ends_with("; 2 others were taken)"), argument.is_none(), "{reply}");
        let reply = server.ask("GET", "/api/v2/trace/a", "", b"");
        assert!(reply.starts_with(kept), "{reply}");
        server.end();
    }
}

/// The log and the server's health report a full file system with the reason, and report when there
/// is space again.
#[test]
fn a_full_disk_is_told() {
    let Ok(mounted) = Mounted::in_memory(1024) else {
        return skip("a_full_disk_is_told", "only root can mount one");
    };
    let scratch = Scratch::new("server-full");
    let data = mounted.path().join("data");
    let mut server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).arg("--data").arg(data));
    let kind = "content-type: application/json\r\n";
    let send = |server: &Server| {
        let spans = br#"[{"traceId":"a","id":"b"}]"#;
        server.ask("POST", "/api/v2/spans", kind, spans)[9..12].to_owned()
    };
    // The journal's first segment does not fit.
    assert_eq!(send(&server), "503");
    server.wait_for_log(
        "ERROR blkkin server: 1 messages turned away, whose senders should try again: ",
    );
    let line = server.log.lines().last().expect("a line");
    assert!(line.contains("No space left on device"), "{line}");
    let health = server.ask("GET", "/health", "", b"");
    assert!(health.contains("OUT_OF_SERVICE") && health.contains("No space left"), "{health}");
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    let ready = |server: &Server| server.ask("GET", "/health/readiness", "", b"")[9..12].to_owned();
    assert_eq!(ready(&server), "503");
    mounted.resize(300 << 10);
    while send(&server) != "202" {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.wait_for_log("INFO blkkin server: the store takes batches again");
    assert_eq!(ready(&server), "200");
    let health = server.ask("GET", "/health", "", b"");
    assert!(health.contains(r#""status": "UP""#) && !health.contains("troubles"), "{health}");
    server.end();
}
