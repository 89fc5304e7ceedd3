//! Tests with large batches that are designed to consume time or stack. Each batch is decoded or
//! refused in time linear in its size; a test that hangs has failed.

use crate::check::read;
use blkkin_wire::Format::{
    self, OtlpJson, OtlpProto, ZipkinJson, ZipkinProto, ZipkinThrift, ZipkinV1Json,
};
use blkkin_wire::{Decoder, Limits, Outcome};

const SIZE: usize = 1 << 20;

/// Returns repetitions of `text`, about `SIZE` bytes, between `begin` and `end`.
fn repeated(begin: &str, text: &str, end: &str) -> Vec<u8> {
    [begin, &text.repeat(SIZE / text.len()), end].concat().into_bytes()
}

fn refusal(outcome: &Outcome) -> String {
    outcome.first_refusal().map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

#[test]
fn long_json_is_read_or_refused() {
    fn check(format: Format, batch: &[u8], expected: &str) {
        let found = refusal(&read(format, batch).1);
        assert!(found.ends_with(expected), "{found}");
    }
    let ids = r#"[{"traceId":"1","id":"2""#;
    for format in [ZipkinJson, ZipkinV1Json] {
        check(format, &repeated("", "[", ""), "is nested too deep");
        check(format, &repeated("[", r#"{"a":"#, ""), "is nested too deep");
        check(format, &repeated("[", "{},", "1]"), "traceId is missing");
        check(format, &repeated("[", " ", ""), "ends early");
        check(format, &repeated(ids, r#","a":1"#, "}]"), "nothing");
        check(format, &repeated(ids, r#","id":"3""#, "}]"), "nothing");
        check(format, &repeated(r#"[{"name":""#, "\\", ""), "ends early");
        check(format, &repeated(&format!("{ids},\"name\":\""), "\\\\", "\"}]"), "nothing");
        check(format, &repeated(r#"[{"timestamp":"#, "1", "}]"), "timestamp is out of range");
        check(format, &repeated(ids, "x", "}]"), "should be ',' or an end");
    }
    let annotations = format!("{ids},\"annotations\":[");
    let one = r#"{"timestamp":1,"value":"a"},"#;
    check(
        ZipkinJson,
        &repeated(&annotations, one, "{}]}]"),
        "annotations has more than 4096 annotations",
    );
    check(
        ZipkinV1Json,
        &repeated(&annotations, one, "{}]}]"),
        "annotations has more than 4096 annotations",
    );
    let tags = repeated(&format!("{ids},\"tags\":{{"), r#""a":"b","#, "\"\":1}}]");
    check(ZipkinJson, &tags, "tags has more than 1024 tags");
    let values = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"value":{"#;
    let list = r#""arrayValue":{"values":[]},"#;
    check(OtlpJson, &repeated(values, list, r#""x":0}}]}]}]}]}"#), "traceId is missing");
    let resource = r#"{"resourceSpans":[{"resource":{"attributes":["#;
    check(OtlpJson, &repeated(resource, "{},", "{}]}}]}"), "resource has more than 128 tags");
}

#[test]
fn many_hosts_are_refused_before_they_are_compared() {
    let mut batch = br#"[{"traceId":"1","id":"2","annotations":["#.to_vec();
    for host in 0..4096 {
        let one =
            format!(r#"{{"timestamp":1,"value":"a","endpoint":{{"serviceName":"{host}"}}}},"#);
        batch.extend_from_slice(one.as_bytes());
    }
    batch.pop();
    batch.extend_from_slice(b"]}]");
    let found = refusal(&read(ZipkinV1Json, &batch).1);
    assert_eq!(found, "span 0, byte 1: annotations has more than 32 hosts");
}

#[test]
fn long_binaries_are_read_or_refused() {
    for byte in 0..=u8::MAX {
        let batch = vec![byte; SIZE / 16];
        for format in [ZipkinProto, OtlpProto, ZipkinThrift] {
            let (spans, outcome) = read(format, &batch);
            assert!(spans.is_empty() || outcome.refused > 0, "{byte} {format:?}");
        }
    }
}

/// Nesting so deep that recursion would overflow the stack is refused under any limits.
#[test]
fn depth_has_a_bound_whatever_the_limits_say() {
    let unlimited = || Decoder::new(Limits { depth: usize::MAX, ..Limits::default() });
    // An attribute's value is field 2, a list 5, an item of it 1; from the innermost outwards.
    let mut reversed: Vec<u8> = Vec::new();
    let mut wrap = |keys: &[u8]| {
        for key in keys {
            let mut size = Vec::new();
            prost::encoding::encode_varint(reversed.len() as u64, &mut size);
            reversed.extend(size.iter().rev());
            reversed.push(*key);
        }
    };
    (0..20_000).for_each(|_| wrap(&[0x0a, 0x2a]));
    // Fields that contain the lists: value, attributes, spans, scope_spans and resource_spans.
    wrap(&[0x12, 0x4a, 0x12, 0x12, 0x0a]);
    reversed.reverse();
    let outcome = unlimited().decode(OtlpProto, &reversed, &mut Vec::new());
    assert!(refusal(&outcome).ends_with("attributes is nested too deep"), "{outcome:?}");
    let json = repeated(
        r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"a","value":"#,
        r#"{"arrayValue":{"values":["#,
        "",
    );
    let outcome = unlimited().decode(OtlpJson, &json, &mut Vec::new());
    assert!(refusal(&outcome).ends_with("is nested too deep"), "{outcome:?}");
    // Structures nested in structures.
    let thrift = repeated("", "\u{c}\0\u{63}", "");
    let outcome = unlimited().decode(
        ZipkinThrift,
        &[b"\x0c\0\0\0\x01", &thrift[..]].concat(),
        &mut Vec::new(),
    );
    assert!(refusal(&outcome).ends_with("is nested too deep"), "{outcome:?}");
}
