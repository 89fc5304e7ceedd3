//! The context in which a span happens: which request it belongs to, which span caused it, and
//! whether the request is followed. It travels with the request, in one of the forms of [`w3c`],
//! [`b3`] and [`packed`]. Reading them borrows and allocates nothing, and writing them goes to
//! buffers on the stack.

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
    /// Nobody has decided yet: who receives this does.
    #[default]
    Deferred,
    /// It is not.
    No,
    /// It is.
    Yes,
    /// It is, whatever later stations would drop.
    Debug,
}

/// Tells one span from all others, and what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// The request.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The span that caused it; none for the root, or if the form in which the context came does
    /// not say.
    pub parent_span_id: Option<SpanId>,
    /// Whether the request is followed.
    pub decision: Decision,
    /// Whether the trace id is known to be random, which [`w3c`] tells to those who want to sample
    /// by it.
    pub random_trace_id: bool,
}

/// What came with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Incoming {
    /// The context of the span that caused it.
    Context(SpanContext),
    /// No span, but somebody has decided.
    Decision(Decision),
}

impl Decision {
    /// Whether spans are to be recorded.
    #[inline]
    pub const fn is_followed(self) -> bool {
        matches!(self, Decision::Yes | Decision::Debug)
    }
}

impl SpanContext {
    /// Of a new request. The trace id has 64 bits, and is the span's.
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

    /// Of a new request. The trace id has 128 bits, and the lower half of it is the span's.
    #[inline]
    pub fn root_wide(decision: Decision) -> SpanContext {
        let root = SpanContext::root(decision);
        let wide = u128::from(make().get()) << 64 | root.trace_id.number();
        SpanContext { trace_id: TraceId::from_number(wide).unwrap_or(root.trace_id), ..root }
    }

    /// Of a new span that this one causes.
    #[inline(always)]
    pub fn child(&self) -> SpanContext {
        SpanContext { span_id: make_for_span(), parent_span_id: Some(self.span_id), ..*self }
    }
}

impl Incoming {
    /// Whether the request is followed.
    #[inline]
    pub const fn decision(&self) -> Decision {
        match self {
            Incoming::Context(context) => context.decision,
            Incoming::Decision(decision) => *decision,
        }
    }

    /// The context, if there is one.
    #[inline]
    pub const fn context(&self) -> Option<&SpanContext> {
        match self {
            Incoming::Context(context) => Some(context),
            Incoming::Decision(_) => None,
        }
    }
}
