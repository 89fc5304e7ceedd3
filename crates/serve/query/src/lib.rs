//! Query APIs over a store of spans. [`Api::zipkin`] is compatible with Zipkin's server;
//! [`Api::own`] is BlkKin's own API, with summaries, filters, order, pages and latencies. Input is
//! an [`ApiQuery`], output an [`Answer`]. The calls block on the I/O of the store.

mod answer;
mod api;
mod blkkin_api;
mod params;
mod span;
mod zipkin;

pub use answer::{Answer, Kind};
pub use api::{Api, ApiQuery, Settings};
pub use params::Params;
