//! `blkkin event`: rules that select events for recording, and a list of event types.

mod kernel;
mod list;
mod processes;

use super::completions;
use super::session::SessionArg;
use crate::conversation::AgentArgs;
use crate::exit::{Error, Exit, note};
use crate::output::ColorChoice;
use crate::values;
use blkkin_control::rules::Pattern;
use blkkin_control::{Events, Level, Levels, RedactedEvents, Redaction, Request, Selection};
use blkkin_filter::Filter;
use clap_complete::engine::ArgValueCandidates;
use processes::ProcessArgs;
use std::io;

/// Select the events to record, and list those that programs have
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin event list                                     what running programs can record\n  \
        blkkin event enable 'zipkin:*'\n  \
        blkkin event enable -s web 'rpc:*' --filter 'ret < 0' --exe osd\n  \
        blkkin event disable 'zipkin:keyval*'",
    after_help = crate::help::AGENT_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Enable(Enable),
    Disable(Disable),
    List(list::List),
}

/// Record events, also of programs that start later
///
/// Later rules override earlier ones.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin event enable 'zipkin:*'                        in the only session there is\n  \
        blkkin event enable -s web -c main 'rpc:*' -x 'rpc:ping*'\n  \
        blkkin event enable --all --level warning             warnings and worse\n  \
        blkkin event enable 'disk:*' --filter 'len >= 4096 && ret < 0'\n  \
        blkkin event enable --all --exe ceph-osd --pid 4711 --children\n  \
        blkkin event enable --kernel 'block:*' syscall:fsync  of the kernel, in the same session\n  \
        blkkin event enable --kernel 'syscall:*' --exe postgres\n  \
        blkkin event enable --kernel syscall:openat --redact filename=hash\n  \
        blkkin event enable --probe kprobe:vfs_unlink --probe 'usdt:python3:python:gc__*'",
    after_help = crate::help::AGENT_HELP
)]
struct Enable {
    #[command(flatten)]
    events: EventArgs,

    /// Do not also enable `state:*`, which records the processes, threads, open files, mapped
    /// programs and disks that there are when the session starts
    #[arg(long, help_heading = "Kernel")]
    no_state: bool,

    /// Record in place of a text or of bytes its length (FIELD=length) or a hash that is the same
    /// for equal texts of this recording (FIELD=hash); in FIELD `*` matches any characters
    #[arg(
        long,
        value_name = "FIELD=METHOD,…",
        value_delimiter = ',',
        help_heading = "Kernel",
        add = ArgValueCandidates::new(completions::redactions)
    )]
    redact: Vec<Redaction>,
}

/// Stop recording events
///
/// This adds a rule that overrides earlier ones; events that do not match it are recorded as
/// before.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin event disable 'zipkin:keyval*'\n  \
        blkkin event disable -s web --all --pid 4711",
    after_help = crate::help::AGENT_HELP,
    // The agent refuses it, and says what to do instead.
    mut_arg("filter", |filter| filter.hide(true))
)]
struct Disable {
    #[command(flatten)]
    events: EventArgs,
}

/// Session, channel and selection of events.
#[derive(clap::Args, Debug)]
#[command(mut_arg("patterns", |names| names.required_unless_present_any(["all", "probe"])))]
struct EventArgs {
    #[command(flatten)]
    selected: SelectionArgs,

    #[command(flatten)]
    session: SessionArg,

