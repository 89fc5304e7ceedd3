//! `blkkin sql`: questions to a store's files, in SQL.

use crate::exit::{self, Error, Exit};
use crate::output::{plural, unless_closed, write};
use crate::places::state_directory;
use crate::table::{Align, Table};
use crate::values;
use blkkin_sql::{EXAMPLES, Format, Options, Printer, Summary, TABLES, run as answer};
use std::io::{self, BufWriter, IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

/// Ask a store of spans in SQL
///
/// The tables are spans, annotations, tags, links, requests and services; `--tables` says what is in them. All that
/// SELECT can do is there (joins, WITH, window functions, percentiles, dates, regular expressions, JSON), and EXPLAIN,
/// SHOW TABLES and DESCRIBE. Nothing is ever changed, and no other file is read.
///
/// All that the store has acknowledged is asked, whether its server runs or not: its files, and what is only in its
/// journal yet.
#[derive(clap::Args, Debug)]
#[command(before_help = examples(), after_help = format!("{NOTES}{}", crate::EXIT_HELP))]
pub(crate) struct Args {
    /// The question; `-`, or nothing where standard input is no terminal, reads it from there
    #[arg(value_name = "SQL")]
    sql: Option<String>,

    /// The store's directory, if `blkkin server --data` names another than it has anyway
    #[arg(long, value_name = "DIR", help_heading = "Input")]
    data: Option<PathBuf>,

    /// Leave out files that are damaged, and say which; all are read as a whole first
    #[arg(long, help_heading = "Input")]
    skip_damaged: bool,

    /// List tables and columns, and what they mean
    #[arg(long, conflicts_with = "sql", help_heading = "Output")]
    tables: bool,

    /// How the answer is printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, help_heading = "Output")]
    format: FormatChoice,

    /// Most rows that are printed; 0 is all
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits")]
    limit: usize,

    /// Longest time for the answer
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "60",
        value_parser = values::seconds,
        help_heading = "Limits"
    )]
    timeout: Duration,

    /// Most memory for the answer
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512M",
        value_parser = values::bytes,
        help_heading = "Limits"
    )]
    memory: u64,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum FormatChoice {
    /// Aligned columns; durations (columns that end with _ns) as people say them
    #[default]
    Table,
    /// A line a row; NULL is nothing, an empty text is ""
    Csv,
    /// One list of objects
    Json,
    /// An object a line
    Ndjson,
}

/// Told by the help page.
const NOTES: &str = "A text is in single quotes, a name in double quotes or none. A time is a text: \
     start_time > '2026-11-21T12:00:00Z', or now() - INTERVAL '10 minutes'.\n";

fn examples() -> String {
    let mut text = "Examples:".to_owned();
    for example in &EXAMPLES {
        let sql = example.sql.replace('\n', "\n    ");
        text.push_str(&format!("\n  # {}\n  blkkin sql \"{sql}\"", example.question));
    }
    text
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if args.tables {
        unless_closed(write(&tables()))?;
        return Ok(Exit::Ok);
    }
    let sql = question(args.sql)?;
    let options = Options {
        directory: directory(args.data)?,
        rows_max: Some(args.limit).filter(|limit| *limit > 0),
        timeout: args.timeout,
        memory_bytes: usize::try_from(args.memory).unwrap_or(usize::MAX),
        skip_damaged: args.skip_damaged,
    };
    let format = match args.format {
        FormatChoice::Table => Format::Table,
        FormatChoice::Csv => Format::Csv,
        FormatChoice::Json => Format::Json,
        FormatChoice::Ndjson => Format::Ndjson,
    };
    let mut printer = Printer::new(format, BufWriter::new(crate::output::stdout()));
    match answer(&options, &sql, &mut printer) {
        Ok(summary) => Ok(conclude(&summary, args.limit)),
        Err(error) if error.is_closed_pipe() => Ok(Exit::Ok),
        Err(error) => Err(told(&error, &sql)),
    }
}

fn directory(data: Option<PathBuf>) -> Result<PathBuf, Error> {
    data.or_else(|| state_directory("spans")).ok_or_else(|| {
        Error::usage("there is no home to look for a store in").hint("--data DIR says where it is")
    })
}

/// Longer SQL than is read from standard input is refused anyway.
const INPUT_MAX: u64 = 1 << 20;

fn question(argument: Option<String>) -> Result<String, Error> {
    let mut input = io::stdin().lock();
    match argument {
        Some(sql) if sql != "-" => Ok(sql),
        None if input.is_terminal() => Err(Error::usage("there is no SQL")
            .hint("blkkin sql 'SELECT count(*) FROM spans', or see blkkin sql --help")),
        _ => {
            let mut sql = String::new();
            let read = input.by_ref().take(INPUT_MAX).read_to_string(&mut sql);
            read.map_err(|error| Error::failed(format!("cannot read the SQL: {error}")))?;
            Ok(sql)
        }
    }
}

fn conclude(summary: &Summary, limit: usize) -> Exit {
    for damaged in &summary.left_out {
        exit::warn(&format!("left out: {damaged}"));
    }
    if summary.is_cut {
        let rows = plural(limit as u64, "row");
        exit::note(&format!("only the first {rows} shown; --limit shows more"));
    }
    if summary.left_out.is_empty() { Exit::Ok } else { Exit::Failed }
}

fn told(error: &blkkin_sql::Error, sql: &str) -> Error {
    let mut message = error.to_string();
    if let Some(place) = error.place() {
        message.push_str(&format!(", at line {}, column {}", place.line, place.column));
    }
    if let Some(excerpt) = error.excerpt(sql) {
        message.push_str(&format!("\n{excerpt}"));
    }
    let told = if error.is_usage() { Error::usage(message) } else { Error::failed(message) };
    match error.what_to_do() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

fn tables() -> String {
    let mut text = String::new();
    for table in &TABLES {
        let mut columns = Table::new(&[
            (table.name, Align::Left),
            ("", Align::Left),
            (table.meaning, Align::Left),
        ]);
        for column in table.columns {
            columns.row(vec![
                format!("  {}", column.name).into(),
                column.kind.into(),
                column.meaning.into(),
            ]);
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&columns.print(false));
    }
    text
}
