//! `blkkin convert`: rewrites traces in another version of CTF.

use super::write::{self, OutputArgs};
use crate::exit::{Error, Exit};
use crate::input::InputArgs;
use blkkin_ctf::schema::Version;
use blkkin_rewrite::Form;

/// Write traces in CTF 1.8 or CTF 2
///
/// CTF 1.8 is read by babeltrace2 2.0 and Trace Compass; CTF 2 is the newer version. Types that CTF
/// 1.8 does not have are replaced: booleans by enumerations of "false" and "true", bit arrays and
/// bit maps by hexadecimal integers, optional fields by variants, variable-length integers by
/// 64-bit ones, floats of other sizes than 32 and 64 bits by 64-bit ones, UTF-16 and UTF-32 strings
/// by UTF-8, blobs by byte arrays.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin convert --to ctf2 ~/lttng-traces/my-session -o new\n  \
        blkkin convert --to ctf1 TRACE -o old && babeltrace2 old",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// Version of CTF to write
    #[arg(long, value_enum, value_name = "VERSION", required = true)]
    to: TargetVersion,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TargetVersion {
    /// CTF 1.8, with metadata in TSDL
    #[value(alias = "1", alias = "1.8")]
    Ctf1,
    /// CTF 2, with metadata in JSON
    #[value(alias = "2", alias = "2.0")]
    Ctf2,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let version = match args.to {
        TargetVersion::Ctf1 => Version::Ctf1,
        TargetVersion::Ctf2 => Version::Ctf2,
    };
    write::run(&args.input, None, &args.output, Form::Version(version))
}
