//! Helpers of all chores: a result type, folders of the workspace, and commands for cargo.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Result of a chore: an exit code, or a message that reads well after "error: ".
pub(crate) type Outcome = Result<ExitCode, String>;

/// Returns the directory of the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.clone(), PathBuf::from)
}

/// Returns cargo's directory for build products.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(&dir).unwrap_or_else(|_| PathBuf::from(&dir)),
        None => workspace_root().join("target"),
    }
}

/// Returns the command for the cargo that started this program, or for the cargo in the path. Every
/// chore must start cargo this way: `cargo run` describes this package in environment variables,
/// which build scripts watch. An inner cargo that sometimes inherits them recompiles every crate
/// that depends on such a script.
pub(crate) fn cargo() -> Command {
    command(&std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns a command without the variables with which `cargo run` describes this package.
pub(crate) fn command(program: &OsStr) -> Command {
    command_without(program, std::env::vars_os().map(|(name, _)| name))
}

fn command_without(program: &OsStr, variables: impl Iterator<Item = OsString>) -> Command {
    let mut command = Command::new(program);
    for name in variables.filter(|name| describes_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns true for a variable with which `cargo run` describes the package.
fn describes_a_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_")
}

/// Prefixes an error with the path of its file.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Returns true in a CI build, in which no test may be skipped silently.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::{command_without, workspace_root};
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
        let command = command_without(OsStr::new("cargo"), all);
        let changed: Vec<(&OsStr, Option<&OsStr>)> = command.get_envs().collect();
        assert_eq!(changed, removed.map(|name| (OsStr::new(name), None)));
    }

    /// All chores start cargo by [`super::cargo`]. Chores that start cargo differently would
    /// alternately recompile the cryptography package ring, whose build script watches variables of
    /// `cargo run`, and all its dependents.
    #[test]
    fn no_chore_starts_cargo_in_another_way() {
        let mut found = Vec::new();
        look(&workspace_root().join("xtask/src"), &mut found);
        let own = workspace_root().join("xtask/src/tools.rs");
        found.retain(|(file, _)| *file != own);
        assert!(found.is_empty(), "not by `tools::cargo()`: {found:?}");
    }

    /// The first entry of cargo's configuration names the required version of Rust. A cargo that is
    /// too old prints this line instead of an error about an unknown edition.
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
