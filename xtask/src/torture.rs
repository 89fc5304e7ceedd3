//! `cargo xtask torture`: what the tracer promises, tried for as long as you like. The trials are tests, with
//! larger amounts than in everyday runs; start at [`TRIALS`]. A promise holds if all of its trials succeed.
//!
//! Tests tell what they have done by lines `PROMISE<tab>FIGURE` in the file that `BLKKIN_FIGURES` names.

use crate::test::{self, Counts};
use crate::{Outcome, at, cargo, peers, target_dir, workspace_root};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long to go on; everything is tried once at least
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// What chance starts from; the second round takes the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only promises whose names begin so, such as `L` or `H1`
    #[arg(long, value_name = "PROMISE")]
    only: Option<String>,
}

/// Tests that try a promise.
struct Trial {
    promise: &'static str,
    what: &'static str,
    package: &'static str,
    /// The file of tests; empty for those beside the code.
    file: &'static str,
    /// How their names begin, or parts of them.
    tests: &'static [&'static str],
    amounts: &'static [Amount],
}

/// How much of something is done.
struct Amount {
    variable: &'static str,
    a_minute: u64,
    most: u64,
}

const fn amount(variable: &'static str, a_minute: u64, most: u64) -> Amount {
    Amount { variable, a_minute, most }
}

/// The same, however long it takes.
const fn fixed(variable: &'static str, most: u64) -> Amount {
    Amount { variable, a_minute: most, most }
}

const fn end_to_end(
    promise: &'static str,
    what: &'static str,
    tests: &'static [&'static str],
    amounts: &'static [Amount],
) -> Trial {
    Trial { promise, what, package: "blkkin", file: "promises", tests, amounts }
}

const fn part(
    promise: &'static str,
    what: &'static str,
    package: &'static str,
    file: &'static str,
    tests: &'static [&'static str],
    amounts: &'static [Amount],
) -> Trial {
    Trial { promise, what, package, file, tests, amounts }
}

const HOSTILE: Amount = amount("BLKKIN_HOSTILE_SECONDS", 2, 900);

const TRIALS: &[Trial] = &[
    end_to_end(
        "L1",
        "a program does not notice how its agent is, nor that the disk is full",
        &["l1_"],
        &[
            fixed("TEST_EVENTS", 1_000_000),
            fixed("TEST_TIMED", 200_000),
            amount("TEST_FULL", 1, 20),
        ],
    ),
    end_to_end("L2", "agents are started anew", &["l2_"], &[amount("TEST_RESTARTS", 10, 1000)]),
    part(
        "L2",
        "agents are killed at any moment",
        "blkkin",
        "recording",
        &["killed_agents"],
        &[amount("TEST_KILLS", 20, 1000)],
    ),
    end_to_end("L3", "programs are killed", &["l3_"], &[amount("TEST_DEATHS", 20, 1000)]),
    part("L3", "writers of one ring are killed", "blkkin-ring", "kill", &[], &[]),
    part(
        "L4",
        "programs fork, execute, become daemons, load plugins",
        "blkkin-capi",
        "programs",
        &["life"],
        &[],
    ),
    part(
        "L4",
        "forks, signal handlers, confined threads",
        "blkkin-trace",
        "daemon",
        &["fork", "signal", "confined", "threads", "child"],
        &[],
    ),
    end_to_end(
        "L5",
        "many threads and processes",
        &["l5_"],
        &[fixed("TEST_THREADS", 10_000), fixed("TEST_PROCESSES", 1000)],
    ),
    end_to_end(
        "L6",
        "programs are moved between processors",
        &["l6_"],
        &[amount("TEST_MOVES", 500, 10_000)],
    ),
    end_to_end("L7", "the last records are in memory alone", &["l7_"], &[]),
    part("L8", "threads and signals beyond number", "blkkin-ring", "storm", &[], &[]),
    part("L8", "rings as their model has them", "blkkin-ring", "model", &[], &[]),
    part(
        "H1",
        "rings, catalogs and sockets are scribbled on",
        "blkkin-agent",
        "hostile",
        &[],
        &[HOSTILE],
    ),
    part("H1", "a reader beside a scribbler", "blkkin-ring", "hostile", &[], &[]),
    part("H2", "forged numbers", "blkkin-agent", "hostile", &["forged"], &[]),
    end_to_end("H2", "other users", &["h2_"], &[]),
    end_to_end("H3", "connections without number", &["h3_"], &[fixed("TEST_CONNECTIONS", 6000)]),
    part(
        "H3",
        "sessions, channels and types without number",
        "blkkin-agent",
        "hostile",
        &["quotas"],
        &[],
    ),
    end_to_end(
        "K2",
        "namespaces, frozen groups, idleness",
        &["k2_"],
        &[amount("TEST_IDLE_SECONDS", 5, 60)],
    ),
    end_to_end("P1", "what the agent may do", &["p1_"], &[]),
    part("P1", "what is left to who finds a way in", "blkkin-agent", "", &["confine"], &[]),
];

