//! Helpers of the tests: creating an installation, compiling programs, and recording them.

use crate::install::{Location, Options, run, split};
use crate::tools::{cargo, target_dir, workspace_root};
use blkkin_sys::testing::skip;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Returns true if all these programs are installed. If not, reports the test as skipped.
pub(super) fn have(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !crate::peers::in_path(program));
    missing.inspect(|missing| skip(test, &format!("{missing} is not installed"))).is_none()
}

/// Prefix of the installation; its files are in the directory [`installed`] instead.
pub(super) const PREFIX: &str = "/opt/blkkin";

/// Returns the directory of the installation that all tests share; the first call builds and
/// installs. The directory is not the prefix, so that tests detect files that depend on the prefix.
pub(super) fn installed() -> &'static Path {
    static INSTALLED: OnceLock<(PathBuf, File)> = OnceLock::new();
    let (root, _alone) = INSTALLED.get_or_init(|| {
        let folder = target_dir().join("install-test");
        fs::create_dir_all(&folder).expect("a folder");
        let alone = File::create(folder.join("lock")).expect("a lock");
        alone.lock().expect("the lock");
        let destdir = folder.join("root");
        let _ = fs::remove_dir_all(&destdir);
        let location = Location { prefix: PREFIX.into(), destdir: Some(destdir.clone()) };
        // The examples give dependencies the features that they have in `cargo test --workspace`.
        // With others, cargo would rebuild most crates. `.ci/run` checks the build without SQL.
        let mut build = cargo();
        build.args(["build", "--locked", "--workspace", "--lib", "--bins", "--examples"]);
        let status = build.current_dir(workspace_root()).status().expect("a build");
        assert!(status.success(), "{build:?}: {status}");
        let options = Options {
            location,
            no_build: true,
            profile: "dev".to_owned(),
            without_sql: false,
            with_debug_symbols: crate::symbols::can_split(),
        };
        split(&options.built()).expect("to split");
        run(&options).expect("to install");
        (destdir.join(&PREFIX[1..]), alone)
    });
    root
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
pub(super) fn succeed(command: &mut Command) -> Output {
    // Replaces cargo's value, which users do not have.
    command.env("LD_LIBRARY_PATH", installed().join("lib"));
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Returns the output of `pkg-config`, split into words.
#[track_caller]
pub(super) fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig")).args(arguments);
    text(&succeed(&mut command).stdout).split_whitespace().map(str::to_owned).collect()
}

/// Returns a directory below `tests` of the repository.
pub(super) fn sources(folder: &str) -> PathBuf {
    crate::tools::workspace_root().join("tests").join(folder)
}

/// Compiles sources to `program`; a warning is an error.
#[track_caller]
pub(super) fn compile<S: AsRef<OsStr>>(
    compiler: &str,
    sources: &[PathBuf],
    options: &[S],
    program: &Path,
) {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-O2"]).args(sources);
    succeed(command.args(options).arg("-o").arg(program));
}

/// Records a program that prints how many events it recorded. Checks that `blkkin record` and
/// `blkkin view` count as many, and that babeltrace2 prints the same as `blkkin view`. Returns the
/// trace's path.
#[track_caller]
pub(super) fn record(program: &Path, options: &[&str]) -> PathBuf {
    static TURN: Mutex<()> = Mutex::new(());
    // One recording at a time, as each needs memory for the rings of every processor.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let blkkin = installed().join("bin/blkkin");
    let trace = program.with_extension("trace");
    let mut command = Command::new(&blkkin);
    command.args(["record", "--json", "-o"]).arg(&trace).args(options).arg("--").arg(program);
    let told = text(&succeed(&mut command).stdout);
    let (expected, summary) = told.split_once('\n').expect("two lines");
    let expected: usize = expected.parse().expect("a number");
    assert!(expected > 0 && summary.contains(&format!("\"events\":{expected},")), "{told}");

    let view = succeed(Command::new(&blkkin).arg("view").arg(&trace)).stdout;
    assert_eq!(text(&view).lines().count(), expected, "{program:?}: blkkin view");
    let theirs = succeed(Command::new("babeltrace2").arg(&trace)).stdout;
    assert!(theirs == view, "{program:?}: babeltrace2 prints {}", trace.display());
    trace
}
