//! The current span of a thread: the span for which the thread works, shown to observers outside of
//! the program, such as eBPF programs that record what the thread asks of the kernel.
//!
//! The tracer itself does not use the current span: children and annotations belong to the span
//! that the program names. [`Trace::enter`](crate::Trace::enter) sets the current span until its
//! guard is dropped. This module is for other interfaces to spans, which have guards of their own.
//!
//! Only spans of sampled requests are shown, and only once an agent has connected to the program:
//! before that, no observer knows where the current span is. An enter and exit then cost a load and
//! a branch. A span that is not sampled hides the current span around it.
//!
//! The ids are stored in the thread's [slot](thread_slot), in the layout that
//! [`control::current_span`](blkkin_control::current_span) documents. Setting them takes no system
//! call, lock or allocation, and may happen in a signal handler, which must restore what it found.
//! If a program has several copies of this crate, such as libblkkin and a program in Rust, each has
//! its own slots, and tells its agents of them.

use crate::SpanContext;
use crate::daemon::catalog;
use blkkin_control::current_span::{CHANGING, NONE, SPAN, WORDS};
use blkkin_sys::thread_slot;

const _: () = assert!(CHANGING == thread_slot::CHANGING && WORDS == thread_slot::WORDS);

/// The current span, or the absence of one, that a thread had before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the current span has to be restored"]
pub struct FormerSpan([u64; WORDS]);

/// Makes the span with these ids the thread's current span. The ids are those of a sampled request:
/// lower and upper half of the trace id, and the span id. Returns what was replaced; `None` if
/// nothing has to be restored.
#[inline]
pub fn set(trace_id: [u64; 2], span_id: u64) -> Option<FormerSpan> {
    let [low, high] = trace_id;
    catalog::has_been_made().then(|| FormerSpan(thread_slot::swap(&[SPAN, low, high, span_id])))
}

/// Makes the span with this context the thread's current span, or clears the current span if the
/// request is not sampled or `context` is `None`. Returns what was replaced; `None` if nothing has
/// to be restored.
#[inline]
pub fn replace(context: Option<&SpanContext>) -> Option<FormerSpan> {
    match context {
        Some(context) if context.decision.is_followed() => {
            let SpanContext { trace_id, span_id, .. } = context;
            set([trace_id.low(), trace_id.high()], span_id.number())
        }
        _ => clear(),
    }
}

/// Clears the thread's current span. Returns what was replaced; `None` if the thread had no current
/// span, so that nothing has to be restored.
#[inline]
pub fn clear() -> Option<FormerSpan> {
    let may_be_set = catalog::has_been_made() && thread_slot::state() != NONE;
    may_be_set.then(|| FormerSpan(thread_slot::swap(&[NONE; WORDS])))
}

impl FormerSpan {
    /// No current span.
    pub const NOTHING: FormerSpan = FormerSpan([NONE; WORDS]);

    /// Makes this span the current one again. Call it only on the thread on which it was replaced.
    #[inline]
    pub fn restore(self) {
        thread_slot::set(&self.0);
    }

    /// Returns the words of the slot, for an interface that cannot store a `FormerSpan`.
    pub const fn words(self) -> [u64; WORDS] {
        self.0
    }

    /// Returns what was replaced, from the result of [`words`](Self::words).
    pub const fn from_words(words: [u64; WORDS]) -> FormerSpan {
        FormerSpan(words)
    }
}
