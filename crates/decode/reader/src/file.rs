//! A stream file, read at offsets. Files are read, not mapped: one that is truncated meanwhile
//! gives an error, not a signal, and what was read does not count as resident for ever.
//!
//! There may be many more files than a process may have open. So a file is open as long as
//! somebody has a [`Handle`] on it, and where that are many, only while it is read.

use crate::error::Problem;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A file that is opened when it is read.
#[derive(Debug)]
pub(crate) struct StreamFile {
    path: PathBuf,
    open: Mutex<Weak<OpenFile>>,
    /// One that cannot be opened by its path is always open.
    always: Option<Arc<OpenFile>>,
    /// What comes behind is left for later.
    size_max: AtomicU64,
}

/// Keeps a file open for somebody who reads it.
#[derive(Debug, Default)]
pub(crate) struct Handle(Option<Arc<OpenFile>>);

#[derive(Debug)]
struct OpenFile(File);

/// Files are kept open between one read and the next if no more than these are.
const KEPT_MAX: usize = 256;
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Which file it is, whatever its path: device and number.
pub(crate) type FileId = (u64, u64);

/// See [`FileId`].
pub(crate) fn id_of(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl StreamFile {
    pub(crate) fn new(path: PathBuf) -> StreamFile {
        StreamFile {
            path,
            open: Mutex::default(),
            always: None,
            size_max: AtomicU64::new(u64::MAX),
        }
    }

    /// A file that has no path to open it by.
    pub(crate) fn from_open(path: PathBuf, file: File) -> StreamFile {
        StreamFile { always: Some(Arc::new(OpenFile::new(file))), ..StreamFile::new(path) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size, or where it is held.
    pub(crate) fn size(&self) -> Result<u64, Problem> {
        Ok(self.metadata()?.len().min(self.size_max.load(Ordering::Relaxed)))
    }

    pub(crate) fn id(&self) -> Result<FileId, Problem> {
        Ok(id_of(&self.metadata()?))
    }

    /// Lets nothing count that is added from now on, until it is held again.
    pub(crate) fn hold(&self) {
        if let Ok(metadata) = self.metadata() {
            self.size_max.store(metadata.len(), Ordering::Relaxed);
        }
    }

    /// Whether it may be added to, or moved, while it is read.
    fn is_growing(&self) -> bool {
        self.size_max.load(Ordering::Relaxed) != u64::MAX
    }

    fn metadata(&self) -> Result<Metadata, Problem> {
        let open = self.always.clone().or_else(|| self.lock().upgrade());
        let metadata = match open {
            Some(file) => file.0.metadata(),
            None => std::fs::metadata(&self.path),
        };
        metadata.map_err(|error| self.problem("open", &error))
    }

    /// Fills `buffer` with the bytes from `offset` on; gives how many there were, fewer only at
    /// the file's end.
    pub(crate) fn read(
        &self,
        handle: &mut Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Problem> {
        let file = match &handle.0 {
            Some(file) => file,
            None => handle.0.insert(self.open()?),
        };
        let mut done = 0;
        while done < buffer.len() {
            match file.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.problem("read", &error)),
            }
        }
        if OPEN_COUNT.load(Ordering::Relaxed) > KEPT_MAX && !self.is_growing() {
            handle.0 = None;
        }
        Ok(done)
    }

    fn open(&self) -> Result<Arc<OpenFile>, Problem> {
        let mut open = self.lock();
        if let Some(file) = self.always.clone().or_else(|| open.upgrade()) {
            return Ok(file);
        }
        let file = File::open(&self.path).map_err(|error| self.problem("open", &error))?;
        let file = Arc::new(OpenFile::new(file));
        *open = Arc::downgrade(&file);
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, Weak<OpenFile>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn problem(&self, action: &'static str, error: &io::Error) -> Problem {
        Problem::io(&self.path, action, error)
    }
}

impl OpenFile {
    fn new(file: File) -> OpenFile {
        OPEN_COUNT.fetch_add(1, Ordering::Relaxed);
        OpenFile(file)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
