//! Paths of the agent's sockets. The agent, the commands and the traced programs derive them by the
//! same rule. This module does no I/O: the caller passes its environment and opens the resulting
//! paths.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable with a socket's path. If set, no other socket is used.
pub const VARIABLE: &str = "BLKKIN_SOCKET";
/// Environment variable with the user's runtime directory. The socket of the user's agent is in it.
const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";
/// Path of the socket on which the system's agent listens.
pub const SYSTEM: &str = "/run/blkkin/agent.sock";
/// Path of the socket of a user's agent, relative to the runtime directory.
const RUNTIME_SOCKET: &str = "blkkin/agent.sock";

/// User id and environment variables that determine the sockets of a process.
#[derive(Clone, Debug)]
pub struct SocketEnvironment {
    user_id: u32,
    socket: Option<OsString>,
    runtime_directory: Option<OsString>,
}

impl SocketEnvironment {
    /// Reads the environment variables of a process with the effective user id `user_id`, by
    /// calling `variable` with their names. An empty [`VARIABLE`] counts as unset, and so does a
    /// runtime directory whose path is not absolute.
    pub fn new(
        user_id: u32,
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> SocketEnvironment {
        let (socket, runtime_directory) = (variable(VARIABLE), variable(RUNTIME_VARIABLE));
        SocketEnvironment { user_id, socket, runtime_directory }
    }

    /// Returns the path of the socket on which an agent of this user listens.
    pub fn own(&self) -> PathBuf {
        match self.named() {
            Some(path) => path.to_owned(),
            None if self.user_id == 0 => SYSTEM.into(),
            None => self.runtime().join(RUNTIME_SOCKET),
        }
    }

    /// Returns the socket paths of all agents that may serve this process: first the path of the
    /// user's agent, then that of the system's agent. If [`VARIABLE`] is set, or for root, there is
    /// only one path. Commands use the first socket that answers, traced programs use all of them.
    pub fn candidates(&self) -> Vec<PathBuf> {
        let mut candidates = vec![self.own()];
        if self.named().is_none() && self.user_id != 0 {
            candidates.push(SYSTEM.into());
        }
        candidates
    }

    fn named(&self) -> Option<&Path> {
        self.socket.as_ref().filter(|socket| !socket.is_empty()).map(Path::new)
    }

    fn runtime(&self) -> PathBuf {
        let given = self.runtime_directory.as_ref().map(Path::new);
        let given = given.filter(|path| path.is_absolute());
        given.map_or_else(|| format!("/run/user/{}", self.user_id).into(), Path::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_in_their_order() {
        let check = |socket: Option<&str>, runtime: Option<&str>, user_id, expected: &[&str]| {
            let variable = |name| if name == VARIABLE { socket } else { runtime };
            let surroundings =
                SocketEnvironment::new(user_id, |name| variable(name).map(OsString::from));
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(surroundings.candidates(), expected);
            assert_eq!(surroundings.own(), expected[0]);
        };
        let user = "/run/user/7/blkkin/agent.sock";
        check(None, None, 0, &[SYSTEM]);
        check(None, Some("/run/user/0"), 0, &[SYSTEM]);
        check(None, None, 7, &[user, SYSTEM]);
        check(None, Some("/tmp/r"), 7, &["/tmp/r/blkkin/agent.sock", SYSTEM]);
        check(None, Some(""), 7, &[user, SYSTEM]);
        check(None, Some("r"), 7, &[user, SYSTEM]);
        check(Some(""), None, 7, &[user, SYSTEM]);
        check(Some("/a.sock"), Some("/tmp/r"), 7, &["/a.sock"]);
        check(Some("/a.sock"), None, 0, &["/a.sock"]);
        check(Some("a.sock"), None, 0, &["a.sock"]);
    }
}
