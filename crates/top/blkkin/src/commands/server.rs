//! `blkkin server`: collects spans from the network, stores them, and answers queries.

mod log;
mod positions;
mod relays;
mod watch;

use crate::directories::state_directory;
use crate::exit::{Error, Exit};
use crate::service_manager;
use crate::values;
use blkkin_lake::{Lake, Options, Retention};
use blkkin_secure::Network;
use blkkin_server::{Listen, Running, Server, Settings, StartError, Tls};
use blkkin_store::{Capacity, MemoryStore, Policy, SpanStore};
use blkkin_wire::Limits;
use log::{Level, Log, LogFormat};
use positions::Positions;
use relays::Relays;
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
/// Spans are accepted in the formats of Zipkin and OpenTelemetry, over HTTP, gRPC and Scribe. With
/// `--from`, the requests of sessions at a relay are assembled while they are recorded.
/// Zipkin's query API is served, and an API of our own with more features; both are described in
/// `docs/server-api.md`.
///
/// Spans are stored in a directory, as Parquet files that other programs can read too, until they
/// are older than `--keep` or larger than `--keep-bytes`. The store remembers both limits, so a
/// start without these options does not remove spans that were to be kept. Accepted spans are on
/// disk before the sender gets its answer.
///
/// By default the server listens on this machine only. Listening elsewhere requires a certificate
/// and a file of tokens, of which each request must carry one, or trusted networks. The server runs
/// until SIGTERM or Ctrl-C, and answers pending requests before it ends. SIGHUP reloads the
/// certificate and the tokens.
///
/// Each option can also be a line `OPTION = VALUE` of the file that `--config` names, or an
/// environment variable such as BLKKIN_SERVER_KEEP_BYTES, in which spaces separate values. The
/// command line overrides the environment, which overrides the file.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin server                                              Zipkin's ports, on this machine\n  \
        blkkin server --data /srv/spans --keep 30d --keep-bytes 200G\n  \
        blkkin server --memory --scribe off --otlp-grpc off        nothing on disk, fewer ports\n  \
        blkkin server --listen 0.0.0.0:9411 --host trace.example \\\n    \
            --tls-cert cert.pem --tls-key key.pem --token-file tokens\n  \
        blkkin server --listen 0.0.0.0:9411 --trusted-network 10.0.0.0/8 --host zipkin\n  \
        blkkin server --from net://127.0.0.1                       requests of all nodes, live\n  \
        curl 'http://127.0.0.1:9411/api/blkkin/v1/search?order=slowest'",
    after_help = crate::help::RELAY_HELP
)]
pub(crate) struct Args {
    /// File with options, one `OPTION = VALUE` a line
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Format of log lines on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// Directory of the store [default: /var/lib/blkkin/spans for root, else blkkin/spans in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    data: Option<PathBuf>,

