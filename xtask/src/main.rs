//! Chores of the project, as `cargo xtask NAME`. Each chore is a module; `uninstall` is in
//! `install`.
//!
//! Chores run other programs and print their results, so this crate may print.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for the project's own developers"
)]

mod bench;
mod deny;
mod fuzz;
mod install;
mod layers;
mod man;
mod measure;
mod package;
mod peers;
mod process;
mod release_check;
mod symbols;
mod test;
mod test_counts;
mod test_programs;
mod tools;
mod torture;
mod ui;
mod unprivileged;
mod words;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check dependencies between crates, import cycles, unsafe code, licences, and ARCHITECTURE.md
    Layers,
    /// Check comments, type names and commit subjects against a ratchet
    Words(words::Options),
    /// Check licences, sources and known faults of dependencies with cargo-deny, if it is installed
    Deny,
    /// Install the real programs that the tests talk to, or list the missing ones
    Peers,
    /// Run all tests, and print a line that counts them
    Test(test::Options),
    /// Run tests again as an unprivileged user, if started as root
    Unprivileged(unprivileged::Options),
    /// Run a benchmark
    Bench(bench::Options),
    /// Build BlkKin, and install it
    Install(install::Options),
    /// Remove what `install` has installed, except changed files
    Uninstall(install::Location),
    /// Make a release: a tarball, Debian packages and an OCI image, reproducibly and without root
    Package(package::Options),
    /// Build the web page, compare it with the committed one, and test it in a browser
    Ui,
    /// Write the manual's pages from the text of `--help`
    Man,
    /// Run a fuzz target, or all, on the stable toolchain
    Fuzz(fuzz::Options),
    /// Test BlkKin's promises for long, and with large amounts
    Torture(torture::Options),
    /// Run the trials that take hours, before a release
    ReleaseCheck(release_check::Options),
    /// Run one command and report its resource usage (for the benches' own use)
    #[command(hide = true)]
    Measure(measure::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Layers => layers::run(),
        Chore::Words(options) => words::run(&options),
        Chore::Deny => deny::run(),
        Chore::Peers => peers::run(),
        Chore::Test(options) => test::run(&options),
        Chore::Unprivileged(options) => unprivileged::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Install(options) => install::run(&options),
        Chore::Uninstall(location) => install::uninstall(&location),
        Chore::Package(options) => package::run(&options),
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