    /// The channel; optional if the session has only one, or none yet (`enable` only)
    #[arg(
        short,
        long,
        value_name = "CHANNEL",
        add = ArgValueCandidates::new(completions::channels)
    )]
    channel: Option<String>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Selection of events, of programs or of the kernel.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct SelectionArgs {
    /// Names of events (PROVIDER:NAME), in which `*` matches any characters
    #[arg(
        value_name = "PATTERN",
        value_delimiter = ',',
        add = ArgValueCandidates::new(completions::events)
    )]
    patterns: Vec<String>,

    /// All events
    #[arg(short, long, conflicts_with = "patterns")]
    all: bool,

    /// Events of the kernel: syscall:NAME, tracepoints (SUBSYSTEM:NAME), process:fork, exec and
    /// exit, request:wait, disk and syscall:NAME, state:*; `blkkin probe ls` lists them
    #[arg(short, long, conflicts_with_all = ["level", "level_only"], help_heading = "Kernel")]
    kernel: bool,

    /// Probe of the kernel or of a program: kprobe:FUNCTION, kretprobe, fentry, fexit,
    /// raw:TRACEPOINT, uprobe:PROGRAM:FUNCTION, uretprobe, usdt:PROGRAM:PROVIDER:NAME, profile:99hz
    #[arg(
        long,
        value_name = "PROBE",
        conflicts_with_all = ["level", "level_only", "all"],
        help_heading = "Kernel"
    )]
    probe: Vec<String>,

    /// Exclude events with these names
    #[arg(
        short = 'x',
        long,
        value_name = "PATTERN,…",
        value_delimiter = ',',
        help_heading = "Selection",
        add = ArgValueCandidates::new(completions::events)
    )]
    exclude: Vec<String>,

    /// Only events of this level or a more severe one: emerg, alert, crit, err, warning, notice,
    /// info, debug_system, …, debug
    #[arg(
        long,
        alias = "loglevel",
        value_name = "LEVEL",
        value_parser = values::level,
        conflicts_with = "level_only",
        help_heading = "Selection",
        add = ArgValueCandidates::new(completions::levels)
    )]
    level: Option<Level>,

    /// Only events of this level
    #[arg(
        long,
        alias = "loglevel-only",
        value_name = "LEVEL",
        value_parser = values::level,
        help_heading = "Selection",
        add = ArgValueCandidates::new(completions::levels)
    )]
    level_only: Option<Level>,

    /// Only events for which this is true: 'ret < 0 && name == "zipkin:*"'
    #[arg(short, long, value_name = "EXPRESSION", help_heading = "Selection")]
    pub(super) filter: Option<String>,

    #[command(flatten)]
    processes: ProcessArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Enable(args) => enable(args),
        Command::Disable(args) => {
            let requests = Requests {
                programs: Request::DisableEvents,
                kernel: Request::DisableKernelEvents,
                redactions: Vec::new(),
            };
            change(args.events, "event disable", "disabled", &requests)?;
            Ok(Exit::Ok)
        }
        Command::List(args) => list::run(args),
    }
}

/// Returns an error for a non-empty pattern without `:` and `*`, which matches no event name: names
/// have the form PROVIDER:NAME. The control protocol refuses empty patterns.
pub(crate) fn check_patterns(patterns: &[String]) -> Result<(), Error> {
    let is_wrong = |pattern: &&String| !pattern.is_empty() && !pattern.contains([':', '*']);
    match patterns.iter().find(is_wrong) {
        None => Ok(()),
        Some(wrong) => Err(Error::usage(format!("no event is called `{wrong}`"))
            .hint(format!("names of events are PROVIDER:NAME; all of one provider: '{wrong}:*'"))),
    }
}

/// Requests that change rules for events of programs and of the kernel.
struct Requests {
    programs: fn(Events) -> Request,
    kernel: fn(Events) -> Request,
    /// Redactions of the events of the kernel; only requests that enable events have them.
    redactions: Vec<Redaction>,
}

impl Requests {
    /// Returns requests that enable events.
    fn enabling(redactions: Vec<Redaction>) -> Requests {
        let (programs, kernel) = (Request::EnableEvents, Request::EnableKernelEvents);
        Requests { programs, kernel, redactions }
    }

    /// Returns the request for events of the kernel.
    fn kernel(&self, events: Events) -> Request {
        let redactions = self.redactions.clone();
        match redactions.is_empty() {
            true => (self.kernel)(events),
            false => Request::EnableRedactedEvents(RedactedEvents { events, redactions }),
        }
    }
}

/// Names of the events that tell what there was when the session started.
const STATE: &str = "state:*";
/// Name of the event that tells when threads of programs worked for spans.
const RUNS: &str = "blkkin:run";
/// Names of events that tell when and why such threads waited.
const WAITS: [&str; 2] = ["request:wait", "request:disk"];

