//! Relay of a test, ours or LTTng's, with free ports and a directory of its own.

use super::lttng::{Lttng, Session};
use super::node::eventually;
use super::process::{Running, Signal, signal};
use super::{blkkin, run, text};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Relay, which writes its sessions to a directory.
pub struct Relay {
    pub kind: Kind,
    pub child: Child,
    pub directory: PathBuf,
    pub control: u16,
    pub data: u16,
    pub live: u16,
    /// Options of a relay with TLS, and the directory with the credentials of its viewers.
    tls: Option<(Vec<String>, PathBuf)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Lttng,
    Ours,
}

/// Returns three ports that nobody uses at present.
pub fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

impl Relay {
    pub fn start(lttng: &Lttng, kind: Kind) -> Relay {
        Relay::start_in(&lttng.scratch.0, kind)
    }

    /// Starts a relay that writes to a directory below `home`.
    pub fn start_in(home: &Path, kind: Kind) -> Relay {
        Relay::start_on(home.join(format!("{kind:?}")), kind, free_ports(), None)
    }

    /// Starts a relay of ours with TLS. `credentials` are those of its viewers.
    pub fn start_secure(home: &Path, options: &[String], credentials: &Path) -> Relay {
        let tls = Some((options.to_owned(), credentials.to_owned()));
        Relay::start_on(home.join("secure"), Kind::Ours, free_ports(), tls)
    }

    fn start_on(
        directory: PathBuf,
        kind: Kind,
        [control, data, live]: [u16; 3],
        tls: Option<(Vec<String>, PathBuf)>,
    ) -> Relay {
        let mut command = match kind {
            Kind::Lttng => {
                let mut command = Command::new("lttng-relayd");
                command.env("LTTNG_HOME", directory.parent().expect("a home"));
                for (option, port) in [("-C", control), ("-D", data), ("-L", live)] {
                    command.arg(option).arg(format!("tcp://127.0.0.1:{port}"));
                }
                command
            }
            Kind::Ours => {
                let mut command = blkkin(Path::new("/"));
                command.arg("relay");
                let ports =
                    [("--control-port", control), ("--data-port", data), ("--live-port", live)];
                for (option, port) in ports {
                    command.arg(option).arg(port.to_string());
                }
                command.args(tls.iter().flat_map(|(options, _)| options));
                command
            }
        };
        let command = command.arg("--output").arg(&directory);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a relay");
        let relay = Relay { kind, child, directory, control, data, live, tls };
        eventually("the relay answers", || run(&mut relay.ls(&[])).status.success().then_some(()));
        relay
    }

    /// Kills the relay, whatever it is doing.
    pub fn kill(&mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("a child");
    }

    /// Starts a relay on the ports and the directory of a killed one.
    pub fn restart(&mut self) {
        let ports = [self.control, self.data, self.live];
        *self = Relay::start_on(self.directory.clone(), self.kind, ports, self.tls.clone());
    }

    /// Returns the URL for producers.
    pub fn target(&self) -> String {
        format!("{}:{}:{}", self.host(), self.control, self.data)
    }

    pub fn url(&self) -> String {
        format!("{}:{}", self.host(), self.live)
    }

    fn host(&self) -> &'static str {
        match self.tls {
            Some(_) => "nets://localhost",
            None => "net://127.0.0.1",
        }
    }

    pub fn ls(&self, options: &[&str]) -> Command {
        let mut command = blkkin(Path::new("/"));
        if let Some((_, credentials)) = &self.tls {
            command.env("BLKKIN_RELAY_CREDENTIALS", credentials);
        }
        command.args(["live", "ls", &self.url()]).args(options);
        command
    }

    /// Returns the only session of the relay, as `live ls --json` shows it.
    pub fn session(&self) -> Option<serde_json::Value> {
        let output = run(&mut self.ls(&["--json"]));
        assert!(output.status.success(), "{output:?}");
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(list["schema"], "blkkin.live-sessions.v1");
        list["sessions"].as_array().expect("a list").first().cloned()
    }

    pub fn viewers(&self) -> Option<u64> {
        self.session()?["viewers"].as_u64()
    }

    pub fn create<'l>(&self, lttng: &'l Lttng, name: &str, channel: &[&str]) -> Session<'l> {
        let ports = (self.control, self.data);
        let session = lttng.live_session(name, &self.directory, ports, channel);
        eventually("the relay has the session", || self.session());
        session
    }

    /// Starts a command on the session's URL, and waits until the relay has one more viewer.
    pub fn view(&self, words: &[&str]) -> Running {
        let session = self.session().expect("a session");
        let url = session["url"].as_str().expect("a URL");
        let mut command = blkkin(Path::new("/"));
        let running = Running::start(command.args(words).arg(url));
        eventually("the relay has a viewer", || self.viewers().filter(|count| *count > 0));
        running
    }

    /// Returns babeltrace2's lines for what the relay has on its disk.
    pub fn recorded(&self) -> Vec<String> {
        let mut command = Command::new("babeltrace2");
        let output = run(command.env("TZ", "UTC").arg("--no-delta").arg(&self.directory));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.child.id(), Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
