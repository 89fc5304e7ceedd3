//! Recording sessions of any tracer: their parameters, the folders for their output, and their end.

use crate::tools::at;
use std::fs;
use std::path::{Path, PathBuf};

/// Parameters of a session with one channel, which records the events of one name or pattern.
pub(crate) struct Recipe<'a> {
    pub(crate) output: &'a Path,
    /// Set if the newest events stay in memory until a snapshot, instead of being written.
    pub(crate) is_snapshot: bool,
    /// Command-line options for the tracer's command that makes the channel.
    pub(crate) channel: &'a [&'a str],
    pub(crate) event: &'a str,
    /// Names of the contexts that are recorded with each event; only LTTng adds them.
    pub(crate) contexts: &'a [&'a str],
}

/// A tracer that can control its session by commands.
pub(crate) trait Control {
    /// Executes a command on the session: `stop`, `snapshot` or `destroy`.
    fn execute(&self, what: &str) -> Result<(), String>;
}

/// A recording session of a tracer, destroyed on drop.
pub(crate) struct Session<'a>(pub(super) &'a dyn Control);

impl Session<'_> {
    /// Stops recording. Returns once all recorded events have been written, except those that a
    /// session for snapshots keeps in memory.
    pub(crate) fn stop(&self) -> Result<(), String> {
        self.0.execute("stop")
    }

    /// Takes a snapshot: writes the events that are in memory.
    pub(crate) fn snapshot(&self) -> Result<(), String> {
        self.0.execute("snapshot")
    }

    pub(crate) fn destroy(self) -> Result<(), String> {
        std::mem::ManuallyDrop::new(self).0.execute("destroy")
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // A session is dropped only after an earlier error, which is reported instead.
        let _ = self.0.execute("destroy");
    }
}

/// Folder for the files of a measurement, removed on drop.
pub(crate) struct Output(pub(crate) PathBuf);

impl Output {
    /// Makes a folder on a file system in memory, with `name` in its name.
    pub(crate) fn in_memory(name: &str) -> Result<Output, String> {
        Output::below(Path::new("/dev/shm"), name)
    }

    /// Makes a folder below `folder`, with `name` in its name.
    pub(crate) fn below(folder: &Path, name: &str) -> Result<Output, String> {
        let folder = folder.join(format!("blkkin-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        Ok(Output(folder))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Files on a file system in memory would stay until a reboot.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the folder at or below `folder` that contains a file `metadata`.
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
