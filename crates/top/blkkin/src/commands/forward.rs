//! `blkkin forward`: sends the traces in a directory to a relay.

use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::limits::raise_descriptors;
use crate::output::{ignore_closed_pipe, plural, raw_stdout};
use crate::relay_credentials;
use blkkin_forward::{Delivery, Persistence, Report, SessionName, Target, Totals};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Send the traces in a directory to a relay
///
/// The relay (`blkkin relay` or `lttng-relayd`) stores them as a session of this machine, and
/// serves them to live viewers meanwhile. Packets are sent as they are, without decoding: the
/// directory is one that BlkKin's agent or LTTng wrote, with an index beside each stream file, and
/// has CTF 1.8.
///
/// With --follow, traces, streams, packets and metadata that are added later are sent, too, until
/// Ctrl-C. If the connection fails, it is made again, and what the relay has not acknowledged is
/// sent in a new session of the same name.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin forward /data/web net://collector\n  \
        blkkin forward --follow /data/web net://collector      while it is recorded\n  \
        blkkin forward --name friday /data/web net://localhost:5342:5343",
    after_help = crate::help::RELAY_HELP
)]
pub(crate) struct Args {
    /// Trace directory, or directory above traces
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Relay: `net://HOST[:CONTROL_PORT[:DATA_PORT]]`, or `nets://` for one with TLS
    #[arg(value_name = "URL")]
    target: Target,

    /// Continue with what is added, until Ctrl-C
    #[arg(short, long)]
    follow: bool,

    /// Name of the session at the relay [default: the name of DIR]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Name of this machine at the relay [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if !args.directory.is_dir() {
        return Err(Error::failed(format!("{} is no directory", args.directory.display())));
    }
    let session = args.session()?;
    let Target { host, control_port, .. } = &args.target;
    let failed = |error: io::Error| {
        let told = Error::failed(format!("cannot send to {host} port {control_port}: {error}"));
        match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                told.hint("start `blkkin relay` there, or name its ports: net://HOST:CONTROL:DATA")
            }
            _ => match relay_credentials::hint(&error).filter(|_| args.target.is_secure) {
                Some(hint) => told.hint(hint),
                None => told,
            },
        }
    };
    let (ending, persistence) = match args.follow {
        true => (Interrupt::listen_on_socket()?, Persistence::Follow),
        false => (readable_socket()?, Persistence::Once),
    };
    // Each stream has two files.
    raise_descriptors();
    let mut delivery =
        Delivery::new(args.target.clone(), session.clone(), &args.directory, persistence)
            .with_credentials(relay_credentials::read);
    let (mut path, mut is_complete) = (String::new(), true);
    let mut report = |report: Report<'_>| match report {
        Report::Connected(at) => {
            if !path.is_empty() {
                exit::note(&format!("connected again; the rest is at the relay in {at}"));
            }
            at.clone_into(&mut path);
        }
        Report::Lost(error) => {
            exit::warn(&format!("connection lost, and tried again until Ctrl-C: {error}"));
        }
        Report::Damaged(line) => {
            exit::warn(line);
            is_complete = false;
        }
        Report::Progress(..) => {}
    };
    let totals = delivery.run(ending.as_fd(), &mut report).map_err(failed)?;
    ignore_closed_pipe(print(&args, &session, &path, totals))?;
    if totals.traces == 0 {
        exit::warn(&format!("{} has no trace", args.directory.display()));
    }
    Ok(if is_complete && totals.traces > 0 { Exit::Ok } else { Exit::Failed })
}

/// Returns a socket that is readable from the start.
fn readable_socket() -> io::Result<UnixStream> {
    let (told, mut tell) = UnixStream::pair()?;
    tell.write_all(&[0])?;
    Ok(told)
}

impl Args {
    fn session(&self) -> Result<SessionName, Error> {
        let check = |what: &str, name: String| match blkkin_lttng::is_component(&name) {
            true => Ok(name),
            false => Err(Error::usage(format!("`{name}` cannot be the name of a {what}"))
                .hint("names have no `/`, and no `.` at their start")),
        };
        let own = || {
            let path = std::path::absolute(&self.directory).unwrap_or_default();
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let node = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = check("session", self.name.clone().unwrap_or_else(own));
        let name = name.map_err(|error| error.hint("give one with --name"))?;
        let host = check("machine", self.host.clone().unwrap_or_else(node))?;
        Ok(SessionName { host, name, producer: blkkin_agent::new_uuid() })
    }
}

fn print(args: &Args, session: &SessionName, path: &str, totals: Totals) -> io::Result<()> {
    let Totals { traces, packets, bytes, .. } = totals;
    let mut out = raw_stdout()?;
    if args.json {
        let object = serde_json::json!({
            "schema": "blkkin.forward.v1",
            "host": session.host,
            "session": session.name,
            "path": path,
            "traces": traces,
            "packets": packets,
            "bytes": bytes,
        });
        return writeln!(out, "{object}");
    }
    let (traces, packets) = (plural(traces, "trace"), plural(packets, "packet"));
    writeln!(
        out,
        "sent {traces} with {packets}, {bytes} bytes; at the relay: {}",
        Path::new(path).display()
    )
}
