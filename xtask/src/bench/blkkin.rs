//! Release builds of the programs under measurement: [`build`]. [`count`] returns the number of
//! events in a trace.

use crate::tools::{cargo, target_dir, workspace_root};
use std::env::var_os;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable that names the folder of built programs to measure. If the variable is
/// unset, the bench builds the programs.
const BUILT: &str = "BLKKIN_BENCH_BUILT";

/// Builds `blkkin`, unless [`BUILT`] is set. Returns its path.
pub(super) fn build() -> Result<String, String> {
    build_with(&[])
}

/// Builds `blkkin` and other packages of this workspace, unless [`BUILT`] is set. Returns the path
/// of `blkkin`.
pub(super) fn build_with(packages: &[&str]) -> Result<String, String> {
    if var_os(BUILT).is_none() {
        build_packages(&[&["blkkin"], packages].concat(), &[])?;
    }
    Ok(folder().join("blkkin").to_string_lossy().into_owned())
}

/// Builds packages of this workspace in release mode, with further `options` for cargo.
pub(super) fn build_packages(packages: &[&str], options: &[&str]) -> Result<(), String> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--quiet"]).args(options);
    for package in packages {
        command.args(["--package", package]);
    }
    let status = command
        .current_dir(workspace_root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} does not build", packages.join(", "))),
    }
}

/// Returns the folder that contains the built programs.
pub(super) fn folder() -> PathBuf {
    var_os(BUILT).map_or_else(|| target_dir().join("release"), PathBuf::from)
}

/// Returns the number of events in a trace as `blkkin view --count` prints it, optionally with a
/// filter.
pub(super) fn count(blkkin: &str, trace: &Path, filter: Option<&str>) -> Result<u64, String> {
    let mut command = Command::new(blkkin);
    command.args(["view", "--count"]);
    if let Some(filter) = filter {
        command.args(["--filter", filter]);
    }
    let output =
        command.arg(trace).output().map_err(|error| format!("cannot start {blkkin}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counted = text.split_whitespace().find_map(|word| word.parse().ok());
    counted.filter(|_| output.status.success()).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (text, stderr) = (text.trim(), stderr.trim());
        format!("`blkkin view --count` of {} says `{text}`; {stderr}", trace.display())
    })
}
