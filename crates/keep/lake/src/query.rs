//! Queries on a store. [`span_store`] implements the `SpanStore` trait, [`snapshot`] is the state
//! that a query reads, and [`search`] finds requests.

mod column_scan;
mod latency;
mod matching;
mod measure;
mod page_cache;
mod projection;
mod residual;
mod row_evaluator;
mod search;
pub(crate) mod snapshot;
mod span_store;
