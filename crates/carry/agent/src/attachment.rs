//! Attachment of a program to a channel of a session: its present rings, its rings of earlier
//! agents, and the rules in force.

use crate::catalog::Catalog;
use crate::clock::Reading;
use crate::losses::{Amount, Evictions, Losses};
use crate::quota::{Account, Share};
use crate::recovery::AdoptedRings;
use crate::resume::{ResumePoint, resume};
use crate::rings::{Identity, Packets, Rings};
use crate::rule_history::RuleHistory;
use crate::session::{RuleSet, SessionId};
use crate::trace::{StreamKey, Trace};
use blkkin_control::{Cause, RingDescription};
use blkkin_ring::ReaderState;
use std::cmp::Ordering;
use std::io;
use std::time::{Duration, Instant};

/// Key of a channel: the number of its session, and its index in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChannelKey {
    pub(crate) session: SessionId,
    pub(crate) channel: usize,
}

/// The rings that a program has for a channel, with the state of reading and writing them.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) session: SessionId,
    /// Index of the channel in the session; also the number of the channel's stream in traces.
    pub(crate) channel: usize,
    /// Number of the channel in messages to the program, unique among the program's channels.
    pub(crate) number: u32,
    pub(crate) rings: Rings,
    /// Description in the memory of `rings`, for rings that replace them.
    pub(crate) description: Option<Box<RingDescription>>,
    quota: AttachmentQuota,
    /// Number of bytes read since the user was charged for the memory of the rings.
    uncharged: u64,
    /// Moment before which the trace has all events of the channel, as far as it was noticed.
    pub(crate) complete_until: Option<Reading>,
    /// Set if packets are written to a trace continuously. Otherwise the rings keep them for
    /// snapshots.
    pub(crate) is_written: bool,
    /// Number of the `Pong` by which the program confirms the mapping of `rings`, see
    /// `Program::ping`; 0 if the program had mapped them before it reconnected.
    pub(crate) mapped: u64,
    /// Rules that were last sent to the program.
    pub(crate) rules: RuleSet,
    pub(crate) history: RuleHistory,
    /// Set if rules were sent over the present connection of the program.
    pub(crate) has_sent_rules: bool,
    /// Rings of earlier agents, the oldest first. Their packets precede those of `rings`.
    pub(crate) adopted: Vec<AdoptedRings>,
    /// Time of the next attempt to write; `None` unless the last write has failed or was postponed.
    pub(crate) retry: Option<Instant>,
    removal: Option<Removal>,
    /// Cause and error of the last failed write in the last drain; `None` if no write of that drain
    /// failed. A postponed write does not count as failed.
    pub(crate) write_error: Option<(Cause, String)>,
    /// Losses by cause. They include the first `discarded_seen` discarded events; later discarded
    /// events are not attributed to a cause yet.
    pub(crate) losses: Losses,
    discarded_seen: u64,
    /// Losses in drained sets of rings, which only this agent knows once the program has unmapped
    /// the sets.
    released: Losses,
}

/// A pending `RemoveChannel`: the program is to unmap the rings, because its user's rings hold too
/// much memory.
#[derive(Clone, Copy, Debug)]
struct Removal {
    /// Number of the `Pong` by which the program confirms the unmapping of the rings.
    pong: u64,
    /// Deadline after which the agent stops waiting for the `Pong`.
    until: Instant,
}

/// Shares of the user's quota that an attachment has reserved.
#[derive(Debug)]
pub(crate) struct AttachmentQuota {
    /// Memory of `rings` and of the adopted rings, in bytes.
    pub(crate) ring_bytes: Share,
    /// Memory of all types in the program's catalog, in bytes: an upper bound for the types that
    /// the attachment's stream describes.
    pub(crate) type_bytes: Share,
    /// Descriptors of the rings' memory and the stream's files.
    pub(crate) _descriptors: Share,
}

/// Number of bytes read between two charges of the memory of the rings.
const CHARGE_STEP: u64 = 16 << 10;

/// Memory in bytes that new rings are expected to use soon. Rings that use no more than this are
/// not replaced.
const RENEWED_MIN: u64 = 512 << 10;

