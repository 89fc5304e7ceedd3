//! Actions of a trigger.

use super::files::TriggerFiles;
use super::notice::Notice;
use super::options::Add;
use super::requests::RequestSender;
use super::schedule::Cause;
use super::source;
use crate::conversation::written_paths;
use crate::shell;
use blkkin_client::Client;
use blkkin_control::{Request, Snapshot};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Result of the actions.
#[derive(Debug, Default)]
pub(super) struct ActionReport {
    pub(super) snapshot: Option<PathBuf>,
    /// Reasons why actions have failed.
    pub(super) failures: Vec<String>,
    /// Set if the actions were cut short by the end of the process.
    pub(super) is_stopped: bool,
}

/// Time limit for an answer of the agent. A snapshot of large rings takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time in which an agent may be restarted, and pause before it is tried again.
const RESTART_TIME: Duration = Duration::from_secs(30);
const RESTART_PAUSE: Duration = Duration::from_millis(300);

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
        tell: impl Fn(ActionReport) -> bool + Send + 'static,
    ) -> io::Result<Sender<Cause>> {
        let (sender, causes) = channel();
        thread::Builder::new().name("actions".to_owned()).spawn(move || {
            for cause in causes {
                // A failure of the reader must not silence the trigger.
                let acted = catch_unwind(AssertUnwindSafe(|| self.act(&cause)));
                let acted = acted.unwrap_or_else(|_| ActionReport {
                    failures: vec!["the actions have failed by an error in blkkin".to_owned()],
                    ..ActionReport::default()
                });
                if !tell(acted) {
                    return;
                }
            }
        })?;
        Ok(sender)
    }

    fn act(&mut self, cause: &Cause) -> ActionReport {
        let mut report = ActionReport::default();
        // The rings forget requests while a command runs.
        report.failures.extend(self.send_requests(cause).err());
        // Other nodes ask for requests only.
        if cause.events > 0 && self.add.has_other_action() {
            take_actions(self, cause, &mut report);
        }
        report.is_stopped = self.stop.load(Ordering::Relaxed);
        report
    }

    fn send_requests(&mut self, cause: &Cause) -> Result<(), String> {
        let Some(sender) = self.requests.as_mut().filter(|_| !cause.requests.is_empty()) else {
            return Ok(());
        };
        let mut client = connect(&self.agent, &self.stop)?;
        sender.send(&mut client, cause, &self.files.rings())
    }
}

/// Connects to the agent, which may be restarting.
fn connect(agent: &str, stop: &AtomicBool) -> Result<Client, String> {
    let deadline = Instant::now() + RESTART_TIME;
    loop {
        match source::connect(agent, PATIENCE) {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() >= deadline || stop.load(Ordering::Relaxed) => {
                return Err(error.to_string());
            }
            Err(_) => thread::sleep(RESTART_PAUSE),
        }
    }
}

/// Takes all actions. One that fails does not prevent the others.
fn take_actions(actor: &Actor, cause: &Cause, report: &mut ActionReport) {
    let Actor { agent, add, files, stop, .. } = actor;
    let actions = &add.actions;
    let mut client = None;
    if let Some(session) = actions.snapshot.clone() {
        let snapshot = Request::Snapshot(Snapshot { session, output: None });
        match request(&mut client, (agent, stop), &snapshot) {
            Ok(written) => report.snapshot = written,
            Err(error) => report.failures.push(error),
        }
    }
    let others = [
        actions.start.clone().map(Request::StartSession),
        actions.stop.clone().map(Request::StopSession),
        actions.rotate.clone().map(Request::RotateSession),
    ];
    for other in others.into_iter().flatten() {
        report.failures.extend(request(&mut client, (agent, stop), &other).err());
    }
    if let Some(command) = &actions.run {
        let mut shell = shell::command(command, "blkkin-trigger");
        let snapshot = report.snapshot.as_deref().unwrap_or(Path::new(""));
        shell.arg(snapshot).env("BLKKIN_SNAPSHOT", snapshot).env("BLKKIN_TRIGGER", &add.name);
        shell.env("BLKKIN_EVENT", &cause.text).env("BLKKIN_EVENTS", cause.events.to_string());
        shell.current_dir(files.directory());
        if let Err(why) = shell::run(shell, Duration::from_millis(actions.run_timeout), stop) {
            report.failures.push(format!("the command {why}"));
        }
    }
    let snapshot = report.snapshot.as_deref();
    let notice = Notice { trigger: &add.name, cause, snapshot };
    let failures = actions.notify.iter().filter_map(|to| notice.send(to, stop).err());
    report.failures.extend(failures.collect::<Vec<_>>());
}

fn request(
    client: &mut Option<Client>,
    (agent, stop): (&str, &AtomicBool),
    request: &Request,
) -> Result<Option<PathBuf>, String> {
    let client = match client {
        Some(client) => client,
        none => none.insert(connect(agent, stop)?),
    };
    let replies = client.request_all(request).map_err(|error| error.to_string())?;
    Ok(written_paths(replies).into_iter().next())
}
