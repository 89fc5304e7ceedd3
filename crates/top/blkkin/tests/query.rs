//! Results of `blkkin query` from a server and from a directory, as text and as JSON.

mod support;

use serde_json::Value;
use std::fs;
use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};
use support::server::{Server, on_free_ports};
use support::{Scratch, blkkin, run};

/// Returns the client span and the server span of a request as JSON. The request took `ms`
/// milliseconds and began `seconds_ago` seconds ago.
fn request(id: u64, ms: u64, seconds_ago: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64;
    let (start, took) = (now - seconds_ago * 1_000_000, ms * 1000);
    let (inner, half) = (start + took / 4, took / 2);
    let failed = if ms >= 100 { r#","tags":{"error":"EIO"}"# } else { "" };
    format!(
        r#"{{"traceId":"{id:x}","id":"a{id:x}","name":"write","kind":"CLIENT","timestamp":{start},"duration":{took},
            "localEndpoint":{{"serviceName":"vlmcd"}},"annotations":[{{"timestamp":{inner},"value":"queued"}}]}},
           {{"traceId":"{id:x}","id":"b{id:x}","parentId":"a{id:x}","name":"apply","kind":"SERVER","timestamp":{inner},
            "duration":{half},"localEndpoint":{{"serviceName":"osd.3"}}{failed}}}"#
    )
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct QueryRunner<'a> {
    scratch: &'a Scratch,
    source: [String; 2],
}

impl QueryRunner<'_> {
    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = blkkin(&self.scratch.0);
        command.arg("query").args(&self.source).args(arguments).env("LC_ALL", "C.UTF-8");
        run(command.env("COLUMNS", "150"))
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = printed(&self.ask(&[arguments, &["--json"]].concat()));
        printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    fn ids(&self, arguments: &[&str]) -> Vec<u64> {
        let id = |request: &Value| u64::from_str_radix(request["traceId"].as_str()?, 16).ok();
        self.json(arguments).iter().map(|request| id(request).expect("an id")).collect()
    }

    fn check(&self) {
        assert_eq!(self.ids(&[]), [3, 2, 1]);
        assert_eq!(self.ids(&["--slowest"]), [2, 3, 1]);
        assert_eq!(self.ids(&["--slowest", "-n", "1"]), [2]);
        assert_eq!(self.ids(&["--since", "1h"]), [3]);
        assert_eq!(self.ids(&["--until", "1h"]), [2, 1]);
        assert_eq!(self.ids(&["service == \"osd*\" && duration > 15ms"]), [3, 2]);
        assert_eq!(self.ids(&["error"]), [2]);
        let lines = printed(&self.ask(&[]));
        assert!(lines.lines().nth(1).is_some_and(|line| line.contains("80.0 ms")), "{lines}");
        assert!(
            lines.contains("vlmcd    write      2       1         2  0000000000000002"),
            "{lines}"
        );
        let tree = printed(&self.ask(&["--trace", "2", "--annotations"]));
        assert!(tree.contains("vlmcd: write client") && tree.contains("· queued"), "{tree}");
        assert!(tree.contains("└ osd.3: apply server") && tree.contains("error = EIO"), "{tree}");
        let latency = printed(&self.ask(&["--latency", "service == \"vlmcd\""]));
        assert!(latency.starts_with("3 spans  p50 8"), "{latency}");
        assert!(latency.contains("█") && latency.contains("0000000000000002"), "{latency}");
        assert_eq!(printed(&self.ask(&["--services"])), "osd.3\nvlmcd\n");
        assert_eq!(printed(&self.ask(&["--names", "osd.3"])), "apply\n");
        assert_eq!(printed(&self.ask(&["--keys"])), "error\t1\n");
        assert_eq!(printed(&self.ask(&["--values", "error"])), "EIO\n");
        self.refuse(&["service = "], 2, "did you mean `==`?");
        self.refuse(&["--trace", "77"], 1, "no request 77 is kept");
        self.refuse(&["--since", "1h", "--until", "2h"], 2, "nothing is between them");
        self.refuse(&["--trace", "2", "--calls"], 2, "cannot be used with");
    }

    fn refuse(&self, arguments: &[&str], status: i32, expected: &str) {
        let output = self.ask(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn requests_are_found_at_a_server_and_in_its_directory() {
    let scratch = Scratch::new("query");
    let data = scratch.0.join("kept").display().to_string();
    let server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).args(["--data", &data]));
    let requests = [request(1, 10, 9000), request(2, 160, 8000), request(3, 80, 60)].join(",");
    let kind = "content-type: application/json\r\n";
    let reply = server.ask("POST", "/api/v2/spans", kind, format!("[{requests}]").as_bytes());
    assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");

    let url = format!("http://{}", server.web);
    let asking = QueryRunner { scratch: &scratch, source: ["--server".to_owned(), url] };
    asking.check();
    let in_use = QueryRunner { scratch: &scratch, source: ["--data".to_owned(), data] };
    in_use.refuse(&[], 1, "if a server has it, ask that");
    server.end();
    asking.refuse(&[], 1, "start one with `blkkin server`");
    in_use.check();
}

