//! Access to the kernel's tracefs for peers: in a mount namespace of the peer for programs that
//! look for it at its usual place, and as a private mount for the bench. Start at [`command`] and
//! [`Mount`].

use crate::tools::at;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Usual places of tracefs.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Shell script that mounts tracefs at its usual place, and becomes the given command.
const SCRIPT: &str = r#"mount -t tracefs tracefs /sys/kernel/tracing && exec "$@""#;

/// Returns a command for a program that needs tracefs at its usual place. If tracefs is not
/// mounted there, the program gets a mount namespace in which it is, so that no mount outlives it.
pub(super) fn command(program: &str) -> Command {
    if USUAL.iter().any(|path| is_mounted(Path::new(path))) {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", program]);
    command
}

/// tracefs, mounted in a folder, and unmounted on drop.
pub(super) struct Mount {
    pub(super) path: PathBuf,
}

impl Mount {
    /// Mounts tracefs at `path`, or reuses the mount of a bench that was killed.
    pub(super) fn new(path: PathBuf) -> Result<Mount, String> {
        fs::create_dir_all(&path).map_err(at(&path))?;
        if !is_mounted(&path) {
            run(Command::new("mount").args(["-t", "tracefs", "tracefs"]).arg(&path))?;
        }
        Ok(Mount { path })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if run(Command::new("umount").arg(&self.path)).is_ok() {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    path.join("trace_clock").exists()
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
