//! Tests of Zipkin's JSON formats, with serde_json as the reference implementation.

use crate::check::{damaged, good, read};
use crate::random::Random;
use blkkin_model::{Annotation, Endpoint, Kind, Origin, Span, Tag, TraceId, Value};
use blkkin_wire::Format::{ZipkinJson, ZipkinV1Json};
use blkkin_wire::{End, Format};
use serde_json::{Map, Value as Json, json};

fn kind(kind: Kind) -> Json {
    match kind {
        Kind::Client => "CLIENT".into(),
        Kind::Server => "SERVER".into(),
        Kind::Producer => "PRODUCER".into(),
        Kind::Consumer => "CONSUMER".into(),
        Kind::Internal | Kind::Unspecified => Json::Null,
    }
}

fn endpoint(endpoint: &Endpoint) -> Json {
    let mut all = Map::new();
    if !endpoint.service.is_empty() {
        all.insert("serviceName".into(), endpoint.service.clone().into());
    }
    if let Some(address) = endpoint.ipv4 {
        all.insert("ipv4".into(), address.to_string().into());
    }
    if let Some(address) = endpoint.ipv6 {
        all.insert("ipv6".into(), address.to_string().into());
    }
    if endpoint.port != 0 {
        all.insert("port".into(), endpoint.port.into());
    }
    Json::Object(all)
}

/// Converts a span to an object of the v2 format. An unknown parent, kind, timestamp or duration
/// and an unset `debug` are null. An unknown name is empty, an unknown endpoint is an empty object.
pub(crate) fn object(span: &Span) -> Json {
    let us = |ns: u64| ns / 1000;
    let notes = span.annotations.iter();
    let tags = span.tags.iter().map(|tag| match &tag.value {
        Value::Str(text) => (tag.key.clone(), Json::from(text.clone())),
        other => panic!("{other:?} in a span of Zipkin's"),
    });
    json!({
        "traceId": span.trace_id.to_string(),
        "parentId": span.parent_id.map(|id| id.to_string()),
        "id": span.id.to_string(),
        "kind": kind(span.kind),
        "name": span.name,
        "timestamp": span.start_ns.map(us),
        "duration": span.duration_ns.map(us),
        "localEndpoint": endpoint(&span.local),
        "remoteEndpoint": endpoint(&span.remote),
        "annotations": notes
            .map(|it| json!({"timestamp": us(it.time_ns), "value": it.value}))
            .collect::<Vec<_>>(),
        "tags": tags.collect::<Map<_, _>>(),
        "debug": span.debug.then_some(true),
        "shared": span.shared,
    })
}

/// Converts a span to an object of the v1 format. Kind, `shared` and remote endpoint are omitted,
/// since the v1 format expresses them by core and address annotations.
fn v1_object(span: &Span) -> Json {
    let us = |ns: u64| ns / 1000;
    let here = endpoint(&span.local);
    let facts = span.tags.iter().map(|tag| match &tag.value {
        Value::Str(text) => json!({"key": tag.key, "value": text, "endpoint": here}),
        Value::Int(number) => {
            json!({"key": tag.key, "value": number, "type": "I64", "endpoint": here})
        }
        Value::Bool(flag) => json!({"key": tag.key, "value": flag, "endpoint": here}),
        Value::Double(number) => json!({"value": number, "key": tag.key, "endpoint": here}),
        Value::Bytes(_) => panic!("bytes in JSON"),
    });
    json!({
        "traceId": span.trace_id.to_string(),
        "name": span.name,
        "id": span.id.to_string(),
        "parentId": span.parent_id.map(|id| id.to_string()),
        "timestamp": span.start_ns.map(us),
        "duration": span.duration_ns.map(us),
        "annotations": span.annotations
            .iter()
            .map(|it| json!({"timestamp": us(it.time_ns), "value": it.value, "endpoint": here}))
            .collect::<Vec<_>>(),
        "binaryAnnotations": facts.collect::<Vec<_>>(),
        "debug": span.debug,
    })
}

fn local_span(random: &mut Random) -> Span {
    let mut tags = random.otlp_span().tags;
    tags.iter_mut().for_each(|tag| tag.origin = Origin::Span);
    tags.retain(|tag| !matches!(tag.value, Value::Bytes(_)));
    // The decoder reads a number without point and exponent as an integer.
    tags.iter_mut().for_each(|tag| {
        if let Value::Double(number) = &mut tag.value {
            *number += 0.5;
        }
    });
    let plain = random.zipkin_span();
    let says_nothing = plain.annotations.is_empty() && tags.is_empty();
    Span {
        kind: Kind::Unspecified,
        shared: false,
        duration_ns: plain.start_ns.and(plain.duration_ns),
        local: if says_nothing { Endpoint::default() } else { plain.local },
        remote: Endpoint::default(),
        tags,
        ..plain
    }
}

