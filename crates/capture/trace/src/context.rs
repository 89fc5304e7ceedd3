//! The context of a span: its request, its parent span, and whether the request is sampled. The
//! context is propagated with the request, in one of the formats [`w3c`], [`b3`] and [`packed`].
//! Reading a format allocates nothing, and writing one fills a buffer on the stack.

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

/// Decision whether a request is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Not decided yet: the receiver of the request decides.
    #[default]
    Deferred,
    /// The request is not sampled.
    No,
    /// The request is sampled.
    Yes,
    /// The request is sampled whatever other samplers decide.
    Debug,
}

/// Ids of a span and its request, and the decision whether the request is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// Id of the request that the span belongs to.
    pub trace_id: TraceId,
    /// Id of the span, unique within the request.
    pub span_id: SpanId,
    /// Id of the parent span; `None` for a root span, or if a received context lacks the parent.
    pub parent_span_id: Option<SpanId>,
    /// Decision whether the request is sampled.
    pub decision: Decision,
    /// Set if the trace id is known to be random. [`w3c`] forwards this flag to samplers that use
    /// the id.
    pub random_trace_id: bool,
}

/// Context or sampling decision received with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Incoming {
    /// The context of the span that caused the request.
    Context(SpanContext),
    /// A sampling decision, received without ids of a span.
    Decision(Decision),
}

impl Decision {
    /// Returns true if the request is sampled, so that its spans are recorded.
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
    /// Returns the decision whether the received request is sampled.
    #[inline]
    pub const fn decision(&self) -> Decision {
        match self {
            Incoming::Context(context) => context.decision,
            Incoming::Decision(decision) => *decision,
        }
    }

    /// Returns the sender's context; `None` if only a decision was received.
    #[inline]
    pub const fn context(&self) -> Option<&SpanContext> {
        match self {
            Incoming::Context(context) => Some(context),
            Incoming::Decision(_) => None,
        }
    }
}
