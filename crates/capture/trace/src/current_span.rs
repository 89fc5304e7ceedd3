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
//!
//! # Runs
//!
//! A channel can record the [runs](crate::family::RUN) of spans: the periods in which a thread
//! showed them. The thread records a run when it stops to show the span, also if it enters another
//! span meanwhile; when it shows the span again, another run starts. A run begins just before the
//! thread shows the span, and ends just after, so the runs cover each moment, and runs of nested
//! spans overlap by a few nanoseconds. A span that is shown when a channel begins to record runs
//! has no run until it is entered again, and one that is shown when the thread ends has no last
//! run. A forked child continues the run of the thread that forked.
//!
//! A change of the current span that records a run does what recording an event does. As long as no
//! channel wants runs, an enter and exit cost another load and branch. A signal handler may
//! interrupt a change, and enter spans itself: the runs then miss no moment either, but runs of the
//! interrupted code may overlap each other and the handler's.

mod run;

use crate::SpanContext;
use crate::daemon::catalog;
use blkkin_control::current_span::{CHANGING, NONE, SPAN, WORDS};
use blkkin_sys::thread_slot;

const _: () = assert!(CHANGING == thread_slot::CHANGING && WORDS == thread_slot::WORDS);

/// The current span, or the absence of one, that a thread had before a change: the words of the
/// slot. The upper half of the first word is a number of the module `run`, or 0 if no channel
/// wanted runs at the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the current span has to be restored"]
pub struct FormerSpan([u64; WORDS]);

/// Makes the span with these ids the thread's current span. The ids are those of a sampled request:
/// lower and upper half of the trace id, and the span id. Returns what was replaced; `None` if
/// nothing has to be restored.
#[inline]
pub fn set(trace_id: [u64; 2], span_id: u64) -> Option<FormerSpan> {
    let [low, high] = trace_id;
    catalog::has_been_made().then(|| FormerSpan(change(&[SPAN, low, high, span_id])))
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
    may_be_set.then(|| FormerSpan(change(&[NONE; WORDS])))
}

/// Sets the words of the thread's slot. Returns the words of a [`FormerSpan`].
#[inline(always)]
fn change(words: &[u64; WORDS]) -> [u64; WORDS] {
    match run::may_be_wanted() {
        true => run::change(words),
        false => thread_slot::swap(words),
    }
}

impl FormerSpan {
    /// No current span.
    pub const NOTHING: FormerSpan = FormerSpan([NONE; WORDS]);

    /// Makes this span the current one again. Call it only on the thread on which it was replaced.
    #[inline]
    pub fn restore(self) {
        match run::is_changed(&self.0) {
            true => run::restore(&self.0),
            false => thread_slot::set(&self.0),
        }
    }

    /// Returns what has to be restored in place of this span, if this span was exited before the
    /// span that replaced it. `earlier` is what the enter of this span replaced.
    pub fn skipped_to(self, earlier: FormerSpan) -> FormerSpan {
        FormerSpan(run::skipped_to(&self.0, &earlier.0))
    }

    /// Returns the words, for an interface that cannot store a `FormerSpan`.
    pub const fn words(self) -> [u64; WORDS] {
        self.0
    }

    /// Returns what was replaced, from the result of [`words`](Self::words).
    pub const fn from_words(words: [u64; WORDS]) -> FormerSpan {
        FormerSpan(words)
    }
}
