//! `blkkin channel`: creates, removes and lists the channels of a session.

use super::completions;
use super::event_limits::EventLimits;
use super::session::{SessionArg, list::channel_lines};
use crate::conversation::{AgentArgs, SessionChannel, check, json, print};
use crate::exit::{Error, Exit};
use crate::values;
use blkkin_control::{Channel, ChannelName, Context, Mode, Request, Sharing};
use clap_complete::engine::ArgValueCandidates;

/// Make, list and remove channels: the rings for events of a session
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin channel create main -s web --subbuf-size 1M --num-subbuf 8\n  \
        blkkin channel create all --shared --overwrite --context pid,tid,procname\n  \
        blkkin channel create audit --of all --share 25%        a part of its memory\n  \
        blkkin channel remove audit -s web\n  \
        blkkin channel list -s web",
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
    Remove(Remove),
    List(List),
}

/// Make a channel in a session
///
/// The agent chooses values for options that are not given. Each traced program has one ring per
/// CPU, of --num-subbuf times --subbuf-size bytes.
///
/// The memory of a --shared channel is divided among its parts, which --of and --share make and
/// `channel remove` removes, also while the session records. A flood of events in one part takes no
/// memory of the others, and pushes out none of their events.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin channel create main                            in the only session there is\n  \
        blkkin channel create main -s web --subbuf-size 1M --num-subbuf 8\n  \
        blkkin channel create main --blocking=20ms            wait for room, then drop\n  \
        blkkin channel create flight -s web --overwrite       the newest events are kept\n  \
        blkkin channel create disks --kernel --num-subbuf 32  for events of the kernel\n  \
        blkkin channel create all -s web --shared             to be divided\n  \
        blkkin channel create audit -s web --of all --share 25%\n  \
        blkkin channel create main --context pid,tid,procname,'$app.db:query'",
    after_help = crate::help::AGENT_HELP
)]
struct Create {
    /// Name of the channel
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    session: SessionArg,

    /// Make a channel for events of the kernel; see `blkkin event enable --kernel`
    #[arg(short, long, conflicts_with_all = ["overwrite", "blocking", "string_max", "context"])]
    kernel: bool,

    /// When the ring is full, overwrite the oldest events
    #[arg(long, conflicts_with_all = ["discard", "blocking"], help_heading = "Ring")]
    overwrite: bool,

    /// When the ring is full, drop and count new events (the default)
    #[arg(long, help_heading = "Ring")]
    discard: bool,

    /// Bytes of a sub-buffer, a power of two: 4096, 256K, 1M
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Ring")]
    subbuf_size: Option<u64>,

    /// Sub-buffers of a ring, a power of two
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Ring")]
    num_subbuf: Option<u32>,

    /// Make a channel without events of its own, whose memory is divided among its parts
    #[arg(long, help_heading = "Sharing")]
    shared: bool,

    /// Make a part of this shared channel, whose mode and contexts apply
    #[arg(
        long,
        value_name = "SHARED",
        requires = "share",
        conflicts_with_all = [
            "shared", "kernel", "overwrite", "discard", "subbuf_size", "num_subbuf", "blocking",
            "string_max", "context"
        ],
        add = ArgValueCandidates::new(completions::channels),
        help_heading = "Sharing"
    )]
    of: Option<String>,

    /// Maximum size of the part's rings, in percent of the shared channel's; rounded down to a
    /// power of two
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = values::percent,
        requires = "of",
        help_heading = "Sharing"
    )]
    share: Option<u32>,

    #[command(flatten)]
    limits: EventLimits,

    /// Context to add to each event: pid, tid, procname, cpu, the namespaces pid_ns, mnt_ns, …,
    /// cgroup_id, or PROVIDER:NAME for one that programs supply
    #[arg(
        long,
        value_name = "CONTEXT,…",
        value_delimiter = ',',
        value_parser = values::context,
        add = ArgValueCandidates::new(completions::contexts)
    )]
    context: Vec<Context>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Remove a channel from a session, also while it records
///
/// Its rings are freed. What it has recorded stays in the session's traces; in a session for
/// snapshots, where events are only in the rings, it is dropped.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin channel remove audit                           from the only session there is\n  \
        blkkin channel remove audit -s web",
    after_help = crate::help::AGENT_HELP
)]
struct Remove {
    /// Name of the channel
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::channels))]
    name: String,

    #[command(flatten)]
    session: SessionArg,

    #[command(flatten)]
    agent: AgentArgs,
}

/// List the channels of a session
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin channel list                                   of the only session there is\n  \
        blkkin channel list -s web --json | jq -r '.channels[].name'",
    after_help = crate::help::AGENT_HELP
)]
struct List {
    #[command(flatten)]
    session: SessionArg,

    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Create(args) => create(args),
        Command::Remove(args) => remove(&args),
        Command::List(args) => list(&args),
    }
}

fn create(args: Create) -> Result<Exit, Error> {
    let channel = Channel {
        name: args.name,
        mode: if args.overwrite { Mode::Overwrite } else { Mode::Discard },
        subbuffer_size: args.subbuf_size,
        subbuffer_count: args.num_subbuf,
        contexts: args.context,
        wait_us: args.limits.blocking.unwrap_or(0),
        event_size: args.limits.string_max,
    };
    let name = channel.name.clone();
    let sharing = match (args.of, args.share) {
        (Some(of), Some(percent)) => Some(Sharing::Part { of, percent }),
        _ => args.shared.then_some(Sharing::Shared),
    };
    let new = SessionChannel { channel, is_kernel: args.kernel, sharing };
    let create = |session| new.create_request(session);
    let done = args.agent.request_for_session(args.session.name(), create)?;
    let words = format!("channel `{name}` made in session `{}`", done.session);
    args.agent.report(&done, "channel create", words, &[("channel", name.into())])?;
    Ok(Exit::Ok)
}

fn remove(args: &Remove) -> Result<Exit, Error> {
    let channel = &args.name;
    let request =
        |session| Request::RemoveChannel(ChannelName { session, channel: channel.clone() });
    let done = args.agent.request_for_session(args.session.name(), request)?;
    let words = format!("channel `{channel}` removed from session `{}`", done.session);
    args.agent.report(&done, "channel remove", words, &[("channel", channel.as_str().into())])?;
    Ok(Exit::Ok)
}

fn list(args: &List) -> Result<Exit, Error> {
    let named = args.session.name();
    if let Some(name) = named {
        check(&Request::ListSessions(Some(name.to_owned())))?;
    }
    let mut conversation = args.agent.connect()?;
    let session = match named {
        Some(name) => name.to_owned(),
        None => conversation.only_session()?,
    };
    let sessions = conversation.sessions(Some(&session))?;
    let channels = sessions.into_iter().flat_map(|listed| listed.channels);
    let channels: Vec<SessionChannel> = channels.collect();
    if args.agent.json {
        let object = serde_json::json!({
            "schema": "blkkin.channels.v1",
            "agent": conversation.address(),
            "session": session,
            "channels": channels.iter().map(json::channel).collect::<Vec<_>>(),
        });
        print(&format!("{object}\n"))?;
        return Ok(Exit::Ok);
    }
    if channels.is_empty() {
        crate::exit::note(&format!(
            "session `{session}` has no channel yet; one is made with its first event"
        ));
    }
    print(&channel_lines(&channels))?;
    Ok(Exit::Ok)
}
