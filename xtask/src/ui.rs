//! `cargo xtask ui`: builds the web page, and fails if the result differs from the committed
//! `ui/dist`, or if a test of the page's states fails in a real browser. Users need no such build,
//! as cargo includes the committed `ui/dist`. Tests with a running server are part of `cargo xtask
//! test`, which builds the server: [`tests`].

use crate::peers::{BROWSERS, in_path};
use crate::tools::{Outcome, at, is_ci, target_dir, workspace_root};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const INSTALL: &[&str] = &["ci", "--no-audit", "--no-fund"];

/// Commands to run in the folder `ui` after the page is built, in order.
const STEPS: [(&str, &[&str]); 3] = [
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
    if !build(&folder)? {
        return Ok(ExitCode::FAILURE);
    }
    for (program, arguments) in STEPS {
        if !step(&folder, program, arguments)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    if !BROWSERS.into_iter().any(in_path) {
        return missing("chromium-headless-shell", "the screen was not tested in a browser");
    }
    let (program, arguments) = IN_BROWSER;
    Ok(if step(&folder, program, arguments)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the page, and writes the files that differ to `dist`. Unchanged files keep their times,
/// so that cargo does not compile the server again.
fn build(folder: &Path) -> Result<bool, String> {
    let built = target_dir().join("ui");
    let built_text = built.to_string_lossy();
    let arguments = ["run", "build", "--", "--emptyOutDir", "--outDir", &*built_text];
    if !(step(folder, "npm", INSTALL)? && step(folder, "npm", &arguments)?) {
        return Ok(false);
    }
    let dist = folder.join("dist");
    for name in file_names(&dist)?.difference(&file_names(&built)?) {
        fs::remove_file(dist.join(name)).map_err(at(&dist))?;
    }
    for name in file_names(&built)? {
        let bytes = fs::read(built.join(&name)).map_err(at(&built))?;
        let path = dist.join(name);
        if fs::read(&path).ok().as_ref() != Some(&bytes) {
            fs::write(&path, bytes).map_err(at(&path))?;
        }
    }
    Ok(true)
}

/// Returns the names of the files in a folder that has no folders.
fn file_names(folder: &Path) -> Result<BTreeSet<OsString>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries.map(|entry| Ok(entry.map_err(at(folder))?.file_name())).collect()
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
    let browser = BROWSERS.into_iter().find(|name| in_path(name)).unwrap_or(BROWSERS[0]);
    if let Some(program) = ["node", "npm", browser].into_iter().find(|name| !in_path(name)) {
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
