//! BlkKin's chain: an agent with its forwarder, `blkkin relay` and `blkkin view`.

use super::chain::{Chain, Daemon, Ports};
use crate::bench::agent::Agent;
use crate::bench::recipe::Output;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Running agent and relay with a session. They end on drop.
pub(super) struct Blkkin {
    blkkin: String,
    agent: Agent,
    relay: Daemon,
    ports: Ports,
    _place: Output,
}

const SESSION: &str = "live";
/// Maximum time for the session to be at the relay.
const SESSION_MAX: Duration = Duration::from_secs(10);

impl Blkkin {
    /// Starts the daemons and the session. The relay writes below `place`.
    pub(super) fn start(blkkin: &str, place: Output) -> Result<Blkkin, String> {
        let ports = Ports::free()?;
        let Ports { control, data, live } = ports;
        let mut command = Command::new(blkkin);
        command.arg("relay").arg("--output").arg(place.0.join("relay"));
        for (option, port) in
            [("--control-port", control), ("--data-port", data), ("--live-port", live)]
        {
            command.args([option, &port.to_string()]);
        }
        let relay = Daemon::start(command)?;
        ports.wait()?;
        let agent = Agent::start(blkkin, &place.0)?;
        let url = format!("net://127.0.0.1:{control}:{data}");
        agent.command(&["session", "create", SESSION, "--net", &url])?;
        agent.command(&["event", "enable", "--session", SESSION, "bench:time"])?;
        agent.command(&["session", "start", SESSION])?;
        let chain = Blkkin { blkkin: blkkin.to_owned(), agent, relay, ports, _place: place };
        chain.wait()?;
        Ok(chain)
    }

    /// Waits until the relay has the session, which viewers look for once.
    fn wait(&self) -> Result<(), String> {
        let address = format!("net://127.0.0.1:{}", self.ports.live);
        let start = Instant::now();
        while start.elapsed() < SESSION_MAX {
            let list = Command::new(&self.blkkin).args(["live", "ls", &address]).output();
            if list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains(SESSION)) {
                return Ok(());
            }
            sleep(Duration::from_millis(50));
        }
        Err("the relay does not get the session".to_owned())
    }
}

impl Chain for Blkkin {
    fn daemons(&self) -> Vec<u32> {
        vec![self.agent.id(), self.relay.id()]
    }

    fn view(&self) -> Result<Child, String> {
        let url = self.ports.url(SESSION)?;
        Command::new(&self.blkkin)
            .args(["view", &url])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.blkkin))
    }

    fn program(&self) -> Command {
        self.agent.traced(&crate::bench::blkkin::folder().join("blkkin-bench-paced"))
    }
}
