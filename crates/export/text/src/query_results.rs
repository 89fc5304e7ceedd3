//! Results of queries to a store of requests, drawn for a terminal: requests ([`requests`]),
//! durations of spans ([`latency`], and [`latencies`] for each service and name), and calls between
//! services ([`calls`]).

use crate::info::table::{Column, Table, Theme, Tone};
use crate::info::units::{duration, grouped, percent, plural};
use crate::time::{TimeFormat, TimePrinter};
use blkkin_reader::Text;
use std::fmt::Write;

/// Percentiles of a table: column title, and percent as text.
const PERCENTILES: [(&str, &str); 4] =
    [("P50", "50"), ("P90", "90"), ("P99", "99"), ("MAX", "100")];

/// Options for drawing results of queries.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Set to use terminal colours.
    pub color: bool,
    /// Set to print only ASCII; other characters of names are replaced by `?`.
    pub ascii: bool,
    /// Width of the terminal in characters. It limits only the bars; a table may be wider.
    pub width: usize,
    /// Set to print dates in UTC instead of the local time zone.
    pub utc: bool,
}

/// A request in the results of a query. Its root is the earliest span without a parent, or the
/// earliest span if all have parents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    /// Trace id, as text.
    pub id: String,
    /// Start of the earliest span, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Duration of the root in nanoseconds. If the root lacks a start or a duration, the time from
    /// the start of the first span to the end of the last.
    pub duration_ns: u64,
    /// Service of the root; empty if unknown.
    pub service: String,
    /// Name of the root; empty if unknown.
    pub name: String,
    /// Number of spans in the request.
    pub spans: u64,
    /// Number of spans with an error.
    pub errors: u64,
    /// Number of services with a span.
    pub services: u64,
}

/// Durations of spans that match a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of matching spans with a known duration.
    pub spans: u64,
    /// Percentiles: percent as text, and the duration in nanoseconds.
    pub percentiles: Vec<(String, u64)>,
    /// Histogram in ascending order, without empty bars. Each bar has its minimum and maximum
    /// duration in nanoseconds, and its number of spans.
    pub bars: Vec<(u64, u64, u64)>,
    /// Examples: trace id, and the duration of one of its spans in nanoseconds.
    pub examples: Vec<(String, u64)>,
}

/// Durations of the spans with one service and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Service of the spans.
    pub service: String,
    /// Name of the spans.
    pub name: String,
    /// Number of spans that the percentiles are computed from.
    pub spans: u64,
    /// Percentiles, as in [`Latency`].
    pub percentiles: Vec<(String, u64)>,
}

/// Calls from one service to another, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calling service.
    pub parent: String,
    /// Called service.
    pub child: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls with an error.
    pub errors: u64,
    /// Percentiles of the calls' durations, as in [`Latency`].
    pub percentiles: Vec<(String, u64)>,
}

/// Maximum length of a displayed name, in characters.
const NAME_MAX: usize = 40;
/// Minimum width of the bar column in characters; `BAR_MAX` is the maximum.
const BAR_MIN: usize = 8;
const BAR_MAX: usize = 40;
/// Approximate width of a table of requests without its bars, in characters.
const TABLE_WIDTH: usize = 104;
/// Approximate maximum number of rows of a histogram; see [`coarse`].
const ROWS: f64 = 24.0;

impl Options {
    fn theme(&self) -> Theme {
        Theme { color: self.color, ascii: self.ascii }
    }

    /// Returns the width of the bar column in characters, if the other columns have `others`
    /// characters in total; 0 if the terminal is too narrow for bars.
    fn bar(&self, others: usize) -> usize {
        match self.width.saturating_sub(others) {
            ..BAR_MIN => 0,
            room => room.min(BAR_MAX),
        }
    }

    fn time(&self, ns: u64) -> String {
        let mut times = TimePrinter::new(TimeFormat::Date, self.utc);
        let text =
            Text::from_print(|text| times.print(text, i64::try_from(ns).unwrap_or(i64::MAX), 0));
        String::from_utf8_lossy(&text).into_owned()
    }

    fn duration(&self, ns: u64) -> String {
        let text = duration(ns);
        if self.ascii { text } else { text.replace("us", "µs") }
    }

    /// Returns the cells with the percentiles of a row; a missing percentile has an empty cell.
    fn percentiles(&self, known: &[(String, u64)]) -> [(Tone, String); PERCENTILES.len()] {
        PERCENTILES.map(|(_, percent)| {
            let known = known.iter().find(|(other, _)| other == percent);
            (Tone::Plain, known.map_or_else(String::new, |(_, ns)| self.duration(*ns)))
        })
    }
}

fn alarm(count: u64) -> (Tone, String) {
    let text = if count > 0 { grouped(count) } else { String::new() };
    (Tone::Alarm, text)
}

