//! What the machine itself offers, with a safe face: instructions that not every processor has, its
//! clock, memory and sockets that processes share, and what a library in somebody else's program has to know of
//! threads, forks, signals and randomness.
//!
//! One of the few crates with unsafe code; each part of it has a module of its own, whose functions
//! can be called with any arguments, from any thread and from signal handlers. None of them changes
//! `errno`, but for those that return an error.

mod beside;
mod clock;
mod counter;
pub mod descriptor;
mod entropy;
mod errno;
mod fork;
mod heap;
mod identity;
mod notify;
mod page;
pub mod process;
mod shared;
pub mod socket;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod wait;
mod wake;
mod watch;
mod zeros;

pub use beside::beside;
pub use clock::{boottime_ns, monotonic_ns, tsc, tsc_after_loads, tsc_is_steady};
pub use counter::add_on_own_thread;
pub use entropy::{random_words, whereabouts};
pub use fork::{AllZeros, WipedOnFork, Words};
pub use heap::{keep_large_blocks_apart, share_heaps, trim_heaps};
pub use identity::as_user;
pub use notify::{READY, STOPPING, notify};
pub use page::{SHARED_PAGE_SIZE, SharedPage};
pub use shared::{PAGE_SIZE, Piece, SharedMemory, is_accounting_strict, seal_shared, sealed_size};
pub use threads::{
    current_cpu, is_left, process_and_thread, restart_sequences, rseq_offset, thread_exists,
    thread_id, user_id,
};
pub use wait::{sleep_ns, wait};
pub use wake::{Waker, barrier_for_all, heed_barriers};
pub use watch::Watch;
pub use zeros::{SPAN, zeros, zeros_of_all};
