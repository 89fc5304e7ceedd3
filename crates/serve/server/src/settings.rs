//! Settings of the server: addresses, access rules and limits. Start at [`Settings`].

use blkkin_secure::{Network, TokenFiles};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the server, which do not change while it runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses on which the server listens.
    pub listen: Listen,
    /// Certificate for all listeners except Scribe's; `None` for no TLS.
    pub tls: Option<Tls>,
    /// File with tokens that permit queries and sending spans, one token per line.
    pub token_file: Option<PathBuf>,
    /// File with tokens that permit queries only, one token per line.
    pub read_token_file: Option<PathBuf>,
    /// File with tokens that permit sending spans only, one token per line.
    pub write_token_file: Option<PathBuf>,
    /// Networks whose hosts can connect. If the list is not empty, only these hosts and loopback
    /// addresses can connect, and TLS and tokens are optional. Scribe's listeners ignore this
    /// setting.
    pub trusted_networks: Vec<Network>,
    /// Host names that requests may use for this server, besides the address at which the request
    /// arrived and, at loopback addresses, `localhost`.
    pub hosts: Vec<String>,
    /// Origins of other servers' pages that may use this server, such as `https://tools.example`,
    /// or `*` for all.
    pub origins: Vec<String>,
    /// Maximum number of connections to all listeners except Scribe's.
    pub connections_max: usize,
    /// Maximum number of connections to each of Scribe's listeners. A connection uses two
    /// descriptors.
    pub scribe_connections_max: usize,
    /// Time after which an idle connection is closed. The head of a request must arrive within the
    /// same time.
    pub idle_timeout: Duration,
    /// Maximum number of queries that run at the same time. Other queries wait.
    pub queries_max: usize,
    /// Maximum time for a query, including the time that it waits to run. While other queries wait,
    /// a query may run for half of this time only.
    pub query_timeout: Duration,
    /// Maximum total size of the answers to queries that are being sent, in bytes.
    pub answers_bytes: usize,
    /// Settings of the collector, which receives spans.
    pub collector: blkkin_collector::Settings,
    /// Settings of the query APIs.
    pub query: blkkin_query::Settings,
}

/// Addresses on which the server listens. Port 0 selects a free port. All listeners except Scribe's
/// accept the same requests; the lists exist for the protocols' usual ports.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// Addresses for Zipkin's protocols, OpenTelemetry over HTTP and gRPC, and queries.
    pub web: Vec<SocketAddr>,
    /// Addresses on which senders expect OpenTelemetry over HTTP.
    pub otlp_http: Vec<SocketAddr>,
    /// Addresses on which senders expect OpenTelemetry over gRPC.
    pub otlp_grpc: Vec<SocketAddr>,
    /// Addresses for Scribe. Only loopback addresses are permitted, as Scribe has neither TLS nor
    /// tokens.
    pub scribe: Vec<SocketAddr>,
}

/// Files with the server's certificate and key.
#[derive(Clone, Debug)]
pub struct Tls {
    /// PEM file with the certificate and its chain.
    pub certificates: PathBuf,
    /// PEM file with the certificate's private key.
    pub key: PathBuf,
}

impl Settings {
    /// Returns whether a host with this address may connect: any host if there are no trusted
    /// networks, otherwise one with a loopback address or in a trusted network.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let networks = &self.trusted_networks;
        networks.is_empty()
            || peer.to_canonical().is_loopback()
            || networks.iter().any(|network| network.contains(peer))
    }

    /// Returns whether there is any token file, so that requests need tokens.
    pub fn has_tokens(&self) -> bool {
        !self.token_files().is_empty()
    }

    pub(crate) fn token_files(&self) -> TokenFiles {
        TokenFiles {
            both: self.token_file.clone(),
            read: self.read_token_file.clone(),
            write: self.write_token_file.clone(),
        }
    }

    /// Sets the connection limits for a process with `descriptors` descriptors. Three eighths of
    /// them are for connections to all listeners except Scribe's, at most 4096. A quarter is for
    /// Scribe's connections, at most 1000 for each listener. The rest is for connections that are
    /// being closed, and for files.
    pub fn limit_connections(&mut self, descriptors: u64) {
        let most = |part: u64, max: usize| usize::try_from(part).map_or(max, |part| part.min(max));
        self.connections_max = most(descriptors / 8 * 3, 4096);
        let ports = self.listen.scribe.len().max(1) as u64;
        self.scribe_connections_max = most(descriptors / 8 / ports, 1000);
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: Listen::default(),
            tls: None,
            token_file: None,
            read_token_file: None,
            write_token_file: None,
            trusted_networks: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            connections_max: 1024,
            scribe_connections_max: 1000,
            idle_timeout: Duration::from_secs(30),
            queries_max: 8,
            query_timeout: Duration::from_secs(11),
            answers_bytes: 128 << 20,
            collector: blkkin_collector::Settings::default(),
            query: blkkin_query::Settings::default(),
        }
    }
}

/// Reason why the server cannot start, or cannot read its certificate, key and tokens again.
#[derive(Debug)]
pub enum StartError {
    /// Other machines could reach a listener that lacks TLS or tokens.
    Open {
        /// Address on which the server would listen.
        address: SocketAddr,
        /// Protection that is missing, as text for the message.
        missing: &'static str,
    },
    /// A listening socket cannot be opened, or the thread of a Scribe listener cannot be started.
    Listen {
        /// Address on which the server should listen.
        address: SocketAddr,
        /// Error that the operating system returned.
        error: io::Error,
    },
    /// A certificate, key or token file cannot be used, or no token would permit queries or sending
    /// spans.
    Keys(blkkin_secure::Error),
    /// The runtime of the server's threads cannot be created.
    Threads(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Open { address, missing } => {
                write!(f, "{address} can be reached from other machines, and {missing}")
            }
            StartError::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}")
            }
            StartError::Keys(error) => write!(f, "{error}"),
            StartError::Threads(error) => write!(f, "cannot start threads: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<blkkin_secure::Error> for StartError {
    fn from(error: blkkin_secure::Error) -> StartError {
        StartError::Keys(error)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn descriptors_are_shared_out() {
        let mut settings = super::Settings::default();
        for (descriptors, expected) in
            [(256, (96, 32)), (1024, (384, 128)), (524_288, (4096, 1000)), (u64::MAX, (4096, 1000))]
        {
            settings.limit_connections(descriptors);
            let found = (settings.connections_max, settings.scribe_connections_max);
            assert_eq!(found, expected, "{descriptors}");
        }
    }
}
