//! Trace ids and span ids: never zero, unique within a process, and random between processes. The
//! module `generator` describes the algorithm.

mod generator;
#[cfg(test)]
mod tests;

pub use blkkin_model::{SpanId, TraceId};
pub use generator::{make, prepare};

/// Returns a new span id; see [`make`].
#[inline]
pub(crate) fn make_for_span() -> SpanId {
    make().into()
}
