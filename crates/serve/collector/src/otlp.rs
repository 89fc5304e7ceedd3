//! Spans from OpenTelemetry's exporters, over HTTP. Start at [`Collector::otlp`].
//!
//! Valid spans are stored. The number of refused spans and the first reason are returned as the
//! protocol's partial success.

use crate::collector::{Submission, compression, kind};
use crate::protobuf::Fields;
use crate::rejection::Rejection;
use crate::response_body::answer;
use crate::zipkin::with_retry_after;
use crate::{Answer, Collector, Transport};
use blkkin_store::{AcceptedBatch, Policy};
use blkkin_wire::{End, Format, Outcome};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Body;
use serde_json::json;
use std::fmt::Display;

/// Code of `google.rpc.Code` for an invalid message. The following constants are the other error
/// codes that the collector sends.
pub(crate) const INVALID_ARGUMENT: u8 = 3;
pub(crate) const DEADLINE_EXCEEDED: u8 = 4;
pub(crate) const NOT_FOUND: u8 = 5;
pub(crate) const RESOURCE_EXHAUSTED: u8 = 8;
pub(crate) const UNIMPLEMENTED: u8 = 12;
pub(crate) const UNAVAILABLE: u8 = 14;

/// Encoding of a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Proto,
    Json,
}

impl Collector {
    /// Answers `POST /v1/traces`, the export of spans by OpenTelemetry.
    pub async fn otlp<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let (head, body) = request.into_parts();
        let (encoding, format) = match kind(&head.headers).as_str() {
            "application/json" => (Encoding::Json, Format::OtlpJson),
            "application/x-protobuf" | "application/protobuf" => {
                (Encoding::Proto, Format::OtlpProto)
            }
            other => {
                let trouble = Rejection::Unknown(format!(
                    "content type {other:?} is not known here; application/x-protobuf and \
                     application/json are"
                ));
                self.count_rejection(Transport::OtlpHttp, &trouble);
                return encoding_of(other).rejected(&trouble);
            }
        };
        let transport = Transport::OtlpHttp;
        let stored = match self.receive(transport, body).await {
            Err(trouble) => Err(trouble),
            Ok(message) => match compression(&head.headers) {
                Err(trouble) => {
                    self.count_rejection(transport, &trouble);
                    Err(trouble)
                }
                Ok(compression) => {
                    let policy = Policy::EachSpan;
                    let load = Submission { transport, format, policy, compression, message };
                    self.store(load, |_, _| Ok(())).await
                }
            },
        };
        match stored.and_then(whole) {
            Ok(outcome) => encoding.accepted(&outcome),
            Err(trouble) => encoding.rejected(&trouble),
        }
    }
}

/// Returns the outcome of a batch, or an error if decoding stopped at a fault of its structure or
/// at a limit. The error is permanent, because the same bytes would fail again.
pub(crate) fn whole(accepted: AcceptedBatch) -> Result<Outcome, Rejection> {
    let outcome = accepted.outcome;
    match &outcome.end {
        End::Broken(refusal) => {
            let taken = match outcome.accepted {
                0 => String::new(),
                given => format!("; {given} spans before it were taken"),
            };
            Err(Rejection::Invalid(format!("{refusal}{taken}")))
        }
        End::Whole | End::Cancelled => Ok(outcome),
    }
}

/// Encodes an `ExportTraceServiceResponse`, which is empty if no span was refused.
pub(crate) fn response(outcome: &Outcome) -> Fields {
    let Some(text) = refused(outcome) else { return Fields::default() };
    let partial = Fields::default().number(1, outcome.refused).bytes(2, text.as_bytes());
    Fields::default().message(1, partial)
}

/// Returns the reason for the first refused span; `None` if no span was refused.
fn refused(outcome: &Outcome) -> Option<String> {
    outcome.first_refusal().map(ToString::to_string)
}

/// Encodes a `google.rpc.Status` with an error code and a message.
pub(crate) fn status(code: u8, text: &str) -> Fields {
    Fields::default().number(1, code.into()).bytes(2, text.as_bytes())
}

/// Returns the encoding of the error answer if the request's content type is unknown: JSON if the
/// type ends with `json`.
fn encoding_of(kind: &str) -> Encoding {
    if kind.ends_with("json") { Encoding::Json } else { Encoding::Proto }
}

impl Encoding {
    fn answer(self, status: StatusCode, bytes: Vec<u8>) -> Answer {
        let kind = match self {
            Encoding::Proto => "application/x-protobuf",
            Encoding::Json => "application/json",
        };
        let mut answer = answer(status, kind, bytes);
        // Even an empty message needs a content type.
        let kind = http::HeaderValue::from_static(kind);
        answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        answer
    }

    fn accepted(self, outcome: &Outcome) -> Answer {
        let bytes = match (self, refused(outcome)) {
            (Encoding::Proto, _) => response(outcome).into_bytes(),
            (Encoding::Json, None) => b"{}".to_vec(),
            (Encoding::Json, Some(text)) => {
                let rejected = outcome.refused.to_string();
                let partial = json!({ "rejectedSpans": rejected, "errorMessage": text });
                json!({ "partialSuccess": partial }).to_string().into_bytes()
            }
        };
        self.answer(StatusCode::OK, bytes)
    }

    fn rejected(self, trouble: &Rejection) -> Answer {
        let (http, code) = match trouble {
            Rejection::Invalid(_) => (StatusCode::BAD_REQUEST, INVALID_ARGUMENT),
            Rejection::Unknown(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, UNIMPLEMENTED),
            Rejection::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, RESOURCE_EXHAUSTED),
            Rejection::Timeout => (StatusCode::REQUEST_TIMEOUT, DEADLINE_EXCEEDED),
            Rejection::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
        };
        let text = trouble.to_string();
        let bytes = match self {
            Encoding::Proto => status(code, &text).into_bytes(),
            Encoding::Json => json!({ "code": code, "message": text }).to_string().into_bytes(),
        };
        with_retry_after(self.answer(http, bytes), trouble)
    }
}
