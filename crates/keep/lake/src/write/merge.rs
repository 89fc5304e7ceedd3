//! Thread that verifies files after read errors, removes expired files, and merges files. Start at
//! [`run`].

use crate::calls::ledger::Ledger;
use crate::calls::link_table::{EarlierSpans, LinkTable};
use crate::files::file_entry::{FileEntry, Totals};
use crate::files::file_writer::FileWriter;
use crate::files::indexed_file::IndexedFile;
use crate::files::manifest::Manifest;
use crate::files::naming;
use crate::files::tag_table::TagTable;
use crate::memory::State;
use crate::retention::ExpiryRateLimit;
use crate::shared::Shared;
use crate::{Error, Options};
use blkkin_columns::{Block, Sorted};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Divisor of the retention's size limit that gives the maximum size of a merged file.
const MERGED_FRACTION: u64 = 16;

/// Divisor of the retention's size limit that gives the part for files about to expire. A file is
/// about to expire if the file and all newer files exceed the rest of the limit.
const EXPIRING_FRACTION: u64 = 4;

/// Number of files at which merging takes precedence over new batches. With more files, each search
/// would have to read too many indexes.
const FILES_URGENT: usize = 96;

/// Approximate number of spans in one step of a merge, which limits the memory of the merge.
const STEP_SPANS: u64 = 128 << 10;

/// Maximum time that a merge step waits while the store is busy.
const STEP_WAIT_MAX: Duration = Duration::from_secs(2);

/// zstd level of columns whose values recur, such as names and tags. Compared with level 1, these
/// columns are a tenth smaller. Writing takes a quarter to a half longer, which delays no other
/// work.
const LEVEL_OF_RECURRING: i32 = 6;

/// Runs the thread until the store closes: verifies files after read errors, removes expired files,
/// and merges files.
pub(crate) fn run(shared: &Shared) {
    let mut expiry = ExpiryRateLimit::default();
    loop {
        {
            let mut state = shared.memory.state();
            if state.is_closing {
                return;
            }
            state.wait_timeout(&shared.memory.work, POLL_INTERVAL);
            if state.is_closing {
                return;
            }
        }
        let files = shared.files.get();
        let uptime = shared.memory.options.clock.uptime();
        files.iter().for_each(|file| file.verify_if_due(uptime));
        drop(files);
        // The next round retries failed attempts.
        let _ = expire(shared, &mut expiry);
        let _ = merge(shared);
    }
}

/// Removes the files that exceed the retention.
fn expire(shared: &Shared, expiry: &mut ExpiryRateLimit) -> Result<(), Error> {
    let Options { clock, retention, .. } = &shared.memory.options;
    let mut manifest = shared.manifest.lock();
    let others = unremovable_bytes(shared, &manifest, retention.bytes);
    let count = retention.expired(&manifest.files, others, &**clock, expiry);
    if count == 0 {
        return Ok(());
    }
    let before = shared.files.get();
    let links: Result<Vec<_>, Error> = before[..count].iter().map(|file| file.links()).collect();
    drop(before);
    let expired: u64 = manifest.files[..count].iter().map(|file| file.spans).sum();
    let mut next = shared.next_manifest(&manifest);
    next.files.drain(..count);
    next.totals.expired += expired;
    commit(shared, &mut manifest, next, Vec::new(), |ledger, files| match links {
        Ok(links) => links.iter().for_each(|links| ledger.add(links, -1)),
        // The counts of an unreadable file cannot be subtracted, so the sums are rebuilt from the
        // other files.
        Err(_) => {
            *ledger = Ledger::new(shared.memory.options.links_bytes_max);
            files.iter().for_each(|file| ledger.add(&file.links().unwrap_or_default(), 1));
        }
    })
}

/// Returns the bytes of unreadable and damaged files that count for the retention: at most half of
/// the size limit. Files that cannot be removed must not displace all new spans. If space is
/// scarce, damaged files kept for inspection are removed first.
fn unremovable_bytes(shared: &Shared, manifest: &Manifest, bytes_max: Option<u64>) -> u64 {
    let sum = |files: &[FileEntry]| files.iter().map(FileEntry::bytes_on_disk).sum::<u64>();
    let unread = sum(&manifest.unread);
    let mut aside = shared.damaged_files.lock();
    let left = bytes_max.map(|bytes| bytes.saturating_sub(sum(&manifest.files) + unread));
    aside.trim(left.unwrap_or(u64::MAX).min(shared.memory.options.damaged_bytes_max));
    (unread + aside.bytes()).min(bytes_max.unwrap_or(u64::MAX) / 2)
}

