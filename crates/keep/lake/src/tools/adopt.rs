//! Adoption: turns a directory of span files into a store again. A new manifest names all readable
//! span files without duplicate spans, and the indexes of files that the old manifest did not name
//! are rebuilt. Start at [`adopt`].
//!
//! No span file of the directory is removed. A readable Parquet file with a foreign name first gets
//! a name in the store's form. A file with such a name that no manifest names gets the extension
//! `.duplicate` if it repeats spans, or `.unreadable` if it is damaged. The new spans of a
//! duplicate are written to a new file. No store ever removes files with these extensions. The
//! journal is not changed. If no manifest gives the position up to which files contain the journal,
//! the next start reads the whole journal and recognizes the spans that files already have.

use crate::calls::link_table::{LinkResult, LinkTable};
use crate::files::cache::Cache;
use crate::files::column_file::{self, ROWS_AT_ONCE};
use crate::files::directory_names::DirectoryNames;
use crate::files::disk::lock_store;
use crate::files::file_writer::FileWriter;
use crate::files::indexed_file::IndexedFile;
use crate::files::manifest::Manifest;
use crate::files::naming;
use crate::files::reindex::adopt_file;
use crate::files::tag_table::TagTable;
use crate::lake::open_files;
use crate::{Clock, Error, OpenReport, Options, Retention, SystemClock};
use blkkin_columns::{Block, Row, Scratch, Sorted};
use blkkin_journal::{Directory, Disk, Item, Reader};
use blkkin_model::{SpanRef, SpanSink};
use blkkin_store::{compare, fingerprint};
use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Extension of a file that was renamed because it repeats spans of other files or of itself. The
/// file's new spans, if any, are written to a new file.
const DUPLICATE: &str = ".duplicate";
/// Extension of a file that was renamed because it cannot be adopted: it is damaged, is not a span
/// file, or has too many rows.
const UNREADABLE: &str = ".unreadable";

/// Approximate number of spans that are compared with other files at a time.
const COMPARED_SPANS: usize = 4096;
/// Maximum number of spans that a comparison of several requests reads from another file. A
/// comparison of a single request has no such limit.
const READ_AT_ONCE: usize = 32 << 10;

/// Result of adopting a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdoptReport {
    /// Number of readable span files in the store after the adoption.
    pub files: u64,
    /// Number of spans in all readable span files of the store.
    pub spans: u64,
    /// Number of adopted files: readable span files that were not in the store. Files with only
    /// duplicate spans are included.
    pub adopted_files: u64,
    /// Number of new spans in the adopted files: distinct spans that the store did not have.
    pub adopted_spans: u64,
    /// Number of spans in the adopted files that repeat a span of another file or of the same file.
    pub duplicate_spans: u64,
    /// Old and new names of renamed files: foreign files, duplicates, and damaged files that the
    /// manifest did not name.
    pub renamed_files: Vec<(String, String)>,
    /// Descriptions of unreadable files, one line each, including files that the manifest names.
    pub damage: Vec<String>,
    /// Set if the retention is now unlimited because no manifest with a retention was found.
    pub keeps_all: bool,
}

/// Turns a directory into a store again. No server may have the directory open. `bytes_done` is the
/// approximate size of the span files processed so far, for a progress display.
pub fn adopt(directory: &Path, bytes_done: &AtomicU64) -> Result<AdoptReport, Error> {
    let is_store = ["spans", "journal"].iter().any(|name| directory.join(name).is_dir());
    if !is_store {
        return Err(Error::NoStore);
    }
    let root = Directory::open(directory).map_err(Error::io(directory.display().to_string()))?;
    adopt_on(Arc::new(root), bytes_done)
}

/// Turns the root directory of a disk into a store again; see [`adopt`].
pub fn adopt_on(root: Arc<dyn Disk>, bytes_done: &AtomicU64) -> Result<AdoptReport, Error> {
    adopt_with(root, &[], bytes_done)
}

