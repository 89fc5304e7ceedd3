//! `blkkin demo`: runs all of BlkKin on a real chain of block storage, in one command.

mod chain;
mod cost;
mod feed;
mod query_client;

use crate::exit::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::{self, ColorChoice, plural};
use crate::values;
use blkkin_blockstack::Load;
use chain::Chain;
use query_client::QueryClient;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// See all of BlkKin at work on a real storage chain, with nothing to set up
///
/// Starts a server with its store, a node agent, and a chain of block storage in separate
/// processes: an NBD server, a volume composer, a mapper in C and two object stores, all of them
/// traced and under load. Prints the address of the page with the requests, one request as a tree,
/// and what tracing costs. Any NBD client can use the disk, too.
///
/// Ctrl-C ends everything. The directory with the stored requests stays until you remove it.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin demo                                           and open the page that it names\n  \
        blkkin demo --rate 1000                               more requests\n  \
        blkkin demo --for 30s --json                          for scripts",
    after_help = crate::help::EXIT_HELP,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Option<Role>,

    /// Directory to make for all files [default: blkkin-demo-PID in the directory for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Address of the server; if the port is taken, another one is chosen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9411")]
    listen: SocketAddr,

    /// Requests per second of the load; 0 runs no load once the cost is measured, and leaves the
    /// whole NBD disk to your clients
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    rate: u32,

    /// Start a new trace when the current one is larger than this; the old one is removed once its
    /// requests are stored
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = values::bytes)]
    trace_size: u64,

    /// End after this time: 30s, 10m [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = values::age)]
    time: Option<Duration>,

    /// Skip the measurement of what tracing costs, which takes some seconds
    #[arg(long)]
    no_cost: bool,

    /// Print one JSON object a line: what was started, the cost, a request, the totals
    #[arg(long)]
    json: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: ColorChoice,
}

/// Hidden subcommand that runs a process of the storage chain. The demo runs its own executable
/// with this subcommand.
#[derive(clap::Subcommand, Debug)]
enum Role {
    /// A process of the chain
    #[command(hide = true, disable_help_flag = true)]
    Role {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Maximum time from the start of the load until the server has stored a write request.
const PATIENCE: Duration = Duration::from_secs(20);

/// Duration of the load between two checks of whether the demo should end.
const SLICE: Duration = Duration::from_secs(1);

/// Size of the disk region that the load uses, in bytes.
const REGION: u64 = 32 << 20;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if let Some(Role::Role { arguments }) = args.role {
        return Ok(ended(blkkin_blockstack::run(arguments)));
    }
    let interrupt = Interrupt::listen()?;
    let begun = Instant::now();
    let directory = directory(args.dir.as_deref())?;
    let reporter = Reporter { json: args.json };
    reporter.note(&format!("Everything is kept in {}", directory.display()));
    let mut chain = Chain::start(&directory, args.listen)?;
    reporter.started(&chain, args.listen);
    if !args.no_cost && !interrupt.is_set() {
        reporter.note(
            "\nWhat tracing costs: the same load with and without, in turn, as fast as it goes",
        );
        let cost = cost::measure(&mut chain, &interrupt)?;
        reporter.cost(&cost);
    }
    if !interrupt.is_set() {
        chain.record()?;
    }
    let mut load = LoadRunner::new(&chain, args.rate);
    let mut client = QueryClient::to(&chain.url())?;
    let mut is_shown = false;
    let load_begun = Instant::now();
    let line = StatusLine { is_live: !args.json && io::stderr().is_terminal() };
    let is_over = || interrupt.is_set() || args.time.is_some_and(|time| begun.elapsed() >= time);
    while !is_over() {
        chain.rotate_above(args.trace_size)?;
        load.run_slice()?;
        chain.check()?;
        if !is_shown && args.rate > 0 {
            is_shown = show(&mut client, &chain, &args, &reporter)?;
            if !is_shown && load_begun.elapsed() > PATIENCE {
                return Err(Error::failed("no request of the chain has come to the server")
                    .hint("`--dir` names a directory whose `log` says more"));
            }
        }
        line.update(begun, load.requests, &chain);
    }
    line.end();
    let totals = chain.end()?;
    reporter.totals(&directory, load.requests, &totals);
    Ok(if totals.lost > 0 { Exit::Failed } else { Exit::Ok })
}

/// Returns the exit status for a process of the chain that ended with `code`.
fn ended(code: ExitCode) -> Exit {
    if code == ExitCode::SUCCESS { Exit::Ok } else { Exit::Failed }
}

/// Creates the demo's directory. A directory that is not empty is refused, as its files may be the
/// user's.
fn directory(wanted: Option<&Path>) -> Result<PathBuf, Error> {
    let unnamed = || std::env::temp_dir().join(format!("blkkin-demo-{}", std::process::id()));
    let directory = wanted.map_or_else(unnamed, Path::to_owned);
    let shown = directory.display();
    let cannot = |error: io::Error| Error::failed(format!("cannot use `{shown}`: {error}"));
    std::fs::create_dir_all(&directory).map_err(cannot)?;
    if std::fs::read_dir(&directory).map_err(cannot)?.next().is_some() {
        return Err(Error::usage(format!("`{shown}` is not empty"))
            .hint("give a directory that is not there yet with --dir"));
    }
    std::path::absolute(&directory).map_err(cannot)
}

/// Load generator on the demo's disk; it works in slices of [`SLICE`].
struct LoadRunner {
    load: Option<Load>,
    requests: u64,
}

impl LoadRunner {
    fn new(chain: &Chain, rate: u32) -> LoadRunner {
        let load = (rate > 0).then(|| Load {
            rate: Some(rate.into()),
            depth: 4,
            clients: 1,
            region: Some(REGION),
            flush_every: 16,
            ..Load::new(chain.nbd(), SLICE)
        });
        LoadRunner { load, requests: 0 }
    }