/// A trial that does not end in that time has failed.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// What has come of a trial: whether it ever failed, and what the last round did.
#[derive(Default)]
struct Tried {
    passed: u64,
    failed: bool,
    figures: Vec<String>,
    /// Why something could not be tried.
    skips: Vec<String>,
}

impl Tried {
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
    let programs = build()?;
    let begun = Instant::now();
    let mut results: Vec<Tried> = trials.iter().map(|_| Tried::default()).collect();
    let mut rounds = 0;
    while rounds == 0 || begun.elapsed() < Duration::from_secs(options.minutes * 60) {
        let seed = options.seed + rounds;
        for (trial, result) in trials.iter().zip(&mut results) {
            println!("torture: round {}, {}: {}", rounds + 1, trial.promise, trial.what);
            let program = trial.program(&programs)?;
            let peers = peers.names.join(",");
            attempt((trial, program), result, (options.minutes, seed), &peers, &folder)?;
        }
        rounds += 1;
    }
    let all: Vec<(&Trial, Tried)> = trials.into_iter().zip(results).collect();
    print_table(&all);
    println!("{}", json(&all, options, rounds, begun.elapsed()));
    let holds = all.iter().all(|(_, result)| !result.failed);
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A program of tests.
struct Program {
    /// Of its package.
    folder: PathBuf,
    /// The file of tests, or its package's name with underscores for those beside the code.
    name: String,
    path: PathBuf,
}

/// Builds all tests first, so that no trial waits for that.
fn build() -> Result<Vec<Program>, String> {
    let mut command = Command::new(cargo());
    command.args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    // Always the same ones: which packages are chosen decides how what they share is built.
    let packages: BTreeSet<&str> = TRIALS.iter().map(|trial| trial.package).collect();
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    let output = command
        .current_dir(workspace_root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let programs = output.stdout.split(|byte| *byte == b'\n').filter_map(program);
    Ok(programs.collect())
}

/// What a line of cargo's tells of a program of tests.
fn program(line: &[u8]) -> Option<Program> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    let is_test = line["profile"]["test"].as_bool()?;
    let path = line["executable"].as_str().filter(|_| is_test)?.into();
    let folder = Path::new(line["manifest_path"].as_str()?).parent()?.to_owned();
    let name = line["target"]["name"].as_str()?.to_owned();
    Some(Program { folder, name, path })
}

impl Trial {
    /// The folder of its package has its name, without what all have in common.
    fn folder(&self) -> &str {
        self.package.trim_start_matches("blkkin-")
    }

    fn program<'p>(&self, programs: &'p [Program]) -> Result<&'p Program, String> {
        let library = self.package.replace('-', "_");
        let name = if self.file.is_empty() { &library } else { self.file };
        let is_own =
            |program: &&Program| program.folder.ends_with(self.folder()) && program.name == name;
        let found = programs.iter().find(is_own);
        found.ok_or_else(|| format!("cargo has built no tests `{name}` of {}", self.package))
    }
}

