//! `blkkin server` as a process: what it prints, how it ends, and what memory it takes.

mod support;

use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use support::server::{Server, on_free_ports};
use support::{Scratch, blkkin, run, with_limit};

/// Without files, and with few ports.
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
        server.told.contains("keeping spans in kept: 0 in 0 files and 3 in the journal"),
        "{}",
        server.told
    );
    let other = run(on_free_ports(&mut blkkin(&scratch.0)).args(["--data", "kept"]));
    let told = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot keep spans in kept: "), "{told}");
    server.end();
    // What ends in order has written its files, or has the journal still.
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
    // The code that is needed is memory too; it is there once.
    for path in paths {
        let reply = server.ask("POST", path, headers, &gzip(b"nonsense"));
        assert!(reply.starts_with("HTTP/1.1 400 "), "{path} {reply}");
    }
    let before = server.memory();
    // A gibibyte of blanks.
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
        for path in ["/health", "/metrics", "/api/blkkin/v1/status"] {
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
    check(&["--tls-cert", "cert.pem"], 2, "--tls-key");
    check(&["--data", "kept"], 2, "cannot be used with");
    check(&["--keep", "1y"], 2, "not a time, such as");
    check(&["--listen", "nowhere"], 2, "not an address and port");
}

/// The soft limit of descriptors, which is 1024 for most shells and services, is raised to the hard one, and connections
/// leave some for files: idle ones, more than there are descriptors, keep nobody out.
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
