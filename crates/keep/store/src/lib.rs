//! The interface of span stores: accept batches ([`SpanStore::accept`]) and answer queries. Servers
//! and stores depend on this crate, not on each other.
//!
//! - A [`Batch`] is accepted as received from the network, in any format of `export/wire`. The
//!   result is an [`AcceptedBatch`] once the spans are queryable and as durable as the store makes
//!   them.
//! - A [`Query`] selects requests that have spans with certain [`Condition`]s. The answer is a
//!   [`Page`] of [`Summary`]s; whole requests are read by their ids.
//! - [`Link`]s count calls between services, and [`Latency`] is a histogram of durations. [`Heat`]
//!   shows durations over time. A [`Difference`] compares the spans in a box of start times and
//!   durations with the spans outside the box, by their values and by their own time.
//!
//! This crate also implements what must be the same in all stores: the evaluation of a [`Query`] on
//! a request, the [`Summary`] of a request, the order of pages, and the [`Linker`]. [`MemoryStore`]
//! is the simplest store.

mod batch;
mod cancel;
mod condition;
mod difference;
mod error;
mod heat;
mod interval;
mod latency;
mod link;
mod memory;
mod otlp;
mod own_time;
mod query;
mod span_order;
mod store;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod zipkin;

pub use batch::{AcceptCallback, AcceptedBatch, Batch, Policy, Refusal};
pub use cancel::{Cancel, check, is_cancelled};
pub use condition::{Case, Condition, Number, TagTest, TextField, TextTest, filter_hints, text_of};
pub use difference::{Area, Difference, Tally, Topic, ValueCount, for_each_word};
pub use error::Error;
pub use heat::Heat;
pub use interval::{DatedCounter, Interval, time_of_day_ns};
pub use latency::{Durations, Example, Latency};
pub use link::{Call, Link, Linker};
pub use memory::{Capacity, MemoryStore};
pub use otlp::{Attribute, SpanEvent, SpanLink};
pub use own_time::{MeanTime, OwnTimeDifference};
pub use query::{Order, Page, Place, Query, Window};
pub use span_order::{compare, fingerprint};
pub use store::{Counters, LossTimes, SpanStore, TagField};
pub use summary::{ServiceSpans, Summary, request_start_ns, root_of};
