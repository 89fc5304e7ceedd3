//! The embedded store of spans: a journal, columns in memory, and Parquet files that other programs
//! can read.
//!
//! ```text
//! batch ──> Block ──> journal ──> head ──> files ──> fewer, larger files ──> removed
//!      decoded    durable   queryable  flushed        merged           expired
//! ```
//!
//! A batch is acknowledged once the journal holds its bytes durably and the head holds its spans.
//! The head is flushed to a file from time to time, with an index beside it. A manifest names the
//! valid files, and the position up to which they contain the journal. After any end of the process
//! the store consists of the manifest's files and the rest of the journal.
//!
//! Read `lake` for the parts of a store, `files/index` for the indexes, `query/search` for their
//! use.
//!
//! # Not promised
//!
//! A request whose spans arrived long after one another may lie in several files. It is found and
//! read as one. In searches that order requests by what a single file knows (newest or slowest
//! first), such a request can appear a page late.

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
pub use lake::{Lake, Opened};
pub use options::Options;
pub use retention::Retention;
pub use tools::adopt::{Adopted, adopt, adopt_on};
pub use tools::inspect::{Condition, InspectedFile, Inspection, inspect};
pub use tools::listing::{Listing, Rest, SpanFile};
pub use tools::stored::Stored;
