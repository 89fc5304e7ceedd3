//! Spans in columns. A [`Block`] is a batch of spans in memory, and [`Sorted`] sorts the spans of
//! several blocks by request. A [`Writer`] writes sorted spans to Parquet files that other programs
//! can read (`docs/span-files.md`). A [`File`] reads rows of such a file, and decodes only the
//! pages with these rows.
//!
//! Each text of a block has a number, and spans whose tags have the same keys, types and origins
//! share a layout. A condition on a text or a key is therefore evaluated once for each distinct
//! text, not once for each span.

mod block;
mod cells;
mod chunk_writer;
mod column_writers;
mod decode;
mod dictionary;
mod encode;
mod endpoint;
mod error;
mod file;
mod group_encoder;
mod index;
mod layout;
mod numbering;
mod options;
mod page_columns;
mod page_reader;
mod read_at;
mod rows;
mod schema;
mod sorted;
mod tag_layout;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod value_text;
mod writer;

pub use block::{Block, PushError, Row, Scratch};
pub use endpoint::EndpointId;
pub use error::Error;
pub use file::{File, Texts};
pub use layout::{Layout, LayoutId, Shape, ValueType};
pub use options::Options;
pub use page_columns::PageColumns;
pub use read_at::ReadAt;
pub use schema::Column;
pub use sorted::Sorted;
pub use writer::{FileStats, Writer};