/// Time limit for a program to unmap rings that use too much memory. After it, the agent abandons
/// the rings without a confirmation.
const REMOVAL_TIME: Duration = Duration::from_secs(2);

impl Attachment {
    /// Returns an attachment without rules. It keeps its packets for snapshots, and the program
    /// counts as having mapped the rings, unless the caller sets `is_written` and `mapped`.
    pub(crate) fn new(
        ChannelKey { session, channel }: ChannelKey,
        number: u32,
        rings: Rings,
        quota: AttachmentQuota,
    ) -> Attachment {
        Attachment {
            session,
            channel,
            number,
            rings,
            description: None,
            uncharged: 0,
            complete_until: None,
            quota,
            is_written: false,
            mapped: 0,
            rules: RuleSet::default(),
            history: RuleHistory::default(),
            has_sent_rules: false,
            adopted: Vec::new(),
            retry: None,
            removal: None,
            write_error: None,
            losses: Losses::default(),
            released: Losses::default(),
            discarded_seen: 0,
        }
    }

    pub(crate) fn key(&self) -> ChannelKey {
        ChannelKey { session: self.session, channel: self.channel }
    }

    /// Returns all sets of rings, the oldest first.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &Rings> {
        self.adopted.iter().map(|set| &set.rings).chain([&self.rings])
    }

    /// Returns the identities of all sets of rings, the oldest first.
    pub(crate) fn identities(&self) -> impl Iterator<Item = Identity> {
        self.sets().map(Rings::identity)
    }

    /// Continues with the same rings over a new connection. `Pong(mapped)` confirms that the
    /// program has mapped `rings`; `mapped` is 0 if the program has offered them. `number_of`
    /// returns the program's number for an adopted set; `None` if the program has not offered the
    /// set.
    pub(crate) fn reconnect(&mut self, mapped: u64, number_of: impl Fn(Identity) -> Option<u32>) {
        for set in &mut self.adopted {
            set.number = number_of(set.rings.identity());
        }
        self.mapped = mapped;
        self.has_sent_rules = false;
        self.retry = None;
        // `RemoveChannel` may not have been delivered, and the number of its `Pong` is of the last
        // connection.
        self.removal = None;
        self.rings.wake_up();
    }

    /// Restarts the packet numbers and the packets' counts of discarded events, because the trace
    /// is about to be closed and the next packets go to a new one. Does nothing while adopted rings
    /// hold packets that could not be written yet.
    pub(crate) fn restart(&mut self) {
        if self.adopted.is_empty() {
            (0..self.rings.count()).for_each(|ring| self.rings.restart(ring));
        }
    }

    /// Skips all packets of adopted rings.
    pub(crate) fn skip_adopted(&mut self) {
        for AdoptedRings { rings, .. } in &mut self.adopted {
            (0..rings.count()).for_each(|ring| rings.skip(ring));
        }
    }

    /// Returns the number of unwritten packets in all sets of rings.
    pub(crate) fn packets_waiting(&self) -> u64 {
        self.sets().map(Rings::packets_waiting).fold(0, u64::saturating_add)
    }

    /// Returns whether the attachment belongs to `session`; `None` matches every session.
    pub(crate) fn is_of(&self, session: Option<SessionId>) -> bool {
        session.is_none_or(|session| session == self.session)
    }

    /// Returns the number of the attachment's stream in traces, which is the channel's index.
    pub(crate) fn stream(&self) -> u32 {
        self.channel as u32
    }

    /// Returns the key of the stream file to which the packets of a ring are written.
    pub(crate) fn file_of(&self, ring: usize) -> StreamKey {
        StreamKey { stream: self.stream(), cpu: ring as u32 }
    }

    /// Sets the rules in force, which were sent to the program, and adds them to the history.
    pub(crate) fn set_rules(&mut self, rules: RuleSet) {
        self.history.add(&rules);
        self.rules = rules;
        self.has_sent_rules = true;
    }

    /// Adopts rings of earlier agents: continues their streams in `trace` where the last agent
    /// stopped, or keeps their packets for snapshots. Returns the ring sets that are already
    /// drained.
    pub(crate) fn adopt(
        &mut self,
        sets: Vec<AdoptedRings>,
        trace: Option<&mut Trace>,
    ) -> io::Result<Vec<AdoptedRings>> {
        if !sets.is_empty() {
            self.history.add_unknown();
        }
        match trace.filter(|_| self.is_written) {
            Some(trace) => self.adopt_to_write(sets, trace),
            None => {
                self.adopt_for_snapshots(sets);
                Ok(Vec::new())
            }
        }
    }

    /// Makes the packets of new rings follow those that are in the streams' files.
    pub(crate) fn continue_streams(&mut self, trace: &mut Trace) -> io::Result<()> {
        if self.is_written {
            for ring in 0..self.rings.count() {
                let last = trace.resume_stream(self.file_of(ring), |size| size)?;
                self.rings.continue_after(ring, last);
            }
        }
        Ok(())
    }

    /// Adopts rings for a session that takes snapshots. For each ring, all packets since the last
    /// clear of the session are kept.
    fn adopt_for_snapshots(&mut self, mut sets: Vec<AdoptedRings>) {
        for ring in 0..ring_count_max(&self.rings, &sets) {
            let mut is_wanted = true;
            for AdoptedRings { rings: set, .. } in sets.iter_mut().rev() {
                let Some(state) = set.prior_state(ring) else { continue };
                let read = if is_wanted { state.read } else { set.end(ring) };
                set.read_from(ring, ReaderState { read, ..state }, None);
                is_wanted &= !state.is_cleared;
            }
        }
        self.adopted = sets;
    }

    /// Adopts rings whose packets are written to a trace. Returns the ring sets that are already
    /// drained.
    fn adopt_to_write(
        &mut self,
        mut sets: Vec<AdoptedRings>,
        trace: &mut Trace,
    ) -> io::Result<Vec<AdoptedRings>> {
        // Number of sets of which every ring is drained.
        let mut drained = sets.len();
        for ring in 0..ring_count_max(&self.rings, &sets) {
            let states: Vec<ReaderState> =
                sets.iter().filter_map(|set| set.rings.prior_state(ring)).collect();
            let mut resumed = ResumePoint::default();
            let settle = |size: u64| {
                resumed = resume(&states, size);
                resumed.size
            };
            let last = trace.resume_stream(self.file_of(ring), settle)?;
            if !states.is_empty() {
                drained = drained.min(resumed.set);
            }
            // Sets may have different numbers of rings.
            let with_ring =
                sets.iter_mut().map(|set| &mut set.rings).filter(|set| ring < set.count());
            for (at, (set, &state)) in with_ring.zip(&states).enumerate() {
                let read = match at.cmp(&resumed.set) {
                    // All packets of the set are written.
                    Ordering::Less => set.end(ring),
                    Ordering::Equal => resumed.position.unwrap_or(state.start),
                    Ordering::Greater => state.start,
                };
                set.read_from(ring, ReaderState { read, ..state }, last);
                if at < resumed.set {
                    // The set's discarded events were already written, perhaps to another trace.
                    set.skip(ring);
                } else if at == resumed.set
                    && (state.size_after == 0 || at > 0 && resumed.position.is_none())
                {
                    // The set's count of discarded events may be older than the reading of the
                    // earlier sets, or belong to packets that follow a closed trace.
                    set.continue_after(ring, last);
                }
            }
            self.rings.continue_after(ring, last);
        }
        self.adopted = sets.split_off(drained.min(sets.len()));
        self.charge_rings();
        Ok(sets)
    }

    /// Writes all packets of adopted rings, in which the program does not record any longer.
    /// Packets of `rings` will continue the sequence of packet numbers. Returns the drained sets.
    pub(crate) fn write_adopted(&mut self, trace: &mut Trace) -> io::Result<Vec<AdoptedRings>> {
        let stream = self.stream();
        let adopted = &mut self.adopted;
        for ring in 0..ring_count_max(&self.rings, adopted) {
            let mut packets = Packets::default();
            let marks: Vec<_> = adopted.iter().map(|set| set.rings.mark_of(ring)).collect();
            let sets = adopted.iter_mut().map(|set| &mut set.rings);
            for set in sets.filter(|set| ring < set.count()) {
                if !packets.is_empty() {
                    // The set's packets continue the sequence of the older set.
                    set.continue_after(ring, packets.headers().last().copied());
                }
                let mut own = Packets::default();
                let mut before = None;
                while before.replace(own.headers().len()) != Some(own.headers().len()) {
                    set.read_packets(ring, &mut own, u64::MAX);
                }
                set.finish(ring, &mut own);
                packets.append(own);
            }
            if packets.is_empty() {
                continue;
            }
            let key = StreamKey { stream, cpu: ring as u32 };
            trace.fit(&mut packets);
            let before = trace.size(key);
            if ring < self.rings.count() {
                self.rings.announce(ring, (before, before + packets.size()));
            }
            if let Err(error) = trace.append(key, &mut packets, &self.rings) {
                for (set, mark) in adopted.iter_mut().zip(marks) {
                    mark.into_iter().for_each(|mark| set.rings.rewind(ring, mark));
                }
                return Err(error);
            }
            self.rings.continue_after(ring, packets.headers().last().copied());
        }
        Ok(std::mem::take(adopted))
    }

    /// Returns the sets that have packets of ring number `ring` for a snapshot, the oldest first.
    /// Sets before a gap in the packets are left out.
    pub(crate) fn kept_sets(&self, ring: usize) -> Vec<&Rings> {
        let mut sets: Vec<&Rings> = self.sets().collect();
        sets.retain(|set| ring < set.count());
        // If a set was overwritten in part, there is a gap between its packets and the older sets.
        // The older sets are therefore left out.
        let first = sets.iter().rposition(|set| set.is_overtaken(ring)).unwrap_or(0);
        sets.split_off(first)
    }

    /// Returns how many packets of the oldest set are kept for snapshots.
    fn packets_of_oldest(&self) -> u64 {
        let oldest = self.adopted.first().map_or(&self.rings, |oldest| &oldest.rings);
        let kept = (0..oldest.count()).map(|ring| {
            let sets = self.kept_sets(ring);
            let has_oldest = sets.first().is_some_and(|first| std::ptr::eq(*first, oldest));
            if has_oldest { oldest.packets_kept(ring) } else { 0 }
        });
        kept.sum()
    }

    /// Charges the memory of all sets to the quota, even beyond its limit, because programs
    /// allocate pages by writing to them.
    pub(crate) fn charge_rings(&mut self) {
        self.uncharged = 0;
        let sizes = self.sets().map(Rings::charge).fold(0, u64::saturating_add);
        self.quota.ring_bytes.charge(sizes);
    }

    /// Charges the user for the memory of all rings, if enough was read since the last time that
    /// further pages may be allocated.
    pub(crate) fn charge_read(&mut self, size: u64) {
        self.uncharged = self.uncharged.saturating_add(size);
        if self.uncharged >= CHARGE_STEP {
            self.charge_rings();
        }
    }

    /// Returns whether the removal of the rings was requested. The program may still have them
    /// mapped.
    pub(crate) fn is_removed(&self) -> bool {
        self.removal.is_some()
    }

    /// Begins the removal of the rings. `Pong(pong)` confirms that the program has unmapped them.
    pub(crate) fn begin_removal(&mut self, pong: u64, now: Instant) {
        self.removal = Some(Removal { pong, until: now + REMOVAL_TIME });
    }

    /// Returns the deadline of a pending removal.
    pub(crate) fn removal_deadline(&self) -> Option<Instant> {
        self.removal.map(|removal| removal.until)
    }

    /// Returns true if a pending removal is over: the program has confirmed it, or its deadline has
    /// passed. `ponged` is the number of the last `Pong` received.
    pub(crate) fn is_removal_over(&self, ponged: u64, now: Instant) -> bool {
        self.removal.is_some_and(|removal| ponged >= removal.pong || removal.until <= now)
    }

    /// Returns the number of bytes that would be freed if new rings replaced the present ones; 0 in
    /// overwrite mode, or if the removal of the rings was requested already.
    pub(crate) fn excess(&self) -> u64 {
        match self.is_removed() || self.rings.shape().mode == blkkin_ring::Mode::Overwrite {
            true => 0,
            false => self.rings.charge().saturating_sub(RENEWED_MIN),
        }
    }

    /// Evicts the oldest adopted set that is kept for snapshots, and counts it in `totals`. Returns
    /// the set; `None` if no such set is left.
    pub(crate) fn evict_oldest(&mut self, totals: &mut Evictions) -> Option<AdoptedRings> {
        if self.is_written || self.adopted.is_empty() {
            return None;
        }
        totals.packets_lost += self.packets_of_oldest();
        let oldest = self.adopted.remove(0);
        totals.rings += oldest.rings.count() as u64;
        self.charge_rings();
        Some(oldest)
    }

    /// Evicts all adopted sets, and counts all sets in `totals`. The attachment is then dropped.
    pub(crate) fn evict_all(&mut self, totals: &mut Evictions) {
        while self.evict_oldest(totals).is_some() {}
        totals.packets_lost += self.packets_of_oldest();
        totals.rings += self.rings.count() as u64;
    }

    /// Adds to the trace all event types whose events may be in the rings.
    pub(crate) fn describe(
        &mut self,
        catalog: Option<&Catalog>,
        trace: &mut Trace,
        account: &Account,
    ) -> io::Result<()> {
        let Some(catalog) = catalog else { return Ok(()) };
        // A trace's descriptions of the types take about as much memory as the catalog.
        self.quota.type_bytes.set(catalog.size() as u64)?;
        self.history.describe(catalog.types(), trace, self.stream(), account);
        Ok(())
    }
}

