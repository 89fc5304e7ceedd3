//! `blkkin live`: sessions of a relay.

mod ls;

use crate::exit::{Error, Exit};

/// List the sessions of a relay, which can be viewed while they are recorded
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin live ls                                 sessions of the relay on this machine\n  \
        blkkin live ls net://collector:5344            of another one\n  \
        blkkin view net://localhost/host/node-1/web    the events of a session, as they come",
    after_help = crate::help::EXIT_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Ls(ls::Ls),
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Ls(args) => ls::run(&args),
    }
}
