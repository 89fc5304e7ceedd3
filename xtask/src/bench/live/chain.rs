//! The parts that each tracer provides: daemons, a live session at a relay, and its viewer.

use crate::process::end;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Daemons of a tracer with a live session that records `bench:time`.
pub(super) trait Chain {
    /// Returns the ids of the daemons' processes. Their children count as daemons, too.
    fn daemons(&self) -> Vec<u32>;

    /// Starts a viewer of the session, which prints each event as a line with the field `ns`.
    fn view(&self) -> Result<Child, String>;

    /// Returns a command for a traced program: `time RATE SECONDS 1` are its arguments.
    fn program(&self) -> Command;
}

/// A daemon, which ends on drop.
pub(super) struct Daemon(Child);

impl Daemon {
    pub(super) fn start(mut command: Command) -> Result<Daemon, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        child.map(Daemon).map_err(|error| format!("cannot start {command:?}: {error}"))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Ports of a relay.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) control: u16,
    pub(super) data: u16,
    pub(super) live: u16,
}

/// Maximum time for a relay to listen.
const START_MAX: Duration = Duration::from_secs(10);

impl Ports {
    /// Returns ports that nobody uses at present.
    pub(super) fn free() -> Result<Ports, String> {
        let failed = |error| format!("no free port: {error}");
        let bind = || TcpListener::bind("127.0.0.1:0").map_err(failed);
        let listeners = [bind()?, bind()?, bind()?];
        let port = |listener: &TcpListener| {
            listener.local_addr().map(|address| address.port()).map_err(failed)
        };
        let [control, data, live] = &listeners;
        Ok(Ports { control: port(control)?, data: port(data)?, live: port(live)? })
    }

    /// Returns the URL of a session of this machine, for viewers.
    pub(super) fn url(self, session: &str) -> Result<String, String> {
        let host = nix::unistd::gethostname().map_err(|error| format!("host name: {error}"))?;
        let live = self.live;
        Ok(format!("net://127.0.0.1:{live}/host/{}/{session}", host.to_string_lossy()))
    }

    /// Waits until a relay listens.
    pub(super) fn wait(self) -> Result<(), String> {
        let start = Instant::now();
        while let Err(error) = TcpStream::connect(("127.0.0.1", self.live)) {
            if start.elapsed() > START_MAX {
                return Err(format!("the relay does not listen: {error}"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
