//! Export over gRPC. Each batch is a call of OpenTelemetry's trace service: a POST over HTTP/2 with
//! a prefix of five bytes before the message, and the status in trailers.

use crate::destination::Destination;
use crate::http::delivered_partially;
use crate::record::Record;
use crate::verdict::{Verdict, readable};
use blkkin_http::Answer;
use blkkin_wire::{Failure, PartialSuccess};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Full;
use hyper::http::header::{CONTENT_TYPE, TE};
use hyper::http::uri::Scheme;
use hyper::{HeaderMap, Method, Request, Uri, http};

/// Size of the prefix of a message, in bytes: a compression flag and the message's size.
const PREFIX_BYTES: usize = 5;

pub(crate) fn request(
    destination: &Destination,
    record: &Record,
) -> http::Result<Request<Full<Bytes>>> {
    let uri = Uri::builder()
        .scheme(if destination.is_tls { Scheme::HTTPS } else { Scheme::HTTP })
        .authority(destination.authority())
        .path_and_query(destination.path.clone())
        .build()?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers");
    if record.is_gzip {
        request = request.header("grpc-encoding", "gzip");
    }
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + record.body.len());
    body.put_u8(record.is_gzip.into());
    body.put_u32(u32::try_from(record.body.len()).unwrap_or(u32::MAX));
    body.put_slice(&record.body);
    request.body(Full::new(body.freeze()))
}

/// gRPC status codes that this module uses, and the names of all codes.
mod code {
    pub(super) const OK: u32 = 0;
    pub(super) const CANCELLED: u32 = 1;
    pub(super) const UNKNOWN: u32 = 2;
    pub(super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(super) const PERMISSION_DENIED: u32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(super) const ABORTED: u32 = 10;
    pub(super) const OUT_OF_RANGE: u32 = 11;
    pub(super) const UNIMPLEMENTED: u32 = 12;
    pub(super) const INTERNAL: u32 = 13;
    pub(super) const UNAVAILABLE: u32 = 14;
    pub(super) const DATA_LOSS: u32 = 15;
    pub(super) const UNAUTHENTICATED: u32 = 16;
    pub(super) const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
}

/// Interprets an answer. As over HTTP, an authentication error or a wrong address leads to a retry,
/// not to a refusal of the batch.
pub(crate) fn verdict(answer: &Answer) -> Verdict {
    let Some(status) = status(answer) else {
        return Verdict::retry(format!("{}, and the answer ends without a status", answer.status));
    };
    let header = |name| text(answer, name);
    let failure =
        header("grpc-status-details-bin").and_then(|value| Failure::from_base64(value.as_bytes()));
    let after = failure.as_ref().and_then(|failure| failure.retry_after);
    let message = header("grpc-message").map(unescape).unwrap_or_default();
    let name = code::NAMES
        .get(status as usize)
        .map_or_else(|| status.to_string(), |name| (*name).to_owned());
    let reason = match readable(&message).as_str() {
        "" => name,
        message => format!("{name}: {message}"),
    };
    match status {
        code::OK => delivered_partially(partial_success(answer)),
        code::RESOURCE_EXHAUSTED if after.is_none() => Verdict::Refused { reason },
        code::CANCELLED
        | code::DEADLINE_EXCEEDED
        | code::ABORTED
        | code::OUT_OF_RANGE
        | code::UNAVAILABLE
        | code::DATA_LOSS
        | code::RESOURCE_EXHAUSTED => Verdict::Retry { reason, after },
        code::PERMISSION_DENIED | code::UNIMPLEMENTED | code::UNAUTHENTICATED => {
            Verdict::retry(reason)
        }
        _ => Verdict::Refused { reason },
    }
}

/// Returns the gRPC status code of the call. If the answer has no code, as from an intermediary,
/// the code is derived from the HTTP status, as gRPC specifies; `None` for the HTTP status 200.
fn status(answer: &Answer) -> Option<u32> {
    if let Some(status) = text(answer, "grpc-status") {
        return Some(status.trim().parse().unwrap_or(code::UNKNOWN));
    }
    match answer.status.as_u16() {
        200 => None,
        400 => Some(code::INTERNAL),
        401 => Some(code::UNAUTHENTICATED),
        403 => Some(code::PERMISSION_DENIED),
        404 => Some(code::UNIMPLEMENTED),
        429 | 502..=504 => Some(code::UNAVAILABLE),
        _ => Some(code::UNKNOWN),
    }
}

/// Returns a field of the call's status, such as `grpc-message`. An answer without a message
/// contains it in the headers, any other answer in the trailers.
fn text<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let find = |headers: &'a HeaderMap| headers.get(name);
    find(&answer.trailers).or_else(|| find(&answer.headers))?.to_str().ok()
}

/// Decodes the answer to an accepted batch; `None` if it is malformed.
fn partial_success(answer: &Answer) -> Option<PartialSuccess> {
    let body = answer.body.as_slice();
    if body.is_empty() {
        return Some(PartialSuccess::default());
    }
    let (prefix, message) = body.split_at_checked(PREFIX_BYTES)?;
    let [compressed, size @ ..] = prefix else { return None };
    let size = u32::from_be_bytes(size.try_into().ok()?);
    // The request announces no support for compressed answers.
    if *compressed != 0 || usize::try_from(size) != Ok(message.len()) || answer.is_cut {
        return None;
    }
    PartialSuccess::from_proto(message).ok()
}