/// Adopts a directory together with imported files. `incoming` lists the numbers of the imported
/// files, which have unfinished names. If an imported file repeats spans, its new spans are written
/// to a new file, and the imported file is removed. Damaged imported files are removed too.
pub(crate) fn adopt_with(
    root: Arc<dyn Disk>,
    incoming: &[u64],
    bytes_done: &AtomicU64,
) -> Result<AdoptReport, Error> {
    let journal = root.directory("journal").map_err(Error::io("journal"))?;
    let _lock = lock_store(&*journal)?;
    let manifest = match Manifest::read(&*root) {
        Ok(read) => read.map(|(manifest, _)| manifest),
        Err(Error::Manifest) => None,
        Err(error) => return Err(error),
    };
    let spans = root.directory("spans").map_err(Error::io("spans"))?;
    let names = DirectoryNames::list(&*spans)?;
    let keeps_all = manifest.as_ref().is_none_or(|manifest| manifest.retention.is_none());
    let mut manifest = manifest.unwrap_or_default();
    // Records before the first record of the journal are in files.
    let mut reader = Reader::open_live(journal, manifest.journal_sequence)?;
    if let Some(Item::Missing(range)) = reader.next()? {
        manifest.journal_sequence = range.end;
    }
    drop(reader);
    manifest.next_file = manifest.next_file.max(names.next_number);
    if keeps_all {
        manifest.retention = Some(Retention::ALL);
    }
    let cache = Arc::new(Cache::new(Options::default().cache_bytes_max));
    let lost_before = manifest.totals.lost;
    let mut opened = OpenReport::default();
    let named = manifest.named().count();
    let files = open_files(&spans, &cache, &mut manifest, &mut opened)?;
    for file in &files {
        bytes_done.fetch_add(file.entry.bytes, Ordering::Relaxed);
    }
    let mut candidates = names.unnamed(&manifest);
    if files.len() < named {
        // The spans of a missing file may be in the files from which it was merged.
        let removing = manifest.removing.drain(..).map(|file| file.number);
        candidates.extend(removing.filter(|number| names.spans.contains(number)));
        candidates.sort_unstable();
        candidates.dedup();
    }
    candidates.extend(incoming);
    let mut adoption = Adoption {
        spans: Arc::clone(&spans),
        cache,
        now_ns: SystemClock::default().now_ns(),
        files,
        new: Vec::new(),
        set_aside: Vec::new(),
        adopted: AdoptReport { keeps_all, damage: opened.damage, ..AdoptReport::default() },
    };
    for number in candidates {
        adoption.adopt_number(&mut manifest, number)?;
        let size = naming::open_either(&*spans, number).and_then(|file| file.size_bytes());
        bytes_done.fetch_add(size.unwrap_or(0), Ordering::Relaxed);
    }
    // Files are part of a store only under names that the store gives, so others are renamed.
    for name in names.others.iter().filter(|name| name.ends_with(".parquet")) {
        adoption.adopt_foreign(&mut manifest, name)?;
    }
    adoption.commit(&*root, manifest, lost_before)
}

/// State of the adoption of a directory.
struct Adoption {
    spans: Arc<dyn Disk>,
    cache: Arc<Cache>,
    now_ns: u64,
    files: Vec<Arc<IndexedFile>>,
    /// Numbers of the files that the new manifest adds. Unfinished files among them get their final
    /// names once the manifest is written.
    new: Vec<u64>,
    /// Numbers and new extensions of files to be renamed once the manifest is written. Unfinished
    /// files are removed instead.
    set_aside: Vec<(u64, &'static str)>,
    adopted: AdoptReport,
}

impl Adoption {
    /// Adopts a span file whose name is in the store's form.
    fn adopt_number(&mut self, manifest: &mut Manifest, number: u64) -> Result<(), Error> {
        let opened = column_file::open_spans(&*self.spans, number);
        let verified = opened.and_then(|file| {
            file.verify().map_err(|error| column_file::read_error(number, error))?;
            match u32::try_from(file.len()) {
                Ok(_) => Ok(file),
                Err(_) => Err(Error::Spans(format!("{} rows are too many", file.len()))),
            }
        });
        let file = match verified {
            Ok(file) => file,
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => {
                self.set_aside.push((number, UNREADABLE));
                self.adopted.damage.push(error.to_string());
                return Ok(());
            }
        };
        let known = self.count_duplicates(&file, number)?;
        self.adopted.adopted_files += 1;
        self.adopted.adopted_spans += file.len() - known;
        self.adopted.duplicate_spans += known;
        let file = if known == 0 {
            let (disk, cache) = (Arc::clone(&self.spans), Arc::clone(&self.cache));
            self.new.push(number);
            adopt_file(disk, cache, number, self.now_ns, &self.files)?
        } else {
            self.set_aside.push((number, DUPLICATE));
            if known == file.len() {
                return Ok(());
            }
            let next = manifest.next_file;
            manifest.next_file += 1;
            self.new.push(next);
            self.write_new_spans(&file, number, next)
                .inspect_err(|_| naming::remove_unfinished(&*self.spans, next))?
        };
        manifest.files.push(file.entry.clone());
        self.files.push(Arc::new(file));
        Ok(())
    }