/// Enables events; those of the kernel with the state of the same processes, and with the runs of
/// the same programs if their waits are recorded.
fn enable(args: Enable) -> Result<Exit, Error> {
    let Enable { mut events, no_state, redact } = args;
    let selected = &mut events.selected;
    let has_kernel = selected.is_kernel();
    if !has_kernel && !redact.is_empty() {
        let error = Error::usage("--redact is only for events of the kernel");
        return Err(error.hint("add --kernel or --probe"));
    }
    // State may hold the same texts in other fields.
    let strictest = redact.iter().map(|redaction| redaction.method).max();
    let redact_all = |method| Redaction { events: None, field: "*".into(), method };
    let state_requests = Requests::enabling(strictest.map(redact_all).into_iter().collect());
    let requests = Requests::enabling(redact);
    let names_state = selected.patterns.iter().any(|name| name.starts_with("state:"));
    let needs_state = has_kernel && !no_state && !names_state;
    let patterns: Vec<Pattern> = selected.patterns.iter().map(|name| Pattern::new(name)).collect();
    let has_waits = WAITS.iter().any(|name| patterns.iter().any(|one| one.fits(name.as_bytes())));
    let needs_runs = selected.kernel && (selected.all || has_waits);
    if has_kernel && no_state {
        selected.exclude.push(STATE.to_owned());
    }
    let (agent, channel) = (events.agent.clone(), events.channel.clone());
    let Changed { session, selection } = change(events, "event enable", "enabled", &requests)?;
    let Selection { excluded, processes, .. } = selection;
    let also_enable = |name: &str, channel: Option<String>, request: &dyn Fn(Events) -> Request| {
        let (excluded, processes) = (excluded.clone(), processes.clone());
        let selection = Selection { excluded, processes, ..Selection::for_names([name]) };
        agent.request_for_session(Some(&session), |session| {
            let (channel, selection) = (channel.clone(), selection.clone());
            request(Events { session, channel, selection })
        })
    };
    // The user may be permitted to record some events only.
    let of_state = |events| state_requests.kernel(events);
    if needs_state && let Err(error) = also_enable(STATE, channel, &of_state) {
        note(&format!("the state of processes is not recorded: {}", error.message()));
    }
    // No channel is named: the agent refuses if the session has several for programs.
    if needs_runs && let Err(error) = also_enable(RUNS, None, &Request::EnableEvents) {
        note(&format!(
            "the time that programs work for spans is not recorded: {}; `blkkin event enable \
             --channel CHANNEL {RUNS}` records it",
            error.message()
        ));
    }
    Ok(Exit::Ok)
}

/// Result of a change of rules.
struct Changed {
    session: String,
    selection: Selection,
}

impl SelectionArgs {
    /// Returns whether events of the kernel are selected.
    pub(super) fn is_kernel(&self) -> bool {
        self.kernel || !self.probe.is_empty()
    }

    /// Returns whether any events are selected.
    pub(super) fn names_events(&self) -> bool {
        self.all || !self.patterns.is_empty() || !self.probe.is_empty()
    }

    /// Returns the selection. Events of the kernel `to_enable` must exist on this machine.
    pub(super) fn selection(self, to_enable: bool) -> Result<Selection, Error> {
        let is_kernel = self.is_kernel();
        let SelectionArgs { mut patterns, all, mut probe, exclude, filter, .. } = self;
        patterns.append(&mut probe);
        if let Some(text) = &filter {
            let color = ColorChoice::Auto.applies(&io::stderr());
            Filter::parse_for_recording(text).map_err(|error| Error::usage(error.render(color)))?;
        }
        check_patterns(&patterns)?;
        check_patterns(&exclude)?;
        if is_kernel && to_enable {
            kernel::check(&patterns)?;
        }
        let levels = match (self.level, self.level_only) {
            (Some(level), _) => Levels::AtLeast { level },
            (None, Some(level)) => Levels::Exactly { level },
            (None, None) => Levels::Any,
        };
        Ok(Selection {
            names: if all { vec!["*".into()] } else { patterns },
            excluded: exclude,
            levels,
            filter,
            processes: self.processes.processes()?,
        })
    }
}

/// Changes the rules of a channel.
fn change(
    args: EventArgs,
    action: &str,
    participle: &str,
    requests: &Requests,
) -> Result<Changed, Error> {
    let is_kernel = args.selected.is_kernel();
    let selection = args.selected.selection(participle == "enabled")?;
    let channel = args.channel;
    let events = |session| {
        let events = Events { session, channel: channel.clone(), selection: selection.clone() };
        if is_kernel { requests.kernel(events) } else { (requests.programs)(events) }
    };
    let done = args.agent.request_for_session(args.session.name(), events)?;
    let names = selection.names.join(", ");
    let channel_words = channel.as_ref().map(|channel| format!(", channel `{channel}`"));
    let words = format!(
        "events {names} {participle} in session `{}`{}",
        done.session,
        channel_words.unwrap_or_default()
    );
    let more = [("channel", channel.into()), ("names", selection.names.clone().into())];
    args.agent.report(&done, action, words, &more)?;
    Ok(Changed { session: done.session, selection })
}
