//! Test support. [`SimulatedDisk`] is a disk in memory. It fails on request, runs out of space, and
//! loses non-durable changes at a power cut. [`Random`] gives reproducible random numbers.

mod disk;
mod inode;
mod random;

pub use disk::{FalseSync, SimulatedDisk, SyncPause};
pub use random::Random;
