//! Where the server listens, whom it lets in, and how much it does at once. Start at [`Settings`].

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// All of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where.
    pub listen: Listen,
    /// Talks TLS, everywhere but on Scribe's port.
    pub tls: Option<Tls>,
    /// A file with tokens, a line each: who knows none of them is not let in.
    pub token_file: Option<PathBuf>,
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

impl Settings {
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
            StartError::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}")
            }
            StartError::File { path, reason } => write!(f, "{}: {reason}", path.display()),
            StartError::Threads(error) => write!(f, "cannot start threads: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
