//! A journal (write-ahead log) of byte records on disk: what was acknowledged is durable, whatever ends the program
//! or the power after that. It knows nothing of what the records mean.
//!
//! - [`Journal`] is written: many threads append, one gathers what they do, writes it, has the disk make it durable
//!   by one `fdatasync`, and acknowledges all of it ([`Ticket`]).
//! - [`Reader`] reads it in order, behind the writer or at rest. Damage costs what is damaged, and is told.
//! - Consumers note how far they are ([`Journal::set_position`]), and whole segments go when nobody needs them
//!   ([`Journal::trim_before`]).
//! - A full disk and a disk that fails are states ([`Refusal`]) which end by themselves.
//!
//! Read `layout` for the bytes, then `log` (the writer, one step at a time) and `scan` (the reader of one segment);
//! `journal` and `queue` are the threads around them. All that touches the machine is behind [`Disk`].
//!
//! # What is not promised
//!
//! That nothing is read twice: what was refused may be in the journal all the same, and who stops before it has noted
//! its position gets records again. Nor that the records of one append survive all or none, if it was not
//! acknowledged.

mod batch;
mod counters;
mod damage;
mod directory;
mod disk;
mod error;
mod journal;
mod layout;
mod log;
mod options;
#[cfg(test)]
mod plant;
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
pub use shared::Trimmed;
pub use ticket::{Outcome, Ticket};
