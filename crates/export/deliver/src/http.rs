//! Export over HTTP: a POST for each batch, to Zipkin or an OpenTelemetry receiver, and the
//! interpretation of answers.

use crate::destination::Destination;
use crate::record::Record;
use crate::verdict::{Verdict, readable};
use blkkin_http::Answer;
use blkkin_wire::{Failure, Format, PartialSuccess};
use bytes::Bytes;
use http_body_util::Full;
use hyper::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, http};
use std::time::{Duration, SystemTime};

/// Header that excludes the request from tracing: a collector that traces itself would export spans
/// for ever.
const B3: HeaderName = HeaderName::from_static("b3");

pub(crate) fn request(
    destination: &Destination,
    record: &Record,
) -> http::Result<Request<Full<Bytes>>> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(destination.path.as_str())
        .header(CONTENT_TYPE, content_type(record.format));
    if record.is_gzip {
        request = request.header(CONTENT_ENCODING, "gzip");
    }
    if !is_otlp(record.format) {
        request = request.header(B3, "0");
    }
    request.body(Full::new(record.body.clone()))
}

fn content_type(format: Format) -> &'static str {
    match format {
        Format::ZipkinJson | Format::ZipkinV1Json | Format::OtlpJson => "application/json",
        Format::ZipkinProto | Format::OtlpProto => "application/x-protobuf",
        Format::ZipkinThrift | Format::ZipkinThriftSpan => "application/x-thrift",
    }
}

fn is_otlp(format: Format) -> bool {
    matches!(format, Format::OtlpProto | Format::OtlpJson)
}

/// Interprets an answer.
///
/// For errors of authentication or address (401, 404, …), OpenTelemetry's specification requires
/// clients to drop the batch. But the batch is valid, and the configuration can be fixed. Therefore
/// the batch waits, as for an unreachable destination.
pub(crate) fn verdict(answer: &Answer, format: Format, now: SystemTime) -> Verdict {
    match answer.status.as_u16() {
        200..=299 if is_otlp(format) => otlp_verdict(answer),
        200..=299 => Verdict::delivered(),
        408 | 429 | 502..=504 => {
            let after = retry_after(&answer.headers, now);
            Verdict::Retry { reason: reason(answer, format), after }
        }
        300..=399 | 401 | 403 | 404 | 405 | 407 | 421 => Verdict::retry(reason(answer, format)),
        // Zipkin returns these codes if its storage failed, and also if the batch is too large for
        // the storage.
        500..=599 if !is_otlp(format) => Verdict::LimitedRetry { reason: reason(answer, format) },
        _ => Verdict::Refused { reason: reason(answer, format) },
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        value.trim_start().to_ascii_lowercase().starts_with("application/json")
    })
}

/// Interprets an OpenTelemetry receiver's answer to an accepted batch.
fn otlp_verdict(answer: &Answer) -> Verdict {
    let partial = match is_json(&answer.headers) {
        _ if answer.is_cut => None,
        _ if answer.body.is_empty() => return Verdict::delivered(),
        true => PartialSuccess::from_json(&answer.body).ok(),
        false => PartialSuccess::from_proto(&answer.body).ok(),
    };
    delivered_partially(partial)
}

/// Returns the verdict for an accepted batch. `partial` is `None` if the answer was malformed.
pub(crate) fn delivered_partially(partial: Option<PartialSuccess>) -> Verdict {
    let is_malformed = partial.is_none();
    let PartialSuccess { rejected_spans, message } = partial.unwrap_or_default();
    Verdict::Delivered { rejected: rejected_spans, message: readable(&message), is_malformed }
}

/// Returns the status and message of an answer, as text for the user.
fn reason(answer: &Answer, format: Format) -> String {
    let failure = match (is_otlp(format), is_json(&answer.headers)) {
        (false, _) => None,
        (true, true) => Failure::from_json(&answer.body).ok(),
        (true, false) => Failure::from_proto(&answer.body).ok(),
    };
    let message = match failure {
        Some(failure) => readable(&failure.message),
        None => readable(&String::from_utf8_lossy(&answer.body)),
    };
    match message.as_str() {
        "" => answer.status.to_string(),
        message => format!("{}: {message}", answer.status),
    }
}

