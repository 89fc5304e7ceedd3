//! The Common Trace Format, 1.8 and 2, in both directions and without I/O.
//!
//! Metadata text is parsed into a [`schema::Schema`] ([`metadata`]). A schema is compiled once into
//! a decoder, which walks packets without allocating, and an encoder, which fills them.

mod bits;
pub mod clock;
pub mod ctf2;
pub mod decode;
pub mod encode;
mod float;
pub mod metadata;
pub mod schema;
mod text;
pub mod tsdl;