/// Runs a trial once.
fn attempt(
    (trial, program): (&Trial, &Program),
    result: &mut Tried,
    (minutes, seed): (u64, u64),
    peers: &str,
    folder: &Path,
) -> Result<(), String> {
    let [figures, skips, log] = ["figures", "skips", "log"].map(|name| folder.join(name));
    for path in [&figures, &skips] {
        fs::write(path, "").map_err(at(path))?;
    }
    let output = File::create(&log).map_err(at(&log))?;
    let errors = output.try_clone().map_err(at(&log))?;
    // Ends what the test has started, too.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &PATIENCE.as_secs().to_string()]).arg(&program.path);
    command.args(["--nocapture", "--test-threads=1"]).args(trial.tests);
    for amount in trial.amounts {
        let value = amount.most.min(amount.a_minute.saturating_mul(minutes.max(1)));
        command.env(amount.variable, value.to_string());
    }
    let status = command
        .current_dir(&program.folder)
        .env("BLKKIN_PEERS", peers)
        .env("BLKKIN_FIGURES", &figures)
        .env("BLKKIN_SKIPS", &skips)
        .env("BLKKIN_SEED", seed.to_string())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .map_err(|error| format!("cannot start `timeout`: {error}"))?;
    let text = fs::read(&log).map_err(at(&log))?;
    let text = String::from_utf8_lossy(&text);
    let mut counts = Counts::default();
    text.lines().filter_map(test::result_line).for_each(|line| counts.add(line));
    // Tests that are not there have shown nothing.
    let holds = status.success() && counts.failed == 0 && counts.passed > 0;
    if !holds {
        let kept = folder.join(format!("{}-seed-{seed}.log", trial.promise));
        fs::copy(&log, &kept).map_err(at(&kept))?;
        println!("torture: {} does not hold: {}", trial.promise, kept.display());
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("panicked at")).collect();
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
    result.skips = lines(&skips);
    Ok(())
}

fn print_table(all: &[(&Trial, Tried)]) {
    println!();
    for (trial, result) in all {
        let passed = format!("{} ({} tests passed)", trial.what, result.passed);
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

/// One line for machines.
fn json(
    all: &[(&Trial, Tried)],
    options: &Options,
    rounds: u64,
    took: Duration,
) -> serde_json::Value {
    let trial = |(trial, result): &(&Trial, Tried)| {
        serde_json::json!({
            "promise": trial.promise,
            "trial": trial.what,
            "outcome": result.outcome(),
            "passed": result.passed,
            "figures": result.figures,
            "skipped": result.skips,
        })
    };
    serde_json::json!({
        "schema": "blkkin.torture.1",
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
        Tried { passed, failed, figures: own(figures), skips: own(skips) }.outcome()
    }

    #[test]
    fn what_was_skipped_has_not_held() {
        assert_eq!(outcome(false, 2, &[], &[]), "held");
        assert_eq!(outcome(false, 2, &["all"], &["one"]), "held");
        assert_eq!(outcome(false, 1, &[], &["why"]), "not tried");
        assert_eq!(outcome(true, 1, &["all"], &["why"]), "BROKEN");
    }

    /// A name that fits no test would try nothing.
    #[test]
    fn trials_have_files() {
        for trial in TRIALS {
            let found = ["capture", "carry", "top"].iter().any(|station| {
                let package = workspace_root().join("crates").join(station).join(trial.folder());
                match trial.file {
                    "" => package.join("src/lib.rs").is_file(),
                    file => [format!("tests/{file}.rs"), format!("tests/{file}/main.rs")]
                        .iter()
                        .any(|file| package.join(file).is_file()),
                }
            });
            assert!(found, "{} {}", trial.package, trial.file);
        }
    }
}
