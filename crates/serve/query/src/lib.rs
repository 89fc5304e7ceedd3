//! Answers questions about stored spans: those of Zipkin's API ([`Api::zipkin`]), as its server does, and those of
//! BlkKin's own ([`Api::own`]), which has summaries, filters, order, pages and latencies. No I/O: a [`Question`] in, an
//! [`Answer`] out, and the store is asked meanwhile, which may take a while.

mod answer;
mod api;
mod own;
mod params;
mod span;
mod zipkin;

pub use answer::{Answer, Kind};
pub use api::{Api, Question, Settings};
pub use params::Params;
