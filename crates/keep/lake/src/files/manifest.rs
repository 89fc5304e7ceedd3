//! [`Manifest`]: the list of valid files, and the position up to which they contain the journal.
//! Each change is atomic and durable.
//!
//! There are two copies. Each copy is written to a new file, which is then renamed to the copy's
//! name. The store opens the intact copy with the higher commit number. A span file is removed only
//! after both copies list it as being removed. Only adoption touches a Parquet file that neither
//! copy names.

use crate::files::file_entry::{COUNTER_MAX, FileEntry, Totals};
use crate::{Error, Retention};
use blkkin_journal::{Directory, Disk};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

const COPIES: [&str; 2] = ["manifest", "manifest.copy"];
const UNFINISHED: &str = "manifest.new";

/// Version of the manifest's format. A manifest with another version, or with bits outside of
/// [`INCOMPAT_KNOWN`], is not touched.
const FORMAT: u32 = 1;
const INCOMPAT_KNOWN: u32 = 0;

/// Maximum size of a manifest in bytes. A manifest with 100,000 files is smaller.
const BYTES_MAX: u64 = 64 << 20;

/// List of a store's files, and the position up to which they contain the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    incompat: u32,
    /// Generation counter, incremented by each commit.
    pub(crate) commit: u64,
    /// Journal sequence number before which all records are in files.
    pub(crate) journal_sequence: u64,
    /// First unused file number, greater than the number of any file so far.
    pub(crate) next_file: u64,
    /// Counts of spans since the store was created.
    pub(crate) totals: Totals,
    /// Valid files, in the order in which their spans were received.
    pub(crate) files: Vec<FileEntry>,
    /// Files that could not be read, or damaged files that could not be renamed, at the last start.
    /// Their content may be valid. Their spans count as lost while the files are listed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unread: Vec<FileEntry>,
    /// Merged or expired files, listed until they are removed from the disk. After a crash, the
    /// entry proves that the store itself discarded the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removing: Vec<FileEntry>,
    /// Retention of the last start with `stores_retention`; unlimited if adoption found no manifest
    /// with a retention. A start without retention options must not remove more spans than this
    /// retention does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retention: Option<Retention>,
}

impl Default for Manifest {
    fn default() -> Manifest {
        Manifest {
            format: FORMAT,
            incompat: 0,
            commit: 0,
            journal_sequence: 0,
            next_file: 1,
            totals: Totals::default(),
            files: Vec::new(),
            unread: Vec::new(),
            removing: Vec::new(),
            retention: None,
        }
    }
}

/// Reason why a copy of the manifest cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFault {
    Missing,
    Damaged,
    Newer,
}

