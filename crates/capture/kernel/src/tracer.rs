//! The tracer of the kernel: a program that records events of the kernel for an agent, with rights
//! that the agent does not have. The agent sends it channels and rules as to any program. The
//! tracer makes the rings of a channel in the memory of an eBPF map, and the agent reads them.
//!
//! `machine` has the kernel's events, `plan` selects probes by the rules, `redactions` checks the
//! rules' redactions, `channel` attaches the probes, `state` records the machine's state at the
//! start, `catalog` describes the events, and `connection` speaks to the agent. `guard` measures
//! what the probes cost, `overload` decides which cost too much, and `detachment` describes those
//! that were detached.

mod catalog;
mod channel;
mod connection;
mod detachment;
mod guard;
mod machine;
mod overload;
mod plan;
mod redactions;
mod state;

pub(crate) use plan::needs_explicit_pattern;

use crate::cpu_share::CpuShare;
use connection::Connection;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Maximum length of the path of an agent's socket.
const PATH_SIZE_MAX: usize = 4096;

/// Waits until the agent writes the path of its socket, with a NUL at its end, to the pipe `start`;
/// then records for this agent until it closes the pipe or the connection. If all probes together
/// take more processor time than `budget`, the costliest are detached, and the agent is told.
/// `log` writes a line to the log.
pub fn trace_for_agent(start: OwnedFd, budget: CpuShare, log: fn(&str)) -> io::Result<()> {
    let mut start = std::fs::File::from(start);
    let Some(path) = read_path(&mut start)? else { return Ok(()) };
    let mut connection = Connection::open(&path, budget, log)?;
    connection.serve(start.as_fd())
}

/// Reads a path up to its NUL; `None` if the pipe was closed before.
fn read_path(from: &mut impl Read) -> io::Result<Option<PathBuf>> {
    let mut path = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == [0] => return Ok(Some(PathBuf::from(OsString::from_vec(path)))),
            Ok(_) if path.len() < PATH_SIZE_MAX => path.push(byte[0]),
            Ok(_) => return Err(io::Error::other("the path of the agent's socket is too long")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_path_ends_with_a_nul() {
        let mut bytes = &b"/run/agent.sock\0more"[..];
        let path = read_path(&mut bytes).unwrap();
        assert_eq!(path.as_deref(), Some(Path::new("/run/agent.sock")));
        assert_eq!(read_path(&mut &b"/run"[..]).unwrap(), None);
        assert!(read_path(&mut &[b'x'; 5000][..]).is_err());
    }
}
