//! `blkkin relay`: receives sessions of many nodes, stores them, and serves live viewers.

use crate::directories::state_directory;
use crate::exit::{Error, Exit};
use crate::interrupt::on_signals;
use crate::service_manager;
use blkkin_lttng::relay::{CONTROL_PORT, DATA_PORT};
use blkkin_lttng::viewer::PORT;
use blkkin_relay::{Addresses, Options, Relay};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc;

/// Receive sessions of many nodes, store them, and serve live viewers
///
/// Producers are agents (`blkkin session create NAME --net net://HOST`) and LTTng's session and
/// consumer daemons (`lttng create NAME --live` or `--set-url=net://HOST`). Each session becomes a
/// directory of traces below the node's name in the output directory, with LTTng's names; rotations
/// and `lttng clear` work. Viewers are `blkkin view net://HOST/host/NODE/SESSION`, `blkkin server
/// --from net://HOST`, and others that speak LTTng's protocol, such as `babeltrace2 -i lttng-live`.
/// Several viewers can read a session, and a slow viewer delays nobody.
///
/// While the disk is full, producers wait, and count what they discard. SIGTERM and Ctrl-C end the
/// relay.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin relay --output /srv/traces\n  \
        blkkin relay --output /srv/traces --listen 0.0.0.0 --trust-network\n  \
        blkkin session create web --net net://localhost        a session for it\n  \
        lttng create web --live --set-url=net://localhost      the same with LTTng\n  \
        blkkin live ls net://localhost                         the sessions that viewers can read",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    /// Directory for the sessions [default: /var/lib/blkkin/relay for root, else blkkin/relay in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,

    /// Port for producers' control connections; 0 for a free one, here and below
    #[arg(long, value_name = "PORT", default_value_t = CONTROL_PORT)]
    control_port: u16,

    /// Port for producers' data connections
    #[arg(long, value_name = "PORT", default_value_t = DATA_PORT)]
    data_port: u16,

    /// Port for viewers
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    live_port: u16,

    /// Allow connections from other machines
    ///
    /// LTTng's protocols have neither passwords nor encryption: everybody who can connect can write
    /// sessions and read those of others.
    #[arg(long)]
    trust_network: bool,
}

/// Maximum number of connections of each kind: producers, their data, viewers.
const CONNECTIONS_MAX: usize = 1024;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if !args.listen.is_loopback() && !args.trust_network {
        let told = format!("{} can be reached from other machines, by anybody", args.listen);
        return Err(Error::usage(told).hint(
            "LTTng's protocols have neither passwords nor encryption; if you trust the network, \
             add --trust-network",
        ));
    }
    let output = args.output.clone().or_else(|| state_directory("relay")).ok_or_else(|| {
        Error::usage("there is no home directory for sessions").hint("give --output")
    })?;
    let output = std::path::absolute(&output).unwrap_or(output);
    fs::create_dir_all(&output).map_err(|error| {
        Error::failed(format!("cannot make the directory {}: {error}", output.display()))
    })?;
    // Each stream has a file and an index, each connection a socket.
    crate::limits::raise_descriptors();
    // Signals that arrive while the ports are opened must not be lost.
    let (interrupt, interrupted) = mpsc::channel();
    let interrupt = move || {
        let _ = interrupt.send(());
    };
    on_signals(&[SIGINT, SIGTERM], interrupt)
        .map_err(|error| Error::failed(format!("cannot wait for signals: {error}")))?;
    let address = |port| SocketAddr::new(args.listen, port);
    let addresses = Addresses {
        control: address(args.control_port),
        data: address(args.data_port),
        viewers: address(args.live_port),
    };
    let shown = output.display().to_string();
    let options = Options { addresses, output, connections_max: CONNECTIONS_MAX };
    let mut relay = Relay::start(options, log).map_err(|error| {
        let ports = format!("{}, {} and {}", args.control_port, args.data_port, args.live_port);
        let told = Error::failed(format!("cannot listen on ports {ports}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => told
                .hint("another relay may be running; see --control-port, --data-port, --live-port"),
            io::ErrorKind::PermissionDenied => told.hint("give ports above 1023"),
            _ => told,
        }
    })?;
    let Addresses { control, data, viewers } = relay.addresses();
    log(&format!(
        "producers at {control} and port {}, viewers at {viewers}; sessions are written to {shown}",
        data.port()
    ));
    service_manager::notify(blkkin_sys::READY, log);
    let _ = interrupted.recv();
    service_manager::notify(blkkin_sys::STOPPING, log);
    relay.stop();
    log("ended; what producers had sent is on disk");
    Ok(Exit::Ok)
}

/// Writes a log line to standard error, for people and for systemd's journal.
fn log(line: &str) {
    let _ = writeln!(crate::output::styled_stderr(), "blkkin relay: {line}");
}
