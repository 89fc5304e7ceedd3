//! Scans of the columns of a whole file, which replace reads of single requests.

use crate::Error;
use crate::files::indexed_file::IndexedFile;
use crate::query::projection::{Projection, fault_of, for_each_matching_row, trace_id};
use blkkin_columns::Column;
use blkkin_model::TraceId;
use blkkin_store::{Place, is_cancelled};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Maximum number of matches in the column scan of one file. Once the scans of a search have
/// selected this many requests in total, no further file is scanned.
pub(super) const SELECTED_MAX: usize = 4 << 20;

/// Columns from which the id and the extent of a request are computed. The extent is the time from
/// the first start to the last end.
const TIMES: [Column; 3] = [Column::TraceId, Column::StartTime, Column::Duration];

/// Match of a column scan: a request with a row that meets a condition. Each request has at least
/// one match for each condition that it meets.
#[derive(Clone, Copy)]
pub(super) struct ScanMatch {
    /// First matching row of the request.
    pub(super) row: u32,
    /// Bitmap with one bit set, at the number of the condition that the row meets.
    pub(super) met: u32,
    pub(super) low: u64,
}

/// Scans the columns of a file for each condition. Returns `None` if there are more than
/// [`SELECTED_MAX`] matches.
pub(super) fn scan_file(
    file: &IndexedFile,
    projections: &[Projection<'_>],
) -> Result<Option<Vec<ScanMatch>>, Error> {
    let mut is_too_much = false;
    let loaded = file.load()?;
    let mut requests: Vec<ScanMatch> = Vec::new();
    for (projection, bit) in projections.iter().zip(0..) {
        let mut id = None;
        for_each_matching_row(file, &loaded, projection, &[Column::TraceId], |page, row| {
            let this = trace_id(page, row)?;
            if id.replace(this) != Some(this) {
                if requests.len() == SELECTED_MAX {
                    is_too_much = true;
                    return Ok(());
                }
                let row = page.first_row() as u32 + row as u32;
                requests.push(ScanMatch { row, met: 1 << bit, low: this.low() });
            }
            Ok(())
        })?;
    }
    requests.sort_by_key(|request| request.row);
    Ok((!is_too_much).then_some(requests))
}

/// Returns the matches in the rows of one request.
pub(super) fn matches_of<'k>(
    known: &'k [ScanMatch],
    rows: &Range<u32>,
) -> impl Iterator<Item = &'k ScanMatch> + use<'k> {
    let first = known.partition_point(|request| request.row < rows.start);
    let end = rows.end;
    known[first..].iter().take_while(move |request| request.row < end)
}

/// Returns the first `count_max` of the requests with the given ordinals, ordered by extent,
/// longest first. The extent is the exact time from the first start to the last end. If `after` is
/// given, only requests after that position are returned.
///
/// Results are ordered by duration, which may be shorter than the extent if a request has several
/// spans. So requests up to the cursor `page_start` are left out only if they have a single span.
pub(super) fn first_places(
    file: &IndexedFile,
    ordinals: &[u32],
    after: Option<Place>,
    page_start: Option<Place>,
    count_max: usize,
) -> Result<Vec<(Place, u32)>, Error> {
    let loaded = file.load()?;
    let requests = loaded.index.requests(0..loaded.index.directory.timed);
    let requests = file.record_error(requests.map_err(io_error))?;
    let mut wanted = ordinals.iter().copied().peekable();
    let mut rows: Vec<(Range<u32>, u32)> = requests
        .iter()
        .filter(|(ordinal, _)| wanted.next_if_eq(ordinal).is_some())
        .map(|(ordinal, rows)| (rows, ordinal))
        .collect();
    rows.sort_unstable_by_key(|(rows, _)| rows.start);
    let key = |place: &Place| (Reverse(place.rank_ns), place.trace_id);
    // Heap with the last of the kept requests on top.
    let mut first: BinaryHeap<((Reverse<u64>, TraceId), u32)> = BinaryHeap::new();
    let mut left = rows.into_iter().peekable();
    // Earliest start and latest end of a request, which may continue on the next page.
    let mut times: Option<(u64, u64)> = None;
    for group in 0..loaded.columns().groups() {
        for mut page in loaded.columns().pages_of_group(group) {
            if is_cancelled() {
                return Ok(Vec::new());
            }
            let start = page.first_row() as u32;
            let end = start.saturating_add(page.rows() as u32);
            if left.peek().is_none_or(|(rows, _)| rows.start >= end) {
                continue;
            }
            file.read_columns(&loaded, &mut page, &TIMES)?;
            while let Some((rows, ordinal)) = left.peek().filter(|(rows, _)| rows.start < end) {
                for row in rows.start.max(start)..rows.end.min(end) {
                    let row = (row - start) as usize;
                    if let Some(start) = page.number(Column::StartTime, row) {
                        let lasted = page.number(Column::Duration, row).unwrap_or(0);
                        let end = start.saturating_add(lasted);
                        let (first, last) = times.unwrap_or((start, end));
                        times = Some((first.min(start), last.max(end)));
                    }
                }
                if rows.end > end {
                    break;
                }
                let last_row = rows.end.saturating_sub(1).max(start) - start;
                if let Some((earliest, latest)) = times.take() {
                    let id = trace_id(&page, last_row as usize);
                    let id = file.record_error(id.map_err(|fault| fault_of(file, &page, fault)))?;
                    let place = (Reverse(latest - earliest), id);
                    let is_after = |bound: Option<Place>| bound.is_none_or(|b| key(&b) < place);
                    if is_after(after) && (rows.len() > 1 || is_after(page_start)) {
                        first.push((place, *ordinal));
                        if first.len() > count_max {
                            first.pop();
                        }
                    }
                }
                left.next();
            }
        }
    }
    let place = |((Reverse(rank_ns), trace_id), ordinal)| (Place { rank_ns, trace_id }, ordinal);
    Ok(first.into_sorted_vec().into_iter().map(place).collect())
}

pub(super) fn io_error(error: std::io::Error) -> Error {
    Error::io("an index")(error)
}
