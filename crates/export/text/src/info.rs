//! Statistics of traces: counts, rates over time, losses.
//!
//! Each thread has a [`Collector`]; [`Collector::finish`] merges them into one [`Collection`],
//! which does not depend on the number of threads. [`draw()`] formats a collection as text, and
//! [`to_json`] as a JSON object. Memory is bounded: the [`Timeline`] widens its buckets as the
//! covered time grows, and only the earliest losses are listed individually.

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
