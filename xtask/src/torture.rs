//! `cargo xtask torture`: tests BlkKin's promises for a given time. The trials are tests with
//! larger amounts than in everyday runs; start at [`trials::TRIALS`]. A promise holds if all of its
//! trials succeed.
//!
//! Tests report figures as lines `PROMISE<tab>FIGURE` in the file that `BLKKIN_FIGURES` names.

mod build;
mod guest;
mod trials;

use crate::peers;
use crate::test_counts::count_lines;
use crate::test_programs::TestProgram;
use crate::tools::{Outcome, at, target_dir};
use blkkin_sys::testing::guest_obstacle;
use build::BuildResult;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use trials::{Build, TRIALS, Trial};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes to go on; each trial runs at least once
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Seed of the first round; each further round adds one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only promises whose names begin with this, such as `L` or `H1`
    #[arg(long, value_name = "PROMISE")]
    only: Option<String>,
}

/// Timeout of one run of a trial.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Results of a trial: whether a round failed, and the counts and texts of the last round.
#[derive(Default)]
struct TrialResult {
    passed: u64,
    failed: bool,
    figures: Vec<String>,
    /// Reasons why tests were skipped.
    skips: Vec<String>,
}

impl TrialResult {
    fn outcome(&self) -> &'static str {
        match () {
            () if self.failed => "BROKEN",
            () if self.figures.is_empty() && self.skips.len() as u64 >= self.passed => "not tried",
            () => "held",
        }
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let wanted = |trial: &&Trial| {
        options.only.as_ref().is_none_or(|only| trial.promise.starts_with(only.as_str()))
    };
    let trials: Vec<&Trial> = TRIALS.iter().filter(wanted).collect();
    if trials.is_empty() {
        return Err("there is no such promise".to_owned());
    }
    let peers = peers::install();
    let folder = target_dir().join("torture");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let builds = builds(&trials)?;
    let begun = Instant::now();
    let mut results: Vec<TrialResult> = trials.iter().map(|_| TrialResult::default()).collect();
    let mut rounds = 0;
    while rounds == 0 || begun.elapsed() < Duration::from_secs(options.minutes * 60) {
        let seed = options.seed + rounds;
        for (trial, result) in trials.iter().zip(&mut results) {
            println!("torture: round {}, {}: {}", rounds + 1, trial.promise, trial.description);
            match &builds[&trial.build] {
                BuildResult::Missing(why) => result.skips = vec![why.clone()],
                BuildResult::Programs(_) if trial.in_guest && guest_obstacle().is_some() => {
                    result.skips = guest_obstacle().into_iter().collect();
                }
                BuildResult::Programs(programs) => {
                    let program = trial.program(programs)?;
                    let peers = peers.names.join(",");
                    let attempt = Attempt { trial, program, minutes: options.minutes, seed };
                    attempt.run(result, &peers, &folder)?;
                }
            }
        }
        rounds += 1;
    }
    let all: Vec<(&Trial, TrialResult)> = trials.into_iter().zip(results).collect();
    print_table(&all);
    println!("{}", json(&all, options, rounds, begun.elapsed()));
    let holds = all.iter().all(|(_, result)| !result.failed);
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the tests of all given trials in advance.
fn builds(trials: &[&Trial]) -> Result<BTreeMap<Build, BuildResult>, String> {
    let mut builds = BTreeMap::new();
    for trial in trials {
        if let Entry::Vacant(place) = builds.entry(trial.build) {
            place.insert(trial.build.run()?);
        }
    }
    Ok(builds)
}

/// One run of a trial.
struct Attempt<'a> {
    trial: &'a Trial,
    program: &'a TestProgram,
    minutes: u64,
    seed: u64,
}