/// Name of a copy of the manifest, with its commit number or the reason why it is unusable.
type Copy = (&'static str, Result<u64, CopyFault>);

impl Manifest {
    /// Returns a clone of the manifest with the next commit number, to be changed and written.
    pub(crate) fn next(&self) -> Manifest {
        Manifest { commit: self.commit + 1, ..self.clone() }
    }

    /// Returns all files that the manifest names, readable or not.
    pub(crate) fn named(&self) -> impl Iterator<Item = &FileEntry> {
        self.files.iter().chain(&self.unread)
    }

    /// Removes all files from `files` and `unread`, and returns them in the order in which their
    /// spans were received. The spans of `unread` no longer count as lost.
    pub(crate) fn take_files(&mut self) -> Vec<FileEntry> {
        let mut files = std::mem::take(&mut self.files);
        for file in std::mem::take(&mut self.unread) {
            self.totals.lost = self.totals.lost.saturating_sub(file.spans);
            let place = files.partition_point(|other| other.received_ns <= file.received_ns);
            files.insert(place, file);
        }
        files
    }

    /// Reads the intact copy of the manifest with the higher commit number. The returned flag is
    /// set if the other copy was damaged. Returns `None` if there is no copy.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<(Manifest, bool)>, Error> {
        let mut found: Option<Manifest> = None;
        let (mut damaged, mut newer) = (false, false);
        for name in COPIES {
            match read_copy(disk, name)? {
                Ok(copy) if found.as_ref().is_none_or(|one| one.commit < copy.commit) => {
                    found = Some(copy);
                }
                Ok(_) | Err(CopyFault::Missing) => {}
                Err(CopyFault::Damaged) => damaged = true,
                Err(CopyFault::Newer) => newer = true,
            }
        }
        match found {
            _ if newer => Err(Error::Newer),
            None if damaged => Err(Error::Manifest),
            found => Ok(found.map(|manifest| (manifest, damaged))),
        }
    }

    /// Returns the commit number of each copy, or the reason why the copy is unusable.
    pub(crate) fn copies(disk: &dyn Disk) -> Result<[Copy; 2], Error> {
        let copy = |name| read_copy(disk, name).map(|it| (name, it.map(|found| found.commit)));
        let [one, other] = COPIES;
        Ok([copy(one)?, copy(other)?])
    }

    /// Writes both copies of the manifest. Each copy is written to a new file, which is then
    /// renamed.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), Error> {
        let text =
            serde_json::to_string(self).map_err(|error| Error::io("manifest")(error.into()))?;
        let bytes = with_checksum(&text);
        for name in COPIES {
            let written = || {
                // A process that ended may have left this file.
                let _ = disk.remove(UNFINISHED);
                let file = disk.create(UNFINISHED)?;
                file.write_at(&bytes, 0)?;
                file.sync()?;
                disk.rename(UNFINISHED, name)?;
                disk.sync()
            };
            written().map_err(Error::io(name))?;
        }
        Ok(())
    }
}

impl Retention {
    /// Returns the retention stored in the manifest of a directory; `None` if there is no store or
    /// no stored retention.
    pub fn stored(directory: &Path) -> Result<Option<Retention>, Error> {
        let disk = match Directory::open(directory) {
            Ok(disk) => disk,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(directory.display().to_string())(error)),
        };
        Ok(Manifest::read(&disk)?.and_then(|(manifest, _)| manifest.retention))
    }
}

fn read_copy(disk: &dyn Disk, name: &str) -> Result<Result<Manifest, CopyFault>, Error> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Err(CopyFault::Missing));
        }
        Err(error) => return Err(Error::io(name)(error)),
    };
    let size = file.size_bytes().map_err(Error::io(name))?;
    if size > BYTES_MAX {
        return Ok(Err(CopyFault::Damaged));
    }
    let bytes = crate::files::bytes::read(&*file, 0..size).map_err(Error::io(name))?;
    Ok(parse(&bytes))
}

fn with_checksum(text: &str) -> Vec<u8> {
    format!("{text}\n{:08x}\n", crc32c::crc32c(text.as_bytes())).into_bytes()
}

/// Returns whether a text is a valid manifest. Asserts that a valid manifest survives a round trip,
/// and that its sums are at most [`COUNTER_MAX`].
#[cfg(any(test, feature = "testing"))]
pub(crate) fn survives_writing(json: &[u8]) -> bool {
    let Ok(json) = std::str::from_utf8(json) else { return false };
    let Ok(read) = parse(&with_checksum(json)) else { return false };
    let text = serde_json::to_string(&read).expect("it was read");
    assert!(parse(&with_checksum(&text)).is_ok_and(|again| again == read));
    let bytes: u64 = read.named().map(FileEntry::bytes_on_disk).sum();
    let spans: u64 = read.named().map(|file| file.spans).sum();
    assert!(bytes <= COUNTER_MAX && spans <= COUNTER_MAX);
    true
}

impl Manifest {
    /// Returns whether the manifest is consistent: counts and their sums are within their limits,
    /// and file numbers are unique and less than `next_file`.
    fn is_sound(&self) -> bool {
        let Totals { accepted, duplicates, expired, lost } = self.totals;
        let counts = [self.commit, self.journal_sequence, self.next_file];
        let sum = |of: fn(&FileEntry) -> Option<u64>| {
            let sum = self.named().try_fold(0u64, |sum, file| sum.checked_add(of(file)?));
            sum.unwrap_or(u64::MAX)
        };
        let sums = [
            sum(|file| file.bytes.checked_add(file.index_bytes)),
            sum(|file| Some(file.spans)),
            accepted,
            duplicates.saturating_add(expired).saturating_add(lost),
        ];
        let all = self.named().chain(&self.removing);
        let mut numbers: Vec<u64> = all.map(|file| file.number).collect();
        numbers.sort_unstable();
        counts.into_iter().chain(sums).all(|count| count <= COUNTER_MAX)
            && numbers.windows(2).all(|pair| pair[0] != pair[1])
            && numbers.last().is_none_or(|&last| last < self.next_file)
            && self.named().all(|file| file.spans <= u32::MAX.into() && file.tier < u32::MAX)
    }
}

