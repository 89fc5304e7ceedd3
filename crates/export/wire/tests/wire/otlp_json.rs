//! Tests of OpenTelemetry's traces as JSON, compared with the output of OpenTelemetry's own
//! library.

use crate::check::{damaged, good, read};
use crate::otlp_proto::request;
use crate::random::Random;
use blkkin_model::{Kind, Span, Status, Value};
use blkkin_wire::End;
use blkkin_wire::Format::OtlpJson;
use serde_json::Value as Json;

/// Formats the tags of a span as text.
fn tags(span: &Span) -> String {
    let tags = span.tags.iter().map(|tag| match &tag.value {
        Value::Str(text) => format!("{}={text}", tag.key),
        other => format!("{}={other:?}", tag.key),
    });
    tags.collect::<Vec<_>>().join(" ")
}

/// Encodes spans with OpenTelemetry's library, randomly with or without blanks.
fn written(random: &mut Random, spans: &[Span]) -> Vec<u8> {
    let write = if random.one_in(2) { serde_json::to_vec } else { serde_json::to_vec_pretty };
    write(&request(spans)).expect("JSON")
}

#[test]
fn what_the_library_writes_is_read() {
    let mut random = Random(11);
    for round in 0..500 {
        let spans: Vec<_> = (0..round % 5).map(|_| random.otlp_span()).collect();
        assert_eq!(good(OtlpJson, &written(&mut random, &spans)), spans);
    }
}

#[test]
fn damaged_bytes_are_understood_or_refused() {
    let make = |random: &mut Random| {
        let spans = [random.otlp_span(), random.otlp_span()];
        written(random, &spans)
    };
    let (mut good, mut bad) = (0, 0);
    damaged(OtlpJson, 12, make, |batch, _, outcome| {
        let theirs = serde_json::from_slice::<Json>(batch);
        match (&theirs, &outcome.end) {
            (Ok(_), End::Whole) => good += 1,
            (Err(_), _) => bad += 1,
            _ => {}
        }
    });
    assert!(good > 300 && bad > 300, "{good} {bad}");
}

const IDS: &str = r#""traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174""#;

fn one(text: &str) -> Span {
    good(OtlpJson, text.as_bytes()).remove(0)
}

fn span(fields: &str) -> Span {
    let comma = if fields.is_empty() { "" } else { "," };
    let span = format!("{{{IDS}{comma}{fields}}}");
    one(&format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#))
}

#[test]
fn the_specifications_example_is_read() {
    let text = r#"{"resourceSpans":[{
        "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"my.service"}}]},
        "scopeSpans":[{
            "scope":{"name":"my.library","version":"1.0.0","attributes":[
                {"key":"my.scope.attribute","value":{"stringValue":"some scope attribute"}}]},
            "spans":[{
                "traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174",
                "parentSpanId":"EEE19B7EC3C1B173","name":"I'm a server span",
                "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
                "kind":2,"attributes":[{"key":"my.span.attr","value":{"stringValue":"some value"}}]
            }]
        }]
    }]}"#;
    let span = one(text);
    assert_eq!(span.trace_id.to_string(), "5b8efff798038103d269b633813fc60c");
    assert_eq!(span.id.to_string(), "eee19b7ec3c1b174");
    assert_eq!(span.parent_id.map(|id| id.to_string()).as_deref(), Some("eee19b7ec3c1b173"));
    assert_eq!((span.kind, span.name.as_str()), (Kind::Server, "I'm a server span"));
    assert_eq!(span.start_ns, Some(1_544_712_660_000_000_000));
    assert_eq!(span.duration_ns, Some(1_000_000_000));
    assert_eq!(span.local.service, "my.service");
    assert_eq!(
        tags(&span),
        "my.scope.attribute=some scope attribute my.span.attr=some value \
         otel.scope.name=my.library otel.scope.version=1.0.0"
    );
}

