//! Server side of three gRPC calls: OpenTelemetry's `TraceService/Export`, Zipkin's
//! `SpanService/Report`, and the health probe `grpc.health.v1.Health/Check`. Start at
//! [`Collector::grpc`].
//!
//! Each call is a single message and a single answer over HTTP/2, and `export/wire` decodes the
//! spans. This file implements the other requirements of gRPC. A message has a prefix of five
//! bytes: compression flag, then the length as a big-endian 32-bit integer. The status is in
//! trailers, or in the headers of an answer without a message.

use crate::body::read;
use crate::collector::Submission;
use crate::decompress::{Compression, KNOWN};
use crate::otlp::{
    DEADLINE_EXCEEDED, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE, UNIMPLEMENTED,
    response, status, whole,
};
use crate::protobuf::Fields;
use crate::rejection::Rejection;
use crate::response_body::{Answer, Content};
use crate::zipkin::describe_refusal;
use crate::{Collector, Transport};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use blkkin_store::{AcceptedBatch, Policy};
use blkkin_wire::Format;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body::Body;
use std::fmt::{Display, Write};

const OTLP: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const ZIPKIN: &str = "/zipkin.proto3.SpanService/Report";

/// Path of the health check call. `Watch` is not implemented; probes do not need it.
pub const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Services whose health can be queried: the whole server (empty name), and the two services that
/// receive spans.
const SERVICES: [&str; 3] =
    ["", "opentelemetry.proto.collector.trace.v1.TraceService", "zipkin.proto3.SpanService"];

/// Value of `HealthCheckResponse.ServingStatus` while the store accepts batches. `NOT_SERVING` is
/// the value while the store refuses batches.
const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;

/// Maximum size of a health check's request, in bytes.
const QUESTION_BYTES: usize = 1 << 10;

/// Length of the prefix of a message in bytes: compression flag and length.
const PREFIX: usize = 5;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPTED_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Call that sends a batch of spans.
struct SpanCall {
    /// Transport as which the message is counted.
    transport: Transport,
    /// Format of the batch.
    format: Format,
    /// Policy for invalid spans.
    policy: Policy,
}

impl Collector {
    /// Answers a gRPC call, which is a request with the content type `application/grpc`.
    pub async fn grpc<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let (head, body) = request.into_parts();
        let result = match head.uri.path() {
            OTLP => self.export(&head.headers, body).await,
            ZIPKIN => self.report(&head.headers, body).await,
            HEALTH => return self.health(&head.headers, body).await,
            path => Err(Rejection::Unknown(format!("there is no {path}"))),
        };
        match result {
            Ok(message) => succeeded(message),
            Err(trouble) => failed(&trouble),
        }
    }

    async fn export<B>(&self, headers: &HeaderMap, body: B) -> Result<Fields, Rejection>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let call = SpanCall {
            transport: Transport::OtlpGrpc,
            format: Format::OtlpProto,
            policy: Policy::EachSpan,
        };
        let accepted = self.call(call, headers, body).await?;
        whole(accepted).map(|outcome| response(&outcome))
    }

    async fn report<B>(&self, headers: &HeaderMap, body: B) -> Result<Fields, Rejection>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let format = Format::ZipkinProto;
        let policy = self.settings.policy;
        let call = SpanCall { transport: Transport::Grpc, format, policy };
        let outcome = self.call(call, headers, body).await?.outcome;
        match outcome.first_refusal() {
            Some(refusal) => {
                Err(Rejection::Invalid(describe_refusal(format, refusal, outcome.accepted)))
            }
            None => Ok(Fields::default()),
        }
    }

    /// Answers a health check: `NOT_SERVING` while the store refuses batches, else `SERVING`. The
    /// call fails if the service is unknown.
    async fn health<B>(&self, headers: &HeaderMap, body: B) -> Answer
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let read = read(body, QUESTION_BYTES, self.buffers(), &self.settings).await;
        let service = read.and_then(|body| match frame(&body, headers)? {
            Compression::None => Ok(service(&body[PREFIX..])),
            _ => Err(Rejection::Unknown("questions for health are not packed".to_owned())),
        });
        match service {
            Ok(Some(service)) if SERVICES.contains(&service.as_str()) => {
                let status = if self.refusal().is_some() { NOT_SERVING } else { SERVING };
                succeeded(Fields::default().number(1, status))
            }
            Ok(_) => failure(NOT_FOUND, "there is no such service"),
            Err(trouble) => failed(&trouble),
        }
    }

    async fn call<B>(
        &self,
        call: SpanCall,
        headers: &HeaderMap,
        body: B,
    ) -> Result<AcceptedBatch, Rejection>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let SpanCall { transport, format, policy } = call;
        let body = self.receive(transport, body).await?;
        let compression = frame(&body, headers)
            .inspect_err(|trouble| self.count_rejection(transport, trouble))?;
        let message = body.skip(PREFIX);
        self.store(Submission { transport, format, policy, compression, message }, |_, _| Ok(()))
            .await
    }
}