/// Draws a table with one request per line; the bars are scaled to the longest request.
pub fn requests(found: &[RequestSummary], options: &Options) -> String {
    let theme = options.theme();
    let longest = found.iter().map(|found| found.duration_ns).max().unwrap_or(0);
    let room = options.bar(TABLE_WIDTH);
    let mut table = Table::new(&[
        Column::Left("BEGAN"),
        Column::Right("TOOK"),
        Column::Left(""),
        Column::Left("SERVICE"),
        Column::Left("NAME"),
        Column::Right("SPANS"),
        Column::Right("ERRORS"),
        Column::Right("SERVICES"),
        Column::Left("REQUEST"),
    ]);
    for found in found {
        let bar = match room {
            0 => String::new(),
            room => theme.bar(found.duration_ns, longest, room),
        };
        table.row(vec![
            (Tone::Faint, options.time(found.start_ns)),
            (Tone::Strong, options.duration(found.duration_ns)),
            (Tone::Bar, bar),
            (Tone::Plain, theme.clean(&found.service, NAME_MAX)),
            (Tone::Plain, theme.clean(&found.name, NAME_MAX)),
            (Tone::Plain, grouped(found.spans)),
            alarm(found.errors),
            (Tone::Plain, grouped(found.services)),
            (Tone::Plain, found.id.clone()),
        ]);
    }
    let mut out = String::new();
    table.print(&mut out, theme);
    out
}

/// Draws percentiles, examples, and a histogram with a logarithmic scale.
pub fn latency(found: &Latency, options: &Options) -> String {
    let theme = options.theme();
    let mut out = theme.paint(Tone::Strong, &plural(found.spans, "span"));
    for (percent, ns) in &found.percentiles {
        let name = if percent == "100" { "max".to_owned() } else { format!("p{percent}") };
        let _ = write!(out, "  {} {}", theme.paint(Tone::Faint, &name), options.duration(*ns));
    }
    out.push('\n');
    let rows = coarse(&found.bars);
    let most = rows.iter().map(|row| row.2).max().unwrap_or(0);
    let columns =
        [Column::Right("UP TO"), Column::Right("SPANS"), Column::Right(""), Column::Left("")];
    let mut table = Table::new(&columns);
    let room = options.bar(40).max(BAR_MIN);
    for (_, greatest, spans) in rows {
        table.row(vec![
            (Tone::Plain, options.duration(greatest)),
            (Tone::Plain, grouped(spans)),
            (Tone::Faint, percent(spans, found.spans)),
            (Tone::Bar, theme.bar(spans, most, room)),
        ]);
    }
    if most > 0 {
        table.print(&mut out, theme);
    }
    if !found.examples.is_empty() {
        out.push_str(&theme.paint(Tone::Strong, "Examples"));
        out.push('\n');
        let mut table = Table::new(&[Column::Right("TOOK"), Column::Left("REQUEST")]);
        for (id, ns) in &found.examples {
            table.row(vec![(Tone::Plain, options.duration(*ns)), (Tone::Plain, id.clone())]);
        }
        table.print(&mut out, theme);
    }
    out
}

