//! Statistics over many spans: [`heat`] counts spans by start and duration, and [`difference`]
//! compares the spans in a box with the spans outside.
//!
//! A span counts by its own start, whenever its request began. A scan of a file reads only starts,
//! durations and the condition's columns. [`difference`] also counts *words*: tag values and the
//! values of some other fields. It adds up own times, which are in tags. Their columns are read
//! only for pages with matching spans.

use crate::Error;
use crate::files::indexed_file::IndexedFile;
use crate::query::matching::for_each_match;
use crate::query::projection::{Fault, WORDS, Word, fault_of, words_of};
use crate::query::row_evaluator::RowEvaluator;
use crate::query::snapshot::Snapshot;
use blkkin_columns::{Block, Column, PageColumns, Row, Scratch};
use blkkin_store::{Area, Cancel, Condition, Difference, Heat, Tally, Window, is_cancelled};
use blkkin_sys::run_both;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Divisor of a sample's target size that gives the minimum size of the sample.
const SAMPLE_MIN_DIVISOR: u64 = 100;
/// Factor by which a sample that is below the minimum size is enlarged.
const SAMPLE_GROWTH: u64 = 16;

/// Counts the spans that meet a condition into the cells of a heat map.
pub(crate) fn heat(snapshot: &Snapshot, condition: &Condition, cells: &mut Heat) {
    for_each_in_head(snapshot, condition, |_, _, start, duration| cells.add(start, duration));
    let window = cells.window();
    let scan = PageScan { window, condition, one_in: 1, more: &[] };
    for file in snapshot.files.iter() {
        let count = |page: &PageColumns, evaluator: &mut RowEvaluator<'_>| {
            for row in 0..page.rows() {
                if let Some((start, duration)) = times(page, row)
                    && window.holds(start)
                    && evaluator.holds(page, row)?
                {
                    cells.add(start, duration);
                }
            }
            Ok(None::<()>)
        };
        // The error marks the file for verification; the result lacks spans of the file.
        let _ = scan.run(file, count, |_, ()| Ok(()));
    }
}

/// Compares the spans in `area`, a box of start times and durations, with the spans outside. Only
/// spans that meet a condition and started in a window count. The spans outside are sampled if the
/// files with starts in the window have at least twice `others_enough` spans.
pub(crate) fn difference(
    snapshot: &Snapshot,
    window: Window,
    condition: &Condition,
    area: &Area,
    others_enough: u64,
) -> Difference {
    let count = |is_inside: bool, within: Window, one_in: u64| {
        let is_asked_for =
            |start, duration| window.holds(start) && area.holds(start, duration) == is_inside;
        let count_in = |files: &[Arc<IndexedFile>]| {
            let mut tally = Tally::default();
            let scan = PageScan { window: within, condition, one_in, more: &WORDS };
            for file in files {
                // The error marks the file for verification; the result lacks spans of the file.
                let _ = count_words(file, &scan, is_inside, &is_asked_for, &mut tally);
            }
            tally
        };
        let (some, others) = snapshot.files.split_at(snapshot.files.len() / 2);
        let cancel = Cancel::current();
        let of_others = || cancel.run(|| count_in(others));
        let (mut tally, others) = run_both(|| cancel.run(|| count_in(some)), of_others);
        tally.merge(&others);
        for_each_in_head(snapshot, condition, |block, row, start, duration| {
            if block.trace_low(row).is_multiple_of(one_in) && is_asked_for(start, duration) {
                tally.add_span(is_inside, &block.span(row, &mut Scratch::default()));
            }
        });
        tally
    };
    let within = Window {
        start_ns: window.start_ns.max(area.window.start_ns),
        end_ns: window.end_ns.min(area.window.end_ns),
    };
    let mut tally = count(true, within, 1);
    let near = snapshot.files.iter().filter(|file| is_near(file.summary.starts_ns, window));
    let mut one_in = (near.map(|file| file.entry.spans).sum::<u64>() / others_enough).max(1);
    loop {
        let others = count(false, window, one_in);
        // The sample may be too small although the files have many spans.
        if one_in == 1 || is_cancelled() || others.spans()[1] >= others_enough / SAMPLE_MIN_DIVISOR
        {
            tally.merge(&others);
            return Difference { outside_one_in: one_in, ..tally.finish() };
        }
        one_in = (one_in / SAMPLE_GROWTH).max(1);
    }
}

/// Counts the words and own times of the selected spans of a file into `tally`.
fn count_words(
    file: &IndexedFile,
    scan: &PageScan<'_>,
    is_inside: bool,
    is_asked_for: &impl Fn(u64, u64) -> bool,
    tally: &mut Tally,
) -> Result<(), Error> {
    let choose = |page: &PageColumns, evaluator: &mut RowEvaluator<'_>| {
        let mut rows = Vec::new();
        for row in 0..page.rows() {
            if let Some((start, duration)) = times(page, row)
                && is_asked_for(start, duration)
                && evaluator.holds(page, row)?
            {
                rows.push(row);
            }
        }
        Ok((!rows.is_empty()).then_some(rows))
    };
    scan.run(file, choose, |page, rows: Vec<usize>| {
        let mut words: Words<'_> = HashMap::default();
        let mut own_times = Vec::new();
        for &row in &rows {
            words_of(page, row, &mut own_times, |word| *words.entry(word).or_default() += 1)?;
            tally.add_own_times(is_inside, &own_times);
            own_times.clear();
        }
        let words: Result<Vec<_>, Fault> =
            words.into_iter().map(|(word, count)| Ok((word.read()?, count))).collect();
        let words = words?;
        tally.add_spans(is_inside, rows.len() as u64);
        for ((topic, word), count) in words.iter().filter(|((_, word), _)| !word.is_empty()) {
            tally.add(is_inside, *topic, word, *count);
        }
        Ok(())
    })
}

