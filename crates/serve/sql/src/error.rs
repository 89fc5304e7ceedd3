//! Errors of queries: message, position in the SQL, and hint. Start at [`Error`].

use crate::removed_functions;
use crate::views;
use blkkin_filter::suggest;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError, Span};
use datafusion::sql::sqlparser::parser::ParserError;
use std::fmt;

/// Error that ends a query, with a message for the user.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    place: Option<Position>,
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Usage,
    Failed,
    /// A span file cannot be read or decoded.
    Data,
    Stopped,
    Output(std::io::ErrorKind),
}

/// Position of an error in the SQL text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line number, starting at 1.
    pub line: usize,
    /// Column in characters, starting at 1.
    pub column: usize,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), place: None, hint: None }
    }

    /// Creates an error for SQL that is invalid or not permitted.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::new(Kind::Usage, message)
    }

    /// Creates an error for a failure to read the store or to run the query.
    pub(crate) fn failed(message: impl Into<String>) -> Error {
        Error::new(Kind::Failed, message)
    }

    /// Creates an error for a query that exceeded a limit.
    pub(crate) fn stopped(message: impl Into<String>) -> Error {
        Error::new(Kind::Stopped, message)
    }

    /// Creates an error for a query that exceeded the memory limit.
    pub(crate) fn too_much_memory() -> Error {
        Error::stopped("the query needs more memory than it may use")
            .hint("ask for less: fewer columns, a shorter time, a LIMIT; or raise --memory")
    }

    /// Creates an error for a failure to write the result.
    pub(crate) fn output(error: std::io::Error) -> Error {
        Error::new(Kind::Output(error.kind()), format!("cannot write output: {error}"))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    fn at(mut self, place: Option<Position>) -> Error {
        self.place = place;
        self
    }

    pub(crate) fn is_of_data(&self) -> bool {
        self.kind == Kind::Data
    }

    /// Returns whether the result cannot be written because its reader has closed the pipe.
    pub fn is_closed_pipe(&self) -> bool {
        self.kind == Kind::Output(std::io::ErrorKind::BrokenPipe)
    }

    /// Returns whether the query failed because the SQL is invalid or not permitted.
    pub fn is_usage(&self) -> bool {
        self.kind == Kind::Usage
    }

    /// Returns whether the query exceeded a limit of time or memory.
    pub fn is_stopped(&self) -> bool {
        self.kind == Kind::Stopped
    }

    /// Returns the position of the error in the SQL; `None` if unknown.
    pub fn place(&self) -> Option<Position> {
        self.place
    }

    /// Returns a hint that tells the user how to avoid the error; `None` if no hint is known.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns up to 120 characters of the faulty line of the SQL, around the error, and below them
    /// a caret at the position of the error. `None` if the position is unknown, or if its line is
    /// not in `sql`.
    pub fn excerpt(&self, sql: &str) -> Option<String> {
        const AROUND: usize = 60;
        let place = self.place?;
        let line: Vec<char> = sql.lines().nth(place.line.checked_sub(1)?)?.chars().collect();
        let at = place.column.checked_sub(1)?.min(line.len());
        let (from, to) = (at.saturating_sub(AROUND), line.len().min(at + AROUND));
        let shown = line[from..to].iter().map(|c| if c.is_control() { ' ' } else { *c });
        Some(format!("  {}\n  {}^", shown.collect::<String>(), " ".repeat(at - from)))
    }
}

const TABLES_HINT: &str = "`blkkin sql --tables` lists tables and columns";

/// Conversion of DataFusion's errors. Frequent user errors get clearer messages.
impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Error {
        let place = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(place_of);
        match root(&error) {
            DataFusionError::SQL(error, _) => from_parser(error),
            DataFusionError::SchemaError(error, _) => from_schema(error).at(place),
            DataFusionError::ResourcesExhausted(_) => Error::too_much_memory(),
            DataFusionError::ParquetError(error) => Error::new(Kind::Data, error.to_string()),
            DataFusionError::ArrowError(error, _) => from_arrow(error),
            DataFusionError::Plan(text) => from_plan(text).at(place),
            DataFusionError::NotImplemented(text) => Error::usage(first_line(text)).at(place),
            DataFusionError::Execution(text) => Error::failed(first_line(text)).at(place),
            other => Error::failed(first_line(&other.strip_backtrace())),
        }
    }
}

fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(all) => all.first().map_or(error, root),
        DataFusionError::External(inner) => inner.downcast_ref().map_or(error, root),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => inner.downcast_ref().map_or(error, root),
            _ => error,
        },
        error => error,
    }
}

fn place_of(span: Span) -> Position {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Position { line: number(span.start.line), column: number(span.start.column) }
}

/// Converts an Arrow error. The wrapped error may be a decoding error of Parquet, without the
/// file's name.
fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ParquetError(text) => Error::new(Kind::Data, text.as_str()),
        ArrowError::ExternalError(inner) if inner.is::<parquet::errors::ParquetError>() => {
            Error::new(Kind::Data, inner.to_string())
        }
        error => Error::failed(lowered(first_line(&error.to_string()))),
    }
}

/// Converts a parser error. The position is moved from the message to the field `place`.
fn from_parser(error: &ParserError) -> Error {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return Error::usage("the SQL is nested too deeply")
                .hint("at most 50 levels of parentheses, subqueries and the like are read");
        }
    };
    let (what, place) = match text.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, parse_place(place)),
        None => (text.as_str(), None),
    };
    Error::usage(format!("this is no SQL: {}", lowered(first_line(what)))).at(place)
}

/// Parses a position in a parser's message, such as `1, Column: 8`.
fn parse_place(text: &str) -> Option<Position> {
    let (line, column) = text.split_once(", Column: ")?;
    Some(Position { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
}

fn from_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => no_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            Error::usage(format!("several tables have a column `{}`", field.name))
                .hint(format!("say which is meant, such as spans.{}", field.name))
        }
        other => Error::usage(lowered(&other.to_string())),
    }
}

fn no_column(field: &Column, valid: &[Column]) -> Error {
    let names = || valid.iter().map(|column| column.name.as_str());
    // SQL reads text in double quotes as a column name, but users often quote a text value so.
    let quotes = format!("a text is written in single quotes: '{}'", field.name);
    let is_text = field.relation.is_none() && !field.name.bytes().all(is_of_name);
    let hint = match suggest(&field.name, names()) {
        Some(near) => format!("did you mean `{near}`? {TABLES_HINT}"),
        None if is_text => quotes,
        None if names().count() == 0 => TABLES_HINT.into(),
        None => {
            let all: Vec<&str> = names().take(40).collect();
            format!("there are {}; {quotes}", all.join(", "))
        }
    };
    Error::usage(format!("there is no column `{}`", field.name)).hint(hint)
}

fn is_of_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn from_plan(text: &str) -> Error {
    let first = first_line(text);
    if let Some(name) =
        first.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"))
    {
        let name = name.rsplit('.').next().unwrap_or(name);
        let hint = match suggest(name, views::names()) {
            Some(near) => format!("did you mean `{near}`? {TABLES_HINT}"),
            None => format!(
                "there are {}; {TABLES_HINT}",
                views::names().collect::<Vec<_>>().join(", ")
            ),
        };
        return Error::usage(format!("there is no table `{name}`")).hint(hint);
    }
    let function =
        first.strip_prefix("Invalid function '").and_then(|rest| rest.split('\'').next());
    if let Some(function) = function.filter(|name| removed_functions::is_removed(name)) {
        return Error::usage(format!("the function `{function}` is left out"))
            .hint("a short query could use up all memory by it");
    }
    let rest: Vec<&str> =
        text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = Error::usage(lowered(first));
    if rest.is_empty() { error } else { error.hint(lowered(&rest.join("; "))) }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text).trim()
}

/// Puts the first letter of another library's message in lower case, so that the message continues
/// a sentence. A text whose second character is not a lower-case letter, such as an acronym, is
/// unchanged.
fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if chars.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}
