//! A chain of block storage in separate processes, traced from end to end by BlkKin: an NBD server,
//! a volume composer, a mapper in C, and two object stores with journals. The `README.md` of this
//! example has a drawing.
//!
//! [`run`] is the whole program, so any program that calls it can be started as a role. [`Stack`]
//! starts all roles. The roles in Rust, `nbd`, `composer` and `store`, wait for messages in
//! `event_loop`, encode them with `message`, and record spans with `tracing`. `mapper` runs the
//! role in C, which does the same through `mapper/link.h` and `blkkin.h`.

mod address;
mod arguments;
mod composer;
mod event_loop;
mod id_table;
mod link;
mod load;
mod mapper;
mod message;
mod nbd;
mod stack;
mod store;
mod tracing;
mod volume;

pub use address::Address;
pub use arguments::run;
pub use load::{Load, Report};
pub use stack::{Options, Role, Stack};
pub use volume::Volume;
