//! Tests of BlkKin's own API, which `docs/server-api.md` describes.

use crate::support::{TestServer, start};
use serde_json::{Value, json};

/// Starts a server with three requests from two services. One span has an error.
fn filled() -> TestServer {
    let tested = start();
    tested.post_spans(
        r#"[{"traceId":"a","id":"a","kind":"SERVER","name":"Read","timestamp":1000000,"duration":3000,"localEndpoint":{"serviceName":"osd"},"tags":{"pool":"rbd"}},
            {"traceId":"a","id":"b","parentId":"a","kind":"CLIENT","name":"sub","timestamp":1000100,"duration":2000,"localEndpoint":{"serviceName":"osd"},"remoteEndpoint":{"serviceName":"disk"},"tags":{"error":"EIO"}},
            {"traceId":"c","id":"c","name":"write","timestamp":2000000,"duration":9000,"localEndpoint":{"serviceName":"rgw","ipv4":"10.0.0.1","port":80},"annotations":[{"timestamp":2000001,"value":"begun"}]},
            {"traceId":"e","id":"e","name":"write","timestamp":3000000,"duration":100,"localEndpoint":{"serviceName":"rgw"}}]"#,
    );
    tested
}

fn get(tested: &TestServer, path: &str) -> Value {
    let reply = tested.get(&format!("/api/blkkin/v1/{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    assert_eq!(reply.header("content-type"), "application/json; charset=utf-8");
    reply.json()
}

/// Returns the last hexadecimal digit of each trace id on a page, in order.
fn ids(page: &Value) -> String {
    let requests = page["requests"].as_array().expect("a list");
    let id = |request: &Value| request["traceId"].as_str().and_then(|id| id.chars().last());
    requests.iter().filter_map(id).collect()
}

#[test]
fn requests_are_summed_up() {
    let tested = filled();
    let page = get(&tested, "search");
    assert_eq!(ids(&page), "eca");
    assert_eq!(
        page["requests"][2],
        json!({
            "traceId": "000000000000000a",
            "startNs": "1000000000",
            "durationNs": 3_000_000,
            "extentNs": 3_000_000,
            "service": "osd",
            "name": "Read",
            "spans": 2,
            "errors": 1,
            "services": [{ "service": "osd", "spans": 2, "errors": 1 }],
        })
    );
    assert_eq!(page.get("next"), None);
}

#[test]
fn requests_are_searched() {
    let tested = filled();
    let check = |query: &str, expected: &str| {
        assert_eq!(ids(&get(&tested, &format!("search?{query}"))), expected, "{query}");
    };
    check("order=newest", "eca");
    check("order=slowest", "cae");
    check("limit=2", "ec");
    check("startNs=2000000000", "ec");
    check("startNs=1000000000&endNs=2000000000", "ca");
    check("filter=service+%3D%3D+%22osd%22", "a");
    check("filter=duration+%3E%3D+1ms", "ca");
    check("filter=error", "a");
    check("filter=name+%3D%3D+%22wri*%22+%26%26+duration+%3C+1ms", "e");
    check("filter=tag.pool+%3D%3D+%22rbd%22", "a");
    check("filter=!has(tag.pool)&order=slowest", "cae");
    // The condition applies to the whole request, not to a single span.
    check("filter=trace.duration+%3E%3D+3ms+%26%26+name+%3D%3D+%22sub%22", "a");
    check("filter=trace.duration+%3C+9ms", "ea");
    check("filter=trace.duration+%3E+9ms", "");
    check("filter=any+%3D%3D+%22RB*%22", "a");
}

#[test]
fn pages_follow_each_other() {
    let tested = filled();
    for order in ["newest", "slowest"] {
        let all = ids(&get(&tested, &format!("search?order={order}")));
        let mut found = String::new();
        let mut after = String::new();
        loop {
            let page = get(&tested, &format!("search?order={order}&limit=1&after={after}"));
            found += &ids(&page);
            match page["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(found, all, "{order}");
        let other = if order == "newest" { "slowest" } else { "newest" };
        let reply = tested.get(&format!("/api/blkkin/v1/search?order={other}&after={after}"));
        assert_eq!(reply.status, 400, "{after}");
    }
}

#[test]
fn latencies_are_told() {
    let tested = filled();
    let latency = get(&tested, "latency");
    assert_eq!(latency["spans"], 4);
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().expect("a number");
        assert!((value / expected - 1.0).abs() < 0.02, "{value} instead of {expected}");
    };
    near(&latency["percentilesNs"]["50"], 2e6);
    near(&latency["percentilesNs"]["100"], 9e6);
    let histogram = latency["histogram"].as_array().expect("a list");
    assert_eq!(histogram.iter().filter_map(|bar| bar["spans"].as_u64()).sum::<u64>(), 4);
    let bar = &histogram[3];
    let (least, greatest) = (bar["leastNs"].as_u64(), bar["greatestNs"].as_u64());
    assert!(least <= Some(9_000_000) && greatest >= Some(9_000_000), "{bar}");
    let examples = latency["examples"].as_array().expect("a list");
    let slowest =
        json!({ "traceId": "000000000000000c", "id": "000000000000000c", "durationNs": 9_000_000 });
    assert_eq!(examples.last(), Some(&slowest));
    assert_eq!(get(&tested, "latency?filter=service+%3D%3D+%22osd%22")["spans"], 2);
    assert_eq!(get(&tested, "latency?startNs=2500000000")["spans"], 1);
    assert_eq!(get(&tested, "latency?filter=service+%3D%3D+%22x%22")["percentilesNs"], json!({}));
}

#[test]
fn latencies_are_told_of_each_service_and_name() {
    let tested = filled();
    let all = get(&tested, "latencies");
    assert_eq!(all["leftOut"], 0);
    let all = all["latencies"].as_array().expect("a list");
    let of =
        |one: &Value| [&one["service"], &one["name"]].map(|text| text.as_str().map(str::to_owned));
    assert!(all.is_sorted_by_key(of), "{all:?}");
    assert_eq!(all.iter().filter_map(|one| one["spans"].as_u64()).sum::<u64>(), 4);
    for one in all {
        let [service, name] = of(one).map(|text| text.expect("text"));
        let filter = format!("service+%3D%3D+%22{service}%22+%26%26+name+%3D%3D+%22{name}%22");
        let alone = get(&tested, &format!("latency?filter={filter}"));
        assert_eq!(
            (&alone["spans"], &alone["percentilesNs"]),
            (&one["spans"], &one["percentilesNs"])
        );
    }
    let some = get(&tested, "latencies?limit=1&startNs=1");
    assert_eq!(
        (some["latencies"].as_array().map(Vec::len), &some["leftOut"]),
        (Some(1), &json!(all.len() - 1))
    );
    let filtered = get(&tested, "latencies?filter=service+%3D%3D+%22osd%22");
    assert_eq!(
        filtered["latencies"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|one| one["spans"].as_u64())
            .sum::<u64>(),
        2
    );
}

#[test]
fn links_are_told() {
    let tested = filled();
    let links = get(&tested, "links");
    assert_eq!((&links["startNs"], &links["endNs"]), (&json!("1000000000"), &json!("3000000000")));
    let asked = get(&tested, "links?startNs=7&endNs=2000000000");
    assert_eq!((&asked["startNs"], &asked["endNs"]), (&json!("7"), &json!("2000000000")));
    let link = &links["links"][0];
    assert_eq!(
        (&link["parent"], &link["child"], &link["calls"], &link["errors"]),
        (&json!("osd"), &json!("disk"), &json!(1), &json!(1))
    );
    assert!(link["percentilesNs"]["50"].is_u64(), "{link}");
    assert!(link["percentilesNs"]["99"].is_u64(), "{link}");
}

#[test]
fn heat_is_told_in_cells() {
    let tested = filled();
    let bar = |least: u64, greatest: u64| json!({ "leastNs": least, "greatestNs": greatest });
    let heat = get(&tested, "heatmap?columns=2&filter=service+%3D%3D+%22osd%22");
    assert_eq!(
        heat,
        json!({
            "startNs": "1000000000",
            "endNs": "3000000000",
            "columnNs": 1_000_000_001,
            "columns": 2,
            "spans": 2,
            "rows": [bar(1_763_488, 2_097_151), bar(2_097_152, 2_493_948), bar(2_493_949, 2_965_820),
                bar(2_965_821, 3_526_975)],
            "cells": [[0, 0, 1], [0, 3, 1]],
        })
    );
    let check = |query: &str, expected: Value| {
        let heat = get(&tested, &format!("heatmap?{query}"));
        let told = json!([heat["startNs"], heat["endNs"], heat["columns"], heat["spans"]]);
        assert_eq!(told, expected, "{query}");
    };
    check("", json!(["1000000000", "3000000000", 120, 4]));
    // The start of each span counts, not the start of its request.
    check("startNs=1000050000", json!(["1000050000", "3000000000", 120, 3]));
    check("endNs=1000050000", json!(["1000000000", "1000050000", 120, 1]));
    check("startNs=9000000000", json!(["9000000000", "9000000000", 120, 0]));
    check("endNs=9", json!(["9", "9", 120, 0]));
    check(
        "columns=7&startNs=0&endNs=18446744073709551615",
        json!(["0", "18446744073709551615", 7, 4]),
    );
    let empty = get(&start(), "heatmap");
    assert_eq!(
        (&empty["spans"], &empty["rows"], &empty["cells"]),
        (&json!(0), &json!([]), &json!([]))
    );
}

#[test]
fn differences_are_told() {
    let tested = filled();
    let check = |query: &str, inside: u64, outside: u64, expected: &[(&str, u64, u64)]| {
        let difference = get(&tested, &format!("difference?{query}"));
        assert_eq!(
            (&difference["inside"], &difference["outside"]),
            (&json!(inside), &json!(outside))
        );
        let values = difference["values"].as_array().expect("a list").iter().map(|it| {
            let text = format!(
                "{}={}",
                it["key"].as_str().expect("text"),
                it["value"].as_str().expect("text")
            );
            (
                text,
                it["inside"].as_u64().expect("a number"),
                it["outside"].as_u64().expect("a number"),
            )
        });
        let expected: Vec<(String, u64, u64)> = expected
            .iter()
            .map(|&(text, inside, outside)| (text.to_owned(), inside, outside))
            .collect();
        assert_eq!(values.collect::<Vec<_>>(), expected, "{query}");
    };
    check(
        "boxStartNs=2000000000&boxLeastNs=1000000&limit=2",
        1,
        3,
        &[("service=rgw", 1, 1), ("name=write", 1, 1)],
    );
    check(
        "boxEndNs=1000500000&filter=service+%3D%3D+%22osd%22&boxGreatestNs=2500000",
        1,
        1,
        &[
            ("name=sub", 1, 0),
            ("kind=client", 1, 0),
            ("status=error", 1, 0),
            ("error=EIO", 1, 0),
            ("name=Read", 0, 1),
            ("kind=server", 0, 1),
            ("pool=rbd", 0, 1),
        ],
    );
    check("boxStartNs=5000000000", 0, 4, &[]);
    check("startNs=2500000000&boxStartNs=1", 1, 0, &[("service=rgw", 1, 0), ("name=write", 1, 0)]);
}

#[test]
fn differences_of_own_time_are_told() {
    let tested = filled();
    let none = get(&tested, "difference?boxLeastNs=1000000");
    let unknown = json!({
        "inside": 0, "outside": 0, "unknownInside": 3, "unknownOutside": 1, "times": [], "leftOut": 0,
    });
    assert_eq!(none["ownTime"], unknown);
    tested.post_spans(
        r#"[{"traceId":"f1","id":"1","name":"write","timestamp":4000000,"duration":9000,"localEndpoint":{"serviceName":"osd"},
             "tags":{"blkkin.own.disk":"8000001","blkkin.own.running":"300000","blkkin.disk.vda.served":"7000000","blkkin.own.bands":"disk 0 8000001 vda"}},
            {"traceId":"f2","id":"2","name":"write","timestamp":4000000,"duration":5000,"localEndpoint":{"serviceName":"osd"},
             "tags":{"blkkin.own.disk":"soon","blkkin.own.running":"100000"}},
            {"traceId":"f3","id":"3","name":"write","timestamp":4000000,"duration":100,"localEndpoint":{"serviceName":"osd"},
             "tags":{"blkkin.own.lock":"900000","pool":"rbd"}}]"#,
    );
    let difference = get(&tested, "difference?boxLeastNs=1000000&limit=1");
    let time = |key: &str, inside: i64, outside: i64| {
        json!({
            "key": key, "insideNs": inside, "outsideNs": outside, "differenceNs": inside - outside,
        })
    };
    let expected = json!({
        "inside": 2,
        "outside": 1,
        "unknownInside": 3,
        "unknownOutside": 1,
        "times": [
            time("blkkin.own.disk", 4_000_001, 0),
            time("blkkin.disk.vda.served", 3_500_000, 0),
            time("blkkin.own.lock", 0, 900_000),
            time("blkkin.own.running", 200_000, 0),
        ],
        "leftOut": 0,
    });
    assert_eq!(difference["ownTime"], expected);
    let all = get(&tested, "difference?boxLeastNs=1000000");
    let values = all["values"].as_array().expect("a list");
    let keys: Vec<&str> = values.iter().filter_map(|value| value["key"].as_str()).collect();
    assert!(
        keys.contains(&"pool") && !keys.iter().any(|key| key.starts_with("blkkin.")),
        "{keys:?}"
    );
}

#[test]
fn requests_are_outlined() {
    let tested = filled();
    let outline = get(&tested, "outline/a");
    assert_eq!(
        outline,
        json!({
            "traceId": "000000000000000a",
            "startNs": "1000000000",
            "durationNs": 3_000_000,
            "spans": 2,
            "shown": 2,
            "strings": ["osd", "Read", "sub"],
            "ids": ["000000000000000a", "000000000000000b"],
            "parents": [-1, 0],
            "starts": [0, 100_000],
            "durations": [3_000_000, 2_000_000],
            "services": [0, 0],
            "names": [1, 2],
            "kinds": [2, 1],
            "errors": [0, 1],
            "annotations": { "rows": [], "times": [], "values": [], "more": 0 },
        })
    );
    let outline = get(&tested, "outline/a?limit=1");
    assert_eq!((&outline["spans"], &outline["shown"]), (&json!(2), &json!(1)));
    let outline = get(&tested, "outline/c");
    assert_eq!(
        outline["annotations"],
        json!({ "rows": [0], "times": [1000], "values": [2], "more": 0 })
    );
    let reply = tested.get("/api/blkkin/v1/outline/f");
    assert_eq!((reply.status, reply.text()), (404, "000000000000000f not found".to_owned()));
}

#[test]
fn spans_of_a_request_are_found() {
    let tested = filled();
    let check = |query: &str, expected: Value| {
        let found = get(&tested, &format!("find/a?filter={query}"));
        assert_eq!(found, json!({ "traceId": "000000000000000a", "ids": expected }), "{query}");
    };
    check("any+%3D%3D+%22*RBD*%22", json!(["000000000000000a"]));
    check("error", json!(["000000000000000b"]));
    check("service+%3D%3D+%22osd%22", json!(["000000000000000a", "000000000000000b"]));
    check("service+%3D%3D+%22none%22", json!([]));
    let reply = tested.get("/api/blkkin/v1/find/f");
    assert_eq!((reply.status, reply.text()), (404, "000000000000000f not found".to_owned()));
}

#[test]
fn single_spans_are_told() {
    let tested = filled();
    let all = get(&tested, "trace/a");
    for (at, id) in ["a", "b"].into_iter().enumerate() {
        let trace = get(&tested, &format!("trace/a?span={id}"));
        assert_eq!(trace, json!({ "traceId": "000000000000000a", "spans": [all["spans"][at]] }));
    }
    let reply = tested.get("/api/blkkin/v1/trace/a?span=c");
    let expected = "span 000000000000000c of 000000000000000a not found";
    assert_eq!((reply.status, reply.text().as_str()), (404, expected));
}

#[test]
fn words_are_completed() {
    let tested = filled();
    let check = |query: &str, expected: Value| {
        assert_eq!(get(&tested, &format!("fields?{query}"))["values"], expected, "{query}");
    };
    check("of=services", json!(["osd", "rgw"]));
    check("of=services&prefix=R", json!(["rgw"]));
    check("of=services&limit=1", json!(["osd"]));
    check("of=names&service=osd", json!(["Read", "sub"]));
    check("of=remoteServices&service=osd", json!(["disk"]));
    check("of=keys", json!([{ "key": "error", "spans": 1 }, { "key": "pool", "spans": 1 }]));
    check("of=keys&prefix=p", json!([{ "key": "pool", "spans": 1 }]));
    check("of=values&key=pool", json!(["rbd"]));
}

#[test]
fn all_that_is_known_of_a_request_is_told() {
    let trace = get(&filled(), "trace/c");
    assert_eq!(
        trace,
        json!({
            "traceId": "000000000000000c",
            "spans": [{
                "traceId": "000000000000000c",
                "id": "000000000000000c",
                "isError": false,
                "name": "write",
                "startNs": "2000000000",
                "durationNs": 9_000_000,
                "local": { "service": "rgw", "ipv4": "10.0.0.1", "port": 80 },
                "annotations": [{ "timeNs": "2000001000", "value": "begun" }],
                "tags": [],
            }],
        })
    );
}

#[test]
fn types_of_tags_are_kept() {
    let tested = start();
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": [{ "key": "host", "value": { "stringValue": "n1" } }] },
        "scopeSpans": [{ "spans": [{
            "traceId": "0000000000000000000000000000000a", "spanId": "000000000000000a", "name": "x",
            "status": { "code": 2 },
            "attributes": [
                { "key": "a", "value": { "intValue": "7" } },
                { "key": "b", "value": { "intValue": "9223372036854775807" } },
                { "key": "c", "value": { "boolValue": true } },
                { "key": "d", "value": { "doubleValue": 0.5 } },
                { "key": "e", "value": { "bytesValue": "AAH/" } },
                { "key": "f", "value": { "doubleValue": "NaN" } },
            ],
        }] }],
    }] });
    let reply = tested.post("/v1/traces", "application/json", body.to_string().as_bytes());
    assert_eq!(reply.status, 200);
    let span = &get(&tested, "trace/a")["spans"][0];
    assert_eq!((&span["status"], &span["isError"]), (&json!("error"), &json!(true)));
    let tag = |key: &str| {
        let tags = span["tags"].as_array().expect("a list");
        let tag = tags.iter().find(|tag| tag["key"] == key).expect("the tag");
        format!("{} {} {}", tag["value"], tag["type"], tag["origin"])
    };
    assert_eq!(tag("a"), r#"7 "int" "span""#);
    assert_eq!(tag("b"), r#""9223372036854775807" "int" "span""#);
    assert_eq!(tag("c"), r#"true "bool" "span""#);
    assert_eq!(tag("d"), r#"0.5 "double" "span""#);
    assert_eq!(tag("e"), r#""AAH/" "bytes" "span""#);
    assert_eq!(tag("f"), r#""NaN" "double" "span""#);
    assert_eq!(tag("host"), r#""n1" "string" "resource""#);
}

#[test]
fn numbers_of_the_server_are_told() {
    let tested = filled();
    let counters = get(&tested, "counters");
    assert_eq!(counters["collector"]["http"]["spans"], 4);
    assert_eq!(counters["store"]["kept"], 4);
    assert_eq!(
        (&counters["store"]["damaged"], &counters["store"]["damages"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(counters["server"]["requestsDeniedHost"], 0);
    assert_eq!(counters["isDurable"], false, "its store is in memory");
    let status = get(&tested, "status");
    assert_eq!((&status["tls"], &status["tokens"]), (&json!(false), &json!(false)));
}

/// Counters of dropped data come with the times of the first and last drop, unless they are 0. In
/// JSON the list `drops` also names the component; Prometheus's format has a metric for each time.
#[test]
fn drops_are_told_with_their_times() {
    let tested = filled();
    assert_eq!(get(&tested, "counters")["drops"], json!([]));
    let text = tested.get("/metrics").text();
    let dated = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter(|line| line.contains("_timestamp_seconds")).map(str::to_owned).collect()
    };
    assert!(dated(&text).is_empty(), "{text}");

    let began = blkkin_store::time_of_day_ns();
    let bad = tested.post("/api/v2/spans", "application/json", br#"[{"traceId":"nothing"}]"#);
    assert_eq!(bad.status, 400);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let later = blkkin_store::time_of_day_ns();
    let bad = tested.post("/api/v2/spans", "application/json", br#"[{"traceId":"nothing"}]"#);
    assert_eq!(bad.status, 400);
    let ended = blkkin_store::time_of_day_ns();

    let answer = get(&tested, "counters");
    let drops = answer["drops"].as_array().expect("a list");
    let find = |place: &str, what: &str| {
        let found = drops.iter().find(|drop| drop["place"] == place && drop["what"] == what);
        found.unwrap_or_else(|| panic!("no {what} of {place} in {answer:#}"))
    };
    for (place, what, count) in [
        ("collector.http", "messagesDropped", &answer["collector"]["http"]["messagesDropped"]),
        ("collector.http", "spansDropped", &answer["collector"]["http"]["spansDropped"]),
        ("store", "spansRefused", &answer["store"]["refused"]),
    ] {
        let drop = find(place, what);
        assert_eq!((&drop["count"], drop["count"].as_u64() > Some(1)), (count, true), "{drop}");
        let time = |name: &str| drop[name].as_str().expect("a time").parse::<u64>();
        let (first, last) = (time("firstNs").expect("a time"), time("lastNs").expect("a time"));
        assert!((began..later).contains(&first), "{began} {drop} {later}");
        assert!((later..=ended).contains(&last), "{later} {drop} {ended}");
    }
    assert!(drops.iter().all(|drop| drop["count"].as_u64() > Some(0)), "{answer:#}");
    let text = tested.get("/metrics").text();
    for name in [
        "zipkin_collector_spans_dropped_first_timestamp_seconds{transport=\"http\"}",
        "zipkin_collector_spans_dropped_last_timestamp_seconds{transport=\"http\"}",
        "blkkin_store_spans_refused_last_timestamp_seconds",
    ] {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let seconds: f64 = line.expect(name).parse().expect("a number");
        assert!((began as f64 - 1e6..=ended as f64 + 1e6).contains(&(seconds * 1e9)), "{text}");
    }
    assert!(dated(&text).iter().all(|line| !line.contains("spans_expired")), "{text}");
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let tested = filled();
    for (path, expected) in [
        ("search?order=best", "order is neither newest nor slowest: best"),
        ("search?limit=0", "limit is not between 1 and 1000: 0"),
        ("search?limit=1001", "limit is not between 1 and 1000: 1001"),
        ("search?limit=x", "limit is not a whole number: x"),
        ("search?after=x", "after is not the next of an answer in the same order"),
        ("search?after=n0.0", "after is not the next of an answer in the same order"),
        ("search?startNs=2&endNs=1", "startNs is after endNs"),
        ("latency?startNs=-1", "startNs is not a whole number: -1"),
        ("latencies?limit=1001", "limit is not between 1 and 1000: 1001"),
        ("fields", "parameter of is missing"),
        ("fields?of=x", "of is none of services, names, remoteServices, keys, values: x"),
        ("fields?of=names", "parameter service is missing"),
        ("trace/x", "x should be lower-hex encoded with no prefix"),
        ("trace/a?span=x", "span is not an id, 1 to 16 of 0-9a-f: x"),
        ("trace/a?span=0", "span is not an id, 1 to 16 of 0-9a-f: 0"),
        ("trace/a?span=+1", "span is not an id, 1 to 16 of 0-9a-f:  1"),
        ("outline/x", "x should be lower-hex encoded with no prefix"),
        ("outline/a?limit=0", "limit is not between 1 and 250000: 0"),
        ("outline/a?limit=250001", "limit is not between 1 and 250000: 250001"),
        ("heatmap?columns=0", "columns is not between 1 and 1000: 0"),
        ("heatmap?columns=1001", "columns is not between 1 and 1000: 1001"),
        ("heatmap?startNs=2&endNs=1", "startNs is after endNs"),
        ("difference?limit=0", "limit is not between 1 and 1000: 0"),
        ("difference?boxStartNs=2&boxEndNs=1", "boxStartNs is after boxEndNs"),
        ("difference?boxLeastNs=2&boxGreatestNs=1", "boxLeastNs is more than boxGreatestNs"),
    ] {
        let reply = tested.get(&format!("/api/blkkin/v1/{path}"));
        assert_eq!((reply.status, reply.text().as_str()), (400, expected), "{path}");
    }
    for path in ["search", "latency", "latencies", "heatmap", "difference"] {
        let reply = tested.get(&format!("/api/blkkin/v1/{path}?filter=service+%3D%3D"));
        let text = reply.text();
        let lines: Vec<&str> = text.lines().collect();
        let [_, line, place] = lines[..] else { panic!("three lines: {text}") };
        assert_eq!((reply.status, line.trim(), place.trim()), (400, "service ==", "^"), "{text}");
        assert_eq!(place.find('^'), line.find("==").map(|at| at + 2));
    }
    assert_eq!(tested.get("/api/blkkin/v1/trace/f").status, 404);
    assert_eq!(tested.get("/api/blkkin/v1/nothing").status, 404);
}
