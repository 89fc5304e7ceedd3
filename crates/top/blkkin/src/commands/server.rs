//! `blkkin server`: collects spans from the network, keeps them, and answers questions about them.

mod log;
pub(crate) mod options;
mod watch;

use crate::exit::{Error, Exit};
use crate::places::state_directory;
use crate::values;
use blkkin_lake::{Lake, Options, Retention};
use blkkin_server::{Listen, Network, Running, Server, Settings, StartError, Tls};
use blkkin_store::{MemoryStore, Policy, Room, SpanStore};
use blkkin_wire::Limits;
use log::{Level, Log, LogFormat};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Collect requests from all nodes, and find them
///
/// Spans come as Zipkin's and OpenTelemetry's senders send them: over HTTP, gRPC and Scribe. Zipkin's
/// API answers questions about them, and so does one that can do more; `docs/server-api.md` has both.
///
/// Spans are kept in files of a directory, Parquet that other programs read too, until they are
/// older than `--keep` or take more than `--keep-bytes`. The store notes both, so a start without
/// them does not remove what was to be kept. What a sender was told is taken is on disk.
///
/// It is there for this machine alone. To have it listen elsewhere takes a certificate and a file of
/// tokens, one of which each request has to have, or networks that are trusted. It runs until SIGTERM or
/// Ctrl-C, and answers what it was asked before it ends. SIGHUP has it read the certificate and the
/// tokens again.
///
/// Each option can also be a line `OPTION = VALUE` of the file that `--config` names, or an environment
/// variable such as BLKKIN_SERVER_KEEP_BYTES, in which spaces separate values. The command line goes
/// before the environment, which goes before the file.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin server                                              Zipkin's ports, on this machine\n  \
        blkkin server --data /srv/spans --keep 30d --keep-bytes 200G\n  \
        blkkin server --memory --scribe off --otlp-grpc off        nothing on disk, fewer ports\n  \
        blkkin server --listen 0.0.0.0:9411 --host trace.example \\\n    \
            --tls-cert cert.pem --tls-key key.pem --token-file tokens\n  \
        blkkin server --listen 0.0.0.0:9411 --trusted-network 10.0.0.0/8 --host zipkin\n  \
        curl 'http://127.0.0.1:9411/api/blkkin/v1/search?order=slowest'",
    after_help = crate::EXIT_HELP
)]
pub(crate) struct Args {
    /// File with options, a line `OPTION = VALUE` each
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How lines on standard error are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// Where spans are kept [default: /var/lib/blkkin/spans for root, else ~/.local/state/blkkin/spans]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    data: Option<PathBuf>,

    /// Remove spans after this time: 12h, 30d; 0 is never [default: as the store was last told,
    /// else 7d]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::age,
        conflicts_with = "memory",
        help_heading = "Store"
    )]
    keep: Option<Duration>,

    /// Remove the oldest spans if their files take more; 0 is never [default: as the store was last
    /// told, else 50G]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        conflicts_with = "memory",
        help_heading = "Store"
    )]
    keep_bytes: Option<u64>,

    /// Keep spans in memory: they are gone when the server ends
    #[arg(long, conflicts_with = "data", help_heading = "Store")]
    memory: bool,

    /// Memory for spans; the oldest requests go where there is no room
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        default_value = "512M",
        requires = "memory",
        help_heading = "Store"
    )]
    memory_size: u64,

    /// Where to listen for Zipkin's protocols, OpenTelemetry's, and questions
    ///
    /// An address and a port, a port of this machine, or `off`; can be given several times.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9411", help_heading = "Listen")]
    listen: Vec<Place>,

    /// Where to listen for OpenTelemetry's protocol over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4318", help_heading = "Listen")]
    otlp_http: Vec<Place>,

    /// Where to listen for OpenTelemetry's protocol over gRPC
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4317", help_heading = "Listen")]
    otlp_grpc: Vec<Place>,

    /// Where to listen for Scribe, which knows neither TLS nor tokens [default: 127.0.0.1:9410 without
    /// tokens, else off]
    #[arg(long, value_name = "ADDRESS", help_heading = "Listen")]
    scribe: Option<Vec<Place>>,

    /// Talk TLS with the certificate of this file, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,

    /// Require one of the tokens of this file, a line each
    ///
    /// For all but `/health`, `/metrics` and the files of the screen.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    token_file: Option<PathBuf>,

    /// Tokens that permit asking, but not sending spans
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    read_token_file: Option<PathBuf>,

    /// Tokens that permit sending spans, but not asking
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    write_token_file: Option<PathBuf>,

    /// Let in hosts of this network, such as 10.0.0.0/8, and no others
    ///
    /// Then the server may listen beyond this machine without TLS and tokens, behind a mesh or in a private network:
    /// whoever can send from such an address reads and writes everything. Not for Scribe. Can be given several times.
    #[arg(long, value_name = "CIDR", help_heading = "Security")]
    trusted_network: Vec<Network>,

    /// A name that the server is known by, beside its addresses and localhost
    #[arg(long, value_name = "NAME", help_heading = "Security")]
    host: Vec<String>,

    /// An origin whose pages may use the server, such as `https://tools.example`; `*` is any
    #[arg(long, value_name = "ORIGIN", help_heading = "Security")]
    origin: Vec<String>,

    /// Refuse a batch that has a bad span as a whole, as Zipkin's server does; else its good spans are taken
    #[arg(long, help_heading = "Spans")]
    whole_batches: bool,

    /// Take requests for the same whose ids have the same lower 64 bits
    #[arg(long, help_heading = "Spans")]
    short_trace_ids: bool,

    /// A tag whose values Zipkin's page offers; can be given several times
    #[arg(long, value_name = "KEY", help_heading = "Spans")]
    autocomplete_key: Vec<String>,
}

