//! `cargo xtask release-check`: the trials that last too long for each change.
//!
//! [`STEPS`] run one after the other; a table at the end shows the time and outcome of each.

use crate::measure::Table;
use crate::tools::Outcome;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    /// Run only the steps whose names begin with STEP, such as `bench`
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
}

/// One trial before a release: a chore with its options.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Duration in minutes on a machine with two processors, including builds.
    minutes: u32,
}

const STEPS: [Step; 10] = [
    Step { name: "unprivileged", arguments: &["unprivileged", "--all"], minutes: 30 },
    Step { name: "fuzz", arguments: &["fuzz", "all", "--seconds", "120"], minutes: 35 },
    Step { name: "torture", arguments: &["torture", "--minutes", "60"], minutes: 110 },
    Step { name: "package", arguments: &["package"], minutes: 20 },
    Step { name: "bench ctf", arguments: &["bench", "ctf"], minutes: 8 },
    Step { name: "bench journal", arguments: &["bench", "journal"], minutes: 5 },
    Step { name: "bench server", arguments: &["bench", "server"], minutes: 40 },
    Step { name: "bench tracer", arguments: &["bench", "tracer"], minutes: 10 },
    Step { name: "bench ui", arguments: &["bench", "ui"], minutes: 15 },
    Step { name: "bench wire", arguments: &["bench", "wire"], minutes: 5 },
];

fn after_help() -> String {
    let all: u32 = STEPS.iter().map(|step| step.minutes).sum();
    let steps = STEPS.map(|step| {
        format!(
            "  {:14} {:>4} min  cargo xtask {}",
            step.name,
            step.minutes,
            step.arguments.join(" ")
        )
    });
    format!("Steps, with their time on two processors, {all} minutes in all:\n{}", steps.join("\n"))
}

pub(crate) fn run(options: &Options) -> Outcome {
    let is_chosen = |step: &&Step| {
        options.only.as_ref().is_none_or(|only| step.name.starts_with(only.as_str()))
    };
    let steps: Vec<&Step> = STEPS.iter().filter(is_chosen).collect();
    if steps.is_empty() {
        let names = STEPS.map(|step| step.name).join(", ");
        return Err(format!("no such step; there are {names}"));
    }
    let program = std::env::current_exe().map_err(|error| format!("own executable: {error}"))?;
    let mut table = Table::new(&["step", "time", "ended"]);
    let mut all_passed = true;
    for step in steps {
        println!("=== {}: cargo xtask {}", step.name, step.arguments.join(" "));
        let begun = Instant::now();
        let status = Command::new(&program)
            .args(step.arguments)
            .status()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        all_passed &= status.success();
        let ended = if status.success() { "passed".to_owned() } else { status.to_string() };
        table.row(vec![step.name.to_owned(), minutes(begun.elapsed()), ended]);
    }
    println!("\n{}", table.render());
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn minutes(time: Duration) -> String {
    format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
}