    /// Remove spans after this time: 12h, 30d; 0: never [default: the store's last setting, else
    /// 7d]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::age,
        conflicts_with = "memory",
        help_heading = "Store"
    )]
    keep: Option<Duration>,

    /// Remove the oldest spans if all span files together take more; 0: never [default: the store's
    /// last setting, else 50G]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        conflicts_with = "memory",
        help_heading = "Store"
    )]
    keep_bytes: Option<u64>,

    /// Keep spans in memory only; they are gone when the server ends
    #[arg(long, conflicts_with = "data", help_heading = "Store")]
    memory: bool,

    /// Memory for spans; the oldest requests are evicted when it is full
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        default_value = "512M",
        requires = "memory",
        help_heading = "Store"
    )]
    memory_size: u64,

    /// Address for Zipkin's protocols, OpenTelemetry over HTTP and gRPC, and queries
    ///
    /// An address and port, a port of this machine, or `off`. Can be repeated.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9411", help_heading = "Listen")]
    listen: Vec<ListenAddress>,

    /// Address for OpenTelemetry's protocol over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4318", help_heading = "Listen")]
    otlp_http: Vec<ListenAddress>,

    /// Address for OpenTelemetry's protocol over gRPC
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4317", help_heading = "Listen")]
    otlp_grpc: Vec<ListenAddress>,

    /// Address for Scribe, which has neither TLS nor tokens [default: 127.0.0.1:9410 without
    /// tokens, else off]
    #[arg(long, value_name = "ADDRESS", help_heading = "Listen")]
    scribe: Option<Vec<ListenAddress>>,

    /// Use TLS, with the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,

    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,

    /// Require one of the tokens in this file, one a line
    ///
    /// Not required for health checks, metrics and the files of the web page.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    token_file: Option<PathBuf>,

    /// Tokens that allow queries, but not sending spans
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    read_token_file: Option<PathBuf>,

    /// Tokens that allow sending spans, but not queries
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    write_token_file: Option<PathBuf>,

    /// Accept connections only from this machine and this network, such as 10.0.0.0/8
    ///
    /// The server may then listen on other interfaces without TLS and tokens, behind a mesh or in a
    /// private network: everybody who can send from such an address can read and write everything.
    /// Does not apply to Scribe. Can be repeated.
    #[arg(long, value_name = "CIDR", help_heading = "Security")]
    trusted_network: Vec<Network>,

    /// Name of the server that requests may use, besides its addresses and localhost
    #[arg(long, value_name = "NAME", help_heading = "Security")]
    host: Vec<String>,

    /// Origin whose pages may use the server, such as `https://tools.example`; `*` allows all
    #[arg(long, value_name = "ORIGIN", help_heading = "Security")]
    origin: Vec<String>,

    /// Store the requests of a relay's live sessions, too: net://HOST for all, also later ones, or
    /// net://HOST/host/NODE/SESSION; nets:// for a relay with TLS. Can be repeated
    ///
    /// Sessions are read from their beginning. A server that is started again continues where the
    /// last one has ended, except with --memory.
    #[arg(long, value_name = "URL", help_heading = "Spans")]
    from: Vec<blkkin_live::Url>,

    /// Refuse a batch with a bad span as a whole, as Zipkin's server does; by default its good
    /// spans are stored
    #[arg(long, help_heading = "Spans")]
    whole_batches: bool,

    /// Treat requests as the same if the lower 64 bits of their ids are equal
    #[arg(long, help_heading = "Spans")]
    short_trace_ids: bool,

    /// Tag whose values Zipkin's page offers. Can be repeated
    #[arg(long, value_name = "KEY", help_heading = "Spans")]
    autocomplete_key: Vec<String>,
}

/// Address to listen on; `None` for `off`.
#[derive(Clone, Copy, Debug)]
struct ListenAddress(Option<SocketAddr>);

impl std::str::FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        if text == "off" {
            return Ok(ListenAddress(None));
        }
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = text.parse().or_else(|_| text.parse().map(local));
        address.map(|address| ListenAddress(Some(address))).map_err(|_| {
            "not an address and port, such as 127.0.0.1:9411 or [::1]:9411, nor a port, nor off"
                .to_owned()
        })
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    // Batches are allocated by one thread and freed by another.
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    blkkin_sys::share_heaps(processors.clamp(2, 8) as u16);
    blkkin_sys::keep_large_blocks_apart(1 << 20);
    let log = Log::new(args.log_format);
    let mut signals =
        Signals::listen().map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    blkkin_sys::keep_inherited_sockets();
    let descriptors = crate::limits::raise_descriptors();
    let store = store(&args, log)?;
    let before = store.counters();
    let (urls, positions) = (args.from.clone(), positions(&args)?);
    let mut settings = settings(args, log);
    settings.limit_connections(descriptors);
    let running = Server::start(store.clone(), settings).map_err(|error| {
        let told = Error::failed(error.to_string());
        match error {
            StartError::Open { .. } => told.hint(
                "or listen at an address of this machine alone, or behind a mesh or in a private network name those \
                 who may connect with --trusted-network",
            ),
            StartError::Keys(blkkin_secure::Error::Tokens { .. }) => {
                told.hint("give both --read-token-file and --write-token-file, or --token-file")
            }
            _ => told,
        }
    })?;
    log_addresses(&running, log);
    let watched = store.clone();
    let watching = watch::start(log, store, running.conditions(), before)
        .map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    let relays = Relays::start(urls, running.entrance(), positions, log)
        .map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    service_manager::warn_of_unused_sockets(|line| log.line(Level::Warn, line));
    notify_manager(blkkin_sys::READY, log);
    service_manager::start_watchdog(
        move || {
            let _ = watched.counters();
        },
        move |line| log.line(Level::Warn, line),
    );
    while signals.next() == Signal::Reload {
        match running.reload() {
            Ok(()) => log.line(Level::Info, "certificate and tokens were read again"),
            Err(error) => {
                log.line(Level::Error, &format!("certificate and tokens stay as they are: {error}"))
            }
        }
    }
    notify_manager(blkkin_sys::STOPPING, log);
    relays.stop();
    log.line(Level::Info, "ending: answering what was asked");
    if !running.stop() {
        log.line(Level::Warn, "some were not answered in time");
    }
    drop(watching);
    Ok(Exit::Ok)
}

