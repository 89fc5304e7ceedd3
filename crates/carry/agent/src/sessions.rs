//! Sessions of all users, with the state that outlives recorded programs: counters, traces that may
//! be continued, and the notes for the next agent.

use crate::attachment::{Attachment, ChannelKey};
use crate::chunk_removal::ChunkRemoval;
use crate::clearing::ClearJob;
use crate::clock::Clocks;
use crate::forwarding::Forwardings;
use crate::losses::{Amount, Evictions, Losses, Totals, cause_of};
use crate::notebook::{Note, Notebook, SuspendedTrace, saved_trace};
use crate::page_cache::PageCacheTrimmer;
use crate::process::{ProcessInspector, may_run};
use crate::program::Program;
use crate::quota::Accounts;
use crate::reach;
use crate::saved::SavedState;
use crate::session::{RetiredChunks, SamplingRules, Session, SessionId};
use blkkin_control::{
    Cause, Clock, DroppedPackets, Reply, Retention, SavedLimit, SavedLoss, SavedRetention,
    SavedRingTotals, SavedSampling, SavedSession, StateRecord, encode,
};
use blkkin_sys::socket::Peer;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;

/// Sessions of all users, with their counters and suspended traces.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) list: Vec<Session>,
    /// Id of the next session that is created.
    next: SessionId,
    /// Sampling rules, by user id.
    pub(crate) sampling: HashMap<u32, SamplingRules>,
    pub(crate) clocks: Clocks,
    /// Trimmer of the traces' memory in the page cache; `None` until the agent is confined.
    pub(crate) page_cache: Option<PageCacheTrimmer>,
    pub(crate) notebook: Notebook,
    /// Suspended traces, by UUID: they are closed for now, but their programs may continue them.
    pub(crate) suspended: HashMap<[u8; 16], SuspendedTrace>,
    /// Totals of freed rings, by channel: rings of ended attachments, and lost rings of earlier
    /// agents.
    ended: BTreeMap<ChannelKey, Totals>,
    /// Counters of evicted rings that were kept for snapshots.
    evictions: BTreeMap<ChannelKey, Evictions>,
    /// Losses by session, except those that attachments still count.
    losses: BTreeMap<SessionId, Losses>,
    destroyed: VecDeque<DestroyedSession>,
    refused: HashSet<Refusal>,
    /// Removals of closed traces that are in progress.
    pub(crate) clear_jobs: Vec<ClearJob>,
    /// Sessions that are forwarded to relays, also destroyed ones.
    pub(crate) forwardings: Forwardings,
    /// Removals of chunks that are in progress.
    pub(crate) chunk_removals: Vec<ChunkRemoval>,
    /// Chunks of sessions that were destroyed, for the processes that run commands for them.
    pub(crate) retired_chunks: VecDeque<RetiredChunks>,
}

/// Losses of a destroyed session, for `blkkin status`.
#[derive(Debug)]
struct DestroyedSession {
    uid: u32,
    session: String,
    losses: Losses,
}

/// A stored refusal: a program did not get rings for a channel, or its connection was refused
/// ([`CONNECTION`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Refusal {
    session: SessionId,
    channel: usize,
    pid: u32,
}

/// Maximum number of a user's destroyed sessions whose losses are kept.
const DESTROYED_MAX: usize = 16;
/// Value of `Refusal::channel` for a program whose connection was refused.
const CONNECTION: usize = usize::MAX;
/// Maximum number of stored refusals. A stored refusal is not counted again.
pub(crate) const REFUSED_MAX: usize = 4096;
/// Maximum total size of the saved directory paths of a session's suspended traces, in bytes.
const SAVED_PATHS_MAX: usize = 1 << 20;
/// Maximum number of suspended traces that are kept when the sessions are saved.
const SUSPENDED_MAX: usize = 16_384;
/// Maximum number of suspended traces of one process.
const SUSPENDED_OF_PROCESS_MAX: usize = 64;

