//! A stream file, read at offsets. Files are read, not mapped: one that is truncated meanwhile
//! gives an error, not a signal, and what was read does not count as resident for ever.

use crate::error::Problem;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A file that is opened when it is read and closed when nobody reads it any more, so that a
/// trace of thousands of files does not hold thousands of descriptors.
#[derive(Debug)]
pub(crate) struct StreamFile {
    path: PathBuf,
    open: Mutex<Option<Arc<File>>>,
    /// Whether it can be opened again by its path.
    has_path: bool,
}

impl StreamFile {
    pub(crate) fn new(path: PathBuf) -> StreamFile {
        StreamFile { path, open: Mutex::new(None), has_path: true }
    }

    /// A file that has no path to open it by.
    pub(crate) fn from_open(path: PathBuf, file: File) -> StreamFile {
        StreamFile { path, open: Mutex::new(Some(Arc::new(file))), has_path: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub(crate) fn open(&self) -> Result<Arc<File>, Problem> {
        let mut open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(file) = &*open {
            return Ok(file.clone());
        }
        let file = File::open(&self.path).map_err(|error| self.problem("open", &error))?;
        let file = Arc::new(file);
        *open = Some(file.clone());
        Ok(file)
    }

    /// Closes the file once its last reader is done.
    pub(crate) fn close(&self) {
        if self.has_path {
            *self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
        }
    }

    pub(crate) fn size(&self) -> Result<u64, Problem> {
        let metadata = self.open()?.metadata().map_err(|error| self.problem("stat", &error))?;
        Ok(metadata.len())
    }

    /// Fills `buffer` with the bytes from `offset` on; gives how many there were, fewer only at
    /// the file's end.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Problem> {
        let file = self.open()?;
        let mut done = 0;
        while done < buffer.len() {
            match file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.problem("read", &error)),
            }
        }
        Ok(done)
    }

    fn problem(&self, action: &'static str, error: &std::io::Error) -> Problem {
        Problem::io(&self.path, action, error)
    }
}
