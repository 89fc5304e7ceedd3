//! Reasons for which the process of a trigger wakes up.

use super::actions::ActionReport;
use super::source;
use crate::interrupt::on_signals;
use blkkin_client::Client;
use blkkin_control::{AwaitedChange, Reply, Request, code};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Reason for which the process wakes up.
#[derive(Debug)]
pub(super) enum Wake {
    /// The traces of the trigger's session have changed.
    Changed,
    /// The agent does not know the session. It is watched again when it was made again.
    Gone,
    /// The session cannot be watched, for this reason. It is tried again.
    Trouble(String),
    /// Requests of other nodes, by the lower halves of their trace ids.
    Requests(BTreeSet<u64>),
    /// The sessions of other nodes cannot be read, for this reason, or can be read again.
    Sharing(Option<String>),
    /// Actions were taken.
    Acted(ActionReport),
    /// A command asks for requests (SIGUSR2).
    Asked,
    /// A signal, of this process or the agent's, as these words say.
    Fire(&'static str),
    /// A signal that ends the process.
    End,
}

/// Pause before the agent is asked for the next change.
const READ_PAUSE: Duration = Duration::from_millis(10);
/// Pauses before the agent is asked again after an error.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time limit for an answer. The agent answers when something has happened.
const FOREVER: Duration = Duration::MAX;

/// Begins to send the signals of this process as wakes.
pub(super) fn send_signals(wakes: &Sender<Wake>) -> io::Result<()> {
    let (fire, asked, end) = (wakes.clone(), wakes.clone(), wakes.clone());
    on_signals(&[SIGUSR1], move || {
        let _ = fire.send(Wake::Fire("fired by hand"));
    })?;
    on_signals(&[SIGUSR2], move || {
        let _ = asked.send(Wake::Asked);
    })?;
    on_signals(&[SIGINT, SIGTERM, SIGHUP], move || {
        let _ = end.send(Wake::End);
    })
}

/// Begins to send the changes of a session as wakes, on a thread. After each one, the next is sent
/// when there is an item in the channel that is returned.
pub(super) fn send_changes(
    session: String,
    agent: String,
    wakes: Sender<Wake>,
) -> io::Result<SyncSender<()>> {
    let (go, goes) = sync_channel(1);
    let mut watch = Watch::new(agent);
    let mut pause = PAUSE_MIN;
    let work = move || loop {
        let wake = match watch.next_change(&session) {
            Ok(true) => Wake::Changed,
            Ok(false) => Wake::Gone,
            Err(error) => Wake::Trouble(error.to_string()),
        };
        let is_trouble = matches!(wake, Wake::Trouble(_) | Wake::Gone);
        if wakes.send(wake).is_err() || goes.recv().is_err() {
            return;
        }
        // Reading may cause events itself, if the trigger is for those of all processes.
        thread::sleep(if is_trouble { pause } else { READ_PAUSE });
        pause = if is_trouble { (2 * pause).min(PAUSE_MAX) } else { PAUSE_MIN };
    };
    thread::Builder::new().name("trigger".to_owned()).spawn(work)?;
    Ok(go)
}

/// Begins to send the signals of an agent's process as wakes, on a thread.
pub(super) fn send_agent_signals(agent: String, wakes: Sender<Wake>) -> io::Result<()> {
    let mut watch = Watch::new(agent);
    let mut pause = PAUSE_MIN;
    let work = move || loop {
        match watch.next_signal() {
            Ok(true) if wakes.send(Wake::Fire("the agent got a signal")).is_err() => return,
            Ok(_) => pause = PAUSE_MIN,
            Err(_) => {
                thread::sleep(pause);
                pause = (2 * pause).min(PAUSE_MAX);
            }
        }
    };
    thread::Builder::new().name("agent signals".to_owned()).spawn(work).map(drop)
}

/// Connection to an agent that tells of changes.
struct Watch {
    agent: String,
    client: Option<Client>,
    /// Number of changes that the agent of `client` has reported.
    seen: Option<u64>,
}

impl Watch {
    fn new(agent: String) -> Watch {
        Watch { agent, client: None, seen: None }
    }

    /// Waits for the next change of a session. Returns false if the agent has no such session of
    /// this user.
    fn next_change(&mut self, session: &str) -> Result<bool, blkkin_client::Error> {
        let mut client = self.client()?;
        // A privileged user would else get a session of the same name of somebody else.
        let is_own = self.seen.is_some() || source::is_own(&mut client, session)?;
        self.client = Some(client);
        if !is_own {
            return Ok(false);
        }
        let (session, seen) = (session.to_owned(), self.seen);
        match self.ask(&Request::AwaitChange(AwaitedChange { session, seen })) {
            Err(blkkin_client::Error::Failed { failed, .. })
                if failed.code == code::NO_SUCH_SESSION =>
            {
                self.seen = None;
                Ok(false)
            }
            asked => asked.map(|()| true),
        }
    }

    /// Waits for the next signal of the agent. Returns false for the first reply of an agent, which
    /// tells how many signals there were before.
    fn next_signal(&mut self) -> Result<bool, blkkin_client::Error> {
        self.client = Some(self.client()?);
        let before = self.seen;
        self.ask(&Request::AwaitSignal(before))?;
        Ok(before.is_some())
    }

    /// Takes the client, or connects.
    fn client(&mut self) -> Result<Client, blkkin_client::Error> {
        match self.client.take() {
            Some(client) => Ok(client),
            None => {
                self.seen = None;
                source::connect(&self.agent, FOREVER)
            }
        }
    }

    /// Sends a request and notes the number of changes. The client is kept unless it fails.
    fn ask(&mut self, request: &Request) -> Result<(), blkkin_client::Error> {
        let mut client = self.client()?;
        let asked = client.request_all(request);
        if matches!(asked, Ok(_) | Err(blkkin_client::Error::Failed { .. })) {
            self.client = Some(client);
        }
        self.seen = asked?.into_iter().find_map(|reply| match reply {
            Reply::Changes(changes) => Some(changes),
            _ => None,
        });
        Ok(())
    }
}
