//! What the machine itself offers, with a safe face: instructions that not every processor has.
//!
//! One of the few crates with unsafe code; each part of it has a module of its own, whose functions
//! can be called with any arguments.

mod zeros;

pub use zeros::{SPAN, zeros, zeros_of_all};
