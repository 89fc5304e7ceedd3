//! Recording to make, and form of its output, as the options of a command describe them.

use super::live::Window;
use super::options::{Args, Format, Programs};
use crate::output::ColorChoice;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

/// Interval between two drawings of the sums of `blkkin io` on a terminal.
const DRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Recording to make, and form of its output.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    /// Programs to record; `None` if traces are read.
    pub(super) programs: Option<&'a Programs>,
    /// Directory of the trace to write.
    pub(super) output: Option<&'a Path>,
    /// Form of the output; `None` to record only.
    pub(super) view: Option<View>,
    /// Number of operations after which the output ends.
    pub(super) limit: Option<u64>,
    pub(super) color: ColorChoice,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// A line for each operation.
    Lines(Format),
    /// Sums at the end.
    Sums { is_json: bool },
    /// Sums at intervals.
    Live { window: Window, interval: Duration, count: Option<u64>, is_json: bool },
}

impl Plan<'_> {
    /// Returns the plan for the options of `blkkin io`.
    pub(super) fn of(args: &Args) -> Plan<'_> {
        let format = if args.json { Format::Json } else { args.format.unwrap_or_default() };
        let is_json = format == Format::Json;
        let has_screen = io::stdout().is_terminal() && !is_json && args.from.is_empty();
        let has_view = args.output.is_none() || args.format.is_some() || args.json || args.summary;
        let view = match args.summary {
            true if has_screen => {
                View::Live { window: Window::Whole, interval: DRAW_INTERVAL, count: None, is_json }
            }
            true => View::Sums { is_json },
            false => View::Lines(format),
        };
        Plan {
            programs: Some(&args.programs).filter(|_| args.from.is_empty()),
            output: args.output.as_deref(),
            view: has_view.then_some(view),
            limit: args.limit,
            color: args.color,
        }
    }
}
