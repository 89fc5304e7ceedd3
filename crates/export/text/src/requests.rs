//! Requests for people and for programs: [`TreePrinter`] draws a request's spans as a tree with a
//! bar for each span's time, and [`json`] prints one object per line.

mod calls;
pub mod json;
mod oddities;
mod own_time;
#[cfg(test)]
mod tests;
mod tree;
mod truncate;

pub use tree::{Options, TreePrinter};
