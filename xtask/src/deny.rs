//! `cargo xtask deny`: checks dependencies with cargo-deny, by the rules in `deny.toml`: known
//! faults and yanked versions, duplicates, licences, and sources.
//!
//! Without cargo-deny or the database of known faults, a line says what was not checked. Neither is
//! an error, in CI too: building the tool takes minutes, and the database needs a network.

use crate::tools::{Outcome, cargo, workspace_root};
use std::process::{Command, ExitCode, Stdio};

/// Manifests whose lock files are checked, with options. The crates of `fuzz` are a workspace of
/// their own, to which most of the accepted duplicates do not apply.
const MANIFESTS: [(&str, &[&str]); 2] = [
    ("Cargo.toml", &[]),
    ("fuzz/Cargo.toml", &["--allow", "unmatched-skip", "--allow", "unnecessary-skip"]),
];

/// Checks that need no network.
const OFFLINE_CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

pub(crate) fn run() -> Outcome {
    let version = deny("Cargo.toml", &["--version"]).output();
    if !version.map_err(|error| format!("cannot start cargo: {error}"))?.status.success() {
        println!("deny: skipped, cargo-deny is missing; `cargo install --locked cargo-deny`");
        return Ok(ExitCode::SUCCESS);
    }
    let mut checks = OFFLINE_CHECKS.to_vec();
    match fetch()? {
        None => checks.insert(0, "advisories"),
        Some(why) => println!("deny: known faults and yanked versions are not checked: {why}"),
    }
    let mut all_passed = true;
    for (manifest, options) in MANIFESTS {
        println!("deny: {manifest}: {}", checks.join(", "));
        let start = ["check", "--hide-inclusion-graph"];
        let status = deny(manifest, &[&start, options, &checks].concat()).status();
        all_passed &= status.map_err(|error| format!("cannot start cargo: {error}"))?.success();
    }
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fetches the database of known faults, a git repository. Returns the reason if that fails.
fn fetch() -> Result<Option<String>, String> {
    let mut command = deny("Cargo.toml", &["fetch", "db"]);
    // Nobody answers git's questions here.
    let output = command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok((!output.status.success()).then(|| reason(&String::from_utf8_lossy(&output.stderr))))
}

/// Returns the reason in the output of cargo-deny: git's error, or else its own first line.
fn reason(errors: &str) -> String {
    let of_git = errors.lines().find_map(|line| line.strip_prefix("fatal: "));
    let own = || {
        errors.lines().next().map(|line| line.split_once("[ERROR] ").map_or(line, |(_, own)| own))
    };
    of_git.or_else(own).unwrap_or("the database cannot be fetched").to_owned()
}

fn deny(manifest: &str, arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.current_dir(workspace_root());
    command.args(["deny", "--locked", "--manifest-path", manifest, "--config", "deny.toml"]);
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn reasons() {
        let git = "2026-11-25 17:08:19 [ERROR] failed to fetch database: failed to clone: [..]\n\
                   Cloning into 'db'...\n\
                   fatal: unable to access 'https://example.org/': Could not resolve host\n";
        assert_eq!(reason(git), "unable to access 'https://example.org/': Could not resolve host");
        assert_eq!(reason("2026-11-25 17:08:19 [ERROR] no space left\n"), "no space left");
        assert_eq!(reason(""), "the database cannot be fetched");
    }
}
