//! Command line: the roles, `all` and `load`.

use crate::address::Address;
use crate::load::Load;
use crate::nbd::server::Storage;
use crate::stack::{self, Stack};
use crate::volume::{Volume, parse_size};
use crate::{composer, mapper, nbd, store};
use blkkin_trace::sample::{Sampling, set_default};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A chain of block storage that BlkKin follows: NBD server, volume composer, mapper, two object stores
///
/// An ADDRESS is the path of a Unix socket, if it has a slash in it, or HOST:PORT. The mapper
/// accepts only an IPv4 address as HOST.
#[derive(Parser, Debug)]
#[command(name = "blockstack", no_binary_name = true)]
enum Command {
    /// Run the whole chain, each role as a process, until Ctrl-C
    All(All),
    /// Read and write at random through an NBD server, and verify the data
    Load(LoadArgs),
    /// The NBD server
    Nbd(Nbd),
    /// The volume composer, which makes volumes of objects
    Composer(Composer),
    /// The mapper, which knows where the copies of objects are
    #[command(disable_help_flag = true)]
    Mapper(Mapper),
    /// An object store
    Store(Store),
}

#[derive(clap::Args, Debug)]
struct All {
    /// Directory for data and sockets
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Address of the NBD server [default: DIR/nbd.sock]
    #[arg(long, value_name = "ADDRESS")]
    nbd: Option<Address>,
    /// Name and size of a volume; may be repeated
    #[arg(long = "volume", value_name = "NAME=SIZE", default_value = "disk=1G")]
    volumes: Vec<Volume>,
    /// Connect the roles over TCP on the loopback interface instead of Unix sockets
    #[arg(long)]
    tcp: bool,
    #[command(flatten)]
    durability: Durability,
    /// Sampling rules, unless an agent sets others: 1/100, 50/s, 0/s [default: BLKKIN_SAMPLE, or
    /// all requests]
    #[arg(long, value_name = "RULES")]
    sample: Option<String>,
}

#[derive(clap::Args, Debug, Clone, Copy)]
struct Durability {
    /// Make stores sync their journals before every answer to a write, not only for flushes and FUA
    #[arg(long)]
    sync: bool,
    /// Size at which a store starts a new journal file
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64M")]
    journal_size: u64,
}

#[derive(clap::Args, Debug)]
struct LoadArgs {
    /// Address of the NBD server
    #[arg(long, value_name = "ADDRESS")]
    to: Address,
    /// Name of the volume [default: the server's first]
    #[arg(long, value_name = "NAME", default_value = "")]
    volume: String,
    /// Maximum number of concurrent requests of each client
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=128))]
    depth: u32,
    /// Number of clients, each with its own connection and part of the volume
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    clients: u32,
    /// Size of a read or write: a multiple of 512, at most 8M
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4k")]
    block: u64,
    /// Percentage of reads
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u32).range(0..=100))]
    mix: u32,
    /// Duration of the load, without the final verification
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,
    /// Requests per second of all clients together [default: as fast as possible]
    #[arg(long, value_name = "COUNT")]
    rate: Option<f64>,
    /// Size of the used part of the volume [default: all, at most 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    region: Option<u64>,
    /// Flush after this many writes of a client; 0 flushes only at the end
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    flush_every: u32,
    /// Count failed requests and continue, unless a read of the final verification fails
    #[arg(long)]
    allow_errors: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Nbd {
    /// Address for NBD clients
    #[arg(long, value_name = "ADDRESS")]
    listen: Address,
    /// Address of the volume composer
    #[arg(
        long,
        value_name = "ADDRESS",
        required_unless_present = "memory",
        conflicts_with = "memory"
    )]
    composer: Option<Address>,
    /// Serve a volume from memory, without a composer; its data is lost when the server exits
    #[arg(long, value_name = "NAME=SIZE")]
    memory: Option<Volume>,
    /// Sampling rules, unless an agent sets others: 1/100, 50/s, 0/s [default: BLKKIN_SAMPLE, or
    /// all requests]
    #[arg(long, value_name = "RULES")]
    sample: Option<String>,
    #[command(flatten)]
    lifetime: Lifetime,
}

#[derive(clap::Args, Debug)]
struct Composer {
    /// Address for NBD servers
    #[arg(long, value_name = "ADDRESS")]
    listen: Address,
    /// Address of the mapper
    #[arg(long, value_name = "ADDRESS")]
    mapper: Address,
    /// Name and size of a volume; may be repeated
    #[arg(long = "volume", value_name = "NAME=SIZE", default_value = "disk=1G")]
    volumes: Vec<Volume>,
    #[command(flatten)]
    lifetime: Lifetime,
}

