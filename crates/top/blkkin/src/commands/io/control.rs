//! Socket of a running `blkkin io`, by which `blkkin io apps` reads and changes its list of
//! programs. A request is a line of JSON, `{"add": ["dd"]}` for instance; so is the answer.

use super::choice::Choice;
use super::control_socket::{LINE_SIZE_MAX, PATIENCE, folder};
use super::recording::Handle;
use crate::exit::Error;
use blkkin_sys::socket::Socket;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Pause after a failed accept, for lack of descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// Server on the socket, which is removed on drop.
pub(super) struct Server {
    path: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Server {
    /// Starts the server on a thread, which ends with the process.
    pub(super) fn start(handle: Handle, apps: BTreeSet<String>) -> Result<Server, Error> {
        let folder = folder();
        let path = folder.join(format!("{}.sock", std::process::id()));
        let failed = |error: io::Error| {
            Error::failed(format!("cannot listen on `{}`: {error}", path.display()))
        };
        // The folder above is also that of the agent's socket, which other users' programs need.
        let above = folder.parent().unwrap_or(&folder);
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        // A process with this id has ended without removing its socket.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let mut list = List { handle, apps };
        let serve = move || {
            for peer in listener.incoming() {
                let Ok(peer) = peer else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                // The command at the other end reports a broken connection itself.
                let _ = list.serve(peer);
            }
        };
        std::thread::Builder::new()
            .name("blkkin-control".to_owned())
            .spawn(serve)
            .map_err(failed)?;
        Ok(Server { path })
    }
}

/// List of programs, and the way to change it.
struct List {
    handle: Handle,
    apps: BTreeSet<String>,
}

impl List {
    /// Answers the request of one peer. Peers are answered one after the other.
    fn serve(&mut self, peer: UnixStream) -> io::Result<()> {
        peer.set_read_timeout(Some(PATIENCE))?;
        peer.set_write_timeout(Some(PATIENCE))?;
        let socket = Socket::from(OwnedFd::from(peer.try_clone()?));
        let uid = socket.peer()?.uid;
        if uid != 0 && uid != blkkin_sys::user_id() {
            return writeln!(
                &peer,
                "{}",
                json!({"error": "not permitted: another user's recording"})
            );
        }
        let mut line = String::new();
        BufReader::new((&peer).take(LINE_SIZE_MAX)).read_line(&mut line)?;
        let answer = match self.carry_out(&line) {
            Ok(()) => json!({"pid": std::process::id(), "apps": self.apps}),
            Err(error) => json!({"error": error}),
        };
        writeln!(&peer, "{answer}")
    }

    fn carry_out(&mut self, line: &str) -> Result<(), String> {
        let request: Value =
            serde_json::from_str(line).map_err(|error| format!("not a request: {error}"))?;
        let names = |key: &str| -> Result<Option<BTreeSet<String>>, String> {
            let Some(list) = request.get(key) else { return Ok(None) };
            let wrong = || format!("`{key}` is not a list of names");
            let list = list.as_array().ok_or_else(wrong)?;
            let name = |name: &Value| name.as_str().map(str::to_owned).ok_or_else(wrong);
            list.iter().map(name).collect::<Result<_, _>>().map(Some)
        };
        let mut apps = self.apps.clone();
        if let Some(set) = names("set")? {
            apps = set;
        }
        if let Some(added) = names("add")? {
            apps.extend(added);
        }
        if let Some(removed) = names("remove")? {
            apps.retain(|name| !removed.contains(name));
        }
        if apps != self.apps {
            self.handle.choose(Choice::Names(apps.clone()))?;
            self.apps = apps;
        }
        Ok(())
    }
}