/// Returns the number of rings in the largest set.
fn ring_count_max(rings: &Rings, left: &[AdoptedRings]) -> usize {
    left.iter().map(|set| set.rings.count()).fold(rings.count(), usize::max)
}

impl Attachment {
    /// Counts the newly discarded events as losses of the present cause: see `cause`.
    pub(crate) fn attribute(&mut self) {
        let all = self.rings.discarded_in_all();
        let more = all.saturating_sub(self.discarded_seen);
        if more > 0 {
            self.discarded_seen = all;
            let (cause, reason) = self.cause();
            self.losses.add(cause, Amount::events(more).because(reason));
        }
    }

    /// Takes over the losses of drained sets of rings.
    pub(crate) fn release(&mut self, sets: &[AdoptedRings]) {
        sets.iter().for_each(|set| self.released.add_all(&set.losses()));
    }

    /// Returns whether there are losses of drained sets of rings for
    /// [`take_released`](Self::take_released).
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Returns the losses of drained sets of rings, which the caller counts for the session. They
    /// must be saved for the next agent before `Release` is sent for these sets.
    pub(crate) fn take_released(&mut self) -> Losses {
        std::mem::take(&mut self.released)
    }

    /// Returns the present cause of discarded events: the trace cannot be written, or the rings are
    /// full.
    fn cause(&self) -> (Cause, Option<String>) {
        match &self.write_error {
            Some((cause, reason)) => (*cause, Some(reason.clone())),
            None => (Cause::RingFull, None),
        }
    }

    /// Returns all losses so far. Packets that may still be written do not count as lost.
    pub(crate) fn losses_so_far(&self) -> Losses {
        let mut losses = self.losses.clone();
        losses.add_all(&self.released);
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
        self.adopted.iter().for_each(|set| losses.add_all(&set.losses()));
        losses
    }

    /// Returns the loss of events between the removal of the rings and the delivery of new ones.
    /// The number is unknown, since the program has no rings in which to count events meanwhile.
    pub(crate) fn lost_by_renewal(&self) -> Losses {
        let mut losses = Losses::default();
        if !self.rules.is_empty() {
            let reason = "rings that held much memory were given up for new ones".to_owned();
            losses.add(Cause::Quota, Amount::uncounted(1).because(Some(reason)));
        }
        losses
    }

    /// Returns the losses if the rings were abandoned now: the packets that are not written yet.
    /// Packets that are kept for snapshots do not count.
    pub(crate) fn unread_losses(&self) -> Losses {
        let mut losses = Losses::default();
        if self.is_written {
            let (cause, reason) = match &self.write_error {
                Some(_) => self.cause(),
                None => (Cause::AgentAway, None),
            };
            losses.add(cause, Amount::packets(self.packets_waiting()).because(reason));
        }
        losses
    }
}
