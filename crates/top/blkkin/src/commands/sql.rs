//! `blkkin sql`: SQL queries over the spans of a store.

use crate::directories::state_directory;
use crate::exit::{self, Error, Exit};
use crate::output::{ignore_closed_pipe, plural, write};
use crate::table::{Align, Table};
use crate::values;
use blkkin_sql::{EXAMPLES, Format, Options, Printer, Summary, TABLES, run as answer};
use std::io::{self, BufWriter, IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

/// Query a store of spans in SQL
///
/// The tables are spans, annotations, tags, links, requests, services, own_time and disk_time;
/// `--tables` lists their columns. All features of SELECT are available (joins, WITH, window
/// functions, percentiles, dates, regular expressions, JSON), and EXPLAIN, SHOW TABLES and
/// DESCRIBE. Queries never change anything, and read no other file.
///
/// Queries see all spans that the store has acknowledged, whether its server runs or not: those in
/// files, and those that are only in the journal so far.
#[derive(clap::Args, Debug)]
#[command(before_help = examples(), after_help = format!("{NOTES}{}", crate::help::EXIT_HELP))]
pub(crate) struct Args {
    /// The query; `-`, or no argument if standard input is not a terminal, reads standard input
    #[arg(value_name = "SQL")]
    sql: Option<String>,

    /// Store directory [default: as for `blkkin server`]
    #[arg(long, value_name = "DIR", help_heading = "Input")]
    data: Option<PathBuf>,

    /// Leave out damaged files and parts of the journal, and name them; all files are checked
    /// completely first
    #[arg(long, help_heading = "Input")]
    skip_damaged: bool,

    /// List tables and columns with their meaning
    #[arg(long, conflicts_with = "sql", help_heading = "Output")]
    tables: bool,

    /// Format of the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, help_heading = "Output")]
    format: FormatChoice,

    /// Maximum number of rows to print; 0: all
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits")]
    limit: usize,

    /// Maximum time for the query
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "60",
        value_parser = values::seconds,
        help_heading = "Limits"
    )]
    timeout: Duration,

    /// Maximum memory for the query
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
    /// Aligned columns; durations (columns that end with _ns, also in max(…) and the like) with a
    /// unit
    #[default]
    Table,
    /// One row a line; NULL is nothing, an empty text is ""
    Csv,
    /// One list of objects
    Json,
    /// One object a line
    Ndjson,
}

/// Text after the options on the help page.
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
        ignore_closed_pipe(write(&tables()))?;
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
        Err(error) => Err(to_error(&error, &sql)),
    }
}

fn directory(data: Option<PathBuf>) -> Result<PathBuf, Error> {
    data.or_else(|| state_directory("spans")).ok_or_else(|| {
        Error::usage("there is no home to look for a store in").hint("--data DIR says where it is")
    })
}

/// Maximum number of bytes read from standard input; longer SQL is refused anyway.
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

fn to_error(error: &blkkin_sql::Error, sql: &str) -> Error {
    let mut message = error.to_string();
    if let Some(place) = error.place() {
        message.push_str(&format!(", at line {}, column {}", place.line, place.column));
    }
    if let Some(excerpt) = error.excerpt(sql) {
        message.push_str(&format!("\n{excerpt}"));
    }
    let reported = if error.is_usage() { Error::usage(message) } else { Error::failed(message) };
    match error.hint_text() {
        Some(hint) => reported.hint(hint),
        None => reported,
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