impl Sessions {
    pub(crate) fn new(mut saved: SavedState, notebook: Notebook) -> Sessions {
        let list = &saved.sessions;
        // The forwarder reports how much of a spool the relay lacks.
        for session in list.iter().filter(|session| saved.forwardings.is_spool(session.id)) {
            session.size_limit.await_size();
        }
        saved.forwardings.end_missing(|id| list.iter().any(|session| session.id == id));
        Sessions {
            next: saved.last_number().map_or(1, |last| last + 1),
            list: saved.sessions,
            sampling: saved.sampling,
            clocks: Clocks::new(),
            page_cache: None,
            notebook,
            suspended: saved.traces,
            ended: saved.ended,
            evictions: BTreeMap::new(),
            losses: saved.losses,
            destroyed: VecDeque::new(),
            refused: HashSet::new(),
            clear_jobs: Vec::new(),
            forwardings: saved.forwardings,
            chunk_removals: Vec::new(),
            retired_chunks: VecDeque::new(),
        }
    }

    /// Returns whether there are no sessions, suspended traces or sampling rules.
    pub(crate) fn is_unused(&self) -> bool {
        self.list.is_empty()
            && self.suspended.is_empty()
            && self.sampling.is_empty()
            && self.forwardings.is_empty()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.list.iter().find(|session| session.id == id)
    }

    /// Returns whether a channel of a session was removed.
    pub(crate) fn has_removed(&self, key: ChannelKey) -> bool {
        let channel = self.get(key.session).and_then(|one| one.channels.get(key.channel));
        channel.is_some_and(|channel| channel.is_removed)
    }

    /// Returns true if an active session has a channel for events of the kernel.
    pub(crate) fn record_kernel(&self) -> bool {
        let mut active = self.list.iter().filter(|session| session.is_active());
        active.any(|session| session.channels.iter().any(|one| one.is_kernel && !one.is_removed))
    }

    pub(crate) fn position(&self, id: SessionId) -> Option<usize> {
        self.list.iter().position(|session| session.id == id)
    }

    /// Lets the forwarder find what was written since the last declaration.
    pub(crate) fn wake_forwarders(&mut self) {
        let Sessions { list, forwardings, .. } = self;
        for (id, completeness) in forwardings.completeness() {
            if let Some(session) = list.iter().find(|session| session.id == id) {
                completeness.declare(None, session.size_limit.changes(), &session.output);
            }
        }
    }

    /// Notes the packets of forwarded sessions that were written, with the last time in each.
    pub(crate) fn note_written(&mut self, clock: Clock, written: &[(SessionId, u64)]) {
        let Sessions { list, forwardings, .. } = self;
        for (id, completeness) in forwardings.completeness() {
            let Some(session) = list.iter().find(|session| session.id == id) else { continue };
            for (_, end) in written.iter().filter(|(session, _)| *session == id) {
                completeness.note(session.rates.time_ns(clock, *end).unwrap_or(0));
            }
        }
    }

    /// Counts packets of a spool that the forwarder has dropped.
    pub(crate) fn count_dropped(&mut self, dropped: DroppedPackets) {
        let DroppedPackets { number, packets, bytes, .. } = dropped;
        if let Some(session) = self.get(number) {
            session.size_limit.remove(bytes);
        }
        let mut losses = Losses::default();
        let reason = "the oldest packets made room for newer ones before the relay had them";
        losses.add(Cause::Size, Amount::packets(packets).because(Some(reason.to_owned())));
        self.count_loss(number, &losses);
    }

    /// Returns the retention that a session's creator has stated, as a reply to a command.
    pub(crate) fn retention_reply(&self, id: SessionId) -> Vec<Reply> {
        let retention = self.get(id).map(|session| session.retention);
        let stated = retention.filter(|retention| *retention != Retention::default());
        stated.map(Reply::Retention).into_iter().collect()
    }

