//! Runs the command of a session for each closed chunk, as the user who runs this process. The
//! agent stores the command, but never runs it: it may serve other users, and cannot start
//! programs.

use crate::exit::Error;
use crate::shell;
use blkkin_client::{Client, Timeouts};
use blkkin_control::limits::MESSAGE_SIZE_MAX;
use blkkin_control::{Chunk, Chunks, Hook, HookReport, Reply, Request, code};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two requests for the list of chunks.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for which no agent may answer, for instance while it is restarted.
const ABSENCE_MAX: Duration = Duration::from_secs(600);

/// Runs the commands for the chunks of one session, until the session is destroyed and all its
/// chunks are handled. `sockets` are the addresses of the agent.
pub(crate) fn run(sockets: &[PathBuf], session: &str) -> Result<(), Error> {
    let connect =
        || Client::connect(sockets, "blkkin hook", env!("CARGO_PKG_VERSION"), Timeouts::default());
    let mut client = Some(connect()?);
    let mut runner = Runner { session: session.to_owned(), number: None, done: 0 };
    let mut answered = Instant::now();
    loop {
        let state = match &mut client {
            Some(client) => runner.step(client),
            none => connect().map(|client| {
                *none = Some(client);
                State::Waiting
            }),
        };
        match state {
            Ok(State::Ended) => return Ok(()),
            Ok(State::Waiting) => answered = Instant::now(),
            Err(blkkin_client::Error::Failed { failed, .. })
                if failed.code == code::NO_SUCH_SESSION && runner.number.is_some() =>
            {
                return Ok(());
            }
            Err(error @ blkkin_client::Error::Failed { .. }) => return Err(error.into()),
            // The next agent restores the session.
            Err(_) if answered.elapsed() < ABSENCE_MAX => client = None,
            Err(error) => return Err(error.into()),
        }
        thread::sleep(PAUSE);
    }
}

enum State {
    Waiting,
    /// State after all chunks of a destroyed session were handled.
    Ended,
}

/// Progress with the chunks of a session.
struct Runner {
    session: String,
    /// Number of the session; `None` before the first answer.
    number: Option<u64>,
    /// Number of the last chunk whose command has ended.
    done: u64,
}

impl Runner {
    /// Handles all chunks that are closed by now.
    fn step(&mut self, client: &mut Client) -> Result<State, blkkin_client::Error> {
        let replies = client.request_all(&Request::ListChunks(self.session.clone()))?;
        let mut summary: Option<Chunks> = None;
        let mut chunks = Vec::new();
        for reply in replies {
            match reply {
                Reply::Chunks(one) => summary = Some(one),
                Reply::Chunk(chunk) => chunks.push(chunk),
                _ => {}
            }
        }
        let Some(summary) = summary else { return Ok(State::Ended) };
        let number = *self.number.get_or_insert(summary.number);
        let Some(hook) = summary.rotation.hook.filter(|_| number == summary.number) else {
            // There is another session of that name.
            return Ok(State::Ended);
        };
        let done = self.done;
        let is_due = |chunk: &Chunk| chunk.is_closed && !chunk.is_handled && chunk.sequence > done;
        for chunk in chunks.iter().filter(|chunk| is_due(chunk)) {
            let sequence = chunk.sequence;
            let failure = handle(&hook, &self.session, &chunk.path).err().map(bounded);
            self.done = sequence;
            let session = self.session.clone();
            let report = HookReport { session, number, sequence, failure };
            client.request_all(&Request::ReportHook(report))?;
        }
        let is_complete = summary.is_destroyed && are_handled(&chunks, self.done);
        Ok(if is_complete { State::Ended } else { State::Waiting })
    }
}

/// Returns whether all chunks of a destroyed session are handled; `done` is the number of the last
/// one that this process has handled. The agent closes the last chunk some time after the
/// destruction has begun: once the programs have confirmed it.
fn are_handled(chunks: &[Chunk], done: u64) -> bool {
    chunks.iter().all(|chunk| chunk.is_closed && (chunk.is_handled || chunk.sequence <= done))
}

fn bounded(mut message: String) -> String {
    message.retain(|letter| !letter.is_control() || letter == '\n');
    while message.len() > MESSAGE_SIZE_MAX {
        message.pop();
    }
    message
}

/// Runs the command for a chunk. Returns the reason of its failure.
fn handle(hook: &Hook, session: &str, chunk: &Path) -> Result<(), String> {
    let mut command = shell::command(&hook.command, "blkkin-on-chunk");
    command.arg(chunk);
    command.env("BLKKIN_CHUNK", chunk).env("BLKKIN_SESSION", session);
    if let Some(directory) = chunk.parent() {
        command.current_dir(directory);
    }
    shell::run(command, Duration::from_millis(hook.timeout_ms), &AtomicBool::new(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(command: &str, timeout_ms: u64) -> Hook {
        Hook { command: command.to_owned(), timeout_ms }
    }

    /// The last chunk of a destroyed session is waited for until it is closed and handled.
    #[test]
    fn open_chunks_are_not_left_out() {
        let chunk = |sequence, is_closed, is_handled| {
            let path = PathBuf::from(format!("chunk-{sequence}"));
            Chunk { sequence, path, bytes: 1, is_closed, is_handled }
        };
        assert!(!are_handled(&[chunk(1, true, true), chunk(2, false, false)], 1));
        assert!(!are_handled(&[chunk(1, true, true), chunk(2, true, false)], 1));
        assert!(are_handled(&[chunk(1, true, true), chunk(2, true, false)], 2));
        assert!(are_handled(&[chunk(1, true, true), chunk(2, true, true)], 1));
        assert!(are_handled(&[], 0));
    }

    /// The command gets the chunk as its argument and in a variable, and runs beside it.
    #[test]
    fn commands_get_the_chunk() {
        let directory = tempfile::tempdir().unwrap();
        let chunk = directory.path().join("a chunk");
        std::fs::create_dir(&chunk).unwrap();
        let command = r#"test "$1" = "$BLKKIN_CHUNK" && mv "$1" "done $BLKKIN_SESSION""#;
        handle(&hook(command, 60_000), "web", &chunk).unwrap();
        assert!(!chunk.exists() && directory.path().join("done web").exists());
    }

    #[test]
    fn failures_tell_status_and_messages() {
        let directory = tempfile::tempdir().unwrap();
        let chunk = directory.path().join("chunk");
        let failure = handle(&hook("echo no room >&2; exit 3", 60_000), "s", &chunk).unwrap_err();
        assert_eq!(failure, "exit status: 3: no room");
        // More messages than a pipe holds do not block the command.
        let command = "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 4";
        let failure = handle(&hook(command, 60_000), "s", &chunk).unwrap_err();
        assert!(failure.starts_with("exit status: 4: xxx") && failure.len() < 2000, "{failure}");
    }

    /// A command that takes too long is ended with the processes that it has started, even if it
    /// ignores SIGTERM.
    #[test]
    fn commands_are_ended_at_their_time_limit() {
        let directory = tempfile::tempdir().unwrap();
        let chunk = directory.path().join("chunk");
        let mark = directory.path().join("mark");
        let command = format!("trap '' TERM; (sleep 4; touch '{}') & sleep 60", mark.display());
        let begun = Instant::now();
        let failure = handle(&hook(&command, 200), "s", &chunk).unwrap_err();
        assert_eq!(failure, "was ended after 200ms");
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(4500).saturating_sub(begun.elapsed()));
        assert!(!mark.exists(), "a process of the command still runs");
    }
}
