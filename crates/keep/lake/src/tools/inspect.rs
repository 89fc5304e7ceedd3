//! Read-only inspection of a store's directory. Start at [`inspect`].

use crate::files::column_file::{self, ColumnFile};
use crate::files::directory_names::DirectoryNames;
use crate::files::disk::lock_store;
use crate::files::file_entry::FileEntry;
use crate::files::index::Index;
use crate::files::manifest::{CopyFault, Manifest};
use crate::files::naming;
use crate::tools::listing::Listing;
use crate::{Error, Retention};
use blkkin_journal::{Directory, Disk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Contents and damage of a store's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Names of the manifest's copies, each with its commit number or the reason why the copy is
    /// unusable.
    pub manifest: Vec<(String, Result<u64, String>)>,
    /// Retention stored in the manifest.
    pub retention: Option<Retention>,
    /// Files in the directory of span files without indexes, in order of name; also the missing
    /// files that the manifest names.
    pub files: Vec<InspectedFile>,
    /// Number of spans that only the journal has, according to the manifest.
    pub journal_spans: u64,
    /// Descriptions of the journal's damage, one line each.
    pub journal_damage: Vec<String>,
}

/// File in the directory of span files, or missing from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedFile {
    /// Name of the file in `spans/`.
    pub name: String,
    /// Number of spans, from the manifest if it names the file, otherwise from the file; 0 if
    /// unknown.
    pub spans: u64,
    /// Size of the file in bytes, from the manifest if it names the file; 0 if the file is missing.
    pub bytes: u64,
    /// Result of the file's inspection.
    pub condition: Condition,
}

/// Condition in which the inspection found a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// File and index are intact.
    Good,
    /// The file is intact, but its index is not. The next start rebuilds the index.
    NoIndex,
    /// The manifest names the file, but the file does not exist.
    Missing,
    /// The manifest names the file, but the file has invalid bytes or another number of spans.
    Damaged(String),
    /// The manifest does not name the span file.
    Unnamed,
    /// The file was merged, has expired, or was never finished, so the next start may remove it.
    Removing,
    /// The file is a damaged file kept for inspection, a file that an adoption renamed, or a
    /// foreign file.
    Other,
}

impl Condition {
    /// Returns the condition as a word for display, such as "missing".
    pub fn word(&self) -> &'static str {
        match self {
            Condition::Good => "good",
            Condition::NoIndex => "no index",
            Condition::Missing => "missing",
            Condition::Damaged(_) => "damaged",
            Condition::Unnamed => "unnamed",
            Condition::Removing => "removing",
            Condition::Other => "other",
        }
    }

    /// Returns whether the file is missing, damaged, or not named by the manifest.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Condition::Missing | Condition::Damaged(_) | Condition::Unnamed)
    }
}

impl Inspection {
    /// Returns whether both copies of the manifest are intact, no file is in a wrong condition, and
    /// the journal has no damage.
    pub fn is_good(&self) -> bool {
        self.manifest.iter().all(|(_, copy)| copy.is_ok())
            && self.files.iter().all(|file| !file.condition.is_wrong())
            && self.journal_damage.is_empty()
    }

    /// Returns whether a server would refuse to open the directory until it is adopted.
    pub fn needs_adopting(&self) -> bool {
        let is_missing = |file: &&InspectedFile| file.condition == Condition::Missing;
        let has = |condition| self.files.iter().any(|file| file.condition == condition);
        let named = |file: &&InspectedFile| {
            is_missing(file)
                || matches!(
                    file.condition,
                    Condition::Good | Condition::NoIndex | Condition::Damaged(_)
                )
        };
        let missing = self.files.iter().filter(is_missing).count();
        self.manifest.iter().all(|(_, copy)| copy.is_err())
            || has(Condition::Unnamed)
            || missing > 0 && missing == self.files.iter().filter(named).count()
    }
}

