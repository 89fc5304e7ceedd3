//! Span files on disk: names, indexes, cache and manifest.
//!
//! [`manifest`] lists the valid files, [`indexed_file`] is an open file with its index, and
//! [`index`] builds and reads the index.

pub(crate) mod ascending;
pub(crate) mod bloom;
pub(crate) mod bytes;
pub(crate) mod cache;
pub(crate) mod column_file;
pub(crate) mod damaged_files;
pub(crate) mod directory_names;
pub(crate) mod disk;
pub(crate) mod file_entry;
pub(crate) mod file_writer;
pub(crate) mod index;
pub(crate) mod indexed_file;
pub(crate) mod loaded_file;
pub(crate) mod manifest;
pub(crate) mod naming;
pub(crate) mod packed;
pub(crate) mod reindex;
pub(crate) mod tag_table;
