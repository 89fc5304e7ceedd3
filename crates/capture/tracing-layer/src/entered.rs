//! Spans that this thread has entered, and for each the current span that it has replaced.
//!
//! The thread's [current span](blkkin_trace::current_span) is the innermost entered span that a
//! channel wanted at its start. `tracing` allows a program to exit spans in any order.

use blkkin_trace::SpanContext;
use blkkin_trace::current_span::{self, FormerSpan};
use std::cell::RefCell;

thread_local! {
    /// Ids of the spans that this thread has entered, the innermost last, each with the current
    /// span at that time.
    static ENTERED: RefCell<Vec<(u64, FormerSpan)>> = const { RefCell::new(Vec::new()) };
}

/// Makes a span the thread's current one. `context` is `None` if the span's request is not sampled.
pub(crate) fn enter(id: u64, context: Option<&SpanContext>) {
    // The vector is gone in a thread that ends. It is borrowed if the program's allocator enters a
    // span while the vector grows. An exit then finds no entry, and changes nothing either.
    let _ = ENTERED.try_with(|entered| {
        if let Ok(mut entered) = entered.try_borrow_mut() {
            entered.reserve(1);
            let replaced = current_span::replace(context).unwrap_or(FormerSpan::NOTHING);
            entered.push((id, replaced));
        }
    });
}

/// Restores the current span that the latest enter of this span has replaced. If the thread has
/// entered another span since then, the exit of that span restores it.
pub(crate) fn exit(id: u64) {
    let _ = ENTERED.try_with(|entered| {
        let Ok(mut entered) = entered.try_borrow_mut() else { return };
        let Some(place) = entered.iter().rposition(|(other, _)| *other == id) else { return };
        let (_, replaced) = entered.remove(place);
        match entered.get_mut(place) {
            Some((_, replaced_next)) => *replaced_next = replaced_next.skipped_to(replaced),
            None => replaced.restore(),
        }
    });
}
