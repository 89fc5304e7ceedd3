//! Output of query results: aligned tables, CSV, JSON. Start at [`Printer`].

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, DurationNanosecondType, Float64Type, Int64Type, Schema, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::io::{self, Write};

/// Output format of a query's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns, with durations in readable units. All rows are buffered in memory until the
    /// result ends.
    #[default]
    Table,
    /// CSV, quoted as in RFC 4180; NULL is an empty field, an empty text is `""`.
    Csv,
    /// JSON array with an object for each row.
    Json,
    /// One JSON object per line, for each row.
    Ndjson,
}

/// Printer of a query's result in one of the formats.
pub struct Printer<W> {
    to: W,
    format: Format,
    columns: Vec<Column>,
    /// Cells of all rows so far; used by [`Format::Table`] only.
    rows: Vec<Vec<String>>,
    is_plan: bool,
    printed: usize,
}

struct Column {
    name: String,
    is_duration: bool,
    is_right: bool,
}

const NULL: &str = "NULL";

impl<W: Write> Printer<W> {
    /// Creates a printer that writes to `to` in the given format.
    pub fn new(format: Format, to: W) -> Printer<W> {
        let (columns, rows) = (Vec::new(), Vec::new());
        Printer { to, format, columns, rows, is_plan: false, printed: 0 }
    }

    pub(crate) fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        let columns = schema.fields().iter().map(|field| {
            let is_duration = is_duration(field.name(), field.data_type());
            let is_right = is_duration || field.data_type().is_numeric();
            Column { name: field.name().clone(), is_duration, is_right }
        });
        self.columns = columns.collect();
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        self.is_plan = names == ["plan_type", "plan"];
        match self.format {
            Format::Table | Format::Ndjson => Ok(()),
            Format::Json => write!(self.to, "["),
            Format::Csv => {
                let names: Vec<String> = names.iter().map(|name| csv(name)).collect();
                writeln!(self.to, "{}", names.join(","))
            }
        }
    }

    pub(crate) fn rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match self.format {
            Format::Table => self.table_rows(batch),
            Format::Csv => self.csv_rows(batch),
            Format::Json | Format::Ndjson => self.json_rows(batch),
        }
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        match self.format {
            Format::Table => self.print_table()?,
            Format::Json => writeln!(self.to, "{}]", if self.printed > 0 { "\n" } else { "" })?,
            Format::Csv | Format::Ndjson => {}
        }
        self.to.flush()
    }

    fn table_rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let options = FormatOptions::new().with_null(NULL);
        let formatters = formatters(batch, &options)?;
        for row in 0..batch.num_rows() {
            let mut cells = Vec::with_capacity(self.columns.len());
            for ((column, array), formatter) in
                self.columns.iter().zip(batch.columns()).zip(&formatters)
            {
                let duration = column.is_duration.then(|| nanoseconds(array, row)).flatten();
                let text = match duration {
                    Some(ns) => duration_text(ns),
                    None => formatter.value(row).try_to_string().map_err(cannot)?,
                };
                cells.push(if self.is_plan { text } else { printable(&text) });
            }
            self.rows.push(cells);
        }
        Ok(())
    }

    fn print_table(&mut self) -> io::Result<()> {
        if self.is_plan {
            for row in &self.rows {
                let [kind, plan] = row.as_slice() else { continue };
                writeln!(self.to, "{kind}")?;
                for line in plan.lines() {
                    writeln!(self.to, "  {}", printable(line))?;
                }
            }
            return Ok(());
        }
        let names: Vec<String> =
            self.columns.iter().map(|column| printable(&column.name)).collect();
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = names.iter().map(|name| width(name)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = width(cell).max(*widest);
            }
        }
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), widest) in row.iter().zip(&self.columns).zip(&widths) {
                let blanks = " ".repeat(widest - width(cell));
                let (before, after) = if column.is_right { (&*blanks, "") } else { ("", &*blanks) };
                line.extend([before, cell, after, "  "]);
            }
            writeln!(self.to, "{}", line.trim_end_matches(' '))?;
        }
        Ok(())
    }

    fn csv_rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let options = FormatOptions::new();
        let formatters = formatters(batch, &options)?;
        let mut line = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            for (number, (formatter, array)) in formatters.iter().zip(batch.columns()).enumerate() {
                if number > 0 {
                    line.push(',');
                }
                if !array.is_null(row) {
                    line.push_str(&csv(&formatter.value(row).try_to_string().map_err(cannot)?));
                }
            }
            writeln!(self.to, "{line}")?;
        }
        Ok(())
    }

    fn json_rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let mut writer =
            WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
        writer.write(batch).map_err(cannot)?;
        let lines = writer.into_inner();
        if self.format == Format::Ndjson {
            return self.to.write_all(&lines);
        }
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.to.write_all(if self.printed > 0 { b",\n" } else { b"\n" })?;
            self.to.write_all(line)?;
            self.printed += 1;
        }
        Ok(())
    }
}

