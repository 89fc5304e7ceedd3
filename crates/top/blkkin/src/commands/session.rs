//! `blkkin session`: creates, lists, starts, stops, clears, rotates, saves, loads and destroys
//! sessions, takes snapshots, and runs commands for closed chunks.

mod background;
pub(super) mod list;
pub(crate) mod saved;

use super::completions;
use super::rotation::RotationArgs;
use crate::conversation::{
    ActionResult, AgentArgs, SessionDetails, absolute, check, written_paths,
};
use crate::exit::{Error, Exit, note};
use crate::losses;
use crate::reach;
use crate::values;
use blkkin_control::{
    Activity, Destination, Purpose, Request, RetainingSession, Retention, Rotation, Session,
    SessionForward, SessionLimit, SessionRotation, Snapshot,
};
use blkkin_forward::Target;
use clap_complete::engine::ArgValueCandidates;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Make, start, stop and list recording sessions
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session create web -o /data/web\n  \
        blkkin event enable -s web 'zipkin:*'\n  \
        blkkin session start web\n  \
        blkkin session stop web\n  \
        blkkin view /data/web",
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
    Create(Create),
    List(List),
    Start(Start),
    Stop(Stop),
    Clear(Clear),
    Snapshot(TakeSnapshot),
    Rotate(Rotate),
    Hook(RunHook),
    Save(saved::Save),
    Load(saved::Load),
    Destroy(Destroy),
}

/// Make a session, without starting it
///
/// Prints the output directory to standard output. 5 % of the file system, at most 1 GiB, always
/// stays free for others; events that cannot be written are counted as lost.
///
/// If the agent serves several users, only root can write sessions and snapshots to network and
/// cluster file systems: while such a file system does not answer, the agent waits, and so do all
/// users. File systems that are mounted later below the directory of a user other than root are not
/// entered. Without root, use `blkkin record`, whose agent serves one user.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session create web                             the agent chooses where to write\n  \
        blkkin session create web -o /data/web --size-max 10G\n  \
        blkkin session create web --net net://collector       a relay writes it, live\n  \
        blkkin session create web --size 100M --files 10      in chunks, of which ten are kept\n  \
        blkkin session create web --age 1h --on-chunk 'zstd -rq --rm \"$1\"'\n  \
        blkkin session create flight --snapshot               only in memory, until a snapshot\n  \
        blkkin session create flight --snapshot --keep 2min --memory 256M",
    after_help = crate::help::AGENT_HELP
)]
struct Create {
    /// Name of the session
    #[arg(value_name = "NAME")]
    name: String,

    /// Directory to make for the trace or, with --snapshot, for snapshots
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Keep the newest events in memory, until a snapshot is taken
    #[arg(long)]
    snapshot: bool,

    /// With --snapshot, time for which events are kept: snapshots leave out what ended earlier.
    /// `blkkin status` tells if the memory does not reach back that far
    ///
    /// A time has its unit: 500ms, 30s, 2min, 1h or 1d. The memory of older events is not given
    /// back, but used for new ones.
    #[arg(long, value_name = "TIME", value_parser = values::retention, requires = "snapshot")]
    keep: Option<u64>,

