//! Embedded store of spans: a journal, columns in memory, and Parquet files that other programs can
//! read.
//!
//! ```text
//! batch ──> Block ──> journal ──> head ──> files ──> fewer, larger files ──> removed
//!      decoded    durable   queryable  flushed        merged           expired
//! ```
//!
//! A batch is acknowledged once its bytes are durable in the journal and its spans are in the head.
//! The head is flushed to a file from time to time, with an index beside the file. A manifest names
//! the valid files, and the position up to which they contain the journal. However the process
//! ends, the store consists of the manifest's files and the journal's records after that position.
//!
//! Read `lake` for the parts of a store, `files/index` for the indexes, and `query/search` for
//! their use.
//!
//! # Not promised
//!
//! The spans of one request may be in several files if they arrived far apart in time. Searches
//! find such a request once, and reads return all of its spans. A search can miss such a request if
//! the index of its last file does not cover all of its spans in earlier files.

mod calls;
mod clock;
mod error;
mod files;
mod lake;
mod locks;
mod memory;
mod options;
mod query;
mod retention;
mod shared;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tools;
mod write;

pub use clock::{Clock, SystemClock};
pub use error::Error;
pub use lake::{Lake, OpenReport};
pub use options::Options;
pub use retention::Retention;
pub use tools::adopt::{AdoptReport, adopt, adopt_on};
pub use tools::inspect::{Condition, InspectedFile, Inspection, inspect};
pub use tools::listing::{JournalFiles, Listing, SpanFile};
pub use tools::locked_store::LockedStore;
