//! Sums of operations as a table.

use super::cells::{Latency, known, text};
use super::disk;
use crate::info::table::{Column, Table, Theme, Tone};
use crate::info::units::{bytes, grouped, percent};
use blkkin_io::{OperationKind, Row, Summary};

/// Options of [`summary`].
#[derive(Clone, Copy, Debug)]
pub struct SummaryOptions {
    /// Set to use terminal colours.
    pub color: bool,
    /// Set to print only ASCII; other characters of names are replaced by `?`.
    pub ascii: bool,
    /// Maximum number of rows; the rows with the longest total time are printed.
    pub rows_max: usize,
}

/// Draws the rows of a summary as a table, ordered by total time, and below it the sums of requests
/// to disks, if there were any. Rates are averages over the whole
/// time of the summary.
pub fn summary(sums: &Summary, options: &SummaryOptions) -> String {
    let theme = Theme { color: options.color, ascii: options.ascii };
    let mut table = Table::new(&[
        Column::Left("NAME"),
        Column::Left("OP"),
        Column::Right("COUNT"),
        Column::Right("ERRORS"),
        Column::Right("BYTES"),
        Column::Right("BYTES/S"),
        Column::Right("SIZE P50"),
        Column::Right("SIZE MAX"),
        Column::Right("SEQUENTIAL"),
        Column::Right("TIME"),
        Column::Right("P50"),
        Column::Right("P90"),
        Column::Right("P99"),
        Column::Right("MAX"),
        Column::Left("PATH"),
    ]);
    let rows = sums.rows();
    for row in rows.iter().take(options.rows_max) {
        table.row(cells(row, sums.duration_ns(), theme));
    }
    let mut out = String::new();
    table.print(&mut out, theme);
    if let Some(hidden) = rows.len().checked_sub(options.rows_max).filter(|hidden| *hidden > 0) {
        let word = if hidden == 1 { "row" } else { "rows" };
        out.push_str(
            &theme.paint(Tone::Faint, &format!("  {} more {word}\n", grouped(hidden as u64))),
        );
    }
    let disks = disk::table(sums, sums.duration_ns(), theme);
    if !disks.is_empty() {
        out.push('\n');
        out.push_str(&disks);
    }
    out
}

fn cells(row: &Row, all_ns: u64, theme: Theme) -> Vec<(Tone, String)> {
    let plain = |text: String| (Tone::Plain, text);
    let clean = |text: &str| plain(theme.clean(text, usize::MAX));
    let took = |ns: u64| plain(text(Latency(ns, theme)));
    let size = |size: u64| plain(if row.sizes.count() > 0 { bytes(size) } else { String::new() });
    let rate = match all_ns {
        0 => String::new(),
        _ if row.bytes == 0 => String::new(),
        ns => bytes((row.bytes as f64 * 1e9 / ns as f64) as u64),
    };
    let errors = if row.errors > 0 { grouped(row.errors) } else { String::new() };
    let path = row.path.as_deref().unwrap_or_default();
    vec![
        clean(known(&row.program)),
        clean(row.kind.map_or("", OperationKind::word)),
        plain(grouped(row.count())),
        (Tone::Alarm, errors),
        size(row.bytes),
        plain(rate),
        size(row.sizes.percentile(50.0)),
        size(row.sizes.max()),
        plain(percent(row.sequential, row.sequential + row.random)),
        took(row.total_ns()),
        took(row.latencies.percentile(50.0)),
        took(row.latencies.percentile(90.0)),
        took(row.latencies.percentile(99.0)),
        took(row.latencies.max()),
        clean(path),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::samples::{TIME_NS, read, rename};
    use super::*;
    use blkkin_io::Operation;

    #[test]
    fn tables_of_sums() {
        let mut sums = Summary::new(0);
        for (offset, duration_ns) in [(0, 1000), (512, 2000), (0, 3000)] {
            sums.add(&Operation { offset: Some(offset), duration_ns, ..read() });
        }
        sums.add(&Operation { time_ns: TIME_NS + 999_997_000, ..rename() });
        let options = SummaryOptions { color: false, ascii: false, rows_max: 9 };
        let expected = "
  NAME    OP      COUNT  ERRORS     BYTES  BYTES/S  SIZE P50  SIZE MAX  SEQUENTIAL         TIME          P50          P90          P99          MAX  PATH
  ?       rename      1       1                                                     1 min 1.5 s  1 min 1.5 s  1 min 1.5 s  1 min 1.5 s  1 min 1.5 s  /a?
  iozone  read        3          1.50 KiB     24 B     512 B     512 B      50.0 %      6.00 µs      2.00 µs      3.00 µs      3.00 µs      3.00 µs  /tmp/a b
";
        assert_eq!(summary(&sums, &options), &expected[1..]);
        let one = SummaryOptions { rows_max: 1, ..options };
        let table = summary(&sums, &one);
        assert!(table.ends_with("/a?\n  1 more row\n"), "{table}");
    }
}
