//! What a session of a tracer is to record, where its files go, and how it ends. Tracers are alike in that.

use crate::at;
use std::fs;
use std::path::{Path, PathBuf};

/// A session with one channel.
pub(crate) struct Recipe<'a> {
    pub(crate) output: &'a Path,
    /// Whether the newest events stay in memory until somebody asks for them.
    pub(crate) is_snapshot: bool,
    /// Options of the channel.
    pub(crate) channel: &'a [&'a str],
    pub(crate) event: &'a str,
    /// What stands with each event.
    pub(crate) contexts: &'a [&'a str],
}

/// Who has a session.
pub(crate) trait Control {
    /// Has it `stop`, write a `snapshot`, or be gone (`destroy`).
    fn tell(&self, what: &str) -> Result<(), String>;
}

/// A session that records. Destroyed when dropped.
pub(crate) struct Session<'a>(pub(super) &'a dyn Control);

impl Session<'_> {
    /// Stops recording, when all that was recorded has been written.
    pub(crate) fn stop(&self) -> Result<(), String> {
        self.0.tell("stop")
    }

    /// Writes what is in memory.
    pub(crate) fn snapshot(&self) -> Result<(), String> {
        self.0.tell("snapshot")
    }

    pub(crate) fn destroy(self) -> Result<(), String> {
        std::mem::ManuallyDrop::new(self).0.tell("destroy")
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Something else went wrong before, and is what will be told.
        let _ = self.0.tell("destroy");
    }
}

/// A folder that sessions write to. Removed when dropped.
pub(crate) struct Output(pub(crate) PathBuf);

impl Output {
    /// Where files are in memory.
    pub(crate) fn in_memory(name: &str) -> Result<Output, String> {
        Output::below(Path::new("/dev/shm"), name)
    }

    /// Where files are on whatever `folder` is on.
    pub(crate) fn below(folder: &Path, name: &str) -> Result<Output, String> {
        let folder = folder.join(format!("blkkin-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        Ok(Output(folder))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It is room that nobody else would give back.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder below `folder` that has a file `metadata`.
pub(crate) fn find_metadata(folder: &Path) -> Result<PathBuf, String> {
    find_folder(folder).ok_or_else(|| format!("there is no trace below {}", folder.display()))
}

fn find_folder(folder: &Path) -> Option<PathBuf> {
    if folder.join("metadata").is_file() {
        return Some(folder.to_owned());
    }
    fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .find_map(|path| find_folder(&path))
}
