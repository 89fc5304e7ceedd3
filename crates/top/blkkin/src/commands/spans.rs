//! `blkkin spans`: assembles requests from events, and prints them as trees or JSON or sends them
//! to another system.

mod delivery;
mod follow;
mod printing;

use crate::exit::{self, Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use crate::interrupt::Interrupt;
use crate::output::{ColorChoice, describe_losses, ignore_closed_pipe, plural};
use crate::progress::ProgressLine;
use crate::values;
use blkkin_reader::{Reading, Stats};
use blkkin_spans::{Collector, Limits};
use blkkin_text::time::parse_duration;
use delivery::DeliveryArgs;
use printing::Printing;
use std::io::{self, IsTerminal};

/// Show requests: their spans, when each was, and for how long
///
/// Requests are assembled from the events of blkin's library (`zipkin:*`, in LTTng's traces too),
/// of BlkKin's own (`blkkin:*`) and of programs that use the `tracing` crate. Each request is a
/// line, followed by its spans, each with its duration, its own time (not covered by a span below
/// it), and a bar that shows when it was. Anomalies are shown: missing parents, clocks that
/// disagree.
///
/// A request is complete when no event has come for it for a while. So memory does not grow with
/// the trace; a request that is evicted early is shown, and marked as incomplete.
///
/// With --to, spans are not printed but sent to Zipkin, Scribe or any receiver of OpenTelemetry's
/// protocol, and counted: each span is delivered, dropped for a reason, or still waiting.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin spans ~/lttng-traces/my-session\n  \
        blkkin spans --min-duration 5ms --service osd.3 TRACE   only slow ones, of that service\n  \
        blkkin spans --annotations --limit 1 TRACE              the first, with all that was said\n  \
        blkkin spans --follow ~/lttng-traces/my-session         as they become complete\n  \
        blkkin spans NODE1 NODE2 --correct-skew                 nodes whose clocks disagree\n  \
        blkkin spans --json TRACE | jq -c 'select(.type == \"span\") | [.service, .name, .duration]'\n  \
        blkkin spans --to http://zipkin:9411 TRACE              to Zipkin\n  \
        blkkin spans --to otlps://collector --header-file key --queue q --follow TRACE\n  \
        blkkin spans --to otlps://collector --header-file key --queue q   what still waits there",
    after_help = crate::help::EXIT_HELP,
    mut_arg("paths", |paths| paths.required(false).required_unless_present("queue"))
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    to: DeliveryArgs,

    /// Only requests with a span of this service
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    service: Option<String>,

    /// Only requests that took at least this long: 5ms, 1.5s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Selection")]
    min_duration: Option<u64>,

    /// Stop after this many requests
    #[arg(long, value_name = "N", help_heading = "Selection")]
    limit: Option<u64>,

    /// Keep reading while the recording grows, until Ctrl-C
    ///
    /// Events appear when their packet is complete; see `blkkin view --help`.
    #[arg(long, help_heading = "Input")]
    follow: bool,

    /// Treat a request as complete after this time without an event [default: 30s in the time of
    /// the trace; with --follow, 5s of real time]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Requests")]
    idle: Option<u64>,

    /// Memory for requests that are not complete, in bytes
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        default_value = "256M",
        help_heading = "Requests"
    )]
    memory: u64,

    /// Shift a server's spans if they seem to start before its client's
    ///
    /// A span is shifted to the middle of the call or, if it is longer than the call or a duration
    /// is unknown, to the call's start, as in Zipkin. Shifted spans are marked; no duration
    /// changes.
    #[arg(long, help_heading = "Requests")]
    correct_skew: bool,

    /// Draw requests as trees; the default without --json and --to
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    tree: bool,

    /// Print one JSON object a line: the traces, each request and each of its spans, the totals;
    /// with --to, only the totals
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Show the annotations below each span
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    annotations: bool,

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

impl Args {
    fn limits(&self) -> Limits {
        let usual = Limits::default();
        let idle = if self.follow { 5_000_000_000 } else { usual.idle_ns };
        let bytes = usize::try_from(self.memory).unwrap_or(usize::MAX);
        Limits {
            idle_ns: self.idle.unwrap_or(idle),
            bytes,
            bytes_of_request: usual.bytes_of_request.min(bytes / 2),
            correct_skew: self.correct_skew,
            ..usual
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let interrupt = Interrupt::listen()?;
    if args.follow {
        return follow::run(&args, &interrupt);
    }
    let opened = args.input.open()?;
    let reading = Reading::new(&opened.traces);
    let color = args.color.applies(&io::stderr());
    let selection = args.select.resolve(&opened.traces, args.clock_gmt, color)?;
    let asked = interrupt.clone();
    let reading = selection.apply(reading).stop_when(move || asked.is_set());
    let quiet = io::stdout().is_terminal();
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), quiet);

    let mut printing = Printing::new(&args, &interrupt)?;
    printing.begin(&opened.traces);
    let mut collector = Collector::new(args.limits(), printing);
    let mut stats =
        if collector.sink.is_over() { Stats::default() } else { reading.ordered(&mut collector) };
    drop(line);
    if !collector.sink.is_over() {
        let _ = collector.finish();
    }
    stats.problems.splice(0..0, opened.problems.iter().cloned());
    conclude(collector, &stats, &interrupt)
}

/// Prints totals, losses and problems; returns the exit status.
fn conclude(
    mut collector: Collector<Printing>,
    stats: &Stats,
    interrupt: &Interrupt,
) -> Result<Exit, Error> {
    let (counts, others) = (collector.counts(), collector.unrelated_events());
    let refusals = collector.refusals().clone();
    let printing = &mut collector.sink;
    printing.end(&blkkin_text::requests::json::End {
        counts,
        shown: printing.shown(),
        refusals: &refusals,
        others,
        stats,
    });
    let shown = printing.shown();
    let wrote = printing.take_error();
    if wrote.is_err() {
        ignore_closed_pipe(wrote)?;
        // The output's pipe is closed, so the remaining messages do not matter.
        return Ok(exit::report_problems(&stats.problems));
    }
    if refusals.events > 0 {
        exit::warn(&refusals.to_string());
    }
    if counts.evicted > 0 {
        let evicted = plural(counts.evicted, "request");
        exit::warn(&format!(
            "{evicted} shown before complete: the memory was full; see --memory and --idle"
        ));
    }
    if counts.left_out > 0 {
        let (cut, left_out) = (plural(counts.cut, "request"), plural(counts.left_out, "event"));
        exit::warn(&format!("{left_out} left out of {cut} that would be too large"));
    }
    if counts.events == 0 && stats.events > 0 {
        let events = plural(stats.events, "event");
        exit::note(&format!("no request: none of {events} says anything of spans"));
    }
    if let Some(lost) = describe_losses(stats) {
        let shown = plural(shown, "request");
        exit::note(&format!("lost by the tracer in all: {lost} ({shown} shown)"));
    }
    let delivered = collector.sink.report_delivery();
    let exit = match exit::report_problems(&stats.problems) {
        Exit::Ok => delivered,
        failed => failed,
    };
    Ok(if interrupt.is_set() { Exit::Interrupted } else { exit })
}
