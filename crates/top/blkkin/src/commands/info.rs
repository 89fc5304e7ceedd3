//! `blkkin info`: what a trace holds.

use crate::exit::{Error, Exit};
use crate::input::InputArgs;

/// Show what traces hold: streams, event types with counts, rate over time, losses
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let _ = args.input.open()?;
    Ok(Exit::Ok)
}
