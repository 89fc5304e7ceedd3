//! Reading and writing of the Common Trace Format, versions 1.8 and 2, without I/O.
//!
//! Metadata text is parsed into a [`schema::Schema`] ([`metadata`]). A schema is compiled once into
//! a decoder, which walks packets without allocating. An encoder, compiled from a schema lowered
//! for the output ([`encode::LoweredSchema`]), writes packets.

mod bits;
pub mod clock;
pub mod clock_offsets;
pub mod ctf2;
pub mod decode;
pub mod encode;
mod float;
pub mod metadata;
pub mod schema;
mod text;
pub mod tsdl;
