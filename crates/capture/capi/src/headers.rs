//! Conversion between `Context` of the C API and `SpanContext` of the tracer. The tracer parses and
//! formats the headers.

use crate::layout::{Context, DEBUG_TRACE, DEFERRED, RANDOM, SAMPLED, TraceInfo};
use blkkin_trace::context::{Text, b3, w3c};
use blkkin_trace::{Decision, Incoming, SpanContext, SpanId, TraceId};

pub(crate) fn parse_traceparent(text: &[u8]) -> Option<Context> {
    w3c::read(text).ok().map(|context| to_c(&context))
}

pub(crate) fn format_traceparent(context: &Context) -> Option<Text<55>> {
    // A traceparent header has only one flag for the decision: "sampled".
    let is_sampled = context.flags & SAMPLED != 0;
    let decision = if is_sampled { Decision::Yes } else { Decision::No };
    from_c(context, decision).map(|context| w3c::write(&context))
}

pub(crate) fn parse_b3(text: &[u8]) -> Option<Context> {
    Some(match b3::read(text).ok()? {
        Incoming::Context(context) => to_c(&context),
        Incoming::Decision(decision) => Context { flags: flags(decision), ..Context::default() },
    })
}

pub(crate) fn format_b3(context: &Context) -> Option<Text<68>> {
    let decision = match context.flags {
        flags if flags & DEBUG_TRACE != 0 => Decision::Debug,
        flags if flags & DEFERRED != 0 => Decision::Deferred,
        flags if flags & SAMPLED != 0 => Decision::Yes,
        _ => Decision::No,
    };
    let TraceInfo { trace_id, span_id, .. } = context.info;
    let has_no_ids = trace_id == 0 && context.trace_id_high == 0 && span_id == 0;
    if has_no_ids && decision != Decision::Deferred {
        return Some(b3::write_decision(decision));
    }
    from_c(context, decision).map(|context| b3::write(&context))
}

fn to_c(context: &SpanContext) -> Context {
    let parent = context.parent_span_id.map_or(0, SpanId::number);
    let random = if context.random_trace_id { RANDOM } else { 0 };
    Context {
        info: TraceInfo {
            trace_id: context.trace_id.low().cast_signed(),
            span_id: context.span_id.number().cast_signed(),
            parent_span_id: parent.cast_signed(),
        },
        trace_id_high: context.trace_id.high().cast_signed(),
        flags: flags(context.decision) | random,
    }
}

fn flags(decision: Decision) -> u32 {
    match decision {
        Decision::No => 0,
        Decision::Yes => SAMPLED,
        Decision::Debug => SAMPLED | DEBUG_TRACE,
        // A request without a decision is recorded rather than lost.
        Decision::Deferred => SAMPLED | DEFERRED,
    }
}

/// Converts a context of the C API. Returns `None` if the trace id or the span id is 0.
fn from_c(context: &Context, decision: Decision) -> Option<SpanContext> {
    let TraceInfo { trace_id, span_id, parent_span_id } = context.info;
    let high = u128::from(context.trace_id_high.cast_unsigned());
    let low = u128::from(trace_id.cast_unsigned());
    Some(SpanContext {
        trace_id: TraceId::from_number(high << 64 | low)?,
        span_id: SpanId::from_number(span_id.cast_unsigned())?,
        parent_span_id: SpanId::from_number(parent_span_id.cast_unsigned()),
        decision,
        random_trace_id: context.flags & RANDOM != 0,
    })
}
