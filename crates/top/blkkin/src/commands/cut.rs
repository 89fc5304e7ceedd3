//! `blkkin cut`: writes a time range or a selection of events as new traces.

use super::write::{self, OutputArgs};
use crate::exit::{Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use blkkin_rewrite::Form;

/// Write a part of traces: a time range, or the events that a filter selects
///
/// The result is a trace (or a directory of traces, if there are several at the paths) in the same
/// version of CTF, with the same event classes and environment. It has a UUID of its own, so it can
/// be read together with its source. Losses that overlap the time range appear in the new trace as
/// in the source, even if they extend beyond the range, since nobody knows how many events were
/// lost within it. Events that were not selected do not count as lost.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin cut --begin 12:30 --end 12:31 TRACE -o minute\n  \
        blkkin cut --begin +1s --end +1.5s TRACE -o part      from the trace's start\n  \
        blkkin cut --filter 'name == \"zipkin:*\"' TRACE -o spans\n  \
        blkkin cut --filter 'pid == 4711 && ret < 0' --json TRACE -o failed",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    select: SelectArgs,

    /// Read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Selection")]
    clock_gmt: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let select = &args.select;
    let all = [&select.begin, &select.end, &select.timerange, &select.filter];
    if all.iter().all(|option| option.is_none()) {
        return Err(Error::usage("nothing is said about which part to cut")
            .hint("give --begin, --end, --timerange or --filter; merge and convert copy all"));
    }
    write::run(&args.input, Some((select, args.clock_gmt)), &args.output, Form::Same)
}
