//! Spans as OpenTelemetry's exporters post them. Start at [`Collector::otlp`].
//!
//! Good spans are taken, and how many were not is said with the first reason, which is what the protocol calls a
//! partial success.

use crate::collector::{Load, kind, packing};
use crate::content::answer;
use crate::protobuf::Fields;
use crate::trouble::Trouble;
use crate::zipkin::with_retry_after;
use crate::{Answer, Collector, Transport};
use blkkin_store::{Accepted, Policy};
use blkkin_wire::{End, Format, Outcome};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Body;
use serde_json::json;
use std::fmt::Display;

/// Codes of `google.rpc.Code`.
pub(crate) const INVALID_ARGUMENT: u8 = 3;
pub(crate) const DEADLINE_EXCEEDED: u8 = 4;
pub(crate) const NOT_FOUND: u8 = 5;
pub(crate) const RESOURCE_EXHAUSTED: u8 = 8;
pub(crate) const UNIMPLEMENTED: u8 = 12;
pub(crate) const UNAVAILABLE: u8 = 14;

/// How an answer is written: as the request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Proto,
    Json,
}

impl Collector {
    /// Answers `POST /v1/traces`.
    pub async fn otlp<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let (head, body) = request.into_parts();
        let (way, format) = match kind(&head.headers).as_str() {
            "application/json" => (Way::Json, Format::OtlpJson),
            "application/x-protobuf" | "application/protobuf" => (Way::Proto, Format::OtlpProto),
            other => {
                let trouble = Trouble::Unknown(format!(
                    "content type {other:?} is not known here; application/x-protobuf and \
                     application/json are"
                ));
                self.count_trouble(Transport::OtlpHttp, &trouble);
                return way_of(other).troubled(&trouble);
            }
        };
        let transport = Transport::OtlpHttp;
        let stored = match self.receive(transport, body).await {
            Err(trouble) => Err(trouble),
            Ok(message) => match packing(&head.headers) {
                Err(trouble) => {
                    self.count_trouble(transport, &trouble);
                    Err(trouble)
                }
                Ok(packing) => {
                    let policy = Policy::EachSpan;
                    let load = Load { transport, format, policy, packing, message };
                    self.store(load, |_, _| Ok(())).await
                }
            },
        };
        match stored.and_then(whole) {
            Ok(outcome) => way.took(&outcome),
            Err(trouble) => way.troubled(&trouble),
        }
    }
}

/// What came of a batch, unless it broke off: then it was no message of the protocol, and sending it again does not
/// help.
pub(crate) fn whole(accepted: Accepted) -> Result<Outcome, Trouble> {
    let outcome = accepted.outcome;
    match &outcome.end {
        End::Broken(refusal) => {
            let taken = match outcome.given {
                0 => String::new(),
                given => format!("; {given} spans before it were taken"),
            };
            Err(Trouble::Bad(format!("{refusal}{taken}")))
        }
        End::Whole | End::Enough => Ok(outcome),
    }
}

/// `ExportTraceServiceResponse`.
pub(crate) fn response(outcome: &Outcome) -> Fields {
    let Some(text) = refused(outcome) else { return Fields::default() };
    let partial = Fields::default().number(1, outcome.refused).bytes(2, text.as_bytes());
    Fields::default().message(1, partial)
}

/// The first reason why a span was refused, if one was.
fn refused(outcome: &Outcome) -> Option<String> {
    outcome.first_refusal().map(ToString::to_string)
}

/// `google.rpc.Status`.
pub(crate) fn status(code: u8, text: &str) -> Fields {
    Fields::default().number(1, code.into()).bytes(2, text.as_bytes())
}

/// The way of a type that is not known.
fn way_of(kind: &str) -> Way {
    if kind.ends_with("json") { Way::Json } else { Way::Proto }
}

impl Way {
    fn answer(self, status: StatusCode, bytes: Vec<u8>) -> Answer {
        let kind = match self {
            Way::Proto => "application/x-protobuf",
            Way::Json => "application/json",
        };
        let mut answer = answer(status, kind, bytes);
        // An empty message has a type too.
        let kind = http::HeaderValue::from_static(kind);
        answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        answer
    }

    fn took(self, outcome: &Outcome) -> Answer {
        let bytes = match (self, refused(outcome)) {
            (Way::Proto, _) => response(outcome).into_bytes(),
            (Way::Json, None) => b"{}".to_vec(),
            (Way::Json, Some(text)) => {
                let rejected = outcome.refused.to_string();
                let partial = json!({ "rejectedSpans": rejected, "errorMessage": text });
                json!({ "partialSuccess": partial }).to_string().into_bytes()
            }
        };
        self.answer(StatusCode::OK, bytes)
    }

    fn troubled(self, trouble: &Trouble) -> Answer {
        let (http, code) = match trouble {
            Trouble::Bad(_) => (StatusCode::BAD_REQUEST, INVALID_ARGUMENT),
            Trouble::Unknown(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, UNIMPLEMENTED),
            Trouble::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, RESOURCE_EXHAUSTED),
            Trouble::Slow => (StatusCode::REQUEST_TIMEOUT, DEADLINE_EXCEEDED),
            Trouble::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
        };
        let text = trouble.to_string();
        let bytes = match self {
            Way::Proto => status(code, &text).into_bytes(),
            Way::Json => json!({ "code": code, "message": text }).to_string().into_bytes(),
        };
        with_retry_after(self.answer(http, bytes), trouble)
    }
}
