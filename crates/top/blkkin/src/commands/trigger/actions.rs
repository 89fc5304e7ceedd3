//! Actions of a trigger.

use super::files::TriggerFiles;
use super::options::Add;
use super::requests::RequestSender;
use super::schedule::Cause;
use super::source;
use crate::conversation::written_paths;
use crate::shell;
use blkkin_client::Client;
use blkkin_control::{Request, Snapshot};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Result of the actions.
#[derive(Debug, Default)]
pub(super) struct Acted {
    pub(super) snapshot: Option<PathBuf>,
    /// Reasons why actions have failed.
    pub(super) failures: Vec<String>,
}

/// Time limit for an answer of the agent. A snapshot of large rings takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);

/// Actions of a trigger, on a thread of their own: the process goes on reading events.
pub(super) struct Actor {
    pub(super) agent: String,
    pub(super) add: Add,
    pub(super) files: TriggerFiles,
    pub(super) requests: Option<RequestSender>,
    /// Set when the trigger's process ends.
    pub(super) stop: Arc<AtomicBool>,
}

impl Actor {
    /// Starts the thread, which acts for each cause and tells when it has.
    /// `tell` returns false if nobody listens any longer.
    pub(super) fn start(
        mut self,
        tell: impl Fn(Acted) -> bool + Send + 'static,
    ) -> io::Result<Sender<Cause>> {
        let (sender, causes) = channel();
        thread::Builder::new().name("actions".to_owned()).spawn(move || {
            for cause in causes {
                let acted = self.act(&cause);
                if !tell(acted) {
                    return;
                }
            }
        })?;
        Ok(sender)
    }

    fn act(&mut self, cause: &Cause) -> Acted {
        let mut acted = Acted::default();
        // Other nodes ask for requests only.
        if cause.events > 0 && self.add.has_other_action() {
            acted = act(self, cause);
        }
        acted.failures.extend(self.send_requests(&cause.requests).err());
        acted
    }

    fn send_requests(&mut self, wanted: &BTreeSet<u64>) -> Result<(), String> {
        let Some(sender) = self.requests.as_mut().filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let client = source::connect(&self.agent, PATIENCE);
        let mut client = client.map_err(|error| error.to_string())?;
        sender.send(&mut client, wanted, &self.files.rings())
    }
}

/// Takes all actions. One that fails does not prevent the others.
fn act(actor: &Actor, cause: &Cause) -> Acted {
    let Actor { agent, add, files, stop, .. } = actor;
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
        shell.current_dir(files.directory());
        if let Err(why) = shell::run(shell, Duration::from_millis(actions.run_timeout), stop) {
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
