//! The thread that makes files of what is in memory. Start at [`run`].

use crate::Error;
use crate::head::Batch;
use crate::index::LinkCount;
use crate::lake::{Shared, State, lock};
use crate::links::{LinkTable, Linked};
use crate::manifest::Totals;
use crate::part::{self, Part, PartWriter};
use crate::tags::TagTable;
use blkkin_columns::{Block, Sorted};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often to look whether something has waited long enough, and to try again what failed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Makes files until the store ends.
pub(crate) fn run(shared: &Shared) {
    while wait(shared) {
        let result = write(shared);
        let mut state = shared.memory.state();
        match result {
            Ok(sequence) => {
                state.trouble = None;
                state.written = sequence;
            }
            Err(error) => {
                state.trouble = Some(error.to_string());
                // What waits for files is told why there are none.
                shared.memory.room.notify_all();
                // Who ends the store may have said so while this was being written.
                if !state.ends {
                    let waited = shared.memory.work.wait_timeout(state, LOOK_EVERY);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                if state.ends {
                    return;
                }
            }
        }
        drop(state);
        shared.memory.tell_of_room();
    }
}

/// Waits until there is something to write; `false` if there will be nothing any more.
fn wait(shared: &Shared) -> bool {
    let mut state = shared.memory.state();
    loop {
        if state.wanted > state.written
            || state.head.is_full(&shared.memory.options)
            || has_waited(shared, &state)
        {
            return true;
        }
        if state.ends {
            // What is only in the journal is found there.
            return false;
        }
        let waited = shared.memory.work.wait_timeout(state, LOOK_EVERY);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn has_waited(shared: &Shared, state: &State) -> bool {
    let since = |since: Duration| shared.memory.options.clock.uptime().saturating_sub(since);
    state.waits_since.is_some_and(|then| since(then) >= shared.memory.options.file_after)
}

/// Makes a file of what has been in memory for longest. All records of the journal before the one that it returns are in
/// files.
fn write(shared: &Shared) -> Result<u64, Error> {
    shared.settle()?;
    let (batches, sequence, accepted) = {
        let mut state = shared.memory.state();
        let (batches, sequence) = state.head.start_writing(&shared.memory.options);
        let left = state.head.spans() as u64;
        state.waits_since = (left > 0).then(|| shared.memory.options.clock.uptime());
        (batches, sequence, state.totals.accepted - left)
    };
    let number = {
        let mut manifest = lock(&shared.manifest);
        let number = manifest.next_file;
        manifest.next_file += 1;
        number
    };
    let (part, links, duplicates) = match batches.is_empty() {
        true => (None, Vec::new(), 0),
        false => {
            // What was not finished takes no room.
            let (part, links, duplicates) = part_of(shared, &batches, number)
                .inspect_err(|_| part::remove_unfinished(&*shared.spans, number))?;
            (Some(Arc::new(part)), links, duplicates)
        }
    };
    drop(batches);

    let mut manifest = lock(&shared.manifest);
    let gone = Totals { duplicates, ..Totals::default() };
    let mut next = shared.next_manifest(&manifest);
    next.journal_sequence = sequence;
    next.totals.accepted = accepted;
    next.totals.duplicates += duplicates;
    next.files.extend(part.as_ref().map(|part| part.entry.clone()));
    shared.write_manifest(&next, part.as_ref().map(|part| part.entry.number))?;
    *manifest = next;
    if let Some(part) = &part {
        // What cannot be renamed now is found under its other name, and renamed at the next start.
        let _ = part::publish(&*shared.spans, part.entry.number);
    }

    let (written, before) = {
        let mut state = shared.memory.state();
        let parts = Arc::clone(&shared.parts.read().unwrap_or_else(PoisonError::into_inner));
        let parts = parts.iter().cloned().chain(part).collect();
        let before = shared.replace_parts(&mut state, parts, gone);
        lock(&shared.ledger).add(&links, 1);
        (state.head.finish_writing(), before)
    };
    drop(manifest);
    drop(before);
    for batch in written {
        if let Ok(batch) = Arc::try_unwrap(batch) {
            shared.memory.give_back(batch.into_block());
        }
    }
    // What stays in the journal is read again at most.
    let _ = shared.journal.trim_before(sequence);
    Ok(sequence)
}

/// A part of all that is in memory, the calls that it shows, and how many spans were there already.
fn part_of(
    shared: &Shared,
    batches: &[Arc<Batch>],
    number: u64,
) -> Result<(Part, Vec<LinkCount>, u64), Error> {
    let blocks: Vec<&Block> = batches.iter().map(|batch| &***batch).collect();
    let mut sorted = Sorted::of(&blocks);
    let before = Arc::clone(&shared.parts.read().unwrap_or_else(PoisonError::into_inner));
    let Linked { table, known, earlier } = LinkTable::of(&sorted, &before);
    sorted.retain(|index| !known.contains(&index));
    let links = table.counts();
    let keys = TagTable::of(&sorted).keys();
    let columns = blkkin_columns::Options::default();
    let (disk, cache) = (Arc::clone(&shared.spans), Arc::clone(&shared.cache));
    let mut writer = PartWriter::create(disk, cache, number, columns)?;
    writer.append(&sorted)?;
    writer.append_elsewhere(&earlier);
    let part = writer.finish(0, shared.memory.options.clock.now_ns(), &links, keys)?;
    Ok((part, links, sorted.duplicates() as u64))
}
