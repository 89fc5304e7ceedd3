//! A traced program: its process, its event types, its attachments, and the traces to which their
//! packets are written.

use crate::absence::Absence;
use crate::attachment::Attachment;
use crate::catalog::{Catalog, CatalogLimits};
use crate::clock::Reading;
use crate::losses::{Amount, Losses, cause_of};
use crate::pace::{Pace, WakeUpLimiter};
use crate::process::{Process, may_run};
use crate::quota::{Account, Share};
use crate::recovery::{OrphanedRings, Recovery};
use crate::rings::{Identity, Packets, RingCopy, RingEnds, Rings};
use crate::session::{Session, SessionId};
use crate::source::ConnectionId;
use crate::trace::Trace;
use blkkin_control::{AddChannel, Cause, Clock, KeepChannel, ToApplication};
use blkkin_ring::RingState;
use blkkin_ring::packet::Header;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A traced program, connected or departed.
#[derive(Debug)]
pub(crate) struct Program {
    /// Number of the program, unique in this agent: the id of its first connection. A later
    /// connection has the same number if it continues the program's state.
    pub(crate) serial: u64,
    pub(crate) process: Process,
    pub(crate) account: Arc<Account>,
    pub(crate) descriptors: Share,
    /// Process id in the program's own PID namespace, as the program reports it.
    pub(crate) pid_inner: u32,
    pub(crate) name: String,
    pub(crate) release: String,
    pub(crate) clock: Clock,
    /// Set for the tracer of the kernel. It records into the kernel's channels only, and other
    /// programs record into other channels only.
    pub(crate) is_kernel: bool,
    /// Event types; `None` until the program has sent `Catalog`.
    pub(crate) catalog: Option<Catalog>,
    pub(crate) attachments: Vec<Attachment>,
    /// Open traces, by session.
    pub(crate) traces: BTreeMap<SessionId, Trace>,
    /// UUIDs of the program's traces, by session.
    pub(crate) uuids: BTreeMap<SessionId, [u8; 16]>,
    /// Orphaned, drained and released rings of the program's earlier connections.
    pub(crate) recovery: Recovery,
    /// Set if the program has sent `Goodbye`.
    pub(crate) is_ending: bool,
    /// Deadlines of a disconnected program for which the agent waits; otherwise `None`.
    pub(crate) absence: Option<Absence>,
    /// Eventfd by which the program wakes the agent.
    pub(crate) wake: Arc<OwnedFd>,
    /// Number of the next channel in messages to this program.
    next_number: u32,
    /// Time of the next drain of the rings; `None` while the agent waits for a wake-up by the
    /// program.
    pub(crate) next_drain: Option<Instant>,
    pub(crate) pace: Pace,
    pub(crate) wake_ups: WakeUpLimiter,
    /// Set if the agent has requested a wake-up, and has found no event since.
    pub(crate) is_asleep: bool,
    /// Set after a failed write was logged, until no write has to be retried.
    pub(crate) has_logged_failure: bool,
    /// Number of the last `Ping` sent. `ponged` is the number of the last `Pong` received.
    pub(crate) pinged: u64,
    pub(crate) ponged: u64,
}

/// Initial state of a program that connects: facts from the kernel and from the program's `Hello`,
/// and the resources that the agent has reserved.
#[derive(Debug)]
pub(crate) struct Introduction {
    pub(crate) process: Process,
    pub(crate) account: Arc<Account>,
    pub(crate) descriptors: Share,
    pub(crate) pid_inner: u32,
    pub(crate) name: String,
    pub(crate) release: String,
    pub(crate) clock: Clock,
    pub(crate) is_kernel: bool,
    pub(crate) wake: Arc<OwnedFd>,
}

/// Number of descriptors of a program besides its connection, rings and traces: the eventfd and the
/// catalog.
pub(crate) const OWN_DESCRIPTORS: u64 = 2;
/// Limits on the event types of one program.
pub(crate) const CATALOG_LIMITS: CatalogLimits = CatalogLimits { types: 16_384, bytes: 8 << 20 };

/// Maximum ring size from which fill levels are computed, in bytes. A larger ring counts as full
/// once it has this many unread bytes. In a steady flow of events, at most about a quarter of this
/// size is unread, so unread events stay in the processor's cache.
const READ_IN_TIME: u64 = 2 << 20;

