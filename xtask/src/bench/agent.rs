//! A running agent of the bench with a socket of its own. The bench controls it by the commands
//! that users have. Start at [`Agent::session`].

use super::recipe::{Control, Recipe, Session};
use crate::process::end;
use crate::tools::at;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that the agent has to start listening.
const START_MAX: Duration = Duration::from_secs(10);

/// Maximum time that a program waits for the agent before its `main`, in milliseconds.
const WAIT_MS: &str = "2000";

/// An agent process, which ends on drop.
pub(super) struct Agent {
    child: Child,
    blkkin: String,
    socket: PathBuf,
    /// File with the agent's log.
    log: PathBuf,
}

impl Agent {
    /// Starts an agent with its socket in `folder`.
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

    /// Returns the agent's process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the text of the agent's log so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    /// Returns a command for a program that this agent traces. The program waits for the agent
    /// before `main`.
    pub(super) fn traced(&self, program: &Path) -> Command {
        let mut command = self.known_to(program);
        command.env("BLKKIN_WAIT", WAIT_MS);
        command
    }

    /// Returns a command for a program that can connect to this agent only.
    fn known_to(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // With cargo's library path, the program would load the library of the last `cargo build`.
        command.env("BLKKIN_SOCKET", &self.socket).env_remove("LD_LIBRARY_PATH");
        for variable in ["BLKKIN_DISABLE", "BLKKIN_SAMPLE", "BLKKIN_WAIT"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs `blkkin` with these arguments as a command to this agent.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<(), String> {
        let output = self
            .known_to(Path::new(&self.blkkin))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.blkkin))?;
        // Lost events are a result of a bench, not a failure.
        if output.status.success() || output.status.code() == Some(EVENTS_LOST) {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (stderr, log) = (stderr.trim(), self.log());
        Err(format!("blkkin {}: {stderr}; the agent says: {log}", arguments.join(" ")))
    }

    /// Makes and starts a session with the recipe's channel and event.
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
    fn execute(&self, what: &str) -> Result<(), String> {
        self.command(&["session", what, NAME])
    }
}

/// Exit status of `blkkin` after success with lost events.
const EVENTS_LOST: i32 = 3;
/// Name of the session that [`Agent::session`] creates.
const NAME: &str = "bench";

impl Drop for Agent {
    fn drop(&mut self) {
        // Unlike a kill, this lets the agent remove its socket.
        end(&mut self.child);
    }
}
