//! Safe wrappers of features of the processor, the kernel and the C library, for a library in a
//! foreign program and for daemons. They cover instructions that not every processor has, clocks,
//! shared memory, descriptors, sockets, file rights, mounts, threads, forks, signals, eBPF, random
//! numbers and the memory allocator.
//!
//! This is one of the few crates with unsafe code. Each feature has a module of its own. The
//! functions can be called with any arguments and from any thread, unless their documentation says
//! otherwise. The functions for clocks, counters, random numbers, the current thread and wake-ups
//! can also be called from signal handlers, and leave `errno` unchanged; [`rseq_offset`] is an
//! exception.

mod access_time;
pub mod bpf;
mod clock;
mod counter;
pub mod descriptor;
mod detached_mount;
mod directory_watch;
mod entropy;
mod errno;
mod file_user;
mod inherited;
mod malloc;
mod memory_file;
mod notify;
mod parallel;
pub mod process;
mod shared;
mod shared_page;
pub mod socket;
#[cfg(feature = "testing")]
pub mod testing;
pub mod thread_slot;
mod threads;
mod usdt;
mod wait;
mod wake;
mod wipe_on_fork;
mod zero_bytes;

pub use access_time::keep_access_time;
pub use clock::{boot_id, boottime_ns, monotonic_ns, tsc, tsc_after_loads, tsc_is_steady};
pub use counter::add_on_own_thread;
pub use detached_mount::{DetachedMountError, mount_detached};
pub use directory_watch::DirectoryWatch;
pub use entropy::{moment_identity, random_words};
pub use file_user::as_user;
pub use inherited::{keep_inherited_sockets, listen_tcp, unused_inherited_sockets};
pub use malloc::{keep_large_blocks_apart, share_heaps, trim_heaps};
pub use memory_file::MemoryFile;
pub use notify::{ALIVE, READY, STOPPING, notify};
pub use parallel::run_both;
pub use shared::{PAGE_SIZE, Piece, SharedMemory, is_accounting_strict, seal_shared, sealed_size};
pub use shared_page::{SHARED_PAGE_SIZE, SharedPage};
pub use threads::{
    current_cpu, find_functions_of_recording, has_left_frame, process_and_thread,
    restart_sequences, rseq_offset, thread_exists, thread_id, user_id,
};
pub use usdt::{USDT_ARGUMENTS_MAX, UsdtArguments, UsdtText};
pub use wait::{sleep_ns, wait};
pub use wake::{Waker, barrier_for_all, register_for_barriers};
pub use wipe_on_fork::{AllZeros, WipedOnFork, Words};
pub use zero_bytes::{SPAN, zeros, zeros_of_all};
