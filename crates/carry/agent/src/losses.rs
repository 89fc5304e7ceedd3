//! Losses of sessions, by cause: what commands report, and what outlives the agent.

use crate::application::{Application, Attachment, LeftSet};
use crate::engine::{Agent, Id, Totals};
use crate::process::may_run;
use crate::saved::Begun;
use crate::session::{Session, SessionId};
use blkkin_control::{Cause, Loss, Reply, Saved, SavedEnded, SavedLoss, limits};
use blkkin_sys::socket::Peer;
use std::collections::{BTreeMap, HashSet};
use std::io;

/// Losses of one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Losses(BTreeMap<Cause, Amount>);

/// Size of a loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) events: u64,
    /// Packets, whose events are not in `events`.
    pub(crate) packets: u64,
    /// Programs, traces, rings or types of which an unknown number of events was lost.
    pub(crate) uncounted: u64,
    /// Error of the last such loss.
    pub(crate) reason: Option<String>,
}

/// Losses of a session that has been destroyed.
#[derive(Debug)]
pub(crate) struct Destroyed {
    uid: u32,
    session: String,
    losses: Losses,
}

/// Destroyed sessions whose losses are kept, for each user.
const DESTROYED_MAX: usize = 16;
/// In place of a channel, for programs that were not let in.
const CONNECTION: usize = usize::MAX;
/// Refused programs that are remembered, so that each is counted once.
const REFUSED_MAX: usize = 4096;

impl Amount {
    pub(crate) fn events(events: u64) -> Amount {
        Amount { events, ..Amount::default() }
    }

    pub(crate) fn packets(packets: u64) -> Amount {
        Amount { packets, ..Amount::default() }
    }

    pub(crate) fn uncounted(uncounted: u64) -> Amount {
        Amount { uncounted, ..Amount::default() }
    }

    /// Sets the error.
    pub(crate) fn because(self, reason: Option<String>) -> Amount {
        Amount { reason, ..self }
    }

    fn is_none(&self) -> bool {
        self.events == 0 && self.packets == 0 && self.uncounted == 0
    }
}

impl Losses {
    pub(crate) fn add(&mut self, cause: Cause, amount: Amount) {
        if amount.is_none() {
            return;
        }
        let total = self.0.entry(cause).or_default();
        // Programs count, and may count nonsense.
        total.events = total.events.saturating_add(amount.events);
        total.packets = total.packets.saturating_add(amount.packets);
        total.uncounted = total.uncounted.saturating_add(amount.uncounted);
        total.reason = amount.reason.or(total.reason.take());
    }

    pub(crate) fn add_all(&mut self, other: &Losses) {
        other.0.iter().for_each(|(cause, amount)| self.add(*cause, amount.clone()));
    }

    /// Takes over what an earlier agent has noted.
    pub(crate) fn set(&mut self, loss: Loss) {
        let Loss { cause, events, packets, uncounted, reason, .. } = loss;
        self.0.insert(cause, Amount { events, packets, uncounted, reason });
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn messages(&self, session: &str, is_destroyed: bool) -> impl Iterator<Item = Loss> {
        self.0.iter().map(move |(cause, amount)| Loss {
            session: session.to_owned(),
            is_destroyed,
            cause: *cause,
            events: amount.events,
            packets: amount.packets,
            uncounted: amount.uncounted,
            reason: amount.reason.as_deref().map(shortened),
        })
    }
}

/// Text that fits into a message.
fn shortened(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut text: String = text.chars().map(plain).collect();
    while text.len() > limits::MESSAGE_SIZE_MAX {
        text.pop();
    }
    text
}

/// An error of a session that may write no more.
pub(crate) fn no_space(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, reason)
}

/// Cause of a loss that follows from an error of writing.
pub(crate) fn cause_of(error: &io::Error) -> Cause {
    match error.kind() {
        // Those of file systems have a number.
        _ if error.raw_os_error().is_some() => Cause::Output,
        io::ErrorKind::QuotaExceeded => Cause::Quota,
        io::ErrorKind::StorageFull => Cause::Size,
        _ => Cause::Output,
    }
}

impl LeftSet {
    /// Events that found the rings full and that no agent has counted.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        losses.add(Cause::AgentAway, Amount::events(self.rings.discarded_uncounted()));
        losses
    }
}

