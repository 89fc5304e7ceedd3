//! Sums of operations and the slowest operations, as lines that fit on a screen.

use super::cells::{Latency, known, text};
use super::columns::{Count, Files};
use crate::info::table::{Column, Table, Theme, Tone};
use crate::info::units::{bytes, grouped, percent, plural, si};
use blkkin_io::{DiskRow, Histogram, Operation, OperationKind, Row, Summary};
use std::cmp::Reverse;

/// Minimum width of the column with the paths, for which less important columns are left out.
const PATH_WIDTH_MIN: usize = 20;
/// Maximum width of the names of programs.
const PROGRAM_WIDTH_MAX: usize = 15;
/// Number of lines that are neither rows nor slowest operations: the sums of all, two headings, two
/// empty lines and the keys.
const FRAME_LINES: usize = 6;
/// Maximum number of slowest operations.
const SLOWEST_MAX: usize = 10;
/// Limits of the ranges of the histogram, in nanoseconds, from about 1 µs to 1 s. Powers of two are
/// limits of the histogram's buckets, too.
const LATENCY_LIMITS: [u64; 11] = [
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
    1 << 28,
    1 << 30,
];
/// Heading of the histogram, which has one character for each range.
const LATENCY_TITLE: &str = "<1us  ms  s>";

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By the sum of the durations.
    #[default]
    Time,
    /// By the number of operations.
    Count,
    /// By the number of bytes.
    Bytes,
    /// By the longest duration.
    Slowest,
}

impl Order {
    /// Returns the next order; the first one follows the last.
    pub fn next(self) -> Order {
        match self {
            Order::Time => Order::Count,
            Order::Count => Order::Bytes,
            Order::Bytes => Order::Slowest,
            Order::Slowest => Order::Time,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Order::Time => "time",
            Order::Count => "count",
            Order::Bytes => "bytes",
            Order::Slowest => "slowest",
        }
    }

    fn key(self, row: &Row) -> u64 {
        match self {
            Order::Time => row.total_ns(),
            Order::Count => row.count(),
            Order::Bytes => row.bytes,
            Order::Slowest => row.latencies.max(),
        }
    }
}

/// Sums that are drawn.
#[derive(Clone, Copy, Debug)]
pub struct LiveSums<'s> {
    /// Sums of the rows.
    pub rows: &'s Summary,
    /// Time in which the operations of the rows took place, in nanoseconds.
    pub duration_ns: u64,
    /// Sums whose slowest operations are listed.
    pub slowest: &'s Summary,
    /// Number of events that were lost so far.
    pub lost: u64,
}

/// Options of [`live`].
#[derive(Clone, Copy, Debug)]
pub struct LiveOptions {
    /// Set to use terminal colours.
    pub color: bool,
    /// Set to print only ASCII; other characters of names are replaced by `?`.
    pub ascii: bool,
    /// Width in characters.
    pub width: usize,
    /// Maximum number of lines.
    pub height: usize,
    /// Order of the rows.
    pub order: Order,
    /// Number of rows that are left out at the top.
    pub first: usize,
    /// Text of the last line; empty to leave it out.
    pub keys: &'static str,
    /// Set if the drawing stays the same.
    pub is_paused: bool,
}

/// Draws the rows of sums, below them the sums of requests to disks, and the slowest operations.
pub fn live(sums: &LiveSums<'_>, options: &LiveOptions) -> String {
    let theme = Theme { color: options.color, ascii: options.ascii };
    let mut rows = sums.rows.rows();
    // Rows are in the order of their time so far, and stay so if they are equal.
    rows.sort_by_key(|row| Reverse(options.order.key(row)));
    let disks = sums.rows.disk_rows();
    let disks = &disks[..disks.len().min(options.height / 6)];
    // With a heading and an empty line.
    let disk_lines = if disks.is_empty() { 0 } else { disks.len() + 2 };
    let space = options.height.saturating_sub(FRAME_LINES + disk_lines);
    let slowest_max = (space / 4).clamp(1, SLOWEST_MAX);
    let slowest: Vec<&Operation> = sums.slowest.slowest().take(slowest_max).collect();
    let rows_max = space.saturating_sub(slowest.len().max(1)).max(1);
    let first = options.first.min(rows.len().saturating_sub(rows_max));
    let hidden = (first, rows.len().saturating_sub(first.saturating_add(rows_max)));
    let mut out = head(sums, options, hidden, theme);
    let shown: Vec<&Row> = rows.iter().skip(first).take(rows_max).collect();
    row_table(&shown, sums.duration_ns, options.width, theme).print(&mut out, theme);
    if !disks.is_empty() {
        out.push('\n');
        disk_table(disks, sums.duration_ns, options.width, theme).print(&mut out, theme);
    }
    if !slowest.is_empty() {
        out.push('\n');
        slowest_table(&slowest, options.width, theme).print(&mut out, theme);
    }
    if !options.keys.is_empty() {
        out.push('\n');
        out.push_str(&theme.paint(Tone::Faint, options.keys));
        out.push('\n');
    }
    out
}

