//! Text for people and JSON for programs: events, statistics of traces, requests, I/O operations,
//! and results of queries (text only).
//!
//! [`pretty`] prints events as `babeltrace2` does, byte for byte; [`json`] prints events as one
//! object per line; [`info`] draws statistics of traces and converts them to JSON. All three are
//! consumers of [`blkkin_reader`]. [`requests`] draws and prints the requests that `blkkin_spans`
//! assembles from events, [`operations`] prints the I/O operations of `blkkin_io` and draws a table
//! of their totals, and [`query_results`] draws the results of queries to a store.

mod class;
mod errno;
pub mod info;
pub mod json;
mod number;
pub mod operations;
pub mod pretty;
mod program;
pub mod query_results;
mod quote;
pub mod requests;
pub mod time;
