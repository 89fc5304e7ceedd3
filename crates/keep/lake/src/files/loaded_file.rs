//! [`LoadedFile`]: the index and column reader of a span file, in memory while the file is in use.

use crate::files::column_file::ColumnFile;
use crate::files::index::Index;
use blkkin_columns::ReadAt;

/// Index and column reader of a span file in use.
pub(crate) struct LoadedFile {
    pub(crate) index: Index,
    pub(crate) file: ColumnFile,
    fixed_bytes: usize,
}

/// Estimated memory in bytes for reading a file, in addition to the index and the dictionaries.
const READING_BYTES: usize = 512 << 10;

impl LoadedFile {
    pub(crate) fn new(index: Index, file: ColumnFile) -> LoadedFile {
        let fixed_bytes = index.memory_bytes() + READING_BYTES;
        LoadedFile { index, file, fixed_bytes }
    }

    /// Returns the approximate memory of the index and the column reader, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.fixed_bytes + self.file.memory_bytes()
    }

    /// Drops the dictionaries. They are read again on demand.
    pub(crate) fn shrink(&self) {
        self.file.shrink();
    }

    /// Returns the column reader of the file.
    pub(crate) fn columns(&self) -> &blkkin_columns::File<impl ReadAt + use<>> {
        &self.file
    }
}