/// Returns the first line: the sums of all operations, and what the rows below are. `hidden` is the
/// number of rows above and below those that are shown.
fn head(
    sums: &LiveSums<'_>,
    options: &LiveOptions,
    hidden: (usize, usize),
    theme: Theme,
) -> String {
    let (operations, size) = sums.rows.totals();
    let mut parts = vec![
        format!("{} ops/s", si(rate(operations, sums.duration_ns))),
        format!("{}/s", bytes(rate(size, sums.duration_ns) as u64)),
        format!("{} in {:.1} s", plural(operations, "op"), sums.duration_ns as f64 / 1e9),
        format!("by {}", options.order.word()),
    ];
    if hidden != (0, 0) {
        parts.push(format!("{} above, {} below", hidden.0, hidden.1));
    }
    if options.is_paused {
        parts.push("PAUSED".to_owned());
    }
    let mut line = cut(&parts.join(", "), options.width);
    line = theme.paint(Tone::Strong, &line);
    if sums.lost > 0 {
        line.push_str(&theme.paint(Tone::Alarm, &format!("  LOST {}", grouped(sums.lost))));
    }
    line.push('\n');
    line
}

/// Returns the start of a text of at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Returns a number per second.
fn rate(count: u64, duration_ns: u64) -> f64 {
    count as f64 * 1e9 / duration_ns.max(1) as f64
}

/// Column of a table of limited width.
struct LiveColumn {
    column: Column,
    /// Columns with the highest rank are left out first; those of rank 0 remain.
    rank: u8,
    cells: Vec<(Tone, String)>,
}

impl LiveColumn {
    fn width(&self) -> usize {
        let title = match self.column {
            Column::Left(title) | Column::Right(title) => title.chars().count(),
        };
        match self.cells.iter().map(|cell| cell.1.chars().count()).max() {
            None | Some(0) => 0,
            Some(cells) => cells.max(title) + 2,
        }
    }
}

/// Returns a table of the columns that fit, and of the paths, whose ends are shown.
fn fit(columns: Vec<LiveColumn>, paths: &[String], width: usize, theme: Theme) -> Table {
    fit_before(columns, "PATH", paths, width, theme)
}

/// Returns a table of the columns that fit, and of a last column of texts, whose ends are shown.
fn fit_before(
    mut columns: Vec<LiveColumn>,
    title: &'static str,
    texts: &[String],
    width: usize,
    theme: Theme,
) -> Table {
    let used = |columns: &[LiveColumn]| columns.iter().map(LiveColumn::width).sum::<usize>();
    while used(&columns) + PATH_WIDTH_MIN + 2 > width {
        let rank = columns.iter().map(|column| column.rank).max().unwrap_or(0);
        if rank == 0 {
            break;
        }
        columns.retain(|column| column.rank < rank);
    }
    let text_width = width.saturating_sub(used(&columns) + 2).max(4);
    let mut titles: Vec<Column> = columns.iter().map(|column| column.column).collect();
    titles.push(Column::Left(title));
    let mut table = Table::new(&titles);
    for (index, text) in texts.iter().enumerate() {
        let mut cells: Vec<_> = columns.iter().map(|column| column.cells[index].clone()).collect();
        cells.push((Tone::Plain, theme.clean(text, text_width)));
        table.row(cells);
    }
    table
}

fn row_table(rows: &[&Row], duration_ns: u64, width: usize, theme: Theme) -> Table {
    let column = |column, rank, cell: &dyn Fn(&Row) -> (Tone, String)| LiveColumn {
        column,
        rank,
        cells: rows.iter().map(|row| cell(row)).collect(),
    };
    let plain = |text: String| (Tone::Plain, text);
    let size = |row: &Row, size: u64| match row.sizes.count() {
        0 => plain(String::new()),
        _ => plain(bytes(size)),
    };
    let latency = |percent: f64| {
        move |row: &Row| plain(text(Latency(row.latencies.percentile(percent), theme)))
    };
    let columns = vec![
        column(Column::Left("NAME"), 0, &|row| {
            plain(theme.clean(known(&row.program), PROGRAM_WIDTH_MAX))
        }),
        column(Column::Left("OP"), 0, &|row| {
            plain(row.kind.map_or("", OperationKind::word).to_owned())
        }),
        column(Column::Right("COUNT"), 6, &|row| plain(grouped(row.count()))),
        column(Column::Right("ERR"), 5, &|row| {
            (Tone::Alarm, if row.errors > 0 { si(row.errors as f64) } else { String::new() })
        }),
        column(Column::Right("RATE/S"), 1, &|row| plain(si(rate(row.count(), duration_ns)))),
        column(Column::Right("BYTES/S"), 1, &|row| size(row, rate(row.bytes, duration_ns) as u64)),
        column(Column::Right("SIZE"), 7, &|row| size(row, row.sizes.percentile(50.0))),
        column(Column::Right("SEQ"), 8, &|row| {
            plain(percent(row.sequential, row.sequential + row.random))
        }),
        column(Column::Right("P50"), 1, &latency(50.0)),
        column(Column::Right("P90"), 9, &latency(90.0)),
        column(Column::Right("P99"), 3, &latency(99.0)),
        column(Column::Right("MAX"), 4, &latency(100.0)),
        column(Column::Left(LATENCY_TITLE), 2, &|row| {
            (Tone::Bar, histogram(&row.latencies, theme))
        }),
    ];
    let paths: Vec<String> =
        rows.iter().map(|row| row.path.as_deref().unwrap_or_default().to_owned()).collect();
    fit(columns, &paths, width, theme)
}

