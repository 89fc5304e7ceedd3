//! Zipkin's own server and ours are sent the same spans and asked the same questions, and have to say the same. What is
//! different on purpose is asserted by `differ_on_purpose`.

mod support;

use blkkin_store::testing::requests::{Options, Requests};
use blkkin_sys::testing::Random;
use blkkin_wire::{Encoder, Format};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use support::server::{Reply, Server, http, on_free_ports};
use support::{Scratch, blkkin, is_installed, skip};

/// How long a machine that has other things to do takes to start Zipkin's server.
const START: Duration = Duration::from_secs(120);

/// When the first request starts, in microseconds: the 1st of November 2026.
const BEGIN_US: u64 = 1_793_491_200_000_000;

/// From one generated request to the next.
const GAP_US: u64 = 10_000_000;

const REQUESTS: u64 = 400;

/// When the odd requests start, a day after all others, each in a minute of its own.
const ODD_US: u64 = BEGIN_US + 86_400_000_000;

/// When those start that Zipkin's server finds otherwise.
const LATE_US: u64 = ODD_US + 86_400_000_000;

const MINUTE_US: u64 = 60_000_000;

/// Where Maven keeps it; `cargo xtask peers` has Maven fetch it.
fn jar() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let jar = ".m2/repository/io/zipkin/zipkin-server/3.6.1/zipkin-server-3.6.1-exec.jar";
    Some(home.join(jar)).filter(|jar| jar.is_file() && is_installed("java"))
}

/// Zipkin's server, as long as it is wanted.
struct Zipkin {
    child: Child,
    address: SocketAddr,
}