/// Joins bars into rows of equal width on a logarithmic scale: one to eight for each doubling of
/// the duration, and at most about [`ROWS`] in total unless there are more doublings. A bar counts
/// in the row of its minimum; a row without a bar is empty.
fn coarse(bars: &[(u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return Vec::new() };
    let scale = |ns: u64| (ns.max(1) as f64).log2();
    let (from, to) = (scale(first.0), scale(last.1));
    let rows_of_octave = (ROWS / (to - from).max(0.1)).clamp(1.0, 8.0).floor();
    let row_of = |ns: u64| ((scale(ns) - from) * rows_of_octave) as usize;
    let mut rows: Vec<(u64, u64, u64)> = Vec::new();
    for (least, greatest, spans) in bars {
        let row = row_of(*least);
        while rows.len() <= row {
            let edge = |row: usize| 2_f64.powf(from + row as f64 / rows_of_octave).round() as u64;
            rows.push((edge(rows.len()), edge(rows.len() + 1), 0));
        }
        rows[row].1 = rows[row].1.max(*greatest);
        rows[row].2 += spans;
    }
    rows
}

/// Draws a table of durations, with one service and name per line.
pub fn latencies(found: &[Latencies], options: &Options) -> String {
    let theme = options.theme();
    let mut columns = vec![Column::Left("SERVICE"), Column::Left("NAME"), Column::Right("SPANS")];
    columns.extend(PERCENTILES.map(|(title, _)| Column::Right(title)));
    let mut table = Table::new(&columns);
    for found in found {
        let mut cells = vec![
            (Tone::Plain, theme.clean(&found.service, NAME_MAX)),
            (Tone::Plain, theme.clean(&found.name, NAME_MAX)),
            (Tone::Plain, grouped(found.spans)),
        ];
        cells.extend(options.percentiles(&found.percentiles));
        table.row(cells);
    }
    let mut out = String::new();
    table.print(&mut out, theme);
    out
}

/// Draws a table of calls, with one pair of services per line.
pub fn calls(found: &[Calls], options: &Options) -> String {
    let theme = options.theme();
    let mut columns = vec![
        Column::Left("CALLER"),
        Column::Left("CALLED"),
        Column::Right("CALLS"),
        Column::Right("ERRORS"),
        Column::Right(""),
    ];
    columns.extend(PERCENTILES.map(|(title, _)| Column::Right(title)));
    let mut table = Table::new(&columns);
    for found in found {
        let failed =
            if found.errors > 0 { percent(found.errors, found.calls) } else { String::new() };
        let mut cells = vec![
            (Tone::Plain, theme.clean(&found.parent, NAME_MAX)),
            (Tone::Plain, theme.clean(&found.child, NAME_MAX)),
            (Tone::Plain, grouped(found.calls)),
            alarm(found.errors),
            (Tone::Alarm, failed),
        ];
        cells.extend(options.percentiles(&found.percentiles));
        table.row(cells);
    }
    let mut out = String::new();
    table.print(&mut out, theme);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Options = Options { color: false, ascii: true, width: 130, utc: true };

    #[test]
    fn requests_are_lines_to_scale() {
        let found = |id: &str, ms: u64, errors| RequestSummary {
            id: id.to_owned(),
            start_ns: 1_700_000_000_000_000_000,
            duration_ns: ms * 1_000_000,
            service: "osd".to_owned(),
            name: "wri\x1b[31mte".to_owned(),
            spans: 1234,
            errors,
            services: 2,
        };
        let drawn = requests(&[found("a", 8, 0), found("b", 4, 3)], &PLAIN);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines.len(), 3, "{drawn}");
        assert!(lines[1].contains("2023-11-14"), "{drawn}");
        assert!(lines[1].contains("8.00 ms") && lines[2].contains("4.00 ms"), "{drawn}");
        let bar = |line: &str| line.chars().filter(|char| *char == '#').count();
        assert_eq!((bar(lines[1]), bar(lines[2])), (26, 13), "{drawn}");
        assert!(lines[2].contains("1,234       3") && !drawn.contains('\x1b'), "{drawn}");
        let narrow = requests(&[found("a", 8, 0)], &Options { width: 80, ..PLAIN });
        assert_eq!(bar(&narrow), 0, "{narrow}");
    }

    #[test]
    fn a_histogram_has_few_rows_and_all_spans() {
        let bars = (0..400).map(|n| 1000.0 * 1.03_f64.powi(n)).map(|at| at as u64);
        let bars: Vec<_> = bars.map(|at| (at, at + at / 64, 3)).collect();
        let rows = coarse(&bars);
        assert!((16..=26).contains(&rows.len()), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), 1200);
        assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "{rows:?}");
        assert_eq!(coarse(&[]), []);
        assert_eq!(coarse(&[(0, 0, 7)]).iter().map(|row| row.2).sum::<u64>(), 7);
        let all = coarse(&[(0, 0, 1), (u64::MAX, u64::MAX, 1)]);
        assert!(all.len() <= 66, "{}", all.len());
    }

    #[test]
    fn calls_say_how_often_they_fail() {
        let drawn = calls(
            &[Calls {
                parent: "rgw".to_owned(),
                child: "osd".to_owned(),
                calls: 2000,
                errors: 20,
                percentiles: vec![("50".to_owned(), 1_500_000)],
            }],
            &PLAIN,
        );
        assert!(drawn.contains("rgw     osd     2,000      20  1.0 %  1.50 ms"), "{drawn}");
    }

    #[test]
    fn latencies_have_a_line_each() {
        let of = |service: &str, spans| Latencies {
            service: service.to_owned(),
            name: "read".to_owned(),
            spans,
            percentiles: vec![("50".to_owned(), 1_500_000), ("99".to_owned(), 90_000_000)],
        };
        let drawn = latencies(&[of("osd", 2000), of("rgw", 7)], &PLAIN);
        let lines: Vec<&str> = drawn.lines().collect();
        let [_, osd, rgw] = lines[..] else { panic!("three lines: {drawn}") };
        assert_eq!(osd.split_whitespace().collect::<Vec<_>>()[..3], ["osd", "read", "2,000"]);
        assert!(rgw.contains("1.50 ms") && rgw.contains("90.0 ms"), "{drawn}");
        assert_eq!(osd.find("1.50 ms"), rgw.find("1.50 ms"), "columns are aligned: {drawn}");
    }
}