/// Number of drains that is enough to empty full rings. One drain reads as many bytes of packets as
/// fit into a ring. A full ring may hold a little more, because packet headers are made anew.
const DRAINS_OF_FULL_RINGS: u32 = 3;

/// Pause between a postponed write of metadata and the next attempt.
const METADATA_PAUSE: Duration = Duration::from_millis(20);
/// Pause between a failed write and the next attempt.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// Result of draining the rings of a program.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// Fill level of the fullest ring, in parts of 256 of the ring's size or of [`READ_IN_TIME`],
    /// whichever is smaller.
    pub(crate) fullest: u64,
    /// Set if at least one ring had packets, or if adopted rings were drained.
    pub(crate) found: bool,
    /// Last error of writing packets or sealing rings. Packets that are not written stay in the
    /// rings. When a ring is full, new events are discarded or old packets overwritten, and
    /// counted.
    pub(crate) trouble: Option<io::Error>,
    /// Sessions of the packets that were written, with the last time in each packet by the
    /// program's clock.
    pub(crate) written: Vec<(SessionId, u64)>,
}

/// A message to a program, and the descriptors that are sent with it.
pub(crate) type Message = (ToApplication, Vec<Arc<OwnedFd>>);

impl Program {
    pub(crate) fn new(id: ConnectionId, introduction: Introduction) -> Program {
        let Introduction {
            process,
            account,
            descriptors,
            pid_inner,
            name,
            release,
            clock,
            is_kernel,
            wake,
        } = introduction;
        Program {
            serial: id,
            process,
            account,
            descriptors,
            pid_inner,
            name,
            release,
            clock,
            is_kernel,
            catalog: None,
            attachments: Vec::new(),
            traces: BTreeMap::new(),
            uuids: BTreeMap::new(),
            recovery: Recovery::default(),
            is_ending: false,
            absence: None,
            wake,
            next_number: 0,
            next_drain: None,
            pace: Pace::default(),
            wake_ups: WakeUpLimiter::default(),
            is_asleep: false,
            has_logged_failure: false,
            pinged: 0,
            ponged: 0,
        }
    }

    /// Returns the program's name and process id for log lines, as in `name (123)`.
    pub(crate) fn title(&self) -> String {
        format!("{} ({})", self.name, self.process.pid)
    }

    /// Returns a new channel number for messages to the program.
    pub(crate) fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Counts a `Ping`, and returns its number. The `Pong` with this number confirms that the
    /// program has handled all earlier messages.
    pub(crate) fn ping(&mut self) -> u64 {
        self.pinged += 1;
        self.pinged
    }

    /// Handles `Pong`: seals the rings that the program has mapped by now.
    pub(crate) fn receive_pong(&mut self, number: u64) -> io::Result<()> {
        self.ponged = number.min(self.pinged);
        self.next_drain = Some(Instant::now());
        self.seal_mapped()
    }

    /// Returns the word that tells where the program's threads show their current spans; 0 if they
    /// do not.
    pub(crate) fn span_slot(&self) -> u64 {
        self.catalog.as_ref().map_or(0, Catalog::current_span)
    }

    /// Replaces the rings of the channel with this number by rings that the tracer of the kernel
    /// has made.
    pub(crate) fn replace_rings(&mut self, channel: u32, memory: &OwnedFd) -> io::Result<()> {
        let mut attachments = self.attachments.iter_mut();
        let Some(attachment) = attachments.find(|one| one.number == channel) else {
            // The channel was removed meanwhile.
            return Ok(());
        };
        attachment.rings = Rings::of_kernel(memory, &attachment.rings)?;
        let description = attachment.description.as_deref();
        description.iter().for_each(|description| attachment.rings.describe(description));
        attachment.charge_rings();
        if let Some(trace) = self.traces.get_mut(&attachment.session) {
            // If a channel of this name was removed, its streams go on. With packets numbered from
            // 0 again, readers would report lost packets.
            attachment.continue_streams(trace)?;
        }
        self.next_drain = Some(Instant::now());
        Ok(())
    }

