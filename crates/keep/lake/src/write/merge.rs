//! The thread that merges files and removes expired ones. Start at [`run`].

use crate::calls::ledger::Ledger;
use crate::calls::link_table::{EarlierSpans, LinkTable};
use crate::files::file_entry::{FileEntry, Totals};
use crate::files::file_writer::FileWriter;
use crate::files::indexed_file::IndexedFile;
use crate::files::manifest::Manifest;
use crate::files::naming;
use crate::files::tag_table::TagTable;
use crate::memory::State;
use crate::retention::Allowance;
use crate::shared::Shared;
use crate::{Error, Options};
use blkkin_columns::{Block, Sorted};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A merged file takes at most one part in this many of the retention's bytes.
const MERGED_FRACTION: u64 = 16;

/// Files in the oldest part in this many of the retention's bytes are about to expire.
const EXPIRING_FRACTION: u64 = 4;

/// With this many files or more, merging takes precedence over new batches: searches would have to
/// look into too many files.
const FILES_URGENT: usize = 96;

/// Approximate number of spans of a merge step, which bounds the memory of merging.
const STEP_SPANS: u64 = 128 << 10;

/// Maximum time that a step waits while the store is busy.
const STEP_WAIT_MAX: Duration = Duration::from_secs(2);

/// zstd level of columns whose values recur. Names, tags and the like take a tenth less than at
/// level 1, and writing takes a quarter to a half longer, which delays nobody.
const LEVEL_OF_RECURRING: i32 = 6;

/// Merges files and removes expired ones until the store closes.
pub(crate) fn run(shared: &Shared) {
    let mut expiry = Allowance::default();
    loop {
        {
            let state = shared.memory.state();
            if state.is_closing {
                return;
            }
            if state.wait_timeout(&shared.memory.work, POLL_INTERVAL).is_closing {
                return;
            }
        }
        let files = shared.files.get();
        let uptime = shared.memory.options.clock.uptime();
        files.iter().for_each(|file| file.verify_if_due(uptime));
        drop(files);
        // Failed attempts are repeated in the next round.
        let _ = expire(shared, &mut expiry);
        let _ = merge(shared);
    }
}

/// Removes files beyond the retention.
fn expire(shared: &Shared, expiry: &mut Allowance) -> Result<(), Error> {
    let Options { clock, retention, .. } = &shared.memory.options;
    let mut manifest = shared.manifest.lock();
    let others = unremovable_bytes(shared, &manifest, retention.bytes);
    let count = retention.expired(&manifest.files, others, clock.now_ns(), clock.uptime(), expiry);
    if count == 0 {
        return Ok(());
    }
    let before = shared.files.get();
    let links: Result<Vec<_>, Error> = before[..count].iter().map(|file| file.links()).collect();
    drop(before);
    let expired: u64 = manifest.files[..count].iter().map(|file| file.spans).sum();
    let gone = Totals { expired, ..Totals::default() };
    let mut next = shared.next_manifest(&manifest);
    next.files.drain(..count);
    next.totals.expired += expired;
    commit(shared, &mut manifest, next, gone, Vec::new(), |ledger, files| match links {
        Ok(links) => links.iter().for_each(|links| ledger.add(links, -1)),
        // The counts of an unreadable file cannot be subtracted; the sums are rebuilt from the
        // other files.
        Err(_) => {
            *ledger = Ledger::new(shared.memory.options.links_bytes_max);
            files.iter().for_each(|file| ledger.add(&file.links().unwrap_or_default(), 1));
        }
    })
}

/// Bytes of files that cannot be read or were put aside, as far as they count for the retention.
/// They count for at most half of it: files that cannot be removed must not displace all new spans.
/// Files that were put aside are removed first if room is scarce.
fn unremovable_bytes(shared: &Shared, manifest: &Manifest, bytes_max: Option<u64>) -> u64 {
    let sum = |files: &[FileEntry]| files.iter().map(FileEntry::bytes_on_disk).sum::<u64>();
    let unread = sum(&manifest.unread);
    let mut aside = shared.damaged_files.lock();
    let left = bytes_max.map(|bytes| bytes.saturating_sub(sum(&manifest.files) + unread));
    aside.trim(left.unwrap_or(u64::MAX).min(shared.memory.options.aside_bytes_max));
    (unread + aside.bytes()).min(bytes_max.unwrap_or(u64::MAX) / 2)
}