/// Decodes the percent-encoding of a status message.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let digits =
            behind.get(..2).filter(|two| *byte == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let value = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                out.push(value);
                rest = &behind[2..];
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{unescape, verdict};
    use crate::verdict::Verdict;
    use blkkin_http::Answer;
    use hyper::StatusCode;
    use hyper::http::{HeaderMap, HeaderName, HeaderValue};
    use std::time::Duration;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = list
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn check(
        status: u16,
        trailers: &[(&'static str, &'static str)],
        body: &[u8],
        expected: Verdict,
    ) {
        let status = StatusCode::from_u16(status).expect("a status");
        let body = body.to_vec();
        let end =
            Answer { status, trailers: headers(trailers), body: body.clone(), ..Answer::default() };
        let head = Answer { status, headers: headers(trailers), body, ..Answer::default() };
        assert_eq!(verdict(&end), expected, "{trailers:?}");
        assert_eq!(verdict(&head), expected, "{trailers:?}");
    }

    fn later(reason: &str, after: Option<Duration>) -> Verdict {
        Verdict::Retry { reason: reason.to_owned(), after }
    }

    fn refused(reason: &str) -> Verdict {
        Verdict::Refused { reason: reason.to_owned() }
    }

    #[test]
    fn statuses() {
        check(200, &[("grpc-status", "0")], b"", Verdict::delivered());
        check(
            200,
            &[("grpc-status", "3"), ("grpc-message", "bad%20id%")],
            b"",
            refused("INVALID_ARGUMENT: bad id%"),
        );
        check(200, &[("grpc-status", "8")], b"", refused("RESOURCE_EXHAUSTED"));
        check(200, &[("grpc-status", "13")], b"", refused("INTERNAL"));
        check(200, &[("grpc-status", "99")], b"", refused("99"));
        check(200, &[("grpc-status", "x")], b"", refused("UNKNOWN"));
        for (number, name) in [
            ("1", "CANCELLED"),
            ("4", "DEADLINE_EXCEEDED"),
            ("7", "PERMISSION_DENIED"),
            ("10", "ABORTED"),
            ("11", "OUT_OF_RANGE"),
            ("12", "UNIMPLEMENTED"),
            ("14", "UNAVAILABLE"),
            ("15", "DATA_LOSS"),
            ("16", "UNAUTHENTICATED"),
        ] {
            check(200, &[("grpc-status", number)], b"", later(name, None));
        }
        check(200, &[], b"", later("200 OK, and the answer ends without a status", None));
        check(503, &[], b"", later("UNAVAILABLE", None));
        check(404, &[], b"", later("UNIMPLEMENTED", None));
        check(500, &[], b"", refused("UNKNOWN"));
    }

    #[test]
    fn times_to_try_again() {
        // A `RetryInfo` with a delay of 2 s.
        let mut info = vec![0x08, 14, 0x1a, 48, 0x0a, 40];
        info.extend(b"type.googleapis.com/google.rpc.RetryInfo");
        info.extend([0x12, 4, 0x0a, 2, 0x08, 2]);
        let mut text = String::new();
        for chunk in info.chunks(3) {
            const LETTERS: &[u8; 64] =
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let number = chunk.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            let number = number << (8 * (3 - chunk.len()));
            for index in 0..=chunk.len() {
                text.push(LETTERS[(number >> (18 - 6 * index)) as usize & 63] as char);
            }
        }
        let details: &'static str = text.leak();
        let after = Some(Duration::from_secs(2));
        for (status, name) in [("14", "UNAVAILABLE"), ("8", "RESOURCE_EXHAUSTED")] {
            let trailers = [("grpc-status", status), ("grpc-status-details-bin", details)];
            check(200, &trailers, b"", later(name, after));
        }
        let trailers = [("grpc-status", "8"), ("grpc-status-details-bin", "CA4")];
        check(200, &trailers, b"", refused("RESOURCE_EXHAUSTED"));
    }

    #[test]
    fn partial_success() {
        let delivered = |rejected, message: &str, is_malformed| Verdict::Delivered {
            rejected,
            message: message.to_owned(),
            is_malformed,
        };
        let ok = [("grpc-status", "0")];
        check(200, &ok, b"\0\0\0\0\x09\x0a\x07\x08\x02\x12\x03old", delivered(2, "old", false));
        check(200, &ok, b"\0\0\0\0\0", delivered(0, "", false));
        for odd in [
            &b"\0\0\0"[..],
            b"\x01\0\0\0\0",
            b"\0\0\0\0\x05",
            b"\0\xff\xff\xff\xff",
            b"\0\0\0\0\x01\xff",
        ] {
            check(200, &ok, odd, delivered(0, "", true));
        }
    }

    #[test]
    fn messages_are_unescaped() {
        assert_eq!(unescape("a%C3%A4%zz%+1%4"), "aä%zz%+1%4");
    }
}
