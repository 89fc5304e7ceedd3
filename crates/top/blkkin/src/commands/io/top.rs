//! `blkkin top io`: sums of operations at intervals.

use super::live::Window;
use super::options::Programs;
use super::plan::{Plan, View};
use crate::exit::{Error, Exit};
use crate::output::ColorChoice;
use crate::values;
use std::time::Duration;

/// Minimum time between two drawings.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Show the file and network operations of programs, summed up by program, operation and file
///
/// On a terminal, the sums of the last interval fill the screen, with the slowest operations below;
/// elsewhere a table follows the other. If no programs are given, all are shown except this one.
/// Keys: q ends, s changes the order of the rows, p pauses, the arrows show other rows. They are
/// not read while a command runs, which may need them itself.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin top io                                   all programs\n  \
        blkkin top io --app postgres --interval 5       some programs, every 5 seconds\n  \
        blkkin top io --count 1 --json | jq .path       the sums of one second as JSON",
    after_help = TOP_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    programs: Programs,

    /// Time that is summed up
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        default_value = "1",
        value_parser = values::seconds,
        help_heading = "Output"
    )]
    interval: Duration,

    /// End after this many intervals
    #[arg(short = 'n', long, value_name = "N", help_heading = "Output")]
    count: Option<u64>,

    /// Print JSON: a line of the type interval, then the sums and the slowest operations
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    color: ColorChoice,
}

/// Text after the options on the help page.
const TOP_HELP: &str = "Exit status: 0, or that of the command; 3 if events were lost, and the command succeeded or \
    there was none; 1 something failed, 2 wrong usage, 126 or 127 the command cannot be run, 130 ended by Ctrl-C.";

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    if args.interval < INTERVAL_MIN {
        return Err(Error::usage("--interval is at least 0.05 seconds"));
    }
    if args.count == Some(0) {
        return Err(Error::usage("--count is at least 1"));
    }
    let Args { interval, count, json: is_json, color, .. } = *args;
    let view = Some(View::Live { window: Window::Interval, interval, count, is_json });
    let programs = Some(&args.programs);
    super::record(&Plan { programs, output: None, view, limit: None, color })
}
