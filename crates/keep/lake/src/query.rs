//! Answers of a store. [`span_store`] implements the trait, [`snapshot`] is what a query reads, [`search`] finds requests.

mod judge;
mod latency;
mod measure;
mod pages;
mod plan;
mod projection;
mod search;
pub(crate) mod snapshot;
mod span_store;
