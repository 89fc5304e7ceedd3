//! Test programs: building them with cargo, and running several at the same time. `cargo test` runs
//! one at a time, and many of them mostly wait.

use crate::test_counts::{Counts, count_lines};
use crate::tools::{at, cargo, command, target_dir, workspace_root};
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Maximum number of programs that run at the same time.
const RUNNING_MAX: usize = 4;

/// Number of tests that run at the same time. More would delay tests with time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Half as many again as there are processors: all tests together wait for a third of their
    /// time.
    Mixed,
    /// Twice as many as there are processors: those that compute for long are not among the tests.
    MostlyWaiting,
}

impl Load {
    fn tests_at_once(self) -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        match self {
            Load::Mixed => processors + processors / 2,
            Load::MostlyWaiting => 2 * processors,
        }
    }
}

/// Time limit of one test program, in seconds. A program that hangs counts as failed.
const SECONDS_MAX: &str = "1200";

/// Names of the packages that have a module [`MODELS`].
const MODELLED: [&str; 1] = ["blkkin-ring"];

/// Name of the module of a crate's concurrency models, and of their test program.
pub(crate) const MODELS: &str = "models";

/// Kind of programs that are cargo itself, which builds and runs tests.
pub(crate) const CARGO: &str = "run by cargo";

/// Test programs that last longest, as package and name, the longest first. They start before all
/// other programs, so that none of them is alone at the end.
const LONGEST: [(&str, &str); 16] = [
    ("blkkin-ring", MODELS),
    ("blkkin-lake", "conformance"),
    ("blkkin", "memory"),
    ("blkkin", "promises"),
    ("blkkin-server", "stored"),
    ("blkkin-capi", "programs"),
    ("blkkin", "zipkin"),
    ("xtask", "xtask"),
    ("blkkin-deliver", "deliver"),
    ("blkkin-sql", "questions"),
    ("blkkin-scribed", "stored"),
    ("blkkin-journal", "kill"),
    ("blkkin", "recording"),
    ("blkkin", "demo"),
    ("blkkin-agent", "successors"),
    ("blkkin", "lttng"),
];

/// A test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    pub(crate) package: String,
    /// Folder of the program's package. Cargo runs tests in it.
    pub(crate) folder: PathBuf,
    /// Cargo's kind of the target, such as `lib` or `test`.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Results of one program, or of several programs together.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) counts: Counts,
    /// Lines `TEST: reason` of skipped tests.
    pub(crate) skips: Vec<String>,
    /// Package and name of each program that failed.
    pub(crate) failed: Vec<String>,
}

impl Results {
    pub(crate) fn add(&mut self, other: Results) {
        self.counts.add(other.counts);
        self.skips.extend(other.skips);
        self.failed.extend(other.failed);
    }
}

/// Returns the command that builds test programs without running them. The caller adds the
/// packages.
pub(crate) fn build_command() -> Command {
    let mut command = cargo();
    command.args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    command
}

/// Returns the command that builds the concurrency models, which are unit tests, with loom's
/// atomics and threads. Their names contain [`MODELS`].
pub(crate) fn build_models_command() -> Command {
    let mut command = build_command();
    select_models(&mut command);
    command
}

/// Returns the command that builds the concurrency models and runs them.
pub(crate) fn run_models_command() -> Command {
    let mut command = with_time_limit();
    command.arg(cargo().get_program()).args(["test", "--locked"]);
    select_models(&mut command);
    command.args(["--", MODELS]);
    command
}

fn select_models(command: &mut Command) {
    command.args(["--release", "--lib"]);
    command.args(MODELLED.map(|package| format!("--package={package}")));
    command.arg("--target-dir").arg(target_dir().join("loom"));
    command.env("RUSTFLAGS", "--cfg loom");
}

/// Runs a command made by [`build_command`]; returns the test programs.
pub(crate) fn build(command: &mut Command) -> Result<Vec<TestProgram>, String> {
    let output = command
        .current_dir(workspace_root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match output.status.success() {
        true => Ok(parse_messages(&output.stdout)),
        false => Err("the tests do not build; see above".to_owned()),
    }
}

/// Parses cargo's messages about test programs.
fn parse_messages(output: &[u8]) -> Vec<TestProgram> {
    output.split(|byte| *byte == b'\n').filter_map(parse_message).collect()
}

fn parse_message(line: &[u8]) -> Option<TestProgram> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    let is_test = line["profile"]["test"].as_bool()?;
    let path = line["executable"].as_str().filter(|_| is_test)?.into();
    let folder = Path::new(line["manifest_path"].as_str()?).parent()?.to_owned();
    let target = &line["target"];
    Some(TestProgram {
        package: package_of(&folder)?,
        folder,
        kind: target["kind"][0].as_str()?.to_owned(),
        name: target["name"].as_str()?.to_owned(),
        path,
    })
}

/// Returns the name of the package in a folder.
pub(crate) fn package_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(name.trim_end_matches('"').to_owned())
}