#[test]
fn a_resource_and_a_scope_behind_their_spans_count() {
    let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"late"}}]}"#;
    let scope = format!(r#"[{{"spans":[{{{IDS}}}],"x":[{{}}],"scope":{{"name":"s"}}}}]"#);
    let text = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":{scope},"schemaUrl":"","resource":{resource}}}]}}"#
    );
    let span = one(&text);
    assert_eq!((span.local.service.as_str(), tags(&span).as_str()), ("late", "otel.scope.name=s"));
}

#[test]
fn values_are_taken_in_all_their_forms() {
    fn check(fields: &str, expected: impl FnOnce(&mut Span)) {
        let mut plain = span("");
        expected(&mut plain);
        assert_eq!(span(fields), plain, "{fields}");
    }
    check(r#""new":{"x":[1]},"start_time_unix_nano":5"#, |_| {});
    check(r#""parentSpanId":"","kind":null,"name":null,"events":null,"status":null"#, |_| {});
    check(r#""parentSpanId":"0000000000000000""#, |_| {});
    check(r#""startTimeUnixNano":5,"endTimeUnixNano":"9""#, |span| {
        (span.start_ns, span.duration_ns) = (Some(5), Some(4));
    });
    check(r#""startTimeUnixNano":"18446744073709551615""#, |span| span.start_ns = Some(u64::MAX));
    check(r#""kind":"3""#, |span| span.kind = Kind::Client);
    check(r#""status":{"code":1,"message":null}"#, |span| span.status = Status::Ok);
    let attributes = |values: &str| span(&format!(r#""attributes":{values}"#));
    let check = |value: &str, expected: &str| {
        let text = format!(r#"[{{"key":"k","value":{value}}}]"#);
        assert_eq!(tags(&attributes(&text)), format!("k={expected}"), "{value}");
    };
    check(r#"{"intValue":"-5"}"#, "Int(-5)");
    check(r#"{"intValue":7}"#, "Int(7)");
    check(r#"{"doubleValue":7}"#, "Double(7.0)");
    check(r#"{"doubleValue":"-Infinity"}"#, "Double(-inf)");
    check(r#"{"boolValue":true,"new":[]}"#, "Bool(true)");
    check(r#"{"bytesValue":"Zm8="}"#, "Bytes([102, 111])");
    check(r#"{"stringValue":null}"#, "");
    check("{}", "");
    check("null", "");
    check(r#"{"arrayValue":{}}"#, "[]");
    check(r#"{"arrayValue":{"values":null}}"#, "[]");
    check(
        r#"{"arrayValue":{"values":[{"stringValue":"a\u0022"},{"intValue":"1"},{},
            {"doubleValue":"NaN"},{"kvlistValue":{"values":[{"key":"x","value":{"boolValue":false}},
            {"value":{"bytesValue":"_w"},"key":"y"},{"key":"z"}]}}]}}"#,
        r#"["a\"",1,null,"NaN",{"x":false,"y":"/w==","z":null}]"#,
    );
    let link =
        format!(r#""links":[{{{IDS},"attributes":[{{"key":"a","value":{{}}}}]}},{{{IDS}}}]"#);
    assert_eq!(
        tags(&span(&link)),
        "otlp.link.0=5b8efff798038103d269b633813fc60c|eee19b7ec3c1b174||{\"a\":null}|0 \
         otlp.link.1=5b8efff798038103d269b633813fc60c|eee19b7ec3c1b174||{}|0"
    );
    let events = span(
        r#""events":[{"name":"b","attributes":[{"value":{"intValue":1},"key":"k"}],"timeUnixNano":"2"},
            {"timeUnixNano":1,"attributes":[],"name":"a"}]"#,
    );
    let found: Vec<_> =
        events.annotations.iter().map(|it| (it.time_ns, it.value.as_str())).collect();
    assert_eq!(found, [(1, "a"), (2, r#""b": {"k":1}"#)]);
    let dropped =
        span(r#""droppedAttributesCount":1,"droppedEventsCount":"2","droppedLinksCount":0"#);
    assert_eq!(dropped.tags[1].value, Value::Int(2));
    assert_eq!(
        tags(&dropped),
        "otel.dropped_attributes_count=Int(1) otel.dropped_events_count=Int(2)"
    );
}

#[test]
fn bad_spans_are_refused_alone_and_named() {
    fn check(bad: &str, expected: &str) {
        let plain = format!("{{{IDS}}}");
        let head = r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#;
        let text = format!("{head}{plain},{bad},{plain}]}}]}}]}}");
        let (spans, outcome) = read(OtlpJson, text.as_bytes());
        assert_eq!((spans.len(), outcome.refused), (2, 1), "{bad} {outcome:?}");
        let refusal = &outcome.refusals[0];
        let place = refusal.fault.offset as usize - head.len() - plain.len() - 1;
        let field = refusal.fault.field;
        assert_eq!(
            (refusal.span, &*format!("{place} {field} {}", refusal.fault.reason)),
            (1, expected)
        );
    }
    check("{}", "0 traceId is missing");
    check(r#"{"traceId":""}"#, "0 traceId is missing");
    check(r#"{"traceId":"00000000000000000000000000000000"}"#, "11 traceId is 0");
    check(r#"{"traceId":"1234"}"#, "11 traceId should be an id of 32 digits");
    check(
        r#"{"traceId":"5B8EFFF798038103D269B633813FC60X"}"#,
        "11 traceId has something else than digits 0-9a-f",
    );
    check(r#"{"traceId":"W47/95gDgQPSabYzgT/GDA=="}"#, "11 traceId should be an id of 32 digits");
    check(r#"{"spanId":"0000000000000000"}"#, "10 spanId is 0");
    check(r#"{"parentSpanId":"1"}"#, "16 parentSpanId should be an id of 16 digits");
    check(r#"{"kind":"SPAN_KIND_SERVER"}"#, "8 kind should be a whole number of at least 0");
    check(
        r#"{"startTimeUnixNano":-1}"#,
        "21 startTimeUnixNano should be a whole number of at least 0",
    );
    check(r#"{"name":1}"#, "8 name should be text");
    check(r#"{"attributes":{}}"#, "14 attributes should be a list");
    check(r#"{"attributes":[{"value":{"bytesValue":"a"}}]}"#, "38 attributes should be base64");
    check(r#"{"links":[{}]}"#, "10 links is missing");
    let deep = (0..20)
        .fold("1".to_owned(), |inner, _| format!(r#"{{"arrayValue":{{"values":[{inner}]}}}}"#));
    let (_, outcome) = read(OtlpJson, format!(r#"{{"x":{deep}}}"#).as_bytes());
    assert!(outcome.first_refusal().expect("deep").to_string().contains("nested too deep"));
}

#[test]
fn broken_batches_give_what_is_before() {
    fn check(batch: &str, given: u64, expected: &str) {
        let (_, outcome) = read(OtlpJson, batch.as_bytes());
        let refusal = outcome.first_refusal().map(ToString::to_string);
        assert_eq!((outcome.accepted, refusal.as_deref().unwrap_or("nothing")), (given, expected));
    }
    check("", 0, "nothing");
    check("{}", 0, "nothing");
    check(r#"{"resourceSpans":null,"x":1}"#, 0, "nothing");
    check(r#"{"resourceSpans":[]}"#, 0, "nothing");
    check(r#"{"resourceSpans":[{}]}"#, 0, "nothing");
    check(r#"{"resourceSpans":[{"scopeSpans":[{"spans":[]}]}]}"#, 0, "nothing");
    check("[]", 0, "span 0, byte 0: should be an object");
    let good = format!(
        r#"{{"resourceSpans":[{{"resource":{{}},"scopeSpans":[{{"scope":{{}},"spans":[{{{IDS}}}"#
    );
    check(&good, 1, "span 1, byte 142: ends early");
    check(&format!("{good}]}}]}},1]}}"), 1, "span 1, byte 147: should be an object");
}
