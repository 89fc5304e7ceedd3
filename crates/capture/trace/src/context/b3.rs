//! The B3 headers of Zipkin: a single header `b3`, or a header `x-b3-…` for each part.
//!
//! ```text
//! b3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90
//!     trace id, 16 or 32 digits        span id          | parent span id
//!                                                       decision: 1, 0, or d for debug
//! ```
//!
//! Both forms can also carry a decision alone. [`Headers`] collects the headers of a request;
//! [`read`] parses the value of a single `b3` header.

use super::hex::Cursor;
use super::{ContextError, Decision, Incoming, Part, Reason, SpanContext, Text};
use crate::id::{SpanId, TraceId};

/// Values of the B3 headers of a request; `None` for absent headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'h> {
    /// Value of `b3`, which takes precedence over the `X-B3-…` headers.
    pub b3: Option<&'h [u8]>,
    /// Value of `X-B3-TraceId`.
    pub trace_id: Option<&'h [u8]>,
    /// Value of `X-B3-SpanId`.
    pub span_id: Option<&'h [u8]>,
    /// Value of `X-B3-ParentSpanId`.
    pub parent_span_id: Option<&'h [u8]>,
    /// Value of `X-B3-Sampled`.
    pub sampled: Option<&'h [u8]>,
    /// Value of `X-B3-Flags`.
    pub flags: Option<&'h [u8]>,
}

impl<'h> Headers<'h> {
    /// Stores the header if it is a B3 header; its name may be in any case. The first of several
    /// headers with the same name is kept.
    pub fn add(&mut self, name: &[u8], value: &'h [u8]) {
        let place = match name.len() {
            2 if name.eq_ignore_ascii_case(b"b3") => &mut self.b3,
            12 if name.eq_ignore_ascii_case(b"x-b3-traceid") => &mut self.trace_id,
            11 if name.eq_ignore_ascii_case(b"x-b3-spanid") => &mut self.span_id,
            17 if name.eq_ignore_ascii_case(b"x-b3-parentspanid") => &mut self.parent_span_id,
            12 if name.eq_ignore_ascii_case(b"x-b3-sampled") => &mut self.sampled,
            10 if name.eq_ignore_ascii_case(b"x-b3-flags") => &mut self.flags,
            _ => return,
        };
        place.get_or_insert(value);
    }

    /// Parses the headers. Returns `None` if they carry neither context nor decision. If `b3` is
    /// invalid, parses the `X-B3-…` headers; if these are absent or invalid too, returns the error
    /// of `b3`.
    pub fn read(&self) -> Result<Option<Incoming>, ContextError> {
        match self.b3.map(read) {
            Some(Ok(incoming)) => Ok(Some(incoming)),
            Some(Err(error)) => match self.read_parts() {
                Ok(Some(incoming)) => Ok(Some(incoming)),
                _ => Err(error),
            },
            None => self.read_parts(),
        }
    }

    fn read_parts(&self) -> Result<Option<Incoming>, ContextError> {
        let decision = self.read_decision()?;
        let missing = |part| Err(ContextError::new(part, 0, Reason::Missing));
        let (trace_id, span_id) = match (self.trace_id, self.span_id) {
            (Some(trace_id), Some(span_id)) => (trace_id, span_id),
            (Some(_), None) => return missing(Part::B3SpanId),
            (None, Some(_)) => return missing(Part::B3TraceId),
            (None, None) => return Ok(decision.map(Incoming::Decision)),
        };
        let trace_id = read_whole(Part::B3TraceId, trace_id, read_trace_id)?;
        let span_id = read_whole(Part::B3SpanId, span_id, read_span_id)?;
        let parent_span_id = match self.parent_span_id {
            Some(value) => read_whole(Part::B3ParentSpanId, value, read_parent_span_id)?,
            None => None,
        };
        Ok(Some(Incoming::Context(SpanContext {
            trace_id,
            span_id,
            parent_span_id,
            decision: decision.unwrap_or_default(),
            random_trace_id: false,
        })))
    }

    fn read_decision(&self) -> Result<Option<Decision>, ContextError> {
        // Only the debug flag has a meaning; the specification allows ignoring the others.
        if self.flags.is_some_and(|flags| flags.trim_ascii() == b"1") {
            return Ok(Some(Decision::Debug));
        }
        let Some(sampled) = self.sampled else { return Ok(None) };
        let cursor = Cursor::trimmed(Part::B3Sampled, sampled);
        match cursor.rest() {
            b"1" => Ok(Some(Decision::Yes)),
            b"0" => Ok(Some(Decision::No)),
            // Values in use before the specification existed.
            word if word.eq_ignore_ascii_case(b"true") => Ok(Some(Decision::Yes)),
            word if word.eq_ignore_ascii_case(b"false") => Ok(Some(Decision::No)),
            _ => Err(cursor.unexpected("1 or 0, and nothing else,")),
        }
    }
}

/// Parses a value with `read`. Returns an error if bytes remain after `read`.
fn read_whole<'h, T>(
    part: Part,
    value: &'h [u8],
    read: impl FnOnce(&mut Cursor<'h>) -> Result<T, ContextError>,
) -> Result<T, ContextError> {
    let mut cursor = Cursor::trimmed(part, value);
    let result = read(&mut cursor)?;
    cursor.expect_end()?;
    Ok(result)
}

