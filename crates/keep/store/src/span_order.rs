//! Equality and total order of spans, which recognize duplicates. Start at [`compare`].

use blkkin_model::{EndpointRef, Kind, Origin, SpanRef, Status, TagRef, ValueRef};
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Compares spans of a request by start, and then by all other fields. Spans without a start come
/// first. Spans are equal only if all fields are equal; a NaN equals itself.
pub fn compare(one: &SpanRef<'_>, other: &SpanRef<'_>) -> Ordering {
    one.start_ns
        .cmp(&other.start_ns)
        .then_with(|| core_fields(one).cmp(&core_fields(other)))
        .then_with(|| endpoint_keys(one).cmp(&endpoint_keys(other)))
        .then_with(|| one.annotations.cmp(other.annotations))
        .then_with(|| one.tags.iter().map(tag_key).cmp(other.tags.iter().map(tag_key)))
}

/// Returns a hash over all fields of a span. Equal spans have equal hashes.
pub fn fingerprint(span: &SpanRef<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (span.start_ns, core_fields(span), endpoint_keys(span), span.annotations).hash(&mut hasher);
    span.tags.iter().map(tag_key).for_each(|tag| tag.hash(&mut hasher));
    hasher.finish()
}

/// Ids, flags, kind, status, name and duration of a span, in the order of comparison.
type CoreFields<'a> = (u128, u64, bool, Option<u64>, Kind, Status, bool, &'a str, Option<u64>);

fn core_fields<'a>(span: &SpanRef<'a>) -> CoreFields<'a> {
    let parent = span.parent_id.map(|id| id.number());
    let (trace, id) = (span.trace_id.number(), span.id.number());
    let SpanRef { shared, kind, status, debug, name, duration_ns, .. } = *span;
    (trace, id, shared, parent, kind, status, debug, name, duration_ns)
}

type EndpointKey<'a> = (&'a str, Option<[u8; 4]>, Option<[u8; 16]>, u16);

fn endpoint_keys<'a>(span: &SpanRef<'a>) -> (EndpointKey<'a>, EndpointKey<'a>) {
    let end = |end: EndpointRef<'a>| {
        (end.service, end.ipv4.map(|ip| ip.octets()), end.ipv6.map(|ip| ip.octets()), end.port)
    };
    (end(span.local), end(span.remote))
}

/// Tag value with its type, as a sort key.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ValueKey<'a> {
    Str(&'a str),
    Int(i64),
    Bool(bool),
    /// Floating-point number as its bits.
    Double(u64),
    Bytes(&'a [u8]),
}

fn tag_key<'a>(tag: &TagRef<'a>) -> (&'a str, Origin, ValueKey<'a>) {
    let value = match tag.value {
        ValueRef::Str(text) => ValueKey::Str(text),
        ValueRef::Int(number) => ValueKey::Int(number),
        ValueRef::Bool(flag) => ValueKey::Bool(flag),
        ValueRef::Double(number) => ValueKey::Double(number.to_bits()),
        ValueRef::Bytes(bytes) => ValueKey::Bytes(bytes),
    };
    (tag.key, tag.origin, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::{AnnotationRef, SpanId, TraceId};
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Spans that differ in only one field are unequal. A span with a start sorts after spans
    /// without one.
    #[test]
    fn spans_that_differ_are_told_apart() {
        let trace = |number| TraceId::from_number(number).expect("not 0");
        let id = |number| SpanId::from_number(number).expect("not 0");
        let plain = SpanRef::new(trace(1), id(1));
        let end = EndpointRef { service: "a", ..EndpointRef::NONE };
        let annotations =
            [AnnotationRef { time_ns: 1, value: "a" }, AnnotationRef { time_ns: 1, value: "b" }];
        let values = [
            ValueRef::Str("1"),
            ValueRef::Int(1),
            ValueRef::Bool(true),
            ValueRef::Double(0.0),
            ValueRef::Double(-0.0),
            ValueRef::Double(f64::NAN),
            ValueRef::Bytes(b"1"),
        ];
        let tags: Vec<[TagRef<'_>; 1]> = values
            .iter()
            .map(|value| [TagRef { key: "k", value: *value, origin: Origin::Span }])
            .chain([[TagRef { key: "k", value: values[0], origin: Origin::Scope }]])
            .chain([[TagRef { key: "l", value: values[0], origin: Origin::Span }]])
            .collect();
        let mut spans = vec![
            plain,
            SpanRef { trace_id: trace(1 | 1 << 64), ..plain },
            SpanRef { id: id(2), ..plain },
            SpanRef { parent_id: Some(id(3)), ..plain },
            SpanRef { kind: Kind::Client, ..plain },
            SpanRef { status: Status::Ok, ..plain },
            SpanRef { debug: true, ..plain },
            SpanRef { shared: true, ..plain },
            SpanRef { name: "a", ..plain },
            SpanRef { start_ns: Some(0), ..plain },
            SpanRef { start_ns: Some(u64::MAX), ..plain },
            SpanRef { duration_ns: Some(0), ..plain },
            SpanRef { local: end, ..plain },
            SpanRef { remote: end, ..plain },
            SpanRef { local: EndpointRef { ipv4: Some(Ipv4Addr::LOCALHOST), ..end }, ..plain },
            SpanRef { local: EndpointRef { ipv6: Some(Ipv6Addr::LOCALHOST), ..end }, ..plain },
            SpanRef { local: EndpointRef { port: 1, ..end }, ..plain },
            SpanRef { annotations: &annotations[..1], ..plain },
            SpanRef { annotations: &annotations, ..plain },
        ];
        spans.extend(tags.iter().map(|tags| SpanRef { tags, ..plain }));
        for (at, one) in spans.iter().enumerate() {
            for (other_at, other) in spans.iter().enumerate() {
                let same = at == other_at;
                assert_eq!(compare(one, other).is_eq(), same, "{one:?} {other:?}");
                assert_eq!(compare(one, other), compare(other, one).reverse());
                assert_eq!(fingerprint(one) == fingerprint(other), same, "{one:?} {other:?}");
            }
        }
        spans.sort_by(compare);
        assert_eq!(spans.last().and_then(|span| span.start_ns), Some(u64::MAX));
        assert_eq!(spans[spans.len() - 2].start_ns, Some(0));
    }
}
