//! Splits built files into stripped copies, which users run, and debug symbols, which gdb, perf and
//! backtraces find by the copy's debug link or build id.

use crate::tools::at;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Subfolder of the build folder with the stripped copies and their debug symbols.
const FOLDER: &str = "stripped";
/// Program that splits the files, from the package binutils.
const OBJCOPY: &str = "objcopy";

/// Returns true if this machine can split files.
pub(crate) fn can_split() -> bool {
    crate::peers::in_path(OBJCOPY)
}

/// Returns the name of the file with the debug symbols of a built file.
pub(crate) fn debug_name(name: &str) -> String {
    format!("{name}.debug")
}

/// Returns the path of a built file's debug symbols, which [`split`] writes.
pub(crate) fn debug_file(built: &Path, name: &str) -> PathBuf {
    built.join(FOLDER).join(debug_name(name))
}

/// Returns the path of a built file's stripped copy; `None` if the copy is missing or older.
pub(crate) fn stripped_file(built: &Path, name: &str) -> Option<PathBuf> {
    let (whole, stripped) = (built.join(name), built.join(FOLDER).join(name));
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    match (modified(&whole), modified(&stripped)) {
        (Ok(whole), Ok(copy)) if copy >= whole => Some(stripped),
        _ => None,
    }
}

/// Writes the stripped copies of built files, and the debug symbols of programs and shared
/// libraries. A static library keeps the symbols that linkers need, and its debug information is
/// not saved: linkers cannot use a separate file.
pub(crate) fn split(built: &Path, names: &[&str]) -> Result<(), String> {
    let folder = built.join(FOLDER);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    for name in names {
        let (whole, stripped) = (built.join(name), folder.join(name));
        if name.ends_with(".a") {
            objcopy(&["--strip-debug", "--enable-deterministic-archives"], &whole, &stripped)?;
            continue;
        }
        let debug = folder.join(debug_name(name));
        objcopy(&["--only-keep-debug"], &whole, &debug)?;
        let link = format!("--add-gnu-debuglink={}", debug.display());
        objcopy(&["--strip-all", "--remove-section=.comment", &link], &whole, &stripped)?;
    }
    Ok(())
}

fn objcopy(options: &[&str], input: &Path, output: &Path) -> Result<(), String> {
    let mut command = Command::new(OBJCOPY);
    command.args(options).arg(input).arg(output);
    let status = command.status().map_err(|error| {
        format!("cannot start {OBJCOPY}: {error}; install the package binutils")
    })?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::{can_split, debug_file, split, stripped_file};
    use blkkin_sys::testing::{Scratch, skip};
    use std::fs;
    use std::path::Path;

    /// The stripped copy of a program is smaller and names its debug symbols, which are at the
    /// expected path.
    #[test]
    fn a_program_is_split() {
        if !can_split() {
            return skip("symbols", "objcopy is not installed");
        }
        let scratch = Scratch::new("symbols-split");
        let own = std::env::current_exe().expect("own path");
        fs::copy(own, scratch.0.join("program")).expect("to copy");
        assert_eq!(stripped_file(&scratch.0, "program"), None);
        split(&scratch.0, &["program"]).expect("to split");
        let size = |path: &Path| fs::metadata(path).expect("a file").len();
        let stripped = stripped_file(&scratch.0, "program").expect("a copy");
        assert!(size(&stripped) < size(&scratch.0.join("program")));
        assert!(size(&debug_file(&scratch.0, "program")) > 0);
        let copy = fs::read(&stripped).expect("the copy");
        assert!(copy.windows(13).any(|window| window == b"program.debug"));
        // A later build makes the copy outdated.
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        let built = fs::File::options().append(true).open(scratch.0.join("program"));
        built.expect("the program").set_modified(later).expect("to set the time");
        assert_eq!(stripped_file(&scratch.0, "program"), None);
    }
}
