//! `blkkin view`: prints events as text or JSON, or counts them.

mod follow;

use crate::exit::{self, Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use crate::interrupt::Interrupt;
use crate::output::{ColorChoice, describe_losses, ignore_closed_pipe, plural, raw_stdout, stderr};
use crate::progress::ProgressLine;
use blkkin_reader::{
    Consumer, Event, Loss, PacketView, Reading, Stats, Stream, Target, Trace, Unordered,
};
use blkkin_text::json::{self, JsonPrinter};
use blkkin_text::pretty::{Options, Printer};
use blkkin_text::time::TimeFormat;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

/// Print the events of traces, in order of time
///
/// The text is the same as babeltrace2's, byte for byte, so programs that parse its output still
/// work. Events that the tracer dropped are reported on standard error at their place, and in total
/// at the end.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin view ~/lttng-traces/my-session\n  \
        blkkin view --begin +1s --end +1.5s TRACE             half a second of it\n  \
        blkkin view --filter 'port_no == 6801 && key == \"rbd*\"' TRACE\n  \
        blkkin view --names all --fields all TRACE            everything there is\n  \
        blkkin view --json TRACE | jq -c 'select(.type == \"event\") | .fields'\n  \
        blkkin view --count TRACE                             only decode, and count\n  \
        cat metadata channel0_* | blkkin view -",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    select: SelectArgs,

    /// Stop after this many events
    #[arg(long, value_name = "N", help_heading = "Selection")]
    limit: Option<u64>,

    /// Keep reading while the recording grows, until Ctrl-C
    ///
    /// A packet is printed when it is complete. LTTng writes packets when they are full, after the
    /// channel's --switch-timer, and when the session is rotated or stopped. It writes metadata
    /// only when the session is rotated or stopped, and events of new types wait for that.
    #[arg(long, conflicts_with = "count", help_heading = "Input")]
    follow: bool,

    /// Print one JSON object a line: the traces, each event and loss, the totals
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Decode all events, but print only their number
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    count: bool,

    /// Print these before the fields: trace, trace:hostname, trace:domain, trace:procname,
    /// trace:vpid, loglevel, emf, all
    #[arg(short, long, value_name = "FIELD,…", value_delimiter = ',', help_heading = "Output")]
    fields: Vec<String>,

    /// Print names of: payload (args), context (ctx), header, scope, all, none
    #[arg(short, long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Output")]
    names: Vec<String>,

    /// Print times in cycles of the trace's clock
    #[arg(long, help_heading = "Times")]
    clock_cycles: bool,

    /// Print times with the date
    #[arg(long, help_heading = "Times")]
    clock_date: bool,

    /// Print and read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Times")]
    clock_gmt: bool,

    /// Print times in seconds since 1970
    #[arg(long, help_heading = "Times")]
    clock_seconds: bool,

    /// Do not print the time since the previous event
    #[arg(long, help_heading = "Times")]
    no_delta: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    color: ColorChoice,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let options = options(&args)?;
    if args.follow {
        return follow::run(&args, &options);
    }
    let opened = args.input.open()?;
    let color = args.color.applies(&io::stderr());
    let reading = Reading::new(&opened.traces).threads(args.input.threads()).limit(args.limit);
    let selection = args.select.resolve(&opened.traces, args.clock_gmt, color)?;
    let interrupt = Interrupt::listen()?;
    let asked = interrupt.clone();
    let reading = selection.apply(reading).stop_when(move || asked.is_set());
    let quiet = !args.count && io::stdout().is_terminal();
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), quiet);

    let mut out = io::BufWriter::with_capacity(64 << 10, raw_stdout()?);
    let mut wrote = Ok(());
    let mut keep = |result: io::Result<()>| match result {
        Ok(()) if interrupt.is_set() => ControlFlow::Break(()),
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            wrote = Err(error);
            ControlFlow::Break(())
        }
    };
    let mut pass_on = |target, text: &[u8]| match target {
        Target::Output => keep(out.write_all(text)),
        // Events are flushed first, so that a message appears at its place if both outputs are one
        // terminal.
        Target::Messages => keep(out.flush().and_then(|()| stderr().write_all(text))),
    };
    let mut stats = if args.count {
        count(&reading, args.limit.is_some())
    } else if args.json {
        let begin = json::begin(opened.traces.iter().map(|trace| &**trace));
        match pass_on(Target::Output, &begin) {
            ControlFlow::Break(()) => Stats::default(),
            ControlFlow::Continue(()) => reading.lines(JsonPrinter::default, pass_on),
        }
    } else {
        reading.lines(|| Printer::new(options.clone()), pass_on)
    };
    drop(line);
    stats.problems.splice(0..0, opened.problems.iter().cloned());
    let wrote = wrote.and_then(|()| match (args.count, args.json) {
        (true, _) => writeln!(out, "{}", stats.events),
        (_, true) => out.write_all(&json::end(&stats)),
        _ => Ok(()),
    });
    let wrote = wrote.and_then(|()| out.flush());
    if wrote.is_err() {
        ignore_closed_pipe(wrote)?;
        // The output's pipe is closed, so the remaining messages do not matter.
        return Ok(exit::report_problems(&opened.problems));
    }
    Ok(conclude(&stats, &interrupt))
}

