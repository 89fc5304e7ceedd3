//! Times up to which sessions of relays were read, in memory and in a file beside the store's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Name of the file in the store's directory. Each line has the time in nanoseconds since 1970, and
/// the URL of a session.
pub(super) const FILE: &str = "relays";
/// Maximum number of sessions; those that were read up to the earliest time are forgotten.
const SESSIONS_MAX: usize = 4096;

/// Times up to which sessions were read, by their URLs.
#[derive(Debug, Default)]
pub(super) struct Positions {
    times: BTreeMap<String, i64>,
    /// File with the times; `None` for a store in memory.
    file: Option<PathBuf>,
    is_changed: bool,
}

impl Positions {
    /// Reads a file that [`save`](Self::save) has written. It may be missing; lines of another form
    /// are ignored, so that their sessions are read from the beginning.
    pub(super) fn read(file: PathBuf) -> io::Result<Positions> {
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let parse = |line: &str| {
            let (time, url) = line.split_once(' ')?;
            Some((url.to_owned(), time.parse().ok()?))
        };
        let times = text.lines().filter_map(parse).collect();
        Ok(Positions { times, file: Some(file), is_changed: false })
    }

    /// Returns the time up to which a session was read; `None` if it was not.
    pub(super) fn of(&self, url: &str) -> Option<i64> {
        self.times.get(url).copied()
    }

    pub(super) fn set(&mut self, url: &str, time: i64) {
        self.is_changed |= self.times.insert(url.to_owned(), time) != Some(time);
        if self.times.len() > SESSIONS_MAX {
            let earliest = self.times.iter().min_by_key(|(_, time)| **time);
            if let Some(url) = earliest.map(|(url, _)| url.clone()) {
                self.times.remove(&url);
            }
        }
    }

    /// Writes the times that have changed to the file. The file is replaced as a whole, so that a
    /// killed process leaves the old or the new one.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.is_changed) else { return Ok(()) };
        let lines: String =
            self.times.iter().map(|(url, time)| format!("{time} {url}\n")).collect();
        let new = file.with_extension("new");
        fs::write(&new, lines)?;
        fs::rename(&new, file)?;
        self.is_changed = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::Scratch;

    #[test]
    fn times_are_kept_in_a_file() {
        let scratch = Scratch::new("positions");
        let file = scratch.0.join(FILE);
        let mut positions = Positions::read(file.clone()).unwrap();
        assert_eq!(positions.of("net://a/host/n/s"), None);
        positions.set("net://a/host/n/s", 5);
        positions.set("net://a/host/n/a session", -7);
        positions.set("net://a/host/n/s", 6);
        positions.save().unwrap();
        let read = Positions::read(file.clone()).unwrap();
        assert_eq!(read.of("net://a/host/n/s"), Some(6));
        assert_eq!(read.of("net://a/host/n/a session"), Some(-7));
        fs::write(&file, "x net://a\n9\n8 net://b\n").unwrap();
        let read = Positions::read(file).unwrap();
        assert_eq!((read.of("net://a"), read.of("net://b")), (None, Some(8)));
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let mut positions = Positions::default();
        for number in 0..=SESSIONS_MAX {
            positions.set(&format!("net://{number}"), number as i64);
        }
        assert_eq!((positions.of("net://0"), positions.of("net://1")), (None, Some(1)));
        positions.save().unwrap();
    }
}
