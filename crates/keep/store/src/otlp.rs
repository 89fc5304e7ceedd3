//! OTLP's events and links, parsed from annotations and tags of spans. Start at [`SpanEvent::of`]
//! and [`SpanLink::of`].
//!
//! An event is an annotation: its name, or `"NAME": {ATTRIBUTES}` with both in JSON. A link is a
//! tag `otlp.link.N` with the value `TRACE|SPAN|STATE|{ATTRIBUTES}|DROPPED`.

use blkkin_model::{SpanId, TraceId, ValueRef};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Prefix of the keys of link tags.
const LINK_KEY: &str = "otlp.link.";

/// Event of a span, as in OTLP: an annotation that may have attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanEvent<'t> {
    /// Name of the event; the whole annotation unless it is `"NAME": {ATTRIBUTES}`.
    pub name: Cow<'t, str>,
    attributes: &'t str,
}

/// Link of a span to another span, as in OTLP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanLink<'t> {
    /// Id of the request to which the linked span belongs.
    pub trace_id: TraceId,
    /// Id of the linked span within its request.
    pub span_id: SpanId,
    /// W3C's `tracestate` of the linked span; may be empty.
    pub trace_state: &'t str,
    attributes: &'t str,
}

/// Attribute of an event or a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute<'t> {
    /// Key of the attribute; unique within one event or link.
    pub key: String,
    value: AttributeValue<'t>,
}

#[derive(Clone, Debug, PartialEq)]
enum AttributeValue<'t> {
    Text(String),
    /// JSON text of a number, a boolean, null, a list, a map, or a string with an unpaired
    /// surrogate.
    Json(&'t str),
}

/// Attributes by key, from a JSON object. Values are parsed on demand.
type Attributes<'t> = BTreeMap<String, &'t RawValue>;

