//! Removal of a chunk of a session's trace, in steps, so that the agent serves others meanwhile.
//!
//! Everything in the chunk's directory is removed, also what a hook has added. The directory is
//! removed only if it is the one that the session has made: a user may have moved that one away,
//! and have put another in its place. Each directory is therefore opened once, without following a
//! symbolic link, and everything in it is removed relative to its descriptor.

use crate::chunks::DirectoryIdentity;
use crate::output::Output;
use crate::quota::Share;
use crate::session::SessionId;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, fstat};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// A pending removal of a chunk.
#[derive(Debug)]
pub(crate) struct ChunkRemoval {
    pub(crate) session: SessionId,
    /// Number of the chunk in its session.
    pub(crate) sequence: u64,
    output: Output,
    identity: DirectoryIdentity,
    /// Directory that contains the chunk; `None` if the chunk's directory was not found.
    parent: Option<OwnedFd>,
    /// Stack of the directories being read, each within the previous one, with their names.
    open: Vec<(OsString, Dir)>,
    _descriptors: Share,
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

/// Maximum number of directories of a chunk that a removal has open. Deeper directories are not
/// removed.
const DEPTH_MAX: usize = 16;
/// Maximum number of descriptors of a removal: those of the directories and of the parent.
pub(crate) const DESCRIPTORS: u64 = DEPTH_MAX as u64 + 1;

impl ChunkRemoval {
    pub(crate) fn begin(
        session: SessionId,
        sequence: u64,
        output: Output,
        (path, identity): (&Path, DirectoryIdentity),
        _descriptors: Share,
    ) -> ChunkRemoval {
        let (open, trouble, parent) = (Vec::new(), None, None);
        let mut removal = ChunkRemoval {
            session,
            sequence,
            output,
            identity,
            parent,
            open,
            _descriptors,
            trouble,
        };
        removal.open(path);
        removal
    }

    /// Opens the chunk's directory if it is at the chunk's path.
    fn open(&mut self, path: &Path) {
        let Ok((parent, name)) = self.output.find_parent(path) else { return };
        self.parent = Some(parent);
        let chunk = self.find_own(name).ok();
        match chunk.map(|chunk| self.output.read_found(&chunk)) {
            None => self.parent = None,
            Some(Ok(entries)) => self.open.push((name.to_owned(), entries)),
            Some(Err(error)) => self.note(Err(error)),
        }
    }

