//! Tests that Zipkin's API answers each request as Zipkin's server does.

use crate::support::{TestServer, gunzip, head, request, start, start_with};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in milliseconds since 1970.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Stores two requests of a shop: a failed call from `front` to `back`, and a single span.
/// Returns the start of the first request, in microseconds since 1970.
fn shop(tested: &TestServer) -> u64 {
    let start_us = (now_ms() - 60_000) * 1000;
    let (later, last) = (start_us + 1000, start_us + 2_000_000);
    tested.post_spans(&format!(
        r#"[{{"traceId":"000000000000000a","id":"000000000000000a","kind":"SERVER","name":"GET /Cart","timestamp":{start_us},"duration":9000,"localEndpoint":{{"serviceName":"Front"}},"tags":{{"http.method":"GET","env":"prod"}}}},
            {{"traceId":"a","parentId":"a","id":"b","kind":"CLIENT","name":"query","timestamp":{later},"duration":5000,"localEndpoint":{{"serviceName":"front"}},"remoteEndpoint":{{"serviceName":"Back"}},"annotations":[{{"timestamp":{later},"value":"retry"}}],"tags":{{"error":"timeout","env":"test"}}}},
            {{"traceId":"1000000000000000c","id":"c","name":"tick","timestamp":{last},"duration":20,"localEndpoint":{{"serviceName":"timer"}}}}]"#
    ));
    start_us
}

/// Returns the trace ids of the requests in an answer, in order.
fn ids(tested: &TestServer, path: &str) -> String {
    let reply = tested.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    let requests = reply.json();
    let id = |request: &serde_json::Value| request[0]["traceId"].as_str().map(str::to_owned);
    let ids: Vec<String> = requests.as_array().expect("a list").iter().filter_map(id).collect();
    ids.join(" ")
}

