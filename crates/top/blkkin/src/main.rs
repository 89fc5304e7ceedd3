//! `blkkin`, the only binary: parses the command line, validates it, and calls the libraries. Each
//! subcommand is a file in `commands`.

mod commands;
mod conversation;
mod daemon_options;
mod definition;
mod directories;
mod exit;
mod forwarding;
mod help;
mod hook;
mod input;
mod interrupt;
mod limits;
mod live;
mod losses;
mod lttng_commands;
#[cfg(test)]
mod man;
mod output;
mod process_lock;
mod progress;
mod reach;
mod relay_credentials;
mod service_manager;
mod shell;
mod table;
mod terminal;
mod values;

use clap::{CommandFactory, Parser, Subcommand};
use exit::Exit;
use std::process::ExitCode;

/// Line of [`EXAMPLES`]; empty in a program without the command `sql`.
#[cfg(feature = "sql")]
macro_rules! sql_example {
    () => {
        "blkkin sql 'SELECT * FROM services'            what a store holds; see blkkin sql --help\n  "
    };
}
#[cfg(not(feature = "sql"))]
macro_rules! sql_example {
    () => {
        ""
    };
}

/// Examples at the top of the help.
const EXAMPLES: &str = concat!(
    "Examples:\n  \
        blkkin demo                                    all of it at work, on a storage chain\n  \
        blkkin view ~/lttng-traces/my-session          print all events, in order\n  \
        blkkin view --filter 'ret < 0' TRACE           only what failed\n  \
        blkkin view --json TRACE | jq .name            one JSON object an event\n  \
        blkkin view net://localhost/host/node-1/web    a session of a relay, live\n  \
        blkkin spans TRACE                             requests, as trees of what they went through\n  \
        blkkin info TRACE                              what a trace holds\n  ",
    sql_example!(),
    "blkkin cut --begin 12:30 --end 12:31 TRACE -o minute\n  \
        blkkin session create web && blkkin event enable 'zipkin:*' && blkkin session start\n  \
        blkkin status --watch                          what is recorded now, and lost\n  \
        blkkin io --app postgres                       file and network operations of a program\n  \
        blkkin probe ls 'syscall:*at'                  where the kernel and programs can be traced\n  \
        blkkin doctor                                  what this machine lacks, and how to enable it\n  \
        blkkin top io                                  sums of them, live\n  \
        blkkin server --memory                         collect requests of all nodes, and find them\n  \
        blkkin store check                             what a store on disk holds, and what is wrong"
);

/// Follow one request through every layer it crosses.
///
/// BlkKin reads traces of LTTng, barectf, the Linux kernel and its own, in the Common Trace
/// Format 1.8 and 2.
#[derive(Parser)]
#[command(
    name = "blkkin",
    version,
    before_help = EXAMPLES,
    after_help = help::EXIT_HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Record(commands::record::Args),
    Io(commands::io::Args),
    Probe(commands::probe::Args),
    Doctor(commands::doctor::Args),
    Top(commands::top::Args),
    View(commands::view::Args),
    Live(commands::live::Args),
    Spans(commands::spans::Args),
    Query(commands::query::Args),
    #[cfg(feature = "sql")]
    Sql(commands::sql::Args),
    Info(commands::info::Args),
    Merge(commands::merge::Args),
    Cut(commands::cut::Args),
    Convert(commands::convert::Args),
    Crash(commands::crash::Args),
    Send(commands::send::Args),
    Forward(commands::forward::Args),
    Session(commands::session::Args),
    Channel(commands::channel::Args),
    Event(commands::event::Args),
    Trigger(commands::trigger::Args),
    Service(commands::service::Args),
    Status(commands::status::Args),
    Sampling(commands::sampling::Args),
    Completions(commands::completions::Args),
    Agent(commands::agent::Args),
    #[command(hide = true)]
    KernelTracer(commands::kernel_tracer::Args),
    #[command(hide = true)]
    Forwarder(commands::forwarder::Args),
    Relay(commands::relay::Args),
    Scribe(commands::scribe::Args),
    Server(commands::server::Args),
    Store(commands::store::Args),
}

fn main() -> ExitCode {
    if let Some(exit) = commands::completions::offer(Cli::command) {
        return exit;
    }
    let words = std::env::args_os().collect();
    let variable = |name: &str| std::env::var_os(name);
    let words = match daemon_options::complete(words, &Cli::command(), variable) {
        Ok(words) => words,
        Err(error) => return error.report().into(),
    };
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(mut error) => {
            lttng_commands::suggest_equivalent(&mut error);
            let told = output::ignore_closed_pipe(error.print());
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            return told.map_or_else(|error| exit::Error::from(error).report(), |()| exit).into();
        }
    };
    let done = match cli.command {
        Command::Demo(args) => commands::demo::run(args),
        Command::Record(args) => commands::record::run(args),
        Command::Agent(args) => commands::agent::run(args),
        Command::KernelTracer(args) => commands::kernel_tracer::run(&args),
        Command::Forwarder(args) => commands::forwarder::run(&args),
        Command::Relay(args) => commands::relay::run(args),
        Command::Scribe(args) => commands::scribe::run(args),
        Command::Forward(args) => commands::forward::run(args),
        Command::Send(args) => commands::send::run(args),
        Command::Server(args) => commands::server::run(args),
        Command::Store(args) => commands::store::run(args),
        Command::Query(args) => commands::query::run(args),
        Command::Io(args) => commands::io::run(args),
        Command::Probe(args) => commands::probe::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Top(args) => commands::top::run(args),
        Command::View(args) => commands::view::run(args),
        Command::Live(args) => commands::live::run(args),
        Command::Spans(args) => commands::spans::run(args),
        #[cfg(feature = "sql")]
        Command::Sql(args) => commands::sql::run(args),
        Command::Info(args) => commands::info::run(args),
        Command::Merge(args) => commands::merge::run(args),
        Command::Cut(args) => commands::cut::run(args),
        Command::Convert(args) => commands::convert::run(args),
        Command::Crash(args) => commands::crash::run(args),
        Command::Session(args) => commands::session::run(args),
        Command::Channel(args) => commands::channel::run(args),
        Command::Event(args) => commands::event::run(args),
        Command::Trigger(args) => commands::trigger::run(args),
        Command::Service(args) => commands::service::run(args),
        Command::Status(args) => commands::status::run(args),
        Command::Sampling(args) => commands::sampling::run(args),
        Command::Completions(args) => commands::completions::run(args),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => error.report().into(),
    }
}
