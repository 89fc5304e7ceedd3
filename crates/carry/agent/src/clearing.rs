//! Removal of a session's closed traces, for `session clear`. The agent has no list of closed
//! traces, so it searches their parent directory.
//!
//! There may be very many traces. They are removed in steps, while programs continue to record.
//! Only files with the names of a trace's files are removed, and only empty directories.

use crate::output::Output;
use crate::quota::Share;
use crate::session::{Session, SessionId};
use crate::source::ConnectionId;
use crate::trace::{FileKind, file_kind};
use rustix::fs::{Dir, DirEntry, FileType};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A pending removal of a session's traces.
#[derive(Debug)]
pub(crate) struct ClearJob {
    /// Connection of the command that waits for the removal.
    pub(crate) command: ConnectionId,
    pub(crate) session: SessionId,
    output: Output,
    /// Traces that were closed after the removal began. They are not removed, as they hold newer
    /// events.
    spared: HashSet<PathBuf>,
    /// Stack of the directories being read, each within the previous one. The first holds all
    /// traces.
    open: Vec<(PathBuf, Dir)>,
    _descriptors: Share,
    /// Last error of clearing an open trace, or of reading or removing a closed one.
    pub(crate) trouble: Option<io::Error>,
}

/// Maximum number of directories that a removal has open: the directory of all traces, a trace, and
/// its index.
pub(crate) const DEPTH_MAX: u64 = 3;
impl ClearJob {
    pub(crate) fn begin(command: ConnectionId, session: &Session, _descriptors: Share) -> ClearJob {
        let (spared, open, trouble) = (HashSet::new(), Vec::new(), None);
        let all = session.trace_directory().join("ust").join("pid");
        let (session, output) = (session.id, session.output.clone());
        let mut clearing =
            ClearJob { command, session, output, spared, open, _descriptors, trouble };
        clearing.enter(all);
        clearing
    }

    fn enter(&mut self, directory: PathBuf) {
        match self.output.read_directory(&directory) {
            Ok(entries) => self.open.push((directory, entries)),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Records the error of a failed operation on a trace, a file or a directory. Missing files and
    /// directories that are not empty are no errors.
    pub(crate) fn note(&mut self, done: io::Result<()>) {
        match done {
            // Another process has removed the file, or there are no traces. A directory is not
            // empty if another process has put a file into it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            done => self.trouble = done.err().or(self.trouble.take()),
        }
    }

    /// Excludes a trace that was closed after the removal began.
    pub(crate) fn spare(&mut self, trace: &Path) {
        self.spared.insert(trace.to_owned());
    }

    /// Visits up to `entries` directory entries. Removes those of closed traces; `open` are the
    /// traces still in use. Returns true once the removal is complete.
    pub(crate) fn step(&mut self, entries: usize, open: &HashSet<&Path>) -> bool {
        // The program of this trace has reconnected while the trace was being removed.
        if self.open.get(1).is_some_and(|(directory, _)| self.is_spared(directory, open)) {
            self.open.truncate(1);
        }
        for _ in 0..entries {
            let depth = self.open.len();
            let Some((directory, entries)) = self.open.last_mut() else { return true };
            match entries.next() {
                Some(Ok(entry)) => self.visit(&entry, depth, open),
                Some(Err(error)) => self.note(Err(error.into())),
                None => {
                    let directory = std::mem::take(directory);
                    self.open.pop();
                    if depth > 1 {
                        self.note(self.output.remove_directory(&directory));
                    }
                }
            }
        }
        false
    }

    fn visit(&mut self, entry: &DirEntry, depth: usize, open: &HashSet<&Path>) {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            return;
        }
        let Some((above, _)) = self.open.last() else { return };
        let path = above.join(name);
        let is_directory = match entry.file_type() {
            FileType::Unknown => self.output.find_directory(&path).is_ok(),
            kind => kind.is_dir(),
        };
        match (depth, is_directory) {
            (1, true) if !self.is_spared(&path, open) => self.enter(path),
            (2, true) if name == "index" => self.enter(path),
            (2, false)
                if is_part(name, &[FileKind::Metadata, FileKind::Mark, FileKind::Stream]) =>
            {
                self.remove(&path);
            }
            (3, false) if is_part(name, &[FileKind::Index]) => self.remove(&path),
            _ => {}
        }
    }

    fn is_spared(&self, trace: &Path, open: &HashSet<&Path>) -> bool {
        open.contains(trace) || self.spared.contains(trace)
    }

    fn remove(&mut self, path: &Path) {
        self.note(self.output.remove_file(path));
    }
}

fn is_part(name: &OsStr, parts: &[FileKind]) -> bool {
    name.to_str().and_then(file_kind).is_some_and(|part| parts.contains(&part))
}