/// Writes a list of objects as different senders would: compact or indented. Half of the objects
/// have no nulls and, if serde_json preserves the order of keys, their keys rotated.
fn written(random: &mut Random, list: &[Json]) -> Vec<u8> {
    let list: Vec<Json> = list
        .iter()
        .map(|span| match span {
            Json::Object(span) if random.one_in(2) => {
                let mut all: Vec<_> = span.iter().filter(|(_, value)| !value.is_null()).collect();
                let middle = random.below(all.len());
                all.rotate_left(middle);
                Json::Object(
                    all.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
                )
            }
            other => other.clone(),
        })
        .collect();
    let bytes =
        if random.one_in(2) { serde_json::to_vec(&list) } else { serde_json::to_vec_pretty(&list) };
    bytes.expect("JSON")
}

#[test]
fn what_serde_json_writes_is_read() {
    let mut random = Random(8);
    for round in 0..500 {
        let spans: Vec<_> = (0..round % 5).map(|_| random.zipkin_span()).collect();
        let list: Vec<Json> = spans.iter().map(object).collect();
        assert_eq!(good(ZipkinJson, &written(&mut random, &list)), spans);
        let spans: Vec<_> = (0..round % 5).map(|_| local_span(&mut random)).collect();
        let list: Vec<Json> = spans.iter().map(v1_object).collect();
        assert_eq!(good(ZipkinV1Json, &written(&mut random, &list)), spans);
    }
}

#[test]
fn damaged_bytes_are_understood_where_serde_json_does() {
    let make = |random: &mut Random| {
        let list = [object(&random.zipkin_span()), object(&random.zipkin_span())];
        written(random, &list)
    };
    let (mut same, mut broken) = (0, 0);
    damaged(ZipkinJson, 9, make, |batch, spans, outcome| {
        // The two parsers agree only on batches that are a list of objects.
        let theirs = serde_json::from_slice::<Vec<Map<String, Json>>>(batch);
        match (&theirs, &outcome.end) {
            (Ok(theirs), End::Whole) if outcome.refused == 0 && theirs.len() == spans.len() => {
                for (span, theirs) in spans.iter().zip(theirs) {
                    let name = theirs.get("name").and_then(Json::as_str).unwrap_or_default();
                    assert_eq!(span.name, name);
                }
                same += 1;
            }
            (Ok(_), End::Broken(refusal)) => {
                panic!("{refusal} of {}", String::from_utf8_lossy(batch));
            }
            (Err(_), _) => broken += 1,
            _ => {}
        }
    });
    assert!(same > 300 && broken > 300, "{same} {broken}");
    let make = |random: &mut Random| {
        let list = [v1_object(&local_span(random)), v1_object(&local_span(random))];
        written(random, &list)
    };
    damaged(ZipkinV1Json, 10, make, |_, _, _| ());
}

/// Checks that the properties `change`, added to a span with only its ids, change the decoded span
/// as `expected` does.
fn changed(format: Format, change: &str, expected: impl FnOnce(&mut Span)) {
    let plain = r#"[{"traceId":"1","id":"2"}]"#;
    let mut span = good(format, plain.as_bytes()).remove(0);
    expected(&mut span);
    let text = format!("[{{\"traceId\":\"1\",\"id\":\"2\",{change}}}]");
    assert_eq!(good(format, text.as_bytes()), [span], "{change}");
}

