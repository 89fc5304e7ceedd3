//! Actions of a trigger.

use super::options::Add;
use super::schedule::Cause;
use super::source;
use crate::conversation::written_paths;
use crate::shell;
use blkkin_client::Client;
use blkkin_control::{Request, Snapshot};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Result of the actions.
#[derive(Debug, Default)]
pub(super) struct Acted {
    pub(super) snapshot: Option<PathBuf>,
    /// Reasons why actions have failed.
    pub(super) failures: Vec<String>,
}

/// Time limit for an answer of the agent. A snapshot of large rings takes seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Takes all actions. One that fails does not prevent the others.
pub(super) fn act(agent: &str, add: &Add, cause: &Cause, directory: &Path) -> Acted {
    let mut acted = Acted::default();
    let actions = &add.actions;
    let requests = [
        (&actions.snapshot, Action::Snapshot),
        (&actions.start, Action::Start),
        (&actions.stop, Action::Stop),
        (&actions.rotate, Action::Rotate),
    ];
    let mut client = None;
    for (session, action) in requests {
        let Some(session) = session else { continue };
        match request(&mut client, agent, action.request(session.clone())) {
            Ok(written) if action == Action::Snapshot => acted.snapshot = written,
            Ok(_) => {}
            Err(error) => acted.failures.push(error),
        }
    }
    if let Some(command) = &actions.run {
        let mut shell = shell::command(command, "blkkin-trigger");
        let snapshot = acted.snapshot.as_deref().unwrap_or(Path::new(""));
        shell.arg(snapshot).env("BLKKIN_SNAPSHOT", snapshot).env("BLKKIN_TRIGGER", &add.name);
        shell.env("BLKKIN_EVENT", &cause.text).env("BLKKIN_EVENTS", cause.events.to_string());
        shell.current_dir(directory);
        if let Err(why) = shell::run(shell, Duration::from_millis(actions.run_timeout)) {
            acted.failures.push(format!("the command {why}"));
        }
    }
    acted
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Snapshot,
    Start,
    Stop,
    Rotate,
}

impl Action {
    fn request(self, session: String) -> Request {
        match self {
            Action::Snapshot => Request::Snapshot(Snapshot { session, output: None }),
            Action::Start => Request::StartSession(session),
            Action::Stop => Request::StopSession(session),
            Action::Rotate => Request::RotateSession(session),
        }
    }
}

fn request(
    client: &mut Option<Client>,
    agent: &str,
    request: Request,
) -> Result<Option<PathBuf>, String> {
    let client = match client {
        Some(client) => client,
        none => none.insert(source::connect(agent, PATIENCE).map_err(|error| error.to_string())?),
    };
    let replies = client.request_all(&request).map_err(|error| error.to_string())?;
    Ok(written_paths(replies).into_iter().next())
}
