//! What the machine itself offers, with a safe face: instructions that not every processor has, and
//! what a library in somebody else's program has to know of forks, signals and randomness.
//!
//! One of the few crates with unsafe code; each part of it has a module of its own, whose functions
//! can be called with any arguments, from any thread and from signal handlers. None of them changes
//! `errno`.

mod counter;
mod entropy;
mod errno;
mod fork;
#[cfg(feature = "testing")]
pub mod testing;
mod zeros;

pub use counter::add_on_own_thread;
pub use entropy::{random_words, whereabouts};
pub use fork::WipedOnFork;
pub use zeros::{SPAN, zeros, zeros_of_all};
