//! [`LoadedFile`]: the index and the columns of a file while it is used.

use crate::files::column_file::ColumnFile;
use crate::files::index::Index;
use blkkin_columns::ReadAt;

/// What is in memory of a file while it is used.
pub(crate) struct LoadedFile {
    pub(crate) index: Index,
    pub(crate) file: ColumnFile,
    fixed_bytes: usize,
}

/// What reading takes beside what a file says of itself.
const READING_BYTES: usize = 512 << 10;

impl LoadedFile {
    pub(crate) fn new(index: Index, file: ColumnFile) -> LoadedFile {
        let fixed_bytes = index.memory_bytes() + READING_BYTES;
        LoadedFile { index, file, fixed_bytes }
    }

    /// About what it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.fixed_bytes + self.file.memory_bytes()
    }

    /// Forgets what can be read again without reading all of it.
    pub(crate) fn shrink(&self) {
        self.file.shrink();
    }

    /// The file's columns.
    pub(crate) fn columns(&self) -> &blkkin_columns::File<impl ReadAt + use<>> {
        &self.file
    }
}
