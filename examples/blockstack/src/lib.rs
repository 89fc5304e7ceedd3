//! A chain of block storage in processes of its own, which BlkKin follows from end to end: an NBD server, a volume
//! composer, a mapper in C, and two object stores with journals. `README.md` beside this has a drawing of it.
//!
//! [`run`] is all of the program; with it, another program can be started as any of the roles. [`Stack`] starts them
//! all. How a role works: `hub` waits for messages, `message` says what they are, and `nbd`, `composer`,
//! `mapper` and `store` are what is done with them. What is traced is in `tracing`, and where it happens.

mod address;
mod arguments;
mod composer;
mod hub;
mod link;
mod load;
mod mapper;
mod message;
mod nbd;
mod slab;
mod stack;
mod store;
mod tracing;
mod volume;

pub use address::Address;
pub use arguments::run;
pub use load::{Load, Report};
pub use stack::{Options, Role, Stack};
pub use volume::Volume;