/// Merges adjacent files of the same tier if there are enough of them.
fn merge(shared: &Shared) -> Result<(), Error> {
    shared.drop_uncertain_files()?;
    if is_busy(shared) {
        return Ok(());
    }
    let (merging, before, number) = {
        let mut manifest = shared.manifest.lock();
        let files = shared.files.get();
        let Some(range) = select_files(&files, &shared.memory.options) else { return Ok(()) };
        let number = manifest.next_file;
        manifest.next_file += 1;
        (files[range.clone()].to_vec(), files[..range.start].to_vec(), number)
    };
    let merging = &merging[..];
    // Memory that ingest has freed is returned to the system, since merging cannot reuse it.
    blkkin_sys::trim_heaps();
    // A file whose write failed must not take disk space.
    let (file, duplicates) = merge_files(shared, merging, &before, number)
        .inspect_err(|_| naming::remove_unfinished(&*shared.spans, number))?;

    let mut manifest = shared.manifest.lock();
    let is_merged =
        |entry: &FileEntry| merging.iter().any(|file| file.entry.number == entry.number);
    let mut next = shared.next_manifest(&manifest);
    let Some(place) = next.files.iter().position(is_merged) else {
        file.mark_removed();
        return Ok(());
    };
    let are_all = next.files.iter().filter(|file| is_merged(file)).count() == merging.len();
    if !are_all {
        // Some of the files have expired meanwhile. A later round merges the other files.
        file.mark_removed();
        return Ok(());
    }
    next.files.retain(|file| !is_merged(file));
    next.files.insert(place, file.entry.clone());
    next.totals.duplicates += duplicates;
    commit(shared, &mut manifest, next, vec![Arc::new(file)], |_, _| {})
}

/// Selects adjacent, readable files of the same tier to merge. Files that are about to expire are
/// excluded. A merged file must not be too large, since too many spans would then expire at once.
fn select_files(files: &[Arc<IndexedFile>], options: &Options) -> Option<Range<usize>> {
    let wanted = options.merge_files.max(2);
    let bytes_max = options.retention.bytes;
    let merged_bytes_max = bytes_max.map_or(u64::MAX, |bytes| bytes / MERGED_FRACTION);
    let bytes = |files: &[Arc<IndexedFile>]| -> u64 {
        files.iter().map(|file| file.entry.bytes_on_disk()).sum()
    };
    // Bytes of the newest files, beyond which older files are about to expire.
    let mut left =
        bytes_max.map_or(u64::MAX, |bytes| bytes / EXPIRING_FRACTION * (EXPIRING_FRACTION - 1));
    let stays = |file: &&Arc<IndexedFile>| {
        let fits = left >= file.entry.bytes_on_disk();
        left = left.saturating_sub(file.entry.bytes_on_disk());
        fits
    };
    let mut start = files.len() - files.iter().rev().take_while(stays).count();
    let are_alike = |one: &Arc<IndexedFile>, other: &Arc<IndexedFile>| {
        (one.entry.tier, one.is_good()) == (other.entry.tier, other.is_good())
    };
    for alike in files[start..].chunk_by(are_alike) {
        if alike.len() >= wanted && alike[0].is_good() {
            let some = &alike[..wanted];
            let spans: u64 = some.iter().map(|file| file.entry.spans).sum();
            if spans <= options.merged_spans_max && bytes(some) <= merged_bytes_max {
                return Some(start..start + wanted);
            }
        }
        start += alike.len();
    }
    None
}

/// Merges files into one file, in steps. A step merges the spans of all files in one range of trace
/// ids.
fn merge_files(
    shared: &Shared,
    files: &[Arc<IndexedFile>],
    before: &[Arc<IndexedFile>],
    number: u64,
) -> Result<(IndexedFile, u64), Error> {
    let spans: u64 = files.iter().map(|file| file.entry.spans).sum();
    let steps = spans.div_ceil(STEP_SPANS).max(1);
    let columns = blkkin_columns::Options {
        level_of_recurring: LEVEL_OF_RECURRING,
        ..blkkin_columns::Options::default()
    };
    let (disk, cache) = (Arc::clone(&shared.spans), Arc::clone(&shared.cache));
    let mut writer = FileWriter::create(disk, cache, number, columns)?;
    let mut duplicates = 0;
    let mut blocks: Vec<Block> = files.iter().map(|_| Block::new()).collect();
    for step in 0..steps {
        wait_while_busy(shared)?;
        let bound = |step: u64| ((u128::from(step) << u64::BITS) / u128::from(steps)) as u64;
        let last = if step + 1 == steps { u64::MAX } else { bound(step + 1) - 1 };
        for (file, block) in files.iter().zip(&mut blocks) {
            block.clear();
            file.append_range(bound(step)..=last, block)?;
        }
        let sorted = Sorted::of(&blocks.iter().collect::<Vec<_>>());
        duplicates += sorted.duplicates() as u64;
        if !sorted.is_empty() {
            writer.append(&sorted)?;
        }
    }
    let (mut links, mut keys) = (LinkTable::default(), TagTable::default());
    for file in files {
        links.merge(&file.links()?);
        keys.merge(&file.load()?.index.directory.keys);
    }
    writer.append_elsewhere(&read_earlier(files, before)?);
    let tier = files.iter().map(|file| file.entry.tier).max().unwrap_or(0) + 1;
    let received = files.iter().map(|file| file.entry.received_ns).max().unwrap_or(0);
    let file = writer.finish(tier, received, &links.counts(), keys.keys())?;
    Ok((file, duplicates))
}

