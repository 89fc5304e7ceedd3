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
mod test;
mod torture;
mod ui;

use clap::{Parser, Subcommand};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    /// Installs the real programs that the tests talk to, or says which are missing
    Peers,
    /// Runs all tests, and ends with a line that counts them
    Test(test::Options),
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
    /// Runs one command and reports what it used (for the benches' own use)
    #[command(hide = true)]
    Measure(measure::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Layers => layers::run(),
        Chore::Peers => peers::run(),
        Chore::Test(options) => test::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Install(options) => install::run(&options),
        Chore::Uninstall(place) => install::uninstall(&place),
        Chore::Man => man::run(),
        Chore::Ui => ui::run(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Torture(options) => torture::run(&options),
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

/// The cargo that started us, or the one in the path.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Says of an error which file it is about.
fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Whether this is an automatic build, where nothing may be skipped silently.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}
