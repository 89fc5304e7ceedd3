//! `blkkin convert`: traces in the other version of CTF.

use super::write::{self, OutputArgs};
use crate::exit::{Error, Exit};
use crate::input::InputArgs;
use blkkin_ctf::schema::Version;
use blkkin_rewrite::Form;

/// Write traces in CTF 1.8 or CTF 2
///
/// CTF 1.8 is what babeltrace2 2.0 and Trace Compass read; CTF 2 is the newer one. What CTF 1.8
/// cannot say is replaced by its like: booleans by enumerations of "false" and "true", optional
/// fields by variants, variable-length integers by those of 64 bits, UTF-16 and UTF-32 by UTF-8,
/// blobs by arrays of bytes.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin convert --to ctf2 ~/lttng-traces/my-session -o new\n  \
        blkkin convert --to ctf1 TRACE -o old && babeltrace2 old",
    after_help = crate::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// The version to write
    #[arg(long, value_enum, value_name = "VERSION", required = true)]
    to: To,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum To {
    /// CTF 1.8, with metadata in TSDL
    #[value(alias = "1", alias = "1.8")]
    Ctf1,
    /// CTF 2, with metadata in JSON
    #[value(alias = "2", alias = "2.0")]
    Ctf2,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let version = match args.to {
        To::Ctf1 => Version::Ctf1,
        To::Ctf2 => Version::Ctf2,
    };
    write::run(&args.input, None, &args.output, Form::Version(version))
}
