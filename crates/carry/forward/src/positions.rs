//! Positions up to which a relay has acknowledged each stream, in memory and in a file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Position of a stream after its last acknowledged packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Number of acknowledged packets.
    pub(crate) packets: u64,
    /// End of the last of them, in cycles. It tells whether the stream was cleared.
    pub(crate) last_end: u64,
}

/// Name of the file with the positions, in the directory whose traces are sent.
pub(crate) const FILE: &str = ".forwarded";

/// Positions of all streams, by the stream's path below the directory.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    acknowledged: BTreeMap<String, Position>,
    file: Option<PathBuf>,
    is_changed: bool,
    /// Locked file beside `file`, so that only one process delivers the directory.
    _lock: Option<File>,
}

impl Positions {
    /// Reads the positions from the file in a directory, which [`save`](Self::save) writes: a line
    /// for each stream with its position, the end of its last packet, and its path. Lines of
    /// another form are ignored, so that the packets of their streams are sent again. The file and
    /// the directory may be missing.
    pub(crate) fn read(directory: &Path) -> io::Result<Positions> {
        let file = directory.join(FILE);
        let lock = match File::create(file.with_extension("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Positions::default());
            }
            lock => lock?,
        };
        lock.lock()?;
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let parse = |line: &str| {
            let (packets, rest) = line.split_once(' ')?;
            let (last_end, path) = rest.split_once(' ')?;
            let (packets, last_end) = (packets.parse().ok()?, last_end.parse().ok()?);
            Some((path.to_owned(), Position { packets, last_end }))
        };
        let acknowledged = text.lines().filter_map(parse).collect();
        Ok(Positions { acknowledged, file: Some(file), is_changed: false, _lock: Some(lock) })
    }

    /// Returns the position of a stream; the start, if nothing was acknowledged.
    pub(crate) fn of(&self, path: &str) -> Position {
        self.acknowledged.get(path).copied().unwrap_or_default()
    }

    /// Returns the positions of all streams.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, Position)> {
        self.acknowledged.iter().map(|(path, position)| (&**path, *position))
    }

    /// Returns whether packets of a stream were acknowledged.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.acknowledged.contains_key(path)
    }

    pub(crate) fn set(&mut self, path: &str, position: Position) {
        self.is_changed |= self.acknowledged.insert(path.to_owned(), position) != Some(position);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.is_changed |= self.acknowledged.remove(path).is_some();
    }

    /// Forgets the streams for whose paths `is_kept` returns false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        let before = self.acknowledged.len();
        self.acknowledged.retain(|path, _| is_kept(path));
        self.is_changed |= self.acknowledged.len() != before;
    }

    /// Writes the positions that have changed to the file, if there is one. The file is replaced as
    /// a whole, so that a killed process leaves the old or the new one.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.is_changed) else { return Ok(()) };
        let lines = self
            .acknowledged
            .iter()
            .map(|(path, position)| format!("{} {} {path}\n", position.packets, position.last_end));
        let new = file.with_extension("new");
        fs::write(&new, lines.collect::<String>())?;
        fs::rename(&new, file)?;
        self.is_changed = false;
        Ok(())
    }
}
