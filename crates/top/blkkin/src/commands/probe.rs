//! `blkkin probe`: places in the kernel and in programs at which events can be recorded.

mod ls;
mod overview;

use crate::exit::{Error, Exit};

/// List the places in the kernel and in programs where events can be recorded
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin probe ls                                what this machine has, by kind\n  \
        blkkin probe ls 'syscall:*at'\n  \
        blkkin probe ls -v block:block_rq_issue        with its arguments",
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
