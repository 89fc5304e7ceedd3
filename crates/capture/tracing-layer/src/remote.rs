//! Requests from other processes: the parent of a span in another process.

use blkkin_trace::context::w3c;
use blkkin_trace::{Decision, Incoming, SpanContext, SpanId, TraceId};
use std::cell::Cell;

thread_local! {
    /// Remote parent for new spans that have no parent in this process.
    static REMOTE: Cell<Option<Incoming>> = const { Cell::new(None) };
}

/// Returns the remote parent for a span that is created now.
pub(crate) fn parent() -> Option<Incoming> {
    REMOTE.try_with(Cell::get).ok().flatten()
}

/// Runs `work`. Spans that this thread creates meanwhile without a parent in this process become
/// children of the remote span `parent`. The remote sender has decided whether the request is
/// sampled; the process's sampler decides if `parent` is `None` or its decision is deferred.
///
/// ```
/// # fn handle() {}
/// fn serve(traceparent: &[u8]) {
///     let parent = blkkin_tracing::parse_traceparent(traceparent);
///     let span = blkkin_tracing::with_parent(parent, || tracing::info_span!("serve"));
///     // For futures, use `instrument`.
///     span.in_scope(handle);
/// }
/// # serve(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
/// ```
pub fn with_parent<R>(parent: Option<SpanContext>, work: impl FnOnce() -> R) -> R {
    /// Guard that restores the former parent, also after a panic.
    struct RestoreParent(Option<Incoming>);
    impl Drop for RestoreParent {
        fn drop(&mut self) {
            let _ = REMOTE.try_with(|remote| remote.set(self.0));
        }
    }
    let parent = parent.map(Incoming::Context);
    let _restore = RestoreParent(REMOTE.try_with(|remote| remote.replace(parent)).ok().flatten());
    work()
}

/// Parses the header `traceparent` of W3C's Trace Context. Returns `None` if the header is invalid;
/// the request then begins in this process.
pub fn parse_traceparent(header: &[u8]) -> Option<SpanContext> {
    w3c::read(header).ok()
}

/// Returns a context with the ids and flags of another tracer, such as OpenTelemetry's. Bit 0 of
/// `flags` is set if the request is sampled, and bit 1 if the trace id is random. Returns `None` if
/// an id is zero.
pub fn context_of(trace_id: [u8; 16], span_id: [u8; 8], flags: u8) -> Option<SpanContext> {
    Some(SpanContext {
        trace_id: TraceId::from_number(u128::from_be_bytes(trace_id))?,
        span_id: SpanId::from_number(u64::from_be_bytes(span_id))?,
        parent_span_id: None,
        decision: if flags & 1 != 0 { Decision::Yes } else { Decision::No },
        random_trace_id: flags & 2 != 0,
    })
}