/// Returns a character for each range of latencies, as high as its share of the largest range.
fn histogram(latencies: &Histogram, theme: Theme) -> String {
    let counts = latencies.ranges(&LATENCY_LIMITS);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let eighths = |count: u64| match count {
        0 => 0,
        count => ((count as f64 / most as f64 * 8.0).round() as usize).max(1),
    };
    counts.iter().map(|count| theme.rising(eighths(*count))).collect()
}

fn disk_table(rows: &[DiskRow], duration_ns: u64, width: usize, theme: Theme) -> Table {
    let column = |column, rank, cell: &dyn Fn(&DiskRow) -> (Tone, String)| LiveColumn {
        column,
        rank,
        cells: rows.iter().map(cell).collect(),
    };
    let plain = |text: String| (Tone::Plain, text);
    let time = |times: &Histogram, percent| plain(text(Latency(times.percentile(percent), theme)));
    let columns = vec![
        column(Column::Left("OP"), 0, &|row| plain(theme.clean(&row.operation, PROGRAM_WIDTH_MAX))),
        column(Column::Right("COUNT"), 6, &|row| plain(grouped(row.count()))),
        column(Column::Right("ERR"), 5, &|row| {
            (Tone::Alarm, if row.errors > 0 { si(row.errors as f64) } else { String::new() })
        }),
        column(Column::Right("RATE/S"), 3, &|row| plain(si(rate(row.count(), duration_ns)))),
        column(Column::Right("BYTES/S"), 1, &|row| {
            plain(bytes(rate(row.bytes, duration_ns) as u64))
        }),
        column(Column::Right("QUEUED P50"), 2, &|row| time(&row.queued, 50.0)),
        column(Column::Right("P90"), 8, &|row| time(&row.queued, 90.0)),
        column(Column::Right("P99"), 7, &|row| time(&row.queued, 99.0)),
        column(Column::Right("MAX"), 4, &|row| time(&row.queued, 100.0)),
        column(Column::Right("SERVED P50"), 1, &|row| time(&row.served, 50.0)),
        column(Column::Right("P90"), 8, &|row| time(&row.served, 90.0)),
        column(Column::Right("P99"), 7, &|row| time(&row.served, 99.0)),
        column(Column::Right("MAX"), 4, &|row| time(&row.served, 100.0)),
    ];
    let devices: Vec<String> = rows.iter().map(|row| row.device.to_string()).collect();
    fit_before(columns, "DISK", &devices, width, theme)
}