/// Runs the programs by their commands, which `command_of` makes. Prints a line for each program,
/// and the output of programs that fail. `chore` is the first word of each line, and names the
/// folder of the outputs below `target/test-logs`.
pub(crate) fn run_all(
    chore: &str,
    load: Load,
    mut programs: Vec<TestProgram>,
    command_of: impl Fn(&TestProgram) -> Command + Sync,
) -> Result<Results, String> {
    let logs = target_dir().join("test-logs").join(chore);
    fs::create_dir_all(&logs).map_err(at(&logs))?;
    programs.sort_by_cached_key(|program| {
        let this = (program.package.as_str(), program.name.as_str());
        // Among the other programs, those with much code tend to last longer.
        let size = fs::metadata(&program.path).map_or(0, |file| file.len());
        (LONGEST.iter().position(|long| *long == this).unwrap_or(LONGEST.len()), Reverse(size))
    });
    let tests = load.tests_at_once();
    let running = tests.min(RUNNING_MAX);
    let test_threads = tests / running;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Results::default();
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut command = command_of(program);
            command.env("RUST_TEST_THREADS", test_threads.to_string());
            results.add(run_one(chore, program, command, &logs)?);
        }
        Ok(results)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..running).map(|_| scope.spawn(work)).collect();
        let ends: Vec<Result<Results, String>> = workers
            .into_iter()
            .map(|worker| worker.join().expect("the panic is printed already"))
            .collect();
        let mut sum = Results::default();
        for end in ends {
            sum.add(end?);
        }
        Ok(sum)
    })
}

/// Runs one program, and prints its result.
fn run_one(
    chore: &str,
    program: &TestProgram,
    mut command: Command,
    logs: &Path,
) -> Result<Results, String> {
    let TestProgram { package, folder, name, kind, .. } = program;
    let file_name = format!("{package}-{name}-{kind}");
    let (log, skips) = (logs.join(&file_name), logs.join(file_name + ".skips"));
    // Tests of an unprivileged user append to the file, too.
    fs::write(&skips, "").map_err(at(&skips))?;
    fs::set_permissions(&skips, fs::Permissions::from_mode(0o666)).map_err(at(&skips))?;
    // A file rather than a pipe: a process that a test leaves behind keeps a pipe open.
    let output = File::create(&log).map_err(at(&log))?;
    let errors = output.try_clone().map_err(at(&log))?;
    // Cargo sets the variable itself. A build script that sees another value runs again, and all
    // that depends on it is compiled again.
    if kind != CARGO {
        command.env("CARGO_MANIFEST_DIR", folder);
    }
    let start = Instant::now();
    let status = command
        .current_dir(folder)
        .env("BLKKIN_SKIPS", &skips)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(at(&log))?).into_owned();
    let skips = fs::read_to_string(&skips).map_err(at(&skips))?;
    let skips: Vec<String> = skips.lines().map(str::to_owned).collect();
    let mut counts = count_lines(&text);
    counts.skip(skips.len() as u64);
    // A program that crashes or hangs prints no result. Tests that cargo runs are selected by a
    // part of their names, which may change.
    let is_complete = status.success() && (kind != CARGO || counts.passed > 0);
    if !is_complete {
        counts.failed = counts.failed.max(1);
    }
    let mut results = Results { counts, skips, failed: Vec::new() };
    let Counts { passed, failed, skipped } = counts;
    // Each result is one `print!`, because other threads print, too.
    if is_complete {
        println!("{chore}: {package} {name}: {passed} passed, {skipped} skipped, {seconds:.1} s");
    } else {
        println!(
            "{text}\n{chore}: {package} {name}: {passed} passed, {failed} FAILED, \
             {skipped} skipped, {seconds:.1} s; ended with {status}; the output is in {}",
            log.display()
        );
        results.failed.push(format!("{package} {name}"));
    }
    Ok(results)
}

/// Returns a command to which the caller adds a program and its arguments. The program is killed
/// after a time limit, and by Ctrl-C.
pub(crate) fn with_time_limit() -> Command {
    let mut command = command(OsStr::new("timeout"));
    command.args(["--foreground", "--kill-after=10", SECONDS_MAX]);
    command
}

/// Helpers for tests of constants that list packages and files of tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::package_of;
    use crate::tools::workspace_root;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Returns the folders of the packages in `crates`, and of `xtask`, by name of the package.
    pub(crate) fn package_folders() -> BTreeMap<String, PathBuf> {
        let folders = |of: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(of).expect("a folder").flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let stations = folders(&workspace_root().join("crates"));
        let crates = stations.iter().flat_map(|station| folders(station));
        let all = crates.chain([workspace_root().join("xtask")]);
        all.filter_map(|folder| Some((package_of(&folder)?, folder))).collect()
    }

    /// Returns true if the package in `folder` has the file of tests `name`.
    pub(crate) fn has_test_file(folder: &Path, name: &str) -> bool {
        let files = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
        files.iter().any(|file| folder.join(file).is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let manifest = workspace_root().join("xtask/Cargo.toml");
        let line = |is_test: bool, executable: &str| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": manifest.to_string_lossy(),
                "target": {"kind": ["test"], "name": "control"},
                "profile": {"test": is_test},
                "executable": if executable.is_empty() { None } else { Some(executable) },
            })
            .to_string()
        };
        let expected = TestProgram {
            package: "xtask".to_owned(),
            folder: workspace_root().join("xtask"),
            kind: "test".to_owned(),
            name: "control".to_owned(),
            path: "/t/control".into(),
        };
        let lines = [
            line(true, "/t/control"),
            line(false, "/t/blkkin"),
            line(true, ""),
            "   Compiling xtask".to_owned(),
        ];
        assert_eq!(parse_messages(lines.join("\n").as_bytes()), [expected]);
    }

    #[test]
    fn longest_programs_exist() {
        let packages = testing::package_folders();
        for (package, name) in LONGEST {
            let exists = match (package, name) {
                ("xtask", "xtask") => true,
                (_, MODELS) => MODELLED.contains(&package),
                _ => testing::has_test_file(&packages[package], name),
            };
            assert!(exists, "{package} {name}");
        }
    }
}
