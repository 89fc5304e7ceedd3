//! Test support: a simulated disk in memory that fails on request, runs full, and loses what was
//! not durable at a power cut ([`SimulatedDisk`]); and reproducible random numbers ([`Random`]).

mod disk;
mod inode;
mod random;

pub use disk::{Held, Lie, SimulatedDisk};
pub use random::Random;
