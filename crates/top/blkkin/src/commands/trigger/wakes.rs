//! Reasons for which the process of a trigger wakes up.

use super::source;
use crate::interrupt::on_signals;
use blkkin_control::{AwaitedChange, Reply, Request, code};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

/// Reason for which the process wakes up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The traces of the trigger's session have changed.
    Changed,
    /// The agent does not know the session. It is watched again when it was made again.
    Gone,
    /// The session cannot be watched, for this reason. It is tried again.
    Trouble(String),
    /// Requests of other nodes, by the lower halves of their trace ids.
    Requests(BTreeSet<u64>),
    /// The sessions of other nodes cannot be read, for this reason. It is tried again.
    SharingTrouble(String),
    /// SIGUSR1.
    Fire,
    /// A signal that ends the process.
    End,
}

/// Pauses before the agent is asked again after an error.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time limit for an answer. The agent answers when something has happened.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Begins to send the signals of this process as wakes.
pub(super) fn send_signals(wakes: &Sender<Wake>) -> io::Result<()> {
    let (fire, end) = (wakes.clone(), wakes.clone());
    on_signals(&[SIGUSR1], move || {
        let _ = fire.send(Wake::Fire);
    })?;
    on_signals(&[SIGINT, SIGTERM, SIGHUP], move || {
        let _ = end.send(Wake::End);
    })
}

/// Begins to send the changes of a session as wakes, on a thread.
pub(super) fn send_changes(session: String, agent: String, wakes: Sender<Wake>) -> io::Result<()> {
    let mut watch = Watch { session, agent, client: None, seen: None };
    let mut pause = PAUSE_MIN;
    let work = move || loop {
        let wake = watch.next().unwrap_or_else(|why| {
            watch.client = None;
            Wake::Trouble(why)
        });
        let is_trouble = matches!(wake, Wake::Trouble(_) | Wake::Gone);
        if wakes.send(wake).is_err() {
            return;
        }
        if is_trouble {
            thread::sleep(pause);
        }
        pause = if is_trouble { (2 * pause).min(PAUSE_MAX) } else { PAUSE_MIN };
    };
    thread::Builder::new().name("trigger".to_owned()).spawn(work).map(drop)
}

struct Watch {
    session: String,
    agent: String,
    client: Option<blkkin_client::Client>,
    seen: Option<u64>,
}

impl Watch {
    /// Waits for the next change.
    fn next(&mut self) -> Result<Wake, String> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none
                .insert(source::connect(&self.agent, FOREVER).map_err(|error| error.to_string())?),
        };
        let awaited = AwaitedChange { session: self.session.clone(), seen: self.seen };
        let request = Request::AwaitChange(awaited);
        match client.request_all(&request) {
            Ok(replies) => {
                let changes = replies.into_iter().find_map(|reply| match reply {
                    Reply::Changes(changes) => Some(changes),
                    _ => None,
                });
                self.seen = changes;
                Ok(Wake::Changed)
            }
            Err(blkkin_client::Error::Failed { failed, .. })
                if failed.code == code::NO_SUCH_SESSION =>
            {
                self.seen = None;
                Ok(Wake::Gone)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
