//! The embedded store of spans: a journal, columns in memory, and Parquet files that others can read too.
//!
//! ```text
//! a batch ──> Block ──> journal ──> head ──> files ──> fewer, larger files ──> gone
//!        read       durable     asked    written       merged              too old
//! ```
//!
//! A batch is acknowledged when the journal has it, as it came, and the head has what it says. Of the head a file is
//! made from time to time, with an index beside it; a manifest names the files that count, and up to where the journal
//! is in them. Whatever ends the process, what is opened again is what the manifest and the rest of the journal say.
//!
//! Read `lake` for how it hangs together, `index` for what files are found by, `search` for how that is used.
//!
//! # What is not promised
//!
//! A request whose spans came long after one another may lie in several files. It is found, and read, as one; but where
//! requests are put in order by what one file knows of them (the one that began last, or took longest), such a request
//! can come a page late.

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
