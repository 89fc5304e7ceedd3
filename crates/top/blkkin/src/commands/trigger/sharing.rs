//! Requests that fire a trigger of the same name on other nodes. Each node sends the events that
//! fire its trigger to a relay, as a session, and reads the sessions of the others.

use super::matching::Matching;
use super::options::{ConditionArgs, ShareArgs};
use super::source;
use super::wakes::Wake;
use crate::relay_credentials;
use blkkin_live::{Family, Seek, Session, Url, Viewer};
use std::collections::HashSet;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval at which the relay is asked for sessions of further nodes.
const LIST_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which a reader looks whether the process still needs it.
const ROUND_MAX: Duration = Duration::from_secs(5);
/// Age of events from which on they are of no interest: their requests have left the rings.
const AGE_MAX: Duration = Duration::from_secs(60);

/// Sessions of a relay that are read for one trigger.
struct Sharing {
    url: Url,
    session: String,
    own_host: String,
    conditions: ConditionArgs,
    wakes: Sender<Wake>,
    /// Hosts whose sessions are being read.
    reading: Mutex<HashSet<String>>,
}

/// Begins to send the requests of other nodes as wakes, on threads; does nothing for a trigger that
/// shares none.
pub(super) fn start(
    trigger: &str,
    args: &ShareArgs,
    conditions: &ConditionArgs,
    wakes: Sender<Wake>,
) -> io::Result<()> {
    let Some(target) = &args.share else { return Ok(()) };
    let url = Url {
        is_secure: target.is_secure,
        family: Family::Any,
        host: target.host.clone(),
        port: args.share_live_port,
        session: None,
    };
    let sharing = Arc::new(Sharing {
        url,
        session: source::shared_session_of(trigger),
        own_host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        conditions: conditions.clone(),
        wakes,
        reading: Mutex::default(),
    });
    let work = move || loop {
        if let Err(why) = sharing.find_sessions()
            && sharing.wakes.send(Wake::SharingTrouble(why)).is_err()
        {
            return;
        }
        thread::sleep(LIST_INTERVAL);
    };
    thread::Builder::new().name("sharing".to_owned()).spawn(work).map(drop)
}

impl Sharing {
    /// Begins to read each session of another node that is not read yet.
    fn find_sessions(self: &Arc<Self>) -> Result<(), String> {
        let credentials = relay_credentials::for_relay(self.url.is_secure)
            .map_err(|error| error.message().to_owned())?;
        let sessions = blkkin_live::list(&self.url, credentials.as_ref());
        for Session { host, name, .. } in sessions.map_err(|error| error.to_string())? {
            if name != self.session || host == self.own_host {
                continue;
            }
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            if !reading.insert(host.clone()) {
                continue;
            }
            drop(reading);
            let sharing = self.clone();
            let work = move || {
                // The session is found again after an error.
                let _ = sharing.read(&host);
                let mut reading = sharing.reading.lock().unwrap_or_else(PoisonError::into_inner);
                reading.remove(&host);
            };
            let thread = thread::Builder::new().name("sharing".to_owned());
            thread.spawn(work).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Reads the session of a node to its end.
    fn read(&self, host: &str) -> Result<(), blkkin_live::Error> {
        let url = self.url.with_session(host, &self.session);
        let failed = |error| blkkin_live::Error::Connect { address: url.to_string(), error };
        let credentials = url.is_secure.then(relay_credentials::read).transpose();
        let credentials = credentials.map_err(failed)?;
        let viewer = Viewer::open(&url, credentials.as_ref(), Seek::Beginning)?;
        let mut matching = Matching::of(viewer.source(), &self.conditions);
        let mut last = None;
        loop {
            let progress = viewer.wait(last, ROUND_MAX);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let oldest = i64::try_from(now.saturating_sub(AGE_MAX).as_nanos()).unwrap_or(0);
            let end_ns = Some(progress.end_ns).filter(|_| !progress.has_ended);
            let found = matching.read_until(end_ns, Some(oldest));
            let has_found = !found.requests.is_empty();
            if has_found && self.wakes.send(Wake::Requests(found.requests)).is_err() {
                return Ok(());
            }
            if progress.has_ended {
                return Ok(());
            }
            last = Some(progress);
        }
    }
}