/// Number of occurrences of each word on a page.
type Words<'p> = HashMap<Word<'p>, u64, RandomState>;

/// Returns the window from the earliest to the latest start of all spans in the store.
pub(crate) fn starts(snapshot: &Snapshot) -> Option<Window> {
    let of_batches = snapshot.batches.iter().filter_map(|batch| batch.starts_ns);
    let all = of_batches.chain(snapshot.files.iter().filter_map(|file| file.summary.starts_ns));
    let all = all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    all.map(|(start_ns, end_ns)| Window { start_ns, end_ns })
}

/// Returns the start and the duration of a row's span; `None` if either is unknown.
#[inline]
fn times(page: &PageColumns, row: usize) -> Option<(u64, u64)> {
    page.number(Column::StartTime, row).zip(page.number(Column::Duration, row))
}

/// Scan of the row groups that may have spans started in a window.
struct PageScan<'c> {
    /// Window of start times. Row groups whose starts do not overlap the window are skipped; single
    /// spans are not compared with it.
    window: Window,
    /// Condition whose columns are read for all scanned pages, with starts and durations.
    condition: &'c Condition,
    /// Sampling divisor: one page in `one_in` is scanned.
    one_in: u64,
    /// Additional columns, which are read only for the pages that the callback `choose` selects.
    more: &'c [Column],
}

impl PageScan<'_> {
    /// Scans a file. `choose` gets each scanned page. If `choose` returns a value, the page is
    /// chosen, and `visit` gets the page and the value.
    fn run<T>(
        &self,
        file: &IndexedFile,
        mut choose: impl FnMut(&PageColumns, &mut RowEvaluator<'_>) -> Result<Option<T>, Fault>,
        mut visit: impl FnMut(&PageColumns, T) -> Result<(), Fault>,
    ) -> Result<(), Error> {
        if !is_near(file.summary.starts_ns, self.window) {
            return Ok(());
        }
        let loaded = file.load()?;
        let Some(mut evaluator) = RowEvaluator::of(&loaded, self.condition) else { return Ok(()) };
        let columns = [&[Column::StartTime, Column::Duration], evaluator.columns()].concat();
        let reader = loaded.columns();
        let is_near = |&group: &usize| is_near(reader.group_starts_ns(group), self.window);
        for group in (0..reader.groups()).filter(is_near) {
            let pages = reader.pages_of_group(group).take_while(|_| !is_cancelled());
            for mut page in pages.filter(|page| self.includes(file, page)) {
                file.read_columns(&loaded, &mut page, &columns)?;
                let chosen = choose(&page, &mut evaluator);
                let chosen = chosen.map_err(|fault| fault_of(file, &page, fault));
                let Some(chosen) = file.record_error(chosen)? else { continue };
                file.read_columns(&loaded, &mut page, self.more)?;
                let visited = visit(&page, chosen);
                file.record_error(visited.map_err(|fault| fault_of(file, &page, fault)))?;
            }
        }
        Ok(())
    }

    /// Returns whether a page is scanned. The sample of pages is pseudo-random and the same in each
    /// scan.
    fn includes(&self, file: &IndexedFile, page: &PageColumns) -> bool {
        let number = file.entry.number ^ page.first_row().rotate_left(32);
        let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        mixed.is_multiple_of(self.one_in.max(1))
    }
}

/// Returns whether a range of starts overlaps a window.
fn is_near(starts: Option<(u64, u64)>, window: Window) -> bool {
    starts.is_some_and(|(first, last)| first <= window.end_ns && window.start_ns <= last)
}

/// Calls `each` with the distinct matching spans in memory that have a start and a duration.
fn for_each_in_head(
    snapshot: &Snapshot,
    condition: &Condition,
    mut each: impl FnMut(&Block, Row, u64, u64),
) {
    let mut matching: Vec<Vec<bool>> = Vec::with_capacity(snapshot.batches.len());
    for batch in &snapshot.batches {
        let mut rows = vec![false; batch.len()];
        for_each_match(batch, batch.grouped_rows(), condition, |row| rows[row as usize] = true);
        matching.push(rows);
    }
    let sorted = snapshot.sorted();
    for index in 0..sorted.len() {
        let (place, row) = sorted.place(index);
        let block = sorted.blocks()[place];
        if matching[place][row as usize]
            && let Some((start, duration)) = block.start_ns(row).zip(block.duration_ns(row))
        {
            each(block, row, start, duration);
        }
    }
}
