//! Events as text for people and JSON for machines.
//!
//! [`pretty`] prints events as `babeltrace2` does, byte for byte; [`json`] prints one object a
//! line; [`info`] draws what a trace holds. All are consumers of [`blkkin_reader`].

pub mod info;
pub mod json;
mod number;
pub mod pretty;
mod quote;
pub mod time;
