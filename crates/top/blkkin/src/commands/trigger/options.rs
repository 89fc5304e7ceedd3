//! Options of `blkkin trigger add`, which are also the definition of a trigger.

use super::conditions::{DiskLimit, LossLimit};
use super::receiver::Receiver;
use crate::commands::event::SelectionArgs;
use crate::conversation::AgentArgs;
use crate::exit::Error;
use crate::values;
use blkkin_deliver::Destination;
use blkkin_forward::Target;
use blkkin_lttng::viewer::PORT;
use blkkin_text::time::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Add a trigger, and start it
///
/// At least one condition and one action are needed. Events are selected as by `blkkin event
/// enable`; `blkkin trigger fire NAME` and SIGUSR1 to the trigger's process fire it, too. Actions
/// are taken in this order: snapshot, start, stop, rotate, run, notify; then requests are sent.
///
/// The trigger records its own events in the session `trigger-NAME`, of which the newest one or two
/// megabytes are kept. It survives a restart of the agent. After a restart of the machine, `blkkin
/// trigger start` starts it again.
#[derive(clap::Args, Clone, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin trigger add slow --slower 100ms --snapshot flight --every 1min --keep 10\n  \
        blkkin trigger add errors --all --level err --snapshot flight --delay 2s\n  \
        blkkin trigger add tail --slower 100ms --failed --requests flight --to http://tracing:9411\n  \
        blkkin trigger add failed --failed --run 'logger \"a request failed: $BLKKIN_EVENT\"'\n  \
        blkkin trigger add killed --killed --exe qemu-system-x86_64 --snapshot flight\n  \
        blkkin trigger add full --disk-free /srv=10G --stop web --once\n  \
        blkkin trigger add losses --lost web=1000 --notify syslog --notify https://hooks/T0/B0",
    after_help = crate::help::AGENT_HELP
)]
pub(super) struct Add {
    /// Name of the trigger
    #[arg(value_name = "NAME")]
    pub(super) name: String,

    #[command(flatten)]
    pub(super) selected: SelectionArgs,

    #[command(flatten)]
    pub(super) conditions: ConditionArgs,

    #[command(flatten)]
    pub(super) actions: ActionArgs,

    #[command(flatten)]
    pub(super) requests: RequestArgs,

    #[command(flatten)]
    pub(super) share: ShareArgs,

    #[command(flatten)]
    pub(super) pace: PaceArgs,

    /// Run in this process, until Ctrl-C
    #[arg(long, help_heading = "Other options")]
    pub(super) foreground: bool,

    #[command(flatten)]
    pub(super) agent: AgentArgs,
}

/// Conditions besides single events.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Conditions")]
pub(super) struct ConditionArgs {
    /// A span ended that took at least this long, such as 5ms or 1.5s; of the selected events, or
    /// else of any span that a program records as one event
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) slower: Option<Duration>,

    /// A span got the tag `error`
    #[arg(long)]
    pub(super) failed: bool,

    /// A process ended by a signal; of those that --exe and --pid select, or any
    #[arg(long)]
    pub(super) killed: bool,

    /// The agent's process got SIGUSR1
    #[arg(long)]
    pub(super) agent_signal: bool,

    /// A session lost this many events within a second
    #[arg(long, value_name = "SESSION=COUNT")]
    pub(super) lost: Vec<LossLimit>,

    /// The file system of a directory has less free space than this; K, M, G and T may be used
    #[arg(long, value_name = "DIR=SIZE")]
    pub(super) disk_free: Vec<DiskLimit>,
}

/// Actions of a trigger.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Actions")]
pub(super) struct ActionArgs {
    /// Take a snapshot of this session, which was made with --snapshot
    #[arg(long, value_name = "SESSION")]
    pub(super) snapshot: Option<String>,

    /// Keep only so many snapshots of this trigger: the oldest is removed
    #[arg(
        long,
        value_name = "COUNT",
        requires = "snapshot",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) keep: Option<u32>,

    /// Start this session
    #[arg(long, value_name = "SESSION")]
    pub(super) start: Option<String>,

    /// Stop this session
    #[arg(long, value_name = "SESSION")]
    pub(super) stop: Option<String>,

    /// Close the current chunk of this session, and continue in a new one
    #[arg(long, value_name = "SESSION")]
    pub(super) rotate: Option<String>,

    /// Run this shell command. "$1" and $BLKKIN_SNAPSHOT are the snapshot, $BLKKIN_EVENT is the
    /// first event as JSON, $BLKKIN_EVENTS the number of events, $BLKKIN_TRIGGER the trigger
    #[arg(long, value_name = "COMMAND")]
    pub(super) run: Option<String>,

    /// Time after which that command is ended
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::retention,
        default_value = "10min",
        requires = "run"
    )]
    pub(super) run_timeout: u64,

    /// Send a notice: `syslog` for the system's log, or a URL that gets a JSON object by POST. Can
    /// be repeated
    #[arg(long, value_name = "RECEIVER")]
    pub(super) notify: Vec<Receiver>,
}

/// Parses a duration that is not zero.
fn duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        0 => Err("not a time that a span can exceed".to_owned()),
        ns => Ok(Duration::from_nanos(ns)),
    }
}