#[test]
fn calls_are_known_soon() {
    let scratch = Scratch::new("query-calls");
    let server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).args(["--data", "kept"]));
    let url = format!("http://{}", server.web);
    let asking = QueryRunner { scratch: &scratch, source: ["--server".to_owned(), url] };
    assert_eq!(printed(&asking.ask(&["--calls"])), "");
    let kind = "content-type: application/json\r\n";
    let body = format!("[{}]", request(2, 160, 60));
    server.ask("POST", "/api/v2/spans", kind, body.as_bytes());
    let calls = loop {
        let calls = printed(&asking.ask(&["--calls"]));
        if !calls.is_empty() {
            break calls;
        }
    };
    assert!(calls.contains("vlmcd   osd.3       1       1  100.0 %"), "{calls}");
    server.end();
}

/// A missing end or start of a span is displayed as missing, not as a duration of zero. A span
/// without an end is unfinished or its end was lost; a span without a start has a lost start.
#[test]
fn ends_that_are_not_known_are_told_so() {
    let scratch = Scratch::new("query-ends");
    let server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).arg("--memory"));
    let url = format!("http://{}", server.web);
    let asking = QueryRunner { scratch: &scratch, source: ["--server".to_owned(), url] };
    let kind = "content-type: application/json\r\n";
    let body = br#"[
        {"traceId":"5","id":"a","name":"write","kind":"CLIENT","timestamp":1700000000000000,
         "localEndpoint":{"serviceName":"vm"},"tags":{"blkkin.end":"lost","pool":"rbd"}},
        {"traceId":"5","id":"b","parentId":"a","name":"apply","kind":"SERVER","timestamp":1700000000000100,
         "localEndpoint":{"serviceName":"osd"},"tags":{"pool":"rbd"}},
        {"traceId":"5","id":"c","parentId":"a","name":"fetch","kind":"CLIENT","timestamp":1700000000000300,
         "localEndpoint":{"serviceName":"vm"},"tags":{"blkkin.start":"lost"},
         "annotations":[{"timestamp":1700000000000300,"value":"cr"}]}]"#;
    let reply = server.ask("POST", "/api/v2/spans", kind, body);
    assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    let tree = printed(&asking.ask(&["--trace", "5", "--annotations"]));
    let of = |name: &str| tree.lines().find(|line| line.contains(name)).expect(name);
    assert!(of("write client").contains("end lost?"), "{tree}");
    assert!(of("apply server").contains("unfinished"), "{tree}");
    assert!(of("fetch client").contains("start lost?"), "{tree}");
    let count = |words: &str| tree.matches(words).count();
    assert_eq!(
        (count("blkkin.end = lost"), count("pool = rbd"), count("0 ns")),
        (1, 2, 0),
        "{tree}"
    );
    server.end();
}

/// A span without a time is shown, alone in its request or among other spans. Zipkin requires only
/// the ids of a span.
#[test]
fn spans_without_a_time_are_drawn() {
    let scratch = Scratch::new("query-undated");
    let server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).arg("--memory"));
    let url = format!("http://{}", server.web);
    let asking = QueryRunner { scratch: &scratch, source: ["--server".to_owned(), url] };
    let kind = "content-type: application/json\r\n";
    let body = br#"[{"traceId":"a","id":"b","name":"write"},
        {"traceId":"c","id":"d","kind":"SERVER","tags":{"pool":"rbd"}},
        {"traceId":"e","id":"1","name":"write","timestamp":1700000000000000,"duration":5000},
        {"traceId":"e","id":"2","parentId":"1","name":"read","kind":"CLIENT",
         "localEndpoint":{"serviceName":"osd"}},
        {"traceId":"e","id":"2","parentId":"1","name":"read","kind":"SERVER","shared":true,
         "localEndpoint":{"serviceName":"osd"},"timestamp":1700000000001000,"duration":1000}]"#;
    let reply = server.ask("POST", "/api/v2/spans", kind, body);
    assert!(reply.starts_with("HTTP/1.1 202 "), "{reply}");
    let draw = |arguments: &[&str]| printed(&asking.ask(arguments));
    assert_eq!(draw(&["--trace", "a"]), "000000000000000a  write  1 span\nwrite\n");
    let tagged = draw(&["--trace", "c", "--annotations"]);
    assert!(tagged.starts_with("000000000000000c  ?  1 span\n? server\n"), "{tagged}");
    assert!(tagged.contains("pool = rbd"), "{tagged}");
    let mixed = draw(&["--trace", "e"]);
    let of = |name: &str| mixed.lines().find(|line| line.contains(name)).expect(name);
    assert!(mixed.starts_with("000000000000000e  write  2023-"), "{mixed}");
    assert!(of("read client").ends_with("read client"), "{mixed}");
    assert!(of("read server").contains("1.00 ms"), "{mixed}");
    server.end();
}

#[test]
fn tokens_are_given_and_never_shown() {
    let scratch = Scratch::new("query-token");
    fs::write(scratch.0.join("tokens"), "planted-secret\n").expect("written");
    fs::write(scratch.0.join("other"), "\n# mine\nother-secret\n").expect("written");
    let with_tokens = ["--memory", "--token-file", "tokens"];
    let server = Server::start(on_free_ports(&mut blkkin(&scratch.0)).args(with_tokens));
    let url = format!("http://{}", server.web);
    let asking = QueryRunner { scratch: &scratch, source: ["--server".to_owned(), url] };
    asking.refuse(&[], 1, "--token-file FILE");
    asking.refuse(&["--token-file", "other"], 1, "the server wants a token");
    let output = asking.ask(&["--token-file", "tokens", "--services"]);
    assert!(output.status.success(), "{output:?}");
    let told = format!("{:?}", asking.ask(&["--token-file", "other"]));
    assert!(!told.contains("secret"), "{told}");
    server.end();
}
