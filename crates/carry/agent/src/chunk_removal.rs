//! Removal of a chunk of a session's trace, in steps, so that the agent serves others meanwhile.
//!
//! Everything in the chunk's directory is removed, also what a hook has added. The directory is
//! removed only if it is the one that the session has made: a user may have moved that one away,
//! and have put another in its place.

use crate::chunks::DirectoryIdentity;
use crate::output::Output;
use crate::quota::Share;
use crate::session::SessionId;
use rustix::fs::{Dir, DirEntry, FileType};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A pending removal of a chunk.
#[derive(Debug)]
pub(crate) struct ChunkRemoval {
    pub(crate) session: SessionId,
    /// Number of the chunk in its session.
    pub(crate) sequence: u64,
    output: Output,
    /// Stack of the directories being read, each within the previous one.
    open: Vec<(PathBuf, Dir)>,
    _descriptors: Share,
    /// Set if the directory at the chunk's path is the chunk's.
    is_own: bool,
    trouble: Option<io::Error>,
}

/// Result of a removal.
#[derive(Debug)]
pub(crate) enum Removed {
    /// The chunk's directory was removed.
    Whole,
    /// There is no directory at the chunk's path, or another one.
    Gone,
    /// Not all of the chunk can be removed.
    InPart(io::Error),
}

/// Maximum number of directories that a removal has open. Deeper directories are not removed.
pub(crate) const DEPTH_MAX: u64 = 16;

impl ChunkRemoval {
    pub(crate) fn begin(
        session: SessionId,
        sequence: u64,
        output: Output,
        (path, identity): (PathBuf, DirectoryIdentity),
        _descriptors: Share,
    ) -> ChunkRemoval {
        let is_own = DirectoryIdentity::of(&output, &path).is_ok_and(|found| found == identity);
        let (open, trouble) = (Vec::new(), None);
        let mut removal =
            ChunkRemoval { session, sequence, output, open, _descriptors, is_own, trouble };
        if is_own {
            removal.enter(path);
        }
        removal
    }

    fn enter(&mut self, directory: PathBuf) {
        if self.open.len() as u64 >= DEPTH_MAX {
            return self.note(Err(io::Error::other("directories are nested too deeply")));
        }
        match self.output.read_directory(&directory) {
            Ok(entries) => self.open.push((directory, entries)),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Records the error of a failed operation. Missing files are no errors.
    fn note(&mut self, done: io::Result<()>) {
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => self.trouble = self.trouble.take().or(done.err()),
        }
    }

    /// Visits up to `entries` directory entries, and removes them. Returns the result once the
    /// removal is complete.
    pub(crate) fn step(&mut self, entries: usize) -> Option<Removed> {
        for _ in 0..entries {
            let Some((directory, entries)) = self.open.last_mut() else {
                return Some(match self.trouble.take() {
                    Some(error) => Removed::InPart(error),
                    None if self.is_own => Removed::Whole,
                    None => Removed::Gone,
                });
            };
            match entries.next() {
                Some(Ok(entry)) => self.visit(&entry),
                Some(Err(error)) => self.note(Err(error.into())),
                None => {
                    let directory = std::mem::take(directory);
                    self.open.pop();
                    let removed = self.output.remove_directory(&directory);
                    self.note(removed);
                }
            }
        }
        None
    }

    fn visit(&mut self, entry: &DirEntry) {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            return;
        }
        let Some((above, _)) = self.open.last() else { return };
        let path = above.join(name);
        let is_directory = match entry.file_type() {
            // Removing a directory as a file fails, so the kind is found without following a link.
            FileType::Unknown => match self.output.remove_file(&path) {
                Ok(()) => return,
                Err(_) => true,
            },
            kind => kind.is_dir(),
        };
        match is_directory {
            true => self.enter(path),
            false => {
                let removed = self.output.remove_file(&path);
                self.note(removed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Owner;
    use crate::quota::{Accounts, Limits, Quota};
    use std::fs;
    use std::path::Path;

    fn remove(directory: &Path, identity: DirectoryIdentity) -> (Removed, usize) {
        let output = Output::trusted(directory.to_owned(), Owner { uid: 0, gid: 0 });
        let mut accounts = Accounts::new(Limits::default(), None);
        let share = accounts.of(0).reserve(Quota::Descriptors, DEPTH_MAX).unwrap();
        let place = (directory.join("chunk"), identity);
        let mut removal = ChunkRemoval::begin(1, 1, output, place, share);
        for steps in 1..1000 {
            if let Some(removed) = removal.step(2) {
                return (removed, steps);
            }
        }
        panic!("it does not end");
    }

    fn identity(directory: &Path) -> DirectoryIdentity {
        let output = Output::trusted(directory.to_owned(), Owner { uid: 0, gid: 0 });
        DirectoryIdentity::of(&output, &directory.join("chunk")).unwrap()
    }

    /// A chunk is removed with all that is in it, but not what links in it point to.
    #[test]
    fn chunks_are_removed_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (chunk, other) = (directory.path().join("chunk"), directory.path().join("other"));
        fs::create_dir_all(chunk.join("ust/pid/p/index")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "").unwrap();
        for name in ["ust/pid/p/metadata", "ust/pid/p/index/c_0.idx", "added-by-hook"] {
            fs::write(chunk.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(&other, chunk.join("link")).unwrap();
        let (removed, steps) = remove(directory.path(), identity(directory.path()));
        assert!(matches!(removed, Removed::Whole), "{removed:?}");
        assert!(steps > 3, "it is done in steps");
        assert!(!chunk.exists() && other.join("kept").exists());
    }

    /// Another directory at the chunk's path is not touched.
    #[test]
    fn other_directories_are_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let chunk = directory.path().join("chunk");
        fs::create_dir(&chunk).unwrap();
        let own = identity(directory.path());
        fs::rename(&chunk, directory.path().join("moved")).unwrap();
        assert!(matches!(remove(directory.path(), own).0, Removed::Gone));
        fs::create_dir(&chunk).unwrap();
        fs::write(chunk.join("file"), "").unwrap();
        assert!(matches!(remove(directory.path(), own).0, Removed::Gone));
        assert!(chunk.join("file").exists());
    }
}