/// Parses a path that the trigger's process can use, whose directory is another one.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_absolute() {
        true => Ok(path),
        false => Err("not an absolute path, which the trigger's process needs".to_owned()),
    }
}

fn destination(url: &str) -> Result<Destination, String> {
    Destination::parse(url, None).map_err(|error| error.to_string())
}

/// Whole requests that a trigger sends.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Requests")]
pub(super) struct RequestArgs {
    /// Send the requests whose events fire the trigger, with their spans of all programs, out of
    /// this session, which was made with --snapshot
    ///
    /// Slow, failed and named requests (`blkkin trigger fire NAME --request TRACE_ID`) leave the
    /// rings; the others are neither decoded nor sent.
    #[arg(long, value_name = "SESSION", requires = "to")]
    pub(super) requests: Option<String>,

    /// Receiver of their spans: a URL as for `blkkin spans --to`. While it is away, they wait in
    /// the trigger's directory
    #[arg(long, value_name = "URL", requires = "requests", value_parser = destination)]
    pub(super) to: Option<Destination>,

    /// File with headers for the receiver, one a line: 'Authorization: Bearer …'
    #[arg(long, value_name = "FILE", requires = "to", value_parser = absolute)]
    pub(super) header_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", requires = "to", value_parser = absolute)]
    pub(super) ca: Option<PathBuf>,

    /// Send only spans that ended within this time before the request is sent
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::retention,
        default_value = "10s",
        requires = "requests"
    )]
    pub(super) window: u64,
}

/// Requests that triggers of the same name on several nodes have in common.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Requests")]
pub(super) struct ShareArgs {
    /// Let the triggers of this name on other nodes send their spans of the same requests, too:
    /// each tells the others by this relay, `net://HOST[:CONTROL_PORT[:DATA_PORT]]` or nets://
    #[arg(long, value_name = "URL", requires = "requests")]
    pub(super) share: Option<Target>,

    /// Port of the relay for viewers
    #[arg(long, value_name = "PORT", default_value_t = PORT, requires = "share")]
    pub(super) share_live_port: u16,
}

/// When and how often a trigger acts.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Pace")]
pub(super) struct PaceArgs {
    /// Wait this long before acting, so that a snapshot has the aftermath, too, and requests are
    /// complete [default: 0; with --requests 1s]
    #[arg(long, value_name = "TIME", value_parser = values::retention)]
    pub(super) delay: Option<u64>,

    /// Act at most once in this time. What happens meanwhile is counted; requests are sent
    /// afterwards [default: 10s; with --requests 1s]
    #[arg(long, value_name = "TIME", value_parser = values::retention)]
    pub(super) every: Option<u64>,

    /// Act so many times, and then no more
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max: Option<u64>,

    /// Act only once: --max 1
    #[arg(long, conflicts_with = "max")]
    once: bool,
}

impl Add {
    /// Checks that there are a condition and an action.
    pub(super) fn check(&self) -> Result<(), Error> {
        let ConditionArgs { slower, agent_signal, lost, disk_free, .. } = &self.conditions;
        let has_condition =
            self.records_events() || *agent_signal || !lost.is_empty() || !disk_free.is_empty();
        if !has_condition {
            return Err(Error::usage("the trigger has no condition")
                .hint("name events, or give a condition such as --slower, --failed or --killed"));
        }
        if self.selected.filter.is_some() && !self.selected.names_events() && slower.is_none() {
            return Err(Error::usage("--filter is given without events")
                .hint("name the events, or all of them with --all"));
        }
        if !self.has_other_action() && self.requests.requests.is_none() {
            return Err(Error::usage("the trigger has no action").hint(
                "give --snapshot, --start, --stop, --rotate, --run, --notify or --requests",
            ));
        }
        Ok(())
    }

    /// Returns the sessions that the trigger refers to.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &str> {
        let ActionArgs { snapshot, start, stop, rotate, .. } = &self.actions;
        let lost = self.conditions.lost.iter().map(|limit| &*limit.session);
        let named = [snapshot, start, stop, rotate, &self.requests.requests];
        named.into_iter().flatten().map(String::as_str).chain(lost)
    }

    /// Returns whether events can fire the trigger.
    pub(super) fn records_events(&self) -> bool {
        let ConditionArgs { slower, failed, killed, .. } = self.conditions;
        self.selected.names_events() || slower.is_some() || failed || killed
    }

    /// Returns whether the trigger does anything but send requests.
    pub(super) fn has_other_action(&self) -> bool {
        let ActionArgs { snapshot, start, stop, rotate, run, notify, .. } = &self.actions;
        let others = [snapshot, start, stop, rotate, run];
        others.into_iter().any(Option::is_some) || !notify.is_empty()
    }

    /// Returns the time to wait before acting, and the minimum time between two actions.
    pub(super) fn pace(&self) -> (Duration, Duration) {
        let usual = if self.requests.requests.is_some() { (1000, 1000) } else { (0, 10_000) };
        let PaceArgs { delay, every, .. } = self.pace;
        let (delay, every) = (delay.unwrap_or(usual.0), every.unwrap_or(usual.1));
        (Duration::from_millis(delay), Duration::from_millis(every))
    }

    /// Returns the maximum number of times that the trigger acts.
    pub(super) fn max(&self) -> Option<u64> {
        if self.pace.once { Some(1) } else { self.pace.max }
    }
}
