//! The query API over a store. Start at [`Api`].

use crate::Params;
use crate::answer::{Answer, Result};
use blkkin_model::{SpanRef, TraceId};
use blkkin_store::SpanStore;
use serde::Serialize;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Query APIs of Zipkin and BlkKin over one store.
pub struct Api {
    pub(crate) store: Arc<dyn SpanStore>,
    pub(crate) settings: Settings,
}

/// Settings of the query APIs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// True if all 128 bits of a trace id are compared. False if only the lower 64 bits are, for
    /// programs with 64-bit ids.
    pub strict_trace_id: bool,
    /// Tag keys whose values Zipkin's page completes while the user types.
    pub autocomplete_keys: Vec<String>,
    /// Maximum size of an answer, in bytes.
    pub answer_bytes: usize,
}

/// Query of Zipkin's or BlkKin's API, as path and parameters.
#[derive(Clone, Debug)]
pub struct ApiQuery<'a> {
    /// Path below the API's root, such as `trace/4f2a`, percent-encoded.
    pub path: &'a str,
    /// Allows clients to cache the answer for five minutes if `is_good` is true; otherwise the
    /// answer has no `Cache-Control` header.
    pub params: Params<'a>,
    /// Current time, in nanoseconds since 1970: the default of `endTs` in Zipkin's query `traces`.
    pub now_ns: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { strict_trace_id: true, autocomplete_keys: Vec::new(), answer_bytes: 64 << 20 }
    }
}

impl Api {
    /// Creates the query APIs over a store.
    pub fn new(store: Arc<dyn SpanStore>, settings: Settings) -> Api {
        Api { store, settings }
    }

    /// Fails if an answer of `bytes` bytes would exceed the maximum size.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<()> {
        let limit = self.settings.answer_bytes;
        if bytes <= limit {
            return Ok(());
        }
        Err(Answer::bad(format!("answer would be larger than {limit} bytes; ask for less")))
    }

    /// Creates an answer with a JSON body; fails as soon as the body exceeds the maximum size.
    pub(crate) fn json(&self, body: &impl Serialize) -> Result<Answer> {
        let mut bytes = Vec::new();
        self.append_json(body, &mut bytes)?;
        Ok(Answer::bytes(bytes))
    }

    /// Appends a value as JSON to `to`; fails as soon as `to` exceeds the maximum size of an
    /// answer.
    pub(crate) fn append_json(&self, part: &impl Serialize, to: &mut Vec<u8>) -> Result<()> {
        let mut bounded = Bounded { bytes: to, bytes_max: self.settings.answer_bytes };
        match serde_json::to_writer(&mut bounded, part) {
            Err(error) if error.is_io() => self.check_size(usize::MAX),
            Err(error) => Err(Answer::failed(500, format!("cannot write answer: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Calls `each` with the distinct spans of a request, in order of trace id and start, until
    /// `each` fails. The outer error is the store's, the inner error that of `each`.
    pub(crate) fn each_span(
        &self,
        id: TraceId,
        mut each: impl FnMut(&SpanRef<'_>) -> Result<()>,
    ) -> std::result::Result<Result<()>, blkkin_store::Error> {
        let is_strict = self.settings.strict_trace_id;
        let mut told = Ok(());
        self.store.each_span(id.low(), &mut |span| {
            if !is_strict || span.trace_id == id {
                told = each(span);
            }
            if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(told)
    }
}

/// Writer that appends to a vector, and fails beyond a maximum size.
struct Bounded<'a> {
    bytes: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses a trace id as Zipkin does: 1 to 32 lower-case hexadecimal digits, not all of them 0.
/// Shorter text is padded with leading zeros.
pub(crate) fn trace_id(text: &str) -> std::result::Result<TraceId, String> {
    if text.is_empty() {
        return Err("traceId is empty".to_owned());
    }
    if text.len() > 32 {
        return Err("traceId.length > 32".to_owned());
    }
    if !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(format!("{text} should be lower-hex encoded with no prefix"));
    }
    let number = u128::from_str_radix(text, 16).map_err(|error| error.to_string())?;
    TraceId::from_number(number).ok_or_else(|| "traceId is all zeros".to_owned())
}
