//! Watches directories for changes, by inotify.

use crate::descriptor::{RegisteredDescriptor, raise};
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Inotify descriptor that watches directories. The host program may close it without the library's
/// knowledge.
#[derive(Debug)]
pub struct DirectoryWatch(RegisteredDescriptor<OwnedFd>);

impl DirectoryWatch {
    /// Makes a watch that has no directories yet. Returns `None` if the kernel refuses another
    /// inotify descriptor, or if the descriptor's file cannot be identified. `purpose` is the
    /// descriptor's purpose in the table of descriptors.
    pub fn new(purpose: u32) -> Option<DirectoryWatch> {
        let descriptor = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(DirectoryWatch(RegisteredDescriptor::new(raise(descriptor), purpose)?))
    }

    /// Adds a directory. The watch then reports files that are created in it or moved to it,
    /// changes of attributes, and removal or renaming of the directory itself. Returns false on
    /// failure.
    pub fn add(&self, directory: &Path) -> bool {
        let what = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ATTRIB;
        let end = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        self.0.get().is_some_and(|watch| add_watch(watch, directory, what | end).is_ok())
    }

    /// Returns the descriptor; `None` if the host program has closed it. The descriptor is readable
    /// when events are pending.
    pub fn readable_descriptor(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        Some(self.0.get()?.as_fd())
    }

    /// Discards pending events, up to 4096 bytes of them. Returns true if there were any, or if the
    /// host program has closed the descriptor.
    pub fn drain_events(&self) -> bool {
        let mut events = [0; 4096];
        match self.0.get() {
            Some(watch) => rustix::io::read(watch, &mut events).is_ok_and(|size| size > 0),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_seen() {
        let folder = std::env::temp_dir().join(format!("blkkin-watch-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let watch = DirectoryWatch::new(0).unwrap();
        assert!(watch.add(&folder));
        assert!(!watch.add(&folder.join("nothing")));
        assert!(!watch.drain_events());
        std::fs::write(folder.join("file"), "").unwrap();
        crate::wait(&[(watch.readable_descriptor().unwrap(), false)], None).unwrap();
        assert!(watch.drain_events());
        assert!(!watch.drain_events());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(watch.drain_events());
    }
}
