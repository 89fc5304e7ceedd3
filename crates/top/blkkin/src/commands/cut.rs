//! `blkkin cut`: a part of traces as traces.

use super::write::{self, OutputArgs};
use crate::exit::{Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use blkkin_rewrite::Form;

/// Write a part of traces: a span of time, or the events that a filter selects
///
/// The result is a trace (or a directory of some, as many as there are at the paths) with the same
/// metadata, which every reader of CTF takes. It has a UUID of its own, so that it may be read
/// beside its source. Losses that the span touches are told by the new trace as by the source, also
/// where they go beyond the span, since nobody knows how many events were lost within it. Events
/// that were not selected do not count as lost.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin cut --begin 12:30 --end 12:31 TRACE -o minute\n  \
        blkkin cut --begin +1s --end +1.5s TRACE -o part      from the trace's start\n  \
        blkkin cut --filter 'name == \"zipkin:*\"' TRACE -o spans\n  \
        blkkin cut --filter 'pid == 4711 && ret < 0' --json TRACE -o failed",
    after_help = crate::EXIT_HELP
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
