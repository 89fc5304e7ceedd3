//! Conversion of spans to the JSON of BlkKin's own API, with all fields. Start at [`SpanJson`].
//!
//! Times are strings, because JavaScript's numbers cannot represent nanoseconds since 1970 exactly.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blkkin_model::{EndpointRef, Kind, Origin, SpanRef, Status, TagRef, ValueRef};
use serde::{Serialize, Serializer};

/// Largest integer up to which JavaScript represents all integers exactly.
const EXACT_MAX: u64 = 1 << 53;

/// Span in JSON, with all its fields, tags and annotations.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpanJson<'a> {
    #[serde(serialize_with = "display")]
    trace_id: blkkin_model::TraceId,
    #[serde(serialize_with = "display")]
    id: blkkin_model::SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    is_error: bool,
    #[serde(skip_serializing_if = "is_false")]
    debug: bool,
    #[serde(skip_serializing_if = "is_false")]
    shared: bool,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<EndpointJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<EndpointJson<'a>>,
    annotations: Vec<AnnotationJson<'a>>,
    tags: Vec<TagJson<'a>>,
}

#[derive(Serialize)]
struct EndpointJson<'a> {
    service: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnnotationJson<'a> {
    time_ns: String,
    value: &'a str,
}

#[derive(Serialize)]
struct TagJson<'a> {
    key: &'a str,
    value: ValueJson<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    origin: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ValueJson<'a> {
    Text(&'a str),
    Made(String),
    Int(i64),
    Bool(bool),
    Double(f64),
}

impl<'a> From<&SpanRef<'a>> for SpanJson<'a> {
    fn from(span: &SpanRef<'a>) -> SpanJson<'a> {
        SpanJson {
            trace_id: span.trace_id,
            id: span.id,
            parent_id: span.parent_id.map(|id| id.to_string()),
            kind: match span.kind {
                Kind::Unspecified => None,
                Kind::Internal => Some("internal"),
                Kind::Client => Some("client"),
                Kind::Server => Some("server"),
                Kind::Producer => Some("producer"),
                Kind::Consumer => Some("consumer"),
            },
            status: match span.status {
                Status::Unset => None,
                Status::Ok => Some("ok"),
                Status::Error => Some("error"),
            },
            is_error: span.is_error(),
            debug: span.debug,
            shared: span.shared,
            name: span.name,
            start_ns: span.start_ns.map(|time| time.to_string()),
            duration_ns: span.duration_ns,
            local: endpoint(&span.local),
            remote: endpoint(&span.remote),
            annotations: span
                .annotations
                .iter()
                .map(|annotation| AnnotationJson {
                    time_ns: annotation.time_ns.to_string(),
                    value: annotation.value,
                })
                .collect(),
            tags: span.tags.iter().map(tag).collect(),
        }
    }
}

fn endpoint<'a>(endpoint: &EndpointRef<'a>) -> Option<EndpointJson<'a>> {
    (!endpoint.is_none()).then(|| EndpointJson {
        service: endpoint.service,
        ipv4: endpoint.ipv4.map(|address| address.to_string()),
        ipv6: endpoint.ipv6.map(|address| address.to_string()),
        port: (endpoint.port != 0).then_some(endpoint.port),
    })
}

fn tag<'a>(tag: &TagRef<'a>) -> TagJson<'a> {
    let (kind, value) = match tag.value {
        ValueRef::Str(text) => ("string", ValueJson::Text(text)),
        ValueRef::Int(number) if number.unsigned_abs() > EXACT_MAX => {
            ("int", ValueJson::Made(number.to_string()))
        }
        ValueRef::Int(number) => ("int", ValueJson::Int(number)),
        ValueRef::Bool(flag) => ("bool", ValueJson::Bool(flag)),
        ValueRef::Double(number) if number.is_finite() => ("double", ValueJson::Double(number)),
        ValueRef::Double(number) => ("double", ValueJson::Made(number.to_string())),
        ValueRef::Bytes(bytes) => ("bytes", ValueJson::Made(STANDARD.encode(bytes))),
    };
    let origin = match tag.origin {
        Origin::Resource => "resource",
        Origin::Scope => "scope",
        Origin::Span => "span",
    };
    TagJson { key: tag.key, value, kind, origin }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

pub(crate) fn display<S: Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
