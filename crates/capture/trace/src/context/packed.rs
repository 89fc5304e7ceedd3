//! The packed context of blkin, for binary protocols: 24 bytes with trace id, span id and parent
//! span id, 64 bits each, big-endian.
//!
//! The format has no field for a decision, nor for the upper half of a trace id. As in blkin, a
//! trace id of 0 means that the request is not sampled; any other id means that the request is
//! sampled.

use super::{ContextError, Decision, Part, Reason, SpanContext};
use crate::id::{SpanId, TraceId};

/// Size of a packed context, in bytes.
pub const SIZE: usize = 24;

/// Parses a packed context. Returns `None` if the trace id is 0: the request is not sampled.
pub fn read(bytes: &[u8]) -> Result<Option<SpanContext>, ContextError> {
    let wrong_size = Reason::Size { expected: SIZE, actual: bytes.len() };
    let (words, rest) = bytes.as_chunks::<8>();
    let ([trace, span, parent], []) = (words, rest) else {
        return Err(ContextError::new(Part::Packed, bytes.len().min(SIZE), wrong_size));
    };
    let [trace, span, parent] = [trace, span, parent].map(|word| u64::from_be_bytes(*word));
    let Some(trace_id) = TraceId::from_number(trace.into()) else { return Ok(None) };
    let span_id =
        SpanId::from_number(span).ok_or(ContextError::new(Part::Packed, 8, Reason::Zero))?;
    Ok(Some(SpanContext {
        trace_id,
        span_id,
        parent_span_id: SpanId::from_number(parent),
        decision: Decision::Yes,
        random_trace_id: false,
    }))
}

/// Returns the packed context to send with requests that this span makes. All bytes are 0 if the
/// request is not sampled, or if the decision is deferred.
pub fn write(context: &SpanContext) -> [u8; SIZE] {
    let parent = context.parent_span_id.map_or(0, SpanId::number);
    let words = [context.trace_id.low(), context.span_id.number(), parent];
    let mut bytes = [0; SIZE];
    if context.decision.is_followed() {
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
    }
    bytes
}