/// Returns the delay that the header `Retry-After` requests, in seconds or as a date; `None`
/// without a valid header.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let time = httpdate::parse_http_date(value).ok()?;
            Some(time.duration_since(now).unwrap_or(Duration::ZERO))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::verdict;
    use crate::verdict::Verdict;
    use blkkin_http::Answer;
    use blkkin_wire::Format;
    use hyper::StatusCode;
    use hyper::http::{HeaderName, HeaderValue};
    use std::time::{Duration, SystemTime};

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> Answer {
        let status = StatusCode::from_u16(status).expect("a status");
        let mut answer = Answer { status, body: body.to_vec(), ..Answer::default() };
        for (name, value) in headers {
            answer.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        answer
    }

    fn word(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Delivered { .. } => "delivered",
            Verdict::Retry { .. } => "later",
            Verdict::LimitedRetry { .. } => "perhaps",
            Verdict::Refused { .. } => "refused",
        }
    }

    #[test]
    fn statuses() {
        for (status, zipkin, otlp) in [
            (200, "delivered", "delivered"),
            (202, "delivered", "delivered"),
            (301, "later", "later"),
            (400, "refused", "refused"),
            (401, "later", "later"),
            (404, "later", "later"),
            (408, "later", "later"),
            (413, "refused", "refused"),
            (415, "refused", "refused"),
            (429, "later", "later"),
            (500, "perhaps", "refused"),
            (502, "later", "later"),
            (503, "later", "later"),
            (504, "later", "later"),
            (507, "perhaps", "refused"),
        ] {
            let now = SystemTime::now();
            let of = |format| word(&verdict(&answer(status, &[], b""), format, now));
            assert_eq!((of(Format::ZipkinJson), of(Format::OtlpProto)), (zipkin, otlp), "{status}");
        }
    }

    #[test]
    fn times_to_try_again() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("7", Some(Duration::from_secs(7))),
            ("0", Some(Duration::ZERO)),
            ("18446744073709551615", Some(Duration::from_secs(u64::MAX))),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(Duration::from_secs(10))),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(Duration::ZERO)),
            ("soon", None),
            ("-1", None),
        ] {
            let found =
                verdict(&answer(503, &[("retry-after", value)], b""), Format::ZipkinJson, now);
            let reason = "503 Service Unavailable".to_owned();
            assert_eq!(found, Verdict::Retry { reason, after: expected }, "{value}");
        }
    }

    #[test]
    fn what_the_destination_says() {
        let check = |answer: Answer, expected: Verdict| {
            assert_eq!(verdict(&answer, Format::OtlpProto, SystemTime::now()), expected);
        };
        let json = [("content-type", "application/json; charset=utf-8")];
        let refused = |reason: &str| Verdict::Refused { reason: reason.to_owned() };
        let delivered = |rejected, message: &str, is_malformed| Verdict::Delivered {
            rejected,
            message: message.to_owned(),
            is_malformed,
        };
        check(answer(400, &[], b"\x08\x03\x12\x06bad id"), refused("400 Bad Request: bad id"));
        check(answer(400, &json, br#"{"message":"bad\nid"}"#), refused("400 Bad Request: bad id"));
        check(answer(400, &[], b"<html>"), refused("400 Bad Request: <html>"));
        check(answer(200, &[], b""), Verdict::delivered());
        check(answer(200, &[], b"\x0a\x07\x08\x02\x12\x03old"), delivered(2, "old", false));
        let partial = br#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"old"}}"#;
        check(answer(200, &json, partial), delivered(2, "old", false));
        check(answer(200, &[], b"<html>"), delivered(0, "", true));
        check(Answer { is_cut: true, ..answer(200, &[], b"") }, delivered(0, "", true));
    }
}
