//! The embedded store of spans: a journal, columns in memory, and Parquet files that others can read too.

mod bloom;
mod bytes;
mod clock;
mod error;
mod index;
mod manifest;
mod packed;
mod plan;
mod retain;
mod snapshot;

pub use clock::{Clock, SystemClock};
pub use error::Error;
pub use retain::Retention;
pub use snapshot::{SpanFile, span_files};