    /// With --snapshot, maximum memory for the events of each traced program in each channel; K, M
    /// and G may be used [default: up to 32M for each CPU]
    ///
    /// The memory is divided evenly among the rings: one for each CPU, and one for threads that can
    /// use none of these. The size of a ring is rounded down to a power of two. A channel that is
    /// made with both --subbuf-size and --num-subbuf has these sizes instead. Pages are allocated
    /// when events are written to them, and count as memory of the program in its control group.
    ///
    /// Without this option, the agent chooses the size for each program: 32M for each ring, but
    /// together at most a 64th of the machine's memory or of the memory limit of the program's
    /// control group, and less if the user's rings take much already; never less than 2M for each
    /// ring. With events of 40 bytes, 32M reach back 14 minutes at 1,000 events a second on one
    /// CPU, 8 seconds at 100,000 and 80 milliseconds at 10 million.
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, requires = "snapshot")]
    memory: Option<u64>,

    /// Maximum number of bytes to write; K, M and G may be used. Events beyond it are counted as
    /// lost
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, conflicts_with = "snapshot")]
    size_max: Option<u64>,

    /// Write without the page cache
    ///
    /// For large recordings: what is written does not push other programs' pages out of memory. The
    /// agent waits for the disk at each write, and events wait in the rings meanwhile, those of its
    /// other sessions, too. So give channels rings (--subbuf-size, --num-subbuf) for the longest
    /// pause of the disk; `blkkin session list NAME` shows the longest write. Each write ends at a
    /// multiple of 4 KiB, which costs space at low rates.
    #[arg(long, conflicts_with = "snapshot")]
    direct: bool,

    /// Send the session to a relay, `blkkin relay` or `lttng-relayd`:
    /// `net://HOST[:CONTROL_PORT[:DATA_PORT]]`, or `nets://` for one with TLS
    ///
    /// For TLS, the agent uses the credentials in /etc/blkkin/relay-credentials, or in the
    /// directory of its user that `blkkin forward --help` names.
    ///
    /// Packets are written to the session's directory first, and sent from there, in order. While
    /// the relay is away or slow, they wait. With --output they stay in the directory, too; without
    /// it they are removed when the relay has them, and --size-max limits what waits.
    #[arg(long, value_name = "URL", conflicts_with = "snapshot")]
    net: Option<Target>,

    /// Drop the `newest` events, which are not recorded then, or the `oldest` packets, when
    /// --size-max is reached while packets wait for the relay. Both are counted as lost
    ///
    /// Packets are dropped as a whole; viewers report the gap in their numbers where it is.
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        requires = "size_max",
        conflicts_with = "output"
    )]
    drop: Option<Droppable>,

    /// Send the session to the relay on this machine: --net net://localhost
    #[arg(long, conflicts_with_all = ["snapshot", "net"])]
    live: bool,

    #[command(flatten)]
    rotation: RotationArgs,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Part of a session that is dropped when its spool is full.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Droppable {
    Newest,
    Oldest,
}

/// List sessions, or show one in detail
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session list\n  \
        blkkin session list web                               with its channels and events\n  \
        blkkin session list --json | jq -r '.sessions[].name'",
    after_help = crate::help::LOSS_HELP
)]
struct List {
    /// Show only this session, with its channels and events
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::sessions))]
    name: Option<String>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Session of a command about channels or events.
#[derive(clap::Args, Debug)]
pub(super) struct SessionArg {
    /// The session; optional if there is only one
    #[arg(
        short,
        long,
        value_name = "SESSION",
        add = ArgValueCandidates::new(completions::sessions)
    )]
    session: Option<String>,
}

impl SessionArg {
    pub(super) fn name(&self) -> Option<&str> {
        self.session.as_deref()
    }
}

/// Session of a command about sessions.
#[derive(clap::Args, Debug)]
struct Named {
    /// Name of the session; optional if there is only one
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::sessions))]
    name: Option<String>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Start recording
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session start                                  the only one there is\n  \
        blkkin session start web",
    after_help = crate::help::AGENT_HELP
)]
struct Start {
    #[command(flatten)]
    named: Named,
}

/// Stop recording; returns once everything recorded has been written
///
/// A stopped session can be started again.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session stop                                   the only one there is\n  \
        blkkin session stop web --timeout 0                   however long it takes",
    after_help = crate::help::LOSS_HELP
)]
struct Stop {
    #[command(flatten)]
    named: Named,
}

/// Drop everything recorded so far, in memory and files
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session clear web",
    after_help = crate::help::AGENT_HELP
)]
struct Clear {
    #[command(flatten)]
    named: Named,
}

/// Write the events in memory to a trace
///
/// Prints the path of the trace to standard output. A session with --keep writes only packets that
/// ended within that time; messages tell which programs' memory does not reach back that far.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session snapshot flight -o /data/crash\n  \
        blkkin view \"$(blkkin session snapshot flight)\"",
    after_help = crate::help::AGENT_HELP
)]
struct TakeSnapshot {
    #[command(flatten)]
    named: Named,

    /// Directory to make, instead of the session's own
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Close the chunk that is being written, and continue in a new one
///
/// Prints the directory of the closed chunk to standard output, once it is complete: everything
/// that was recorded before is in it or in an earlier one. Prints nothing if nothing was recorded
/// since the last rotation, or if the session is only sent to a relay, where the chunk is a
/// directory below the session's. The session must have been made with --rotate or another option
/// of that group.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session rotate web\n  \
        blkkin view \"$(blkkin session rotate web)\"",
    after_help = crate::help::AGENT_HELP
)]
struct Rotate {
    #[command(flatten)]
    named: Named,
}