fn formatters<'a>(
    batch: &'a RecordBatch,
    options: &FormatOptions<'a>,
) -> io::Result<Vec<ArrayFormatter<'a>>> {
    let each = batch.columns().iter();
    each.map(|array| ArrayFormatter::try_new(array.as_ref(), options).map_err(cannot)).collect()
}

fn cannot(error: ArrowError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Returns whether a column contains durations, judged by its type, or by its name if its type is
/// `Int64` or `Float64`. The name of such a column is `ns` or ends with `_ns`, or it contains `_ns`
/// or `.ns)` and starts with an aggregate function that keeps the unit, such as `max(`.
fn is_duration(name: &str, kind: &DataType) -> bool {
    const KEEP: [&str; 7] =
        ["min(", "max(", "avg(", "sum(", "median(", "approx_median(", "approx_percentile_cont("];
    let says = name == "ns"
        || name.ends_with("_ns")
        || ((name.contains("_ns") || name.contains(".ns)"))
            && KEEP.iter().any(|start| name.starts_with(start)));
    match kind {
        DataType::Duration(TimeUnit::Nanosecond) => true,
        DataType::Int64 | DataType::Float64 => says,
        _ => false,
    }
}

fn nanoseconds(array: &dyn Array, row: usize) -> Option<i64> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row).round() as i64),
        DataType::Duration(TimeUnit::Nanosecond) => {
            Some(array.as_primitive::<DurationNanosecondType>().value(row))
        }
        _ => None,
    }
}

/// Formats a duration with a unit and four digits, such as `12.34 ms`. Nanoseconds have no
/// decimals, and an integer part of more than four digits is printed whole.
fn duration_text(ns: i64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "µs"),
        (1, "ns"),
    ];
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let (of, unit) = UNITS.into_iter().find(|(of, _)| ns >= *of).unwrap_or((1, "ns"));
    let number = ns as f64 / of as f64;
    let digits = if of == 1 { 0 } else { 3_usize.saturating_sub(number.log10() as usize) };
    format!("{sign}{number:.digits$} {unit}")
}

/// Escapes control and invisible characters, so that a terminal does not interpret them.
fn printable(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() || is_invisible(c)) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns whether a character is invisible or changes the direction of text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn csv(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']);
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_four_digits() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 µs"),
            (12_345, "12.35 µs"),
            (-123_456, "-123.5 µs"),
            (1_500_000_000, "1.500 s"),
            (90_000_000_000, "1.500 min"),
            (7_200_000_000_000_000, "2000 h"),
            (i64::MIN, "-2562048 h"),
        ] {
            assert_eq!(duration_text(ns), expected);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("\u{1b}[2Jä\n\u{202e}"), "\\u{1b}[2Jä\\n\\u{202e}");
        assert_eq!(printable("plain ä"), "plain ä");
    }

    #[test]
    fn texts_of_csv_are_quoted_where_needed() {
        for (text, expected) in [("a b", "a b"), ("", "\"\""), ("a,\"b\"", "\"a,\"\"b\"\"\"")] {
            assert_eq!(csv(text), expected);
        }
    }

    #[test]
    fn durations_are_known_by_name() {
        let int = DataType::Int64;
        assert!(is_duration("p99_ns", &int));
        assert!(is_duration("max(spans.duration_ns)", &int));
        assert!(is_duration("ns", &int) && is_duration("sum(own_time.ns)", &int));
        assert!(!is_duration("runs", &int) && !is_duration("count(own_time.ns)", &int));
        assert!(!is_duration("count(spans.duration_ns)", &int));
        assert!(!is_duration("p99_ns", &DataType::Utf8));
    }
}
