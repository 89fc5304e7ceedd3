//! For tests only: a disk in memory that fails when told to, runs full, and forgets what was not made durable when
//! its power is cut ([`SimulatedDisk`]); and reproducible random numbers ([`Random`]).

mod disk;
mod inode;
mod random;

pub use disk::{Held, Lie, SimulatedDisk};
pub use random::Random;