/// Run a session's command for each closed chunk
///
/// `blkkin session create --on-chunk` starts this in the background. It ends when the session is
/// destroyed and all its chunks are handled. Start it again after a restart of the machine; it
/// continues with the chunks that are not handled. It runs the command of your own session only.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session hook web &",
    after_help = crate::help::AGENT_HELP
)]
struct RunHook {
    /// Name of the session
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::sessions))]
    name: String,
}

/// Stop a session and remove it; written traces stay
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session destroy web\n  \
        blkkin session destroy --all",
    after_help = crate::help::LOSS_HELP
)]
struct Destroy {
    /// Name of the session; optional if there is only one
    #[arg(
        value_name = "NAME",
        conflicts_with = "all",
        add = ArgValueCandidates::new(completions::sessions)
    )]
    name: Option<String>,

    /// Destroy all sessions
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Create(args) => create(args),
        Command::List(args) => list::run(args.name.as_deref(), &args.agent),
        Command::Start(args) => act(&args.named, "start", "started", Request::StartSession),
        Command::Stop(args) => act(&args.named, "stop", "stopped", Request::StopSession),
        Command::Clear(args) => act(&args.named, "clear", "cleared", Request::ClearSession),
        Command::Snapshot(args) => snapshot(args),
        Command::Rotate(args) => rotate(&args),
        Command::Save(args) => saved::save(&args),
        Command::Load(args) => saved::load(args),
        Command::Hook(args) => background::run(&args.name),
        Command::Destroy(args) => destroy(&args),
    }
}

fn create(args: Create) -> Result<Exit, Error> {
    let rotation = args.rotation.rotation();
    if args.snapshot && rotation.is_some() {
        let what = "--snapshot cannot be used with --rotate, --size and other options of chunks";
        return Err(Error::usage(what));
    }
    let is_sent = args.net.is_some() || args.live;
    if is_sent && rotation.as_ref().is_some_and(Rotation::takes_chunks_away) {
        let what = "--files, --total and --on-chunk could take chunks away before they are sent";
        return Err(Error::usage(what).hint("leave them out: the relay gets the same chunks"));
    }
    if args.drop.is_some() && !is_sent {
        let what = "--drop is for packets that wait for a relay";
        return Err(Error::usage(what).hint("add --net URL or --live"));
    }
    let purpose = if args.snapshot { Purpose::Snapshot } else { Purpose::Record };
    let output = absolute(args.output.as_deref())?;
    let is_spool = output.is_none();
    let session = Session { name: args.name, purpose, output };
    let name = session.name.clone();
    let retention = Retention { keep_ms: args.keep, memory: args.memory };
    // An older agent does not know the second request. It refuses that request, rather than making
    // a session that keeps something else.
    let request = match retention == Retention::default() {
        true => Request::CreateSession(session),
        false => Request::CreateRetainingSession(RetainingSession { session, retention }),
    };
    check(&request)?;
    let divide = rotation
        .map(|rotation| SessionRotation { session: name.clone(), rotation })
        .map(Request::DivideSession);
    divide.iter().try_for_each(check)?;
    let mut conversation = args.agent.connect()?;
    let written = written_paths(conversation.request(&request)?);
    if let Some(request) = divide {
        conversation.divide(&request, &written)?;
        background::start_if_needed(&request, &conversation.address())?;
    }
    if let Some(size_max) = args.size_max {
        conversation
            .request(&Request::LimitSession(SessionLimit { session: name.clone(), size_max }))?;
    }
    if args.direct
        && let Err(error) = conversation.request(&Request::WriteDirectly(name.clone()))
    {
        conversation.request(&Request::DestroySession(name))?;
        return Err(error);
    }
    let local = args.live.then(|| "net://localhost".to_owned());
    if let Some(target) = args.net.map(|net| net.to_string()).or(local) {
        let drops_oldest = args.drop == Some(Droppable::Oldest);
        let destination = Destination { target, is_spool, drops_oldest };
        let forward = SessionForward { session: name.clone(), destination };
        if let Err(error) = conversation.request(&Request::ForwardSession(forward)) {
            conversation.request(&Request::DestroySession(name))?;
            return Err(error);
        }
    }
    let new = ActionResult::new(conversation.address(), name.clone());
    let done = ActionResult { written, ..new };
    let words = format!("session `{name}` made");
    args.agent.report(&done, "session create", words, &[])?;
    if io::stderr().is_terminal() && !args.agent.json {
        let next = "blkkin event enable PATTERN, and blkkin session start";
        let _ = writeln!(crate::output::stderr(), "next: {next}");
    }
    Ok(Exit::Ok)
}

