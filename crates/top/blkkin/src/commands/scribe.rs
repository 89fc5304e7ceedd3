//! `blkkin scribe`: the daemon that stores messages of Scribe's protocol and forwards them.

use crate::directories::state_directory;
use crate::exit::{self, Error, Exit};
use crate::interrupt::on_signals;
use crate::values;
use blkkin_scribed::{Config, Daemon, Options, Plan, Problem, Target};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Store messages of Scribe's protocol, and forward them
///
/// The server answers OK when a batch is on disk, and forwards it to another server or into files,
/// in order, even if that has to wait for hours. It answers TRY_LATER to a batch that it cannot
/// store now. Messages without a category or a store, and messages of 4 MiB or more, are only
/// counted. With --config it follows a configuration of Scribe's own daemon: stores of types file,
/// network, buffer, bucket, multi, category and null. Each fault in the configuration is reported
/// with its line; the rest is served.
///
/// SIGHUP reloads the configuration; SIGTERM and Ctrl-C end the daemon. After that, or after a
/// kill, all messages that were stored and not forwarded are still on disk, and the next start
/// forwards them. Some messages may arrive twice. Scribe's control scripts (status, counters) work.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin scribe --to scribe://collector:1463                 store and forward, on this node\n  \
        blkkin scribe --to /srv/logs                               a file for each category\n  \
        blkkin scribe --config /etc/scribe/scribe.conf             as Scribe's own daemon\n  \
        blkkin scribe --config scribe.conf --check                 only say what is wrong with it\n  \
        blkkin scribe --listen 0.0.0.0:1463 --trust-network --to /srv/logs",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    /// Destination of all messages: scribe://HOST or scribe://HOST:PORT, or a directory
    #[arg(long, value_name = "TARGET", required_unless_present = "config")]
    to: Option<String>,

    /// Configuration file of Scribe's own daemon
    #[arg(short, long, value_name = "FILE", conflicts_with = "to")]
    config: Option<PathBuf>,

    /// Only report faults in the configuration, and settings without effect
    #[arg(long, requires = "config")]
    check: bool,

    /// Listen here [default: 127.0.0.1, at the port of the configuration or 1463]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,

    /// Allow connections from other machines
    ///
    /// Scribe's protocol has neither passwords nor encryption: everybody who can connect can write.
    #[arg(long)]
    trust_network: bool,

    /// Directory for waiting messages, unless the configuration names one [default:
    /// /var/lib/blkkin/scribe for root, else blkkin/scribe in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Disk quota for the waiting messages of a category; beyond it the answer is TRY_LATER
    /// [default: the configuration's quota, else 1G]
    #[arg(long, value_name = "SIZE", value_parser = crate::values::bytes)]
    quota: Option<u64>,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let plan = args.plan().map_err(|error| {
        let path = args.config.as_deref().unwrap_or(Path::new("")).display().to_string();
        Error::failed(format!("cannot read {path}: {error}"))
    })?;
    if args.check {
        return check(&plan);
    }
    let listen = args.listen(&plan)?;
    let directory = args.directory()?;
    // The daemon opens a socket for each client, and a journal for each category.
    crate::limits::raise_descriptors();
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let shown = directory.display().to_string();
    let failed = |error: io::Error| Error::failed(format!("the daemon cannot go on: {error}"));
    let again = args.config.clone();
    let configure = Box::new(move || {
        args.plan().unwrap_or_else(|error| {
            let path = again.as_deref().unwrap_or(Path::new("")).display();
            let mut plan = Plan::default();
            plan.problems.push(Problem { line: 0, text: format!("cannot read {path}: {error}") });
            plan
        })
    });
    let daemon = Daemon::start(Options { listen, directory, configure, log });
    let daemon = daemon.map_err(|error| {
        let told = Error::failed(format!("cannot listen on {listen}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => told.hint("is another daemon running? see --listen"),
            io::ErrorKind::PermissionDenied => told.hint("give a port above 1023 with --listen"),
            _ => told,
        }
    })?;
    let (stop, reload) = (daemon.remote(), daemon.remote());
    on_signals(&[SIGINT, SIGTERM], move || stop.stop()).map_err(failed)?;
    on_signals(&[SIGHUP], move || reload.reload()).map_err(failed)?;
    log(&format!("listening on {}; messages wait in {shown}", daemon.address()));
    daemon.run();
    log("ended; what was taken is on disk");
    Ok(Exit::Ok)
}

impl Args {
    /// Returns the daemon's settings and stores, from the configuration file or from `--to`.
    /// Returns an error if the configuration cannot be read.
    fn plan(&self) -> io::Result<Plan> {
        let mut plan = match (&self.config, &self.to) {
            (Some(path), _) => {
                let text = fs::read(path)?;
                Plan::of(&Config::read(&String::from_utf8_lossy(&text)))
            }
            (None, to) => {
                let to = to.as_deref().unwrap_or_default();
                let mut plan = Plan::default();
                plan.add_target(match values::scribe_server(to) {
                    Ok(server) => Target::Server(server),
                    Err(_) => {
                        let path = PathBuf::from(to);
                        Target::Files(std::path::absolute(&path).unwrap_or(path))
                    }
                });
                plan
            }
        };
        plan.quota_bytes = self.quota.unwrap_or(plan.quota_bytes);
        Ok(plan)
    }

    fn listen(&self, plan: &Plan) -> Result<SocketAddr, Error> {
        if let Some(to) = self.to.as_deref().filter(|to| to.contains("://")) {
            values::scribe_server(to).map_err(|why| Error::usage(format!("--to: {why}")))?;
        }
        let usual = format!("127.0.0.1:{}", plan.port.unwrap_or(blkkin_scribe::PORT));
        let text = self.listen.as_ref().unwrap_or(&usual);
        let addresses = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let Ok([address, ..]) = addresses.as_deref() else {
            let told = Error::usage(format!("--listen: `{text}` is no address to listen on"));
            return Err(told.hint("write HOST:PORT, such as 127.0.0.1:1463"));
        };
        if !address.ip().is_loopback() && !self.trust_network {
            let told = format!("{address} can be reached from other machines, by anybody");
            return Err(Error::usage(told).hint(
                "Scribe's protocol has neither passwords nor encryption; if you trust the network, \
                 add --trust-network",
            ));
        }
        Ok(*address)
    }

    fn directory(&self) -> Result<PathBuf, Error> {
        let directory = self.dir.clone().or_else(|| state_directory("scribe"));
        directory.ok_or_else(|| {
            Error::usage("there is no home directory for messages to wait in").hint("give --dir")
        })
    }
}

fn check(plan: &Plan) -> Result<Exit, Error> {
    for note in &plan.notes {
        exit::note(&note.to_string());
    }
    for problem in &plan.problems {
        exit::warn(&problem.to_string());
    }
    Ok(if plan.problems.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Writes a log line to standard error, for people and for systemd's journal.
fn log(line: &str) {
    let _ = writeln!(crate::output::styled_stderr(), "blkkin scribe: {line}");
}
