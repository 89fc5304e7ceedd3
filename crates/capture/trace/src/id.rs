//! Trace ids and span ids: never zero, and unique over a cluster. How they are made is told in
//! `generator`.

mod generator;
#[cfg(test)]
mod tests;

pub use blkkin_model::{SpanId, TraceId};
pub use generator::{make, prepare};

/// A new one for a span.
#[inline]
pub(crate) fn make_for_span() -> SpanId {
    make().into()
}
