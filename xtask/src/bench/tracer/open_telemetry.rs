//! Rival of our layer for the tracing crate: tracing-opentelemetry. It has no exporter, so its
//! spans are discarded.

use super::candidate::{Delivery, Run, Tracer};
use super::case::{Case, Kind};
use super::program;
use crate::tools::{cargo, target_dir, workspace_root};
use std::path::PathBuf;
use std::process::Command;

/// Name of the candidate with the default configuration.
pub(super) const OPEN_TELEMETRY: &str = "OpenTelemetry";
/// Name of the candidate without additional attributes.
const BARE: &str = "OpenTelemetry, bare";

/// tracing-opentelemetry as a tracer. `program` is the path of a program that can also use our
/// layer.
pub(super) struct OpenTelemetry {
    pub(super) program: PathBuf,
    pub(super) is_bare: bool,
}

/// Builds the program, which is not part of this workspace. Returns its path.
pub(super) fn build() -> Result<PathBuf, String> {
    let target = target_dir().join("bench/layer");
    // Without `--locked`: the lock file also contains the dependencies of our own crates, and is
    // updated here.
    let status = cargo()
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(workspace_root().join("benches/tracer/layer/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(target.join("release/blkkin-bench-layer")),
        false => Err("benches/tracer/layer does not build".to_owned()),
    }
}

impl Tracer for OpenTelemetry {
    fn name(&self) -> &'static str {
        if self.is_bare { BARE } else { OPEN_TELEMETRY }
    }

    fn records(&self, kind: &Kind) -> bool {
        kind.name == "tracing-span"
    }

    fn run(&self, case: &Case) -> Result<Run, String> {
        let mut command = Command::new(&self.program);
        command.env("BLKKIN_DISABLE", "1");
        let kind = if self.is_bare { "opentelemetry-bare" } else { "opentelemetry-span" };
        let cost = program::run_as(&mut command, kind, case, 0)?;
        Ok(Run { cost, delivery: Delivery::default() })
    }
}
