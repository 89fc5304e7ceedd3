//! The real agent with a socket of its own, its sessions, and programs that it traces: all by the commands
//! that users have. Start at [`Agent::session`].

use super::process::end;
use super::recipe::{Control, Recipe, Session};
use crate::at;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the agent may take to listen.
const START_MAX: Duration = Duration::from_secs(10);

/// How long a program waits for the agent before its `main`.
const WAIT_MS: &str = "2000";

/// An agent. It ends when this is dropped.
pub(super) struct Agent {
    child: Child,
    blkkin: String,
    socket: PathBuf,
    /// What it complains of.
    log: PathBuf,
}

impl Agent {
    /// Starts one that has its socket in `folder`.
    pub(super) fn start(blkkin: &str, folder: &Path) -> Result<Agent, String> {
        let (socket, log) = (folder.join("agent.sock"), folder.join("agent.log"));
        let file = File::create(&log).map_err(at(&log))?;
        let child = Command::new(blkkin)
            .arg("agent")
            .arg("--socket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|error| format!("cannot start {blkkin}: {error}"))?;
        let agent = Agent { child, blkkin: blkkin.to_owned(), socket, log };
        let start = Instant::now();
        while UnixStream::connect(&agent.socket).is_err() {
            if start.elapsed() > START_MAX {
                return Err(format!("the agent does not listen; it says: {}", agent.log()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(agent)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    /// A command that finds this agent, and waits for it before `main`.
    pub(super) fn traced(&self, program: &Path) -> Command {
        let mut command = self.known_to(program);
        command.env("BLKKIN_WAIT", WAIT_MS);
        command
    }

    /// A command that this agent and no other is there for.
    fn known_to(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Cargo's path leads to the library of the last `cargo build` first.
        command.env("BLKKIN_SOCKET", &self.socket).env_remove("LD_LIBRARY_PATH");
        for variable in ["BLKKIN_DISABLE", "BLKKIN_SAMPLE", "BLKKIN_WAIT"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs `blkkin` with these arguments.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<(), String> {
        let output = self
            .known_to(Path::new(&self.blkkin))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.blkkin))?;
        // Losses are what benches count; they are no failure.
        if output.status.success() || output.status.code() == Some(EVENTS_LOST) {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (stderr, log) = (stderr.trim(), self.log());
        Err(format!("blkkin {}: {stderr}; the agent says: {log}", arguments.join(" ")))
    }

    /// A session that records, from now on.
    pub(super) fn session(&self, recipe: &Recipe<'_>) -> Result<Session<'_>, String> {
        let output = recipe.output.to_string_lossy();
        let snapshot: &[&str] = if recipe.is_snapshot { &["--snapshot"] } else { &[] };
        let mode = if recipe.is_snapshot { "--overwrite" } else { "--discard" };
        self.command(&[&["session", "create", NAME, "--output", &output], snapshot].concat())?;
        let session = Session(self);
        let channel = ["channel", "create", "bench", "--session", NAME, mode];
        self.command(&[&channel, recipe.channel].concat())?;
        self.command(&["event", "enable", "--session", NAME, recipe.event])?;
        self.command(&["session", "start", NAME])?;
        Ok(session)
    }
}

impl Control for Agent {
    fn tell(&self, what: &str) -> Result<(), String> {
        self.command(&["session", what, NAME])
    }
}

/// Exit status of `blkkin` where all is done and events were lost.
const EVENTS_LOST: i32 = 3;
/// The agent is our own, so there is no other session.
const NAME: &str = "bench";

impl Drop for Agent {
    fn drop(&mut self) {
        // It removes its socket.
        end(&mut self.child);
    }
}
