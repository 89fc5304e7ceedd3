//! A journal (write-ahead log) of byte records on disk. An acknowledged record is durable, even if
//! the program or the power ends right afterwards. The journal does not interpret its records.
//!
//! - [`Journal`] is the writing side. Many threads append; one thread gathers their records, writes
//!   them, makes them durable with one `fdatasync`, and acknowledges them ([`Ticket`]).
//! - [`Reader`] reads the records in order, while the journal is written or at rest. It reports
//!   damage and continues after it.
//! - Consumers store their positions ([`Journal::set_position`]). The caller trims the segments
//!   that all consumers have finished ([`Journal::trim_before`]).
//! - A full or failing disk is a state ([`Refusal`]), which ends as soon as writing succeeds again.
//!
//! Read `layout` for the bytes, then `log` (the writer, one step at a time) and `scan` (the reader
//! of one segment). `journal` has the writing thread, `queue` the buffer between the appenders and
//! that thread. All I/O goes through [`Disk`].
//!
//! # Guarantees not given
//!
//! Exactly-once reading: a refused record may be in the journal nevertheless, and a consumer that
//! stops before it stores its position reads records again. Atomic appends: if an append was not
//! acknowledged, some of its records may survive and others not.

mod batch;
mod counters;
mod damage;
mod directory;
mod disk;
mod error;
#[cfg(test)]
mod injection;
mod journal;
mod layout;
mod log;
mod options;
mod position;
mod quarantine;
mod queue;
mod reader;
mod scan;
mod shared;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod ticket;
mod window;

pub use batch::Payload;
pub use counters::Counters;
pub use damage::Damage;
pub use directory::Directory;
pub use disk::{Disk, File, Lock};
pub use error::{Error, ErrorKind, Refusal};
pub use journal::Journal;
pub use layout::{PAYLOAD_BYTES_MAX, SEGMENTS_MAX};
pub use log::Recovery;
pub use options::{AtLimit, OnDurable, Options};
pub use reader::{Item, Reader, Record};
pub use shared::TrimResult;
pub use ticket::{Outcome, Ticket};