/// A place to listen at, if at all.
#[derive(Clone, Copy, Debug)]
struct Place(Option<SocketAddr>);

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text == "off" {
            return Ok(Place(None));
        }
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = text.parse().or_else(|_| text.parse().map(local));
        address.map(|address| Place(Some(address))).map_err(|_| {
            "not an address and port, such as 127.0.0.1:9411 or [::1]:9411, nor a port, nor off"
                .to_owned()
        })
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    // Batches are made by some threads and given back by others.
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    blkkin_sys::share_heaps(processors.clamp(2, 8) as u16);
    blkkin_sys::keep_large_blocks_apart(1 << 20);
    let log = Log::new(args.log_format);
    let mut signals =
        Signals::listen().map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    let descriptors = crate::limits::raise_descriptors();
    let store = store(&args, log)?;
    let before = store.counters();
    let mut settings = settings(args, log);
    settings.limit_connections(descriptors);
    let running = Server::start(store.clone(), settings).map_err(|error| {
        let told = Error::failed(error.to_string());
        match error {
            StartError::Open { .. } => told.hint(
                "or listen at an address of this machine alone, or behind a mesh or in a private network name those \
                 who may connect with --trusted-network",
            ),
            StartError::Tokens { .. } => {
                told.hint("give both --read-token-file and --write-token-file, or --token-file")
            }
            _ => told,
        }
    })?;
    tell(&running, log);
    let watching = watch::start(log, store, running.conditions(), before)
        .map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    tell_manager(blkkin_sys::READY, log);
    while signals.next() == Signal::Reload {
        match running.reload() {
            Ok(()) => log.line(Level::Info, "certificate and tokens were read again"),
            Err(error) => {
                log.line(Level::Error, &format!("certificate and tokens stay as they are: {error}"))
            }
        }
    }
    tell_manager(blkkin_sys::STOPPING, log);
    log.line(Level::Info, "ending: answering what was asked");
    if !running.stop() {
        log.line(Level::Warn, "some were not answered in time");
    }
    drop(watching);
    Ok(Exit::Ok)
}

/// Signals that have come.
struct Signals {
    come: UnixStream,
    is_ended: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Reload,
    End,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        let (come, tell) = UnixStream::pair()?;
        let is_ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Set before the byte is written that wakes the thread.
            signal_hook::flag::register(signal, is_ended.clone())?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(Signals { come, is_ended })
    }

    /// Waits for the next signal.
    fn next(&mut self) -> Signal {
        // A byte for each signal; the other end stays open.
        let read = self.come.read_exact(&mut [0]);
        match self.is_ended.load(Relaxed) || read.is_err() {
            true => Signal::End,
            false => Signal::Reload,
        }
    }
}

fn tell_manager(state: &str, log: Log) {
    let manager = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty());
    let Some(manager) = manager else { return };
    if let Err(error) = blkkin_sys::notify(&manager, state) {
        let line = format!("cannot tell the service manager {state}: {error}");
        log.line(Level::Warn, &line);
    }
}

fn store(args: &Args, log: Log) -> Result<Arc<dyn SpanStore>, Error> {
    if args.memory {
        let room = Room { spans: u64::MAX, bytes: args.memory_size };
        return Ok(Arc::new(MemoryStore::new(room, Limits::default())));
    }
    let directory = args.data.clone().or_else(|| state_directory("spans")).ok_or_else(|| {
        Error::usage("there is no home directory for spans to be kept in").hint("give --data")
    })?;
    let retention = retention(args, &directory, log)?;
    open(&directory, Options { retention, notes_retention: true, ..Options::default() }, log)
}

