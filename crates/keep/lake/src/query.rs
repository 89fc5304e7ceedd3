//! Answers of a store. [`span_store`] implements the trait, [`snapshot`] is what a query reads, [`search`] finds requests.

mod latency;
mod measure;
mod page_cache;
mod projection;
mod residual;
mod row_evaluator;
mod search;
pub(crate) mod snapshot;
mod span_store;
