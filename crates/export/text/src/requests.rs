//! Requests for people and for machines: [`TreePrinter`] draws the tree of a request's spans with
//! a bar for each that shows when it was, [`json`] prints one object a line.

pub mod json;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub use tree::{Options, TreePrinter};
