//! Requests that fire a trigger of the same name on other nodes. Each node sends the events that
//! fire its trigger to a relay, as a session, and reads the sessions of the others.

use super::matching::Matching;
use super::options::{ConditionArgs, ShareArgs};
use super::source;
use super::wakes::Wake;
use crate::relay_credentials;
use blkkin_live::{Family, Seek, Session, Url, Viewer};
use blkkin_reader::TimeBase;
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval at which the relay is asked for sessions of further nodes.
const LIST_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which a reader looks whether the process still needs it.
const ROUND_MAX: Duration = Duration::from_secs(5);
/// Maximum number of other nodes.
const HOSTS_MAX: usize = 256;
/// Age of events from which on they are of no interest: their requests have left the rings.
const AGE_MAX: Duration = Duration::from_secs(60);

/// Sessions of a relay that are read for one trigger.
struct NodeSessions {
    url: Url,
    session: String,
    own_host: String,
    conditions: ConditionArgs,
    wakes: Sender<Wake>,
    hosts: Mutex<HashMap<String, Host>>,
}

/// Progress with the session of another node.
#[derive(Clone, Copy, Default)]
struct Host {
    is_read: bool,
    /// Time of the last event that was read, in nanoseconds since 1970.
    read_until: i64,
}

/// Reader of a host's session, which is found again when this one ends.
struct HostReader {
    sessions: Arc<NodeSessions>,
    host: String,
}

impl Drop for HostReader {
    fn drop(&mut self) {
        self.sessions.set(&self.host, |host| host.is_read = false);
    }
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
    let sharing = Arc::new(NodeSessions {
        url,
        session: source::shared_session_of(trigger),
        own_host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        conditions: conditions.clone(),
        wakes,
        hosts: Mutex::default(),
    });
    let mut trouble = None;
    let work = move || loop {
        let found = sharing.find_sessions().err();
        if found != trouble && sharing.wakes.send(Wake::Sharing(found.clone())).is_err() {
            return;
        }
        trouble = found;
        thread::sleep(LIST_INTERVAL);
    };
    thread::Builder::new().name("sharing".to_owned()).spawn(work).map(drop)
}

impl NodeSessions {
    /// Begins to read each session of another node that is not read yet.
    fn find_sessions(self: &Arc<Self>) -> Result<(), String> {
        let credentials = relay_credentials::for_url(&self.url);
        let sessions = credentials.and_then(|own| blkkin_live::list(&self.url, own.as_ref()));
        for Session { host, name, .. } in sessions.map_err(|error| error.to_string())? {
            if name != self.session || host == self.own_host {
                continue;
            }
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            let has_room = hosts.len() < HOSTS_MAX || hosts.contains_key(&host);
            if !has_room {
                return Err(format!("the relay has more than {HOSTS_MAX} nodes"));
            }
            let own = hosts.entry(host.clone()).or_default();
            if std::mem::replace(&mut own.is_read, true) {
                continue;
            }
            drop(hosts);
            let reader = HostReader { sessions: self.clone(), host };
            let work = move || drop(reader.sessions.read(&reader.host));
            let thread = thread::Builder::new().name("sharing".to_owned());
            thread.spawn(work).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn set(&self, host: &str, change: impl FnOnce(&mut Host)) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get_mut(host) {
            change(host);
        }
    }

    /// Reads the session of a node to its end.
    fn read(&self, host: &str) -> Result<(), blkkin_live::Error> {
        let url = self.url.with_session(host, &self.session);
        let credentials = relay_credentials::for_url(&url)?;
        let viewer = Viewer::open(&url, credentials.as_ref(), Seek::Beginning, TimeBase::Recorded)?;
        let mut matching = Matching::of(viewer.source(), &self.conditions);
        let (mut last, mut before) = (None, 0);
        self.set(host, |host| before = host.read_until);
        let mut until = before;
        loop {
            let progress = viewer.wait(last, ROUND_MAX);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let oldest = i64::try_from(now.saturating_sub(AGE_MAX).as_nanos()).unwrap_or(0);
            let end_ns = Some(progress.end_ns).filter(|_| !progress.has_ended);
            let mut begin_ns = oldest;
            begin_ns = begin_ns.max(before);
            let found = matching.read_between(Some(begin_ns), end_ns);
            let latest = found.fired.iter().map(|(time, _)| *time).max();
            let has_found = !found.requests.is_empty();
            if has_found && self.wakes.send(Wake::Requests(found.requests)).is_err() {
                return Ok(());
            }
            if progress.has_ended {
                return Ok(());
            }
            // The next reader begins after these events.
            until = until.max(latest.unwrap_or(until));
            self.set(host, |host| host.read_until = until);
            last = Some(progress);
        }
    }
}