    /// Returns the reach of the rings of a session for snapshots, as replies to a command.
    pub(crate) fn reaches<'p>(
        &mut self,
        id: SessionId,
        programs: impl Iterator<Item = &'p Program>,
    ) -> Vec<Reply> {
        let session = self.list.iter_mut().find(|session| session.id == id);
        session.map_or(Vec::new(), |one| reach::replies(one, &mut self.clocks, programs))
    }

    /// Returns the id for a new session.
    pub(crate) fn take_number(&mut self) -> SessionId {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Counts a loss, and appends a note of it for the next agent.
    pub(crate) fn count_loss(&mut self, session: SessionId, losses: &Losses) {
        if losses.is_empty() {
            return;
        }
        let own = self.losses.entry(session).or_default();
        own.add_all(losses);
        // A session that is not in the list is being destroyed. Its losses are reported at the end,
        // and need no note.
        let Some(session) = self.list.iter().find(|one| one.id == session) else { return };
        for loss in own.messages(&session.name, false).filter(|loss| losses.has(loss.cause)) {
            self.notebook.add(&StateRecord::Loss(SavedLoss { number: session.id, loss }));
        }
    }

    /// Counts a program that was refused rings, once for each channel. If too many refusals are
    /// stored, those of processes that are not connected are dropped. `connected` returns the
    /// process ids of connected programs.
    pub(crate) fn count_refused(
        &mut self,
        key: ChannelKey,
        pid: u32,
        error: &io::Error,
        connected: impl FnOnce() -> HashSet<u32>,
    ) {
        let ChannelKey { session, channel } = key;
        self.forget_refusals(connected);
        // While the maximum number of refusals is stored, each attempt is counted.
        let is_known = self.refused.len() < REFUSED_MAX
            && !self.refused.insert(Refusal { session, channel, pid });
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

    /// Forgets the refusals of processes that are not connected, once there are too many.
    fn forget_refusals(&mut self, connected: impl FnOnce() -> HashSet<u32>) {
        if self.refused.len() >= REFUSED_MAX {
            let pids = connected();
            self.refused.retain(|refusal| pids.contains(&refusal.pid));
        }
    }

    /// Counts a program whose connection was refused, once for each active session that would
    /// record it. Counts nothing while [`REFUSED_MAX`] refusals are stored.
    pub(crate) fn count_refused_connection(
        &mut self,
        peer: Peer,
        reason: String,
        inspector: &ProcessInspector,
        connected: impl Fn() -> HashSet<u32>,
    ) {
        self.forget_refusals(&connected);
        let Peer { pid, uid, .. } = peer;
        let is_meant =
            |one: &&Session| one.is_active() && (one.is_privileged || one.owner.uid == uid);
        let refusal = |session| Refusal { session, channel: CONNECTION, pid };
        let meant = self.list.iter().filter(is_meant).map(|session| session.id);
        let new: Vec<SessionId> =
            meant.filter(|session| !self.refused.contains(&refusal(*session))).collect();
        if new.is_empty() || self.refused.len() >= REFUSED_MAX {
            return;
        }
        let Ok(process) = inspector.inspect(pid, uid) else { return };
        let error = io::Error::new(io::ErrorKind::QuotaExceeded, reason);
        for id in new {
            let channels = self.get(id).map_or(&[][..], |session| &session.channels);
            if channels.iter().any(|channel| !channel.rules_for(&process).is_empty()) {
                let key = ChannelKey { session: id, channel: CONNECTION };
                self.count_refused(key, pid, &error, &connected);
            } else {
                // Stores the refusal uncounted, so that the process is not inspected again.
                self.refused.insert(refusal(id));
            }
        }
    }

    /// Returns the loss of an earlier agent's traces whose programs have not reconnected to this
    /// agent. Their rings hold an unknown number of events.
    pub(crate) fn unreturned_losses(&self, session: SessionId) -> Losses {
        let own = self.suspended.values().filter(|one| one.is_earlier && one.session == session);
        let mut losses = Losses::default();
        losses.add(Cause::AgentAway, Amount::uncounted(own.count() as u64));
        losses
    }

    /// Counts the losses of an earlier agent's traces whose programs have ended. The programs'
    /// rings are lost.
    pub(crate) fn count_cut_off(&mut self) {
        self.count_earlier(Cause::CutOff, |trace| !may_run(trace.pid));
    }

    /// Counts an earlier agent's traces of process `pid` as lost. The process has reconnected
    /// without continuing them.
    pub(crate) fn count_given_up(&mut self, pid: u32) {
        self.count_earlier(Cause::AgentAway, |trace| trace.pid == pid);
    }

    fn count_earlier(&mut self, cause: Cause, is_meant: impl Fn(&SuspendedTrace) -> bool) {
        let gone = self.suspended.extract_if(|_, trace| trace.is_earlier && is_meant(trace));
        for session in gone.map(|(_, trace)| trace.session).collect::<Vec<SessionId>>() {
            let mut losses = Losses::default();
            losses.add(cause, Amount::uncounted(1));
            self.count_loss(session, &losses);
        }
    }

    /// Adds the counters of an ended attachment's rings to the channel's totals, and the
    /// attachment's losses to the session's losses.
    pub(crate) fn count_ended(&mut self, attachment: &Attachment) {
        let key = attachment.key();
        let totals = self.ended.entry(key).or_default();
        for ring in 0..attachment.rings.count() {
            let counts = attachment.rings.counts(ring);
            totals.rings += 1;
            // Programs report these counts, and a hostile program may report any number.
            let discarded = attachment.rings.discarded(ring);
            totals.discarded = totals.discarded.saturating_add(discarded);
            let recorded = attachment.rings.recorded(ring);
            totals.recorded = Some(totals.recorded.unwrap_or(0).saturating_add(recorded));
            totals.packets += counts.packets;
            totals.packets_lost += counts.packets_lost;
            totals.bytes += counts.bytes;
            totals.cut = totals.cut.saturating_add(attachment.rings.events_cut(ring));
        }
        attachment.rings.note_counted();
        self.note_totals(key);
        self.count_loss(key.session, &attachment.losses_so_far());
    }

    /// Counts as lost the packets that an ended attachment could not write.
    pub(crate) fn count_unwritten(&mut self, attachment: &Attachment) {
        let lost = &mut self.ended.entry(attachment.key()).or_default().packets_lost;
        *lost = lost.saturating_add(attachment.packets_waiting());
        self.count_loss(attachment.session, &attachment.unread_losses());
    }

    /// Counts rings of an earlier agent that are lost: adds `rings` and `packets` to the channel's
    /// totals, and `losses` to the session's losses.
    pub(crate) fn count_lost_rings(
        &mut self,
        key: ChannelKey,
        rings: u32,
        packets: u64,
        losses: &Losses,
    ) {
        let totals = self.ended.entry(key).or_default();
        totals.rings += rings;
        totals.packets_lost = totals.packets_lost.saturating_add(packets);
        self.note_totals(key);
        self.count_loss(key.session, losses);
    }

    /// Returns the counters of a channel's evicted rings, for changing them.
    pub(crate) fn evictions_of(&mut self, key: ChannelKey) -> &mut Evictions {
        self.evictions.entry(key).or_default()
    }

    /// Returns the counters of a channel's evicted rings; `None` if no ring was evicted.
    pub(crate) fn evictions(&self, key: ChannelKey) -> Option<Evictions> {
        self.evictions.get(&key).copied().filter(|evictions| evictions.rings > 0)
    }

    /// Resets the counters of evicted rings in all channels of a session.
    pub(crate) fn clear_evictions(&mut self, session: SessionId) {
        self.evictions.retain(|key, _| key.session != session);
    }

    /// Returns the totals of a channel's freed rings; `None` if no ring was freed.
    pub(crate) fn totals(&self, key: ChannelKey) -> Option<Totals> {
        self.ended.get(&key).copied()
    }

    /// Returns all losses of a session so far: the losses counted for the session, and the losses
    /// that the given programs still count.
    fn losses_of<'p>(
        &self,
        session: SessionId,
        programs: impl Iterator<Item = &'p Program>,
    ) -> Losses {
        let mut losses = self.losses.get(&session).cloned().unwrap_or_default();
        programs.for_each(|program| losses.add_all(&program.losses_of(session)));
        losses
    }

    /// Returns all losses of a session so far, as replies to a command.
    pub(crate) fn loss_replies<'p>(
        &self,
        session: &Session,
        programs: impl Iterator<Item = &'p Program>,
    ) -> Vec<Reply> {
        let losses = self.losses_of(session.id, programs);
        losses.messages(&session.name, false).map(Reply::Loss).collect()
    }

    /// Returns all losses at the end of a recording, as replies to a command. They include the loss
    /// of an earlier agent's traces whose programs have not reconnected.
    pub(crate) fn final_loss_replies<'p>(
        &self,
        session: &Session,
        programs: impl Iterator<Item = &'p Program>,
    ) -> Vec<Reply> {
        let mut losses = self.losses_of(session.id, programs);
        losses.add_all(&self.unreturned_losses(session.id));
        losses.messages(&session.name, false).map(Reply::Loss).collect()
    }

    /// Archives the losses of a destroyed session for `blkkin status`, and returns them as replies
    /// to the command.
    pub(crate) fn archive_losses(
        &mut self,
        id: SessionId,
        session: String,
        uid: u32,
        accounts: &Accounts,
    ) -> Vec<Reply> {
        // Programs that reconnect later have no session for their rings, so the rings are counted
        // as lost.
        self.count_loss(id, &self.unreturned_losses(id));
        self.ended.retain(|key, _| key.session != id);
        self.clear_evictions(id);
        let losses = self.losses.remove(&id).unwrap_or_default();
        self.refused.retain(|refusal| refusal.session != id);
        let replies = losses.messages(&session, true).map(Reply::Loss).collect();
        if !losses.is_empty() {
            self.destroyed.push_back(DestroyedSession { uid, session, losses });
            let owner = accounts.owner_of(uid);
            let is_own = |one: &DestroyedSession| accounts.owner_of(one.uid) == owner;
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

    /// Returns the losses of destroyed sessions as replies; `is_meant` selects the sessions by the
    /// owner's user id.
    pub(crate) fn destroyed_losses(&self, is_meant: impl Fn(u32) -> bool) -> Vec<Reply> {
        let own = self.destroyed.iter().filter(|one| is_meant(one.uid));
        own.flat_map(|one| one.losses.messages(&one.session, true)).map(Reply::Loss).collect()
    }

    /// Excludes `trace`, which was open until now, from pending removals of the session's traces.
    pub(crate) fn spare(&mut self, session: SessionId, trace: &Path) {
        for job in self.clear_jobs.iter_mut().filter(|job| job.session == session) {
            job.spare(trace);
        }
    }

    /// Adds a trace that its program may continue, unless the process has too many suspended
    /// traces.
    pub(crate) fn suspend(&mut self, note: &Note) {
        let trace = note.suspended();
        let same = self.suspended.values().filter(|other| other.pid == trace.pid).count();
        if same < SUSPENDED_OF_PROCESS_MAX {
            self.suspended.insert(note.uuid(), trace);
        }
    }

    /// Saves all sessions, sampling rules and traces for the next agent, except suspended traces
    /// that exceed a limit. `open` iterates over the notes of open traces.
    pub(crate) fn save<'n>(&mut self, open: impl Iterator<Item = &'n Note>) {
        // Counts an earlier agent's traces of ended programs as lost. They are dropped below.
        self.count_cut_off();
        let (sessions, mut room) = (&self.list, SUSPENDED_MAX);
        self.suspended.retain(|_, trace| {
            let is_wanted = sessions.iter().any(|one| one.id == trace.session)
                && may_run(trace.pid)
                && room > 0;
            room -= usize::from(is_wanted);
            is_wanted
        });
        let mut bytes = Vec::new();
        let mut note = |saved: StateRecord| {
            // Encoding cannot fail: all values come from messages or fit into messages, so they are
            // within the limits.
            let _ = encode(&saved, &mut bytes);
        };
        for session in &self.list {
            note(StateRecord::Session(SavedSession {
                number: session.id,
                state: session.state(),
                group: session.owner.gid,
                is_privileged: session.is_privileged,
                snapshots: session.snapshots,
            }));
            if let Some(size_max) = session.size_limit.size_max() {
                note(StateRecord::Limit(SavedLimit { number: session.id, size_max }));
            }
            if session.direct.is_some() {
                note(StateRecord::Direct(session.id));
            }
            if session.retention != Retention::default() {
                let (number, retention) = (session.id, session.retention);
                note(StateRecord::Retention(SavedRetention { number, retention }));
            }
            session.chunks.iter().flat_map(|one| one.saved(session.id)).for_each(&mut note);
            for channel in &session.channels {
                note(match channel.is_kernel {
                    true => StateRecord::KernelChannel(channel.channel.clone()),
                    false => StateRecord::Channel(channel.channel.clone()),
                });
                channel.sharing.iter().cloned().map(StateRecord::Sharing).for_each(&mut note);
                if channel.is_removed {
                    note(StateRecord::Removed);
                }
            }
            for channel in &session.channels {
                channel
                    .rule_messages(StateRecord::Rule, StateRecord::RedactedRule)
                    .for_each(&mut note);
            }
            self.saved_counters(session).into_iter().for_each(&mut note);
        }
        for (user, rules) in &self.sampling {
            let rules = rules.rules.clone();
            note(StateRecord::Sampling(SavedSampling { user: *user, rules }));
        }
        let mut room: HashMap<SessionId, usize> =
            self.list.iter().map(|one| (one.id, SAVED_PATHS_MAX)).collect();
        for (uuid, trace) in &self.suspended {
            let Some(room) = room.get_mut(&trace.session) else { continue };
            let Some(left) = room.checked_sub(trace.directory.as_os_str().len()) else { continue };
            *room = left;
            let name = self.get(trace.session).map(|one| one.name.clone()).unwrap_or_default();
            note(saved_trace(*uuid, name, trace.clone()));
        }
        open.map(Note::saved).for_each(&mut note);
        // An older agent reads up to the first record that it does not know.
        self.forwardings.tasks().map(StateRecord::Forward).for_each(&mut note);
        self.notebook.replace(&bytes);
    }

    /// Returns the losses and totals of a session, as notes for the next agent.
    fn saved_counters(&self, session: &Session) -> Vec<StateRecord> {
        let losses = self.losses.get(&session.id).into_iter();
        let losses = losses.flat_map(|losses| losses.messages(&session.name, false));
        let losses = losses.map(|loss| StateRecord::Loss(SavedLoss { number: session.id, loss }));
        let ended = (0..session.channels.len()).filter_map(|at| self.saved_totals(session, at));
        losses.chain(ended).collect()
    }

    fn saved_totals(&self, session: &Session, channel: usize) -> Option<StateRecord> {
        let totals = self.totals(ChannelKey { session: session.id, channel })?;
        let ended = totals.message(&session.name, &session.channels.get(channel)?.channel.name);
        Some(StateRecord::Ended(SavedRingTotals { number: session.id, ended }))
    }

    /// Appends a note of a channel's totals for the next agent.
    fn note_totals(&self, key: ChannelKey) {
        let saved = self.get(key.session).and_then(|one| self.saved_totals(one, key.channel));
        saved.iter().for_each(|saved| self.notebook.add(saved));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    fn sessions(directory: &tempfile::TempDir) -> Sessions {
        let notebook = Notebook::of(&directory.path().join("agent.sock"), |_| ());
        Sessions::new(SavedState::default(), notebook)
    }

    const SESSION: SessionId = 7;

    fn uncounted(sessions: &Sessions, cause: Cause) -> u64 {
        sessions.losses.get(&SESSION).map_or(0, |losses| losses.uncounted(cause))
    }

    /// Each refused program is counted, even after refusals of ended programs were dropped.
    #[test]
    fn refused_programs_are_counted_however_many_there_were() {
        let directory = tempfile::tempdir().unwrap();
        let mut sessions = sessions(&directory);
        let error = io::Error::other("no reason");
        let programs = REFUSED_MAX as u32 + 100;
        let key = ChannelKey { session: SESSION, channel: 0 };
        sessions.count_refused(key, 0, &error, HashSet::new);
        for pid in 0..programs {
            sessions.count_refused(key, pid, &error, HashSet::new);
        }
        assert_eq!(uncounted(&sessions, Cause::Attach), u64::from(programs));
        assert!(sessions.refused.len() <= REFUSED_MAX);
    }

    /// An earlier agent's trace whose program has ended is counted as lost before its note is
    /// dropped.
    #[test]
    fn programs_that_end_unseen_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut sessions = sessions(&directory);
        let mut program = Command::new("true").spawn().unwrap();
        let begun = |pid| {
            let directory = PathBuf::from("/nowhere");
            SuspendedTrace { session: SESSION, pid, directory, is_earlier: true }
        };
        sessions.suspended.insert([1; 16], begun(program.id()));
        sessions.suspended.insert([2; 16], begun(std::process::id()));
        program.wait().unwrap();
        sessions.save(std::iter::empty());
        assert_eq!(uncounted(&sessions, Cause::CutOff), 1);
    }
}
