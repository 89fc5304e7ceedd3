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

use crate::event::Payload;
use crate::family::{RUN, RUN_KINDS};
use crate::timestamp::Timestamp;
use blkkin_control::current_span::{SPAN, WORDS};
use blkkin_ring::{BriefRoom, Encoder, Pen};
use blkkin_sys::thread_slot::{self, PRIVATE_WORDS};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// Returns true if a channel wants runs, or may want them while the event type is undecided.
#[inline(always)]
pub(super) fn may_be_wanted() -> bool {
    // Not `is_enabled`, whose code is larger: `change` handles the undecided type.
    RUN.wanted_word().load(Ordering::Relaxed) != 0
}

/// Number in the upper half of a former span's first word: the change has ended the run of the
/// former span. Another run starts when the span is restored.
const RUN_ENDED: u64 = 1 << 32;
/// Number in the upper half of a former span's first word: the former span had no run, or there was
/// no span.
const NO_RUN: u64 = 2 << 32;
/// Mask of the state in the first word.
const STATE: u64 = 0xffff_ffff;

/// Returns true if the words of a former span are the result of a [`change`] that looked for runs.
#[inline(always)]
pub(super) fn is_changed(former: &[u64; WORDS]) -> bool {
    former[0] > STATE
}

/// Sets the words of the thread's slot, records the run that ends thereby, and starts another one.
/// Returns the words of the former span.
#[inline(never)]
pub(super) fn change(words: &[u64; WORDS]) -> [u64; WORDS] {
    if !RUN.is_decided() && !is_wanted_by_now() {
        return thread_slot::swap(words);
    }
    let start = Timestamp::now();
    let found = thread_slot::take_private();
    let mut former = thread_slot::swap(words);
    set_start(words, start);
    match start_of(&former, found) {
        Some(start) => {
            record(&former, start);
            former[0] |= RUN_ENDED;
        }
        None => former[0] |= NO_RUN,
    }
    former
}

/// Restores the words of the thread's slot after a [`change`], and records the run that ends
/// thereby.
#[inline(never)]
pub(super) fn restore(former: &[u64; WORDS]) {
    let [first, low, high, span_id] = *former;
    let words = [first & STATE, low, high, span_id];
    let now = Timestamp::now();
    let found = thread_slot::take_private();
    let shown = thread_slot::swap(&words);
    if first & RUN_ENDED != 0 {
        set_start(&words, now);
    }
    if let Some(start) = start_of(&shown, found) {
        record(&shown, start);
    }
}

/// Returns the words to restore in place of those of a former span that was exited first; `earlier`
/// are those that its enter replaced. If its enter did not look for runs, the number of the later
/// change remains.
pub(super) fn skipped_to(former: &[u64; WORDS], earlier: &[u64; WORDS]) -> [u64; WORDS] {
    let mut words = *earlier;
    if !is_changed(earlier) {
        words[0] |= former[0] & !STATE;
    }
    words
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
