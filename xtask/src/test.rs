//! `cargo xtask test`: runs all tests, the concurrency models, and the web page in a browser, and
//! prints a line that counts them.
//!
//! Environment variables configure the tests. `BLKKIN_PEERS` lists the installed peers (see
//! [`crate::peers`]), separated by commas. `BLKKIN_PYTHON` is the Python interpreter that has the
//! peers written in Python, `BLKKIN_PYTHON_OLDER` is an interpreter with versions that conflict
//! with these, and `BLKKIN_NODE_MODULES` is the folder of node's packages. A test that needs a
//! missing peer appends a line `TEST: reason` to the file that `BLKKIN_SKIPS` names, and returns;
//! with `CI=true` the test fails instead. Such a test counts as skipped here, although cargo
//! reports it as passed. A test that is marked as a program of other tests does not count as
//! skipped, since those tests start it.

use crate::peers::Environment;
use crate::tools::{Outcome, at, cargo, is_ci, target_dir, workspace_root};
use crate::{peers, ui};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments for `cargo test`, for instance `-- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let peers = peers::install();
    let skips = target_dir().join("test-skips.txt");
    fs::create_dir_all(target_dir()).and_then(|()| fs::write(&skips, "")).map_err(at(&skips))?;

    let mut tests = cargo();
    tests
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .args(&options.arguments)
        .env("BLKKIN_PEERS", peers.names.join(","))
        .env("BLKKIN_PYTHON", peers::python(Environment::Newest))
        .env("BLKKIN_PYTHON_OLDER", peers::python(Environment::Older))
        .env("BLKKIN_NODE_MODULES", peers::node_modules())
        .env("BLKKIN_SKIPS", &skips);
    let mut commands = vec![tests];
    let mut without = Vec::new();
    if options.arguments.is_empty() {
        // `cargo test` has built the program.
        match ui::tests(&target_dir().join("debug/blkkin")) {
            Ok(pages) => commands.push(pages),
            Err(why) => without.push(format!("the pages with the server: {why}")),
        }
        commands.push(models());
    }
    let mut counts = Counts::default();
    let mut all_ended_well = true;
    for command in &mut commands {
        let (of_command, status) = count(command)?;
        counts.add(of_command);
        if !status.success() && of_command.failed == 0 {
            println!("failed: {command:?} ended with {status}; see above");
        }
        all_ended_well &= status.success();
    }

    let skips = fs::read_to_string(&skips).unwrap_or_default();
    let skips: Vec<&str> = skips.lines().filter(|line| !line.trim().is_empty()).collect();
    let skipped = skips.len() as u64;
    counts.passed = counts.passed.saturating_sub(skipped);
    counts.skipped += skipped + without.len() as u64;

    println!();
    peers.print_missing();
    for line in skips.iter().copied().chain(without.iter().map(String::as_str)) {
        println!("skipped: {line}");
    }
    let peers_fail = is_ci() && !(peers.skipped.is_empty() && without.is_empty());
    if peers_fail {
        println!("failed: a peer is missing, and CI is set");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    let ok = all_ended_well && counts.failed == 0 && !peers_fail;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the command that tests the models of the [`MODELLED`] crates. They need a separate build
/// with loom's atomics and threads.
fn models() -> Command {
    let mut command = cargo();
    command
        .args(["test", "--release", "--locked", "--no-fail-fast", "--lib", "models"])
        .args(MODELLED.map(|package| format!("--package={package}")))
        .arg("--target-dir")
        .arg(target_dir().join("loom"))
        .env("RUSTFLAGS", "--cfg loom");
    command
}

/// Names of the crates that have a module `models`.
const MODELLED: [&str; 1] = ["blkkin-ring"];

/// Runs a test command; returns the counts of its tests and its exit status.
fn count(command: &mut Command) -> Result<(Counts, ExitStatus), String> {
    let mut child = command
        .current_dir(workspace_root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let output = child.stdout.take().ok_or("it has no output")?;
    let counts = pass_through(BufReader::new(output), std::io::stdout())?;
    let status = child.wait().map_err(|error| format!("waiting for {command:?}: {error}"))?;
    Ok((counts, status))
}

/// End of the line of an ignored test that other tests start. Cargo counts the test as ignored.
const PROGRAM: &str = " ... ignored, a program of other tests";

/// Copies the output of cargo or node line by line, and adds up its result lines.
fn pass_through(mut from: impl BufRead, mut to: impl Write) -> Result<Counts, String> {
    let mut counts = Counts::default();
    // Number of programs of other tests since the last result line.
    let mut programs = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = from.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if length == 0 {
            return Ok(counts);
        }
        to.write_all(&line).and_then(|()| to.flush()).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&line);
        if text.starts_with("test ") && text.trim_end().ends_with(PROGRAM) {
            programs += 1;
        }
        if let Some(mut result) = result_line(&text) {
            result.skipped = result.skipped.saturating_sub(std::mem::take(&mut programs));
            counts.add(result);
        }
        counts.add(node_line(&text));
    }
}

/// Parses a line of node's test summary, such as `ℹ pass 17`.
fn node_line(line: &str) -> Counts {
    let mut counts = Counts::default();
    let rest = line.strip_prefix("ℹ ").and_then(|rest| rest.trim_end().split_once(' '));
    let Some((what, Ok(number))) = rest.map(|(what, number)| (what, number.parse())) else {
        return counts;
    };
    match what {
        "pass" => counts.passed = number,
        "fail" | "cancelled" => counts.failed = number,
        "skipped" | "todo" => counts.skipped = number,
        _ => {}
    }
    counts
}

/// Parses a result line of cargo: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
pub(crate) fn result_line(line: &str) -> Option<Counts> {
    let rest = line.trim_start().strip_prefix("test result: ")?;
    let mut counts = Counts::default();
    for part in rest.split(['.', ';']) {
        let mut words = part.split_whitespace();
        let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
        let Ok(number) = number.parse() else { continue };
        match what {
            "passed" => counts.passed = number,
            "failed" => counts.failed = number,
            "ignored" => counts.skipped = number,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::{Counts, pass_through};

    fn check(output: &str, passed: u64, failed: u64, skipped: u64) {
        let mut copy = Vec::new();
        let counts = pass_through(output.as_bytes(), &mut copy).expect("no I/O here");
        assert_eq!(counts, Counts { passed, failed, skipped });
        assert_eq!(copy, output.as_bytes(), "every byte is passed on");
    }

    #[test]
    fn results_are_added_up() {
        check("", 0, 0, 0);
        check("running 2 tests\n..\n", 0, 0, 0);
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
             finished in 0.01s\n",
            12,
            0,
            1,
        );
        check(
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\nnoise\n\
             test result: FAILED. 3 passed; 4 failed; 5 ignored; 0 measured",
            5,
            4,
            5,
        );
        check(
            "ℹ tests 9\nℹ pass 4\nℹ fail 2\nℹ cancelled 1\nℹ skipped 2\nℹ duration_ms 8.5\n",
            4,
            3,
            2,
        );
        check("an ℹ pass 3\nℹ pass x\n", 0, 0, 0);
        check("the test result: 9 passed\n", 0, 0, 0);
    }

    /// An ignored test counts as skipped, unless it is a program of other tests. The programs of
    /// each file of tests are counted separately.
    #[test]
    fn programs_of_other_tests_are_not_skipped() {
        let line = "test counts ... ignored, a program of other tests\n";
        let result = |ignored| format!("test result: ok. 1 passed; 0 failed; {ignored} ignored\n");
        check(&format!("{line}{line}{}", result(2)), 1, 0, 0);
        check(&format!("{line}test slow ... ignored, slow\n{}", result(2)), 1, 0, 1);
        check(&format!("{line}{}{}", result(1), result(1)), 2, 0, 1);
        check(&format!("a {line}{}", result(1)), 1, 0, 1);
    }
}
