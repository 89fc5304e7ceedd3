//! Sessions that are forwarded to relays. A process of its own forwards them, since the agent can
//! make no connections: it requests the list, follows the sessions' directories, and reports its
//! progress.

use crate::completeness::Completeness;
use crate::session::SessionId;
use crate::source::ConnectionId;
use blkkin_control::{
    DroppedPackets, ForwardProgress, ForwardReport, ForwardTask, Forwarding, Reply,
};
use std::time::{Duration, Instant};

/// Sessions to forward, with their progress.
#[derive(Debug, Default)]
pub(crate) struct Forwardings {
    list: Vec<ForwardedSession>,
    /// Set if the list has changed since the forwarder received it.
    has_changed: bool,
    /// Connection of the forwarder, while it waits for a change.
    waiting: Option<ConnectionId>,
}

#[derive(Debug)]
struct ForwardedSession {
    task: ForwardTask,
    progress: ForwardProgress,
    completeness: Completeness,
    /// Time at which the forwarder was last asked to drop packets.
    asked: Option<Instant>,
    /// Set while the forwarder has not answered that.
    is_dropping: bool,
}

/// Minimum time between two requests to drop packets of a session.
const DROP_PAUSE: Duration = Duration::from_millis(100);

impl Forwardings {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether the forwarder waits for a change.
    pub(crate) fn has_forwarder(&self) -> bool {
        self.waiting.is_some()
    }

    /// Adds a session; `is_resumed` is set if an earlier agent has created it.
    pub(crate) fn add(&mut self, mut task: ForwardTask, is_resumed: bool) {
        task.to_drop = 0;
        let trouble = Some("the forwarder has not connected yet".to_owned());
        let progress = ForwardProgress { trouble, ..ForwardProgress::default() };
        let completeness = Completeness::new(is_resumed);
        let (asked, is_dropping) = (None, false);
        self.list.push(ForwardedSession { task, progress, completeness, asked, is_dropping });
        self.has_changed = true;
    }

    /// Returns whether a session is forwarded.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.list.iter().any(|one| one.task.number == session)
    }

    /// Returns whether the directory of a session is only a spool.
    pub(crate) fn is_spool(&self, session: SessionId) -> bool {
        let mut tasks = self.list.iter().map(|one| &one.task);
        tasks.any(|task| task.number == session && task.destination.is_spool)
    }

    /// Returns the number of a user's sessions that are forwarded.
    pub(crate) fn count_of(&self, user: u32) -> usize {
        self.list.iter().filter(|one| one.task.user == user).count()
    }

    /// Returns the completeness of each session that is not destroyed.
    pub(crate) fn completeness(&mut self) -> impl Iterator<Item = (SessionId, &mut Completeness)> {
        let live = self.list.iter_mut().filter(|one| !one.task.has_ended);
        live.map(|one| (one.task.number, &mut one.completeness))
    }

    /// Marks a session as destroyed, all of whose packets are written.
    pub(crate) fn end(&mut self, session: SessionId) {
        for one in self.list.iter_mut().filter(|one| one.task.number == session) {
            one.task.has_ended = true;
            self.has_changed = true;
        }
    }

    /// Marks all sessions as destroyed that do not exist.
    pub(crate) fn end_missing(&mut self, exists: impl Fn(SessionId) -> bool) {
        self.list.iter_mut().for_each(|one| one.task.has_ended |= !exists(one.task.number));
    }

    /// Takes a report of the forwarder. Returns true if a session is delivered, and no longer in
    /// the list.
    pub(crate) fn report(&mut self, report: ForwardReport) -> bool {
        let ForwardReport { number, progress, is_delivered, .. } = report;
        let Some(at) = self.list.iter().position(|one| one.task.number == number) else {
            return false;
        };
        self.list[at].progress = progress;
        let is_over = is_delivered && self.list[at].task.has_ended;
        if is_over {
            self.list.remove(at);
            self.has_changed = true;
        }
        is_over
    }

    /// Asks the forwarder to drop the oldest packets of spools that are nearly full, if these are
    /// to be dropped. `excess` returns how much a session has too much.
    pub(crate) fn ask_for_room(&mut self, now: Instant, excess: impl Fn(SessionId) -> Option<u64>) {
        for one in &mut self.list {
            let has_asked = one.asked.is_some_and(|asked| now < asked + DROP_PAUSE);
            let is_wanted = one.task.destination.drops_oldest && !one.task.has_ended;
            if !is_wanted || one.is_dropping || has_asked {
                continue;
            }
            if let Some(excess) = excess(one.task.number) {
                one.task.to_drop = one.task.to_drop.saturating_add(excess.max(1));
                (one.asked, one.is_dropping) = (Some(now), true);
                self.has_changed = true;
            }
        }
    }

    /// Notes that the forwarder has dropped packets. Returns false if it was not asked to.
    pub(crate) fn note_dropped(&mut self, dropped: DroppedPackets) -> bool {
        let DroppedPackets { number, to_drop, .. } = dropped;
        let mut list = self.list.iter_mut();
        let own = list.find(|one| one.task.number == number && one.task.to_drop == to_drop);
        own.is_some_and(|one| std::mem::replace(&mut one.is_dropping, false))
    }

    /// Lets the forwarder wait for the next change; a forwarder that has just connected gets the
    /// list at once.
    pub(crate) fn wait(&mut self, forwarder: ConnectionId, is_first: bool) {
        self.waiting = Some(forwarder);
        self.has_changed |= is_first;
        if is_first {
            // It knows no earlier requests.
            self.list.iter_mut().for_each(|one| (one.task.to_drop, one.is_dropping) = (0, false));
        }
    }

    /// Forgets the forwarder if this was its connection. The next one reports everything anew.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        if self.waiting.take_if(|waiting| *waiting == connection).is_some() {
            for one in &mut self.list {
                one.progress.is_connected = false;
                one.progress.trouble = Some("the forwarder has ended, and is started again".into());
            }
        }
    }

    /// Returns the waiting forwarder with the list, if the list has changed.
    pub(crate) fn take_answer(&mut self) -> Option<(ConnectionId, Vec<Reply>)> {
        let forwarder = self.waiting.take_if(|_| self.has_changed)?;
        self.has_changed = false;
        Some((forwarder, self.tasks().map(Reply::ForwardTask).collect()))
    }

    /// Returns all sessions to forward.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = ForwardTask> {
        self.list.iter().map(|one| one.task.clone())
    }

    /// Returns the forwarding of a session, as a reply to a command.
    pub(crate) fn reply(&self, session: SessionId) -> Option<Reply> {
        let one = self.list.iter().find(|one| one.task.number == session)?;
        Some(Reply::Forwarding(one.shown()))
    }

    /// Returns the forwardings of destroyed sessions of a user, or of all users, as replies to a
    /// command.
    pub(crate) fn ended_replies(&self, user: Option<u32>) -> impl Iterator<Item = Reply> {
        let ended = self
            .list
            .iter()
            .filter(move |one| one.task.has_ended && user.is_none_or(|user| one.task.user == user));
        ended.map(|one| Reply::Forwarding(one.shown()))
    }
}

impl ForwardedSession {
    fn shown(&self) -> Forwarding {
        let ForwardTask { name, destination, has_ended, .. } = self.task.clone();
        Forwarding { session: name, destination, progress: self.progress.clone(), has_ended }
    }
}
