//! `blkkin doctor`: says what this machine lacks for BlkKin's commands, why, and what enables it.
//! The features of the kernel are used for a moment each; `checks` does that, `show` prints.

mod checks;
mod feature;
mod rights;
mod show;

use crate::conversation::print;
use crate::exit::{Error, Exit};
use feature::Feature;

/// Say what this machine lacks for BlkKin, why, and what enables it
///
/// Each feature of the kernel is tried: small programs are loaded, attached and removed at once.
/// Nothing is changed, nothing remains, and no network is needed. Works without root, too; what
/// only root can find out is marked with a question mark.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin doctor                                  without root: as far as it is visible\n  \
        sudo blkkin doctor\n  \
        sudo blkkin doctor io && sudo blkkin io --app postgres\n  \
        blkkin doctor --json | jq -r '.checks[] | select(.state == \"missing\").fix'",
    after_help = DOCTOR_HELP
)]
pub(crate) struct Args {
    /// Only what these features need [default: all but agent]
    #[arg(value_enum, value_name = "FEATURE")]
    features: Vec<Feature>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Text after the options on the help page.
const DOCTOR_HELP: &str = "Exit status: 0 all that the features need is there, 1 something is missing or needs rights \
    that this user does not have, 2 wrong usage. Without FEATURE, a missing agent is no failure: `blkkin agent` starts \
    one at any time.";

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let wanted: Vec<Feature> = match args.features.is_empty() {
        true => Feature::ALL.into_iter().filter(|feature| *feature != Feature::Agent).collect(),
        false => args.features.clone(),
    };
    let mut checks = checks::all();
    if !args.features.is_empty() {
        checks.retain(|check| check.features.iter().any(|feature| wanted.contains(feature)));
    }
    let features = match args.features.is_empty() {
        true => Feature::ALL.to_vec(),
        false => wanted.clone(),
    };
    match args.json {
        true => print(&format!("{}\n", show::to_json(&checks, &features, &wanted)))?,
        false => print(&show::text(&checks, &features))?,
    }
    let is_well = wanted.iter().all(|feature| checks::work_for(&checks, *feature));
    Ok(if is_well { Exit::Ok } else { Exit::Failed })
}
