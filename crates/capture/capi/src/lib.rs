//! libblkkin: the C API that `include/blkkin.h` declares and explains, which holds blkin's.
//!
//! [`layout`] has the structures as C sees them, [`blkin`] and [`extensions`] the functions, [`events`] what
//! programs record with fields of their own, and [`emit`] is where annotations leave this crate. C++ has headers only.
//!
//! # Safety
//!
//! What a caller in C owes is the same for all functions, and said once, here. A pointer is NULL
//! where the header allows it, or points to what its type says: aligned (ids may lie anywhere, as
//! they do in messages), readable, writable where it is not `const`, and not written to by others
//! during the call. Fields that the function is documented to read have been set. Strings end with
//! a NUL. Two pointers of one call may be equal: everything is read before anything is written.
//!
//! No panic may reach a caller. There is nothing here that panics, which the lints below watch over;
//! what other crates do is called through `guard::quietly`, but for the quick way of an annotation into
//! the ring, on which nothing panics, and which the guard would make a tenth longer.

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