    /// Returns whether the program may reconnect: it has not sent `Goodbye`, and its process may
    /// still run.
    pub(crate) fn may_reconnect(&self) -> bool {
        !self.is_ending && may_run(self.process.pid)
    }

    /// Returns whether the program has an attachment for a session.
    pub(crate) fn records(&self, session: SessionId) -> bool {
        self.attachments.iter().any(|attachment| attachment.session == session)
    }

    /// Returns the event types that are not recorded, as losses.
    pub(crate) fn types_lost(&self) -> Losses {
        let mut losses = Losses::default();
        let refused = self.catalog.as_ref().map_or(0, |catalog| catalog.refused());
        losses.add(Cause::EventTypes, Amount::uncounted(refused.into()));
        losses
    }

    /// Returns the losses of one session in this program so far, including refused event types.
    pub(crate) fn losses_of(&self, session: SessionId) -> Losses {
        let mut losses = Losses::default();
        let mut own = self.attachments.iter().filter(|one| one.session == session);
        if let Some(first) = own.next() {
            losses.add_all(&first.losses_so_far());
            own.for_each(|one| losses.add_all(&one.losses_so_far()));
            losses.add_all(&self.types_lost());
        }
        losses
    }

    /// Seals all rings that the program has mapped.
    fn seal_mapped(&mut self) -> io::Result<()> {
        let ponged = self.ponged;
        self.seal(|attachment| attachment.mapped <= ponged)
    }

    fn seal(&mut self, is_due: impl Fn(&Attachment) -> bool) -> io::Result<()> {
        let mut sealed = Ok(());
        for attachment in self.attachments.iter_mut().filter(|attachment| is_due(attachment)) {
            sealed = sealed.and(attachment.rings.seal());
        }
        sealed
    }

    /// Requests a wake-up by the program's next event. The caller must drain the rings once more
    /// after this. Returns true if each event that this drain misses wakes the agent.
    pub(crate) fn fall_asleep(&mut self) -> bool {
        self.is_asleep = true;
        let written = || self.attachments.iter().filter(|attachment| attachment.is_written);
        written().for_each(|attachment| attachment.rings.fall_asleep());
        blkkin_sys::barrier_for_all()
            && written().all(|attachment| attachment.rings.is_registered())
    }

    /// Sets whether the agent dozes: its next drain is far away, and threads of the program wake it
    /// when a ring fills up.
    pub(crate) fn doze(&self, is_dozing: bool) {
        for attachment in self.attachments.iter().filter(|attachment| attachment.is_written) {
            if is_dozing { attachment.rings.doze() } else { attachment.rings.rouse() }
        }
    }

