//! `blkkin server`: collects spans from the network, keeps them, and answers questions about them.

use crate::exit::{Error, Exit};
use crate::interrupt::ending_signals;
use crate::places::state_directory;
use crate::values;
use blkkin_lake::{Lake, Options, Retention};
use blkkin_server::{Listen, Running, Server, Settings, StartError, Tls};
use blkkin_store::{MemoryStore, Policy, Room, SpanStore};
use blkkin_wire::Limits;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Collect requests from all nodes, and find them
///
/// Spans come as Zipkin's and OpenTelemetry's senders send them: over HTTP, gRPC and Scribe. Zipkin's
/// API answers questions about them, and so does one that can do more; `docs/server-api.md` has both.
///
/// Spans are kept in files of a directory, Parquet that other programs read too, until they are older
/// than `--keep` or take more than `--keep-bytes`. What a sender was told is taken is on disk.
///
/// It is there for this machine alone. To have it listen elsewhere takes a certificate and a file of
/// tokens, one of which each request has to have. It runs until SIGTERM or Ctrl-C, and answers what it
/// was asked before it ends.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin server                                              Zipkin's ports, on this machine\n  \
        blkkin server --data /srv/spans --keep 30d --keep-bytes 200G\n  \
        blkkin server --memory --scribe off --otlp-grpc off        nothing on disk, fewer ports\n  \
        blkkin server --listen 0.0.0.0:9411 --host trace.example \\\n    \
            --tls-cert cert.pem --tls-key key.pem --token-file tokens --scribe off\n  \
        curl 'http://127.0.0.1:9411/api/blkkin/v1/search?order=slowest'",
    after_help = crate::EXIT_HELP
)]
pub(crate) struct Args {
    /// Where spans are kept [default: /var/lib/blkkin/spans for root, else ~/.local/state/blkkin/spans]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    data: Option<PathBuf>,

    /// Remove spans after this time: 12h, 30d; 0 is never
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::age,
        default_value = "7d",
        conflicts_with = "memory",
        help_heading = "Store"
    )]
    keep: Duration,

    /// Remove the oldest spans if their files take more; 0 is never
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = values::bytes,
        default_value = "50G",
        conflicts_with = "memory",
        help_heading = "Store"
    )]
    keep_bytes: u64,

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

    /// Where to listen for Scribe, which knows neither TLS nor tokens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9410", help_heading = "Listen")]
    scribe: Vec<Place>,

    /// Talk TLS with the certificate of this file, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,

    /// Let in who knows one of the tokens of this file, which has one in each line
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    token_file: Option<PathBuf>,

    /// A name that the server is known by, beside its addresses and localhost
    #[arg(long, value_name = "NAME", help_heading = "Security")]
    host: Vec<String>,

    /// An origin whose pages may use the server, such as `https://tools.example`; `*` is any
    #[arg(long, value_name = "ORIGIN", help_heading = "Security")]
    origin: Vec<String>,

    /// Take the good spans of a batch that has bad ones, which Zipkin's server refuses as a whole
    #[arg(long, help_heading = "Spans")]
    each_span: bool,

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
    let failed = |error: std::io::Error| Error::failed(format!("cannot start: {error}"));
    let (stopped, mut stop) = UnixStream::pair().map_err(failed)?;
    for signal in ending_signals() {
        let stopped = stopped.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, stopped).map_err(failed)?;
    }
    let descriptors = crate::limits::raise_descriptors();
    let store = store(&args)?;
    let mut settings = settings(args);
    settings.limit_connections(descriptors);
    let running = Server::start(store, settings).map_err(|error| {
        let told = Error::failed(error.to_string());
        match error {
            StartError::Open { .. } => told.hint("or listen at an address of this machine alone"),
            _ => told,
        }
    })?;
    tell(&running);
    // One byte for each signal; who closes the other end is nobody.
    let _ = stop.read(&mut [0]);
    log("ending: answering what was asked");
    if !running.stop() {
        log("some were not answered in time");
    }
    Ok(Exit::Ok)
}

fn store(args: &Args) -> Result<Arc<dyn SpanStore>, Error> {
    if args.memory {
        let room = Room { spans: u64::MAX, bytes: args.memory_size };
        return Ok(Arc::new(MemoryStore::new(room, Limits::default())));
    }
    let directory = args.data.clone().or_else(|| state_directory("spans")).ok_or_else(|| {
        Error::usage("there is no home directory for spans to be kept in").hint("give --data")
    })?;
    let limited = |limit: u64| (limit > 0).then_some(limit);
    let retention = Retention {
        age: Some(args.keep).filter(|age| !age.is_zero()),
        bytes: limited(args.keep_bytes),
    };
    open(&directory, Options { retention, ..Options::default() })
}

fn open(directory: &Path, options: Options) -> Result<Arc<dyn SpanStore>, Error> {
    let shown = directory.display();
    let begun = Instant::now();
    let (lake, found) = Lake::open(directory, options)
        .map_err(|error| Error::failed(format!("cannot keep spans in {shown}: {error}")))?;
    log(&format!(
        "keeping spans in {shown}: {} in {} files and {} in the journal, read in {:.1} s",
        found.spans,
        found.files,
        found.recovered,
        begun.elapsed().as_secs_f64()
    ));
    for damage in &found.damage {
        log(&format!("damaged, and left out: {damage}"));
    }
    Ok(Arc::new(lake))
}

fn settings(args: Args) -> Settings {
    let places = |places: Vec<Place>| places.into_iter().filter_map(|place| place.0).collect();
    let mut settings = Settings {
        listen: Listen {
            web: places(args.listen),
            otlp_http: places(args.otlp_http),
            otlp_grpc: places(args.otlp_grpc),
            scribe: places(args.scribe),
        },
        tls: args.tls_cert.zip(args.tls_key).map(|(certificates, key)| Tls { certificates, key }),
        token_file: args.token_file,
        hosts: args.host,
        origins: args.origin,
        ..Settings::default()
    };
    if args.each_span {
        settings.collector.policy = Policy::EachSpan;
    }
    settings.query.strict_trace_id = !args.short_trace_ids;
    settings.query.autocomplete_keys = args.autocomplete_key;
    settings
}

fn tell(running: &Running) {
    let scribe = running.scribe();
    for (what, addresses) in [
        ("Zipkin, OpenTelemetry and questions", &running.web),
        ("OpenTelemetry over HTTP", &running.otlp_http),
        ("OpenTelemetry over gRPC", &running.otlp_grpc),
        ("Scribe", &scribe),
    ] {
        for address in addresses {
            log(&format!("listening on {address}: {what}"));
        }
    }
}

/// For whoever reads standard error: a person, or the system's journal.
fn log(line: &str) {
    let _ = writeln!(crate::output::styled_stderr(), "blkkin server: {line}");
}
