//! `cargo xtask test`: runs all tests, the concurrency models, and the web page in a browser, and
//! prints a line that counts them. Test programs, models and the tests of documentation run side by
//! side. With arguments for cargo, `cargo test` runs them one after the other, without the models
//! and the page.
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
use crate::test_counts::{Counts, pass_through};
use crate::test_programs::{self, CARGO, Load, MODELS, Results, TestProgram};
use crate::tools::{Outcome, at, cargo, is_ci, target_dir, workspace_root};
use crate::{peers, ui};
use std::ffi::OsString;
use std::fs;
use std::io::BufReader;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// Filter of tests that leaves those of documentation: all their names contain a line number. With
/// `--doc`, cargo would compile some dependencies, and so all of DataFusion, a second time: those
/// that programs and build scripts have in common have the profile's `lto` only in a build with the
/// programs.
const ANY_DOC_TEST: &str = "(line";

/// Package that results of documentation's tests are printed for.
const DOCUMENTATION: &str = "documentation";

/// Arguments with which cargo runs tests.
const CARGO_TEST: [&str; 4] = ["test", "--workspace", "--locked", "--no-fail-fast"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments for `cargo test`, for instance `-- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let peers = peers::install();
    let skips = target_dir().join("test-skips.txt");
    fs::create_dir_all(target_dir()).and_then(|()| fs::write(&skips, "")).map_err(at(&skips))?;
    let environment: [(&str, OsString); 4] = [
        ("BLKKIN_PEERS", peers.names.join(",").into()),
        ("BLKKIN_PYTHON", peers::python(Environment::Newest).into()),
        ("BLKKIN_PYTHON_OLDER", peers::python(Environment::Older).into()),
        ("BLKKIN_NODE_MODULES", peers::node_modules().into()),
    ];
    let (mut results, mut without, mut command) = (Results::default(), Vec::new(), None);
    let mut programs = Vec::new();
    if options.arguments.is_empty() {
        programs = test_programs::build(test_programs::build_command().arg("--workspace"))?;
        programs
            .extend([run_by_cargo("blkkin-ring", MODELS), run_by_cargo(DOCUMENTATION, "tests")]);
        // Alone: a browser uses all processors, and the tests of the pages have time limits. First:
        // while they wait, `.ci/run` still builds and runs fuzz targets at a low priority.
        match ui::tests(&target_dir().join("debug/blkkin")) {
            Ok(pages) => command = Some(pages),
            Err(why) => without.push(format!("the pages with the server: {why}")),
        }
    } else {
        let mut tests = cargo();
        tests.args(CARGO_TEST).args(&options.arguments).env("BLKKIN_SKIPS", &skips);
        tests.envs(environment.iter().map(|(name, value)| (name, value)));
        command = Some(tests);
    }
    let mut all_ended_well = true;
    if let Some(command) = &mut command {
        let (of_command, status) = count(command)?;
        results.counts.add(of_command);
        if !status.success() && of_command.failed == 0 {
            println!("failed: {command:?} ended with {status}; see above");
        }
        all_ended_well = status.success();
    }
    results.add(test_programs::run_all("test", Load::Mixed, programs, |program| {
        let mut command = match (&*program.kind, &*program.name) {
            (CARGO, MODELS) => test_programs::run_models_command(),
            (CARGO, _) => doc_tests_command(),
            _ => {
                let mut command = test_programs::with_time_limit();
                command.arg(&program.path);
                command
            }
        };
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command
    })?);
    let Results { mut counts, skips: mut skipped, failed } = results;
    all_ended_well &= failed.is_empty();

    let of_commands = fs::read_to_string(&skips).unwrap_or_default();
    let of_commands = of_commands.lines().filter(|line| !line.trim().is_empty());
    let of_commands: Vec<String> = of_commands.map(str::to_owned).collect();
    counts.skip(of_commands.len() as u64);
    counts.skipped += without.len() as u64;
    skipped.extend(of_commands);

    println!();
    peers.print_missing();
    for line in skipped.iter().chain(&without) {
        println!("skipped: {line}");
    }
    for program in failed {
        println!("failed: {program}; see above");
    }
    let peers_fail = is_ci() && !(peers.skipped.is_empty() && without.is_empty());
    if peers_fail {
        println!("failed: a peer is missing, and CI is set");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    let ok = all_ended_well && counts.failed == 0 && !peers_fail;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns tests that cargo builds and runs, as a test program. Only cargo runs tests of
/// documentation. The models are built differently from all other programs, while those run.
fn run_by_cargo(package: &str, name: &str) -> TestProgram {
    TestProgram {
        package: package.to_owned(),
        folder: workspace_root(),
        kind: CARGO.to_owned(),
        name: name.to_owned(),
        path: cargo().get_program().into(),
    }
}

fn doc_tests_command() -> Command {
    let mut command = test_programs::with_time_limit();
    command.arg(cargo().get_program()).args(CARGO_TEST).args(["--", ANY_DOC_TEST]);
    command
}

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