#[test]
fn values_are_taken_by_zipkins_rules() {
    let check = |change: &str, expected: fn(&mut Span)| changed(ZipkinJson, change, expected);
    let trace_id = |number| TraceId::from_number(number).expect("not 0");
    assert_eq!(trace_id(1).number(), 1);
    check(r#""x":null,"y":[{"z":[]}],"":"""#, |_| {});
    check(r#""traceId":"463ac35c9f6413ad48485a3953bb6124""#, |span| {
        span.trace_id = TraceId::from_number(0x463ac35c9f6413ad48485a3953bb6124).expect("not 0");
    });
    check(r#""traceId":"\u0037""#, |span| span.trace_id = TraceId::from_number(7).expect("not 0"));
    check(r#""traceId":25"#, |span| span.trace_id = TraceId::from_number(0x25).expect("not 0"));
    check(r#""parentId":"0""#, |_| {});
    check(r#""parentId":null"#, |_| {});
    check(r#""parentId":"2""#, |_| {});
    check(r#""parentId":"5","parentId":"0""#, |_| {});
    check(
        r#""kind":null,"name":null,"timestamp":null,"duration":null,"localEndpoint":null"#,
        |_| {},
    );
    check(
        r#""remoteEndpoint":null,"annotations":null,"tags":null,"debug":null,"shared":null"#,
        |_| {},
    );
    check(r#""annotations":[],"tags":{},"localEndpoint":{},"debug":false"#, |_| {});
    check(r#""name":"GET","kind":"CLIENT","shared":true"#, |span| {
        span.name = "GET".into();
        span.kind = Kind::Client;
    });
    check(r#""name":12"#, |span| span.name = "12".into());
    check(r#""timestamp":0,"duration":-1"#, |_| {});
    check(r#""timestamp":"12","duration":1.0"#, |span| {
        span.start_ns = Some(12_000);
        span.duration_ns = Some(1000);
    });
    check(r#""timestamp":1472470996199000"#, |span| {
        span.start_ns = Some(1_472_470_996_199_000_000)
    });
    check(r#""tags":{"a":1.50,"":"","a\n":"b"}"#, |span| {
        let tag = |key: &str, value: &str| Tag {
            key: key.into(),
            value: Value::Str(value.into()),
            origin: Origin::Span,
        };
        span.tags = vec![tag("", ""), tag("a", "1.50"), tag("a\n", "b")];
    });
    check(r#""annotations":[{"value":7,"timestamp":0,"host":{}}]"#, |span| {
        span.annotations = vec![Annotation { time_ns: 0, value: "7".into() }];
    });
    check(r#""localEndpoint":{"ipv4":"2001:db8::c001","ipv6":"1.2.3.4","port":0,"x":1}"#, |span| {
        span.local.ipv6 = "2001:db8::c001".parse().ok();
        span.local.ipv4 = "1.2.3.4".parse().ok();
    });
    check(r#""remoteEndpoint":{"serviceName":null,"ipv4":"host","port":null}"#, |_| {});
    check(r#""localEndpoint":{"port":"80"},"localEndpoint":{"port":-1}"#, |_| {});

    let check = |change: &str, expected: fn(&mut Span)| changed(ZipkinV1Json, change, expected);
    check(r#""annotations":null,"binaryAnnotations":[],"debug":true,"tags":{}"#, |span| {
        span.debug = true;
    });
    // Of an id with 17 to 31 digits, only the lower half counts.
    check(r#""traceId":"10000000000000005""#, |span| {
        span.trace_id = TraceId::from_number(5).expect("not 0");
    });
    check(r#""traceId":"10000000000000000000000000000005""#, |span| {
        span.trace_id = TraceId::from_number(1 << 124 | 5).expect("not 0");
    });
    check(
        r#""annotations":[{"endpoint":{"serviceName":"App","ipv4":"1.2.3.4"},"timestamp":1,"value":"sr"},
            {"endpoint":{"serviceName":"App"},"timestamp":4,"value":"ss"}],
          "binaryAnnotations":[{"key":"ca","value":true,"endpoint":{"port":5}},{"key":"n","value":12}]"#,
        |span| {
            span.kind = Kind::Server;
            span.shared = true;
            (span.start_ns, span.duration_ns) = (Some(1000), Some(3000));
            span.local = Endpoint {
                service: "App".into(),
                ipv4: "1.2.3.4".parse().ok(),
                ..Endpoint::default()
            };
            span.remote.port = 5;
            span.tags = vec![Tag { key: "n".into(), value: Value::Int(12), origin: Origin::Span }];
        },
    );
}

#[test]
fn bad_spans_are_refused_alone_and_named() {
    fn check(format: Format, bad: &str, expected: &str) {
        let plain = r#"{"traceId":"1","id":"2"}"#;
        let text = format!("[{plain}, {bad},{plain}]");
        let (spans, outcome) = read(format, text.as_bytes());
        assert_eq!((spans.len(), outcome.refused), (2, 1), "{bad} {outcome:?}");
        let refusal = &outcome.refusals[0];
        let place = refusal.fault.offset - 27;
        let field = refusal.fault.field;
        assert_eq!(
            (refusal.span, &*format!("{place} {field} {}", refusal.fault.reason)),
            (1, expected)
        );
    }
    check(ZipkinJson, "{}", "0 traceId is missing");
    check(ZipkinJson, r#"{"traceId":"1"}"#, "0 id is missing");
    check(ZipkinJson, r#"{"traceId":null}"#, "11 traceId should be text");
    check(ZipkinJson, r#"{"traceId":""}"#, "11 traceId is empty");
    check(ZipkinJson, r#"{"traceId":"00"}"#, "11 traceId is 0");
    check(ZipkinJson, r#"{"traceId":"00000000000000000000000000000000"}"#, "11 traceId is 0");
    check(ZipkinJson, r#"{"traceId":"ABCD"}"#, "11 traceId has something else than digits 0-9a-f");
    check(
        ZipkinJson,
        r#"{"traceId":"463AC35C9F6413AD48485A3953BB6124"}"#,
        "11 traceId has something else than digits 0-9a-f",
    );
    check(ZipkinJson, r#"{"id":"11111111111111111"}"#, "6 id has size 17, which may be at most 16");
    check(ZipkinJson, r#"{"id":"0000000000000000"}"#, "6 id is 0");
    check(ZipkinJson, r#"{"parentId":""}"#, "12 parentId is empty");
    check(ZipkinJson, r#"{"parentId":"x"}"#, "12 parentId has something else than digits 0-9a-f");
    check(ZipkinJson, r#"{"kind":"client"}"#, "8 kind is no kind of span");
    check(ZipkinJson, r#"{"kind":"\q"}"#, "10 kind should be an escape");
    check(ZipkinJson, r#"{"name":{}}"#, "8 name should be text");
    check(ZipkinJson, r#"{"timestamp":12.5}"#, "13 timestamp should be a whole number");
    check(ZipkinJson, r#"{"timestamp":1e30}"#, "13 timestamp is out of range");
    check(ZipkinJson, r#"{"debug":1}"#, "9 debug should be true or false");
    check(ZipkinJson, r#"{"shared":"true"}"#, "10 shared should be true or false");
    check(ZipkinJson, r#"{"tags":{"a":null}}"#, "13 tags should be text");
    check(ZipkinJson, r#"{"tags":{"a":true}}"#, "13 tags should be text");
    check(ZipkinJson, r#"{"tags":[]}"#, "8 tags should be an object");
    check(ZipkinJson, r#"{"annotations":{}}"#, "15 annotations should be a list");
    check(ZipkinJson, r#"{"annotations":[{"value":"x"}]}"#, "16 annotations is missing");
    check(
        ZipkinJson,
        r#"{"annotations":[{"timestamp":null}]}"#,
        "29 annotations should be a number",
    );
    check(ZipkinJson, r#"{"annotations":[{"timestamp":-1}]}"#, "29 annotations is out of range");
    check(ZipkinJson, r#"{"localEndpoint":{"port":65536}}"#, "25 localEndpoint is out of range");
    check(ZipkinJson, r#"{"localEndpoint":"x"}"#, "17 localEndpoint should be an object");
    check(ZipkinJson, "null", "0  should be an object");
    check(ZipkinJson, "[1]", "0  should be an object");
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(1 << 21));
    check(ZipkinJson, &long, "9 name has more than 1048576 bytes");
    check(
        ZipkinV1Json,
        r#"{"binaryAnnotations":[{"key":"a"}]}"#,
        "22 binaryAnnotations is missing",
    );
    check(
        ZipkinV1Json,
        r#"{"binaryAnnotations":[{"value":{}}]}"#,
        "31 binaryAnnotations should be a number",
    );
    check(ZipkinV1Json, r#"{"traceId":"10000000000000000"}"#, "11 traceId is 0");
}

#[test]
fn broken_batches_give_what_is_before() {
    fn check(batch: &str, given: u64, expected: &str) {
        let (_, outcome) = read(ZipkinJson, batch.as_bytes());
        let refusal = outcome.first_refusal().map(ToString::to_string);
        assert_eq!((outcome.accepted, refusal.as_deref().unwrap_or("nothing")), (given, expected));
    }
    check("", 0, "nothing");
    check(" \n", 0, "nothing");
    check("[]", 0, "nothing");
    check(" [ ] ", 0, "nothing");
    check(r#"[{"traceId":"1","id":"2"}]}}"#, 1, "nothing");
    check(r#"[{"traceId":"1","id":"2"},]"#, 1, "span 1, byte 26: should be a number");
    check(r#"[{"traceId":"1","id":"2"}"#, 1, "span 1, byte 25: ends early");
    check(r#"[{"traceId":"1","id":"2"},{"tra"#, 1, "span 1, byte 31: ends early");
    check(r#"[{"traceId":"1","id":"2"} {}"#, 1, "span 1, byte 26: should be ',' or ']'");
    check("{}", 0, "span 0, byte 0: should be a list");
    check("\u{feff}[]", 0, "span 0, byte 0: should be a list");
    check("['a']", 0, "span 0, byte 1: should be a number");
}

#[test]
fn what_is_no_text_is_replaced() {
    let text = b"[{\"traceId\":\"1\",\"id\":\"2\",\"name\":\"a\xff\",\"tags\":{\"\xc3\":\"ok\"}}]";
    let span = good(ZipkinJson, text).remove(0);
    assert_eq!((span.name.as_str(), span.tags[0].key.as_str()), ("a\u{fffd}", "\u{fffd}"));
}
