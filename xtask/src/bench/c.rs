//! Compilation of the C programs of benches. Start at [`compile`].

use crate::tools::workspace_root;
use std::path::Path;
use std::process::Command;

/// Source files and compiler options of a C program.
pub(super) struct Source<'a> {
    /// Include folders, relative to `benches` or absolute.
    pub(super) folders: &'a [&'a Path],
    /// Source files, relative to `benches`.
    pub(super) files: &'a [&'a str],
    /// Options for the linker, such as `-lpthread`.
    pub(super) libraries: &'a [&'a str],
}

/// Compiles `source` to `program`.
pub(super) fn compile(program: &Path, source: &Source<'_>) -> Result<(), String> {
    let benches = workspace_root().join("benches");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall"]);
    for folder in source.folders {
        gcc.arg("-I").arg(benches.join(folder));
    }
    gcc.arg("-o").arg(program);
    gcc.args(source.files.iter().map(|file| benches.join(file)));
    let status = gcc
        .args(source.libraries)
        .status()
        .map_err(|error| format!("cannot start gcc: {error}; try `cargo xtask peers`"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("gcc cannot build {}; try `cargo xtask peers`", source.files.join(", ")))
    }
}
