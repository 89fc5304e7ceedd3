//! `blkkin`, the one binary: parses, validates, calls. A file per subcommand in `commands`.

mod commands;
mod exit;
mod input;
mod interrupt;
mod output;
mod progress;
mod values;

use clap::{Parser, Subcommand};
use exit::Exit;
use std::process::ExitCode;

/// Follow one request through every layer it crosses.
///
/// BlkKin reads traces of LTTng, barectf, the Linux kernel and its own, in the Common Trace
/// Format 1.8 and 2.
#[derive(Parser)]
#[command(
    name = "blkkin",
    version,
    before_help = "Examples:\n  \
        blkkin view ~/lttng-traces/my-session          print all events, in order\n  \
        blkkin view --filter 'ret < 0' TRACE           only what failed\n  \
        blkkin view --json TRACE | jq .name            one JSON object an event\n  \
        blkkin info TRACE                              what a trace holds\n  \
        blkkin cut --begin 12:30 --end 12:31 TRACE -o minute",
    after_help = EXIT_HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Told by every help page.
const EXIT_HELP: &str = "Exit status: 0 all well, 1 something could not be read or written, \
                         2 wrong usage, 130 interrupted.\nData goes to standard output, all else \
                         to standard error.";

#[derive(Subcommand)]
enum Command {
    Record(commands::record::Args),
    View(commands::view::Args),
    Info(commands::info::Args),
    Merge(commands::merge::Args),
    Cut(commands::cut::Args),
    Convert(commands::convert::Args),
    Agent(commands::agent::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let told = output::unless_closed(error.print());
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            return told.map_or_else(|error| exit::Error::from(error).report(), |()| exit).into();
        }
    };
    let done = match cli.command {
        Command::Record(args) => commands::record::run(args),
        Command::Agent(args) => commands::agent::run(args),
        Command::View(args) => commands::view::run(args),
        Command::Info(args) => commands::info::run(args),
        Command::Merge(args) => commands::merge::run(args),
        Command::Cut(args) => commands::cut::run(args),
        Command::Convert(args) => commands::convert::run(args),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => error.report().into(),
    }
}