/// How long spans are kept: as the options say, or else as the store was last told.
fn retention(args: &Args, directory: &Path, log: Log) -> Result<Retention, Error> {
    let noted = Retention::noted(directory).map_err(|error| cannot_keep(directory, &error))?;
    let known = noted.unwrap_or(Options::default().retention);
    let retention = Retention {
        age: args.keep.map_or(known.age, |age| Some(age).filter(|age| !age.is_zero())),
        bytes: args.keep_bytes.map_or(known.bytes, |bytes| Some(bytes).filter(|&it| it > 0)),
    };
    let kept = kept(&retention);
    let line = match noted {
        Some(noted) if retention.is_shorter_than(&noted) => format!(
            "spans are kept {kept}, and no longer {}: what is beyond is removed",
            self::kept(&noted)
        ),
        Some(noted) if retention == noted && args.keep.or(noted.age) == noted.age => {
            format!("spans are kept {kept}, as the store was last told")
        }
        _ => format!("spans are kept {kept}"),
    };
    log.line(Level::Info, &line);
    Ok(retention)
}

/// A retention in words.
fn kept(retention: &Retention) -> String {
    let age = retention.age.map(|age| format!("for {}", values::age_text(age)));
    let bytes = retention.bytes.map(|bytes| format!("within {}", values::bytes_text(bytes)));
    match (age, bytes) {
        (Some(age), Some(bytes)) => format!("{age} and {bytes}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "for ever".to_owned(),
    }
}

fn cannot_keep(directory: &Path, error: &blkkin_lake::Error) -> Error {
    Error::failed(format!("cannot keep spans in {}: {error}", directory.display()))
}

fn open(directory: &Path, options: Options, log: Log) -> Result<Arc<dyn SpanStore>, Error> {
    let shown = directory.display();
    let begun = Instant::now();
    let (lake, found) =
        Lake::open(directory, options).map_err(|error| cannot_keep(directory, &error))?;
    let line = format!(
        "keeping spans in {shown}: {} in {} files and {} in the journal, read in {:.1} s",
        found.spans,
        found.files,
        found.recovered,
        begun.elapsed().as_secs_f64()
    );
    log.line(Level::Info, &line);
    for damage in &found.damage {
        log.line(Level::Error, &format!("damaged, and left out: {damage}"));
    }
    Ok(Arc::new(lake))
}

fn settings(args: Args, log: Log) -> Settings {
    let places = |places: Vec<Place>| places.into_iter().filter_map(|place| place.0).collect();
    let mut settings = Settings {
        listen: Listen {
            web: places(args.listen),
            otlp_http: places(args.otlp_http),
            otlp_grpc: places(args.otlp_grpc),
            scribe: Vec::new(),
        },
        tls: args.tls_cert.zip(args.tls_key).map(|(certificates, key)| Tls { certificates, key }),
        token_file: args.token_file,
        read_token_file: args.read_token_file,
        write_token_file: args.write_token_file,
        trusted_networks: args.trusted_network,
        hosts: args.host,
        origins: args.origin,
        ..Settings::default()
    };
    settings.listen.scribe = match (args.scribe, settings.has_tokens()) {
        (None, false) => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 9410))],
        (None, true) => {
            let line = "not listening for Scribe, which knows no tokens; --scribe 9410 lets all \
                        users of this machine send spans";
            log.line(Level::Info, line);
            Vec::new()
        }
        (Some(given), has_tokens) => {
            let given: Vec<SocketAddr> = places(given);
            if has_tokens && !given.is_empty() {
                let line = "Scribe's port needs no token: all users of this machine can send spans";
                log.line(Level::Warn, line);
            }
            given
        }
    };
    settings.collector.policy = if args.whole_batches { Policy::Whole } else { Policy::EachSpan };
    settings.query.strict_trace_id = !args.short_trace_ids;
    settings.query.autocomplete_keys = args.autocomplete_key;
    settings
}

fn tell(running: &Running, log: Log) {
    let scribe = running.scribe();
    for (what, addresses) in [
        ("Zipkin, OpenTelemetry and questions", &running.web),
        ("OpenTelemetry over HTTP", &running.otlp_http),
        ("OpenTelemetry over gRPC", &running.otlp_grpc),
        ("Scribe", &scribe),
    ] {
        for address in addresses {
            log.line(Level::Info, &format!("listening on {address}: {what}"));
        }
    }
}
