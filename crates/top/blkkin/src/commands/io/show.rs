//! Output of operations: lines in one of three forms, and sums.

use super::options::{Args, Format};
use crate::exit::Error;
use crate::output::{self, EscapedOutput, ignore_closed_pipe, plural, raw_stdout, stderr, width};
use blkkin_io::{Grouping, Operation, Summary, Tracker};
use blkkin_reader::{Consumer, Event, Loss, LossKind, Stream, Trace};
use blkkin_text::operations::{self, ColumnPrinter, SummaryOptions};
use blkkin_text::time::TimeFormat;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

/// Number of the slowest operations that a summary lists.
const SLOWEST_MAX: usize = 10;
/// Maximum number of rows of a summary that is not drawn on a screen.
const ROWS_MAX: usize = 1000;
/// Rows of a screen if its height is unknown.
const SCREEN_ROWS: usize = 24;
/// Size in bytes from which on text is written at once.
const TEXT_SIZE_MAX: usize = 64 << 10;

/// Consumer of events that shows the operations in them.
pub(super) struct Shower {
    tracker: Tracker,
    format: Format,
    columns: ColumnPrinter,
    summary: Option<Summary>,
    text: Vec<u8>,
    out: EscapedOutput<File>,
    wrote: io::Result<()>,
    limit: Option<u64>,
    shown: u64,
    has_color: bool,
    is_ascii: bool,
    is_terminal: bool,
    /// Set once the sums were drawn on the terminal.
    has_drawn: bool,
}

impl Shower {
    pub(super) fn new(args: &Args) -> Result<Shower, Error> {
        let is_ascii = !output::locale_is_utf8();
        let is_terminal = io::stdout().is_terminal();
        let columns = ColumnPrinter::new(TimeFormat::Clock, false, is_ascii);
        let mut text = Vec::new();
        if args.format() == Format::Columns && !args.summary && args.has_view() {
            columns.header(&mut text);
        }
        Ok(Shower {
            tracker: Tracker::new(),
            format: args.format(),
            columns,
            summary: args.summary.then(|| Summary::new(SLOWEST_MAX)),
            text,
            out: raw_stdout()?,
            wrote: Ok(()),
            limit: args.limit,
            shown: 0,
            has_color: args.color.applies(&io::stdout()),
            is_ascii,
            is_terminal,
            has_drawn: false,
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the number of operations shown or summed up.
    pub(super) fn operations(&self) -> u64 {
        self.shown
    }

    /// Returns true once the output has failed or the limit is reached.
    pub(super) fn is_over(&self) -> bool {
        self.wrote.is_err() || self.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Writes the text so far.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.write_text();
        match &self.wrote {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let error = std::mem::replace(&mut self.wrote, Ok(()));
                Ok(error?)
            }
            _ => Ok(()),
        }
    }

    fn write_text(&mut self) {
        if self.wrote.is_ok() && !self.text.is_empty() {
            self.wrote = self.out.write_all(&self.text);
        }
        self.text.clear();
    }

    fn show(&mut self, operation: &Operation) {
        self.shown += 1;
        if let Some(summary) = &mut self.summary {
            return summary.add(operation);
        }
        match self.format {
            Format::Columns => self.columns.print(&mut self.text, operation),
            Format::Json => operations::json(&mut self.text, operation),
            Format::AppTrace => operations::app_trace(&mut self.text, operation),
        }
        if self.text.len() >= TEXT_SIZE_MAX {
            self.write_text();
        }
    }

    /// Draws the sums so far on the terminal.
    pub(super) fn draw(&mut self) -> Result<(), Error> {
        let rows = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row);
        let rows = if rows == 0 { SCREEN_ROWS } else { rows.into() };
        let Some(table) = self.table(rows.saturating_sub(2).max(1)) else { return Ok(()) };
        self.has_drawn = true;
        // Moves the cursor to the top left and clears the screen.
        self.text.extend_from_slice(b"\x1b[H\x1b[J");
        let width = width();
        for line in table.lines().take(rows.saturating_sub(1)) {
            // Lines with colour are not cut, as their codes have no width.
            let end = line.char_indices().nth(width).map_or(line.len(), |(end, _)| end);
            let line = if self.has_color { line } else { &line[..end] };
            self.text.extend_from_slice(line.as_bytes());
            self.text.push(b'\n');
        }
        self.flush()
    }

    fn table(&self, rows_max: usize) -> Option<String> {
        let summary = self.summary.as_ref()?;
        let grouping = Grouping { program: true, path: true, kind: true };
        let options = SummaryOptions { color: self.has_color, ascii: self.is_ascii, rows_max };
        Some(operations::summary(summary, &grouping, &options))
    }

    /// Writes the rest, and the sums at the end.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if let Some(summary) = &self.summary {
            match self.format {
                Format::Json => operations::summary_json(&mut self.text, summary),
                _ => {
                    let table = self.table(ROWS_MAX).unwrap_or_default();
                    if self.has_drawn {
                        self.text.extend_from_slice(b"\x1b[H\x1b[J");
                    }
                    self.text.extend_from_slice(table.as_bytes());
                }
            }
        }
        self.flush()?;
        ignore_closed_pipe(self.out.flush())?;
        Ok(())
    }
}

impl Consumer for Shower {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        if self.is_over() {
            return ControlFlow::Break(());
        }
        if let Some(operation) = self.tracker.event(event) {
            self.show(&operation);
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        self.tracker.lost();
        self.write_text();
        let what = if loss.kind == LossKind::Events { "event" } else { "packet" };
        let count = loss.count.map_or_else(|| format!("some {what}s"), |count| plural(count, what));
        let _ = writeln!(stderr(), "lost here: {count}");
        ControlFlow::Continue(())
    }
}
