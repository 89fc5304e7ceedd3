//! `blkkin session hook`, and its start in the background.

use crate::exit::{Error, Exit};
use crate::hook;
use crate::output::own_program;
use blkkin_control::Request;
use blkkin_control::address::VARIABLE;
use std::process::{Command, Stdio};

/// Runs the command of a session for each closed chunk, until the session is destroyed.
pub(super) fn run(session: &str) -> Result<Exit, Error> {
    // Otherwise the closing of the terminal in which the session was created would end this
    // process. Fails, and is not needed, if a shell has started this process in a group of its own.
    let _ = rustix::process::setsid();
    hook::run(&blkkin_client::addresses(), session)?;
    Ok(Exit::Ok)
}

/// Starts this program in the background as `session hook`, if a session that was divided by
/// `request` has a command. `agent` is the path of the agent's socket.
pub(super) fn start_if_needed(request: &Request, agent: &str) -> Result<(), Error> {
    let Request::DivideSession(divided) = request else { return Ok(()) };
    if divided.rotation.hook.is_none() {
        return Ok(());
    }
    let start = || {
        Command::new(own_program()?)
            .args(["session", "hook", "--", &divided.session])
            .env(VARIABLE, agent)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    start().map(drop).map_err(|error| {
        let what = format!("the command for chunks cannot be run: {error}");
        Error::failed(what).hint(format!("start `blkkin session hook {}`", divided.session))
    })
}
