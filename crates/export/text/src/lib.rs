//! Events as text for people and JSON for machines.
//!
//! [`pretty`] prints events as `babeltrace2` does, byte for byte; [`json`] prints one object a
//! line; [`info`] draws what a trace holds. All are consumers of [`blkkin_reader`]. [`requests`] draws
//! and prints what `blkkin_spans` makes of events.

use blkkin_ctf::schema::{Schema, StreamClass};

pub mod found;
pub mod info;
pub mod json;
mod number;
pub mod pretty;
mod program;
mod quote;
pub mod requests;
pub mod time;

/// The severity of a level that metadata gives, if it is one of the fifteen.
fn severity(level: Option<i64>) -> Option<blkkin_filter::Severity> {
    blkkin_filter::Severity::from_number(level?.try_into().ok()?)
}

/// The item at `index` of a list that grows when it must.
#[inline(always)]
fn place<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

/// A place for something by stream class and event class.
fn by_class<T>(schema: &Schema) -> Vec<Vec<Option<T>>> {
    let of_stream = |class: &StreamClass| class.events.iter().map(|_| None).collect();
    schema.streams.iter().map(of_stream).collect()
}
