//! Errors in filters, as displayed to users: on one line ([`std::fmt::Display`]), or on several
//! lines with the faulty part underlined ([`FilterError::render`]).

use crate::fault::Fault;
use crate::tree::Span;
use std::fmt;

/// Maximum number of characters of a line that an error shows.
const WIDTH_MAX: usize = 100;
/// Number of characters before the error in the excerpt of a longer line. Near the start of the
/// line there are fewer, near its end more.
const CONTEXT_WIDTH: usize = 40;
/// Number of characters after which a message or a hint is cut off. Both may quote names as long as
/// the filter.
const MESSAGE_CHARS_MAX: usize = 300;
const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[1;36m";
const RESET: &str = "\x1b[0m";

/// Error in a filter, with its position in the filter's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Faulty range of the filter's text.
    pub span: Span,
    /// Message for users, in lower case and without a full stop.
    pub message: String,
    /// Suggested remedy; `None` if none is known. It is shown after the message.
    pub hint: Option<String>,
    /// Line of the filter's text in which the span starts; empty for a filter that is too long.
    line: String,
    /// Number of the line in which the span starts, from 1.
    line_number: usize,
    /// True if the filter's text contains a newline; false for a filter that is too long.
    multiline: bool,
    /// Faulty range within `line`, in bytes.
    place: Span,
}

impl FilterError {
    /// Makes an error from a fault in the filter text `text`. A filter that is too long is passed
    /// as an empty text.
    pub(crate) fn new(text: &str, fault: Fault) -> FilterError {
        let Fault { span, message, hint } = fault;
        let start = floor_char_boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
        let end = floor_char_boundary(text, span.end).clamp(start, line_end.max(start));
        FilterError {
            span,
            message: shorten(message),
            hint: hint.map(shorten),
            line: text[line_start..line_end].to_string(),
            line_number: text[..start].matches('\n').count() + 1,
            multiline: text.contains('\n'),
            place: Span { start: start - line_start, end: end - line_start },
        }
    }

    /// Formats the error as lines for a terminal: the message, the faulty line with the faulty part
    /// underlined, and the hint. An empty faulty line and a missing hint are omitted. With `color`,
    /// the text has ANSI escapes. There is no newline at the end.
    pub fn render(&self, color: bool) -> String {
        let paint = |text: &str, style: &str| match color {
            true => format!("{style}{text}{RESET}"),
            false => text.to_string(),
        };
        let mut output = format!("{}: {}", paint("bad filter", RED), self.message);
        if !self.line.is_empty() {
            let (excerpt, indent, width) = self.excerpt();
            let underline = paint(&"^".repeat(width), RED);
            output += &format!("\n  {excerpt}\n  {}{underline}", " ".repeat(indent));
        }
        if let Some(hint) = &self.hint {
            output += &format!("\n{}: {hint}", paint("hint", CYAN));
        }
        output
    }

    /// Returns the text to show, and the column and width of the underline. The text is the line
    /// or, if that is too long, the part around the error.
    fn excerpt(&self) -> (String, usize, usize) {
        let columns = |text: &str| text.chars().count();
        let indent = columns(&self.line[..self.place.start]);
        let width = columns(&self.line[self.place.start..self.place.end]).max(1);
        // Replaces the filter's control characters, which must not reach the terminal.
        let plain = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        let length = columns(&self.line);
        if length <= WIDTH_MAX {
            return (self.line.chars().map(plain).collect(), indent, width);
        }
        let skipped = indent.saturating_sub(CONTEXT_WIDTH).min(length.saturating_sub(WIDTH_MAX));
        let shown = self.line.chars().skip(skipped).take(WIDTH_MAX).map(plain);
        let mut excerpt: String = if skipped > 0 { "…".into() } else { String::new() };
        let indent = indent - skipped + columns(&excerpt);
        excerpt.extend(shown);
        if skipped + WIDTH_MAX < length {
            excerpt.push('…');
        }
        (excerpt, indent, width.min(WIDTH_MAX.saturating_sub(indent).max(1)))
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.multiline {
            write!(f, "line {}, ", self.line_number)?;
        }
        let column = self.line[..self.place.start].chars().count() + 1;
        write!(f, "column {column}: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FilterError {}

fn shorten(text: String) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the last character boundary of `text` at or before `index`.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}
