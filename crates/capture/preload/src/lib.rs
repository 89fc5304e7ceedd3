//! libblkkin_preload: records the file and network operations of a program from inside the program.
//! The dynamic linker puts the library before the C library, by `LD_PRELOAD`.
//!
//! The library replaces the functions of the C library that make such system calls (`calls`). A
//! replacement calls the next definition of its function (`next`) and records one event for the
//! system call, with the name, the arguments and the result that the kernel's tracepoint would
//! have (`recording`, `fields`). `switch` decides which calls are recorded; `state` records
//! names and open files of the process when recording starts.
//!
//! # Differences to the recording in the kernel
//!
//! Calls that do not pass through a replaced function are not seen:
//!
//! - calls that the C library makes itself: those of `fopen`, `fread`, `fwrite`, `printf`, `fflush`
//!   and `fclose`, of `opendir`, `mkstemp`, `getaddrinfo`, `syslog`, `posix_spawn` and `dlopen`;
//! - system calls without the C library: `syscall()`, `io_uring`, programs in Go, static programs;
//! - set-user-id programs, for which the dynamic linker ignores the variable;
//! - calls of a child of `vfork` until it executes another program (see `vfork`);
//! - calls before the library has found an agent, and those of the library itself.
//!
//! A path or address that the kernel may not have read, because the call failed before, is recorded
//! as empty.
//!
//! # Safety
//!
//! A replacement passes its arguments unchanged to the function that the program meant to call. So
//! the program's obligations are those of that function. The library reads memory of the program
//! only where the kernel has read or written it in the same call. Replaced functions can be
//! cancelled (`pthread_cancel`) where the originals can: their frames have nothing to drop.

#![allow(unsafe_code)]

mod calls;
mod clock;
mod fields;
mod guard;
mod next;
mod recording;
mod start;
mod state;
mod switch;
mod types;
#[cfg(target_arch = "x86_64")]
mod vfork;
