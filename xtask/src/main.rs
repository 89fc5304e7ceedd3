//! The project's chores, as `cargo xtask NAME`. A file per subcommand; start with the one whose
//! name you typed.
//!
//! Chores run other programs and print what those say, so printing is this crate's job.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for the project's own developers"
)]

mod bench;
mod fuzz;
mod install;
mod layers;
mod man;
mod measure;
mod peers;
mod release_check;
mod test;
mod torture;
mod ui;
mod unprivileged;
mod words;

use clap::{Parser, Subcommand};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a chore ends with: an exit code, or a message that reads well after "error: ".
type Outcome = Result<ExitCode, String>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks who may depend on whom, where unsafe code may be, and under which licences
    Layers,
    /// Counts what is wrong with comments, names and commit subjects, and holds it to a ratchet
    Words(words::Options),
    /// Installs the real programs that the tests talk to, or says which are missing
    Peers,
    /// Runs all tests, and ends with a line that counts them
    Test(test::Options),
    /// Runs tests once more as a plain user, where `test` runs as root
    Unprivileged(unprivileged::Options),
    /// Runs a benchmark
    Bench(bench::Options),
    /// Builds BlkKin, and installs it
    Install(install::Options),
    /// Removes what `install` has installed, and nothing else
    Uninstall(install::Place),
    /// Builds the screen, compares it with what is committed, and tests it in a browser
    Ui,
    /// Writes the manual's pages anew, from what `--help` says
    Man,
    /// Runs a fuzz target on the stable toolchain
    Fuzz(fuzz::Options),
    /// Tries what the tracer promises, for long and with large amounts
    Torture(torture::Options),
    /// Runs the trials that take hours, as before a release
    ReleaseCheck(release_check::Options),
    /// Runs one command and reports what it used (for the benches' own use)
    #[command(hide = true)]
    Measure(measure::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Layers => layers::run(),
        Chore::Words(options) => words::run(&options),
        Chore::Peers => peers::run(),
        Chore::Test(options) => test::run(&options),
        Chore::Unprivileged(options) => unprivileged::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Install(options) => install::run(&options),
        Chore::Uninstall(place) => install::uninstall(&place),
        Chore::Man => man::run(),
        Chore::Ui => ui::run(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Torture(options) => torture::run(&options),
        Chore::ReleaseCheck(options) => release_check::run(&options),
        Chore::Measure(options) => measure::run(&options),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("error: {message}");
        ExitCode::FAILURE
    })
}

/// The directory of the workspace's `Cargo.toml`.
fn workspace_root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.clone(), PathBuf::from)
}

/// Where build products go.
fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(&dir).unwrap_or_else(|_| PathBuf::from(&dir)),
        None => workspace_root().join("target"),
    }
}

/// A command for the cargo that started this program, or for the one in the path. Every cargo that a chore runs starts
/// here: `cargo run` describes this package in variables that build scripts watch, and whoever is started with
/// them and then without compiles everything behind such a script anew.
fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    cargo_of(&program, std::env::vars_os().map(|(name, _)| name))
}

fn cargo_of(program: &OsStr, variables: impl Iterator<Item = OsString>) -> Command {
    let mut command = Command::new(program);
    for name in variables.filter(|name| describes_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether `cargo run` sets a variable to say which package it runs.
fn describes_a_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_")
}

/// Says of an error which file it is about.
fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Whether this is an automatic build, where nothing may be skipped silently.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::{cargo_of, workspace_root};
    use std::ffi::{OsStr, OsString};
    use std::fs;
    use std::path::Path;

    #[test]
    fn inner_cargos_are_not_told_of_this_package() {
        let kept = ["PATH", "CARGO", "CARGO_TARGET_DIR", "CARGO_HOME", "RUSTFLAGS"];
        let removed = [
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_LINKS",
            "CARGO_MANIFEST_PATH",
            "CARGO_PKG_NAME",
            "CARGO_PKG_VERSION_MAJOR",
        ];
        let all = kept.into_iter().chain(removed).map(OsString::from);
        let command = cargo_of(OsStr::new("cargo"), all);
        let changed: Vec<(&OsStr, Option<&OsStr>)> = command.get_envs().collect();
        assert_eq!(changed, removed.map(|name| (OsStr::new(name), None)));
    }

    /// One other way to start cargo would compile everything behind ring's build script anew, in alternation.
    #[test]
    fn no_chore_starts_cargo_in_another_way() {
        let mut found = Vec::new();
        look(&workspace_root().join("xtask/src"), &mut found);
        let main = workspace_root().join("xtask/src/main.rs");
        found.retain(|(file, _)| *file != main);
        assert!(found.is_empty(), "not by `crate::cargo()`: {found:?}");
    }

    /// A cargo that is too old shows this line instead of what it does not know, such as the edition.
    #[test]
    fn an_old_cargo_shows_which_one_is_needed() {
        let read = |path: &str| fs::read_to_string(workspace_root().join(path)).expect("a file");
        let (manifest, config) = (read("Cargo.toml"), read(".cargo/config.toml"));
        let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
        let version = version.expect("a version").trim_matches('"');
        let first = config.lines().find(|line| !line.starts_with(['#', '[']));
        let start = format!("needs = {{ # BlkKin needs Rust {version} or newer");
        assert!(first.is_some_and(|line| line.starts_with(&start)), "{first:?}");
    }

    fn look(folder: &Path, found: &mut Vec<(std::path::PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look(&path, found);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let starts = ["\"cargo\"", "\"CARGO\"", "\"rustup\"", "/cargo\""];
            let lines = text.lines().filter(|line| starts.iter().any(|start| line.contains(start)));
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            found.extend(lines.map(|line| (path.clone(), line.trim().to_owned())));
        }
    }
}
