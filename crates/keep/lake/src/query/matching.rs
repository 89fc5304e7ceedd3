//! Evaluation of a condition on groups of spans with the same service, name and remote service. The
//! groups come from the index of a file or from a batch in memory. Spans are read only if their
//! group does not decide the condition.

use crate::files::index::{Directory, Entry, Group, NO_DURATION};
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use crate::query::residual::{GroupTexts, Residual, Truth};
use crate::write::head::GroupedRows;
use blkkin_columns::{Block, Row, Scratch};
use blkkin_store::{Condition, Durations, is_cancelled};
use std::ops::Range;

/// Maximum number of files that are used to estimate selectivity; the newest files are used.
const FILES_TO_ESTIMATE: usize = 16;

/// Estimates the number of spans that meet a condition, from the directories of the newest files.
pub(super) fn estimate(files: &[&IndexedFile], condition: &Condition) -> u64 {
    let some = files.iter().rev().take(FILES_TO_ESTIMATE);
    let of_file =
        |file: &&IndexedFile| file.load().map_or(0, |loaded| estimate_of(&loaded, condition));
    some.map(of_file).sum()
}

fn estimate_of(loaded: &LoadedFile, condition: &Condition) -> u64 {
    let of_group = |(_, residual, group): (usize, Residual, &Group)| {
        let known = group.durations.iter();
        let may = known.filter(|&&(code, _)| {
            residual.truth(code, true).max(residual.truth(code, false)) != Truth::No
        });
        let of_durations: u64 = may.map(|&(_, count)| u64::from(count)).sum();
        let without: u32 = group.durations.iter().map(|&(_, count)| count).sum();
        let without = u64::from(group.entries.len.saturating_sub(without));
        let may_without = residual.truth(NO_DURATION, true).max(residual.truth(NO_DURATION, false));
        of_durations + if may_without == Truth::No { 0 } else { without }
    };
    all_groups(loaded, condition).map(of_group).sum()
}

/// Returns the groups of a file whose spans may meet a condition, with the residual condition for
/// each group.
pub(crate) fn groups<'p>(
    loaded: &'p LoadedFile,
    condition: &'p Condition,
) -> impl Iterator<Item = (usize, Residual, &'p Group)> {
    residuals(&loaded.index.directory, &loaded.index.directory.groups, condition)
}

/// Returns groups like [`groups`], and in addition the groups of spans in earlier files.
fn all_groups<'p>(
    loaded: &'p LoadedFile,
    condition: &'p Condition,
) -> impl Iterator<Item = (usize, Residual, &'p Group)> {
    residuals(&loaded.index.directory, loaded.index.directory.all_groups(), condition)
}

fn residuals<'p>(
    directory: &'p Directory,
    groups: impl IntoIterator<Item = &'p Group>,
    condition: &'p Condition,
) -> impl Iterator<Item = (usize, Residual, &'p Group)> {
    groups.into_iter().enumerate().filter_map(move |(place, group)| {
        let common = GroupTexts {
            service: directory.text(group.service),
            name: directory.text(group.name),
            remote: directory.text(group.remote),
        };
        let residual = Residual::of(condition, common);
        (residual != Residual::Decided(false)).then_some((place, residual, group))
    })
}

/// Calls `each` with the entries in a range of ordinals that meet or may meet a condition.
pub(super) fn for_each_entry(
    loaded: &LoadedFile,
    condition: &Condition,
    among: &Range<u32>,
    mut each: impl FnMut(usize, Entry, Truth),
) -> std::io::Result<()> {
    for (place, residual, _) in all_groups(loaded, condition) {
        for entry in loaded.index.entries(place, among)? {
            let truth = residual.truth(entry.code, entry.is_error);
            if truth != Truth::No {
                each(place, entry, truth);
            }
        }
    }
    Ok(())
}

/// Calls `each` with the rows of a block that meet a condition.
pub(crate) fn for_each_match(
    block: &Block,
    grouped: &GroupedRows,
    condition: &Condition,
    mut each: impl FnMut(Row),
) {
    for (texts, rows) in grouped.iter() {
        let [service, name, remote] = texts.map(|id| Some(block.text(id)));
        let residual = Residual::of(condition, GroupTexts { service, name, remote });
        if residual == Residual::Decided(false) {
            continue;
        }
        for &row in rows {
            let code = block.duration_ns(row).map_or(NO_DURATION, Durations::code);
            let holds = match residual.truth(code, block.is_error(row)) {
                Truth::No => false,
                Truth::Yes => true,
                Truth::Maybe => {
                    !is_cancelled() && condition.holds(&block.span(row, &mut Scratch::default()))
                }
            };
            if holds {
                each(row);
            }
        }
    }
}