impl Attachment {
    /// Attributes events that found the rings full since the last call.
    pub(crate) fn attribute(&mut self) {
        let all = self.rings.discarded_in_all();
        let more = all.saturating_sub(self.discarded_seen);
        if more > 0 {
            self.discarded_seen = all;
            let (cause, reason) = self.cause();
            self.losses.add(cause, Amount::events(more).because(reason));
        }
    }

    /// Why events find no room in the rings now.
    fn cause(&self) -> (Cause, Option<String>) {
        match &self.trouble {
            Some((cause, reason)) => (*cause, Some(reason.clone())),
            None => (Cause::RingFull, None),
        }
    }

    /// All that was lost so far.
    pub(crate) fn losses_so_far(&self) -> Losses {
        let mut losses = self.losses.clone();
        let more = self.rings.discarded_in_all().saturating_sub(self.discarded_seen);
        let (cause, reason) = self.cause();
        losses.add(cause, Amount::events(more).because(reason));
        if self.is_written {
            let counts = (0..self.rings.count()).map(|ring| self.rings.counts(ring));
            let (mut overwritten, mut broken) = (0, 0);
            for counts in counts {
                overwritten += counts.packets_lost;
                broken += u64::from(counts.is_broken);
            }
            losses.add(Cause::Overwritten, Amount::packets(overwritten));
            losses.add(Cause::Damaged, Amount::uncounted(broken));
        }
        self.left_behind.iter().for_each(|set| losses.add_all(&set.losses()));
        losses
    }

    /// Events that found no rings while the program had given up these, and not got new ones yet.
    /// The program does not count them.
    pub(crate) fn lost_by_renewal(&self) -> Losses {
        let mut losses = Losses::default();
        if !self.rules.is_empty() {
            let reason = "rings that held much memory were given up for new ones".to_owned();
            losses.add(Cause::Quota, Amount::uncounted(1).because(Some(reason)));
        }
        losses
    }

    /// What is lost when nobody reads the rings any more.
    pub(crate) fn unread(&self) -> Losses {
        let mut losses = Losses::default();
        if self.is_written {
            let (cause, reason) = match &self.trouble {
                Some(_) => self.cause(),
                None => (Cause::AgentAway, None),
            };
            losses.add(cause, Amount::packets(self.packets_waiting()).because(reason));
        }
        losses
    }
}

impl Application {
    /// Event types of which nothing is recorded.
    pub(crate) fn types_lost(&self) -> Losses {
        let mut losses = Losses::default();
        let refused = self.catalog.as_ref().map_or(0, |catalog| catalog.refused());
        losses.add(Cause::EventTypes, Amount::uncounted(refused.into()));
        losses
    }
}

impl Agent {
    /// Counts a loss, also for the agent that is started after this one.
    pub(crate) fn count_loss(&mut self, session: SessionId, losses: &Losses) {
        if losses.is_empty() {
            return;
        }
        let Some(name) = self.sessions.iter().find(|one| one.id == session).map(|one| &one.name)
        else {
            // It is being destroyed, and its losses are still to be told.
            self.losses.entry(session).or_default().add_all(losses);
            return;
        };
        let own = self.losses.entry(session).or_default();
        own.add_all(losses);
        for loss in own.messages(name, false).filter(|loss| losses.0.contains_key(&loss.cause)) {
            self.notebook.add(&Saved::Loss(SavedLoss { number: session, loss }));
        }
    }

    /// Counts that a program could not be given rings, once for each channel.
    pub(crate) fn count_refused(
        &mut self,
        session: SessionId,
        channel: usize,
        pid: u32,
        error: &io::Error,
    ) {
        if self.refused.len() >= REFUSED_MAX {
            let pids: HashSet<u32> =
                self.applications.values().map(|one| one.process.pid).collect();
            self.refused.retain(|(.., pid)| pids.contains(pid));
        }
        // If there are so many at a time, each refusal counts.
        let is_known =
            self.refused.len() < REFUSED_MAX && !self.refused.insert((session, channel, pid));
        if is_known {
            return;
        }
        let cause = match cause_of(error) {
            Cause::Quota => Cause::Quota,
            _ => Cause::Attach,
        };
        let mut losses = Losses::default();
        losses.add(cause, Amount::uncounted(1).because(Some(error.to_string())));
        self.count_loss(session, &losses);
    }