#[derive(clap::Args, Debug)]
struct Mapper {
    /// --listen ADDRESS --map FILE --store ADDRESS --store ADDRESS [--until-eof]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(clap::Args, Debug)]
struct Store {
    /// Address at which the store accepts the mapper's connections
    #[arg(long, value_name = "ADDRESS")]
    listen: Address,
    /// Directory of objects and the journal
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Service name in traces
    #[arg(long, value_name = "NAME", default_value = "store.1")]
    name: String,
    #[command(flatten)]
    durability: Durability,
    #[command(flatten)]
    lifetime: Lifetime,
}

#[derive(clap::Args, Debug, Clone, Copy)]
struct Lifetime {
    /// Exit at the end of standard input, as when the starting process ends, and ignore Ctrl-C
    #[arg(long)]
    until_eof: bool,
}

/// Runs a role, `all` or `load`, and returns the exit code: 2 for wrong arguments. `arguments` are
/// without the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = match Command::try_parse_from(arguments) {
        Ok(command) => command,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    if !matches!(command, Command::All(_) | Command::Load(_)) {
        mapper::start_tracing();
    }
    let (role, ended) = match command {
        Command::All(args) => ("all", all(args)),
        Command::Load(args) => ("load", load(args)),
        Command::Nbd(args) => ("nbd", nbd(args)),
        Command::Composer(args) => ("composer", {
            let Composer { listen, mapper, volumes, lifetime } = args;
            let Lifetime { until_eof } = lifetime.ignore_interrupt();
            done(composer::run(composer::Options { listen, mapper, volumes, until_eof }))
        }),
        Command::Mapper(args) => {
            ("mapper", mapper::run(args.arguments).map(ExitCode::from).map_err(text))
        }
        Command::Store(args) => ("store", {
            let Store { listen, dir: directory, name, durability, lifetime } = args;
            let Durability { sync, journal_size } = durability;
            let Lifetime { until_eof } = lifetime.ignore_interrupt();
            let options =
                store::server::Options { listen, directory, name, sync, journal_size, until_eof };
            done(store::server::run(options))
        }),
    };
    ended.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "blockstack {role}: {error}");
        ExitCode::FAILURE
    })
}

type RoleResult = Result<ExitCode, String>;

fn text(error: impl Display) -> String {
    error.to_string()
}

fn done(result: io::Result<()>) -> RoleResult {
    result.map(|()| ExitCode::SUCCESS).map_err(text)
}

impl Lifetime {
    /// Ignores SIGINT and SIGHUP if `--until-eof` is given: the process that started the role ends
    /// it by closing its standard input.
    fn ignore_interrupt(self) -> Lifetime {
        if self.until_eof {
            for signal in [SIGINT, SIGHUP] {
                let _ = signal_hook::flag::register(signal, Arc::default());
            }
        }
        self
    }
}

fn nbd(args: Nbd) -> RoleResult {
    let Nbd { listen, composer, memory, sample, lifetime } = args;
    let source = composer.map(Storage::Composer).or(memory.map(Storage::Memory));
    let source = source.ok_or("neither a composer nor memory")?;
    if let Some(rules) = sample {
        let rules: Sampling = rules.parse().map_err(|error| format!("--sample: {error}"))?;
        set_default(rules);
    }
    let Lifetime { until_eof } = lifetime.ignore_interrupt();
    done(nbd::server::run(nbd::server::Options { listen, source, until_eof }))
}

fn load(args: LoadArgs) -> RoleResult {
    let load = Load {
        to: args.to,
        volume: args.volume,
        depth: args.depth as usize,
        clients: args.clients as usize,
        block: args.block,
        mix: args.mix,
        duration: Duration::try_from_secs_f64(args.seconds).map_err(text)?,
        rate: args.rate,
        region: args.region,
        flush_every: args.flush_every,
        allow_errors: args.allow_errors,
        seed: args.seed,
    };
    let report = load.run()?;
    let shown = if args.json { report.json() } else { report.to_string() };
    writeln!(io::stdout(), "{shown}").map_err(text)?;
    Ok(if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(args: All) -> RoleResult {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, asked.clone()).map_err(text)?;
    }
    let own = std::env::current_exe().map_err(text)?;
    let mut stack = Stack::start(stack::Options {
        directory: args.dir,
        nbd: args.nbd,
        volumes: args.volumes,
        tcp: args.tcp,
        sync: args.durability.sync,
        journal_size: args.durability.journal_size,
        sample: args.sample,
        program: vec![own.into()],
        environment: Vec::new(),
    })?;
    let mut output = io::stdout().lock();
    for role in stack.roles() {
        writeln!(output, "{:<9} process {:<7} at {}", role.name(), role.id(), role.address())
            .map_err(text)?;
    }
    writeln!(output, "ready: {}", stack.nbd_uri()).and_then(|()| output.flush()).map_err(text)?;
    while !asked.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        if let Some(ended) = stack.ended() {
            let _ = writeln!(io::stderr(), "blockstack: {ended} has ended");
            if stack.is_over() {
                return Err("no role is left that clients could reach".to_owned());
            }
        }
    }
    stack.stop()?;
    Ok(ExitCode::SUCCESS)
}
