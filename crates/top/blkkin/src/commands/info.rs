//! `blkkin info`: summary of traces.

use crate::exit::{self, Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use crate::output::{ColorChoice, ignore_closed_pipe, locale_is_utf8};
use crate::progress::ProgressLine;
use blkkin_reader::Reading;
use blkkin_text::info::{self, Collector, Options};
use std::io::{self, Write};

/// Show what traces hold: streams, event types with counts, rate over time, losses
///
/// With a selection, packets and losses count only where there are selected events.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin info ~/lttng-traces/my-session\n  \
        blkkin info --begin +1s --end +1.5s TRACE             half a second of it\n  \
        blkkin info --filter 'name == \"zipkin:*\"' TRACE       only some events\n  \
        blkkin info --json TRACE | jq '.events[] | [.name, .events]'",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    select: SelectArgs,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Show all traces, event types, streams and losses instead of the first ones
    #[arg(long, help_heading = "Output")]
    all: bool,

    /// Use only ASCII [default: if the locale is not UTF-8]
    #[arg(long, help_heading = "Output")]
    ascii: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    color: ColorChoice,

    /// Print and read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Times")]
    clock_gmt: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let opened = args.input.open()?;
    let traces = &opened.traces;
    let SelectArgs { begin, end, timerange, filter } = &args.select;
    let selected = [begin, end, timerange, filter].iter().any(|option| option.is_some());
    let color = args.color.applies(&io::stderr());
    let reading = Reading::new(traces).threads(args.input.threads());
    let reading = args.select.resolve(traces, args.clock_gmt, color)?.apply(reading);
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), false);
    let (collectors, mut stats) = reading.unordered(|| Collector::new(traces, selected));
    // Without a selection, the collectors record the start of each stream themselves.
    let origin = selected.then(|| reading.span()).flatten().map(|(first, _)| first);
    drop(line);
    let collection = Collector::finish(collectors, origin);
    stats.problems.splice(0..0, opened.problems);

    let text = if args.json {
        format!("{}\n", info::to_json(&collection, &stats.problems))
    } else if collection.traces.is_empty() {
        String::new()
    } else {
        let options = Options {
            color: args.color.applies(&io::stdout()),
            ascii: args.ascii || !locale_is_utf8(),
            all: args.all,
            utc: args.clock_gmt,
        };
        info::draw(&collection, &options)
    };
    let mut out = crate::output::stdout();
    ignore_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
    Ok(exit::report_problems(&stats.problems))
}