    /// Counts a program that may not connect, once for each session that is to record it.
    pub(crate) fn count_turned_away(&mut self, peer: Peer, reason: String) {
        let Peer { pid, uid, .. } = peer;
        let is_meant =
            |one: &&Session| one.is_active() && (one.is_privileged || one.owner.uid == uid);
        let meant = self.sessions.iter().filter(is_meant).map(|session| session.id);
        let is_new = |id: &SessionId| !self.refused.contains(&(*id, CONNECTION, pid));
        let new: Vec<SessionId> = meant.filter(is_new).collect();
        if new.is_empty() || self.refused.len() >= REFUSED_MAX {
            return;
        }
        let Ok(process) = self.looker.look(pid, uid) else { return };
        let error = io::Error::new(io::ErrorKind::QuotaExceeded, reason);
        for id in new {
            let session = self.sessions.iter().find(|session| session.id == id);
            let mut channels = session.into_iter().flat_map(|session| &session.channels);
            match channels.any(|channel| !channel.rules_for(&process).is_empty()) {
                true => self.count_refused(id, CONNECTION, pid, &error),
                // It is not looked at again.
                false => drop(self.refused.insert((id, CONNECTION, pid))),
            }
        }
    }

    /// Programs that have not come back to this agent, with rings that an earlier one has left them.
    pub(crate) fn unreturned(&self, session: SessionId) -> Losses {
        let own = self.begun.values().filter(|one| one.is_earlier && one.session == session);
        let mut losses = Losses::default();
        losses.add(Cause::AgentAway, Amount::uncounted(own.count() as u64));
        losses
    }

    /// Counts traces of an earlier agent whose programs have ended since, so that nobody has their rings.
    pub(crate) fn count_cut_off(&mut self) {
        self.count_earlier(Cause::CutOff, |begun| !may_run(begun.pid));
    }

    /// Counts traces of an earlier agent for which a program that is there again has no rings any more.
    pub(crate) fn count_given_up(&mut self, id: Id) {
        let Some(pid) = self.applications.get(&id).map(|one| one.process.pid) else { return };
        self.count_earlier(Cause::AgentAway, |begun| begun.pid == pid);
    }

    fn count_earlier(&mut self, cause: Cause, is_meant: impl Fn(&Begun) -> bool) {
        let gone = self.begun.extract_if(|_, begun| begun.is_earlier && is_meant(begun));
        for session in gone.map(|(_, begun)| begun.session).collect::<Vec<SessionId>>() {
            let mut losses = Losses::default();
            losses.add(cause, Amount::uncounted(1));
            self.count_loss(session, &losses);
        }
    }

    /// All that a session has lost so far.
    pub(crate) fn losses_of(&self, session: SessionId) -> Losses {
        let mut losses = self.losses.get(&session).cloned().unwrap_or_default();
        for application in self.applications.values().chain(&self.departed) {
            let mut own = application.attachments.iter().filter(|one| one.session == session);
            if let Some(first) = own.next() {
                losses.add_all(&first.losses_so_far());
                own.for_each(|one| losses.add_all(&one.losses_so_far()));
                losses.add_all(&application.types_lost());
            }
        }
        losses
    }

    /// The same, as a command gets it.
    pub(crate) fn loss_replies(&self, session: &Session) -> Vec<Reply> {
        self.losses_of(session.id).messages(&session.name, false).map(Reply::Loss).collect()
    }

    /// The same at the end of a recording: with what programs hold that have not come back.
    pub(crate) fn last_loss_replies(&self, session: &Session) -> Vec<Reply> {
        let mut losses = self.losses_of(session.id);
        losses.add_all(&self.unreturned(session.id));
        losses.messages(&session.name, false).map(Reply::Loss).collect()
    }