/// Receiver of this process's signals.
struct Signals {
    wakeups: UnixStream,
    is_ended: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Reload,
    End,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        let (wakeups, log_addresses) = UnixStream::pair()?;
        let is_ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The flag is set before the byte that wakes the thread is written.
            signal_hook::flag::register(signal, is_ended.clone())?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, log_addresses.try_clone()?)?;
        }
        Ok(Signals { wakeups, is_ended })
    }

    /// Waits for the next signal.
    fn next(&mut self) -> Signal {
        // Each signal writes a byte. The signal handlers keep the writing end open.
        let read = self.wakeups.read_exact(&mut [0]);
        match self.is_ended.load(Relaxed) || read.is_err() {
            true => Signal::End,
            false => Signal::Reload,
        }
    }
}

fn notify_manager(state: &str, log: Log) {
    service_manager::notify(state, |line| log.line(Level::Warn, line));
}

fn store(args: &Args, log: Log) -> Result<Arc<dyn SpanStore>, Error> {
    if args.memory {
        let room = Capacity { spans: u64::MAX, bytes: args.memory_size };
        return Ok(Arc::new(MemoryStore::new(room, Limits::default())));
    }
    let directory = directory(args)?;
    let retention = retention(args, &directory, log)?;
    open(&directory, Options { retention, stores_retention: true, ..Options::default() }, log)
}

/// Returns the directory of the store.
fn directory(args: &Args) -> Result<PathBuf, Error> {
    args.data.clone().or_else(|| state_directory("spans")).ok_or_else(|| {
        Error::usage("there is no home directory for spans to be kept in").hint("give --data")
    })
}

/// Returns how far earlier servers have read the sessions of relays. A store in memory does not
/// outlive its server, and neither do its positions.
fn positions(args: &Args) -> Result<Positions, Error> {
    if args.memory || args.from.is_empty() {
        return Ok(Positions::default());
    }
    let file = directory(args)?.join(positions::FILE);
    Positions::read(file.clone())
        .map_err(|error| Error::failed(format!("cannot read {}: {error}", file.display())))
}

/// Returns the retention of spans: from the options, else the setting stored with the spans, else
/// the default.
fn retention(args: &Args, directory: &Path, log: Log) -> Result<Retention, Error> {
    let noted = Retention::stored(directory).map_err(|error| cannot_keep(directory, &error))?;
    let known = noted.unwrap_or(Options::default().retention);
    let retention = Retention {
        age: args.keep.map_or(known.age, |age| Some(age).filter(|age| !age.is_zero())),
        bytes: args.keep_bytes.map_or(known.bytes, |bytes| Some(bytes).filter(|&it| it > 0)),
    };
    let limits_text = describe(&retention);
    let line = match noted {
        Some(noted) if retention.is_shorter_than(&noted) => format!(
            "spans are kept {limits_text}, and no longer {}: what is beyond is removed",
            describe(&noted)
        ),
        Some(noted) if retention == noted && args.keep.or(noted.age) == noted.age => {
            format!("spans are kept {limits_text}, as the store was last told")
        }
        _ => format!("spans are kept {limits_text}"),
    };
    log.line(Level::Info, &line);
    Ok(retention)
}

/// Describes a retention in words, for the log.
fn describe(retention: &Retention) -> String {
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
    let addresses = |addresses: Vec<ListenAddress>| {
        addresses.into_iter().filter_map(|address| address.0).collect()
    };
    let mut settings = Settings {
        listen: Listen {
            web: addresses(args.listen),
            otlp_http: addresses(args.otlp_http),
            otlp_grpc: addresses(args.otlp_grpc),
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
            let given: Vec<SocketAddr> = addresses(given);
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

fn log_addresses(running: &Running, log: Log) {
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
