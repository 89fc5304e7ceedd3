//! Conversion of spans to Zipkin's terms, for all of Zipkin's formats: microseconds, names in lower
//! case, tags as text, and the core annotations of the v1 format.

use crate::render::{base64, display, signed};
use blkkin_model::{EndpointRef, Kind, SpanRef, Status, TagRef, ValueRef};
use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Converts a name to lower case.
#[inline]
pub(crate) fn lower(name: &str) -> Cow<'_, str> {
    let is_lower = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) }
}

/// The latest representable time, in microseconds since 1970.
const LAST_US: u64 = u64::MAX / 1000;

/// Returns the start of the span in microseconds since 1970; 0 means unknown.
#[inline]
pub(crate) fn start_us(span: &SpanRef<'_>) -> u64 {
    span.start_ns.unwrap_or(0) / 1000
}

/// Returns the duration of the span in microseconds: at least 1 if known, or else 0.
#[inline]
pub(crate) fn duration_us(span: &SpanRef<'_>) -> u64 {
    span.duration_ns.map_or(0, |duration_ns| (duration_ns / 1000).max(1))
}

/// Returns Zipkin's name of a span kind.
pub(crate) fn kind(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Client => Some("CLIENT"),
        Kind::Server => Some("SERVER"),
        Kind::Producer => Some("PRODUCER"),
        Kind::Consumer => Some("CONSUMER"),
        Kind::Unspecified | Kind::Internal => None,
    }
}

const STATUS: &str = "otel.status_code";

/// Calls `take` with one tag for each key, sorted by key, including at most two tags for the
/// status. A tag `error` with the boolean value false is omitted.
#[inline]
pub(crate) fn tags(span: &SpanRef<'_>, mut take: impl FnMut(&str, &str)) {
    let mut memory = Vec::new();
    let mut rest = span.tags;
    let mut added = status_tags(span).into_iter().flatten().peekable();
    while let Some((tag, more)) = rest.split_first() {
        rest = more;
        // Of several tags with the same key, the last is written. Tags of the span come after those
        // of its scope and resource.
        if more.first().is_some_and(|next| next.key == tag.key) || is_error_false(tag) {
            continue;
        }
        while let Some((key, value)) = added.next_if(|(key, _)| *key < tag.key) {
            take(key, value);
        }
        if added.peek().is_some_and(|(key, _)| *key == tag.key) {
            added.next();
        }
        take(tag.key, text(&tag.value, &mut memory));
    }
    added.for_each(|(key, value)| take(key, value));
}

/// Returns true for a tag `error` with the boolean value false. Zipkin treats any span with the tag
/// as failed, regardless of the tag's value.
fn is_error_false(tag: &TagRef<'_>) -> bool {
    tag.key == "error" && tag.value == ValueRef::Bool(false)
}

/// Returns the tags that represent the status. An existing tag of the same key takes precedence.
fn status_tags(span: &SpanRef<'_>) -> [Option<(&'static str, &'static str)>; 2] {
    match span.status {
        Status::Unset => [None, None],
        Status::Ok => [None, Some((STATUS, "OK"))],
        Status::Error => [Some(("error", "")), Some((STATUS, "ERROR"))],
    }
}

/// Formats a tag's value as text; bytes become base64.
#[inline]
fn text<'v>(value: &ValueRef<'v>, memory: &'v mut Vec<u8>) -> &'v str {
    if let ValueRef::Str(text) = value {
        return text;
    }
    memory.clear();
    match value {
        ValueRef::Str(_) => {}
        ValueRef::Int(number) => signed(memory, *number),
        ValueRef::Bool(flag) => display(memory, flag),
        ValueRef::Double(number) if number.is_finite() => display(memory, number),
        ValueRef::Double(number) => {
            memory.extend_from_slice(crate::render::not_finite(*number).as_bytes());
        }
        ValueRef::Bytes(bytes) => base64(memory, bytes),
    }
    std::str::from_utf8(memory).unwrap_or_default()
}

/// Formats an IPv6 address as Zipkin does. The longest run of zeros is abbreviated, even a single
/// group. A run at the end is abbreviated only if there is no other run.
pub(crate) fn ipv6(address: Ipv6Addr) -> String {
    let groups = address.segments();
    if groups == [0; 8] {
        return "::".to_owned();
    }
    let run = longest_run(&groups);
    let mut text = String::with_capacity(39);
    let mut index = 0;
    while index < groups.len() {
        if index == run.0 && run.1 > 0 {
            text.push_str("::");
            index += run.1;
            continue;
        }
        if index > 0 && !text.ends_with(':') {
            text.push(':');
        }
        text.push_str(&format!("{:x}", groups[index]));
        index += 1;
    }
    text
}

/// Returns the start and length of the abbreviated run of zeros.
fn longest_run(groups: &[u16; 8]) -> (usize, usize) {
    let (mut best, mut start) = ((0, 0), None);
    for (index, group) in groups.iter().enumerate() {
        match (group, start) {
            (0, None) => start = Some(index),
            (0, Some(_)) | (_, None) => {}
            (_, Some(begin)) => {
                if index - begin > best.1 {
                    best = (begin, index - begin);
                }
                start = None;
            }
        }
    }
    match start {
        Some(begin) if best.1 == 0 => (begin, groups.len() - begin),
        _ => best,
    }
}