    /// Gives the losses of a session that has just been destroyed, and keeps them for `status`.
    pub(crate) fn bury(&mut self, id: SessionId, session: String, uid: u32) -> Vec<Reply> {
        let losses = self.losses.remove(&id).unwrap_or_default();
        self.refused.retain(|(refused, ..)| *refused != id);
        let replies = losses.messages(&session, true).map(Reply::Loss).collect();
        if !losses.is_empty() {
            self.destroyed.push_back(Destroyed { uid, session, losses });
            let owner = self.accounts.owner_of(uid);
            let is_own = |one: &Destroyed| self.accounts.owner_of(one.uid) == owner;
            let own = self.destroyed.iter().filter(|one| is_own(one)).count();
            let oldest = self.destroyed.iter().position(is_own);
            if own > DESTROYED_MAX
                && let Some(oldest) = oldest
            {
                self.destroyed.remove(oldest);
            }
        }
        replies
    }

    /// Losses of destroyed sessions of users that are meant.
    pub(crate) fn buried(&self, is_meant: impl Fn(u32) -> bool) -> Vec<Reply> {
        let own = self.destroyed.iter().filter(|one| is_meant(one.uid));
        own.flat_map(|one| one.losses.messages(&one.session, true)).map(Reply::Loss).collect()
    }

    /// Counters of a session that outlive the agent.
    pub(crate) fn saved_counters(&self, session: &Session) -> Vec<Saved> {
        let losses = self.losses.get(&session.id).into_iter();
        let losses = losses.flat_map(|losses| losses.messages(&session.name, false));
        let losses = losses.map(|loss| Saved::Loss(SavedLoss { number: session.id, loss }));
        let ended = (0..session.channels.len()).filter_map(|at| self.saved_totals(session, at));
        losses.chain(ended).collect()
    }

    fn saved_totals(&self, session: &Session, channel: usize) -> Option<Saved> {
        let totals: &Totals = self.ended.get(&(session.id, channel))?;
        let ended = totals.told(&session.name, &session.channels.get(channel)?.channel.name);
        Some(Saved::Ended(SavedEnded { number: session.id, ended }))
    }

    /// Notes what the rings of ended programs have seen.
    pub(crate) fn note_totals(&self, (session, channel): (SessionId, usize)) {
        let session = self.sessions.iter().find(|one| one.id == session);
        let saved = session.and_then(|session| self.saved_totals(session, channel));
        saved.iter().for_each(|saved| self.notebook.add(saved));
    }
}

/// Programs that were refused, by session and channel.
pub(crate) type RefusedPrograms = HashSet<(SessionId, usize, u32)>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use std::path::PathBuf;
    use std::process::Command;

    fn agent(directory: &tempfile::TempDir) -> Agent {
        let options = Options {
            socket: directory.path().join("agent.sock"),
            is_public: false,
            group: "daemon".to_owned(),
            traces: None,
            manager: None,
            limits: Default::default(),
            log: |_| (),
        };
        Agent::bind(options).unwrap()
    }

    const SESSION: SessionId = 7;

    fn uncounted(agent: &Agent, cause: Cause) -> u64 {
        agent.losses.get(&SESSION).map_or(0, |losses| losses.0[&cause].uncounted)
    }

    /// Programs that have ended make room for others.
    #[test]
    fn refused_programs_are_counted_however_many_there_were() {
        let directory = tempfile::tempdir().unwrap();
        let mut agent = agent(&directory);
        let error = io::Error::other("no reason");
        let programs = REFUSED_MAX as u32 + 100;
        agent.count_refused(SESSION, 0, 0, &error);
        for pid in 0..programs {
            agent.count_refused(SESSION, 0, pid, &error);
        }
        assert_eq!(uncounted(&agent, Cause::Attach), u64::from(programs));
        assert!(agent.refused.len() <= REFUSED_MAX);
    }

    /// Traces of an earlier agent are counted before they are noted no more.
    #[test]
    fn programs_that_end_unseen_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut agent = agent(&directory);
        let mut program = Command::new("true").spawn().unwrap();
        let begun = |pid| {
            let directory = PathBuf::from("/nowhere");
            Begun { session: SESSION, pid, directory, is_earlier: true }
        };
        agent.begun.insert([1; 16], begun(program.id()));
        agent.begun.insert([2; 16], begun(std::process::id()));
        program.wait().unwrap();
        agent.save();
        assert_eq!(uncounted(&agent, Cause::CutOff), 1);
    }
}