/// Reports losses and problems after the reading; returns the exit status.
fn conclude(stats: &Stats, interrupt: &Interrupt) -> Exit {
    report_losses(stats);
    let exit = exit::report_problems(&stats.problems);
    if interrupt.is_set() { Exit::Interrupted } else { exit }
}

fn options(args: &Args) -> Result<Options, Error> {
    let mut options = Options {
        time: match args {
            Args { clock_cycles: true, .. } => TimeFormat::Cycles,
            Args { clock_seconds: true, .. } => TimeFormat::Seconds,
            Args { clock_date: true, .. } => TimeFormat::Date,
            _ => TimeFormat::Clock,
        },
        utc: args.clock_gmt,
        delta: !args.no_delta,
        color: args.color.applies(&io::stdout()),
        ..Options::default()
    };
    if !args.names.is_empty() {
        let all = args.names.iter().any(|name| name == "all");
        options.names_payload = all;
        options.names_context = all;
        options.names_header = all;
        options.names_scope = all;
    }
    for name in &args.names {
        match name.as_str() {
            "payload" | "arg" | "args" => options.names_payload = true,
            "context" | "ctx" => options.names_context = true,
            "header" => options.names_header = true,
            "scope" => options.names_scope = true,
            "all" | "none" => {}
            _ => {
                let known = ["payload", "context", "header", "scope", "all", "none"];
                return Err(unknown("--names", name, &known));
            }
        }
    }
    if !args.fields.is_empty() {
        let all = args.fields.iter().any(|field| field == "all");
        options.trace = all;
        options.hostname = all;
        options.domain = all;
        options.procname = all;
        options.vpid = all;
        options.loglevel = all;
        options.emf = all;
    }
    for field in &args.fields {
        match field.as_str() {
            "trace" => options.trace = true,
            "trace:hostname" => options.hostname = true,
            "trace:domain" => options.domain = true,
            "trace:procname" => options.procname = true,
            "trace:vpid" => options.vpid = true,
            "loglevel" => options.loglevel = true,
            "emf" => options.emf = true,
            "all" | "none" => {}
            _ => {
                let known = [
                    "trace",
                    "trace:hostname",
                    "trace:domain",
                    "trace:procname",
                    "trace:vpid",
                    "loglevel",
                    "emf",
                    "all",
                ];
                return Err(unknown("--fields", field, &known));
            }
        }
    }
    Ok(options)
}

fn unknown(option: &str, word: &str, known: &[&str]) -> Error {
    let error = Error::usage(format!("{option} does not know `{word}`"));
    match blkkin_filter::suggest(word, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("it knows {}", known.join(", "))),
    }
}

/// Counts events. They are read in time order only if `in_order` is set, as a limit selects the
/// earliest events.
pub(super) fn count(reading: &Reading<'_>, in_order: bool) -> Stats {
    match in_order {
        true => reading.ordered(&mut Count),
        false => reading.unordered(|| Count).1,
    }
}

/// Consumer that ignores events, as the reader itself counts them.
struct Count;

impl Consumer for Count {
    fn event(&mut self, _: &mut Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Unordered for Count {
    const EVENTS: bool = false;

    fn packet(&mut self, _: &Trace, _: &Stream, _: &PacketView<'_>) {}
    #[inline]
    fn event(&mut self, _: &mut Event<'_>) {}
    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) {}
}

/// Reports the total numbers of lost events and packets on standard error.
fn report_losses(stats: &Stats) {
    if let Some(lost) = describe_losses(stats) {
        let shown = plural(stats.events, "event");
        let _ = writeln!(stderr(), "lost by the tracer in all: {lost} ({shown} shown)");
    }
}
