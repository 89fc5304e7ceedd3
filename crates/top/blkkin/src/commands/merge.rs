//! `blkkin merge`: writes several traces below one directory.

use super::write::{self, OutputArgs};
use crate::exit::{Error, Exit};
use crate::input::InputArgs;
use blkkin_rewrite::Form;

/// Bring traces together in one directory that is read as one
///
/// All traces at the paths are written below one directory: `blkkin view DIR` and `babeltrace2 DIR`
/// show their events merged in order of time. Each trace keeps its own metadata, clock and
/// environment, in a subdirectory, since one CTF trace cannot have two. Parts of one trace
/// (directories with the same UUID: chunks of a rotation, snapshots, which may overlap) become one
/// trace, with each event once. A single trace is written into the directory itself. Written traces
/// have new UUIDs (those of the sources except for the last six bytes), so they can be read
/// together with their sources.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin merge ~/lttng-traces/host1 ~/lttng-traces/host2 -o both\n  \
        blkkin merge archives/* -o whole                      the chunks of a rotation\n  \
        blkkin merge snapshot-* -o all --json | jq .events",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    write::run(&args.input, None, &args.output, Form::Same)
}
