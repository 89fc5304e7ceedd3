//! Spans from Zipkin's senders, over HTTP. Start at [`Collector::zipkin`].

use crate::collector::{Submission, compression, kind};
use crate::decompress::Compression;
use crate::rejection::{Rejection, seconds};
use crate::response_body::answer;
use crate::{Answer, Collector, Transport, sniff};
use blkkin_store::AcceptedBatch;
use blkkin_wire::{Format, Reason, Refusal};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body::Body;
use std::fmt::Display;

/// Version of Zipkin's API for sending spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1, at the path `/api/v1/spans`.
    V1,
    /// Version 2, at the path `/api/v2/spans`.
    V2,
}

const TEXT: &str = "text/plain; charset=utf-8";

impl Collector {
    /// Answers `POST /api/v1/spans` and `POST /api/v2/spans`, by which Zipkin's senders deliver
    /// spans.
    pub async fn zipkin<B>(&self, version: Version, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let (head, body) = request.into_parts();
        let kind = kind(&head.headers);
        let format = match version {
            Version::V1 if kind.ends_with("/x-thrift") => Format::ZipkinThrift,
            Version::V1 => Format::ZipkinV1Json,
            Version::V2 if kind.ends_with("/x-protobuf") => Format::ZipkinProto,
            Version::V2 => Format::ZipkinJson,
        };
        match self.post(format, compression(&head.headers), body).await {
            Ok(AcceptedBatch { outcome }) => match outcome.first_refusal() {
                Some(refusal) => {
                    let text = describe_refusal(format, refusal, outcome.accepted);
                    answer(StatusCode::BAD_REQUEST, TEXT, text)
                }
                None => answer(StatusCode::ACCEPTED, TEXT, ""),
            },
            Err(trouble) => rejected(&trouble),
        }
    }

    async fn post<B>(
        &self,
        format: Format,
        compression: Result<Compression, Rejection>,
        body: B,
    ) -> Result<AcceptedBatch, Rejection>
    where
        B: Body<Data = Bytes, Error: Display>,
    {
        let transport = Transport::Http;
        let message = self.receive(transport, body).await?;
        let compression =
            compression.inspect_err(|trouble| self.count_rejection(transport, trouble))?;
        let policy = self.settings.policy;
        self.store(Submission { transport, format, policy, compression, message }, sniff::check)
            .await
    }
}

/// Describes the first invalid span of a batch, with its position. `taken` is the number of spans
/// that were stored nevertheless. Uses the wording of Zipkin's server if that server reports the
/// same fault.
pub(crate) fn describe_refusal(format: Format, refusal: &Refusal, taken: u64) -> String {
    let format = match format {
        Format::ZipkinProto => "proto3",
        Format::ZipkinThrift | Format::ZipkinThriftSpan => "TBinary",
        _ => "json",
    };
    let fault = &refusal.fault;
    let reason = match fault.reason {
        Reason::Zero => format!("{} is all zeros", fault.field),
        reason if fault.field.is_empty() => reason.to_string(),
        reason => format!("{} {reason}", fault.field),
    };
    let place = format!("span {}, byte {}", refusal.span, fault.offset);
    let rest = match taken {
        0 => String::new(),
        taken => format!("; {taken} others were taken"),
    };
    format!("{reason} reading List<Span> from {format} ({place}{rest})")
}

fn rejected(trouble: &Rejection) -> Answer {
    let status = match trouble {
        Rejection::Invalid(_) => StatusCode::BAD_REQUEST,
        Rejection::Unknown(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Rejection::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Rejection::Timeout => StatusCode::REQUEST_TIMEOUT,
        Rejection::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
    };
    let answer = answer(status, TEXT, trouble.to_string());
    with_retry_after(answer, trouble)
}

/// Adds the header `Retry-After` if the sender may retry.
pub(crate) fn with_retry_after(mut answer: Answer, trouble: &Rejection) -> Answer {
    if let Rejection::Busy { retry_after, .. } = trouble {
        let value = HeaderValue::from(seconds(*retry_after));
        answer.headers_mut().insert(header::RETRY_AFTER, value);
    }
    answer
}
