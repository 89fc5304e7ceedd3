//! What the machine itself offers, with a safe face: instructions that not every processor has, the
//! processor's clock, shared memory, threads' ids.
//!
//! One of the few crates with unsafe code; each part of it has a module of its own, whose functions
//! can be called with any arguments.

mod clock;
mod shared;
mod threads;
mod zeros;

pub use clock::{monotonic_ns, tsc, tsc_after_loads, tsc_is_steady};
pub use shared::SharedMemory;
pub use threads::{current_cpu, rseq_offset, thread_exists, thread_id};
pub use zeros::{SPAN, zeros, zeros_of_all};
