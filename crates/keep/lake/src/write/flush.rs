//! Thread that flushes the head to files. Start at [`run`].

use crate::Error;
use crate::calls::link_table::{LinkResult, LinkTable};
use crate::files::file_entry::Totals;
use crate::files::file_writer::FileWriter;
use crate::files::index::LinkCount;
use crate::files::indexed_file::IndexedFile;
use crate::files::naming;
use crate::files::tag_table::TagTable;
use crate::memory::State;
use crate::shared::Shared;
use crate::write::head::Batch;
use blkkin_columns::{Block, Sorted};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the age of spans in memory is checked and a failed flush is retried.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the thread: flushes the head until the store closes.
pub(crate) fn run(shared: &Shared) {
    while wait(shared) {
        let result = write(shared);
        let mut state = shared.memory.state();
        match result {
            Ok(sequence) => {
                state.write_error = None;
                state.written = sequence;
            }
            Err(error) => {
                state.write_error = Some(error.to_string());
                // Threads that wait for a flush return its error.
                shared.memory.flush_done.notify_all();
                // The store may have been closed during the flush.
                if !state.is_closing {
                    state.wait_timeout(&shared.memory.work, POLL_INTERVAL);
                }
                if state.is_closing {
                    return;
                }
            }
        }
        drop(state);
        shared.memory.notify_room();
    }
}

/// Waits until a flush is due. Returns `false` if the store closes first.
fn wait(shared: &Shared) -> bool {
    let mut state = shared.memory.state();
    loop {
        if state.flush_target > state.written
            || state.head.has_unfinished_flush()
            || state.head.is_full(&shared.memory.options)
            || is_age_due(shared, &state)
        {
            return true;
        }
        if state.is_closing {
            // The next start recovers the spans that are only in the journal.
            return false;
        }
        state.wait_timeout(&shared.memory.work, POLL_INTERVAL);
    }
}

fn is_age_due(shared: &Shared, state: &State) -> bool {
    let since = |since: Duration| shared.memory.options.clock.uptime().saturating_sub(since);
    state.unwritten_since.is_some_and(|then| since(then) >= shared.memory.options.file_after)
}

/// Flushes the oldest batches of the head to a file. Returns the journal sequence number before
/// which all records are in files.
fn write(shared: &Shared) -> Result<u64, Error> {
    shared.drop_uncertain_files()?;
    let (batches, sequence, accepted) = {
        let mut state = shared.memory.state();
        let (batches, sequence) = state.head.start_writing(&shared.memory.options);
        let left = state.head.spans() as u64;
        state.unwritten_since = (left > 0).then(|| shared.memory.options.clock.uptime());
        (batches, sequence, state.totals.accepted - left)
    };
    let number = {
        let mut manifest = shared.manifest.lock();
        let number = manifest.next_file;
        manifest.next_file += 1;
        number
    };
    let (file, links, duplicates) = match batches.is_empty() {
        true => (None, Vec::new(), 0),
        false => {
            // A file whose write failed must not take disk space.
            let (file, links, duplicates) = write_file(shared, &batches, number)
                .inspect_err(|_| naming::remove_unfinished(&*shared.spans, number))?;
            (Some(Arc::new(file)), links, duplicates)
        }
    };
    drop(batches);

    let mut manifest = shared.manifest.lock();
    let gone = Totals { duplicates, ..Totals::default() };
    let mut next = shared.next_manifest(&manifest);
    next.journal_sequence = sequence;
    next.totals.accepted = accepted;
    next.totals.duplicates += duplicates;
    next.files.extend(file.as_ref().map(|file| file.entry.clone()));
    shared.write_manifest(&next, file.as_ref().map(|file| file.entry.number))?;
    *manifest = next;
    if let Some(file) = &file {
        // A file that cannot be renamed is opened under its unfinished name, and renamed at the
        // next start.
        let _ = naming::publish(&*shared.spans, file.entry.number);
    }

    let (written, before) = {
        let mut state = shared.memory.state();
        let files = shared.files.get();
        let files = files.iter().cloned().chain(file).collect();
        let before = shared.replace_files(&mut state, files, gone);
        shared.ledger.lock().add(&links, 1);
        (state.head.finish_writing(), before)
    };
    drop(manifest);
    drop(before);
    for batch in written {
        if let Ok(batch) = Arc::try_unwrap(batch) {
            shared.memory.recycle_block(batch.into_block());
        }
    }
    // Records that cannot be trimmed only take disk space until the next trim.
    let _ = shared.journal.trim_before(sequence);
    Ok(sequence)
}

/// Writes a file with the spans of the batches. Returns the file, the calls derived from its spans,
/// and the number of duplicate spans.
fn write_file(
    shared: &Shared,
    batches: &[Arc<Batch>],
    number: u64,
) -> Result<(IndexedFile, Vec<LinkCount>, u64), Error> {
    let blocks: Vec<&Block> = batches.iter().map(|batch| &***batch).collect();
    let mut sorted = Sorted::of(&blocks);
    let before = shared.files.get();
    let LinkResult { table, known, earlier } = LinkTable::of(&sorted, &before);
    sorted.retain(|index| !known.contains(&index));
    let links = table.counts();
    let keys = TagTable::of(&sorted).keys();
    let columns = blkkin_columns::Options::default();
    let (disk, cache) = (Arc::clone(&shared.spans), Arc::clone(&shared.cache));
    let mut writer = FileWriter::create(disk, cache, number, columns)?;
    writer.append(&sorted)?;
    writer.append_elsewhere(&earlier);
    let file = writer.finish(0, shared.memory.options.clock.now_ns(), &links, keys)?;
    Ok((file, links, sorted.duplicates() as u64))
}
