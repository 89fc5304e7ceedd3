//! The Common Trace Format, 1.8 and 2, in both directions and without I/O.
//!
//! Metadata text becomes a [`schema::Schema`] ([`metadata`]); a schema is compiled once into a
//! decoder that walks packets without allocating, and an encoder that fills them.

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
