//! `cargo xtask ui`: builds the web page, and fails if the result differs from the committed
//! `ui/dist`, or if a test of the page's states fails in a real browser. Users need no such build,
//! as cargo includes the committed `ui/dist`. Tests with a running server are part of `cargo xtask
//! test`, which builds the server: [`tests`].

use crate::peers::in_path;
use crate::tools::{Outcome, at, is_ci, workspace_root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const INSTALL: &[&str] = &["ci", "--no-audit", "--no-fund"];

/// Commands to run in the folder `ui`, in order.
const STEPS: [(&str, &[&str]); 5] = [
    ("npm", INSTALL),
    ("npm", &["run", "build"]),
    ("git", &["diff", "--exit-code", "--stat", "--", "dist"]),
    ("npm", &["run", "check"]),
    ("npm", &["test"]),
];

/// Last command of `cargo xtask ui`, which needs a browser.
const IN_BROWSER: (&str, &[&str]) = ("npm", &["run", "test:states"]);

pub(crate) fn run() -> Outcome {
    let folder = folder();
    if !in_path("npm") {
        return missing("npm", "the screen was neither built nor tested");
    }
    for (program, arguments) in STEPS {
        if !step(&folder, program, arguments)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    if !in_path("chromium") {
        return missing("chromium", "the screen was not tested in a browser");
    }
    let (program, arguments) = IN_BROWSER;
    Ok(if step(&folder, program, arguments)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn folder() -> PathBuf {
    workspace_root().join("ui")
}

/// Returns the command for the tests of the page with the real `blkkin server`.
pub(crate) fn tests(blkkin: &Path) -> Result<Command, String> {
    browser()?;
    let mut tests = Command::new("npm");
    tests.arg("--prefix").arg(folder()).args(["run", "test:server"]);
    tests.env("BLKKIN_SERVER", blkkin).env_remove("BLKKIN_URL").env("NO_COLOR", "1");
    Ok(tests)
}

/// Checks that a browser can open pages, after installing the packages that this needs.
pub(crate) fn browser() -> Result<(), String> {
    if let Some(program) = ["node", "npm", "chromium"].into_iter().find(|name| !in_path(name)) {
        return Err(format!("{program} is missing; `cargo xtask peers` brings it where it may"));
    }
    let modified = |name: &str| {
        let path = folder().join(name);
        fs::metadata(&path).and_then(|metadata| metadata.modified()).map_err(at(&path))
    };
    // npm writes its own list at the end of an installation.
    let installed = modified("node_modules/.package-lock.json");
    if installed.is_ok_and(|when| modified("package-lock.json").is_ok_and(|lock| lock <= when)) {
        return Ok(());
    }
    match step(&folder(), "npm", INSTALL)? {
        true => Ok(()),
        false => Err("npm does not bring what opens the browser".to_owned()),
    }
}

/// Reports a missing program and the skipped step; in CI that is a failure.
fn missing(program: &str, what: &str) -> Outcome {
    println!("ui: {program} is missing: {what}; `cargo xtask peers` brings it where it may");
    Ok(if is_ci() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs a command; returns true if it succeeded.
fn step(folder: &Path, program: &str, arguments: &[&str]) -> Result<bool, String> {
    println!("ui: {program} {}", arguments.join(" "));
    let status = Command::new(program).args(arguments).current_dir(folder).status();
    let status = status.map_err(|error| format!("cannot start {program}: {error}"))?;
    if !status.success() {
        eprintln!("ui: `{program} {}` failed in ui/", arguments.join(" "));
    }
    Ok(status.success())
}
