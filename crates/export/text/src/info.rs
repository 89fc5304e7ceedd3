//! Statistics of traces: counts, rates over time, losses.
//!
//! Each thread has a [`Collector`]; [`Collector::finish`] merges them into one [`Collection`],
//! which does not depend on the number of threads. [`draw`] makes text of it, and [`to_json`] an
//! object for programs. Memory is bounded: the [`Timeline`] widens its buckets as the span grows,
//! and only the earliest losses are kept individually.

mod chart;
mod collect;
mod collection;
mod draw;
mod json;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod timeline;
pub mod units;

pub use collect::Collector;
pub use collection::{Collection, Counts, EventInfo, LossInfo, StreamInfo, TraceInfo};
pub use draw::{Options, draw};
pub use json::{SCHEMA, to_json};
pub use timeline::Timeline;