fn slowest_table(slowest: &[&Operation], width: usize, theme: Theme) -> Table {
    let column = |column, rank, cell: &dyn Fn(&Operation) -> String| LiveColumn {
        column,
        rank,
        cells: slowest.iter().map(|operation| (Tone::Plain, cell(operation))).collect(),
    };
    let columns = vec![
        column(Column::Right("SLOWEST"), 0, &|operation| {
            text(Latency(operation.duration_ns, theme))
        }),
        column(Column::Left("NAME"), 0, &|operation| {
            theme.clean(known(&operation.program), PROGRAM_WIDTH_MAX)
        }),
        column(Column::Right("PID"), 1, &|operation| operation.pid.to_string()),
        column(Column::Left("OP"), 0, &|operation| operation.kind.word().to_owned()),
        column(Column::Right("BYTES/ASKED"), 2, &|operation| text(Count(operation))),
        column(Column::Right("OFFSET"), 3, &|operation| {
            text(operation.offset.or(operation.position))
        }),
    ];
    let paths: Vec<String> =
        slowest.iter().map(|operation| text(Files(operation, theme))).collect();
    fit(columns, &paths, width, theme)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{disk_request, read};
    use super::*;
    use blkkin_io::DiskRequest;

    fn sums() -> Summary {
        let mut sums = Summary::new(2);
        for (offset, duration_ns) in [(0, 1_000), (512, 20_000), (0, 3_000_000)] {
            sums.add(&Operation { offset: Some(offset), duration_ns, ..read() });
        }
        let path = Some("/var/lib/postgresql/data/base/16384/2619".into());
        for _ in 0..4 {
            let one = Operation { kind: OperationKind::Write, duration_ns: 500, ..read() };
            sums.add(&Operation { path: path.clone(), program: "postgres".into(), ..one });
        }
        sums
    }

    fn options(width: usize) -> LiveOptions {
        LiveOptions {
            color: false,
            ascii: false,
            width,
            height: 24,
            order: Order::Time,
            first: 0,
            keys: "q quit",
            is_paused: false,
        }
    }

    fn draw(options: &LiveOptions) -> String {
        let sums = sums();
        let duration_ns = 2_000_000_000;
        live(&LiveSums { rows: &sums, duration_ns, slowest: &sums, lost: 0 }, options)
    }

    #[test]
    fn a_wide_screen_has_all_columns() {
        let expected = "
3.50 ops/s, 1.75 KiB/s, 7 ops in 2.0 s, by time
  NAME      OP     COUNT  RATE/S   BYTES/S   SIZE     SEQ      P50      P90      P99      MAX  <1us  ms  s>  PATH
  iozone    read       3    1.50     768 B  512 B  50.0 %  20.2 µs  3.00 ms  3.00 ms  3.00 ms  █  █  █       /tmp/a b
  postgres  write      4       2  1.00 KiB  512 B   0.0 %   499 ns   500 ns   500 ns   500 ns  █             /var/lib/postgresql/data/base/16384/2619

  SLOWEST  NAME     PID  OP    BYTES/ASKED  OFFSET  PATH
  3.00 ms  iozone  3693  read     512/4096       0  /tmp/a b
  20.0 µs  iozone  3693  read     512/4096     512  /tmp/a b

q quit
";
        assert_eq!(draw(&options(150)), &expected[1..]);
    }

    /// No line is wider than the screen, nor are there more lines; names and operations remain.
    #[test]
    fn drawings_fit() {
        for width in [40, 60, 80, 100, 140] {
            for height in [5, 8, 24] {
                let text = draw(&LiveOptions { height, ..options(width) });
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{width}: {text}");
                assert!(text.lines().count() <= height.max(8), "{height}: {text}");
                assert!(text.contains("iozone") && text.contains("read"), "{text}");
            }
        }
    }

    /// Disks are between the rows and the slowest operations, and fit as they do.
    #[test]
    fn disks_have_their_sums() {
        for (width, height) in [(40, 24), (80, 24), (140, 14), (160, 24)] {
            let mut sums = sums();
            for device in ["vda", "vdb", "vdc", "vdd", "vde"] {
                let request = DiskRequest { device: device.into(), ..disk_request() };
                sums.add_disk_request(&request);
            }
            let drawn = LiveSums { rows: &sums, duration_ns: 1 << 30, slowest: &sums, lost: 0 };
            let text = live(&drawn, &LiveOptions { height, ..options(width) });
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {text}");
            assert!(text.lines().count() <= height, "{height}: {text}");
            assert!(text.contains("DISK") && text.contains("vda"), "{text}");
            assert!(text.contains("SLOWEST") && text.contains("postgres"), "{text}");
            assert_eq!(
                text.contains("QUEUED P50      P90      P99      MAX"),
                width >= 140,
                "{text}"
            );
            assert_eq!(text.contains("SERVED P50"), width > 40, "{text}");
        }
    }

    #[test]
    fn rows_are_in_the_chosen_order() {
        let first = |order, first| {
            let text = draw(&LiveOptions { order, first, ..options(80) });
            text.lines()
                .nth(2)
                .unwrap_or_default()
                .trim_start()
                .split(' ')
                .next()
                .map(str::to_owned)
        };
        assert_eq!(first(Order::Time, 0).as_deref(), Some("iozone"));
        assert_eq!(first(Order::Count, 0).as_deref(), Some("postgres"));
        assert_eq!(first(Order::Bytes, 0).as_deref(), Some("postgres"));
        assert_eq!(first(Order::Slowest, 0).as_deref(), Some("iozone"));
        // There is room for all rows, so none is left out.
        assert_eq!(first(Order::Time, 1).as_deref(), Some("iozone"));
        let low = draw(&LiveOptions { first: 1, height: 8, ..options(80) });
        assert!(low.contains("1 above, 0 below") && low.contains("postgres"), "{low}");
        let orders = std::iter::successors(Some(Order::Time), |order| Some(order.next()));
        assert_eq!(orders.skip(1).position(|order| order == Order::Time), Some(3));
    }
}
