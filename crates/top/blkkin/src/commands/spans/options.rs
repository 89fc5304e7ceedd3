//! Options of `blkkin spans`; those of the delivery are in [`DeliveryArgs`].

use super::delivery::DeliveryArgs;
use crate::input::{InputArgs, SelectArgs};
use crate::live::RelayArgs;
use crate::output::ColorChoice;
use crate::values;
use blkkin_reader::TimeBase;
use blkkin_spans::Limits;
use blkkin_text::time::parse_duration;

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
        blkkin spans --kernel --min-duration 5ms SESSION        what slow ones waited for\n  \
        blkkin spans --follow ~/lttng-traces/my-session         as they become complete\n  \
        blkkin spans NODE1 NODE2 --correct-skew                 nodes whose clocks disagree\n  \
        blkkin spans --json TRACE | jq -c 'select(.type == \"span\") | [.service, .name, .duration]'\n  \
        blkkin spans --to http://zipkin:9411 TRACE              to Zipkin\n  \
        blkkin spans --to otlps://collector --header-file key --queue q --follow TRACE\n  \
        blkkin spans --to otlps://collector --header-file key --queue q   what still waits there",
    after_help = crate::help::RELAY_HELP,
    mut_arg("paths", |paths| paths.required_unless_present_any(["queue", "session"]))
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: InputArgs,

    #[command(flatten)]
    pub(super) relay: RelayArgs,

    #[command(flatten)]
    pub(super) select: SelectArgs,

    #[command(flatten)]
    pub(super) to: DeliveryArgs,

    /// Only requests with a span of this service
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub(super) service: Option<String>,

    /// Only requests that took at least this long: 5ms, 1.5s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Selection")]
    pub(super) min_duration: Option<u64>,

    /// Stop after this many requests
    #[arg(long, value_name = "N", help_heading = "Selection")]
    pub(super) limit: Option<u64>,

    /// Keep reading while the recording grows, until Ctrl-C
    ///
    /// Events appear when their packet is complete; see `blkkin view --help`.
    #[arg(long, help_heading = "Input")]
    pub(super) follow: bool,

    /// Treat a request as complete after this time without an event [default: 30s in the time of
    /// the trace; with --follow, 5s of real time]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Requests")]
    pub(super) idle: Option<u64>,

    /// Memory for requests that are not complete, in bytes
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        default_value = "256M",
        help_heading = "Requests"
    )]
    pub(super) memory: u64,

    /// Shift a server's spans if they seem to start before its client's
    ///
    /// Not needed if a relay has measured the clocks; see --recorded-times.
    ///
    /// A span is shifted to the middle of the call or, if it is longer than the call or a duration
    /// is unknown, to the call's start, as in Zipkin. Shifted spans are marked; no duration
    /// changes.
    #[arg(long, help_heading = "Requests")]
    pub(super) correct_skew: bool,

    /// Show recorded times; do not correct them to the relay's clock
    ///
    /// By default, times of a trace that a relay has stored are corrected by the measured offset of
    /// its node's clock. A request's first line then shows within what time its nodes agree: clocks
    /// ±92.0 µs.
    #[arg(long, help_heading = "Times")]
    pub(super) recorded_times: bool,

    /// Draw requests as trees; the default without --json and --to
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) tree: bool,

    /// Print one JSON object a line: the traces, each request and each of its spans, the totals;
    /// with --to, only the totals
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    /// Show the annotations below each span
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) annotations: bool,

    /// Show below each span what its own time was spent on: running, or waiting for a processor, a
    /// disk, a lock or the network; its longest system calls; and the sums by service
    ///
    /// The session has to record when threads work for spans and when they wait: `blkkin event
    /// enable --kernel 'request:*'`. A span is running while a thread works for it and does not
    /// wait. System calls are recorded by `blkkin event enable --kernel 'request:syscall:*'`; the
    /// ten longest of a span are shown.
    ///
    /// Each bar shows shares, with a colour or a letter for each kind: R running, Q runnable (waits
    /// for a processor), D disk, L lock, N network, F page fault, S sleep, P poll (waits for
    /// descriptors), O other, E elsewhere (no thread worked for the span), ? unknown (not
    /// recorded). --json always has own times and all system calls; --to always sends own times,
    /// but no system calls.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) kernel: bool,

    /// Use only ASCII [default: if the locale is not UTF-8]
    #[arg(long, help_heading = "Output")]
    pub(super) ascii: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub(super) color: ColorChoice,

    /// Print and read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Times")]
    pub(super) clock_gmt: bool,
}

impl Args {
    /// Returns the clock by which times are given.
    pub(super) fn time_base(&self) -> TimeBase {
        if self.recorded_times { TimeBase::Recorded } else { TimeBase::Relay }
    }

    /// Returns the limits for the assembly of requests.
    pub(super) fn limits(&self) -> Limits {
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
