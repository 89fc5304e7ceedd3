//! Time of a clean build, and size of the stripped program. Start at [`run`].

use super::state::{Bench, clear};
use crate::bench::goal::Goal;
use crate::measure::{show_bytes, show_duration};
use crate::tools::{at, cargo, workspace_root};
use serde_json::json;
use std::fs;
use std::process::Command;
use std::time::Instant;

const MINUTES_MAX: f64 = 12.0;
const MB_MAX: f64 = 80.0;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    let target = bench.room("cold")?;
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
    let start = Instant::now();
    let status = build.current_dir(workspace_root()).status();
    let elapsed = start.elapsed();
    if !status.map_err(|error| format!("cannot start cargo: {error}"))?.success() {
        return Err("the product does not build".to_owned());
    }
    let (built, stripped) = (target.join("release/blkkin"), target.join("stripped"));
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(&built).status();
    let is_stripped = status.is_ok_and(|status| status.success());
    let bytes = match is_stripped {
        true => Some(fs::metadata(&stripped).map_err(at(&stripped))?.len()),
        false => None,
    };
    clear(&target)?;
    bench.report.say(format!(
        "built from nothing in {}, {} stripped",
        show_duration(elapsed),
        bytes.map_or_else(|| "not".to_owned(), show_bytes)
    ));
    let seconds = elapsed.as_secs_f64();
    bench.report.row(json!({"table": "build", "seconds": seconds, "stripped_bytes": bytes}));
    let goal = Goal::at_most(MINUTES_MAX, " min", "building the product from nothing");
    bench.report.goal(goal.measured(Some(seconds / 60.0)));
    let goal = Goal::at_most(MB_MAX, " MB", "the product, stripped");
    bench.report.goal(goal.measured(bytes.map(|bytes| bytes as f64 / 1e6)));
    Ok(())
}