/// Sends a request that contains only a session's name, and reports the result.
fn act(
    named: &Named,
    action: &str,
    participle: &str,
    request: fn(String) -> Request,
) -> Result<Exit, Error> {
    let done = named.agent.request_for_session(named.name.as_deref(), request)?;
    let words = format!("session `{}` {participle}", done.session);
    let more = [("losses", losses::all_to_json(&done.losses))];
    let more = if action == "stop" { &more[..] } else { &[] };
    named.agent.report(&done, &format!("session {action}"), words, more)?;
    Ok(losses::exit(&done.losses))
}

fn snapshot(args: TakeSnapshot) -> Result<Exit, Error> {
    let output = absolute(args.output.as_deref())?;
    let request = |session| Request::Snapshot(Snapshot { session, output: output.clone() });
    let done = args.named.agent.request_for_session(args.named.name.as_deref(), request)?;
    let words = match done.written.is_empty() {
        true => format!("session `{}` has nothing in memory; nothing was written", done.session),
        false => format!("snapshot of session `{}` written", done.session),
    };
    let more = [("reaches", reach::to_json(&done.reaches))];
    args.named.agent.report(&done, "session snapshot", words, &more)?;
    if !args.named.agent.json {
        reach::advice(&done.reaches, |_| done.retention).iter().for_each(|line| note(line));
    }
    Ok(Exit::Ok)
}

fn rotate(args: &Rotate) -> Result<Exit, Error> {
    let Named { name, agent } = &args.named;
    let mut done = agent.request_for_session(name.as_deref(), Request::RotateSession)?;
    let mut more = Vec::new();
    let words = match done.written.pop() {
        None => format!("session `{}` has recorded nothing since its last rotation", done.session),
        Some(chunk) => {
            let name = chunk.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let target = agent.connect()?.spooled_to(&done.session)?;
            let words = match &target {
                // The chunk's directory is removed as soon as the relay has it.
                Some(target) => {
                    format!("chunk {name} of session `{}` goes to {target}", done.session)
                }
                None => format!("chunk of session `{}` closed", done.session),
            };
            done.written.extend(Some(chunk).filter(|_| target.is_none()));
            more.push(("chunk", name.into()));
            words
        }
    };
    agent.report(&done, "session rotate", words, &more)?;
    Ok(Exit::Ok)
}

fn destroy(args: &Destroy) -> Result<Exit, Error> {
    if let Some(name) = &args.name {
        check(&Request::DestroySession(name.clone()))?;
    }
    let mut conversation = args.agent.connect()?;
    let name = match (&args.name, args.all) {
        (None, false) => Some(conversation.only_session()?),
        (name, _) => name.clone(),
    };
    let sessions = conversation.sessions(name.as_deref())?;
    let mut exit = Exit::Ok;
    for SessionDetails { state, .. } in sessions {
        let session = state.session.name;
        // Active sessions are stopped first, as by LTTng.
        let stopped = match state.activity {
            Activity::Active => conversation.stop_before_destroy(session.clone()),
            _ => Ok(()),
        };
        let request = Request::DestroySession(session.clone());
        let replies = match stopped.and_then(|()| conversation.request(&request)) {
            Ok(replies) => replies,
            Err(error) => {
                // The remaining sessions are still destroyed.
                exit = error.report();
                continue;
            }
        };
        let words = format!("session `{session}` destroyed");
        let losses = losses::from_replies(&replies);
        if exit == Exit::Ok {
            exit = losses::exit(&losses);
        }
        let more = [("losses", losses::all_to_json(&losses))];
        let new = ActionResult::new(conversation.address(), session);
        let done = ActionResult { losses, ..new };
        args.agent.report(&done, "session destroy", words, &more)?;
    }
    Ok(exit)
}
