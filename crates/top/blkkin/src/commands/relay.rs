//! `blkkin relay`: receives sessions of many nodes, stores them, and serves live viewers.

use crate::directories::state_directory;
use crate::exit::{Error, Exit};
use crate::interrupt::on_signals;
use crate::service_manager;
use blkkin_lttng::relay::{CONTROL_PORT, DATA_PORT};
use blkkin_lttng::viewer::PORT;
use blkkin_relay::{Addresses, Admission, Options, Relay};
use blkkin_secure::{Network, ServerKeys, TokenFiles};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
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
/// relay; SIGHUP reads certificate, tokens and client authorities again.
///
/// Other machines can connect with TLS (nets://HOST) and a token or a client certificate. LTTng's
/// programs have neither: --trusted-network names the networks whose hosts need none. Each option
/// can also be set by an environment variable such as BLKKIN_RELAY_LISTEN, in which spaces separate
/// values.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin relay --output /srv/traces\n  \
        blkkin relay --listen 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file tokens\n  \
        blkkin relay --listen 10.0.0.5 --trusted-network 10.0.0.0/8    for LTTng's programs\n  \
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

    /// Serve with this certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,

    /// Accept clients with a certificate that one of these has signed, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    client_ca: Option<PathBuf>,

    /// Accept producers and viewers with one of the tokens in this file, one a line
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    token_file: Option<PathBuf>,

    /// Tokens of viewers
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    read_token_file: Option<PathBuf>,

    /// Tokens of producers
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    write_token_file: Option<PathBuf>,

    /// Accept connections without TLS and tokens from this network, such as 10.0.0.0/8
    ///
    /// LTTng's protocols have neither passwords nor encryption: everybody who can send from such an
    /// address can write sessions, and read those of others. Without --tls-cert, this machine is
    /// trusted, too. Can be repeated.
    #[arg(long, value_name = "CIDR", help_heading = "Security")]
    trusted_network: Vec<Network>,
}

/// Maximum number of connections of each kind: producers, their data, viewers.
const CONNECTIONS_MAX: usize = 1024;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    blkkin_sys::keep_inherited_sockets();
    let keys = args.keys().map_err(|error| match error {
        blkkin_secure::Error::Tokens { .. } => Error::usage(error.to_string()).hint(
            "give --token-file, both --read-token-file and --write-token-file, or --client-ca",
        ),
        _ => Error::failed(error.to_string()),
    })?;
    if !args.listen.is_loopback() && keys.is_none() && args.trusted_network.is_empty() {
        let told = format!("{} can be reached from other machines, by anybody", args.listen);
        return Err(Error::usage(told).hint(
            "add --tls-cert, --tls-key and --token-file; for LTTng's programs, which have no TLS, \
             name those who may connect with --trusted-network",
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
    let (signal, signals) = mpsc::channel();
    let interrupt = signal.clone();
    let interrupt = move || {
        let _ = interrupt.send(Signal::End);
    };
    let reload = move || {
        let _ = signal.send(Signal::Reload);
    };
    on_signals(&[SIGINT, SIGTERM], interrupt)
        .and_then(|()| on_signals(&[SIGHUP], reload))
        .map_err(|error| Error::failed(format!("cannot wait for signals: {error}")))?;
    let address = |port| SocketAddr::new(args.listen, port);
    let addresses = Addresses {
        control: address(args.control_port),
        data: address(args.data_port),
        viewers: address(args.live_port),
    };
    let shown = output.display().to_string();
    let admission = Admission { trusted_networks: args.trusted_network.clone(), keys };
    let options = Options { addresses, output, connections_max: CONNECTIONS_MAX, admission };
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
    service_manager::warn_of_unused_sockets(log);
    service_manager::notify(blkkin_sys::READY, log);
    let sessions = relay.sessions().clone();
    service_manager::start_watchdog(move || drop(sessions.list()), log);
    while let Ok(Signal::Reload) = signals.recv() {
        match args.keys() {
            Ok(Some(keys)) => {
                relay.set_keys(keys);
                log("certificate, tokens and client authorities were read again");
            }
            Ok(None) => log("there is no certificate to read again"),
            Err(error) => log(&format!("certificate and tokens stay as they are: {error}")),
        }
    }
    service_manager::notify(blkkin_sys::STOPPING, log);
    relay.stop();
    log("ended; what producers had sent is on disk");
    Ok(Exit::Ok)
}

enum Signal {
    Reload,
    End,
}

impl Args {
    /// Reads certificate, tokens and client authorities; `None` without a certificate.
    fn keys(&self) -> Result<Option<ServerKeys>, blkkin_secure::Error> {
        let Some((certificate, key)) = self.tls_cert.as_deref().zip(self.tls_key.as_deref()) else {
            return Ok(None);
        };
        let tokens = TokenFiles {
            both: self.token_file.clone(),
            read: self.read_token_file.clone(),
            write: self.write_token_file.clone(),
        };
        ServerKeys::read(certificate, key, self.client_ca.as_deref(), &tokens).map(Some)
    }
}

/// Writes a log line to standard error, for people and for systemd's journal.
fn log(line: &str) {
    let _ = writeln!(crate::output::styled_stderr(), "blkkin relay: {line}");
}
