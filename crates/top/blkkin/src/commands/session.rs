//! `blkkin session`: what is recorded together, from its making to its end.

pub(super) mod list;

use super::completions;
use crate::conversation::{AgentArgs, Done, Listed, absolute, check, written};
use crate::exit::{Error, Exit};
use crate::losses;
use crate::values;
use blkkin_control::{Activity, Purpose, Request, Session, SessionLimit, Snapshot};
use clap_complete::engine::ArgValueCandidates;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Make, start, stop and list recordings
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session create web -o /data/web\n  \
        blkkin event enable -s web 'zipkin:*'\n  \
        blkkin session start web\n  \
        blkkin session stop web\n  \
        blkkin view /data/web",
    after_help = crate::AGENT_HELP,
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
    Destroy(Destroy),
}

/// Make a session, which does not record before it is started
///
/// Where it writes to goes to standard output. 5 % of the file system, 1 GiB at most, is always left free for
/// others; what cannot be written is counted as lost.
///
/// An agent of several users writes other users' sessions and snapshots to local file systems only, and enters nothing
/// that is mounted below their directories later. Directories on network and cluster file systems are for root, whose
/// sessions have the agent, and so everybody, wait while such a file system does not answer; others use `blkkin record`,
/// whose agent serves one user.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session create web                             the agent chooses where to write\n  \
        blkkin session create web -o /data/web --size-max 10G\n  \
        blkkin session create flight --snapshot               only in memory, until a snapshot",
    after_help = crate::AGENT_HELP
)]
struct Create {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,

    /// Directory to make for what is recorded or, with --snapshot, for snapshots
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Keep events in memory, the newest ones, until a snapshot is asked for
    #[arg(long)]
    snapshot: bool,

    /// Bytes that the session may write; K, M and G may be used. What comes after that is counted as lost
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, conflicts_with = "snapshot")]
    size_max: Option<u64>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// List sessions, or tell all about one
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session list\n  \
        blkkin session list web                               with its channels and events\n  \
        blkkin session list --json | jq -r '.sessions[].name'",
    after_help = crate::LOSS_HELP
)]
struct List {
    /// Only this one, with its channels and events
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::sessions))]
    name: Option<String>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// The session that is meant, of commands about something in it.
#[derive(clap::Args, Debug)]
pub(super) struct SessionArg {
    /// The session; may be left out where there is only one
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

/// The session that is meant.
#[derive(clap::Args, Debug)]
struct Named {
    /// Name of the session; may be left out where there is only one
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::sessions))]
    name: Option<String>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Start to record
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session start                                  the only one there is\n  \
        blkkin session start web",
    after_help = crate::AGENT_HELP
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
    after_help = crate::LOSS_HELP
)]
struct Stop {
    #[command(flatten)]
    named: Named,
}

/// Drop what was recorded so far, in memory and files
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session clear web",
    after_help = crate::AGENT_HELP
)]
struct Clear {
    #[command(flatten)]
    named: Named,
}

/// Write what is in memory now
///
/// The path of the trace goes to standard output.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session snapshot flight -o /data/crash\n  \
        blkkin view \"$(blkkin session snapshot flight)\"",
    after_help = crate::AGENT_HELP
)]
struct TakeSnapshot {
    #[command(flatten)]
    named: Named,

    /// Directory to make, instead of the one that the session was made with
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Stop a session and forget it; what it wrote stays
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session destroy web\n  \
        blkkin session destroy --all",
    after_help = crate::LOSS_HELP
)]
struct Destroy {
    /// Name of the session; may be left out where there is only one
    #[arg(
        value_name = "NAME",
        conflicts_with = "all",
        add = ArgValueCandidates::new(completions::sessions)
    )]
    name: Option<String>,

    /// All sessions
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
        Command::Destroy(args) => destroy(&args),
    }
}

fn create(args: Create) -> Result<Exit, Error> {
    let purpose = if args.snapshot { Purpose::Snapshot } else { Purpose::Record };
    let output = absolute(args.output.as_deref())?;
    let session = Session { name: args.name, purpose, output };
    let name = session.name.clone();
    let request = Request::CreateSession(session);
    check(&request)?;
    let mut conversation = args.agent.connect()?;
    let written = written(conversation.ask(&request)?);
    if let Some(size_max) = args.size_max {
        conversation
            .ask(&Request::LimitSession(SessionLimit { session: name.clone(), size_max }))?;
    }
    let losses = Vec::new();
    let done = Done { agent: conversation.address(), session: name.clone(), written, losses };
    let words = format!("session `{name}` made");
    args.agent.tell(&done, "session create", words, &[])?;
    if io::stderr().is_terminal() && !args.agent.json {
        let next = "blkkin event enable PATTERN, and blkkin session start";
        let _ = writeln!(crate::output::stderr(), "next: {next}");
    }
    Ok(Exit::Ok)
}

/// What needs but a session's name.
fn act(
    named: &Named,
    action: &str,
    participle: &str,
    request: fn(String) -> Request,
) -> Result<Exit, Error> {
    let done = named.agent.on_session(named.name.as_deref(), request)?;
    let words = format!("session `{}` {participle}", done.session);
    let more = [("losses", losses::all_to_json(&done.losses))];
    let more = if action == "stop" { &more[..] } else { &[] };
    named.agent.tell(&done, &format!("session {action}"), words, more)?;
    Ok(losses::exit(&done.losses))
}

fn snapshot(args: TakeSnapshot) -> Result<Exit, Error> {
    let output = absolute(args.output.as_deref())?;
    let request = |session| Request::Snapshot(Snapshot { session, output: output.clone() });
    let done = args.named.agent.on_session(args.named.name.as_deref(), request)?;
    let words = match done.written.is_empty() {
        true => format!("session `{}` has nothing in memory; nothing was written", done.session),
        false => format!("snapshot of session `{}` written", done.session),
    };
    args.named.agent.tell(&done, "session snapshot", words, &[])?;
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
    for Listed { state, .. } in sessions {
        let session = state.session.name;
        // As users of LTTng are used to.
        let stopped = match state.activity {
            Activity::Active => conversation.stop_at_last(session.clone()),
            _ => Ok(()),
        };
        let request = Request::DestroySession(session.clone());
        let replies = match stopped.and_then(|()| conversation.ask(&request)) {
            Ok(replies) => replies,
            Err(error) => {
                // The others are still to go.
                exit = error.report();
                continue;
            }
        };
        let words = format!("session `{session}` destroyed");
        let losses = losses::among(&replies);
        if exit == Exit::Ok {
            exit = losses::exit(&losses);
        }
        let more = [("losses", losses::all_to_json(&losses))];
        let done = Done { agent: conversation.address(), session, written: Vec::new(), losses };
        args.agent.tell(&done, "session destroy", words, &more)?;
    }
    Ok(exit)
}