/// Time in microseconds and name of a core annotation.
pub(crate) type CoreAnnotation = (u64, &'static str);

/// Representation of kind, times and remote endpoint in the v1 format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct V1Fields {
    /// Start of the span in microseconds; 0 if unknown, and for a shared span, whose times the
    /// other side records.
    pub(crate) start_us: u64,
    pub(crate) duration_us: u64,
    pub(crate) begin: Option<CoreAnnotation>,
    pub(crate) end: Option<CoreAnnotation>,
    /// Key of the address annotation for the remote endpoint.
    pub(crate) address: &'static str,
    /// Set if the writer must add an empty `lc` annotation with the local endpoint, because no
    /// other annotation or tag carries that endpoint.
    pub(crate) needs_marker: bool,
}

impl V1Fields {
    pub(crate) fn of(span: &SpanRef<'_>) -> V1Fields {
        let (start_us, duration_us) = (start_us(span), duration_us(span));
        let has_end = start_us > 0 && duration_us > 0;
        let (begin, end, address) = match span.kind {
            Kind::Client => ("cs", "cr", "sa"),
            Kind::Server => ("sr", "ss", "ca"),
            Kind::Producer => ("ms", "ws", "ma"),
            Kind::Consumer if has_end => ("wr", "mr", "ma"),
            Kind::Consumer => ("mr", "", "ma"),
            Kind::Unspecified | Kind::Internal => ("", "", "sa"),
        };
        let begin = Some((start_us, begin)).filter(|(us, word)| *us > 0 && !word.is_empty());
        // Readers refuse later times.
        let end = Some((start_us.saturating_add(duration_us).min(LAST_US), end));
        let end = end.filter(|(_, word)| has_end && !word.is_empty());
        let (own_start, own_duration) = if span.shared { (0, 0) } else { (start_us, duration_us) };
        let says_nothing = begin.is_none() && span.annotations.is_empty() && span.tags.is_empty();
        V1Fields {
            start_us: own_start,
            duration_us: own_duration,
            begin,
            end,
            address,
            needs_marker: says_nothing && !span.local.is_none(),
        }
    }

    /// Calls `take` with the time in microseconds and the text of each annotation, including the
    /// core annotations.
    pub(crate) fn annotations(&self, span: &SpanRef<'_>, mut take: impl FnMut(u64, &str)) {
        if let Some((us, word)) = self.begin {
            take(us, word);
        }
        span.annotations.iter().for_each(|it| take(it.time_ns / 1000, it.value));
        if let Some((us, word)) = self.end {
            take(us, word);
        }
    }
}

/// Returns the endpoint; `None` if it is empty.
pub(crate) fn non_empty<'e>(endpoint: &EndpointRef<'e>) -> Option<EndpointRef<'e>> {
    Some(*endpoint).filter(|endpoint| !endpoint.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::{Origin, SpanId, TraceId};

    #[test]
    fn addresses_are_printed_as_zipkin_does() {
        fn check(address: &str, expected: &str) {
            assert_eq!(ipv6(address.parse().expect("an address")), expected);
        }
        check("2001:db8::c001", "2001:db8::c001");
        check("2001:0:0:4::", "2001::4:0:0:0:0");
        check("2001::", "2001::");
        check("::1", "::1");
        check("::", "::");
        check("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8");
        check("1:0:3:4:5:6:7:8", "1::3:4:5:6:7:8");
        check("1:0:3:0:0:6:7:8", "1:0:3::6:7:8");
        check("1:0:0:4:5:0:0:8", "1::4:5:0:0:8");
        check("0:2:3:4:5:6:7:8", "::2:3:4:5:6:7:8");
        check("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7::");
        check("::ffff:1.2.3.4", "::ffff:102:304");
    }

    #[test]
    fn names_are_put_in_lower_case() {
        for (name, expected) in [("", ""), ("get", "get"), ("GET /Ü", "get /ü"), ("日本", "日本")]
        {
            assert_eq!(lower(name), expected);
        }
    }

    #[test]
    fn tags_are_text() {
        fn check(status: Status, said: &[(&str, ValueRef<'_>, Origin)], expected: &str) {
            let said: Vec<TagRef<'_>> =
                said.iter().map(|&(key, value, origin)| TagRef { key, value, origin }).collect();
            let trace_id = TraceId::from_number(1).expect("not 0");
            let id = SpanId::from_number(1).expect("not 0");
            let span = SpanRef { status, tags: &said, ..SpanRef::new(trace_id, id) };
            let mut found = Vec::new();
            tags(&span, |key, value| found.push(format!("{key}={value}")));
            assert_eq!(found.join(" "), expected);
        }
        use Origin::{Resource, Scope, Span};
        use ValueRef::{Bool, Bytes, Double, Int, Str};
        check(Status::Unset, &[], "");
        let typed = [
            ("a", Int(-1), Span),
            ("b", Bool(true), Resource),
            ("c", Double(1.5), Scope),
            ("d", Bytes(b"fo"), Span),
            ("e", Double(f64::NEG_INFINITY), Span),
            ("f", Str("x"), Span),
        ];
        check(Status::Unset, &typed, "a=-1 b=true c=1.5 d=Zm8= e=-Infinity f=x");
        let twice = [("a", Int(1), Resource), ("a", Int(2), Scope), ("a", Int(3), Span)];
        check(Status::Unset, &twice, "a=3");
        check(Status::Ok, &[("z", Int(1), Span)], "otel.status_code=OK z=1");
        check(Status::Error, &[], "error= otel.status_code=ERROR");
        let error = [("error", Str("gone"), Span), ("p", Int(1), Span)];
        check(Status::Error, &error, "error=gone otel.status_code=ERROR p=1");
        check(Status::Unset, &[("error", Bool(false), Span)], "");
        check(Status::Error, &[("error", Bool(false), Span)], "error= otel.status_code=ERROR");
    }
}