    /// Adopts a span file whose name is not in the store's form, by renaming the file. A file that
    /// cannot be opened keeps its name and is reported as damage.
    fn adopt_foreign(&mut self, manifest: &mut Manifest, name: &str) -> Result<(), Error> {
        let opened = self.spans.open(name).map_err(|error| error.to_string()).and_then(|file| {
            let file = column_file::ColumnFile::open(column_file::DiskInput(file));
            file.map(drop).map_err(|error| error.to_string())
        });
        if let Err(error) = opened {
            self.adopted.damage.push(format!("{name}: {error}"));
            return Ok(());
        }
        let number = manifest.next_file;
        manifest.next_file += 1;
        let to = naming::spans_name(number);
        self.spans.rename(name, &to).map_err(Error::io(name))?;
        self.adopted.renamed_files.push((name.to_owned(), to));
        self.adopt_number(manifest, number)
    }

    /// Counts the rows of a file that repeat spans of other files or of the same file.
    fn count_duplicates(&self, file: &column_file::ColumnFile, number: u64) -> Result<u64, Error> {
        let mut count = 0;
        self.each_step(file, number, |sorted| {
            count += self.find_duplicates(sorted)?.len() as u64 + sorted.duplicates() as u64;
            Ok(())
        })?;
        Ok(count)
    }

    /// Writes a new file with those rows of `file` that no file of the store has.
    fn write_new_spans(
        &self,
        file: &column_file::ColumnFile,
        number: u64,
        to: u64,
    ) -> Result<IndexedFile, Error> {
        let columns = blkkin_columns::Options::default();
        let (disk, cache) = (Arc::clone(&self.spans), Arc::clone(&self.cache));
        let mut writer = FileWriter::create(disk, cache, to, columns)?;
        let (mut links, mut tags) = (LinkTable::default(), TagTable::default());
        let mut all_earlier = Vec::new();
        self.each_step(file, number, |sorted| {
            let known = self.find_duplicates(sorted)?;
            sorted.retain(|index| !known.contains(&index));
            if !sorted.is_empty() {
                let LinkResult { table, earlier, .. } = LinkTable::of(sorted, &self.files);
                links.merge(&table.counts());
                all_earlier.push(earlier);
                tags.merge(&TagTable::of(sorted).keys());
                writer.append(sorted)?;
            }
            Ok(())
        })?;
        all_earlier.iter().for_each(|earlier| writer.append_elsewhere(earlier));
        writer.finish(0, self.now_ns, &links.counts(), tags.keys())
    }

