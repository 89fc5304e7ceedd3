//! Manifest of an installation: a file below the prefix with a line for each installed file and
//! link, and for each folder that the installation created. Files and links that were changed since
//! the installation are not removed.

use super::error::at;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Path of the manifest below the prefix.
pub(super) const PATH: &str = "share/blkkin/manifest";
const TITLE: &str = "blkkin manifest 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Link,
    Folder,
}

const KINDS: [(Kind, &str); 3] =
    [(Kind::File, "file"), (Kind::Link, "link"), (Kind::Folder, "folder")];

/// An installed file or link, or a folder that the installation created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    kind: Kind,
    /// Digest of a file's contents or of a link's target, which detects accidental changes, not
    /// attacks. Zero for a folder.
    digest: u64,
    pub(super) path: PathBuf,
}

impl Entry {
    pub(super) fn file(path: &Path, contents: &[u8]) -> Entry {
        Entry { kind: Kind::File, digest: digest(contents), path: path.to_owned() }
    }

    pub(super) fn link(path: &Path, target: &Path) -> Entry {
        let digest = digest(target.as_os_str().as_bytes());
        Entry { kind: Kind::Link, digest, path: path.to_owned() }
    }

    pub(super) fn folder(path: &Path) -> Entry {
        Entry { kind: Kind::Folder, digest: 0, path: path.to_owned() }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }

    /// Returns true if a file's contents or a link's target are unchanged since the installation,
    /// or if a folder still is a folder. A missing path is an error.
    fn is_unchanged(&self, root: &Path) -> io::Result<bool> {
        let path = root.join(&self.path);
        let kind = fs::symlink_metadata(&path)?.file_type();
        Ok(match self.kind {
            Kind::File => kind.is_file() && digest(&fs::read(&path)?) == self.digest,
            Kind::Link if !kind.is_symlink() => false,
            Kind::Link => digest(fs::read_link(&path)?.as_os_str().as_bytes()) == self.digest,
            Kind::Folder => kind.is_dir(),
        })
    }

    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.splitn(3, ' ');
        let word = words.next()?;
        let kind = KINDS.iter().find(|(_, name)| *name == word)?.0;
        let digest = u64::from_str_radix(words.next()?, 16).ok()?;
        let path = PathBuf::from(words.next()?);
        // An uninstallation must not remove any file outside of the prefix.
        let is_within = path.components().all(|part| matches!(part, Component::Normal(_)));
        (is_within && path != Path::new("")).then_some(Entry { kind, digest, path })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Entries of the installation. A path has several entries if an installation was interrupted,
    /// or if a later installation had to create a folder again.
    pub(super) entries: Vec<Entry>,
}

impl Manifest {
    /// Reads the manifest; `None` if `root` has no manifest.
    pub(super) fn read(root: &Path) -> io::Result<Option<Manifest>> {
        let path = root.join(PATH);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(at(&path))?,
        };
        let mut lines = text.lines().enumerate();
        let bad = |line: usize| {
            let path = path.display();
            io::Error::other(format!(
                "{path}, line {}: no manifest of blkkin; restore it",
                line + 1
            ))
        };
        if lines.next().is_none_or(|(_, title)| title != TITLE) {
            return Err(bad(0));
        }
        let mut entries = Vec::new();
        for (number, line) in lines {
            entries.push(Entry::parse(line).ok_or_else(|| bad(number))?);
        }
        Ok(Some(Manifest { entries }))
    }

    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        let mut text = format!("{TITLE}\n");
        for Entry { kind, digest, path } in &self.entries {
            let name = KINDS.iter().find(|(other, _)| other == kind).map_or("", |(_, name)| name);
            text += &format!("{name} {digest:016x} {}\n", path.display());
        }
        let path = root.join(PATH);
        let beside = path.with_extension("new");
        fs::write(&beside, text).map_err(at(&beside))?;
        fs::rename(&beside, &path).map_err(at(&path))
    }

    /// Returns true if the manifest has an entry for this path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.entries.iter().any(|entry| entry.path == path)
    }

    /// Removes unchanged files and links, the manifest, and folders that become empty. Returns the
    /// paths of changed files and links, which remain.
    pub(super) fn remove(&self, root: &Path) -> io::Result<Vec<PathBuf>> {
        let (folders, others): (Vec<_>, Vec<_>) =
            self.entries.iter().cloned().partition(Entry::is_folder);
        let kept = Manifest { entries: others }.remove_entries(root)?;
        // The manifest is removed after all files and links, so that an interrupted removal can be
        // repeated, but before the folders, one of which contains it.
        let path = root.join(PATH);
        fs::remove_file(&path).map_err(at(&path))?;
        Manifest { entries: folders }.remove_entries(root)?;
        Ok(kept)
    }

    /// Removes unchanged files and links, and folders that become empty. Returns the paths of
    /// changed entries, but not of folders that are not empty.
    pub(super) fn remove_entries(&self, root: &Path) -> io::Result<Vec<PathBuf>> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        // Contents of folders precede the folders.
        entries.sort_by(|one, other| other.path.cmp(&one.path));
        let mut kept: Vec<PathBuf> = Vec::new();
        for entry in entries {
            let path = root.join(&entry.path);
            match entry.is_unchanged(root) {
                Ok(true) if entry.is_folder() => match fs::remove_dir(&path) {
                    Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                        return Err(at(&path)(error));
                    }
                    _ => {}
                },
                Ok(true) => {
                    fs::remove_file(&path).map_err(at(&path))?;
                    kept.retain(|kept| *kept != entry.path);
                }
                Ok(false) if kept.last() == Some(&entry.path) => {}
                Ok(false) => kept.push(entry.path.clone()),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
        Ok(kept)
    }
}

/// Returns the 64-bit FNV-1a hash of the bytes.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