    /// Withdraws the request for a wake-up: the agent polls the rings.
    pub(crate) fn wake_up(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.attachments.iter().for_each(|attachment| attachment.rings.wake_up());
        }
    }

    /// Returns whether the rings with this identity belong to an attachment of the program, or have
    /// a tombstone.
    pub(crate) fn has_mapped(&self, identity: Identity) -> bool {
        self.attachments.iter().flat_map(Attachment::identities).any(|own| own == identity)
            || self.recovery.has_tombstone(identity)
    }

    /// Returns whether there are unsealed rings. The program may not have mapped such rings yet, so
    /// they cannot be read.
    pub(crate) fn has_unsealed(&self) -> bool {
        self.attachments.iter().any(|attachment| !attachment.rings.is_sealed())
    }

    /// Returns the time of the next attempt to write; `None` unless the last write of an attachment
    /// has failed or was postponed.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.attachments.iter().filter_map(|attachment| attachment.retry).min()
    }

    /// Returns whether the last write of every written attachment has failed or was postponed.
    pub(crate) fn has_all_writes_failed(&self) -> bool {
        let mut written = self.attachments.iter().filter(|attachment| attachment.is_written);
        written.all(|attachment| attachment.retry.is_some())
    }

    /// Drains the sealed rings of one session, or of all sessions, by writing their packets to the
    /// traces. Rings that keep packets for snapshots are skipped. If `now` is given, attachments
    /// whose last write failed or was postponed are skipped until their retry is due, and the
    /// rewriting of large metadata may be postponed.
    pub(crate) fn drain(&mut self, session: Option<SessionId>, now: Option<Instant>) -> Drain {
        let mut drain = Drain::default();
        let mut packets = Packets::default();
        let mut finished = Vec::new();
        let is_due =
            |one: &Attachment| one.retry.is_none_or(|retry| now.is_none_or(|now| retry <= now));
        let readable = |one: &&mut Attachment| {
            one.is_of(session) && one.is_written && one.rings.is_sealed() && is_due(one)
        };
        let refresh = |catalog: &mut Option<Catalog>| {
            catalog.as_mut().map_or(Ok(false), |catalog| catalog.refresh(CATALOG_LIMITS))
        };
        for attachment in self.attachments.iter_mut().filter(readable) {
            let Some(trace) = self.traces.get_mut(&attachment.session) else { continue };
            attachment.attribute();
            attachment.retry = None;
            let before = attachment.write_error.take();
            let mut trouble = None;
            trace.allow_postponing(now.is_some());
            let mut fail = |error: io::Error| {
                if error.kind() == io::ErrorKind::ResourceBusy {
                    return Some(Instant::now() + METADATA_PAUSE);
                }
                trouble = Some((cause_of(&error), error.to_string()));
                drain.trouble = Some(error);
                Some(Instant::now() + TROUBLE_PAUSE)
            };
            let mut taken = 0;
            if !attachment.adopted.is_empty() {
                let written = refresh(&mut self.catalog).and_then(|_| {
                    attachment.describe(self.catalog.as_ref(), trace, &self.account)?;
                    attachment.write_adopted(trace)
                });
                match written {
                    Ok(sets) => {
                        attachment.release(&sets);
                        finished.extend(sets);
                        attachment.charge_rings();
                    }
                    Err(error) => {
                        attachment.retry = fail(error);
                        attachment.write_error = trouble;
                        continue;
                    }
                }
                drain.found = true;
            }
            for ring in 0..attachment.rings.count() {
                let mark = attachment.rings.mark(ring);
                packets.clear();
                packets.copy_events(trace.is_direct());
                attachment.rings.read_packets(ring, &mut packets, trace.room());
                if packets.is_empty() {
                    continue;
                }
                drain.found = true;
                taken += packets.size();
                // Large rings are for bursts. In a steady flow, events are drained while they are
                // in the cache.
                let ring_size = (attachment.rings.shape().ring_size() as u64).min(READ_IN_TIME);
                let fullness = packets.size() * 256 / ring_size;
                drain.fullest = drain.fullest.max(fullness);
                // A type is in the catalog before its first event is in a ring, so this refresh
                // finds the types of all events in the packets.
                let refreshed = refresh(&mut self.catalog);
                let described = refreshed
                    .and_then(|_| attachment.describe(self.catalog.as_ref(), trace, &self.account));
                let key = attachment.file_of(ring);
                trace.fit(&mut packets);
                let before = trace.size(key);
                attachment.rings.announce(ring, (before, before + packets.size()));
                match described.and_then(|()| trace.append(key, &mut packets, &attachment.rings)) {
                    Ok(()) => {
                        attachment.rings.free(ring);
                        if let Some(last) = packets.headers().last() {
                            drain.written.push((attachment.session, last.last_time));
                        }
                    }
                    Err(error) => {
                        attachment.rings.rewind(ring, mark);
                        attachment.retry = fail(error);
                    }
                }
            }
            if taken > 0 {
                attachment.charge_read(taken);
            }
            // The events that were discarded before this write belong to the cause of the earlier,
            // failed write.
            attachment.write_error = before;
            attachment.attribute();
            attachment.write_error = trouble;
        }
        self.recovery.finish(finished);
        drain
    }

    /// Returns the moment before which the traces of a session have all events of this program;
    /// `None` if there was none yet. `reading` is the beginning of the last drain of rings that
    /// were due.
    pub(crate) fn complete_until(
        &mut self,
        session: SessionId,
        reading: Reading,
    ) -> Option<Reading> {
        let trace = self.traces.get(&session);
        let mut until = Some(reading);
        for attachment in self.attachments.iter_mut().filter(|one| one.session == session) {
            let is_read = |ring| {
                let last = trace.and_then(|trace| trace.last_time(attachment.file_of(ring)));
                // A busy program has recorded again since.
                let is_later = self.clock == Clock::Tsc && last >= Some(reading.tsc);
                is_later || attachment.rings.is_drained(ring)
            };
            let is_complete = attachment.adopted.is_empty()
                && attachment.rings.is_sealed()
                && (0..attachment.rings.count()).all(is_read);
            if is_complete {
                attachment.complete_until = Some(reading);
            }
            // Rings of busy programs are rarely empty at the same moment.
            until = until.zip(attachment.complete_until).map(|(one, other)| one.earlier(other));
        }
        until
    }

    /// Returns whether there are drained sets of rings whose losses are to be saved, or for which
    /// `Release` was not sent yet.
    pub(crate) fn has_released(&self) -> bool {
        self.recovery.has_drained() || self.attachments.iter().any(Attachment::has_released)
    }

    /// Returns the attachment whose renewal would free the most memory: its index, and the number
    /// of bytes. Returns `None` if no renewal would free memory.
    pub(crate) fn most_excess(&self) -> Option<(usize, u64)> {
        let excess = self.attachments.iter().map(Attachment::excess).enumerate();
        excess.filter(|(_, excess)| *excess > 0).max_by_key(|(_, excess)| *excess)
    }

    /// Begins the removal of the rings of the attachment at index `at`. `Pong(pong)` will confirm
    /// that the program has unmapped them.
    pub(crate) fn begin_removal(&mut self, at: usize, pong: u64, now: Instant) {
        if let Some(attachment) = self.attachments.get_mut(at) {
            attachment.begin_removal(pong, now);
            self.next_drain = Some(now);
        }
    }

    /// Removes and returns the attachments whose removal is over. If there are any, writes all
    /// packets of the program first.
    pub(crate) fn take_removed(&mut self, now: Instant) -> Vec<Attachment> {
        let ponged = self.ponged;
        let is_over = |one: &Attachment| one.is_removal_over(ponged, now);
        if !self.attachments.iter().any(is_over) {
            return Vec::new();
        }
        self.drain_all(None);
        self.attachments.extract_if(.., |one| is_over(one)).collect()
    }

    /// Returns the next deadline of a removal.
    pub(crate) fn next_removal(&self) -> Option<Instant> {
        self.attachments.iter().filter_map(Attachment::removal_deadline).min()
    }

    /// Writes all packets that are in the rings now, of one session or of all sessions. The number
    /// of drains is limited, as a program may record faster than packets are written.
    pub(crate) fn drain_all(&mut self, session: Option<SessionId>) -> Drain {
        let mut last = self.drain(session, None);
        for _ in 1..DRAINS_OF_FULL_RINGS {
            if !last.found || last.trouble.is_some() {
                break;
            }
            last = self.drain(session, None);
        }
        last
    }

    /// Seals the rings, then writes all packets and the final counts. The caller removes the
    /// written attachments afterwards.
    pub(crate) fn finish(&mut self, session: Option<SessionId>) -> Drain {
        let sealed = self.seal(|attachment| attachment.is_of(session));
        self.traces.values_mut().for_each(|trace| trace.allow_postponing(false));
        let mut last = self.drain_all(session);
        last.trouble = sealed.err().or(last.trouble);
        self.write_discarded(session, &mut last);
        last
    }

    /// Writes the number of events discarded since the last packet, for each drained ring.
    pub(crate) fn write_discarded(&mut self, session: Option<SessionId>, last: &mut Drain) {
        let readable =
            |one: &&mut Attachment| one.is_of(session) && one.is_written && one.rings.is_sealed();
        for attachment in self.attachments.iter_mut().filter(readable) {
            let Some(trace) = self.traces.get_mut(&attachment.session) else { continue };
            for ring in 0..attachment.rings.count() {
                if !attachment.rings.is_drained(ring) {
                    // The number would be written before packets that are still in the ring.
                    continue;
                }
                let mut packets = Packets::default();
                let mark = attachment.rings.mark(ring);
                attachment.rings.finish(ring, &mut packets);
                if packets.is_empty() {
                    continue;
                }
                let key = attachment.file_of(ring);
                trace.fit(&mut packets);
                let before = trace.size(key);
                attachment.rings.announce(ring, (before, before + packets.size()));
                if let Err(error) = trace.append(key, &mut packets, &attachment.rings) {
                    attachment.rings.rewind(ring, mark);
                    attachment.rings.announce(ring, (before, before));
                    last.trouble = Some(error);
                }
            }
        }
    }

    /// Returns the present state of each ring of a session. Attachments with unsealed rings are
    /// skipped.
    pub(crate) fn ends_of_rings(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = ((Identity, usize), RingState)> {
        let own = self.attachments.iter().filter(move |one| one.session == session);
        let readable = own.filter(|one| one.rings.is_sealed());
        let sets = readable.flat_map(Attachment::sets);
        sets.flat_map(|set| (0..set.count()).map(|ring| ((set.identity(), ring), set.moment(ring))))
    }

    /// Continues a snapshot: copies the packets in `scope` from the rings to `trace`. Stops at the
    /// deadline `until`. Returns true once the snapshot of this program is complete.
    pub(crate) fn snapshot(
        &mut self,
        scope: SnapshotScope<'_>,
        trace: &mut Trace,
        cursor: &mut SnapshotCursor,
        until: Instant,
    ) -> io::Result<bool> {
        let mut packets = Packets::default();
        loop {
            let readable = |one: &&mut Attachment| {
                one.session == scope.session
                    && one.rings.is_sealed()
                    && one.channel >= cursor.channel
            };
            let next = self.attachments.iter_mut().filter(readable).min_by_key(|one| one.channel);
            let Some(attachment) = next else { return Ok(true) };
            if attachment.channel > cursor.channel {
                *cursor = SnapshotCursor::at(attachment.channel);
            }
            let ring = cursor.ring;
            if ring >= attachment.rings.count() {
                *cursor = SnapshotCursor::at(cursor.channel + 1);
                continue;
            }
            packets.clear();
            cursor.copy_piece(&attachment.kept_sets(ring), scope, &mut packets);
            if !packets.is_empty() {
                if let Some(catalog) = &mut self.catalog {
                    catalog.refresh(CATALOG_LIMITS)?;
                    let types = catalog.types();
                    if types.len() > cursor.types {
                        cursor.types = types.len();
                        attachment.history.restart();
                        let stream = attachment.stream();
                        attachment.history.describe(types, trace, stream, &self.account);
                    }
                }
                trace.append(attachment.file_of(ring), &mut packets, &attachment.rings)?;
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Drops the unwritten packets of a session, except packets in unsealed rings.
    pub(crate) fn drop_packets(&mut self, session: SessionId) {
        let mut done = Vec::new();
        for attachment in self.attachments.iter_mut().filter(|one| one.session == session) {
            if !attachment.rings.is_sealed() {
                // The program may still record into the adopted rings.
                attachment.skip_adopted();
                continue;
            }
            done.append(&mut attachment.adopted);
            attachment.charge_rings();
            (0..attachment.rings.count()).for_each(|ring| attachment.rings.forget(ring));
        }
        self.recovery.finish(done);
    }

    /// Returns whether the program has handled all messages that preceded `Ping(ping)`.
    pub(crate) fn has_confirmed(&self, ping: u64) -> bool {
        self.ponged >= ping
    }
}

/// Packets that a snapshot copies: those of a session, up to an end in each ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotScope<'s> {
    /// Number of the session whose rings are copied.
    pub(crate) session: SessionId,
    /// State of each ring at which the snapshot stops. A ring without an end is copied whole.
    pub(crate) ends: &'s RingEnds,
    /// Time of the program's clock before which no copied packet has ended; `None` for no limit.
    pub(crate) since: Option<u64>,
}

/// Position up to which a snapshot has copied a program's rings.
#[derive(Debug, Default)]
pub(crate) struct SnapshotCursor {
    channel: usize,
    ring: usize,
    /// Number of types of the catalog that were already matched against the channel's rules.
    types: usize,
    /// Set of rings whose ring number `ring` is being copied; `None` before its first set.
    copy: Option<(Identity, RingCopy)>,
    /// Header of the last packet that was copied from ring number `ring`.
    last: Option<Header>,
}

impl SnapshotCursor {
    fn at(channel: usize) -> SnapshotCursor {
        SnapshotCursor { channel, ..SnapshotCursor::default() }
    }

    /// Copies the next packets of ring number `ring` from `sets`, the oldest set first, and moves
    /// on to the next set or ring once all packets are copied.
    fn copy_piece(&mut self, sets: &[&Rings], scope: SnapshotScope<'_>, packets: &mut Packets) {
        let ring = self.ring;
        let begin = |set: &Rings, last| {
            // Rings that were unsealed when the snapshot began have no end: all their packets are
            // copied.
            let end = scope.ends.get(&(set.identity(), ring)).copied();
            set.begin_copy(ring, end, scope.since, last)
        };
        let present = self.copy.take().and_then(|(identity, copy)| {
            let at = sets.iter().position(|set| set.identity() == identity)?;
            Some((at, copy))
        });
        // If the present set is not kept any longer, neither are the sets before it.
        let first = || Some((0, begin(sets.first()?, self.last)));
        if let Some((at, mut copy)) = present.or_else(first) {
            let is_done = sets[at].copy_piece(&mut copy, packets);
            self.last = packets.headers().last().copied().or(self.last);
            let next = match is_done {
                true => sets.get(at + 1).map(|set| (set.identity(), begin(set, self.last))),
                false => Some((sets[at].identity(), copy)),
            };
            if next.is_some() {
                self.copy = next;
                return;
            }
        }
        (self.ring, self.last) = (ring + 1, None);
    }
}

impl Program {
    /// Continues the state of the program's earlier connection `before`. Rings that the program has
    /// unmapped stay in `before`. Returns messages to the program about the rings in use.
    pub(crate) fn continue_from(
        &mut self,
        before: &mut Program,
        sessions: &[Session],
    ) -> Vec<Message> {
        self.serial = before.serial;
        self.wake = before.wake.clone();
        self.catalog = before.catalog.take();
        self.traces = std::mem::take(&mut before.traces);
        self.uuids = std::mem::take(&mut before.uuids);
        self.recovery.continue_from(&mut before.recovery);
        self.next_number = before.next_number;
        self.next_drain = Some(Instant::now());
        let orphaned = self.recovery.take_orphaned();
        let mut messages = Vec::new();
        for mut attachment in std::mem::take(&mut before.attachments) {
            let session = sessions.iter().find(|session| session.id == attachment.session);
            match session.and_then(|session| self.reconnect(&mut attachment, session, &orphaned)) {
                Some(message) => {
                    messages.push(message);
                    self.attachments.push(attachment);
                }
                None => before.attachments.push(attachment),
            }
        }
        let continued: HashSet<Identity> =
            self.attachments.iter().flat_map(Attachment::identities).collect();
        for rings in orphaned {
            let identity = rings.identity;
            if continued.contains(&identity) {
                // These rings stay in use; the messages name them.
            } else if self.has_mapped(identity) || before.has_mapped(identity) {
                self.recovery.release(rings.orphan.number);
            } else {
                self.recovery.keep_orphaned(rings);
            }
        }
        messages
    }

    /// Continues an attachment whose rings the program still has, or has never received. Returns
    /// the message for the program about these rings; `None` if the program has unmapped them.
    fn reconnect(
        &self,
        attachment: &mut Attachment,
        session: &Session,
        orphaned: &[OrphanedRings],
    ) -> Option<Message> {
        let find = |identity: Identity| {
            orphaned.iter().find(|one| one.identity == identity).map(|one| one.orphan)
        };
        let number_of = |identity| find(identity).map(|orphan| orphan.number);
        let channel = attachment.number;
        if let Some(own) = find(attachment.rings.identity()) {
            let orphan = (!own.is_spent).then_some(own.number)?;
            attachment.reconnect(0, number_of);
            return Some((ToApplication::KeepChannel(KeepChannel { channel, orphan }), vec![]));
        }
        if attachment.is_removed() {
            return None;
        }
        let file = attachment.rings.file()?;
        attachment.reconnect(self.pinged + 1, number_of);
        let last = attachment.adopted.last().and_then(|set| find(set.rings.identity()));
        let message = ToApplication::AddChannel(AddChannel {
            channel,
            session: session.name.clone(),
            contexts: session.channels[attachment.channel].channel.contexts.clone(),
            replaces: last.filter(|last| !last.is_spent).map(|last| last.number),
        });
        Some((message, vec![file, self.wake.clone()]))
    }
}
