//! Programs of all users: connected programs, and programs whose connection has ended.
//!
//! A program that still runs may reconnect with its rings. Its state and its open traces are kept
//! for the time of an [`Absence`]. Rings that are kept for snapshots outlive their program as long
//! as the user's quota permits.

use crate::absence::Absence;
use crate::attachment::Attachment;
use crate::catalog::Catalog;
use crate::clock::Reading;
use crate::log::Log;
use crate::losses::Losses;
use crate::notebook::Note;
use crate::program::{CATALOG_LIMITS, Message, Program};
use crate::quota::{Account, Quota};
use crate::session::SessionId;
use crate::sessions::Sessions;
use crate::source::{ConnectionId, EACH_WRITE, Poller, Source};
use crate::trace::Trace;
use blkkin_control::SpanSlot;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connected and departed programs. A departed program has disconnected, but its rings may still be
/// needed.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) connected: BTreeMap<ConnectionId, Program>,
    /// Departed programs in the order of their disconnection. They may reconnect, or their rings
    /// are kept for snapshots.
    departed: VecDeque<Program>,
    /// Poller of the eventfds of connected programs.
    poller: Arc<Poller>,
}

/// Maximum number of departed programs of one user whose state is kept.
const DEPARTED_MAX: usize = 64;
/// Maximum time that an ending agent waits for the end of programs.
const LAST_WAIT: Duration = Duration::from_millis(50);

impl Programs {
    pub(crate) fn new(poller: Arc<Poller>) -> Programs {
        Programs { connected: BTreeMap::new(), departed: VecDeque::new(), poller }
    }

    /// Returns all programs, the connected ones first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Program> {
        self.connected.values().chain(&self.departed)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Program> {
        self.connected.values_mut().chain(&mut self.departed)
    }