    /// Calls `each` with the spans of a file, in steps of [`ROWS_AT_ONCE`] rows.
    fn each_step(
        &self,
        file: &column_file::ColumnFile,
        number: u64,
        mut each: impl FnMut(&mut Sorted<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut block = Block::new();
        let end = file.len() as u32;
        let mut start = 0;
        while start < end {
            let next = end.min(start.saturating_add(ROWS_AT_ONCE));
            block.clear();
            column_file::read_rows(file, number, start..next, &mut block)?;
            each(&mut Sorted::of(&[&block]))?;
            start = next;
        }
        Ok(())
    }

    /// Returns the indexes of the spans that files of the store already have. The spans are
    /// compared in full, however long that takes.
    fn find_duplicates(&self, sorted: &Sorted<'_>) -> Result<HashSet<usize>, Error> {
        let mut known = HashSet::new();
        let mut start = 0;
        while start < sorted.len() {
            let end = end_of_request(sorted, sorted.len().min(start + COMPARED_SPANS) - 1);
            for file in &self.files {
                find_duplicates_in(file, sorted, start..end, &mut known)?;
            }
            start = end;
        }
        Ok(known)
    }

    /// Writes the manifest, and then renames the new files and the files that are set aside.
    /// Unfinished files that are set aside are removed.
    fn commit(
        mut self,
        root: &dyn Disk,
        mut manifest: Manifest,
        lost_before: u64,
    ) -> Result<AdoptReport, Error> {
        // Adopted spans may be the spans of missing files, which must not be counted twice.
        let missing = manifest.totals.lost.saturating_sub(lost_before);
        let adopted = self.adopted.adopted_spans;
        manifest.totals.lost -= missing.min(adopted);
        manifest.totals.accepted += adopted - missing.min(adopted);
        manifest.commit += 1;
        self.spans.sync().map_err(Error::io("spans"))?;
        manifest.write(root)?;
        for &number in self.new.iter().filter(|number| !has_final_name(&*self.spans, **number)) {
            let _ = naming::publish(&*self.spans, number);
        }
        for (number, ending) in std::mem::take(&mut self.set_aside) {
            let name = naming::spans_name(number);
            if !has_final_name(&*self.spans, number) {
                naming::remove_unfinished(&*self.spans, number);
                continue;
            }
            let _ = self.spans.remove(&naming::index_name(number));
            let to = free_name(&*self.spans, &(name.clone() + ending));
            self.spans.rename(&name, &to).map_err(Error::io(&name))?;
            self.adopted.renamed_files.push((name, to));
        }
        self.spans.sync().map_err(Error::io("spans"))?;
        self.adopted.files = self.files.len() as u64;
        self.adopted.spans = self.files.iter().map(|file| file.entry.spans).sum();
        Ok(self.adopted)
    }
}

/// Adds to `known` the indexes of the spans that one file of the store already has. `places` is a
/// range of indexes that contains whole requests.
fn find_duplicates_in(
    file: &IndexedFile,
    sorted: &Sorted<'_>,
    places: Range<usize>,
    known: &mut HashSet<usize>,
) -> Result<(), Error> {
    let mut lows: Vec<u64> = places.clone().map(|index| low_of(sorted, index)).collect();
    lows.dedup();
    lows.retain(|&low| file.may_hold(low));
    // If the file has few other spans between several requests, one read serves all of them.
    if let [first, .., last] = lows[..]
        && let Some(block) = read_block(file, first..=last, READ_AT_ONCE)?
    {
        add_duplicates(&block, sorted, places, known);
        return Ok(());
    }
    for low in lows {
        let start =
            places.start + places.clone().take_while(|&index| low_of(sorted, index) < low).count();
        if let Some(block) = read_block(file, low..=low, usize::MAX)? {
            add_duplicates(&block, sorted, start..end_of_request(sorted, start), known);
        }
    }
    Ok(())
}

/// Reads a file's spans in a range of trace ids. Returns `None` if there are more than `spans_max`,
/// or more than a block accepts.
fn read_block(
    file: &IndexedFile,
    lows: RangeInclusive<u64>,
    spans_max: usize,
) -> Result<Option<Block>, Error> {
    let mut sink = LimitedSink { block: Block::new(), spans_max };
    match file.send(lows, &mut sink) {
        Ok(is_whole) => Ok(is_whole.then_some(sink.block)),
        Err(error) if error.may_pass() => Err(error),
        // A damaged file has no spans to compare with.
        Err(_) => Ok(Some(Block::new())),
    }
}

/// Adds to `known` the indexes of the spans that a block has too.
fn add_duplicates(
    block: &Block,
    sorted: &Sorted<'_>,
    places: Range<usize>,
    known: &mut HashSet<usize>,
) {
    let (mut one, mut other) = (Scratch::default(), Scratch::default());
    let mut rows: HashMap<u64, Vec<Row>> = HashMap::new();
    for row in 0..block.len() as Row {
        let print = fingerprint(&block.span(row, &mut other));
        rows.entry(print).or_default().push(row);
    }
    for index in places {
        let span = sorted.span(index, &mut one);
        let mut alike = rows.get(&fingerprint(&span)).into_iter().flatten();
        let is_same = |&row: &Row| compare(&block.span(row, &mut other), &span).is_eq();
        if alike.any(is_same) {
            known.insert(index);
        }
    }
}

fn low_of(sorted: &Sorted<'_>, index: usize) -> u64 {
    let (block, row) = sorted.row(index);
    block.trace_low(row)
}

/// Returns the end index of the request that contains the span at `index`.
fn end_of_request(sorted: &Sorted<'_>, index: usize) -> usize {
    let low = low_of(sorted, index);
    index + (index..sorted.len()).take_while(|&at| low_of(sorted, at) == low).count()
}

/// Sink that collects spans in a block. It breaks off at a span beyond `spans_max`, or at a span
/// that the block refuses.
struct LimitedSink {
    block: Block,
    spans_max: usize,
}

impl SpanSink for LimitedSink {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        if self.block.len() >= self.spans_max || self.block.push(span).is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn has_final_name(spans: &dyn Disk, number: u64) -> bool {
    spans.open(&naming::spans_name(number)).is_ok()
}

/// Returns `name` if no file has this name. Otherwise appends the first number that makes the name
/// free.
fn free_name(spans: &dyn Disk, name: &str) -> String {
    let numbered = (1_u32..).map(|number| format!("{name}.{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| spans.open(name).is_err()).unwrap_or_else(|| name.to_owned())
}
