//! What many spans say together: how long they took over time, and how those in a box of it differ from others. Start at
//! [`heat`] and [`difference`].
//!
//! It is when spans started themselves that counts here, whichever request they are of, so that nothing but starts and
//! durations is read of a file, and what the condition is about. Words are read of pages only that have such spans.

use crate::Error;
use crate::judge::Judge;
use crate::part::Part;
use crate::project::{WORDS, scan_group, words_of};
use crate::search::for_each_match;
use crate::snapshot::Snapshot;
use blkkin_columns::{Block, Column, PageColumns, Row, Scratch};
use blkkin_store::{Area, Condition, Difference, Heat, Tally, Topic, Window};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;

/// Counts spans that meet a condition.
pub(crate) fn heat(snapshot: &Snapshot, condition: &Condition, cells: &mut Heat) {
    for_each_in_head(snapshot, condition, |_, _, start, duration| cells.add(start, duration));
    let window = cells.window();
    for part in snapshot.parts.iter() {
        let count = |page: &PageColumns, judge: &mut Judge<'_>| {
            for row in 0..page.rows() {
                if let Some((start, duration)) = times(page, row)
                    && window.holds(start)
                    && judge.holds(page, row)?
                {
                    cells.add(start, duration);
                }
            }
            Ok(None::<()>)
        };
        // What cannot be read is counted; the others answer.
        let _ = scan(part, window, condition, &[], count, |_, ()| Ok(()));
    }
}

/// How spans in a box differ from others, of those that meet a condition and started in a window.
pub(crate) fn difference(
    snapshot: &Snapshot,
    window: Window,
    condition: &Condition,
    area: &Area,
) -> Difference {
    let mut tally = Tally::default();
    for is_inside in [true, false] {
        let is_asked_for =
            |start, duration| window.holds(start) && area.holds(start, duration) == is_inside;
        for_each_in_head(snapshot, condition, |block, row, start, duration| {
            if is_asked_for(start, duration) {
                tally.add_span(is_inside, &block.span(row, &mut Scratch::default()));
            }
        });
        let within = Window {
            start_ns: window.start_ns.max(if is_inside { area.window.start_ns } else { 0 }),
            end_ns: window.end_ns.min(if is_inside { area.window.end_ns } else { u64::MAX }),
        };
        for part in snapshot.parts.iter() {
            let choose = |page: &PageColumns, judge: &mut Judge<'_>| {
                let mut rows = Vec::new();
                for row in 0..page.rows() {
                    if let Some((start, duration)) = times(page, row)
                        && is_asked_for(start, duration)
                        && judge.holds(page, row)?
                    {
                        rows.push(row);
                    }
                }
                Ok((!rows.is_empty()).then_some(rows))
            };
            let _ = scan(part, within, condition, &WORDS, choose, |page, rows: Vec<usize>| {
                let mut words: Words<'_> = HashMap::default();
                for &row in &rows {
                    words_of(page, row, |topic, word| {
                        *words.entry((topic, word)).or_default() += 1;
                    })?;
                }
                tally.add_spans(is_inside, rows.len() as u64);
                for ((topic, word), count) in words {
                    tally.add(is_inside, topic, &word, count);
                }
                Ok(())
            });
        }
    }
    tally.finish()
}

/// How often words are said on a page.
type Words<'p> = HashMap<(Topic<&'p str>, Cow<'p, str>), u64, RandomState>;

/// When the first span of all started, and the last.
pub(crate) fn starts(snapshot: &Snapshot) -> Option<Window> {
    let of_batches = snapshot.batches.iter().flat_map(|batch| {
        let starts = (0..batch.len() as Row).filter_map(|row| batch.start_ns(row));
        starts.map(|start| (start, start))
    });
    let all = of_batches.chain(snapshot.parts.iter().filter_map(|part| part.facts.starts_ns));
    let all = all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    all.map(|(start_ns, end_ns)| Window { start_ns, end_ns })
}

/// When a row started and how long it took, if both is known.
#[inline]
fn times(page: &PageColumns, row: usize) -> Option<(u64, u64)> {
    page.number(Column::StartTime, row).zip(page.number(Column::Duration, row))
}

/// Goes through the pages of a file on which there may be spans that started in a window: `choose` is given starts,
/// durations and what the condition is about, `visit` what that chose and more columns.
fn scan<T>(
    part: &Part,
    window: Window,
    condition: &Condition,
    more: &[Column],
    mut choose: impl FnMut(&PageColumns, &mut Judge<'_>) -> Result<Option<T>, crate::project::Fault>,
    mut visit: impl FnMut(&PageColumns, T) -> Result<(), crate::project::Fault>,
) -> Result<(), Error> {
    let is_near = |starts: Option<(u64, u64)>| {
        starts.is_some_and(|(first, last)| first <= window.end_ns && window.start_ns <= last)
    };
    if !is_near(part.facts.starts_ns) {
        return Ok(());
    }
    let loaded = part.load()?;
    let Some(mut judge) = Judge::of(&loaded, condition) else { return Ok(()) };
    let columns = [&[Column::StartTime, Column::Duration], judge.columns()].concat();
    let file = loaded.columns();
    for group in (0..file.groups()).filter(|&group| is_near(file.group_starts_ns(group))) {
        let choose = |page: &PageColumns| choose(page, &mut judge);
        scan_group(part, &loaded, group, [&columns[..], more], choose, &mut visit)?;
    }
    Ok(())
}

/// Calls `each` with the spans in memory that meet a condition and have a start and a duration, each once however often
/// it was sent.
fn for_each_in_head(
    snapshot: &Snapshot,
    condition: &Condition,
    mut each: impl FnMut(&Block, Row, u64, u64),
) {
    let mut matching: Vec<Vec<bool>> = Vec::with_capacity(snapshot.batches.len());
    for batch in &snapshot.batches {
        let mut rows = vec![false; batch.len()];
        for_each_match(batch, batch.alike(), condition, |row| rows[row as usize] = true);
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
