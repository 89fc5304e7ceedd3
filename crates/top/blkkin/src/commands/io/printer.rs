//! Output of operations: lines in one of three forms, sums at the end, and sums at intervals.

use super::live::{LiveView, LiveViewOptions};
use super::options::Format;
use super::plan::{Plan, View};
use crate::exit::{self, Error};
use crate::output::{self, EscapedOutput, ignore_closed_pipe, plural, raw_stdout, stderr};
use blkkin_io::{Counts, Operation, Summary, Tracker};
use blkkin_reader::{Consumer, Event, Loss, LossKind, Stream, Trace};
use blkkin_text::operations::{self, ColumnPrinter, SummaryOptions};
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Number of the slowest operations that a summary lists.
const SLOWEST_MAX: usize = 10;
/// Maximum number of rows of a summary.
const ROWS_MAX: usize = 1000;
/// Size in bytes from which on text is written at once.
const TEXT_SIZE_MAX: usize = 64 << 10;

/// Consumer of events that shows the operations in them.
pub(super) struct OperationPrinter {
    tracker: Tracker,
    form: Form,
    text: Vec<u8>,
    out: EscapedOutput<File>,
    wrote: io::Result<()>,
    limit: Option<u64>,
    shown: u64,
    has_color: bool,
    is_ascii: bool,
}

/// Form of the output, with its state.
enum Form {
    Columns(ColumnPrinter),
    Json,
    AppTrace,
    Sums { sums: Summary, is_json: bool },
    Live(Box<LiveView>),
}

impl OperationPrinter {
    pub(super) fn new(plan: &Plan<'_>) -> Result<OperationPrinter, Error> {
        let is_ascii = !output::locale_is_utf8();
        let has_color = plan.color.applies(&io::stdout());
        let mut text = Vec::new();
        let is_json = match plan.view {
            Some(View::Lines(format)) => format == Format::Json,
            Some(View::Sums { is_json } | View::Live { is_json, .. }) => is_json,
            None => false,
        };
        if is_json {
            operations::json_begin(&mut text);
        }
        let form = match plan.view {
            Some(View::Lines(Format::Columns)) | None => {
                let columns = ColumnPrinter::new(is_ascii);
                if plan.view.is_some() {
                    columns.header(&mut text);
                }
                Form::Columns(columns)
            }
            Some(View::Lines(Format::Json)) => Form::Json,
            Some(View::Lines(Format::AppTrace)) => Form::AppTrace,
            Some(View::Sums { is_json }) => Form::Sums { sums: Summary::new(SLOWEST_MAX), is_json },
            Some(View::Live { window, interval, count, is_json }) => {
                let has_keys = plan.programs.is_none_or(|programs| programs.run.is_empty());
                let options =
                    LiveViewOptions { window, interval, count, is_json, has_color, has_keys };
                Form::Live(Box::new(LiveView::new(options)?))
            }
        };
        Ok(OperationPrinter {
            tracker: Tracker::new(),
            form,
            text,
            out: raw_stdout()?,
            wrote: Ok(()),
            limit: plan.limit,
            shown: 0,
            has_color,
            is_ascii,
        })
    }

    /// Returns the number of operations shown or summed up.
    pub(super) fn operations(&self) -> u64 {
        self.shown
    }

