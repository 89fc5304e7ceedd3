//! Table of open spans by their ids. The subscriber could store them, but a lookup there takes
//! longer than recording a span. A span's data stay at one address from its start to its end,
//! because moving freshly written data costs more than writing them.

use crate::callsite::Callsite;
use crate::fields::FieldValues;
use blkkin_trace::{SpanContext, Timestamp};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing_core::span::Id;

/// Number of shards, large enough that threads rarely contend for one.
const SHARDS: usize = 1024;

/// Open spans of a layer that a channel wanted when they began, in shards by their ids.
pub(crate) struct OpenSpans {
    /// Number of this table, which no other table of the process has.
    number: u64,
    shards: Box<[Shard]>,
}

/// A shard of the open spans, in a separate cache line.
#[derive(Default)]
#[repr(align(64))]
struct Shard {
    spans: Mutex<Vec<(u64, Span)>>,
    /// Number of spans that were removed; changed under the lock only.
    removals: AtomicU64,
}

/// Data of an open span; `None` if the span's request is not sampled.
type Span = Option<Box<SpanData>>;

/// Data of an open span. For an event, and for values that are added to a span later, only `values`
/// is used.
pub(crate) struct SpanData {
    pub(crate) context: Option<SpanContext>,
    pub(crate) start: Timestamp,
    pub(crate) callsite: Option<&'static Callsite>,
    pub(crate) values: FieldValues,
}

thread_local! {
    /// Data of spans closed on this thread, of its events, and of values added later, for reuse.
    #[expect(clippy::vec_box, reason = "it is what moves from here to there and back")]
    static POOL: RefCell<Vec<Box<SpanData>>> = const { RefCell::new(Vec::new()) };
}
/// Maximum number of entries of a thread's pool; more spans are rarely open at once.
const POOL_SIZE_MAX: usize = 64;

impl SpanData {
    /// Returns data from the pool, or newly allocated data. The values are empty, with bytes
    /// reserved for a number in each of `fields_count` fields. Other members may be left from an
    /// earlier span.
    pub(crate) fn new(fields_count: usize) -> Box<SpanData> {
        // The pool is gone in a thread that ends. It is borrowed if the program's allocator opens a
        // span while the pool grows.
        let pool = POOL.try_with(|pool| pool.try_borrow_mut().ok()?.pop());
        let mut span = pool.ok().flatten().unwrap_or_else(|| {
            let (context, start, callsite) = (None, Timestamp::NONE, None);
            Box::new(SpanData { context, start, callsite, values: FieldValues::new() })
        });
        span.values.clear(fields_count);
        span
    }

    pub(crate) fn recycle(self: Box<SpanData>) {
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut()
                && pool.len() < POOL_SIZE_MAX
            {
                pool.push(self);
            }
        });
    }
}

/// A span that this thread has started or entered last, so that it can be entered without the lock
/// of its shard. As long as no span is removed from the shard, its id belongs to the same span.
#[derive(Clone, Copy)]
struct LastSpan {
    table: u64,
    id: u64,
    removals: u64,
    /// `None` if the span's request is not sampled.
    context: Option<SpanContext>,
}

thread_local! {
    static LAST: Cell<LastSpan> =
        const { Cell::new(LastSpan { table: 0, id: 0, removals: 0, context: None }) };
}

/// Recorded span around a new span or event, or the reason for its absence.
pub(crate) enum EnclosingSpan {
    None,
    NotFollowed,
    Span(SpanContext),
}

impl OpenSpans {
    pub(crate) fn new() -> OpenSpans {
        static TABLES: AtomicU64 = AtomicU64::new(1);
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        OpenSpans { number: TABLES.fetch_add(1, Ordering::Relaxed), shards }
    }

    fn shard(&self, id: &Id) -> &Shard {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the id.
        let hash = id.into_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.shards[hash as usize % SHARDS]
    }

    pub(crate) fn insert(&self, id: &Id, span: Span) {
        let shard = self.shard(id);
        let context = span.as_ref().and_then(|open| open.context);
        let mut spans = shard.lock();
        spans.push((id.into_u64(), span));
        self.set_last(id, shard, context);
    }

    pub(crate) fn remove(&self, id: &Id) -> Span {
        let shard = self.shard(id);
        let mut spans = shard.lock();
        let at = spans.iter().position(|(other, _)| *other == id.into_u64())?;
        // A thread that enters a later span with this id has
        // synchronised with the thread that started it, so it sees this removal.
        let removals = shard.removals.load(Ordering::Relaxed);
        shard.removals.store(removals.wrapping_add(1), Ordering::Relaxed);
        spans.swap_remove(at).1
    }

    /// Returns the context of an open span: `Some(None)` if its request is not sampled, `None` if
    /// the span is not in the table. Takes no lock if this thread has started or entered no other
    /// span since it last did so with this one.
    #[inline]
    pub(crate) fn context(&self, id: &Id) -> Option<Option<SpanContext>> {
        let shard = self.shard(id);
        let last = LAST.get();
        let is_last = last.table == self.number
            && last.id == id.into_u64()
            && last.removals == shard.removals.load(Ordering::Relaxed);
        if is_last { Some(last.context) } else { self.find_context(id, shard) }
    }

    fn find_context(&self, id: &Id, shard: &Shard) -> Option<Option<SpanContext>> {
        let spans = shard.lock();
        let (_, span) = spans.iter().find(|(other, _)| *other == id.into_u64())?;
        let context = span.as_ref().and_then(|open| open.context);
        self.set_last(id, shard, context);
        Some(context)
    }

    /// Notes the span that this thread has started or entered. The shard is locked, so that no span
    /// is removed meanwhile.
    fn set_last(&self, id: &Id, shard: &Shard, context: Option<SpanContext>) {
        let removals = shard.removals.load(Ordering::Relaxed);
        LAST.set(LastSpan { table: self.number, id: id.into_u64(), removals, context });
    }

    /// Adds values of fields to an open span.
    pub(crate) fn record(&self, id: &Id, values: &FieldValues) {
        let mut spans = self.shard(id).lock();
        let found = spans.iter_mut().find(|(other, _)| *other == id.into_u64());
        if let Some((_, Some(open))) = found {
            open.values.merge(values);
        }
    }

    /// Returns the enclosing span of the children of the span with this id: that span, or
    /// `NotFollowed` if its request is not sampled. Returns `None` if the span is not in the table.
    pub(crate) fn enclosing(&self, id: &Id) -> Option<EnclosingSpan> {
        let spans = self.shard(id).lock();
        let (_, span) = spans.iter().find(|(other, _)| *other == id.into_u64())?;
        let context = span.as_ref().and_then(|open| open.context);
        Some(context.map_or(EnclosingSpan::NotFollowed, EnclosingSpan::Span))
    }
}

impl Shard {
    /// Locks the shard. While it is locked, no code of the program is called, except for its
    /// allocator when the shard grows.
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Span)>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for OpenSpans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spans").finish_non_exhaustive()
    }
}
