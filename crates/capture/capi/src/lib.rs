//! libblkkin: the C API that `include/blkkin.h` declares and documents, including blkin's.
//!
//! [`layout`] has the structures of C; [`blkin`] and [`extensions`] have the functions; [`events`]
//! has the structures and functions of events with fields defined by the program; and [`emit`]
//! passes annotations to the tracer. The C++ API consists of headers only.
//!
//! # Safety
//!
//! The obligations of a caller in C are the same for all functions. A pointer is NULL where the
//! header allows it, or points to a value of its type. Such a value is aligned (ids may be
//! unaligned, as in messages), readable, writable unless `const`, and not written to by other
//! threads during the call. Fields that the function is documented to read are set. Strings end
//! with a NUL. Two pointers of one call may be equal: all arguments are read before any is written.
//!
//! No panic may reach a caller. The code of this crate does not panic; the lints below enforce
//! that. Calls of other crates go through `guard::catch_panic`, except calls that do not panic: for
//! ids, headers and undecided levels, and the fast path of an annotation into the ring, which the
//! guard would make a tenth slower.

#![allow(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

pub mod blkin;
pub mod core_annotations;
pub mod emit;
pub mod events;
pub mod extensions;
mod guard;
mod headers;
pub mod layout;
mod raw_annotation;
mod record;
#[cfg(test)]
mod tests;