impl Zipkin {
    fn start(jar: PathBuf, settings: &[(&str, &str)]) -> Zipkin {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let mut command = Command::new("java");
        // What starts soon, for so short a life.
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

/// All three servers, and what they did not agree on.
struct Servers {
    zipkin: Zipkin,
    ours: [(&'static str, Server); 2],
    differences: Vec<String>,
    asked: usize,
}

impl Servers {
    fn start(
        scratch: &Scratch,
        jar: PathBuf,
        of_zipkin: &[(&str, &str)],
        of_ours: &[&str],
    ) -> Servers {
        let start = |store: &[&str]| {
            Server::start(on_free_ports(&mut blkkin(&scratch.0)).args(store).args(of_ours))
        };
        let ours = [("memory", start(&["--memory"])), ("lake", start(&["--data", "kept"]))];
        let zipkin = Zipkin::start(jar, of_zipkin);
        Servers { zipkin, ours, differences: Vec::new(), asked: 0 }
    }

    fn ask(&mut self, path: &str) {
        self.exchange("GET", path, "", b"");
    }

    /// All have to give the same answer.
    fn exchange(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        self.asked += 1;
        let ask = |to| plain(http(to, method, path, headers, body).expect("an answer"));
        let expected = ask(self.zipkin.address);
        let is_framework = FRAMEWORK.iter().any(|words| expected.body.starts_with(words));
        for (store, server) in &self.ours {
            let mut found = ask(server.web);
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

    /// Sends batches. Zipkin's server answers before it has stored.
    fn send(&mut self, batches: &[Vec<u8>]) {
        for batch in batches {
            self.exchange("POST", "/api/v2/spans", JSON, batch);
        }
        let start = Instant::now();
        for id in batches.iter().filter_map(|batch| ids(&[batch.clone()]).pop_last()) {
            let path = format!("/api/v2/trace/{id}");
            while http(self.zipkin.address, "GET", &path, "", b"").expect("an answer").status != 200
            {
                assert!(start.elapsed() < START, "{id}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

const JSON: &str = "content-type: application/json\r\n";

/// Words that Zipkin's server has of the framework that it is made of.
const FRAMEWORK: &[&str] =
    &["Mandatory parameter", "Cannot set null to primitive", "For input string", "404 Not Found"];

/// With lists of spans, which have no order, in one; and without the words of others.
fn plain(reply: Reply) -> Reply {
    // Where there is U+2028, Zipkin's server counts more bytes than it writes, and fills up with zeros.
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
            // Spans of a request and links have none; requests, names and annotations do.
            let first = values.first();
            if first.is_some_and(|it| it.get("traceId").or_else(|| it.get("child")).is_some()) {
                values.sort_by_cached_key(Value::to_string);
            }
            // Nor have requests with the same lower half of their ids in Zipkin's store.
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

/// Batches of requests that do not overlap, so that all have the same order.
fn generated() -> Vec<Vec<u8>> {
    let batch = |first: u64| {
        let mut body = Vec::new();
        let mut encoder = Encoder::new(Format::ZipkinJson, &mut body);
        for number in first..first + 50 {
            let start_ns = (BEGIN_US + number * GAP_US) * 1000;
            let (shared, wide) = (number % 3 != 0, number % 2 == 0);
            let options = Options { seed: number, start_ns, shared, wide, ..Options::default() };
            assert!(Requests::new(options).next(&mut encoder).is_continue());
        }
        encoder.finish();
        body
    };
    (0..REQUESTS).step_by(50).map(batch).collect()
}

/// Requests that each show something that is odd: `@3` is so many microseconds after their start.
const ODD: &str = r#"
{"traceId":"000000000000000a00000000000000b6","id":"1","name":"wide","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"halves"}}
{"traceId":"00000000000000b6","id":"2","name":"narrow","timestamp":@50,"duration":100,"localEndpoint":{"serviceName":"halves"}}
{"traceId":"b00000000000000000000000000000b6","id":"3","name":"other","timestamp":@70,"duration":200,"localEndpoint":{"serviceName":"halves"}}

{"traceId":"a1","id":"1","name":"publish","kind":"PRODUCER","timestamp":@0,"duration":10,"localEndpoint":{"serviceName":"Shop"},"remoteEndpoint":{"serviceName":"Kafka"}}
{"traceId":"a1","parentId":"1","id":"2","name":"consume","kind":"CONSUMER","timestamp":@30,"duration":5,"localEndpoint":{"serviceName":"store"},"remoteEndpoint":{"serviceName":"kafka"}}

{"traceId":"a2","id":"1","name":"timeless","localEndpoint":{"serviceName":"store"},"duration":7}
{"traceId":"a2","id":"2","parentId":"1","name":"timeless too","kind":"CLIENT","localEndpoint":{"serviceName":"store"},"remoteEndpoint":{"serviceName":"db"}}

{"traceId":"a3","id":"1","name":"late","localEndpoint":{"serviceName":"store"},"tags":{"of":"root"}}
{"traceId":"a3","id":"2","parentId":"1","name":"early","timestamp":@5,"duration":0,"localEndpoint":{"serviceName":"store"}}
{"traceId":"a3","id":"3","parentId":"1","timestamp":@2,"localEndpoint":{"serviceName":"store"}}
{"traceId":"a3","id":"4","parentId":"1","name":"","timestamp":@900,"duration":1,"localEndpoint":{"serviceName":""}}

{"traceId":"a4","id":"1","name":"LOUD Name","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"LOUD"},"remoteEndpoint":{"serviceName":"Remote LOUD"},"tags":{"Key":"Value","loud":"LOUD"},"annotations":[{"timestamp":@3,"value":"LOUD"},{"timestamp":@1,"value":"quiet"},{"timestamp":@3,"value":"LOUD"}]}

{"traceId":"a5","id":"1","name":"ÄRGER","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"MÜNZE"},"tags":{"größe":"ÜBER \"9\" \\ \n \u0001 \u2028 <b>&amp;</b> \ud83d\ude00"}}

{"traceId":"a7","id":"1","name":"get","kind":"CLIENT","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"a"},"tags":{"error":""}}
{"traceId":"a7","id":"1","shared":true,"name":"get","kind":"SERVER","timestamp":@10,"duration":80,"localEndpoint":{"serviceName":"b"},"tags":{"error":"500"}}
{"traceId":"a7","parentId":"1","id":"2","name":"select","kind":"CLIENT","timestamp":@20,"duration":8,"localEndpoint":{"serviceName":"b"},"remoteEndpoint":{"serviceName":"db"},"tags":{"error":"false"}}
{"traceId":"a7","parentId":"1","id":"3","name":"warn","timestamp":@20,"duration":8,"localEndpoint":{"serviceName":"b"},"annotations":[{"timestamp":@21,"value":"error"}]}

{"traceId":"a8","id":"1","name":"get","kind":"SERVER","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"front"},"remoteEndpoint":{"serviceName":"browser"}}
{"traceId":"a8","parentId":"1","id":"2","name":"send","kind":"PRODUCER","timestamp":@2,"localEndpoint":{"serviceName":"front"},"remoteEndpoint":{"serviceName":"queue"}}
{"traceId":"a8","parentId":"1","id":"3","name":"self","kind":"CLIENT","timestamp":@2,"localEndpoint":{"serviceName":"front"},"remoteEndpoint":{"serviceName":"front"}}
{"traceId":"a8","parentId":"3","id":"4","name":"self","kind":"SERVER","timestamp":@3,"localEndpoint":{"serviceName":"front"}}
{"traceId":"a8","parentId":"4","id":"5","name":"inner","timestamp":@4,"localEndpoint":{"serviceName":"front"}}
{"traceId":"a8","parentId":"5","id":"6","name":"deep","timestamp":@5,"kind":"SERVER","localEndpoint":{"serviceName":"deep"}}
{"traceId":"a8","parentId":"6","id":"7","name":"no kind","timestamp":@5,"localEndpoint":{"serviceName":"deeper"},"remoteEndpoint":{"serviceName":"deepest"}}

{"traceId":"a9","id":"1","name":"twice","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"twice"}}
{"traceId":"a9","id":"1","name":"twice","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"twice"}}
{"traceId":"a9","id":"1","name":"twice","timestamp":@0,"duration":2,"localEndpoint":{"serviceName":"twice"}}

{"traceId":"aa","id":"1","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"ends","ipv4":"127.0.0.1","ipv6":"::1","port":80},"remoteEndpoint":{"ipv4":"1.2.3.4"}}
{"traceId":"aa","id":"2","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"ends","ipv6":"2001:DB8::C001","port":0},"remoteEndpoint":{"port":9}}
{"traceId":"aa","id":"3","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"ipv4":"::ffff:1.2.3.4"},"remoteEndpoint":{"serviceName":"","ipv6":"::ffff:1.2.3.4"}}
{"traceId":"aa","id":"4","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{},"remoteEndpoint":{"serviceName":"ends","ipv4":"no address","port":65535}}
{"traceId":"aa","id":"5","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"ipv6":"2001:0db8:0000:0000:0001:0000:0000:0001"},"remoteEndpoint":{"ipv6":"::1.2.3.4"}}
{"traceId":"aa","id":"6","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"ipv6":"1:0:0:2:0:0:0:3"},"remoteEndpoint":{"ipv6":"fe80::1:0:0:1"}}

{"traceId":"ab","id":"1","shared":true,"debug":true,"kind":"SERVER","name":"flags","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"flags"}}
{"traceId":"ab","id":"2","parentId":"2","shared":false,"debug":false,"kind":"CLIENT","name":"own parent","timestamp":@1,"duration":1,"localEndpoint":{"serviceName":"flags"}}
{"traceId":"ab","id":"3","parentId":"0000000000000000","name":"no parent","timestamp":@1,"localEndpoint":{"serviceName":"flags"}}
{"traceId":"ab","id":"4","parentId":null,"name":"unknown","timestamp":@1,"unknown":{"a":[1,{"b":null}]},"localEndpoint":{"serviceName":"flags","unknown":1},"remoteEndpoint":null,"tags":{},"annotations":[],"kind":null,"duration":null}

{"traceId":"ac","parentId":"99","id":"1","name":"orphan","kind":"SERVER","timestamp":@8,"duration":1,"localEndpoint":{"serviceName":"orphan"},"remoteEndpoint":{"serviceName":"lost"}}
{"traceId":"ac","parentId":"98","id":"2","name":"orphan","kind":"CLIENT","timestamp":@4,"duration":1,"localEndpoint":{"serviceName":"orphan"},"remoteEndpoint":{"serviceName":"found"}}
{"traceId":"ac","parentId":"4","id":"3","name":"circle","kind":"CLIENT","timestamp":@4,"duration":1,"localEndpoint":{"serviceName":"round"}}
{"traceId":"ac","parentId":"3","id":"4","name":"circle","kind":"SERVER","timestamp":@4,"duration":1,"localEndpoint":{"serviceName":"about"}}

{"traceId":"ad","id":"1","name":"root","timestamp":@999,"duration":1,"localEndpoint":{"serviceName":"roots"}}
{"traceId":"ad","id":"2","name":"root","timestamp":@500,"duration":2,"localEndpoint":{"serviceName":"roots"},"tags":{"key":"first"}}
{"traceId":"ad","id":"3","parentId":"1","name":"child","timestamp":@1,"duration":5,"localEndpoint":{"serviceName":"roots"},"tags":{"key":"first","key":"second"}}

{"traceId":"ae","id":"1","name":"zero","timestamp":0,"duration":0,"localEndpoint":{"serviceName":"zero"}}

{"traceId":"af","id":"ffffffffffffffff","name":"all","timestamp":@0,"duration":9223372036854775,"localEndpoint":{"serviceName":"all"},"tags":{"":"empty key","empty value":""},"annotations":[{"timestamp":@7,"value":""}]}
"#;

/// Requests that Zipkin's server finds otherwise.
const LATE: &str = r#"
{"traceId":"d1","id":"1","name":"long","timestamp":@0,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d1","id":"2","parentId":"1","name":"end","timestamp":@5000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d2","id":"1","name":"short","timestamp":@1000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d3","id":"2","name":"root","timestamp":@30000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d3","id":"1","name":"root","timestamp":@20000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"f00000000000000000000000000000d4","id":"1","name":"half","timestamp":@42000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d4","id":"1","name":"half","timestamp":@43000000,"localEndpoint":{"serviceName":"late"}}
"#;

fn odd() -> Vec<Vec<u8>> {
    let start_us = |number: usize| ODD_US + number as u64 * MINUTE_US;
    ODD.split("\n\n").enumerate().map(|(number, spans)| at(start_us(number), spans)).collect()
}

/// A batch of spans, with times put in.
fn at(start_us: u64, spans: &str) -> Vec<u8> {
    let spans = spans.lines().filter(|line| line.starts_with('{')).map(|line| {
        let mut parts = line.split('@');
        let mut span = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let offset: u64 = part[..digits].parse().expect("a number");
            span += &format!("{}{}", start_us + offset, &part[digits..]);
        }
        span
    });
    format!("[{}]", spans.collect::<Vec<_>>().join(",")).into_bytes()
}

/// The requests that spans are of.
fn ids(batches: &[Vec<u8>]) -> BTreeSet<String> {
    let spans = batches.iter().flat_map(|batch| {
        let value: Value = serde_json::from_slice(batch).expect("JSON");
        value.as_array().expect("a list").clone()
    });
    spans.map(|span| span["traceId"].as_str().expect("text").to_owned()).collect()
}

/// What is asked of searches, some of it at a time.
fn search(random: &mut Random) -> String {
    const SERVICES: &[&str] =
        &["guest", "qemu", "composer", "osd.3", "OSD.4", "Loud", "nobody", "store", "b", ""];
    const NAMES: &[&str] =
        &["read", "WRITE", "replicate", "all", "loud+name", "no+such", "", "%C3%84rger"];
    const REMOTE: &[&str] = &["osd.3", "QEMU", "disk", "kafka", "guest", "nobody", ""];
    const ANNOTATIONS: &[&str] = &[
        "error",
        "queued",
        "http.method=GET",
        "http.method",
        "http.method=GET+and+error",
        "error=timeout",
        "volume=volume-0001+and+length=4096",
        "LOUD",
        "loud",
        "key=Value",
        "Key=Value",
        "length=4096+and+queued",
        "http.status_code=200+and+error",
        "error=",
        "",
        "+and+",
        "sent+and+received+and+volume",
    ];
    const MIN: &[&str] = &["1", "300", "1000", "5000", "100000", ""];
    const MAX: &[&str] = &["1", "900", "3000", "1000000", ""];
    const LIMIT: &[&str] = &["1", "3", "10", "50", "1000", "2147483647"];
    let mut asked = Vec::new();
    let mut add = |name: &str, values: &[&str], percent: u64| {
        let chosen = random.chance(percent);
        if chosen {
            asked.push(format!("{name}={}", random.one_of(values)));
        }
        chosen
    };
    add("serviceName", SERVICES, 60);
    add("spanName", NAMES, 35);
    add("remoteServiceName", REMOTE, 25);
    add("annotationQuery", ANNOTATIONS, 35);
    if add("minDuration", MIN, 30) {
        add("maxDuration", MAX, 50);
    }
    add("limit", LIMIT, 70);
    // All of the generated ones, some of them, or the odd ones.
    let end_us = match random.below(4) {
        0 => ODD_US + 100 * MINUTE_US,
        1 => BEGIN_US + random.below(REQUESTS * GAP_US),
        2 => BEGIN_US + random.below(REQUESTS) * GAP_US + GAP_US / 2,
        _ => BEGIN_US + REQUESTS * GAP_US,
    };
    let lookback_ms = match random.below(3) {
        0 => 86_400_000,
        1 => 2001 + random.below(100_000_u64),
        _ => 2001 + GAP_US / 1000 * random.below(REQUESTS),
    };
    asked.push(format!("endTs={}", end_us / 1000));
    asked.push(format!("lookback={lookback_ms}"));
    asked.join("&")
}

#[test]
fn answers_are_those_of_zipkins_server() {
    let Some(jar) = jar() else {
        return skip(
            "answers_are_those_of_zipkins_server",
            "there is no server of Zipkin's, or no java to run it",
        );
    };
    let scratch = Scratch::new("zipkin");
    let mut servers = Servers::start(
        &scratch,
        jar,
        &[("AUTOCOMPLETE_KEYS", "http.method,volume,loud")],
        &[
            "--autocomplete-key",
            "http.method",
            "--autocomplete-key",
            "volume",
            "--autocomplete-key",
            "loud",
        ],
    );
    let mut batches = generated();
    batches.extend(odd());
    servers.send(&batches);
    let ids = ids(&batches);

    for id in &ids {
        servers.ask(&format!("/api/v2/trace/{id}"));
    }
    let few: Vec<&str> = ids.iter().map(String::as_str).collect();
    servers.ask(&format!("/api/v2/traceMany?traceIds={}", few[..20].join(",")));
    servers.ask(&format!("/api/v2/traceMany?traceIds={},ffff,{}", few[7], few[3]));

    servers.ask("/api/v2/services");
    servers.ask("/zipkin/api/v2/services");
    servers.ask("/api/v2/autocompleteKeys");
    for key in ["http.method", "volume", "loud", "error", "nothing", ""] {
        servers.ask(&format!("/api/v2/autocompleteValues?key={key}"));
    }
    let services = http(servers.zipkin.address, "GET", "/api/v2/services", "", b"");
    let services: Vec<String> =
        serde_json::from_str(&services.expect("an answer").body).expect("names");
    for service in services.iter().map(String::as_str).chain(["LOUD", "Osd.1", "nobody", ""]) {
        servers.ask(&format!("/api/v2/spans?serviceName={service}"));
        servers.ask(&format!("/api/v2/remoteServices?serviceName={service}"));
    }
    let mut random = Random::new(1);
    for _ in 0..600 {
        let asked = search(&mut random);
        servers.ask(&format!("/api/v2/traces?{asked}"));
    }
    servers.ask_around_starts();
    for asked in WRONG {
        servers.ask(&format!("/api/v2/{asked}"));
    }
    servers.ask_who_calls_whom();
    for body in WRONG_SPANS {
        servers.exchange("POST", "/api/v2/spans", JSON, body.as_bytes());
    }
    servers.differ_on_purpose();
    servers.agree();
}

/// Bodies that are not what they have to be, or hardly.
const WRONG_SPANS: &[&str] = &[
    "",
    "[]",
    " [ ] ",
    "{}",
    "x",
    "[",
    "[{",
    "[{}]",
    "[1]",
    "[null]",
    "[[]]",
    "null",
    "{\"traceId\":\"c1\",\"id\":\"1\"}",
    r#"[{"traceId":"c1"}]"#,
    r#"[{"id":"1"}]"#,
    r#"[{"traceId":"","id":"1"}]"#,
    r#"[{"traceId":"c1","id":""}]"#,
    r#"[{"traceId":"0","id":"1"}]"#,
    r#"[{"traceId":"C1","id":"1"}]"#,
    r#"[{"traceId":"c1","id":"G"}]"#,
    r#"[{"traceId":"c1","id":"12345678901234567"}]"#,
    r#"[{"traceId":"123456789012345678901234567890123","id":"1"}]"#,
    r#"[{"traceId":"c1","id":"1","parentId":""}]"#,
    r#"[{"traceId":"c1","id":"1","parentId":"x"}]"#,
    r#"[{"traceId":1,"id":"1"}]"#,
    r#"[{"traceId":"c1","id":"1","kind":"client"}]"#,
    r#"[{"traceId":"c1","id":"1","kind":"NOBODY"}]"#,
    r#"[{"traceId":"c1","id":"1","kind":1}]"#,
    r#"[{"traceId":"c1","id":"1","timestamp":"x"}]"#,
    r#"[{"traceId":"c1","id":"1","timestamp":-1}]"#,
    r#"[{"traceId":"c1","id":"1","timestamp":1.5}]"#,
    r#"[{"traceId":"c1","id":"1","duration":-1}]"#,
    r#"[{"traceId":"c1","id":"1","duration":"5"}]"#,
    r#"[{"traceId":"c1","id":"1","name":5}]"#,
    r#"[{"traceId":"c1","id":"1","name":null}]"#,
    r#"[{"traceId":"c1","id":"1","shared":"true"}]"#,
    r#"[{"traceId":"c1","id":"1","debug":1}]"#,
    r#"[{"traceId":"c1","id":"1","localEndpoint":[]}]"#,
    r#"[{"traceId":"c1","id":"1","localEndpoint":{"port":65536}}]"#,
    r#"[{"traceId":"c1","id":"1","localEndpoint":{"port":-1}}]"#,
    r#"[{"traceId":"c1","id":"1","localEndpoint":{"port":"80"}}]"#,
    r#"[{"traceId":"c1","id":"1","localEndpoint":{"serviceName":5}}]"#,
    r#"[{"traceId":"c1","id":"1","tags":{"a":1}}]"#,
    r#"[{"traceId":"c1","id":"1","tags":{"a":null}}]"#,
    r#"[{"traceId":"c1","id":"1","tags":[]}]"#,
    r#"[{"traceId":"c1","id":"1","annotations":{}}]"#,
    r#"[{"traceId":"c1","id":"1","annotations":[{}]}]"#,
    r#"[{"traceId":"c1","id":"1","annotations":[{"timestamp":1}]}]"#,
    r#"[{"traceId":"c1","id":"1","annotations":[{"value":"x"}]}]"#,
    r#"[{"traceId":"c1","id":"1","annotations":[{"timestamp":"x","value":"x"}]}]"#,
    r#"[{"traceId":"c1","id":"1","binaryAnnotations":[]}]"#,
    r#"[{"traceId":"c1","id":"1"},{"traceId":"c1"}]"#,
    r#"[{"traceId":"c1","id":"1"}"#,
    r#"[{"traceId":"c1","id":"1"}]]"#,
    r#"[{"traceId":"c1","id":"1"}] x"#,
    r#"[{"traceId":"c1","id":"1",}]"#,
    r#"[{"traceId":"c1","id":"1"},]"#,
    r#"[{"traceId":"c1","id":"1","name":"\q"}]"#,
    r#"[{"traceId":"c1","id":"1","name":"\u12"}]"#,
    "[{\"traceId\":\"c1\",\"id\":\"1\",\"name\":\"a\nb\"}]",
];

const WRONG: &[&str] = &[
    "services/x",
    "spans",
    "spans?service=a",
    "remoteServices",
    "autocompleteValues",
    "autocompleteValues?key=",
    "nothing",
    "",
    "trace",
    "trace/",
    "trace/0",
    "trace/00000000000000000000000000000000",
    "trace/123456789abcdef0123456789abcdef01",
    "trace/xyz",
    "trace/ABC",
    "trace/0xab",
    "trace/-1",
    "trace/+1",
    "trace/%20a1%20",
    "trace/%20",
    "trace/a1/b",
    "trace/fedcba",
    "traceMany",
    "traceMany?traceIds=",
    "traceMany?traceIds=a1",
    "traceMany?traceIds=a1,a1",
    "traceMany?traceIds=a1,00000000000000a1",
    "traceMany?traceIds=a1,",
    "traceMany?traceIds=,a1",
    "traceMany?traceIds=a1,,a2",
    "traceMany?traceIds=a1,xyz",
    "traceMany?traceIds=a1,%20a2",
    "traceMany?traceIds=a1&traceIds=a2",
    "dependencies",
    "dependencies?endTs=",
    "dependencies?endTs=0",
    "dependencies?endTs=-1",
    "dependencies?endTs=x",
    "dependencies?endTs=1793491300000&lookback=0",
    "dependencies?endTs=1793491300000&lookback=-5",
    "dependencies?endTs=1793491259999&lookback=",
    "dependencies?endTs=1793491300000&lookback=x",
    "traces?limit=0",
    "traces?limit=-1",
    "traces?limit=",
    "traces?limit=x",
    "traces?limit=1.5",
    "traces?limit=2147483648",
    "traces?limit=+5&endTs=1",
    "traces?endTs=0",
    "traces?endTs=-1",
    "traces?endTs=x",
    "traces?endTs=9223372036854775808",
    "traces?lookback=0",
    "traces?lookback=-1",
    "traces?lookback=x",
    "traces?endTs=1&lookback=9223372036854775807",
    "traces?endTs=1&minDuration=0",
    "traces?endTs=1&minDuration=-1",
    "traces?endTs=1&minDuration=x",
    "traces?endTs=1&maxDuration=5",
    "traces?endTs=1&maxDuration=x",
    "traces?endTs=1&minDuration=5&maxDuration=4",
    "traces?endTs=1&minDuration=5&maxDuration=0",
    "traces?endTs=1&minDuration=0&maxDuration=-1",
    "traces?endTs=1&limit=0&lookback=0",
    "traces?endTs=0&limit=0&lookback=0",
    "traces?endTs=1&limit=1&lookback=0&minDuration=0",
    "traces?endTs=1&minDuration=0&maxDuration=x",
    "traces?endTs=1&unknown=1",
    "traces?endTs=1&limit=1&limit=0",
    "traces?endTs=&lookback=&minDuration=&maxDuration=&limit=1&serviceName=nobody",
];

impl Servers {
    /// What is in a window, to the millisecond.
    fn ask_around_starts(&mut self) {
        for number in 0..odd().len() as u64 {
            let start_ms = (ODD_US + number * MINUTE_US) / 1000;
            for (end_ms, lookback_ms) in [
                (start_ms - 1, 500),
                (start_ms, 500),
                (start_ms + 1, 500),
                (start_ms + 1, 1),
                (start_ms + 3, 1),
            ] {
                self.ask(&format!("/api/v2/traces?endTs={end_ms}&lookback={lookback_ms}"));
            }
        }
    }

    /// Of whole minutes, as the lake has no others.
    fn ask_who_calls_whom(&mut self) {
        for (begin_us, minutes) in [
            (ODD_US, 100),
            (BEGIN_US, 1),
            (BEGIN_US + 7 * MINUTE_US, 3),
            (BEGIN_US, 24 * 60),
            (BEGIN_US, 48 * 60),
            (BEGIN_US - MINUTE_US, 1),
        ] {
            self.ask_links(begin_us, minutes);
        }
        for number in 0..odd().len() as u64 {
            self.ask_links(ODD_US + number * MINUTE_US, 1);
        }
    }

    fn ask_links(&mut self, begin_us: u64, minutes: u64) {
        let lookback_ms = minutes * MINUTE_US / 1000 - 1;
        let end_ms = begin_us / 1000 + lookback_ms;
        self.ask(&format!("/api/v2/dependencies?endTs={end_ms}&lookback={lookback_ms}"));
    }

    /// What `docs/server-api.md` says that it differs.
    fn differ_on_purpose(&mut self) {
        let found = |to, path: &str| {
            let reply = http(to, "GET", path, "", b"").expect("an answer");
            let requests: Value = serde_json::from_str(&reply.body).expect("requests");
            let requests = requests.as_array().expect("a list").iter();
            let id = |request: &Value| request[0]["traceId"].as_str().expect("text").to_owned();
            requests.map(id).map(|id| id.trim_start_matches('0').to_owned()).collect::<Vec<_>>()
        };
        self.send(&[at(LATE_US, LATE)]);
        for (asked, theirs, ours) in [
            // Zipkin's order is that of the last spans, ours that of the first.
            ("endTs=@10000&lookback=10000&limit=5", &["d1", "d2"][..], &["d2", "d1"][..]),
            ("endTs=@10000&lookback=10000&limit=1", &["d1"], &["d2"]),
            // Of several roots Zipkin takes the one it meets first.
            ("endTs=@25000&lookback=10000", &[], &["d3"]),
            ("endTs=@35000&lookback=10000", &["d3"], &[]),
            // Where halves of ids are the same, Zipkin tells more than it was asked for.
            (
                "endTs=@45000&lookback=5000&limit=1",
                &["f00000000000000000000000000000d4", "d4"],
                &["d4"],
            ),
        ] {
            let (_, rest) = asked.split_once('@').expect("an end");
            let (end_ms, rest) = rest.split_once('&').expect("more");
            let end_ms = LATE_US / 1000 + end_ms.parse::<u64>().expect("a number");
            let path = format!("/api/v2/traces?endTs={end_ms}&{rest}");
            let mut zipkins = found(self.zipkin.address, &path);
            zipkins.sort_by_key(|id| theirs.iter().position(|other| other == id));
            assert_eq!(zipkins, theirs, "{path}");
            for (store, server) in &self.ours {
                assert_eq!(found(server.web, &path), ours, "{path} ({store})");
            }
        }
        for (body, words) in [
            (r#"[{"traceId":"c1","id":"0"}]"#, "id is all zeros"),
            (
                r#"[{"traceId":"c1","id":"1","timestamp":18446744073709552}]"#,
                "timestamp is out of range",
            ),
        ] {
            let post =
                |to| http(to, "POST", "/api/v2/spans", JSON, body.as_bytes()).expect("an answer");
            assert_eq!(post(self.zipkin.address).status, 202, "{body}");
            for (store, server) in &self.ours {
                let reply = post(server.web);
                assert_eq!(reply.status, 400, "{store}");
                assert!(reply.body.starts_with(words), "{store}: {}", reply.body);
            }
        }
    }

    #[track_caller]
    fn agree(self) {
        let count = self.differences.len();
        assert_eq!(count, 0, "of {} answers:\n{}", self.asked, self.differences.join("\n"));
    }
}

#[test]
fn short_ids_are_those_of_zipkins_server() {
    let Some(jar) = jar() else {
        return skip(
            "short_ids_are_those_of_zipkins_server",
            "there is no server of Zipkin's, or no java to run it",
        );
    };
    let scratch = Scratch::new("zipkin-short");
    let settings = [("STRICT_TRACE_ID", "false")];
    let mut servers = Servers::start(&scratch, jar, &settings, &["--short-trace-ids"]);
    let mut batches = generated();
    batches.extend(odd());
    servers.send(&batches);
    let ids = ids(&batches);
    for (number, id) in ids.iter().enumerate() {
        // By both halves, by the lower one, and with another upper one.
        let low = &id[id.len().saturating_sub(16)..];
        match number % 3 {
            0 => servers.ask(&format!("/api/v2/trace/{id}")),
            1 => servers.ask(&format!("/api/v2/trace/{low}")),
            _ => servers.ask(&format!("/api/v2/trace/{low:0>16}").replace("trace/", "trace/7")),
        }
    }
    servers.ask("/api/v2/traceMany?traceIds=b6,a1");
    servers.ask("/api/v2/traceMany?traceIds=b00000000000000000000000000000b6,a1");
    let mut random = Random::new(2);
    for _ in 0..200 {
        let asked = search(&mut random);
        servers.ask(&format!("/api/v2/traces?{asked}"));
    }
    servers.ask(
        "/api/v2/traces?serviceName=halves&limit=5&endTs=1893491200000&lookback=1000000000000",
    );
    servers.ask_who_calls_whom();
    servers.agree();
}