/// Parses the bytes that [`Manifest::write`] wrote.
fn parse(bytes: &[u8]) -> Result<Manifest, CopyFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| CopyFault::Damaged)?;
    let (json, crc) = text.split_once('\n').ok_or(CopyFault::Damaged)?;
    if crc != format!("{:08x}\n", crc32c::crc32c(json.as_bytes())) {
        return Err(CopyFault::Damaged);
    }
    let value: serde_json::Value = serde_json::from_str(json).map_err(|_| CopyFault::Damaged)?;
    let number = |name: &str| value.get(name).and_then(serde_json::Value::as_u64);
    let incompat = number("incompat").ok_or(CopyFault::Damaged)?;
    if number("format") != Some(FORMAT.into()) || incompat & !u64::from(INCOMPAT_KNOWN) != 0 {
        return Err(CopyFault::Newer);
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(|_| CopyFault::Damaged)?;
    if manifest.is_sound() { Ok(manifest) } else { Err(CopyFault::Damaged) }
}

#[cfg(test)]
mod tests {
    use super::{COPIES, Manifest};
    use crate::Error;
    use crate::files::file_entry::FileEntry;
    use blkkin_journal::Disk;
    use blkkin_journal::testing::SimulatedDisk;

    fn manifest(commit: u64) -> Manifest {
        let file = FileEntry {
            number: 7,
            tier: 1,
            spans: 100,
            bytes: 2000,
            index_bytes: 300,
            min_start_ns: 1,
            max_start_ns: u64::MAX,
            received_ns: 3,
        };
        Manifest {
            commit,
            journal_sequence: 5,
            next_file: 8,
            files: vec![file],
            ..Manifest::default()
        }
    }

    fn bytes_of(disk: &dyn Disk, name: &str) -> Vec<u8> {
        let file = disk.open(name).expect("is there");
        crate::files::bytes::read(&*file, 0..file.size_bytes().expect("a size")).expect("read")
    }

    fn set(disk: &dyn Disk, name: &str, bytes: &[u8]) {
        disk.remove(name).expect("removed");
        disk.create(name).expect("created").write_at(bytes, 0).expect("written");
    }

    #[test]
    fn written_manifest_is_read_back() {
        let disk = SimulatedDisk::new(1);
        assert!(Manifest::read(&disk).expect("read").is_none());
        for commit in [1, 2] {
            manifest(commit).write(&disk).expect("written");
            let read = Manifest::read(&disk).expect("read");
            assert_eq!(read, Some((manifest(commit), false)));
        }
    }

    #[test]
    fn one_copy_is_enough() {
        let disk = SimulatedDisk::new(1);
        manifest(1).write(&disk).expect("written");
        let bytes = bytes_of(&disk, COPIES[0]);
        for name in COPIES {
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                for contents in [&damaged, &bytes[..at].to_vec()] {
                    set(&disk, name, contents);
                    let read = Manifest::read(&disk).expect("the other copy is whole");
                    assert_eq!(read, Some((manifest(1), true)), "{name} {at}");
                }
            }
            set(&disk, name, &bytes);
        }
        COPIES.iter().for_each(|name| set(&disk, name, b"{}"));
        assert!(matches!(Manifest::read(&disk), Err(Error::Manifest)));
    }

    #[test]
    fn later_releases_are_left_alone() {
        let disk = SimulatedDisk::new(1);
        Manifest { incompat: 2, ..manifest(1) }.write(&disk).expect("written");
        assert!(matches!(Manifest::read(&disk), Err(Error::Newer)));
    }
}
