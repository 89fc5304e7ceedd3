//! Trace ids and span ids: never zero, and unique over a cluster. `generator` explains how they are
//! made.

mod generator;
#[cfg(test)]
mod tests;

pub use blkkin_model::{SpanId, TraceId};
pub use generator::{make, prepare};

/// Makes a span id.
#[inline]
pub(crate) fn make_for_span() -> SpanId {
    make().into()
}
