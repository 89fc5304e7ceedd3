//! `cargo xtask ui`: builds the screen, and fails if that is not what is committed in `ui/dist`, or if one of its tests
//! does, which run in a real browser. Users need none of this: cargo builds `ui/dist` in as it is.

use crate::peers::in_path;
use crate::{Outcome, is_ci, workspace_root};
use std::path::Path;
use std::process::{Command, ExitCode};

/// What is run, in order, in `ui`.
const STEPS: [(&str, &[&str]); 5] = [
    ("npm", &["ci", "--no-audit", "--no-fund"]),
    ("npm", &["run", "build"]),
    ("git", &["diff", "--exit-code", "--stat", "--", "dist"]),
    ("npm", &["run", "check"]),
    ("npm", &["test"]),
];

/// The last step, where there is a browser.
const IN_BROWSER: (&str, &[&str]) = ("npm", &["run", "test:browser"]);

pub(crate) fn run() -> Outcome {
    let folder = workspace_root().join("ui");
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

/// Says what is left out; where all must be tested, that is a failure.
fn missing(program: &str, what: &str) -> Outcome {
    println!("ui: {program} is missing: {what}; `cargo xtask peers` brings it where it may");
    Ok(if is_ci() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether a command went well.
fn step(folder: &Path, program: &str, arguments: &[&str]) -> Result<bool, String> {
    println!("ui: {program} {}", arguments.join(" "));
    let status = Command::new(program).args(arguments).current_dir(folder).status();
    let status = status.map_err(|error| format!("cannot start {program}: {error}"))?;
    if !status.success() {
        eprintln!("ui: `{program} {}` failed in ui/", arguments.join(" "));
    }
    Ok(status.success())
}
