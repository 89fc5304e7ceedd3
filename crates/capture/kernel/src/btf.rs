//! BTF, the BPF Type Format: the kernel's types, functions and raw tracepoints as the kernel
//! describes them in `/sys/kernel/btf`.
//!
//! ```text
//! header    magic 0xEB9F, version 1, flags, its own length,
//!           then offset and length of the types and of the strings, counted from the header's end
//! types     for each type: offset of its name, info, size or type; then data of its kind
//!           info: bits 0-15 number of entries, 24-28 kind, 31 flag
//! strings   names that end with NUL; the first one is empty
//! ```
//!
//! Types have consecutive ids from 1; id 0 is `void`. Types of a module ("split BTF") have the ids
//! behind the kernel's, and offsets of names that continue the kernel's strings.
//!
//! [`Btf`] checks the whole file once, when it is read ([`file`]): kinds, sizes, ids and offsets of
//! names. Cycles of types are found by the queries ([`queries`] and [`text`]), each of which is
//! linear in the size of the file at most.

mod error;
mod file;
mod kind;
mod queries;
mod text;
mod value;

#[cfg(test)]
mod tests;

pub use error::BtfError;
pub use file::Btf;
pub(crate) use queries::BitPlace;
pub use queries::{FieldPlace, Function, Parameter, RawTracepoint};
pub use value::ValueForm;