impl<'t> SpanEvent<'t> {
    /// Parses an annotation. In any other form than `"NAME": {ATTRIBUTES}`, it is an event without
    /// attributes.
    pub fn of(annotation: &'t str) -> SpanEvent<'t> {
        Self::parse_with_attributes(annotation)
            .unwrap_or(SpanEvent { name: Cow::Borrowed(annotation), attributes: "" })
    }

    fn parse_with_attributes(text: &'t str) -> Option<SpanEvent<'t>> {
        if !(text.starts_with('"') && text.ends_with('}')) {
            return None;
        }
        let mut names = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let name = names.next()?.ok()?;
        let attributes = text.get(names.byte_offset()..)?.strip_prefix(": ")?;
        serde_json::from_str::<Attributes<'_>>(attributes).ok()?;
        Some(SpanEvent { name: Cow::Owned(name), attributes })
    }

    /// Returns the attributes in order of key; empty if the event has none.
    pub fn attributes(&self) -> Vec<Attribute<'t>> {
        attributes_of(self.attributes)
    }

    /// Returns whether the event has an attribute with this key whose value passes `holds`.
    pub(crate) fn has(&self, key: &str, holds: impl FnOnce(ValueRef<'_>) -> bool) -> bool {
        has(self.attributes, key, holds)
    }
}

impl<'t> SpanLink<'t> {
    /// Parses a tag as a link; `None` if the tag is not a link.
    pub fn of(key: &str, value: &'t str) -> Option<SpanLink<'t>> {
        let number = key.strip_prefix(LINK_KEY)?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut parts = value.splitn(3, '|');
        let (trace_id, span_id, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let (rest, _dropped) = rest.rsplit_once('|')?;
        // A trace state that contained `|{` would hide the attributes; no such trace state is
        // known.
        let (trace_state, attributes) = match rest.strip_prefix("|") {
            Some(attributes) => ("", attributes),
            None => rest.split_once("|{").map(|(state, _)| (state, &rest[state.len() + 1..]))?,
        };
        if !attributes.starts_with('{') {
            return None;
        }
        let number = |digits: &str, length: usize| {
            let is_hex = digits.len() == length && digits.bytes().all(|it| it.is_ascii_hexdigit());
            is_hex.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
        };
        Some(SpanLink {
            trace_id: TraceId::from_number(number(trace_id, 32)?)?,
            span_id: SpanId::from_number(u64::try_from(number(span_id, 16)?).ok()?)?,
            trace_state,
            attributes,
        })
    }

    /// Returns the attributes in order of key; empty if they are not valid JSON.
    pub fn attributes(&self) -> Vec<Attribute<'t>> {
        attributes_of(self.attributes)
    }

    /// Returns whether the link has an attribute with this key whose value passes `holds`.
    pub(crate) fn has(&self, key: &str, holds: impl FnOnce(ValueRef<'_>) -> bool) -> bool {
        has(self.attributes, key, holds)
    }
}

impl<'t> Attribute<'t> {
    fn new(key: String, json: &'t RawValue) -> Attribute<'t> {
        let json = json.get();
        let text = json.starts_with('"').then(|| serde_json::from_str(json).ok()).flatten();
        let value = text.map_or(AttributeValue::Json(json), AttributeValue::Text);
        Attribute { key, value }
    }

    /// Returns the attribute's value. Lists, maps and strings with unpaired surrogates are returned
    /// as JSON text, and null as empty text.
    pub fn value(&self) -> ValueRef<'_> {
        let json = match &self.value {
            AttributeValue::Text(text) => return ValueRef::Str(text),
            AttributeValue::Json(json) => *json,
        };
        match json {
            "null" => ValueRef::Str(""),
            "true" => ValueRef::Bool(true),
            "false" => ValueRef::Bool(false),
            json => match (json.parse(), json.parse()) {
                (Ok(whole), _) => ValueRef::Int(whole),
                (Err(_), Ok(number)) => ValueRef::Double(number),
                (Err(_), Err(_)) => ValueRef::Str(json),
            },
        }
    }
}

fn attributes_of(json: &str) -> Vec<Attribute<'_>> {
    let map = serde_json::from_str::<Attributes<'_>>(json).unwrap_or_default();
    map.into_iter().map(|(key, json)| Attribute::new(key, json)).collect()
}

fn has(json: &str, key: &str, holds: impl FnOnce(ValueRef<'_>) -> bool) -> bool {
    // Most texts lack the key, and a substring search excludes them without parsing. Keys that JSON
    // escapes need the parser.
    let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    if json.is_empty() || is_plain && !json.contains(key) {
        return false;
    }
    let Ok(mut map) = serde_json::from_str::<Attributes<'_>>(json) else { return false };
    map.remove_entry(key).is_some_and(|(key, json)| holds(Attribute::new(key, json).value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_names_or_have_attributes() {
        let event = SpanEvent::of("cache \"miss\"");
        assert_eq!((&*event.name, event.attributes()), ("cache \"miss\"", vec![]));
        let event = SpanEvent::of(
            r#""a \"b\" é": {"exception.type":"E","n":3,"x":1.5,"ok":true,"l":[1, {"a":2}],"none":null,"f":0.9452706955539223,"max":1.7976931348623157e308}"#,
        );
        assert_eq!(event.name, "a \"b\" é");
        let attributes = event.attributes();
        let values: Vec<_> = attributes.iter().map(|it| (&*it.key, it.value())).collect();
        assert_eq!(
            values,
            [
                ("exception.type", ValueRef::Str("E")),
                ("f", ValueRef::Double(0.945_270_695_553_922_3)),
                ("l", ValueRef::Str(r#"[1, {"a":2}]"#)),
                ("max", ValueRef::Double(f64::MAX)),
                ("n", ValueRef::Int(3)),
                ("none", ValueRef::Str("")),
                ("ok", ValueRef::Bool(true)),
                ("x", ValueRef::Double(1.5)),
            ]
        );
        assert!(event.has("n", |value| value == ValueRef::Int(3)));
        assert!(!event.has("m", |_| true));
        // Texts that only resemble an event with attributes are names.
        for text in [
            "",
            "\"",
            "\"a\": {",
            "\"a\" {}",
            "\"a\": 7}",
            "{\"a\": {}",
            "\"\\q\": {}",
            "\"a\": {no}",
        ] {
            let event = SpanEvent::of(text);
            assert_eq!((&*event.name, event.attributes()), (text, vec![]));
        }
        let deep = format!("\"a\": {}{}", "{\"b\":".repeat(100_000), "}".repeat(100_000));
        assert_eq!(SpanEvent::of(&deep).attributes(), []);
    }

    #[test]
    fn links_lead_to_spans() {
        let id = "0123456789abcdef0123456789abcdef";
        let value = format!("{id}|00000000000000a1|k=v|w,b={{x}}|{{\"reason\":\"retry\"}}|2");
        let link = SpanLink::of("otlp.link.0", &value).expect("a link");
        assert_eq!(link.trace_id.number(), 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(link.span_id.number(), 0xa1);
        assert_eq!(link.trace_state, "k=v|w,b={x}");
        assert!(link.has("reason", |value| value == ValueRef::Str("retry")));
        let value = format!("{id}|00000000000000a1||{{}}|0");
        let link = SpanLink::of("otlp.link.12", &value).expect("a link");
        assert_eq!((link.trace_state, link.attributes()), ("", vec![]));
        for (key, value) in [
            ("otlp.link.", &*value),
            ("otlp.link.x", &value),
            ("tag", &value),
            ("otlp.link.0", ""),
            ("otlp.link.0", "1|2|3|{}|0"),
            ("otlp.link.0", &value[..50]),
            ("otlp.link.0", &value.replace("a1", "00")),
            ("otlp.link.0", &value.replace("{}", "")),
        ] {
            assert_eq!(SpanLink::of(key, value), None, "{key} {value}");
        }
    }
}