#[test]
fn names_are_told() {
    let tested = start();
    let check = |path: &str, expected: &str| {
        for prefix in ["/api/v2/", "/zipkin/api/v2/"] {
            let reply = tested.get(&format!("{prefix}{path}"));
            assert_eq!((reply.status, reply.text().as_str()), (200, expected), "{prefix}{path}");
            assert_eq!(reply.header("content-type"), "application/json; charset=utf-8");
        }
    };
    check("services", "[]");
    shop(&tested);
    check("services", r#"["front","timer"]"#);
    check("spans?serviceName=front", r#"["get /cart","query"]"#);
    check("spans?serviceName=FRONT", r#"["get /cart","query"]"#);
    check("spans?serviceName=", "[]");
    check("spans?serviceName=nobody", "[]");
    check("remoteServices?serviceName=front", r#"["back"]"#);
    check("remoteServices?serviceName=timer", "[]");
    check("autocompleteKeys", "[]");
    check("autocompleteValues?key=env", "[]");
}

#[test]
fn names_may_be_kept_where_there_are_many() {
    let tested =
        start_with(|settings| settings.query.autocomplete_keys = vec!["zone".into(), "env".into()]);
    let kept = |path: &str| tested.get(path).header("cache-control").to_owned();
    let (never, minutes) = (String::new(), "max-age=300, must-revalidate".to_owned());
    shop(&tested);
    assert_eq!(kept("/api/v2/services"), never);
    assert_eq!(kept("/api/v2/spans?serviceName=front"), never);
    assert_eq!(kept("/api/v2/autocompleteKeys"), minutes);
    assert_eq!(tested.get("/api/v2/autocompleteKeys").text(), r#"["env","zone"]"#);
    let reply = tested.get("/api/v2/autocompleteValues?key=");
    assert_eq!((reply.status, reply.text().as_str()), (400, "key was empty"));
    let values = "/api/v2/autocompleteValues?key=env";
    assert_eq!(tested.get(values).text(), r#"["prod","test"]"#);
    assert_eq!(tested.get("/api/v2/autocompleteValues?key=error").text(), "[]");
    assert_eq!(kept(values), never);
    for name in ["one", "two"] {
        tested.post_spans(&format!(
            r#"[{{"traceId":"d","id":"d","localEndpoint":{{"serviceName":"{name}"}},"tags":{{"env":"{name}"}}}}]"#
        ));
    }
    assert_eq!(kept("/api/v2/services"), minutes);
    assert_eq!(kept("/api/v2/spans?serviceName=front"), minutes);
    assert_eq!(kept("/api/v2/remoteServices?serviceName=front"), minutes);
    assert_eq!(kept(values), minutes);
}

#[test]
fn requests_are_found_by_id() {
    let tested = start();
    let start_us = shop(&tested);
    let check = |id: &str, status: u16, expected: &str| {
        let reply = tested.get(&format!("/api/v2/trace/{id}"));
        assert_eq!((reply.status, reply.text().as_str()), (status, expected), "{id}");
    };
    let last = start_us + 2_000_000;
    let tick = format!(
        r#"[{{"traceId":"0000000000000001000000000000000c","id":"000000000000000c","name":"tick","timestamp":{last},"duration":20,"localEndpoint":{{"serviceName":"timer"}}}}]"#
    );
    check("1000000000000000c", 200, &tick);
    check("%201000000000000000c%20", 200, &tick);
    check("c", 404, "000000000000000c not found");
    check("0000000000000000000000000000000f", 404, "000000000000000f not found");
    check("2000000000000000c", 404, "0000000000000002000000000000000c not found");
    check("0", 400, "traceId is all zeros");
    check("%20", 400, "traceId is empty");
    check("C", 400, "C should be lower-hex encoded with no prefix");
    check("0xc", 400, "0xc should be lower-hex encoded with no prefix");
    check(&"1".repeat(33), 400, "traceId.length > 32");
    check("", 404, "Not Found");
    let reply = tested.get("/api/v2/trace/000000000000000a").json();
    assert_eq!(reply.as_array().map(Vec::len), Some(2));
    assert_eq!(reply[0]["name"], "get /cart", "names are in lower case");
}

#[test]
fn several_requests_are_found_at_once() {
    let tested = start();
    shop(&tested);
    let path = |ids: &str| format!("/api/v2/traceMany?traceIds={ids}");
    assert_eq!(
        ids(&tested, &path("1000000000000000c,a")),
        "0000000000000001000000000000000c 000000000000000a"
    );
    assert_eq!(ids(&tested, &path("f,a")), "000000000000000a");
    assert_eq!(ids(&tested, &path("e,f")), "");
    let check = |text: &str, expected: &str| {
        let reply = tested.get(&path(text));
        assert_eq!((reply.status, reply.text().as_str()), (400, expected), "{text}");
    };
    check("", "traceIds parameter is empty");
    check("a", "Use /api/v2/trace/{traceId} endpoint to retrieve a single trace");
    check("a,b,a", "redundant traceId: a");
    check("a,0", "traceId is all zeros");
    check("a,+b", " b should be lower-hex encoded with no prefix");
    assert_eq!(tested.get("/api/v2/traceMany").status, 400);
}

#[test]
fn requests_are_searched() {
    let tested = start();
    let start_us = shop(&tested);
    let (cart, tick) = ("000000000000000a", "0000000000000001000000000000000c");
    let check = |query: &str, expected: &[&str]| {
        let found = ids(&tested, &format!("/api/v2/traces?{query}"));
        assert_eq!(found, expected.join(" "), "{query}");
    };
    let start_ms = start_us / 1000;
    check("", &[tick, cart]);
    check("limit=1", &[tick]);
    check("serviceName=front", &[cart]);
    check("serviceName=FRONT", &[cart]);
    check("serviceName=back", &[]);
    check("serviceName=", &[tick, cart]);
    check("remoteServiceName=back", &[cart]);
    check("spanName=Tick", &[tick]);
    check("spanName=all", &[tick, cart]);
    check("serviceName=timer&spanName=query", &[]);
    check("annotationQuery=retry", &[cart]);
    check("annotationQuery=error", &[cart]);
    check("annotationQuery=env%3Dprod", &[cart]);
    check("annotationQuery=env%3Dprod+and+error", &[cart]);
    check("annotationQuery=env%3DProd", &[]);
    check("annotationQuery=nothing", &[]);
    check("minDuration=20", &[tick, cart]);
    check("minDuration=21", &[cart]);
    check("minDuration=6000&maxDuration=9000", &[cart]);
    check("minDuration=10&maxDuration=30", &[tick]);
    check(&format!("endTs={start_ms}"), &[cart]);
    check(&format!("endTs={}", start_ms - 1), &[]);
    check(&format!("endTs={}&lookback=1000", start_ms + 2000), &[tick]);
    // Zipkin's times are in microseconds, and a window ends with the first microsecond of a
    // millisecond.
    let late = start_us + 1;
    tested.post_spans(&format!(r#"[{{"traceId":"e","id":"e","name":"late","timestamp":{late}}}]"#));
    check(&format!("endTs={start_ms}"), &[cart]);
    check(&format!("endTs={}", start_ms + 1), &["000000000000000e", cart]);
}

#[test]
fn searches_that_make_no_sense_are_refused() {
    let tested = start();
    for (query, expected) in [
        ("limit=0", "limit <= 0"),
        ("limit=-1", "limit <= 0"),
        ("limit=", "limit is empty"),
        ("limit=0&lookback=0", "limit <= 0"),
        ("endTs=0", "endTs <= 0"),
        ("lookback=0", "lookback <= 0"),
        ("minDuration=0", "minDuration <= 0"),
        ("maxDuration=5", "maxDuration is only valid with minDuration"),
        ("minDuration=9&maxDuration=5", "maxDuration < minDuration"),
    ] {
        let reply = tested.get(&format!("/api/v2/traces?{query}"));
        assert_eq!((reply.status, reply.text().as_str()), (400, expected), "{query}");
    }
    for query in ["limit=x", "limit=2147483648", "endTs=1.5", "minDuration=1ms"] {
        assert_eq!(tested.get(&format!("/api/v2/traces?{query}")).status, 400, "{query}");
    }
}

#[test]
fn who_calls_whom_is_told() {
    let tested = start();
    let start_us = shop(&tested);
    let check = |query: &str, status: u16, expected: &str| {
        let reply = tested.get(&format!("/api/v2/dependencies{query}"));
        assert_eq!((reply.status, reply.text().as_str()), (status, expected), "{query}");
    };
    let end_ms = start_us / 1000 + 3_600_000;
    let link = r#"[{"parent":"front","child":"back","callCount":1,"errorCount":1}]"#;
    check(&format!("?endTs={end_ms}"), 200, link);
    check(&format!("?endTs={end_ms}&lookback=7200000"), 200, link);
    check(&format!("?endTs={}&lookback=1000", start_us / 1000 - 600_000), 200, "[]");
    check("?endTs=0", 400, "endTs <= 0");
    check("?endTs=5&lookback=0", 400, "lookback <= 0");
    check("", 400, "parameter endTs is missing");
}

#[test]
fn short_ids_can_be_enough() {
    let tested = start_with(|settings| settings.query.strict_trace_id = false);
    let start_us = shop(&tested);
    tested.post_spans(&format!(
        r#"[{{"traceId":"c","id":"e","parentId":"c","timestamp":{start_us},"name":"child"}}]"#
    ));
    for id in ["c", "1000000000000000c", "2000000000000000c"] {
        let spans = tested.get(&format!("/api/v2/trace/{id}")).json();
        assert_eq!(spans.as_array().map(Vec::len), Some(2), "{id}");
    }
    let found = ids(&tested, "/api/v2/traces");
    assert_eq!(found.split(' ').count(), 2, "one of the two: {found}");
}

#[test]
fn pages_of_the_server_itself() {
    let tested = start();
    let check = |path: &str, pointer: &str, expected: serde_json::Value| {
        let reply = tested.get(path);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.json().pointer(pointer), Some(&expected), "{path} {pointer}");
    };
    for path in ["/health", "/actuator/health"] {
        check(path, "/status", "UP".into());
        check(path, "/zipkin/status", "UP".into());
    }
    for path in ["/info", "/actuator/info"] {
        check(path, "/zipkin/version", env!("CARGO_PKG_VERSION").into());
    }
    check("/zipkin/config.json", "/defaultLookback", 900_000.into());
    check("/zipkin/config.json", "/dependency/lowErrorRate", 0.5.into());
    assert_eq!(tested.get("/zipkin/config.json").header("cache-control"), "max-age=600");
    shop(&tested);
    let counter = "/counter.zipkin_collector.spans.http";
    check("/actuator/metrics", counter, 3.into());
    let json = [("accept", "application/json")];
    let reply = request(tested.web(), "GET", "/metrics", &json, b"");
    assert_eq!(reply.json().pointer(counter), Some(&3.into()));
    for path in ["/metrics", "/prometheus", "/actuator/prometheus"] {
        let text = tested.get(path).text();
        assert!(text.contains("zipkin_collector_spans_total{transport=\"http\"} 3\n"), "{text}");
    }
    let text = tested.get("/metrics").text();
    let timed =
        r#"http_server_requests_seconds_count{method="POST",status="202",uri="/api/v2/spans"} 1"#;
    assert!(text.contains(timed), "{text}");
}

#[test]
fn other_methods_and_paths() {
    let tested = start();
    let check = |method: &str, path: &str, expected: u16| {
        let found = request(tested.web(), method, path, &[], b"").status;
        assert_eq!(found, expected, "{method} {path}");
    };
    check("GET", "/nothing", 404);
    check("POST", "/", 405);
    check("GET", "/api/v2/", 404);
    check("GET", "/api/v2/nothing", 404);
    check("GET", "/api/v2/trace/a/b", 404);
    check("GET", "/zipkin/api/v1/spans", 404);
    check("POST", "/zipkin/api/v2/spans", 405);
    check("GET", "/api/v1/spans", 405);
    check("GET", "/v1/traces", 405);
    check("POST", "/api/v2/services", 405);
    check("DELETE", "/api/v2/services", 405);
    check("PUT", "/api/v2/spans", 405);
    check("TRACE", "/api/v2/services", 405);
    check("OPTIONS", "/api/v2/services", 405);
    check("HEAD", "/api/v2/services", 200);
}

#[test]
fn large_answers_are_packed_for_who_wants_it() {
    let tested = start();
    for number in 1..100 {
        tested.post_spans(&format!(
            r#"[{{"traceId":"a","id":"{number:x}","name":"name {number}"}}]"#
        ));
    }
    let ask = |accepts: &str| {
        request(tested.web(), "GET", "/api/v2/trace/a", &[("accept-encoding", accepts)], b"")
    };
    let plain = ask("br");
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(plain.header("vary"), "accept-encoding");
    for accepts in ["gzip", "br, GZIP;q=0.5"] {
        let packed = ask(accepts);
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert!(packed.body.len() < plain.body.len());
        assert!(gunzip(&packed.body) == plain.body);
    }
    assert_eq!(ask("gzip;q=0").header("content-encoding"), "");
    let small =
        request(tested.web(), "GET", "/api/v2/services", &[("accept-encoding", "gzip")], b"");
    assert_eq!(small.header("content-encoding"), "");
}

#[test]
fn connections_are_used_again() {
    use std::io::{Read, Write};
    let tested = start();
    let mut stream = crate::support::connect(tested.web());
    let one = head(tested.web(), "GET", "/api/v2/services", &[], 0);
    let one = one.replace("connection: close\r\n", "");
    let two = head(tested.web(), "GET", "/api/v2/services", &[], 0);
    stream.write_all((one + &two).as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("read");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
}

#[test]
fn the_process_has_metrics() {
    let tested = start();
    let text = tested.get("/metrics").text();
    let version = format!("\nblkkin_build_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    assert!(tested.metric("process_resident_memory_bytes") > 1 << 20);
    assert!(tested.metric("process_open_fds") >= 4);
    assert!(tested.metric("process_max_fds") >= tested.metric("process_open_fds"));
    assert!(text.contains("\nprocess_start_time_seconds 1"), "{text}");
}