/// Merges adjacent files of one tier, if there are enough of them.
fn merge(shared: &Shared) -> Result<(), Error> {
    shared.settle()?;
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
    // Returns memory that ingest has freed to the system; merging cannot reuse it.
    blkkin_sys::trim_heaps();
    // A failed file must not take room.
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
        // Some files have expired meanwhile. The others are merged in a later round.
        file.mark_removed();
        return Ok(());
    }
    next.files.retain(|file| !is_merged(file));
    next.files.insert(place, file.entry.clone());
    next.totals.duplicates += duplicates;
    let gone = Totals { duplicates, ..Totals::default() };
    commit(shared, &mut manifest, next, gone, vec![Arc::new(file)], |_, _| {})
}

/// Selects files to merge: adjacent ones of the same tier that can all be read. Files that are
/// about to expire are not worth merging. Neither are files so large that too many spans would
/// expire at once.
fn select_files(files: &[Arc<IndexedFile>], options: &Options) -> Option<Range<usize>> {
    let wanted = options.merge_files.max(2);
    let bytes_max = options.retention.bytes;
    let merged_bytes_max = bytes_max.map_or(u64::MAX, |bytes| bytes / MERGED_FRACTION);
    let bytes = |files: &[Arc<IndexedFile>]| -> u64 {
        files.iter().map(|file| file.entry.bytes_on_disk()).sum()
    };
    // Files older than the newest bytes of this size are about to expire.
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

/// Merges files into one. Each step merges the requests of one range of trace ids from all files.
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
            file.between(bound(step)..=last, block)?;
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

/// Returns whether merging should wait: ingest is behind and there are few files. Under full load
/// that is nearly always so. Senders are answered first, and searches look into some more files
/// meanwhile.
fn is_busy(shared: &Shared) -> bool {
    let files = shared.files.get().len();
    files < FILES_URGENT && is_behind(shared, &shared.memory.state())
}

fn is_behind(shared: &Shared, state: &State) -> bool {
    let (head, most) = (&state.head, shared.memory.options.memory_bytes_max);
    head.is_being_written() || head.memory_bytes() > most / 2
}

/// Waits while the store is busy, at most [`STEP_WAIT_MAX`]. Merging goes on after that because
/// its own memory is held meanwhile, and ends with an error if nothing can be written.
fn wait_while_busy(shared: &Shared) -> Result<(), Error> {
    let start = Instant::now();
    while is_busy(shared) && start.elapsed() < STEP_WAIT_MAX {
        let state = shared.memory.state();
        if state.is_closing || state.write_error.is_some() {
            break;
        }
        drop(state.wait_timeout(&shared.memory.room, POLL_INTERVAL));
    }
    if start.elapsed() >= POLL_INTERVAL {
        // Returns memory that ingest has freed to the system; merging cannot reuse it.
        blkkin_sys::trim_heaps();
    }
    let state = shared.memory.state();
    match (&state.write_error, state.is_closing) {
        (Some(trouble), _) => Err(Error::Spans(trouble.clone())),
        (_, true) => Err(Error::Spans("the store ends".to_owned())),
        _ => Ok(()),
    }
}

/// Reads spans of earlier files for those requests of which the merged files know to have some
/// there.
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

/// Commits `next` with the new files `new`, and removes files that it no longer names. `count`
/// updates the sums of calls.
fn commit(
    shared: &Shared,
    manifest: &mut Manifest,
    mut next: Manifest,
    gone: Totals,
    new: Vec<Arc<IndexedFile>>,
    count: impl FnOnce(&mut Ledger, &[Arc<IndexedFile>]),
) -> Result<(), Error> {
    let stays = |file: &FileEntry| next.files.iter().any(|other| other.number == file.number);
    let removed = manifest.files.iter().filter(|file| !stays(file)).cloned();
    next.removing = next.removing.iter().cloned().chain(removed).collect();
    shared.write_manifest(&next, new.iter().map(|file| file.entry.number))?;
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
    // Dropping the last references removes the files; the lock of the state was released before.
    drop((replaced, before));
    Ok(())
}
