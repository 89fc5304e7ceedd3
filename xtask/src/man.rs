//! `cargo xtask man`: writes the manual's pages in `docs/man`. A test of the program generates
//! them; see `crates/top/blkkin/src/man.rs`.

use crate::tools::{Outcome, cargo, workspace_root};
use std::process::ExitCode;

pub(crate) fn run() -> Outcome {
    let status = cargo()
        .current_dir(workspace_root())
        .args(["test", "--quiet", "--locked", "--package=blkkin", "--bin=blkkin"])
        .args(["man::pages_say_what_help_says", "--", "--exact"])
        .env("BLKKIN_WRITE_MAN", "1")
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
