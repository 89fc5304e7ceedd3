//! Answers of OpenTelemetry receivers: [`PartialSuccess`] for an accepted batch, [`Failure`] for a
//! refused batch. Answers are untrusted too; messages are truncated to a readable size.

use crate::arena::Arena;
use crate::error::{Fault, Result};
use crate::json::{Reader, keys};
use crate::limits::Limits;
use crate::protobuf::{Input, sized, varint};
use crate::render;
use std::time::Duration;

/// Maximum number of bytes of a message that are converted to text.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Maximum number of decoded details of a failure.
const DETAILS_MAX: usize = 16;

/// Suffix of the type URL of a detail with a retry delay.
const RETRY_INFO: &[u8] = b"/google.rpc.RetryInfo";

keys! {
    /// JSON keys of the answer to an accepted batch.
    response { PARTIAL_SUCCESS = "partialSuccess", }
    /// JSON keys of a partial success.
    partial_success { REJECTED_SPANS = "rejectedSpans", ERROR_MESSAGE = "errorMessage", }
    /// JSON keys of a failure.
    failure { CODE = "code", MESSAGE = "message", }
}

/// Answer to an accepted batch, possibly without some of its spans: `ExportTraceServiceResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialSuccess {
    /// Number of refused spans, as stated by the receiver; it may exceed the number sent.
    pub rejected_spans: u64,
    /// Reason for the refusal of spans, or a warning if all spans were accepted.
    pub message: String,
}

/// Answer to a refused batch: `google.rpc.Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// gRPC status code of the failed call.
    pub code: u32,
    /// Error message of the receiver.
    pub message: String,
    /// Delay before a retry (`RetryInfo`); `None` without a stated delay, and always for JSON.
    pub retry_after: Option<Duration>,
}

impl PartialSuccess {
    /// Decodes the answer to an accepted batch from protobuf.
    pub fn from_proto(answer: &[u8]) -> std::result::Result<PartialSuccess, Fault> {
        let mut partial = PartialSuccess::default();
        let mut read = || -> Result<()> {
            let mut input = Input::new(answer);
            while let Some(key) = input.key()? {
                match key {
                    key if key == sized(1) => partial.merge(input.message()?)?,
                    key => input.skip(key)?,
                }
            }
            Ok(())
        };
        read().map_err(|fault| *fault)?;
        Ok(partial)
    }

    fn merge(&mut self, mut input: Input<'_>) -> Result<()> {
        while let Some(key) = input.key()? {
            match key {
                key if key == varint(1) => self.rejected_spans = count(input.varint()? as i64),
                key if key == sized(2) => self.message = message(input.sized()?),
                key => input.skip(key)?,
            }
        }
        Ok(())
    }

    /// Decodes the answer to an accepted batch from JSON.
    pub fn from_json(answer: &[u8]) -> std::result::Result<PartialSuccess, Fault> {
        let mut partial = PartialSuccess::default();
        let (arena, limits) = (Arena::default(), Limits::default());
        let mut reader = Reader::new(answer, &arena, &limits);
        let mut inner = partial_success::Keys::default();
        let mut value = |reader: &mut Reader<'_>, key: usize| match key {
            partial_success::REJECTED_SPANS => {
                partial.rejected_spans = count(reader.integer()?);
                Ok(())
            }
            _ => {
                partial.message = message(reader.string()?.as_bytes());
                Ok(())
            }
        };
        let read =
            reader.object(
                &response::NAMES,
                &mut response::Keys::default(),
                |reader, _| match reader.null()? {
                    true => Ok(()),
                    false => reader.object(&partial_success::NAMES, &mut inner, |reader, key| {
                        if reader.null()? { Ok(()) } else { value(reader, key) }
                    }),
                },
            );
        read.map_err(|fault| *fault)?;
        Ok(partial)
    }
}

impl Failure {
    /// Decodes the answer to a refused batch from protobuf.
    pub fn from_proto(answer: &[u8]) -> std::result::Result<Failure, Fault> {
        let mut failure = Failure::default();
        let mut read = || -> Result<()> {
            let mut input = Input::new(answer);
            let mut details = 0;
            while let Some(key) = input.key()? {
                match key {
                    key if key == varint(1) => failure.code = input.varint()? as u32,
                    key if key == sized(2) => failure.message = message(input.sized()?),
                    key if key == sized(3) && details < DETAILS_MAX => {
                        details += 1;
                        let found = retry_after(input.message()?)?;
                        failure.retry_after = failure.retry_after.or(found);
                    }
                    key => input.skip(key)?,
                }
            }
            Ok(())
        };
        read().map_err(|fault| *fault)?;
        Ok(failure)
    }

    /// Decodes the gRPC header `grpc-status-details-bin`; `None` if it is malformed.
    pub fn from_base64(header: &[u8]) -> Option<Failure> {
        Failure::from_proto(&render::from_base64(header)?).ok()
    }

    /// Decodes the answer to a refused batch from JSON. Details are ignored: over HTTP, a header
    /// contains the retry delay.
    pub fn from_json(answer: &[u8]) -> std::result::Result<Failure, Fault> {
        let mut found = Failure::default();
        let (arena, limits) = (Arena::default(), Limits::default());
        let mut reader = Reader::new(answer, &arena, &limits);
        let mut order = failure::Keys::default();
        let read = reader.object(&failure::NAMES, &mut order, |reader, key| {
            if reader.null()? {
                return Ok(());
            }
            match key {
                failure::CODE => found.code = reader.integer()? as u32,
                _ => found.message = message(reader.string()?.as_bytes()),
            }
            Ok(())
        });
        read.map_err(|fault| *fault)?;
        Ok(found)
    }
}

