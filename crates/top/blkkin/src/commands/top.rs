//! `blkkin top`: what programs of this machine do now, the most first.

use crate::commands::io;
use crate::exit::{Error, Exit};

/// Show what programs do now, in sums that are drawn every second
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  blkkin top io                                   file and network operations",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand, Debug)]
enum Subject {
    Io(io::TopArgs),
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.subject {
        Subject::Io(args) => io::run_top(&args),
    }
}
