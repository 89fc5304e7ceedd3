//! [`LoadedFile`]: the parts of a file that are in memory while it is in use.

use crate::files::column_file::ColumnFile;
use crate::files::index::Index;
use blkkin_columns::ReadAt;

/// Index and column reader of a file in use.
pub(crate) struct LoadedFile {
    pub(crate) index: Index,
    pub(crate) file: ColumnFile,
    fixed_bytes: usize,
}

/// Estimated memory of reading, in addition to the index and dictionaries.
const READING_BYTES: usize = 512 << 10;

impl LoadedFile {
    pub(crate) fn new(index: Index, file: ColumnFile) -> LoadedFile {
        let fixed_bytes = index.memory_bytes() + READING_BYTES;
        LoadedFile { index, file, fixed_bytes }
    }

    /// Approximate memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.fixed_bytes + self.file.memory_bytes()
    }

    /// Drops the dictionaries, which are read again when needed.
    pub(crate) fn shrink(&self) {
        self.file.shrink();
    }

    /// The column reader of the file.
    pub(crate) fn columns(&self) -> &blkkin_columns::File<impl ReadAt + use<>> {
        &self.file
    }
}