/// Parses the value of a single `b3` header, with a context or a decision alone.
pub fn read(header: &[u8]) -> Result<Incoming, ContextError> {
    let mut cursor = Cursor::trimmed(Part::B3, header);
    if cursor.rest().len() == 1 {
        return read_decision(&mut cursor).map(Incoming::Decision);
    }
    let trace_id = read_trace_id(&mut cursor)?;
    cursor.expect_dash()?;
    let span_id = read_span_id(&mut cursor)?;
    let mut context = SpanContext {
        trace_id,
        span_id,
        parent_span_id: None,
        decision: Decision::Deferred,
        random_trace_id: false,
    };
    if !cursor.rest().is_empty() {
        cursor.expect_dash()?;
        context.decision = read_decision(&mut cursor)?;
    }
    if !cursor.rest().is_empty() {
        cursor.expect_dash()?;
        context.parent_span_id = read_parent_span_id(&mut cursor)?;
        cursor.expect_end()?;
    }
    Ok(Incoming::Context(context))
}

fn read_decision(cursor: &mut Cursor<'_>) -> Result<Decision, ContextError> {
    let decision = match cursor.rest().first() {
        Some(b'1') => Decision::Yes,
        Some(b'0') => Decision::No,
        Some(b'd') => Decision::Debug,
        _ => return Err(cursor.unexpected("a decision, one of 1, 0 and d,")),
    };
    cursor.skip();
    Ok(decision)
}

fn read_trace_id(cursor: &mut Cursor<'_>) -> Result<TraceId, ContextError> {
    match cursor.word_size() {
        digits @ (16 | 32) => cursor.read_id(digits, TraceId::from_number),
        0 => Err(cursor.unexpected("a trace id")),
        actual => Err(cursor.error(Reason::Digits { actual })),
    }
}

fn read_span_id(cursor: &mut Cursor<'_>) -> Result<SpanId, ContextError> {
    cursor.read_id(16, |number| SpanId::from_number(number as u64))
}

/// Parses the parent span's id. Some implementations write a parent of 0 for a root.
fn read_parent_span_id(cursor: &mut Cursor<'_>) -> Result<Option<SpanId>, ContextError> {
    Ok(SpanId::from_number(cursor.read_hex(16)? as u64))
}

/// Returns the value of the header `b3` for requests that this span makes. The parent's id can only
/// follow a decision, so it is omitted if the decision is deferred.
pub fn write(context: &SpanContext) -> Text<68> {
    let mut text = Text::new();
    push_trace_id(&mut text, context.trace_id);
    text.push(b'-');
    text.push_hex(context.span_id.number());
    if context.decision != Decision::Deferred {
        text.push(b'-');
        text.push(letter(context.decision));
        if let Some(parent) = context.parent_span_id {
            text.push(b'-');
            text.push_hex(parent.number());
        }
    }
    text
}

/// Returns the value of the header `b3` with the decision alone, for a request without a known
/// context. The value is empty if the decision is deferred.
pub fn write_decision(decision: Decision) -> Text<68> {
    let mut text = Text::new();
    if decision != Decision::Deferred {
        text.push(letter(decision));
    }
    text
}

fn letter(decision: Decision) -> u8 {
    match decision {
        Decision::Debug => b'd',
        Decision::Yes => b'1',
        Decision::No | Decision::Deferred => b'0',
    }
}

fn push_trace_id<const SIZE_MAX: usize>(text: &mut Text<SIZE_MAX>, id: TraceId) {
    if id.is_wide() {
        text.push_hex(id.high());
    }
    text.push_hex(id.low());
}

/// Values of the headers `X-B3-…` for an outgoing request.
#[derive(Clone, Copy, Debug)]
pub struct B3Headers {
    trace_id: Text<32>,
    span_id: Text<16>,
    parent_span_id: Option<Text<16>>,
    decision: Decision,
}

impl B3Headers {
    /// Iterates over the headers as pairs of name and value. The names have the specification's
    /// spelling.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let parent = self.parent_span_id.as_ref();
        let decision = match self.decision {
            Decision::Deferred => None,
            Decision::No => Some(("X-B3-Sampled", "0")),
            Decision::Yes => Some(("X-B3-Sampled", "1")),
            Decision::Debug => Some(("X-B3-Flags", "1")),
        };
        [("X-B3-TraceId", self.trace_id.as_str()), ("X-B3-SpanId", self.span_id.as_str())]
            .into_iter()
            .chain(parent.map(|parent| ("X-B3-ParentSpanId", parent.as_str())))
            .chain(decision)
    }
}

/// Returns the headers `X-B3-…` for requests that this span makes.
pub fn write_parts(context: &SpanContext) -> B3Headers {
    fn span_id(id: SpanId) -> Text<16> {
        let mut text = Text::new();
        text.push_hex(id.number());
        text
    }
    let mut trace_id = Text::new();
    push_trace_id(&mut trace_id, context.trace_id);
    B3Headers {
        trace_id,
        span_id: span_id(context.span_id),
        parent_span_id: context.parent_span_id.map(span_id),
        decision: context.decision,
    }
}
