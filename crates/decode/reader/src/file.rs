//! Stream file, on disk or of a live trace, read at offsets and not mapped. If the file is
//! truncated during the reading, a read returns fewer bytes, where a mapping would cause `SIGBUS`.
//! Read pages do not count as resident memory of the process.
//!
//! A trace may have more files than a process may open. A file stays open as long as a [`Handle`]
//! refers to it. While more than [`OPEN_FILES_MAX`] files are open, a handle is released after each
//! read, unless the file may grow.

use crate::error::Problem;
use crate::live_stream::LiveStream;
use parking_lot::{Mutex, MutexGuard};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Stream file. It is opened for reading, and may be closed between two reads.
#[derive(Debug)]
pub(crate) struct StreamFile {
    path: PathBuf,
    shared: Mutex<Weak<OpenFile>>,
    /// The open file, kept open, if it cannot be opened by its path; `None` for all other files.
    pinned: Option<Arc<OpenFile>>,
    /// Stream of a live trace, of which this is the file; `None` for all other files.
    live: Option<Arc<LiveStream>>,
    /// Frozen size in bytes: the reader ignores appended bytes until the next freeze. `u64::MAX` if
    /// the size is not frozen.
    size_limit: AtomicU64,
}

/// Reference by which a reader keeps a file open.
#[derive(Debug, Default)]
pub(crate) struct Handle(Option<Arc<OpenFile>>);

#[derive(Debug)]
struct OpenFile(File);

/// Number of open files above which a handle is released after each read, unless its file may grow.
const OPEN_FILES_MAX: usize = 256;
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Device number and inode number, which identify a file regardless of its path.
pub(crate) type FileId = (u64, u64);

/// Returns the [`FileId`] of the file with this `metadata`.
pub(crate) fn id_of(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl StreamFile {
    pub(crate) fn new(path: PathBuf) -> StreamFile {
        StreamFile {
            path,
            shared: Mutex::default(),
            pinned: None,
            live: None,
            size_limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Makes a stream file of an open file that cannot be opened by its path.
    pub(crate) fn from_open(path: PathBuf, file: File) -> StreamFile {
        StreamFile { pinned: Some(Arc::new(OpenFile::new(file))), ..StreamFile::new(path) }
    }

    /// Makes the file of a live trace's stream, with its present size as frozen size.
    pub(crate) fn from_live(path: PathBuf, live: Arc<LiveStream>) -> StreamFile {
        let size_limit = AtomicU64::new(live.size());
        StreamFile { live: Some(live), size_limit, ..StreamFile::new(path) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the stream of a live trace, of which this is the file; `None` for all other files.
    pub(crate) fn live(&self) -> Option<&LiveStream> {
        self.live.as_deref()
    }

    /// Returns the offset of the first packet to read, which is not 0 if a live trace has freed
    /// delivered packets.
    pub(crate) fn start(&self) -> u64 {
        self.live().map_or(0, LiveStream::start)
    }

    /// Returns the end of the bytes that a packet at `offset` may occupy: the size of the file, or
    /// in a live trace the end of the bytes that were appended together.
    pub(crate) fn packet_limit(&self, offset: u64) -> Result<u64, Problem> {
        let size = self.size()?;
        let limit = self.live().map(|live| live.packet_limit(offset).unwrap_or(offset));
        Ok(limit.map_or(size, |limit| limit.min(size)))
    }

    /// Returns the present size of the file in bytes, but at most the frozen size.
    pub(crate) fn size(&self) -> Result<u64, Problem> {
        let size = match self.live() {
            Some(live) => live.size(),
            None => self.metadata()?.len(),
        };
        Ok(size.min(self.size_limit.load(Ordering::Relaxed)))
    }

    pub(crate) fn id(&self) -> Result<FileId, Problem> {
        Ok(id_of(&self.metadata()?))
    }

    /// Returns true if the file was deleted, not only moved.
    pub(crate) fn is_deleted(&self) -> bool {
        let open = self.pinned.clone().or_else(|| self.lock().upgrade());
        match (self.live(), open) {
            (Some(_), _) => false,
            (None, Some(file)) => file.0.metadata().is_ok_and(|metadata| metadata.nlink() == 0),
            (None, None) => self.path.try_exists().is_ok_and(|exists| !exists),
        }
    }

    /// Freezes the file's size: bytes that are appended later stay unread until the next call.
    pub(crate) fn freeze_size(&self) {
        let size = match self.live() {
            Some(live) => Some(live.size()),
            None => self.metadata().ok().map(|metadata| metadata.len()),
        };
        if let Some(size) = size {
            self.size_limit.store(size, Ordering::Relaxed);
        }
    }

    /// Returns true if the size was frozen. Such a file may grow, or be moved, while it is read.
    fn is_size_frozen(&self) -> bool {
        self.size_limit.load(Ordering::Relaxed) != u64::MAX
    }

    fn metadata(&self) -> Result<Metadata, Problem> {
        let open = self.pinned.clone().or_else(|| self.lock().upgrade());
        let metadata = match (self.live(), open) {
            (Some(live), _) => live.file().metadata(),
            (None, Some(file)) => file.0.metadata(),
            (None, None) => std::fs::metadata(&self.path),
        };
        metadata.map_err(|error| self.problem("open", &error))
    }

    /// Fills `buffer` with bytes of the file from `offset` on. Returns the number of bytes, which
    /// is smaller than the buffer only at the end of the file.
    pub(crate) fn read(
        &self,
        handle: &mut Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Problem> {
        let file = match (self.live(), &handle.0) {
            (Some(live), _) => live.file(),
            (None, Some(open)) => &open.0,
            (None, None) => &handle.0.insert(self.open()?).0,
        };
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.problem("read", &error)),
            }
        }
        if OPEN_COUNT.load(Ordering::Relaxed) > OPEN_FILES_MAX && !self.is_size_frozen() {
            handle.0 = None;
        }
        Ok(filled)
    }

    fn open(&self) -> Result<Arc<OpenFile>, Problem> {
        let mut open = self.lock();
        if let Some(file) = self.pinned.clone().or_else(|| open.upgrade()) {
            return Ok(file);
        }
        let file = File::open(&self.path).map_err(|error| self.problem("open", &error))?;
        let file = Arc::new(OpenFile::new(file));
        *open = Arc::downgrade(&file);
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, Weak<OpenFile>> {
        self.shared.lock()
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
