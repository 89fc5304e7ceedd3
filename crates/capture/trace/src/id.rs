//! Trace ids and span ids: never zero, and unique over a cluster. The module `generator` describes
//! the algorithm.

mod generator;
#[cfg(test)]
mod tests;

pub use blkkin_model::{SpanId, TraceId};
pub use generator::{make, prepare};

/// Returns a new span id, unique and never 0.
#[inline]
pub(crate) fn make_for_span() -> SpanId {
    make().into()
}