impl Attempt<'_> {
    /// Runs the trial, and records its result. `peers` are the names of the installed peers.
    fn run(&self, result: &mut TrialResult, peers: &str, folder: &Path) -> Result<(), String> {
        let Attempt { trial, program, minutes, seed } = *self;
        let [figures, skips, log] = ["figures", "skips", "log"].map(|name| folder.join(name));
        for path in [&figures, &skips] {
            fs::write(path, "").map_err(at(path))?;
        }
        let output = File::create(&log).map_err(at(&log))?;
        let errors = output.try_clone().map_err(at(&log))?;
        let variables: Vec<(&str, u64)> =
            trial.amounts.iter().map(|one| one.for_minutes(minutes)).collect();
        // `timeout` also ends the processes that the test has started.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &PATIENCE.as_secs().to_string()]);
        if trial.in_guest {
            let guest = guest::command(trial, program, &variables)?;
            command.arg(guest.get_program()).args(guest.get_args());
        } else {
            command.arg(&program.path).args(["--nocapture", "--test-threads=1"]).args(trial.tests);
        }
        let status = command
            .current_dir(&program.folder)
            .envs(variables.iter().map(|(name, value)| (name, value.to_string())))
            .envs(trial.build.environment_variable())
            .env("BLKKIN_PEERS", peers)
            .env("BLKKIN_FIGURES", &figures)
            .env("BLKKIN_SKIPS", &skips)
            .env("TEST_SEED", seed.to_string())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .status()
            .map_err(|error| format!("cannot start `timeout`: {error}"))?;
        let text = fs::read(&log).map_err(at(&log))?;
        let text = String::from_utf8_lossy(&text);
        let counts = count_lines(&text);
        // Success requires at least one passed test.
        let holds = status.success() && counts.failed == 0 && counts.passed > 0;
        if !holds {
            let kept = folder.join(format!("{}-seed-{seed}.log", trial.promise));
            fs::copy(&log, &kept).map_err(at(&kept))?;
            println!("torture: {} does not hold: {}", trial.promise, kept.display());
            let tells = |line: &&str| line.contains("panicked at") || line.contains("SUMMARY: ");
            let lines: Vec<&str> = text.lines().filter(tells).collect();
            lines.iter().for_each(|line| println!("    {}", line.trim()));
        }
        result.passed = counts.passed;
        result.failed |= !holds;
        let lines = |path: &Path| -> Vec<String> {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines()
                .map(|line| line.split_once('\t').map_or(line, |(_, what)| what).to_owned())
                .collect()
        };
        result.figures = lines(&figures);
        if trial.in_guest {
            // The guest's files no longer exist, so figures are parsed from its output.
            let said = text
                .lines()
                .filter_map(|line| line.strip_prefix(trial.promise)?.strip_prefix(": "));
            result.figures = said.map(|line| line.trim().to_owned()).collect();
        }
        result.skips = lines(&skips);
        Ok(())
    }
}

fn print_table(all: &[(&Trial, TrialResult)]) {
    println!();
    for (trial, result) in all {
        let passed = format!("{} ({} tests passed)", trial.description, result.passed);
        println!("{:<4} {:<9} {passed}", trial.promise, result.outcome());
        for figure in &result.figures {
            println!("{:14} {figure}", "");
        }
        for skip in &result.skips {
            println!("{:14} {skip}", "");
        }
    }
    println!();
}

/// Formats the results of all trials as one JSON object.
fn json(
    all: &[(&Trial, TrialResult)],
    options: &Options,
    rounds: u64,
    took: Duration,
) -> serde_json::Value {
    let trial = |(trial, result): &(&Trial, TrialResult)| {
        serde_json::json!({
            "promise": trial.promise,
            "trial": trial.description,
            "outcome": result.outcome(),
            "passed": result.passed,
            "figures": result.figures,
            "skipped": result.skips,
        })
    };
    serde_json::json!({
        "schema": "blkkin.torture.v1",
        "minutes": options.minutes,
        "seed": options.seed,
        "rounds": rounds,
        "seconds": took.as_secs(),
        "holds": all.iter().all(|(_, result)| !result.failed),
        "trials": all.iter().map(trial).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failed: bool, passed: u64, figures: &[&str], skips: &[&str]) -> &'static str {
        let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        TrialResult { passed, failed, figures: own(figures), skips: own(skips) }.outcome()
    }

    #[test]
    fn what_was_skipped_has_not_held() {
        assert_eq!(outcome(false, 2, &[], &[]), "held");
        assert_eq!(outcome(false, 2, &["all"], &["one"]), "held");
        assert_eq!(outcome(false, 1, &[], &["why"]), "not tried");
        assert_eq!(outcome(true, 1, &["all"], &["why"]), "BROKEN");
    }
}