    fn run_slice(&mut self) -> Result<(), Error> {
        let Some(load) = &mut self.load else {
            std::thread::sleep(SLICE);
            return Ok(());
        };
        let report = load.run().map_err(|why| Error::failed(format!("the load: {why}")))?;
        if let Some(wrong) = report.example.as_ref().filter(|_| report.mismatches > 0) {
            return Err(Error::failed(format!("the chain has lost data: {wrong}")));
        }
        load.seed += 1;
        self.requests += report.read_count() + report.write_count();
        Ok(())
    }
}

/// Prints the slowest stored write request, which passed every layer of the chain. Returns false if
/// no write is stored yet.
fn show(
    client: &mut QueryClient,
    chain: &Chain,
    args: &Args,
    reporter: &Reporter,
) -> Result<bool, Error> {
    let Some((id, answer)) = client.slowest_write()? else { return Ok(false) };
    if args.json {
        reporter.line(&json!({"type": "request", "traceId": id, "url": chain.page_of(&id), "spans": answer["spans"]}));
        return Ok(true);
    }
    let options = blkkin_text::query_results::Options {
        color: args.color.applies(&io::stdout()),
        ascii: !output::locale_is_utf8(),
        width: output::width(),
        utc: false,
    };
    let tree = super::query::tree::draw(&answer, &options, false)?;
    reporter.note("\nOne of its requests, through all layers:\n");
    output::write(&tree)?;
    reporter.note(&format!("\nthe same as a picture: {}", chain.page_of(&id)));
    reporter.note(&format!("all of them:           {}", chain.url()));
    reporter.note("Ctrl-C ends everything\n");
    Ok(true)
}

/// Output of the demo: text for people or JSON lines for programs.
struct Reporter {
    json: bool,
}

impl Reporter {
    fn note(&self, text: &str) {
        if !self.json {
            crate::exit::note(text);
        }
    }

    fn line(&self, object: &serde_json::Value) {
        if self.json {
            let mut object = object.clone();
            object["schema"] = json!("blkkin.demo.v1");
            let _ = writeln!(crate::output::stdout(), "{object}");
        }
    }

    fn started(&self, chain: &Chain, wanted: SocketAddr) {
        let parts = chain.parts();
        self.line(&json!({
            "type": "started",
            "url": chain.url(),
            "nbd": chain.nbd_uri(),
            "parts": parts.iter().map(|part| json!({"name": part.name, "pid": part.pid, "at": part.at}))
                .collect::<Vec<_>>(),
        }));
        for part in parts {
            self.note(&format!("  {:<9} process {:<8} {}", part.name, part.pid, part.at));
        }
        if wanted.port() != 0 && chain.port() != wanted.port() {
            self.note(&format!("  (port {} is taken)", wanted.port()));
        }
        self.note(&format!("The page:   {}", chain.url()));
        self.note(&format!("The disk:   {}", chain.nbd_uri()));
    }

    fn cost(&self, cost: &cost::Cost) {
        self.line(&json!({"type": "cost", "iops": cost.json()}));
        self.note(cost.table().trim_end());
    }

    fn totals(&self, directory: &Path, requests: u64, totals: &chain::Totals) {
        self.line(&json!({
            "type": "totals",
            "requests": requests,
            "spansStored": totals.spans,
            "spansLost": totals.lost,
        }));
        let lost = match totals.lost {
            0 => "none lost".to_owned(),
            lost => format!("LOST: {lost}"),
        };
        self.note(&format!(
            "{} of the load, {} stored, {lost}",
            plural(requests, "request"),
            plural(totals.spans, "span"),
        ));
        let (blkkin, directory) = (output::own_command(), output::shell_word(directory));
        self.note(&format!(
            "Nothing runs any more. To ask what was stored: {blkkin} query --data {directory}/spans --slowest\n\
             To remove it all: rm -r {directory}"
        ));
    }
}

/// Status line on the terminal, rewritten after each slice.
struct StatusLine {
    is_live: bool,
}

impl StatusLine {
    fn update(&self, begun: Instant, requests: u64, chain: &Chain) {
        if self.is_live {
            let seconds = begun.elapsed().as_secs();
            let totals = chain.totals();
            let _ = write!(
                io::stderr(),
                "\r{seconds:>5} s {requests:>10} requests {:>10} spans stored {:>6} lost ",
                totals.spans,
                totals.lost
            );
        }
    }

    fn end(&self) {
        if self.is_live {
            let _ = writeln!(io::stderr());
        }
    }
}
