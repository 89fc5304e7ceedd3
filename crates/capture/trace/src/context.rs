//! The context of a span: its request, its parent span, and whether the request is followed. The
//! context travels with the request, in one of the formats [`w3c`], [`b3`] and [`packed`]. Reading
//! a format allocates nothing, and writing one fills a buffer on the stack.

pub mod b3;
pub mod packed;
pub mod w3c;

mod error;
mod hex;
#[cfg(test)]
mod tests;
mod text;

pub use error::{ContextError, Part, Reason};
pub use text::Text;

use crate::id::{SpanId, TraceId, make, make_for_span};

/// Whether a request is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Not decided: the receiver decides.
    #[default]
    Deferred,
    /// The request is not followed.
    No,
    /// The request is followed.
    Yes,
    /// The request is followed whatever other samplers decide.
    Debug,
}

/// Ids of a span and its request, and the decision whether the request is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// The request's id.
    pub trace_id: TraceId,
    /// The span's id.
    pub span_id: SpanId,
    /// The parent span's id; `None` for a root, or if the format does not carry it.
    pub parent_span_id: Option<SpanId>,
    /// Whether the request is followed.
    pub decision: Decision,
    /// Whether the trace id is known to be random; [`w3c`] forwards this flag to samplers that use
    /// the id.
    pub random_trace_id: bool,
}

/// Context or decision received with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Incoming {
    /// The context of the span that caused the request.
    Context(SpanContext),
    /// A decision without a span.
    Decision(Decision),
}

impl Decision {
    /// Returns true if the request's spans are to be recorded.
    #[inline]
    pub const fn is_followed(self) -> bool {
        matches!(self, Decision::Yes | Decision::Debug)
    }
}

impl SpanContext {
    /// Returns the context of a new request. The trace id has 64 bits and equals the span id.
    #[inline]
    pub fn root(decision: Decision) -> SpanContext {
        let span_id = make_for_span();
        SpanContext {
            trace_id: span_id.into(),
            span_id,
            parent_span_id: None,
            decision,
            random_trace_id: true,
        }
    }

    /// Returns the context of a new request. The trace id has 128 bits; its lower half equals the
    /// span id.
    #[inline]
    pub fn root_wide(decision: Decision) -> SpanContext {
        let root = SpanContext::root(decision);
        let wide = u128::from(make().get()) << 64 | root.trace_id.number();
        SpanContext { trace_id: TraceId::from_number(wide).unwrap_or(root.trace_id), ..root }
    }

    /// Returns the context of a new child of this span.
    #[inline(always)]
    pub fn child(&self) -> SpanContext {
        SpanContext { span_id: make_for_span(), parent_span_id: Some(self.span_id), ..*self }
    }
}

impl Incoming {
    /// Returns the decision about the request.
    #[inline]
    pub const fn decision(&self) -> Decision {
        match self {
            Incoming::Context(context) => context.decision,
            Incoming::Decision(decision) => *decision,
        }
    }

    /// Returns the context, if one was received.
    #[inline]
    pub const fn context(&self) -> Option<&SpanContext> {
        match self {
            Incoming::Context(context) => Some(context),
            Incoming::Decision(_) => None,
        }
    }
}