/// Returns whether merging should wait: ingest is behind, and the files are few. This is usual
/// under full load. Batches are then acknowledged first, and searches read more indexes meanwhile.
fn is_busy(shared: &Shared) -> bool {
    let files = shared.files.get().len();
    files < FILES_URGENT && is_behind(shared, &shared.memory.state())
}

fn is_behind(shared: &Shared, state: &State) -> bool {
    let (head, most) = (&state.head, shared.memory.options.memory_bytes_max);
    head.has_unfinished_flush() || head.memory_bytes() > most / 2
}

/// Waits while the store is busy, at most [`STEP_WAIT_MAX`]. Then the merge continues, since its
/// memory is in use during the wait. Returns an error if the store closes or its files cannot be
/// written.
fn wait_while_busy(shared: &Shared) -> Result<(), Error> {
    let start = Instant::now();
    while is_busy(shared) && start.elapsed() < STEP_WAIT_MAX {
        let mut state = shared.memory.state();
        if state.is_closing || state.write_error.is_some() {
            break;
        }
        state.wait_timeout(&shared.memory.flush_done, POLL_INTERVAL);
    }
    if start.elapsed() >= POLL_INTERVAL {
        // Memory that ingest has freed is returned to the system, since merging cannot reuse it.
        blkkin_sys::trim_heaps();
    }
    let state = shared.memory.state();
    match (&state.write_error, state.is_closing) {
        (Some(trouble), _) => Err(Error::Spans(trouble.clone())),
        (_, true) => Err(Error::Spans("the store ends".to_owned())),
        _ => Ok(()),
    }
}

/// Reads the earlier spans of the requests in the merged files: spans in files that precede the
/// merged files. The merged files' indexes list the requests that have such spans.
fn read_earlier(
    files: &[Arc<IndexedFile>],
    before: &[Arc<IndexedFile>],
) -> Result<EarlierSpans, Error> {
    let mut earlier = EarlierSpans::of_files(files.len());
    let mut lows = BTreeSet::new();
    for file in files {
        if !file.summary.is_whole {
            earlier.mark_incomplete();
        }
        lows.extend(&file.load()?.index.directory.lows_elsewhere);
    }
    for low in lows {
        before.iter().for_each(|of| earlier.read(of, low));
    }
    Ok(earlier)
}

/// Commits the manifest `next` with the new files `new`, and removes the files that `next` does not
/// list. `count` updates the ledger.
fn commit(
    shared: &Shared,
    manifest: &mut Manifest,
    mut next: Manifest,
    new: Vec<Arc<IndexedFile>>,
    count: impl FnOnce(&mut Ledger, &[Arc<IndexedFile>]),
) -> Result<(), Error> {
    let stays = |file: &FileEntry| next.files.iter().any(|other| other.number == file.number);
    let removed = manifest.files.iter().filter(|file| !stays(file)).cloned();
    next.removing = next.removing.iter().cloned().chain(removed).collect();
    shared.write_manifest(&next, new.iter().map(|file| file.entry.number))?;
    let gone = Totals {
        duplicates: next.totals.duplicates - manifest.totals.duplicates,
        expired: next.totals.expired - manifest.totals.expired,
        ..Totals::default()
    };
    *manifest = next;
    for file in &new {
        let _ = naming::publish(&*shared.spans, file.entry.number);
    }
    let mut state = shared.memory.state();
    let before = shared.files.get();
    let find = |number: u64| {
        let all = before.iter().chain(&new);
        all.into_iter().find(|file| file.entry.number == number).cloned()
    };
    let files: Vec<Arc<IndexedFile>> =
        manifest.files.iter().filter_map(|file| find(file.number)).collect();
    let stays = |file: &Arc<IndexedFile>| files.iter().any(|other| Arc::ptr_eq(other, file));
    before.iter().filter(|file| !stays(file)).for_each(|file| file.mark_removed());
    count(&mut shared.ledger.lock(), &files);
    let replaced = shared.replace_files(&mut state, files, gone);
    drop(state);
    // The drop of the last references removes the files, so the lock of the state was released
    // before.
    drop((replaced, before));
    Ok(())
}