    /// Opens the chunk's directory by its name. Fails if another one has this name.
    fn find_own(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let parent = self.parent.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let found = self.output.find_within(parent.as_fd(), name)?;
        match DirectoryIdentity::from(fstat(&found)?) == self.identity {
            true => Ok(found),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Enters a directory in the one being read.
    fn enter(&mut self, name: &OsStr) {
        if self.open.len() >= DEPTH_MAX {
            return self.note(Err(io::Error::other("directories are nested too deeply")));
        }
        match self.find(name).and_then(|found| self.output.read_found(&found)) {
            Ok(entries) => self.open.push((name.to_owned(), entries)),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Opens a directory in the one being read.
    fn find(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let (_, above) = self.open.last().ok_or(io::ErrorKind::NotFound)?;
        self.output.find_within(above.fd()?, name)
    }

    /// Records the error of a failed operation. Missing files are no errors.
    fn note(&mut self, done: io::Result<()>) {
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => self.trouble = self.trouble.take().or(done.err()),
        }
    }

    /// Returns whether the directory being removed is still at the chunk's path. A hook or a user
    /// may move it away meanwhile, to keep it.
    fn is_in_place(&self) -> bool {
        self.open.first().is_some_and(|(name, _)| self.find_own(name).is_ok())
    }

    /// Visits up to `entries` directory entries until `end`, but at least one, and removes them.
    /// Returns the result once the removal is complete.
    pub(crate) fn step(&mut self, entries: usize, end: Instant) -> Option<Removed> {
        if !self.open.is_empty() && !self.is_in_place() {
            (self.parent, self.trouble) = (None, None);
            self.open.clear();
        }
        for _ in 0..entries {
            let Some((_, entries)) = self.open.last_mut() else {
                return Some(match self.trouble.take() {
                    Some(error) => Removed::InPart(error),
                    None if self.parent.is_some() => Removed::Whole,
                    None => Removed::Gone,
                });
            };
            match entries.next() {
                Some(Ok(entry)) => self.visit(&entry),
                Some(Err(error)) => self.note(Err(error.into())),
                None => self.leave(),
            }
            if Instant::now() >= end {
                break;
            }
        }
        None
    }

    /// Removes the directory that was read to its end.
    fn leave(&mut self) {
        if self.open.len() == 1 && !self.is_in_place() {
            (self.parent, _) = (None, self.open.clear());
            return;
        }
        let Some((name, _)) = self.open.pop() else { return };
        self.remove(&name, AtFlags::REMOVEDIR);
    }

    /// Removes a file or an empty directory in the directory being read.
    fn remove(&mut self, name: &OsStr, flags: AtFlags) {
        let above = match (self.open.last(), &self.parent) {
            (Some((_, above)), _) => above.fd().map_err(io::Error::from),
            (None, Some(parent)) => Ok(parent.as_fd()),
            (None, None) => return,
        };
        let removed = above.and_then(|above| self.output.remove_within(above, name, flags));
        self.note(removed);
    }

    fn visit(&mut self, entry: &DirEntry) {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            return;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => self.find(name).is_ok(),
            kind => kind.is_dir(),
        };
        match is_directory {
            true => self.enter(name),
            false => self.remove(name, AtFlags::empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Root;
    use crate::owner::Owner;
    use crate::quota::{Accounts, Limits, Quota};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn begin(directory: &Path, identity: DirectoryIdentity) -> ChunkRemoval {
        let output = Output::trusted(directory.to_owned(), Owner::of_process());
        let mut accounts = Accounts::new(Limits::default(), None);
        let share = accounts.of(0).reserve(Quota::Descriptors, DESCRIPTORS).unwrap();
        ChunkRemoval::begin(1, 1, output, (&directory.join("chunk"), identity), share)
    }

    fn remove(directory: &Path, identity: DirectoryIdentity) -> (Removed, usize) {
        let mut removal = begin(directory, identity);
        for steps in 1..1000 {
            if let Some(removed) = removal.step(2, later()) {
                return (removed, steps);
            }
        }
        panic!("it does not end");
    }

    fn identity(directory: &Path) -> DirectoryIdentity {
        let output = Output::trusted(directory.to_owned(), Owner::of_process());
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
        symlink(&other, chunk.join("link")).unwrap();
        let (removed, steps) = remove(directory.path(), identity(directory.path()));
        assert!(matches!(removed, Removed::Whole), "{removed:?}");
        assert!(steps > 3, "it is done in steps");
        assert!(!chunk.exists() && other.join("kept").exists());
    }

    /// Chunks of guarded outputs are removed, too, also those right below the output's directory.
    #[test]
    fn chunks_of_guarded_outputs_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let own = rustix::process::getuid().as_raw();
        let owner = Owner { uid: own, gid: rustix::process::getgid().as_raw() };
        let mut accounts = Accounts::new(Limits::default(), None);
        let mut share = |count| accounts.of(own).reserve(Quota::Descriptors, count).unwrap();
        let output = Output::guarded(path.to_owned(), owner);
        output.open(Root::open(path, owner, share(1)));
        for name in ["chunk", "day/chunk"] {
            let chunk = path.join(name);
            fs::create_dir_all(chunk.join("ust/pid")).unwrap();
            fs::write(chunk.join("ust/file"), "").unwrap();
            let identity = DirectoryIdentity::of(&output, &chunk).unwrap();
            let place = (&*chunk, identity);
            let mut removal = ChunkRemoval::begin(1, 1, output.clone(), place, share(DESCRIPTORS));
            let removed = removal.step(100, later());
            assert!(matches!(removed, Some(Removed::Whole)), "{removed:?}");
            assert!(!chunk.exists());
        }
    }

    /// A step whose time is over removes one entry, so that slow file systems do not make the other
    /// users of the agent wait.
    #[test]
    fn steps_end_when_their_time_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let chunk = directory.path().join("chunk");
        fs::create_dir(&chunk).unwrap();
        for name in 0..20 {
            fs::write(chunk.join(name.to_string()), "").unwrap();
        }
        let mut removal = begin(directory.path(), identity(directory.path()));
        let over = Instant::now();
        for step in 0..10 {
            assert!(removal.step(1000, over).is_none());
            assert!(fs::read_dir(&chunk).unwrap().count() >= 19 - step);
        }
        assert!(matches!(removal.step(1000, later()), Some(Removed::Whole)));
        assert!(!chunk.exists());
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

    /// A symbolic link to the chunk is not the chunk.
    #[test]
    fn links_at_the_path_of_a_chunk_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (chunk, moved) = (directory.path().join("chunk"), directory.path().join("moved"));
        fs::create_dir(&chunk).unwrap();
        fs::write(chunk.join("kept"), "").unwrap();
        let own = identity(directory.path());
        fs::rename(&chunk, &moved).unwrap();
        symlink(&moved, &chunk).unwrap();
        assert!(matches!(remove(directory.path(), own).0, Removed::Gone));
        assert!(moved.join("kept").exists() && chunk.is_symlink());
    }

    /// The target of a link is not removed, even if a user has put the link into the place of a
    /// directory while the chunk is being removed.
    #[test]
    fn links_that_are_put_into_place_meanwhile_are_not_followed() {
        for is_chunk_swapped in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let (chunk, moved) = (directory.path().join("chunk"), directory.path().join("moved"));
            let other = directory.path().join("other");
            fs::create_dir_all(chunk.join("ust")).unwrap();
            fs::create_dir(&other).unwrap();
            for kept in [other.join("kept"), chunk.join("ust/file")] {
                fs::write(kept, "").unwrap();
            }
            let mut removal = begin(directory.path(), identity(directory.path()));
            // Reads the entries, and visits the first one.
            assert!(removal.step(1, later()).is_none());
            let from = if is_chunk_swapped { chunk.clone() } else { chunk.join("ust") };
            fs::rename(from, &moved).unwrap();
            if is_chunk_swapped {
                fs::create_dir(&chunk).unwrap();
            }
            symlink(&other, chunk.join("ust")).unwrap();
            let removed = (0..100).find_map(|_| removal.step(1, later())).unwrap();
            assert!(other.join("kept").exists(), "{removed:?}");
            if is_chunk_swapped {
                assert!(matches!(removed, Removed::Gone), "{removed:?}");
                assert!(moved.join("ust/file").exists() && chunk.join("ust").is_symlink());
            }
        }
    }
}
