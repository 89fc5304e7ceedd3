//! All sessions of the relay, and the ids of sessions and streams.

use crate::files::{Disk, Log};
use crate::output::{Output, now_s};
use crate::session::{Origin, Session, SessionSummary};
use crate::stream::Stream;
use blkkin_lttng::IndexLayout;
use blkkin_lttng::relay::{AddStream, CreateSession};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Sessions of a relay, shared by all connections.
#[derive(Debug)]
pub struct Sessions {
    root: PathBuf,
    disk: Disk,
    state: Mutex<State>,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<u64, Arc<Session>>,
    /// Streams of all sessions by their ids, which data connections refer to.
    streams: HashMap<u64, (Weak<Session>, Arc<Stream>)>,
    /// Paths of outputs of snapshots by their origin: snapshots of a session share a directory.
    snapshots: HashMap<Origin, String>,
}

/// Maximum number of sessions.
const SESSIONS_MAX: usize = 4096;
impl Sessions {
    /// Makes a relay's sessions, which are written below the directory `root`. `log` receives lines
    /// about faults.
    pub fn new(root: PathBuf, log: impl Fn(&str) + Send + Sync + 'static) -> Sessions {
        let log: Log = Arc::new(log);
        let (disk, state) = (Disk::new(log), Mutex::default());
        // Ids differ from those of an earlier relay, so that viewers can tell sessions apart.
        let first_id = now_s() << 20;
        Sessions { root, disk, state, next_id: AtomicU64::new(first_id) }
    }

    /// Describes all sessions whose producers are connected.
    pub fn list(&self) -> Vec<SessionSummary> {
        self.list_if(|session| session.ended().is_none())
    }

    /// Describes all sessions, also those whose producers have disconnected a short time ago.
    pub(crate) fn list_with_ended(&self) -> Vec<SessionSummary> {
        self.list_if(|session| !session.is_old())
    }

    fn list_if(&self, is_listed: impl Fn(&Session) -> bool) -> Vec<SessionSummary> {
        let sessions: Vec<Arc<Session>> = self.state.lock().sessions.values().cloned().collect();
        let listed = sessions.iter().filter(|session| is_listed(session));
        listed.map(|session| session.summary()).collect()
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns an id, unique among sessions, streams and connections.
    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates a session and its directory.
    pub(crate) fn create(&self, created: CreateSession, peer: IpAddr) -> io::Result<Arc<Session>> {
        let mut state = self.state.lock();
        state.remove_ended();
        if state.sessions.len() >= SESSIONS_MAX {
            return Err(io::Error::other(format!("there are {SESSIONS_MAX} sessions already")));
        }
        // A producer has a connection for each of its consumer daemons. Producers before version
        // 2.11 have no id.
        let origin = Origin { producer: created.producer, id: created.id, peer };
        let is_known = created.producer != [0; 16];
        let is_same = |other: &&Arc<Session>| {
            is_known && other.origin == origin && !created.is_snapshot && other.ended().is_none()
        };
        let earlier = state.snapshots.get(&origin).filter(|_| is_known && created.is_snapshot);
        let output = match (state.sessions.values().find(is_same), earlier) {
            (Some(other), _) => other.output.clone(),
            (None, Some(path)) => Arc::new(Output::of_snapshot(&self.root, path.clone())),
            (None, None) => Arc::new(Output::create(&self.root, &created)?),
        };
        if created.is_snapshot && state.snapshots.len() < SESSIONS_MAX {
            state.snapshots.insert(origin, output.path.clone());
        }
        let id = self.new_id();
        let session = Arc::new(Session::new(id, created, output, peer, self.disk.clone()));
        state.sessions.insert(id, session.clone());
        Ok(session)
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.state.lock().sessions.get(&id).cloned()
    }

    /// Adds a stream to a session.
    pub(crate) fn add_stream(
        &self,
        session: &Arc<Session>,
        added: AddStream,
        layout: IndexLayout,
    ) -> io::Result<Arc<Stream>> {
        let (stream, forgotten) = session.add_stream(self.new_id(), added, layout)?;
        let entry = (Arc::downgrade(session), stream.clone());
        let mut state = self.state.lock();
        state.streams.insert(stream.id, entry);
        forgotten.iter().for_each(|id| drop(state.streams.remove(id)));
        drop(state);
        Ok(stream)
    }

    /// Removes sessions that ended a while ago and have no viewer.
    pub(crate) fn remove_ended(&self) {
        self.state.lock().remove_ended();
    }

    /// Returns a stream and its session, for a data connection.
    pub(crate) fn stream(&self, id: u64) -> Option<(Arc<Session>, Arc<Stream>)> {
        let state = self.state.lock();
        let (session, stream) = state.streams.get(&id)?;
        Some((session.upgrade()?, stream.clone()))
    }
}

impl State {
    /// Removes sessions that ended a while ago and have no viewer.
    fn remove_ended(&mut self) {
        self.sessions
            .retain(|_, session| !session.is_old() || session.viewers.load(Ordering::Relaxed) > 0);
        let sessions = &self.sessions;
        self.streams.retain(|_, (session, _)| {
            session.upgrade().is_some_and(|session| sessions.contains_key(&session.id))
        });
    }
}
