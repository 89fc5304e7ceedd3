//! The header `traceparent` of W3C's Trace Context, levels 1 and 2:
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  trace id                   span id          flags: 1 sampled, 2 random trace id
//! ```
//!
//! The program must forward `tracestate`, unless `traceparent` is missing, invalid, or duplicated.

use super::hex::Cursor;
use super::{ContextError, Decision, Part, Reason, SpanContext, Text};
use crate::id::{SpanId, TraceId};

const FOLLOWED: u8 = 1;
const RANDOM_TRACE_ID: u8 = 2;

/// Parses the header's value. The header does not carry the parent of the span.
///
/// Versions above 00 may append fields, which are ignored; a dash must precede them.
pub fn read(header: &[u8]) -> Result<SpanContext, ContextError> {
    let mut cursor = Cursor::trimmed(Part::Traceparent, header);
    let start = cursor;
    let version = cursor.read_hex(2)?;
    if version == 0xff {
        return Err(start.error(Reason::Version));
    }
    cursor.expect_dash()?;
    let trace_id = cursor.read_id(32, TraceId::from_number)?;
    cursor.expect_dash()?;
    let span_id = cursor.read_id(16, |number| SpanId::from_number(number as u64))?;
    cursor.expect_dash()?;
    let flags = cursor.read_hex(2)? as u8;
    if version == 0 || cursor.rest().first() != Some(&b'-') {
        cursor.expect_end()?;
    }
    Ok(SpanContext {
        trace_id,
        span_id,
        parent_span_id: None,
        decision: if flags & FOLLOWED != 0 { Decision::Yes } else { Decision::No },
        random_trace_id: flags & RANDOM_TRACE_ID != 0,
    })
}

/// Returns the header's value for requests that this span makes. The header cannot express a
/// deferred decision, which is written as "not sampled", or a debug decision, which is written as
/// "sampled".
pub fn write(context: &SpanContext) -> Text<55> {
    let mut flags = 0;
    if context.decision.is_followed() {
        flags |= FOLLOWED;
    }
    if context.random_trace_id {
        flags |= RANDOM_TRACE_ID;
    }
    let mut text = Text::new();
    text.push(b'0');
    text.push(b'0');
    text.push(b'-');
    text.push_hex(context.trace_id.high());
    text.push_hex(context.trace_id.low());
    text.push(b'-');
    text.push_hex(context.span_id.number());
    text.push(b'-');
    text.push(b'0');
    text.push(b'0' + flags);
    text
}
