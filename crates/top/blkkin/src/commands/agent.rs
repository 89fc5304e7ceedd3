//! `blkkin agent`: the daemon that records the traced programs of this machine.

use super::kernel_tracer::ProbeBudget;
use crate::exit::{Error, Exit};
use crate::interrupt::ending_signals;
use crate::output::agent_log;
use crate::service_manager::{warn_of_unused_sockets, watchdog_interval};
use blkkin_agent::{Agent, Limits, Options};
use blkkin_control::address::{SYSTEM, SocketEnvironment, VARIABLE};
use signal_hook::consts::SIGUSR1;
use std::env;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

/// Record what programs on this machine trace
///
/// Programs with BlkKin's library find the agent and record what sessions ask for. Root's agent
/// serves all users of the machine (if $BLKKIN_SOCKET is set, only on /run/blkkin/agent.sock):
/// members of the group `blkkin` control all of its sessions; other users control their own
/// sessions, which record their own programs. The agent of any other user serves that user's
/// programs only. The agent runs until Ctrl-C, SIGTERM or SIGHUP, and then writes everything
/// recorded so far. SIGUSR1 fires the triggers that were added with --agent-signal.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin agent &                                     for your own programs\n  \
        sudo blkkin agent --traces /srv/traces             for the whole machine\n  \
        sudo blkkin agent --probe-budget 5%                for a machine with little to spare\n  \
        blkkin session create s && blkkin event enable 'osd:*' && blkkin session start s",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    /// Listen on this socket [default: $BLKKIN_SOCKET, or else /run/blkkin/agent.sock for root,
    /// $XDG_RUNTIME_DIR/blkkin/agent.sock for other users]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Directory for traces of sessions without an output directory [default: blkkin-traces in each
    /// user's home]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,

    /// Group whose members control all sessions of root's agent
    #[arg(long, value_name = "NAME", default_value = "blkkin")]
    group: String,

    #[command(flatten)]
    budget: ProbeBudget,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    blkkin_sys::keep_inherited_sockets();
    let user_id = blkkin_sys::user_id();
    let own = || SocketEnvironment::new(user_id, env::var_os).own();
    let socket = args.socket.unwrap_or_else(own);
    let failed = |error: std::io::Error| Error::failed(format!("the agent cannot go on: {error}"));
    let (signals, tell) = UnixStream::pair().map_err(failed)?;
    signal_hook::low_level::pipe::register(SIGUSR1, tell).map_err(failed)?;
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let options = Options {
        is_public: user_id == 0 && (socket == *SYSTEM || env::var_os(VARIABLE).is_none()),
        socket,
        group: args.group,
        traces: args.traces.map(absolute),
        limits: Limits::default(),
        kernel_tracer: super::kernel_tracer::spawn(args.budget),
        forwarder: super::forwarder::spawn(),
        signals: Some(Arc::new(signals)),
        watchdog: watchdog_interval(),
        manager: env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()),
        log: agent_log,
    };
    // The agent opens a socket and several files for each traced program.
    crate::limits::raise_descriptors();
    let path = options.socket.display().to_string();
    let mut agent = Agent::bind(options).map_err(|error| {
        let told = Error::failed(error.to_string());
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                told.hint(format!(
                    "name a socket where you may write, in the environment of the agent and also of programs \
                     and commands, which look for it there: export {VARIABLE}=$HOME/.blkkin/agent.sock"
                ))
            }
            std::io::ErrorKind::AddrInUse => {
                told.hint("`blkkin status` shows what it records; end it before you start another")
            }
            _ => told,
        }
    })?;
    let (stopped, stop) = UnixStream::pair().map_err(failed)?;
    for signal in ending_signals() {
        let stop = stop.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, stop).map_err(failed)?;
    }
    agent_log(&format!("listening on {path}"));
    warn_of_unused_sockets(agent_log);
    agent.run(stopped.as_fd()).map_err(failed)?;
    Ok(Exit::Ok)
}