    /// Returns true once the output has failed, the limit is reached, or the user has ended it.
    pub(super) fn is_over(&self) -> bool {
        let is_ended = matches!(&self.form, Form::Live(live) if live.is_over());
        is_ended || self.wrote.is_err() || self.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Writes the text so far, and draws what is drawn at intervals.
    pub(super) fn update(&mut self) -> Result<(), Error> {
        if let Form::Live(live) = &mut self.form
            && let Err(error) = live.update(&mut self.text)
            && self.wrote.is_ok()
        {
            self.wrote = Err(error);
        }
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
        match &mut self.form {
            Form::Columns(columns) => columns.print(&mut self.text, operation),
            Form::Json => operations::json(&mut self.text, operation),
            Form::AppTrace => operations::app_trace(&mut self.text, operation),
            Form::Sums { sums, .. } => sums.add(operation),
            Form::Live(live) => live.add(operation),
        }
        if self.text.len() >= TEXT_SIZE_MAX {
            self.write_text();
        }
    }

    /// Shows the requests to disks that belong to no operation.
    fn show_disk_requests(&mut self) {
        for request in self.tracker.take_disk_requests() {
            match &mut self.form {
                Form::Columns(columns) => columns.disk_request(&mut self.text, &request),
                Form::Json => operations::disk_request_json(&mut self.text, &request),
                Form::AppTrace => {}
                Form::Sums { sums, .. } => sums.add_disk_request(&request),
                Form::Live(live) => live.add_disk_request(&request),
            }
            if self.text.len() >= TEXT_SIZE_MAX {
                self.write_text();
            }
        }
    }

    /// Writes the rest, the sums at the end, and warnings of what is missing in them.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.tracker.finish();
        self.show_disk_requests();
        match &mut self.form {
            Form::Sums { sums, is_json: true } => operations::summary_json(&mut self.text, sums),
            Form::Sums { sums, is_json: false } => {
                let (color, ascii) = (self.has_color, self.is_ascii);
                let options = SummaryOptions { color, ascii, rows_max: ROWS_MAX };
                self.text.extend_from_slice(operations::summary(sums, &options).as_bytes());
            }
            Form::Live(live) => live.finish(&mut self.text),
            _ => {}
        }
        self.write_text();
        let wrote = std::mem::replace(&mut self.wrote, Ok(()));
        ignore_closed_pipe(wrote)?;
        ignore_closed_pipe(self.out.flush())?;
        warnings(&self.tracker.counts()).iter().for_each(|warning| exit::warn(warning));
        Ok(())
    }
}

/// Returns the warnings for counters of events and state that are not in the output.
fn warnings(counts: &Counts) -> Vec<String> {
    let drops = counts.drops;
    let mut warnings = Vec::new();
    let mut warn = |count: u64, what: &str, why: &str| {
        if count > 0 {
            warnings.push(format!("{} {why}", plural(count, what)));
        }
    };
    warn(counts.malformed, "event", "left out: a time, a process id or an argument is missing");
    warn(
        drops.processes,
        "process state",
        "dropped to save memory; paths of these processes may be missing",
    );
    warn(drops.descriptors, "descriptor", "dropped to save memory; their paths are missing");
    warn(counts.dropped_requests, "request", "of io_uring left out: too many had not completed");
    warn(
        counts.unheld_requests,
        "request",
        "to disks shown without their operation: too many waited for the end of theirs",
    );
    warnings
}

impl Consumer for OperationPrinter {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        if self.is_over() {
            return ControlFlow::Break(());
        }
        let operation = self.tracker.event(event);
        self.show_disk_requests();
        if let Some(operation) = operation {
            self.show(&operation);
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        self.tracker.lost();
        // A drawing has the number; a line would disturb it.
        if let Form::Live(live) = &mut self.form {
            live.lost(loss.count.unwrap_or(1));
            return ControlFlow::Continue(());
        }
        self.write_text();
        let what = if loss.kind == LossKind::Events { "event" } else { "packet" };
        let count = loss.count.map_or_else(|| format!("some {what}s"), |count| plural(count, what));
        let _ = writeln!(stderr(), "lost here: {count}");
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_io::Drops;

    #[test]
    fn warnings_name_what_is_missing() {
        assert_eq!(warnings(&Counts::default()), Vec::<String>::new());
        let drops = Drops { processes: 0, descriptors: 1 };
        let counts = Counts {
            malformed: 2,
            drops,
            dropped_requests: 3,
            unheld_requests: 4,
            ..Counts::default()
        };
        let warnings = warnings(&counts);
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        assert!(warnings[0].starts_with("2 events left out"), "{warnings:?}");
        assert!(warnings[1].starts_with("1 descriptor dropped"), "{warnings:?}");
        assert!(warnings[2].starts_with("3 requests of io_uring"), "{warnings:?}");
        assert!(warnings[3].starts_with("4 requests to disks"), "{warnings:?}");
    }
}
