//! Guard of a thread's current span.

use super::Trace;
use crate::current_span::{self, FormerSpan};
use std::marker::PhantomData;

/// A span that is the thread's current one until this guard is dropped. The guard then restores the
/// current span that it found, also if guards are dropped in another order.
///
/// ```compile_fail
/// # use blkkin_trace::{Endpoint, Trace, sample};
/// # static OSD: Endpoint<'static> = Endpoint::named("osd.3");
/// let span = Trace::root("client io", &OSD, sample::global()).span();
/// let entered = span.enter();
/// // The guard cannot be moved to another thread.
/// std::thread::scope(|scope| scope.spawn(move || drop(entered)).join());
/// ```
#[derive(Debug)]
#[must_use = "the span is the current one until the guard is dropped"]
pub struct EnteredSpan<'s> {
    /// `None` if nothing has to be restored.
    replaced: Option<FormerSpan>,
    /// Borrows the span, and makes the guard neither `Send` nor `Sync`.
    of_thread: PhantomData<(&'s (), *const ())>,
}

impl Trace<'_> {
    /// Makes this span the thread's [current span](crate::current_span) until the guard is dropped,
    /// so that observers outside of the program attribute to it what the thread does, such as its
    /// system calls. Has no effect on annotations and children.
    ///
    /// If the request is not sampled, the thread has no current span meanwhile.
    ///
    /// If a channel wants [runs](crate::current_span#runs), the thread records for how long it
    /// showed the span, when the guard is dropped or another span is entered.
    ///
    /// The guard belongs to the thread. Do not hold it across an `.await`, or across a switch to
    /// another coroutine: the thread then works for others. Enter the span within each poll
    /// instead:
    ///
    /// ```
    /// # use blkkin_trace::Span;
    /// # use std::{future::{Future, poll_fn}, pin::pin};
    /// async fn within<F: Future>(span: Span<'_>, future: F) -> F::Output {
    ///     let mut future = pin!(future);
    ///     poll_fn(|context| {
    ///         let _entered = span.enter();
    ///         future.as_mut().poll(context)
    ///     })
    ///     .await
    /// }
    /// ```
    #[inline]
    pub fn enter(&self) -> EnteredSpan<'_> {
        let replaced = match self.is_followed() {
            true => current_span::set(self.ids.trace, self.ids.span),
            false => current_span::clear(),
        };
        EnteredSpan { replaced, of_thread: PhantomData }
    }
}

impl Drop for EnteredSpan<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(replaced) = self.replaced {
            replaced.restore();
        }
    }
}
