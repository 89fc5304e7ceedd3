//! [`DirectoryNames`]: the names in the directory of span files, classified by suffix. Start at
//! [`DirectoryNames::list`].

use crate::Error;
use crate::files::index;
use crate::files::manifest::Manifest;
use crate::files::naming;
use blkkin_journal::Disk;
use std::collections::BTreeSet;

/// Names in the directory of span files, by kind of file.
#[derive(Debug, Default)]
pub(crate) struct DirectoryNames {
    /// Numbers of the span files under their final names.
    pub(crate) spans: BTreeSet<u64>,
    pub(crate) indexes: BTreeSet<u64>,
    pub(crate) unfinished: BTreeSet<u64>,
    /// Names of all other files, such as damaged or foreign files.
    pub(crate) others: BTreeSet<String>,
    /// First unused file number: one more than the greatest number in any name, or 0.
    pub(crate) next_number: u64,
}

impl DirectoryNames {
    pub(crate) fn list(spans: &dyn Disk) -> Result<DirectoryNames, Error> {
        let mut names = DirectoryNames::default();
        let add = &mut |name: &str| {
            let stem = name.split('.').next().unwrap_or_default();
            if let Some(number) = naming::number_of(&format!("{stem}.parquet")) {
                names.next_number = names.next_number.max(number + 1);
            }
            match (naming::number_of(name), name.rsplit_once('.')) {
                (Some(number), Some((_, "parquet"))) => names.spans.insert(number),
                (Some(number), Some((_, "index"))) => names.indexes.insert(number),
                (Some(number), Some((_, "unfinished"))) => names.unfinished.insert(number),
                _ => !matches!(name, "." | "..") && names.others.insert(name.to_owned()),
            };
            true
        };
        spans.list(add).map_err(Error::io("spans"))?;
        Ok(names)
    }

    /// Returns whether a span file exists under its final or its unfinished name.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.spans.contains(&number) || self.unfinished.contains(&number)
    }

    /// Returns the numbers of the span files that the manifest does not mention.
    pub(crate) fn unnamed(&self, manifest: &Manifest) -> Vec<u64> {
        let own = manifest.named().chain(&manifest.removing);
        let own: BTreeSet<u64> = own.map(|file| file.number).collect();
        self.spans.iter().copied().filter(|number| !own.contains(number)).collect()
    }

    /// Returns an error if the directory contradicts its manifest. The store changes no span file
    /// and no manifest before this check.
    pub(crate) fn check(
        &self,
        manifest: Option<&Manifest>,
        journal_has_records: bool,
    ) -> Result<(), Error> {
        let Some(manifest) = manifest else {
            return match self.spans.is_empty() && !journal_has_records {
                true => Ok(()),
                false => Err(Error::NoManifest { files: self.spans.len() }),
            };
        };
        let unnamed = self.unnamed(manifest);
        if let [first, ..] = unnamed[..] {
            return Err(Error::Unnamed { first: naming::spans_name(first), files: unnamed.len() });
        }
        let files = manifest.files.len();
        if files > 0 && !manifest.files.iter().any(|file| self.has(file.number)) {
            return Err(Error::Absent { files });
        }
        Ok(())
    }

    /// Removes unfinished files and indexes that a crash left behind: files whose number neither
    /// the manifest names nor a span file has. An index is removed only if it starts with the magic
    /// of an index.
    pub(crate) fn remove_unfinished(&self, spans: &dyn Disk, manifest: &Manifest) {
        for &number in &self.unfinished {
            if !manifest.named().any(|file| file.number == number) && !self.spans.contains(&number)
            {
                naming::remove_unfinished(spans, number);
            }
        }
        // An index without its span file is useless. It can be rebuilt if the file is restored.
        for &number in &self.indexes {
            let name = naming::index_name(number);
            let is_ours = || spans.open(&name).is_ok_and(|file| index::is_index(&*file));
            if !manifest.named().any(|file| file.number == number) && !self.has(number) && is_ours()
            {
                let _ = spans.remove(&name);
            }
        }
    }
}
