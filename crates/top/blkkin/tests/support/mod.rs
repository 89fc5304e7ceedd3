//! Shared helpers of the tests: running commands, agents, servers and traced programs, writing
//! traces, and skipping tests that this machine cannot run.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod agent;
pub mod corpus;
pub mod growing_trace;
pub mod hostile;
pub mod lttng;
pub mod node;
pub mod process;
pub mod recipe;
pub mod relay;
pub mod server;
#[path = "../../../../carry/client/tests/support/mod.rs"]
pub mod stand_in;

#[allow(unused_imports, reason = "not each test needs all of it")]
pub use blkkin_sys::testing::{Scratch, is_installed, skip};

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns a command that runs `blkkin` in `directory`, with times in UTC.
pub fn blkkin(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    command.current_dir(directory).env("TZ", "UTC").env_remove("NO_COLOR");
    command
}

/// Returns a shell command that sets a limit with `ulimit` and then runs `command`.
pub fn with_limit(limit: &str, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\""));
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    copy_environment(command, &mut limited);
    limited
}

/// Gives a command the changes of another one's environment.
pub fn copy_environment(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// Copies the program to where each user can run it; `None` if this user cannot become another one.
pub fn copy_for_nobody(scratch: &Scratch) -> Option<PathBuf> {
    if blkkin_sys::user_id() != 0 || !is_installed("setpriv") {
        return None;
    }
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&scratch.0, open).expect("to set permissions");
    let program = scratch.0.join("blkkin");
    // Copied by another process: a child started meanwhile by another thread would inherit the file
    // open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_blkkin")).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()));
    Some(program)
}

/// Returns a command that runs a program as the user nobody.
pub fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command.env_remove("XDG_RUNTIME_DIR").env("TZ", "UTC");
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command with `input` on its standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut pipe = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The command may end before it has read all input.
            let _ = pipe.write_all(input);
        });
        child.wait_with_output().expect("the command to end")
    })
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the size of the files below a directory, in bytes. Files may disappear meanwhile.
pub fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |data| data.len()),
    });
    sizes.sum()
}