/// Reads the retry delay from a detail (`Any`).
fn retry_after(mut input: Input<'_>) -> Result<Option<Duration>> {
    let (mut is_retry_info, mut value) = (false, None);
    while let Some(key) = input.key()? {
        match key {
            key if key == sized(1) => is_retry_info = input.sized()?.ends_with(RETRY_INFO),
            key if key == sized(2) => value = Some(input.message()?),
            key => input.skip(key)?,
        }
    }
    let Some(mut info) = value.filter(|_| is_retry_info) else { return Ok(None) };
    // Protobuf omits a delay of zero.
    let mut delay = Duration::ZERO;
    while let Some(key) = info.key()? {
        match key {
            key if key == sized(1) => delay = duration(info.message()?)?,
            key => info.skip(key)?,
        }
    }
    Ok(Some(delay))
}

/// Reads seconds and nanoseconds; negative durations become zero.
fn duration(mut input: Input<'_>) -> Result<Duration> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    while let Some(key) = input.key()? {
        match key {
            key if key == varint(1) => seconds = count(input.varint()? as i64),
            key if key == varint(2) => nanoseconds = count(input.varint()? as i64),
            key => input.skip(key)?,
        }
    }
    let nanoseconds = Duration::from_nanos(nanoseconds.min(999_999_999));
    Ok(Duration::from_secs(seconds).saturating_add(nanoseconds))
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts the first [`MESSAGE_BYTES_MAX`] bytes of a message to text.
fn message(bytes: &[u8]) -> String {
    let bytes = bytes.get(..MESSAGE_BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Failure, PartialSuccess};
    use crate::protobuf::{put_message, put_number, put_sized, sized, varint};
    use std::time::Duration;

    fn partial(rejected_spans: u64, message: &str) -> PartialSuccess {
        PartialSuccess { rejected_spans, message: message.to_owned() }
    }

    #[test]
    fn partial_success_of_protobuf() {
        let check = |rejected: u64, message: &str, expected: PartialSuccess| {
            let mut answer = Vec::new();
            put_number(&mut answer, varint(9), 1);
            put_message(&mut answer, sized(1), |out| {
                put_number(out, varint(1), rejected);
                put_sized(out, sized(2), message.as_bytes());
            });
            assert_eq!(PartialSuccess::from_proto(&answer), Ok(expected));
            for end in 1..answer.len() {
                // Truncated answers are refused or lose fields; none may panic.
                let _ = PartialSuccess::from_proto(&answer[..end]);
            }
        };
        check(3, "too old", partial(3, "too old"));
        check(0, "", partial(0, ""));
        check(u64::MAX, "less than none", partial(0, "less than none"));
        check(i64::MAX as u64, "all", partial(i64::MAX as u64, "all"));
        check(1, &"x".repeat(5000), partial(1, &"x".repeat(1024)));
        assert_eq!(PartialSuccess::from_proto(b""), Ok(partial(0, "")));
        assert!(PartialSuccess::from_proto(b"\x0a\x7f").is_err());
        assert!(PartialSuccess::from_proto(b"<html>").is_err());
    }

    #[test]
    fn partial_success_of_json() {
        let check = |answer: &str, expected: PartialSuccess| {
            assert_eq!(PartialSuccess::from_json(answer.as_bytes()), Ok(expected), "{answer}");
        };
        check("{}", partial(0, ""));
        check(r#"{"partialSuccess":{}}"#, partial(0, ""));
        check(r#"{"partialSuccess":null}"#, partial(0, ""));
        check(
            r#"{"x":[{}],"partialSuccess":{"rejectedSpans":"2","errorMessage":"a\nb"}}"#,
            partial(2, "a\nb"),
        );
        check(r#"{"partialSuccess":{"errorMessage":null,"rejectedSpans":7}}"#, partial(7, ""));
        check(r#"{"partialSuccess":{"rejectedSpans":-7}}"#, partial(0, ""));
        for bad in ["", "[]", "{", r#"{"partialSuccess":1}"#, "<html>"] {
            assert!(PartialSuccess::from_json(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    fn status(seconds: u64, nanoseconds: u64, url: &str) -> Vec<u8> {
        let mut answer = Vec::new();
        put_number(&mut answer, varint(1), 14);
        put_sized(&mut answer, sized(2), b"busy");
        put_message(&mut answer, sized(3), |any| {
            put_sized(any, sized(1), url.as_bytes());
            put_message(any, sized(2), |info| {
                put_message(info, sized(1), |delay| {
                    put_number(delay, varint(1), seconds);
                    put_number(delay, varint(2), nanoseconds);
                });
            });
        });
        answer
    }

    #[test]
    fn a_failure_says_when_to_try_again() {
        let check = |answer: &[u8], retry_after: Option<Duration>| {
            let expected = Failure { code: 14, message: "busy".to_owned(), retry_after };
            assert_eq!(Failure::from_proto(answer), Ok(expected));
            for end in 1..answer.len() {
                let _ = Failure::from_proto(&answer[..end]);
            }
        };
        let url = "type.googleapis.com/google.rpc.RetryInfo";
        check(&status(2, 500_000_000, url), Some(Duration::from_millis(2500)));
        check(&status(u64::MAX, u64::MAX, url), Some(Duration::ZERO));
        check(&status(2, 0, "type.googleapis.com/google.rpc.BadRequest"), None);
        assert_eq!(
            Failure::from_base64(b"CA4SBGJ1c3k"),
            Some(Failure { code: 14, message: "busy".to_owned(), retry_after: None })
        );
        assert_eq!(Failure::from_base64(b"!"), None);
        let json = Failure::from_json(br#"{"code":3,"message":"bad id","details":[{"@type":1}]}"#);
        assert_eq!(json.map(|found| (found.code, found.message)), Ok((3, "bad id".to_owned())));
    }
}
