//! Spans that are open, by their ids. The subscriber could keep them, too, but to find one there takes
//! longer than to record it. What is known of a span stays where it is from its start to its end: to
//! move what was just written costs more than to write it.

use crate::callsite::Callsite;
use crate::fields::Values;
use blkkin_trace::{Moment, SpanContext};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing_core::span::Id;

/// So many that threads rarely meet at one.
const SHELVES: usize = 1024;

/// All open spans of a layer.
pub(crate) struct Spans(Box<[Shelf]>);

/// A few of them. In a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Shelf(Mutex<Vec<(u64, Span)>>);

/// A span; none if it is part of a request that is not followed.
type Span = Option<Box<Open>>;

/// What is known of an open span, or of an event.
pub(crate) struct Open {
    pub(crate) context: Option<SpanContext>,
    pub(crate) start: Moment,
    pub(crate) callsite: Option<&'static Callsite>,
    pub(crate) values: Values,
}

thread_local! {
    /// Those that were recorded, for those to come.
    #[expect(clippy::vec_box, reason = "it is what moves from here to there and back")]
    static SPARE: RefCell<Vec<Box<Open>>> = const { RefCell::new(Vec::new()) };
}
/// More than that many spans are rarely open at once.
const SPARE_MAX: usize = 64;

impl Open {
    /// One of which only the values are to be relied on: there are none, and room for so many.
    pub(crate) fn new(fields_count: usize) -> Box<Open> {
        // A thread that ends has no spare ones any more; neither has one whose values show themselves
        // while it takes one, which nobody does.
        let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
        let mut open = spare.ok().flatten().unwrap_or_else(|| {
            let (context, start, callsite) = (None, Moment::NONE, None);
            Box::new(Open { context, start, callsite, values: Values::new() })
        });
        open.values.restart(fields_count);
        open
    }

    pub(crate) fn give_back(self: Box<Open>) {
        let _ = SPARE.try_with(|spare| {
            if let Ok(mut spare) = spare.try_borrow_mut()
                && spare.len() < SPARE_MAX
            {
                spare.push(self);
            }
        });
    }
}

/// What a span or event is in.
pub(crate) enum Within {
    Nothing,
    NotFollowed,
    Span(SpanContext),
}

impl Spans {
    pub(crate) fn new() -> Spans {
        Spans((0..SHELVES).map(|_| Shelf::default()).collect())
    }

    /// Programs' own code is never called while it is held.
    fn shelf(&self, id: &Id) -> MutexGuard<'_, Vec<(u64, Span)>> {
        // Fibonacci hashing: the upper bits of the product depend on all of the id's.
        let hash = id.into_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.0[hash as usize % SHELVES].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, id: &Id, span: Span) {
        self.shelf(id).push((id.into_u64(), span));
    }

    pub(crate) fn take(&self, id: &Id) -> Span {
        let mut shelf = self.shelf(id);
        let at = shelf.iter().position(|(other, _)| *other == id.into_u64())?;
        shelf.swap_remove(at).1
    }

    /// Adds to the values of a span.
    pub(crate) fn record(&self, id: &Id, values: &Values) {
        let mut shelf = self.shelf(id);
        let found = shelf.iter_mut().find(|(other, _)| *other == id.into_u64());
        if let Some((_, Some(open))) = found {
            open.values.merge(values);
        }
    }

    /// What those in this span are in; none if it is not known here.
    pub(crate) fn within(&self, id: &Id) -> Option<Within> {
        let shelf = self.shelf(id);
        let (_, span) = shelf.iter().find(|(other, _)| *other == id.into_u64())?;
        let context = span.as_ref().and_then(|open| open.context);
        Some(context.map_or(Within::NotFollowed, Within::Span))
    }
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spans").finish_non_exhaustive()
    }
}