/// Inspects the store in a directory: reads the journal and verifies all files that the manifest
/// names. No server may have the directory open. `bytes_done` is the approximate size of the span
/// files processed so far, for a progress display.
pub fn inspect(directory: &Path, bytes_done: &AtomicU64) -> Result<Inspection, Error> {
    let open = |path: &Path| match Directory::open(path) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path.display().to_string())(error)),
    };
    let root = open(directory)?.ok_or(Error::NoStore)?;
    let (spans, journal) = (open(&directory.join("spans"))?, open(&directory.join("journal"))?);
    if spans.is_none() && journal.is_none() {
        return Err(Error::NoStore);
    }
    let _lock = journal.as_ref().map(|journal| lock_store(journal)).transpose()?;
    let copies = Manifest::copies(&root)?.map(|(name, copy)| {
        (name.to_owned(), copy.map_err(|unusable| unusable.reason().to_owned()))
    });
    let manifest = match Manifest::read(&root) {
        Ok(read) => read.map(|(manifest, _)| manifest),
        Err(Error::Manifest) => None,
        Err(error) => return Err(error),
    };
    let mut inspection = Inspection { manifest: copies.into(), ..Inspection::default() };
    inspection.retention = manifest.as_ref().and_then(|manifest| manifest.retention);
    let listing = Listing::of_manifest(manifest.as_ref());
    match journal {
        Some(journal) => {
            let read = listing.journal_blocks(Arc::new(journal), &mut |blocks| {
                inspection.journal_spans += blocks.iter().map(|it| it.len() as u64).sum::<u64>();
                Ok(())
            })?;
            inspection.journal_damage = read.damage;
            if read.lacks_records && manifest.is_some() {
                inspection.journal_damage.push("records that no file has are missing".to_owned());
            }
        }
        None => inspection.journal_damage.push("the directory journal is missing".to_owned()),
    }
    let manifest = manifest.unwrap_or_default();
    match spans {
        Some(spans) => inspection.files = files(&spans, &manifest, bytes_done)?,
        None => inspection.files = manifest.named().map(missing).collect(),
    }
    Ok(inspection)
}

fn missing(entry: &FileEntry) -> InspectedFile {
    let (name, spans) = (naming::spans_name(entry.number), entry.spans);
    InspectedFile { name, spans, bytes: 0, condition: Condition::Missing }
}

fn files(
    spans: &dyn Disk,
    manifest: &Manifest,
    bytes_done: &AtomicU64,
) -> Result<Vec<InspectedFile>, Error> {
    let names = DirectoryNames::list(spans)?;
    let mut files = Vec::new();
    let size = |name: &str| spans.open(name).and_then(|file| file.size_bytes()).unwrap_or_default();
    for entry in manifest.named() {
        if !names.has(entry.number) {
            files.push(missing(entry));
            continue;
        }
        let condition = match column_file::open_spans(spans, entry.number)
            .and_then(|file| verify(&file, entry))
        {
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => Condition::Damaged(error.to_string()),
            Ok(()) if !has_index(spans, entry) => Condition::NoIndex,
            Ok(()) => Condition::Good,
        };
        let (name, spans) = (naming::spans_name(entry.number), entry.spans);
        files.push(InspectedFile { name, spans, bytes: entry.bytes, condition });
        bytes_done.fetch_add(entry.bytes, Ordering::Relaxed);
    }
    let unnamed = names.unnamed(manifest);
    let is_named = |number: u64| manifest.named().any(|file| file.number == number);
    for &number in names.spans.iter().filter(|number| !is_named(**number)) {
        let name = naming::spans_name(number);
        let opened = column_file::open_spans(spans, number);
        let condition = match unnamed.contains(&number) {
            true => Condition::Unnamed,
            false => Condition::Removing,
        };
        let bytes = size(&name);
        let spans = opened.map_or(0, |file| file.len());
        files.push(InspectedFile { name, spans, bytes, condition });
        bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }
    for &number in names.unfinished.iter().filter(|number| !is_named(**number)) {
        let name = naming::unfinished_name(number);
        let bytes = size(&name);
        files.push(InspectedFile { name, spans: 0, bytes, condition: Condition::Removing });
    }
    for name in &names.others {
        let bytes = size(name);
        let condition = Condition::Other;
        files.push(InspectedFile { name: name.clone(), spans: 0, bytes, condition });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

fn verify(file: &ColumnFile, entry: &FileEntry) -> Result<(), Error> {
    if file.len() != entry.spans {
        let (is, by_manifest) = (file.len(), entry.spans);
        return Err(Error::Spans(format!("{is} spans, and {by_manifest} by the manifest")));
    }
    file.verify().map_err(|error| column_file::read_error(entry.number, error))
}

fn has_index(spans: &dyn Disk, entry: &FileEntry) -> bool {
    let index =
        spans.open(&naming::index_name(entry.number)).ok().and_then(|it| Index::open(it).ok());
    index.is_some_and(|index| u64::from(index.directory.rows) == entry.spans)
}

impl CopyFault {
    fn reason(self) -> &'static str {
        match self {
            CopyFault::Missing => "missing",
            CopyFault::Damaged => "damaged",
            CopyFault::Newer => "of a later release",
        }
    }
}
