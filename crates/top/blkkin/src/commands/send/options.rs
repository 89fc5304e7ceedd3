//! Options of `blkkin send`.

use crate::input::{InputArgs, SelectArgs};
use crate::values;
use std::time::Duration;

/// Send events, requests or lines to a server of Scribe's protocol
///
/// Each event becomes a message: the JSON object that `blkkin view --json` prints, in the category
/// of your choice; losses too. With --spans, each span of the requests that `blkkin spans` shows
/// becomes a message, as Zipkin's collectors read it (thrift, base64, category zipkin). With
/// --lines, each line of a text becomes a message.
///
/// A batch is sent again until the server accepts it, or until --patience is over. If the
/// connection breaks during a batch, its messages may arrive twice; the number of failed attempts
/// is reported at the end.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin send --category trace scribe://localhost ~/lttng-traces/my-session\n  \
        blkkin send --category slow --filter 'ret < 0' scribe://collector:1463 TRACE\n  \
        blkkin send --spans --follow scribe://zipkin:9410 ~/lttng-traces/my-session   as they become complete\n  \
        tail -f log | blkkin send --lines --category log scribe://localhost -",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    /// The server: scribe://HOST or scribe://HOST:PORT; the default port is 1463
    #[arg(value_name = "URL", value_parser = values::scribe_server)]
    pub(super) server: String,

    #[command(flatten)]
    pub(super) input: InputArgs,

    #[command(flatten)]
    pub(super) select: SelectArgs,

    /// Category of all messages
    #[arg(long, value_name = "NAME", required_unless_present = "spans")]
    pub(super) category: Option<String>,

    /// Send requests, span by span [default category: zipkin]
    #[arg(long, conflicts_with = "lines")]
    pub(super) spans: bool,

    /// Read PATHs as text files and send each line as a message; `-` is standard input
    #[arg(long, conflicts_with_all = ["begin", "end", "timerange", "filter", "follow", "metadata"])]
    pub(super) lines: bool,

    /// Keep reading while the recording grows, until Ctrl-C
    #[arg(long, help_heading = "Input")]
    pub(super) follow: bool,

    /// Give up when no batch could be sent for this many seconds; 0: never
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = values::patience,
        default_value = "60"
    )]
    pub(super) patience: Duration,

    /// Print the totals as one JSON object
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    /// Read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Times")]
    pub(super) clock_gmt: bool,
}
