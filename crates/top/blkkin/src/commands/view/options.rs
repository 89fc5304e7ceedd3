//! Options of `blkkin view`, and the printer's options that follow from them.

use crate::exit::Error;
use crate::input::{InputArgs, SelectArgs};
use crate::live::RelayArgs;
use crate::output::ColorChoice;
use blkkin_text::pretty::Options;
use blkkin_text::time::TimeFormat;
use std::io;

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
        blkkin view --follow --session web                    a session of this machine, live\n  \
        blkkin view net://localhost/host/node-1/web           a session of a relay, live\n  \
        cat metadata channel0_* | blkkin view -",
    after_help = crate::help::RELAY_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: InputArgs,

    #[command(flatten)]
    pub(super) relay: RelayArgs,

    #[command(flatten)]
    pub(super) select: SelectArgs,

    /// Stop after this many events
    #[arg(long, value_name = "N", help_heading = "Selection")]
    pub(super) limit: Option<u64>,

    /// Keep reading while the recording grows, until Ctrl-C
    ///
    /// A packet is printed when it is complete. LTTng writes packets when they are full, after the
    /// channel's --switch-timer, and when the session is rotated or stopped. It writes metadata
    /// only when the session is rotated or stopped, and events of new types wait for that.
    /// Sessions of a relay are always followed, to their end.
    #[arg(long, conflicts_with = "count", help_heading = "Input")]
    pub(super) follow: bool,

    /// Print one JSON object a line: the traces, each event and loss, the totals
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    /// Decode all events, but print only their number
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) count: bool,

    /// Print these before the fields: trace, trace:hostname, trace:domain, trace:procname,
    /// trace:vpid, loglevel, emf, all
    #[arg(short, long, value_name = "FIELD,…", value_delimiter = ',', help_heading = "Output")]
    pub(super) fields: Vec<String>,

    /// Print names of: payload (args), context (ctx), header, scope, all, none
    #[arg(short, long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Output")]
    pub(super) names: Vec<String>,

    /// Print times in cycles of the trace's clock
    #[arg(long, help_heading = "Times")]
    pub(super) clock_cycles: bool,

    /// Print times with the date
    #[arg(long, help_heading = "Times")]
    pub(super) clock_date: bool,

    /// Print and read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Times")]
    pub(super) clock_gmt: bool,

    /// Print times in seconds since 1970
    #[arg(long, help_heading = "Times")]
    pub(super) clock_seconds: bool,

    /// Do not print the time since the previous event
    #[arg(long, help_heading = "Times")]
    pub(super) no_delta: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub(super) color: ColorChoice,
}

impl Args {
    /// Returns the options of the text printer.
    pub(super) fn printer_options(&self) -> Result<Options, Error> {
        let mut options = Options {
            time: match self {
                Args { clock_cycles: true, .. } => TimeFormat::Cycles,
                Args { clock_seconds: true, .. } => TimeFormat::Seconds,
                Args { clock_date: true, .. } => TimeFormat::Date,
                _ => TimeFormat::Clock,
            },
            utc: self.clock_gmt,
            delta: !self.no_delta,
            color: self.color.applies(&io::stdout()),
            ..Options::default()
        };
        if !self.names.is_empty() {
            let all = self.names.iter().any(|name| name == "all");
            options.names_payload = all;
            options.names_context = all;
            options.names_header = all;
            options.names_scope = all;
        }
        for name in &self.names {
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
        if !self.fields.is_empty() {
            let all = self.fields.iter().any(|field| field == "all");
            options.trace = all;
            options.hostname = all;
            options.domain = all;
            options.procname = all;
            options.vpid = all;
            options.loglevel = all;
            options.emf = all;
        }
        for field in &self.fields {
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
}

fn unknown(option: &str, word: &str, known: &[&str]) -> Error {
    let error = Error::usage(format!("{option} does not know `{word}`"));
    match blkkin_filter::suggest(word, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("it knows {}", known.join(", "))),
    }
}