/// Validates the prefix of a call's only message, and returns the message's compression.
fn frame(body: &[u8], headers: &HeaderMap) -> Result<Compression, Rejection> {
    let bad = |text: &str| Err(Rejection::Invalid(text.to_owned()));
    let Some((prefix, rest)) = body.split_first_chunk::<PREFIX>() else {
        return bad("call has no message");
    };
    let [flag, len @ ..] = *prefix;
    let len = u32::from_be_bytes(len) as usize;
    if rest.len() < len {
        return bad("message ends early");
    }
    if rest.len() > len {
        return bad("call has more than one message");
    }
    let encoding = headers.get(ENCODING).map_or("identity", |value| value.to_str().unwrap_or("?"));
    match (flag, encoding) {
        (0, _) => Ok(Compression::None),
        (1, encoding) => match Compression::of(encoding) {
            None | Some(Compression::None) => {
                Err(Rejection::Unknown(format!("encoding {encoding:?} is not known here")))
            }
            Some(compression) => Ok(compression),
        },
        _ => bad("flag before message is neither 0 nor 1"),
    }
}

/// Returns the service that a health check's request names; `None` if the request is invalid or the
/// name is longer than 127 bytes.
fn service(message: &[u8]) -> Option<String> {
    // Field 1, a string. A length of a single byte suffices for names of services.
    let name = match message {
        [] => &[][..],
        [0x0a, len, name @ ..] if usize::from(*len) == name.len() && *len < 0x80 => name,
        _ => return None,
    };
    std::str::from_utf8(name).ok().map(str::to_owned)
}

fn succeeded(message: Fields) -> Answer {
    let message = message.into_bytes();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&message);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    call_answer(Content::new(bytes).with_trailers(trailers))
}

/// Creates the answer to a failed call. It has no message, so the status is in the headers.
fn failed(trouble: &Rejection) -> Answer {
    let code = match trouble {
        Rejection::Invalid(_) => INVALID_ARGUMENT,
        Rejection::Unknown(_) => UNIMPLEMENTED,
        Rejection::TooLarge(_) => RESOURCE_EXHAUSTED,
        Rejection::Timeout => DEADLINE_EXCEEDED,
        Rejection::Busy { .. } => UNAVAILABLE,
    };
    let text = trouble.to_string();
    let mut answer = failure(code, &text);
    let headers = answer.headers_mut();
    if let Rejection::Busy { retry_after, .. } = trouble {
        let delay = Fields::default()
            .number(1, retry_after.as_secs())
            .number(2, retry_after.subsec_nanos().into());
        let detail = Fields::default()
            .bytes(1, b"type.googleapis.com/google.rpc.RetryInfo")
            .bytes(2, &Fields::default().message(1, delay).into_bytes());
        let details = status(code, &text).message(3, detail).into_bytes();
        if let Ok(value) = HeaderValue::try_from(STANDARD_NO_PAD.encode(details)) {
            headers.insert(DETAILS, value);
        }
    }
    answer
}

fn failure(code: u8, text: &str) -> Answer {
    let mut answer = call_answer(Content::default());
    let headers = answer.headers_mut();
    headers.insert(STATUS, HeaderValue::from(u16::from(code)));
    if let Ok(value) = HeaderValue::try_from(escaped(text)) {
        headers.insert(MESSAGE, value);
    }
    answer
}

fn call_answer(content: Content) -> Answer {
    let mut answer = Response::new(content);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(ACCEPTED_ENCODING, HeaderValue::from_static(KNOWN));
    answer
}

/// Percent-encodes a status text as gRPC requires: `%` and all bytes except printable ASCII.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => escaped.push(byte.into()),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}