    /// Returns the departed programs.
    pub(crate) fn departed_mut(&mut self) -> impl Iterator<Item = &mut Program> {
        self.departed.iter_mut()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Program> {
        self.connected.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Program> {
        self.connected.get_mut(&id)
    }

    /// Returns the connections of the programs that satisfy `is_meant`.
    pub(crate) fn ids(&self, is_meant: impl Fn(&Program) -> bool) -> Vec<ConnectionId> {
        self.connected.iter().filter(|(_, one)| is_meant(one)).map(|(id, _)| *id).collect()
    }

    /// Returns the places at which threads of connected programs show their current spans. Each
    /// library in a process has a place of its own.
    pub(crate) fn span_slots(&self) -> impl Iterator<Item = SpanSlot> {
        let slots = self
            .connected
            .values()
            .map(|program| SpanSlot { process: program.process.pid, offset: program.span_slot() });
        slots.filter(|slot| slot.offset != 0)
    }

    /// Returns the process ids of connected programs.
    pub(crate) fn pids(&self) -> HashSet<u32> {
        self.connected.values().map(|program| program.process.pid).collect()
    }

    /// Returns the notes of all open traces, for the next agent.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &Note> {
        self.all().flat_map(|program| program.traces.values()).filter_map(Trace::note)
    }

    /// Saves the sessions as a whole if many notes were appended since the last save.
    pub(crate) fn save_if_long(&self, sessions: &mut Sessions) {
        if sessions.notebook.is_long(self.connected.len()) {
            sessions.save(self.notes());
        }
    }

    /// Returns the time of the next deadline or check of a departed program.
    pub(crate) fn next_absence(&self) -> Option<Instant> {
        self.departed.iter().filter_map(|one| one.absence.as_ref()).map(Absence::next).min()
    }

    /// Handles the end of a program's connection: writes the packets in its rings, and begins an
    /// absence. If the program ends, its recordings are ended instead. `has_ended` is set if the
    /// process is known to have ended.
    pub(crate) fn disconnect(
        &mut self,
        id: ConnectionId,
        has_ended: bool,
        sessions: &mut Sessions,
        log: &Log,
    ) {
        let Some(mut program) = self.connected.remove(&id) else { return };
        self.poller.remove(&program.wake);
        program.next_drain = None;
        // Numbers of `Pong`s and of the program's rings are valid in one connection only.
        program.recovery.disconnect();
        let refused = program.catalog.as_ref().map_or(0, Catalog::refused);
        if refused > 0 {
            log.about(
                program.account.uid(),
                &format!(
                    "{}: {refused} event types were not recorded: too many ({} at most, fewer with \
                     long descriptions), or not what types may be",
                    program.title(),
                    CATALOG_LIMITS.types
                ),
            );
        }
        if program.is_ending || has_ended {
            end_recordings(&mut program, sessions, log);
        } else {
            let drain = program.drain_all(None);
            log_unwritten(&program, drain.trouble, log);
            program.absence = Some(Absence::begin(Instant::now(), program.has_unsealed()));
        }
        drop_removed(&mut program, sessions);
        if program.attachments.is_empty() {
            close_traces(&mut program, &HashSet::new(), sessions);
            return;
        }
        let uid = program.account.uid();
        self.departed.push_back(program);
        if self.departed.iter().filter(|one| one.account.uid() == uid).count() > DEPARTED_MAX {
            self.forget_departed(uid, sessions, log);
        }
    }

    /// Ends each absence whose deadline has passed, or whose process has ended.
    pub(crate) fn end_absences(&mut self, now: Instant, sessions: &mut Sessions, log: &Log) {
        let is_due = |one: &Program| one.absence.is_some_and(|absence| absence.next() <= now);
        while let Some(at) = self.departed.iter().position(is_due) {
            let one = &mut self.departed[at];
            let pid = one.process.pid;
            if one.absence.as_mut().is_some_and(|absence| absence.is_over(pid, now)) {
                self.end_absence(at, sessions, log);
            }
        }
    }

    fn end_absence(&mut self, at: usize, sessions: &mut Sessions, log: &Log) {
        let Some(mut program) = self.departed.remove(at) else { return };
        end_recordings(&mut program, sessions, log);
        drop_removed(&mut program, sessions);
        if !program.attachments.is_empty() {
            self.departed.insert(at, program);
        }
    }

    /// Ends the oldest absence among a user's programs whose packets are written to traces.
    /// Programs with unsealed rings are chosen last. Returns false if there is no such program.
    fn end_oldest_absence(&mut self, uid: u32, sessions: &mut Sessions, log: &Log) -> bool {
        let is_absent = |one: &Program| {
            one.account.uid() == uid
                && one.absence.is_some()
                && one.attachments.iter().any(|attachment| attachment.is_written)
        };
        let oldest = self.oldest(is_absent);
        oldest.map(|oldest| self.end_absence(oldest, sessions, log)).is_some()
    }

    /// Returns the index of the oldest departed program that satisfies `is_meant`. Programs with
    /// unsealed rings are chosen last.
    fn oldest(&self, is_meant: impl Fn(&Program) -> bool) -> Option<usize> {
        let first = |is_wanted: &dyn Fn(&Program) -> bool| {
            self.departed.iter().position(|one| is_meant(one) && is_wanted(one))
        };
        first(&|one| !one.has_unsealed()).or_else(|| first(&|_| true))
    }

    /// Ends absences of a user's programs, the oldest first, until `has_room` returns true or
    /// [`end_oldest_absence`](Self::end_oldest_absence) finds no program.
    pub(crate) fn free_absent(
        &mut self,
        account: &Account,
        has_room: impl Fn() -> bool,
        sessions: &mut Sessions,
        log: &Log,
    ) {
        while !has_room() && self.end_oldest_absence(account.uid(), sessions, log) {}
    }

    /// Ends absences of a user's programs, like [`free_absent`](Self::free_absent), until `more`
    /// descriptors are within the quota.
    pub(crate) fn free_descriptors(
        &mut self,
        account: &Account,
        more: u64,
        sessions: &mut Sessions,
        log: &Log,
    ) {
        self.free_absent(account, || account.has(Quota::Descriptors, more), sessions, log);
    }

    /// Writes all packets of departed programs, when the agent ends. Unsealed rings can be read
    /// only when their program has ended, so the agent waits up to [`LAST_WAIT`] for programs that
    /// are about to end.
    pub(crate) fn end_all_absences(&mut self, sessions: &mut Sessions, log: &Log) {
        let deadline = Instant::now() + LAST_WAIT;
        let is_open = |one: &Program| one.absence.is_some() && one.has_unsealed();
        loop {
            let has_ended = |one: &Program| one.absence.is_some() && !one.may_reconnect();
            while let Some(at) = self.departed.iter().position(has_ended) {
                self.end_absence(at, sessions, log);
            }
            if Instant::now() >= deadline || !self.departed.iter().any(is_open) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for mut program in std::mem::take(&mut self.departed) {
            let mut drain = program.drain_all(None);
            program.write_discarded(None, &mut drain);
            log_unwritten(&program, drain.trouble, log);
        }
    }

    /// Frees memory of a user's rings. Ends the user's oldest absence. Without an absence, evicts a
    /// set of adopted rings that is kept for snapshots, or else drops the user's oldest departed
    /// program. Returns false if nothing could be freed.
    pub(crate) fn free_rings(&mut self, uid: u32, sessions: &mut Sessions, log: &Log) -> bool {
        if self.end_oldest_absence(uid, sessions, log) {
            return true;
        }
        for program in self.all_mut().filter(|one| one.account.uid() == uid) {
            for attachment in &mut program.attachments {
                let evictions = sessions.evictions_of(attachment.key());
                if let Some(set) = attachment.evict_oldest(evictions) {
                    program.recovery.finish([set]);
                    program.next_drain = Some(Instant::now());
                    return true;
                }
            }
        }
        self.forget_departed(uid, sessions, log)
    }

    /// Drops the user's oldest departed program, after writing its packets. Programs with unsealed
    /// rings are chosen last. Returns false if the user has no departed program.
    fn forget_departed(&mut self, uid: u32, sessions: &mut Sessions, log: &Log) -> bool {
        let oldest = self.oldest(|one| one.account.uid() == uid);
        let Some(mut departed) = oldest.and_then(|oldest| self.departed.remove(oldest)) else {
            return false;
        };
        end_recordings(&mut departed, sessions, log);
        evict_snapshot_rings(&mut departed, sessions);
        close_traces(&mut departed, &HashSet::new(), sessions);
        true
    }

    /// Returns earlier connections of the same program whose end was not reported to the agent yet.
    pub(crate) fn earlier_connections(&self, id: ConnectionId) -> Vec<ConnectionId> {
        let Some(program) = self.get(id) else { return Vec::new() };
        let earlier = self.connected.iter().filter(|(other, _)| **other != id);
        earlier.filter(|(_, one)| is_same(program, one)).map(|(other, _)| *other).collect()
    }

    /// Continues the state of a program's earlier connection to this agent, if there is any. Rings
    /// that the program has unmapped are finished. Returns messages to the program about the other
    /// rings.
    pub(crate) fn reconnect(
        &mut self,
        id: ConnectionId,
        sessions: &mut Sessions,
        log: &Log,
    ) -> io::Result<Vec<Message>> {
        let Some(program) = self.connected.get_mut(&id) else { return Ok(vec![]) };
        let before = self.departed.iter().position(|one| is_same(program, one));
        let Some(mut before) = before.and_then(|before| self.departed.remove(before)) else {
            return Ok(vec![]);
        };
        // The rings that the program still has wake the agent through the eventfd of the earlier
        // connection.
        if let Err(error) = self.poller.add(&before.wake, Source::WakeUp(id), EACH_WRITE) {
            self.departed.push_back(before);
            return Err(error);
        }
        self.poller.remove(&program.wake);
        let messages = program.continue_from(&mut before, &sessions.list);
        // Rings that the program has unmapped meanwhile are finished. Their traces may be continued
        // with new rings.
        before.traces = std::mem::take(&mut program.traces);
        before.catalog = program.catalog.take();
        let drain = before.finish(None);
        program.traces = std::mem::take(&mut before.traces);
        program.catalog = before.catalog.take();
        log_unwritten(&before, drain.trouble, log);
        for attachment in before.attachments.extract_if(.., |one| one.is_written) {
            sessions.count_ended(&attachment);
            if attachment.is_removed() {
                sessions.count_loss(attachment.session, &attachment.lost_by_renewal());
            }
        }
        evict_snapshot_rings(&mut before, sessions);
        Ok(messages)
    }

    /// Writes the packets in all rings of a session. Returns the last error.
    pub(crate) fn write_all(&mut self, session: SessionId) -> Option<io::Error> {
        let mut trouble = None;
        for program in self.all_mut() {
            trouble = program.drain_all(Some(session)).trouble.or(trouble);
        }
        trouble
    }

    /// Drops the rings of removed channels that are kept for snapshots of programs that have ended.
    pub(crate) fn drop_removed(&mut self, sessions: &mut Sessions) {
        self.departed.iter_mut().for_each(|program| drop_removed(program, sessions));
        self.departed.retain(|program| !program.attachments.is_empty());
    }

    /// Detaches a session from all programs. Connected programs have unmapped its rings, unless the
    /// time limit for this has passed. Packets are written to traces; packets kept for snapshots
    /// are dropped. Returns the last error.
    pub(crate) fn detach(
        &mut self,
        session: SessionId,
        sessions: &mut Sessions,
    ) -> Option<io::Error> {
        let mut trouble = None;
        let mut gone: Vec<Attachment> = Vec::new();
        let mut closed: Vec<Trace> = Vec::new();
        let mut types_lost: Vec<Losses> = Vec::new();
        for program in self.all_mut() {
            let count = program.attachments.len();
            trouble = program.finish(Some(session)).trouble.or(trouble);
            gone.extend(program.attachments.extract_if(.., |one| one.session == session));
            closed.extend(program.traces.remove(&session));
            program.uuids.remove(&session);
            if program.attachments.len() != count {
                types_lost.push(program.types_lost());
            }
        }
        types_lost.iter().for_each(|types| sessions.count_loss(session, types));
        for mut trace in closed {
            let uuid = trace.note().map(Note::uuid);
            let misses = |one: &Attachment| {
                Some(one.rings.shape().uuid) == uuid && one.is_written && one.packets_waiting() > 0
            };
            trace.end(gone.iter().any(misses));
            sessions.spare(session, trace.directory());
        }
        self.departed.retain(|program| !program.attachments.is_empty());
        for attachment in &gone {
            sessions.count_ended(attachment);
            sessions.count_loss(session, &attachment.unread_losses());
        }
        trouble
    }

    /// Returns the moment before which the traces of a session have all events; `None` if there was
    /// none yet. `reading` is the beginning of the last drain of rings that were due. For events of
    /// the kernel the moment is unknown: its tracer gets them later.
    pub(crate) fn complete_until(
        &mut self,
        session: SessionId,
        reading: Reading,
    ) -> Option<Reading> {
        let mut until = Some(reading);
        for program in self.all_mut() {
            let mut own = program.attachments.iter();
            if own.any(|one| one.session == session) {
                let of_program = program.complete_until(session, reading);
                let of_program = of_program.filter(|_| !program.is_kernel);
                until = until.zip(of_program).map(|(one, other)| one.earlier(other));
            }
        }
        until
    }

    /// Drops the packets of a session in open traces and in rings, except packets in unsealed
    /// rings. Calls `note` with the result of clearing each trace.
    pub(crate) fn clear(&mut self, session: SessionId, mut note: impl FnMut(io::Result<()>)) {
        for program in self.all_mut() {
            program.drop_packets(session);
            if let Some(trace) = program.traces.get_mut(&session) {
                note(trace.clear());
            }
        }
        // Programs that will not reconnect have no packets of the session any more.
        for program in self.departed.iter_mut().filter(|one| !one.may_reconnect()) {
            program.attachments.retain(|attachment| attachment.session != session);
        }
        self.departed.retain(|program| !program.attachments.is_empty());
    }

    /// Returns the program with this serial number, connected or departed.
    pub(crate) fn with_serial(&mut self, serial: u64) -> Option<&mut Program> {
        self.all_mut().find(|program| program.serial == serial)
    }
}

/// Returns whether two connections belong to one program. The catalog identifies the program: a
/// process that executes another program makes a new catalog.
fn is_same(one: &Program, other: &Program) -> bool {
    let catalog = |program: &Program| program.catalog.as_ref().map(Catalog::identity);
    (one.process.pid, one.process.uid) == (other.process.pid, other.process.uid)
        && catalog(one).is_some()
        && catalog(one) == catalog(other)
}

fn log_unwritten(program: &Program, trouble: Option<io::Error>, log: &Log) {
    if let Some(error) = trouble {
        let line = format!("{}: what it recorded last cannot be written: {error}", program.title());
        log.about(program.account.uid(), &line);
    }
}

/// Ends the recordings of a program for which the agent no longer waits: writes all packets in its
/// rings, and closes its traces. If the program reconnects nevertheless with these rings, its
/// recordings continue without a gap, in the same traces if the agent can reopen them, otherwise in
/// new ones.
fn end_recordings(program: &mut Program, sessions: &mut Sessions, log: &Log) {
    let absence = program.absence.take();
    let is_late = absence.is_some_and(|absence| absence.has_outlasted_rings(Instant::now()));
    let may_come = !is_late && program.may_reconnect();
    let drain = if may_come {
        let mut drain = program.drain_all(None);
        program.write_discarded(None, &mut drain);
        drain
    } else {
        program.finish(None)
    };
    log_unwritten(program, drain.trouble, log);
    if may_come {
        // Rings that the program has not mapped are dropped, as if they had not been sent.
        program.attachments.retain(|attachment| attachment.rings.is_sealed());
    }
    let own: HashSet<SessionId> = program.attachments.iter().map(|one| one.session).collect();
    // Sessions whose traces miss packets that could not be written.
    let mut cut: HashSet<SessionId> = HashSet::new();
    let written = program.attachments.extract_if(.., |attachment| attachment.is_written);
    for mut attachment in written.collect::<Vec<Attachment>>() {
        attachment.restart();
        sessions.count_ended(&attachment);
        if !may_come {
            // No other copy of the packets exists.
            sessions.count_unwritten(&attachment);
            if attachment.packets_waiting() > 0 {
                cut.insert(attachment.session);
            }
        }
    }
    for session in own {
        if !program.records(session) {
            sessions.count_loss(session, &program.types_lost());
        }
    }
    close_traces(program, &cut, sessions);
}

/// Closes the traces of sessions for which the program has no rings any longer. `cut` are the
/// sessions with traces that miss events.
fn close_traces(program: &mut Program, cut: &HashSet<SessionId>, sessions: &mut Sessions) {
    let own: HashSet<SessionId> = program.attachments.iter().map(|one| one.session).collect();
    let may_come = program.may_reconnect();
    let closed = program.traces.extract_if(.., |session, _| !own.contains(session));
    for (session, mut trace) in closed.collect::<Vec<(SessionId, Trace)>>() {
        if may_come {
            sessions.spare(session, trace.directory());
            trace.note().iter().for_each(|note| sessions.suspend(note));
        } else {
            end_trace(&mut trace, session, cut.contains(&session), sessions);
        }
    }
}

/// Ends a trace that nobody continues. `misses` is set if it misses events.
fn end_trace(trace: &mut Trace, session: SessionId, misses: bool, sessions: &mut Sessions) {
    sessions.spare(session, trace.directory());
    trace.note().iter().for_each(|note| note.close());
    trace.end(misses);
}

/// Drops a program's rings for removed channels, unless the program may reconnect: it is told then
/// to unmap them.
fn drop_removed(program: &mut Program, sessions: &mut Sessions) {
    if program.absence.is_some() {
        return;
    }
    let is_removed = |one: &mut Attachment| sessions.has_removed(one.key());
    let gone: Vec<Attachment> = program.attachments.extract_if(.., is_removed).collect();
    gone.iter().for_each(|one| sessions.count_ended(one));
}

/// Ends the traces of a program that had rings only for channels which were removed. A channel that
/// is made again begins another trace.
pub(crate) fn end_removed_traces(
    program: &mut Program,
    removed: &[Attachment],
    sessions: &mut Sessions,
) {
    let is_over = |session: SessionId| {
        let mut own = removed.iter().filter(|one| one.session == session);
        !program.attachments.iter().any(|one| one.session == session)
            && own.all(|one| sessions.has_removed(one.key()))
    };
    let over: HashSet<SessionId> =
        removed.iter().map(|one| one.session).filter(|session| is_over(*session)).collect();
    for session in over {
        program.uuids.remove(&session);
        let Some(mut trace) = program.traces.remove(&session) else { continue };
        let mut own = removed.iter().filter(|one| one.session == session && one.is_written);
        let misses = own.any(|one| one.packets_waiting() > 0);
        end_trace(&mut trace, session, misses, sessions);
    }
}

/// Evicts and counts all rings of a program that are kept for snapshots.
fn evict_snapshot_rings(program: &mut Program, sessions: &mut Sessions) {
    for mut attachment in program.attachments.extract_if(.., |one| !one.is_written) {
        attachment.evict_all(sessions.evictions_of(attachment.key()));
        sessions.count_ended(&attachment);
    }
}
