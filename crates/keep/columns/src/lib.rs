//! Spans in columns. A [`Block`] is a batch of them in memory, [`Sorted`] puts those of several blocks in the order of
//! requests, a [`Writer`] makes Parquet files of them that other programs read as they lie (`docs/span-files.md`), and
//! a [`File`] reads rows of such a file, and only the pages that they are in.
//!
//! Texts are numbers in a block, and keys of tags a layout that spans share, so that a condition on them is evaluated
//! once for each text, not for each span.

mod block;
mod cells;
mod chunk;
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

pub use block::{Block, Refused, Row, Scratch};
pub use endpoint::EndpointId;
pub use error::Error;
pub use file::{File, Texts};
pub use layout::{Layout, LayoutId, Shape, ValueType};
pub use options::Options;
pub use page_columns::PageColumns;
pub use read_at::ReadAt;
pub use schema::Column;
pub use sorted::Sorted;
pub use writer::{Writer, Written};
