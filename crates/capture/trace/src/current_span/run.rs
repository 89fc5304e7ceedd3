//! Runs of spans: the periods in which a thread shows a span as its current one, recorded as events
//! of the type [`RUN`].
//!
//! The thread's [private words](thread_slot) are the start of the run of the span that it shows:
//! the clock, the time and the span id. They are absent if no channel wanted runs when the span was
//! entered. A change that records nothing leaves them as they are, so the span id tells whether
//! they belong to the span in the slot.
//!
//! A change takes the private words before it changes the slot, and sets others afterwards. So a
//! signal handler in between finds no start, records no run of the interrupted code, and leaves no
//! start behind.

use super::FormerSpan;
use crate::event::Payload;
use crate::family::{RUN, RUN_KINDS};
use crate::timestamp::Timestamp;
use blkkin_control::current_span::{SPAN, WORDS};
use blkkin_ring::{BriefRoom, Encoder, Pen};
use blkkin_sys::thread_slot::{self, PRIVATE_WORDS};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Effect of a change of the current span on the run of the former span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FormerRun {
    /// None: no channel wanted runs.
    Unchanged,
    /// The change has ended the run. Another one starts when the span is restored.
    Ended,
    /// The former span had no run, or there was no former span.
    Absent,
}

/// Returns true if a channel wants runs, or may want them while the event type is undecided.
#[inline(always)]
pub(super) fn may_be_wanted() -> bool {
    RUN.is_enabled()
}

/// Exchanges the words of the thread's slot with those in `span`, records the run that ends thereby,
/// and starts another one.
#[inline(never)]
pub(super) fn change(span: &mut FormerSpan) {
    if !RUN.is_decided() && !is_wanted_by_now() {
        return thread_slot::exchange(&mut span.words);
    }
    let entered = span.words;
    let start = Timestamp::now();
    let found = thread_slot::take_private();
    thread_slot::exchange(&mut span.words);
    set_start(&entered, start);
    let former = start_of(&span.words, found);
    span.run = if former.is_some() { FormerRun::Ended } else { FormerRun::Absent };
    if let Some(start) = former {
        record(&span.words, start);
    }
}

/// Restores the words of the thread's slot after a [`change`], and records the run that ends
/// thereby.
#[inline(never)]
pub(super) fn restore(span: &FormerSpan) {
    let now = Timestamp::now();
    let found = thread_slot::take_private();
    let shown = thread_slot::swap(&span.words);
    if span.run == FormerRun::Ended {
        set_start(&span.words, now);
    }
    if let Some(start) = start_of(&shown, found) {
        record(&shown, start);
    }
}

/// Sets the thread's private words to the start of the run of the span in the slot, if there is one
/// and a clock is known.
fn set_start(slot: &[u64; WORDS], start: Timestamp) {
    if let ([SPAN, _, _, span_id], true) = (*slot, start.is_some()) {
        let [clock, time] = start.words();
        thread_slot::set_private(&[clock, time, span_id]);
    }
}

/// Returns the start of the run of the span in the slot, from the thread's private words.
fn start_of(slot: &[u64; WORDS], private: [u64; PRIVATE_WORDS]) -> Option<Timestamp> {
    let [state, _, _, shown] = *slot;
    let [clock, time, span_id] = private;
    let start = Timestamp::from_words([clock, time]);
    (state == SPAN && shown == span_id && start.is_some()).then_some(start)
}

/// Registers the event type, so that it is decided even if the clock, and so each start, is not
/// known yet. Returns true if a channel wants runs.
#[cold]
fn is_wanted_by_now() -> bool {
    let mut channels = 0;
    catch_panic(|| channels = RUN.register(RUN_KINDS));
    channels != 0
}

/// Records a run that ends now, if a channel wants it.
fn record(slot: &[u64; WORDS], start: Timestamp) {
    let Some((start, duration)) = start.elapsed() else { return };
    let [_, low, high, span_id] = *slot;
    let run = Run([low, high, span_id, start, duration]);
    let mut room = BriefRoom::new();
    if !RUN.record_brief(&run, &mut room) {
        let encode = |encoder: &mut Encoder<'_>| {
            // An `Encoder` refuses no field.
            let _ = run.encode(encoder);
        };
        catch_panic(|| RUN.record_slowly(RUN_KINDS, &encode, &mut room));
    }
}

/// Fields of the event that records a run.
struct Run([u64; 5]);

impl Payload for Run {
    #[inline(always)]
    fn encode(&self, pen: &mut impl Pen) -> Option<()> {
        pen.put_words(self.0)
    }
}

/// Runs recording code, which panics only on a bug in the tracer. Callers in C cannot handle a
/// panic, and guards in Rust may be dropped while the thread panics.
fn catch_panic(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // Dropping the panic's payload could panic again.
        mem::forget(payload);
    }
}
