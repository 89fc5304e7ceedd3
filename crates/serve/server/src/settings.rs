//! Where the server listens, whom it lets in, and how much it does at once. Start at [`Settings`].

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// All of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where.
    pub listen: Listen,
    /// Talks TLS, everywhere but on Scribe's port.
    pub tls: Option<Tls>,
    /// A file with tokens, a line each, for reading and writing.
    pub token_file: Option<PathBuf>,
    /// A file with tokens for asking questions only.
    pub read_token_file: Option<PathBuf>,
    /// A file with tokens for sending spans only.
    pub write_token_file: Option<PathBuf>,
    /// If there are any, only their hosts and this machine can connect, and need neither TLS nor tokens if none are
    /// given. They do not count for Scribe.
    pub trusted_networks: Vec<Network>,
    /// Names by which the server is known, beside its addresses.
    pub hosts: Vec<String>,
    /// Origins whose pages may use the server, beside its own: `https://tools.example`, or `*`.
    pub origins: Vec<String>,
    /// Connections at the same time, but for Scribe's.
    pub connections_max: usize,
    /// Scribe's connections at the same time, on each of its ports. One takes two descriptors.
    pub scribe_connections_max: usize,
    /// How long a connection on which nothing is asked is kept, and how long the next question may take to come.
    pub idle: Duration,
    /// Questions that are answered at the same time.
    pub questions_max: usize,
    /// How long a question may take.
    pub question_time: Duration,
    /// Bytes of answers that are being sent.
    pub answers_bytes: usize,
    /// How spans are taken.
    pub collector: blkkin_collector::Settings,
    /// How questions are answered.
    pub query: blkkin_query::Settings,
}

/// Where the server listens. Port 0 is any that is free.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// Zipkin's protocols, questions, and OpenTelemetry's too.
    pub web: Vec<SocketAddr>,
    /// OpenTelemetry's, over HTTP.
    pub otlp_http: Vec<SocketAddr>,
    /// OpenTelemetry's, over gRPC.
    pub otlp_grpc: Vec<SocketAddr>,
    /// Scribe's, which has no TLS and no tokens: on this machine only.
    pub scribe: Vec<SocketAddr>,
}

/// A certificate, and its key.
#[derive(Clone, Debug)]
pub struct Tls {
    /// A file with the certificate and those that vouch for it, PEM.
    pub certificates: PathBuf,
    /// A file with the key, PEM.
    pub key: PathBuf,
}

/// An IP network: an address, and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// Whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = |bits: u32| bits - self.prefix;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let wrong = || "not a network, such as 10.0.0.0/8 or fd00::/8".to_owned();
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match text.contains('/') {
            true => prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(wrong)?,
            false => bits,
        };
        Ok(Network { address, prefix })
    }
}

impl Settings {
    /// Whether a host with this address may connect.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let networks = &self.trusted_networks;
        networks.is_empty()
            || peer.to_canonical().is_loopback()
            || networks.iter().any(|network| network.contains(peer))
    }

    /// Whether tokens are needed.
    pub fn has_tokens(&self) -> bool {
        self.token_file.is_some()
            || self.read_token_file.is_some()
            || self.write_token_file.is_some()
    }

    /// Shares out descriptors: three eighths for connections, an eighth more of these for connections that are being
    /// closed, a quarter for Scribe's, and the rest for files.
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
            idle: Duration::from_secs(30),
            questions_max: 8,
            question_time: Duration::from_secs(11),
            answers_bytes: 128 << 20,
            collector: blkkin_collector::Settings::default(),
            query: blkkin_query::Settings::default(),
        }
    }
}

/// Why the server does not start.
#[derive(Debug)]
pub enum StartError {
    /// Others than this machine's users could connect, and not all that keeps strangers out is there.
    Open {
        /// Where.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// There are tokens for reading or for writing only, and the other would need none.
    Tokens {
        /// What needs tokens too.
        missing: &'static str,
    },
    /// It cannot listen.
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be used.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There are no threads, or what they need.
    Threads(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Open { address, missing } => {
                write!(f, "{address} can be reached from other machines, and {missing}")
            }
            StartError::Tokens { missing } => write!(f, "tokens for {missing} are missing"),
            StartError::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}")
            }
            StartError::File { path, reason } => write!(f, "{}: {reason}", path.display()),
            StartError::Threads(error) => write!(f, "cannot start threads: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn networks_contain_their_addresses() {
        fn check(network: &str, inside: &[&str], outside: &[&str]) {
            let network: Network = network.parse().expect(network);
            let contains = |text: &&str| network.contains(text.parse().expect("an address"));
            assert!(inside.iter().all(contains), "{network:?} {inside:?}");
            assert!(!outside.iter().any(contains), "{network:?} {outside:?}");
        }
        check(
            "10.0.0.0/8",
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
            &["11.0.0.0", "::"],
        );
        check("10.1.2.3/15", &["10.0.0.1", "10.1.255.255"], &["10.2.0.0"]);
        check("10.1.2.3", &["10.1.2.3"], &["10.1.2.2"]);
        check("10.1.2.3/32", &["10.1.2.3"], &["10.1.2.2"]);
        check("0.0.0.0/0", &["1.2.3.4", "255.255.255.255"], &["::1"]);
        check("fd00::/8", &["fdff::1"], &["fe00::", "10.0.0.1"]);
        check("::/0", &["::1", "ffff::"], &["1.2.3.4"]);
        for wrong in
            ["", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "10.0.0/8", "a/8"]
        {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

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
