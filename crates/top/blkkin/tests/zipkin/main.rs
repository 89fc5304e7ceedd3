//! Comparison with Zipkin's own server: Zipkin's server and three servers of ours get the same
//! spans and queries, and must give the same answers. `differ_on_purpose` checks the intended
//! differences.

#[path = "../support/mod.rs"]
mod support;

mod invalid_input;
mod servers;
mod spans;

use blkkin_sys::testing::Random;
use invalid_input::{INVALID_QUERIES, WRONG_SPANS};
use serde_json::Value;
use servers::{JSON, OurServer, ServerSettings, Servers, jar};
use spans::{
    BEGIN_US, GAP_US, LATE, LATE_US, MINUTE_US, ODD_US, REQUESTS, at, generated, ids, odd,
};
use std::collections::BTreeSet;
use support::server::http;
use support::{Scratch, skip};

/// Returns a search query with a random subset of the parameters.
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
    // A window over all generated requests, some of them, or the odd ones.
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
    let how =
        ServerSettings { keys: &["http.method", "volume", "loud"], ..ServerSettings::default() };
    let mut servers = Servers::start(&scratch, jar, &how);
    let mut batches = generated();
    batches.extend(odd());
    servers.send(&batches);
    let ids: BTreeSet<String> = batches.iter().flat_map(ids).collect();

    for id in &ids {
        servers.ask(&format!("/api/v2/trace/{id}"));
    }
    let few: Vec<&str> = ids.iter().map(String::as_str).collect();
    servers.ask(&format!("/api/v2/traceMany?traceIds={}", few[1..15].join(",")));
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
    for _ in 0..400 {
        let asked = search(&mut random);
        servers.ask(&format!("/api/v2/traces?{asked}"));
    }
    servers.ask_around_starts();
    for asked in INVALID_QUERIES {
        servers.ask(&format!("/api/v2/{asked}"));
    }
    servers.ask_who_calls_whom();
    for body in WRONG_SPANS {
        servers.exchange("POST", "/api/v2/spans", JSON, body.as_bytes());
    }
    servers.differ_on_purpose();
    servers.agree();
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
    let how = ServerSettings { short_ids: true, ..ServerSettings::default() };
    let mut servers = Servers::start(&scratch, jar, &how);
    let mut batches = generated();
    batches.extend(odd());
    servers.send(&batches);
    let ids: BTreeSet<String> = batches.iter().flat_map(ids).collect();
    for (number, id) in ids.iter().enumerate() {
        // By both halves of the id, by the lower half, and with another upper half.
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
    for _ in 0..150 {
        let asked = search(&mut random);
        servers.ask(&format!("/api/v2/traces?{asked}"));
    }
    servers.ask(
        "/api/v2/traces?serviceName=halves&limit=5&endTs=1893491200000&lookback=1000000000000",
    );
    servers.ask_who_calls_whom();
    servers.agree();
}

impl Servers {
    /// Compares searches whose windows start or end within 3 ms of an odd request's start.
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

    /// Compares the answers about calls between services. Time windows are whole minutes, the
    /// resolution of our store.
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

    /// Checks intended differences that `docs/server-api.md` describes.
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
            // Zipkin sorts requests by their last spans, our server by their first.
            ("endTs=@10000&lookback=10000&limit=5", &["d1", "d2"][..], &["d2", "d1"][..]),
            ("endTs=@10000&lookback=10000&limit=1", &["d1"], &["d2"]),
            // Zipkin's server uses the first of several root spans that it reads.
            ("endTs=@25000&lookback=10000", &[], &["d3"]),
            ("endTs=@35000&lookback=10000", &["d3"], &[]),
            // Zipkin's server returns more requests than the limit if the lower halves of ids are
            // equal.
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
            for &OurServer { store, web } in &self.ours {
                assert_eq!(found(web, &path), ours, "{path} ({store})");
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
            for &OurServer { store, web } in &self.ours {
                let reply = post(web);
                assert_eq!(reply.status, 400, "{store}");
                assert!(reply.body.starts_with(words), "{store}: {}", reply.body);
            }
        }
    }
}
