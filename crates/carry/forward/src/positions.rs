//! How far a relay has acknowledged each stream, in memory and in a file across restarts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file with the positions, in the directory whose traces are sent.
pub(crate) const FILE: &str = ".forwarded";

/// Number of acknowledged packets of each stream, by the stream's path below the directory.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    acknowledged: BTreeMap<String, u64>,
    file: Option<PathBuf>,
    is_changed: bool,
    /// Locked file beside `file`, so that only one process delivers the directory.
    _lock: Option<File>,
}

impl Positions {
    /// Reads the positions from the file in a directory, which [`save`](Self::save) writes: a line
    /// for each stream with its position and its path. Lines of another form are ignored, so that
    /// the packets of their streams are sent again. The file may be missing.
    pub(crate) fn read(directory: &Path) -> io::Result<Positions> {
        let file = directory.join(FILE);
        let lock = File::create(file.with_extension("lock"))?;
        lock.lock()?;
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let parse = |line: &str| {
            let (position, path) = line.split_once(' ')?;
            Some((path.to_owned(), position.parse().ok()?))
        };
        let acknowledged = text.lines().filter_map(parse).collect();
        Ok(Positions { acknowledged, file: Some(file), is_changed: false, _lock: Some(lock) })
    }

    /// Returns the number of acknowledged packets of a stream.
    pub(crate) fn of(&self, path: &str) -> u64 {
        self.acknowledged.get(path).copied().unwrap_or_default()
    }

    /// Returns whether packets of a stream were acknowledged.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.acknowledged.contains_key(path)
    }

    pub(crate) fn set(&mut self, path: &str, position: u64) {
        self.is_changed |= self.acknowledged.insert(path.to_owned(), position) != Some(position);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.is_changed |= self.acknowledged.remove(path).is_some();
    }

    /// Writes the positions that have changed to the file, if there is one. The file is replaced as
    /// a whole, so that a killed process leaves the old or the new one.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.is_changed) else { return Ok(()) };
        let lines = self.acknowledged.iter().map(|(path, position)| format!("{position} {path}\n"));
        let new = file.with_extension("new");
        fs::write(&new, lines.collect::<String>())?;
        fs::rename(&new, file)?;
        self.is_changed = false;
        Ok(())
    }
}
