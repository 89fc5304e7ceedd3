//! Recording: sends programs the rings and rules of their sessions' channels, and adopts rings of
//! earlier connections.

use crate::attachment::{Attachment, AttachmentQuota, ChannelKey};
use crate::catalog::Catalog;
use crate::channel::{is_shape_of, shape_for, shape_of};
use crate::chunks::ChunkState;
use crate::deferred_close::DeferredClose;
use crate::effect::Effect;
use crate::log::Log;
use crate::losses::{Amount, Losses};
use crate::memory_limit::memory_limit;
use crate::notebook::{Note, SuspendedTrace};
use crate::program::{OWN_DESCRIPTORS, Program};
use crate::program_trace::{describe_rings, new_trace, new_uuid, prepare, ring_clock};
use crate::programs::{Programs, end_removed_traces};
use crate::quota::{Account, Quota};
use crate::recovery::{AdoptedRings, ORPHANS_MAX, Offer, OrphanedRings};
use crate::rings::{Identity, Rings, charge_min, possible_processors, shape_of_orphans};
use crate::session::{RuleSet, SessionId};
use crate::sessions::Sessions;
use crate::source::ConnectionId;
use crate::trace::Trace;
use blkkin_control::{AddChannel, Cause, ChannelRule, Orphan, Purpose, ToApplication};
use blkkin_ring::Shape;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// Handlers that give programs rings and rules. They change programs and sessions, and collect the
/// messages to send.
#[derive(Debug)]
pub(crate) struct Recorder<'n> {
    pub(crate) programs: &'n mut Programs,
    pub(crate) sessions: &'n mut Sessions,
    pub(crate) log: &'n Log,
    pub(crate) effects: Vec<Effect>,
}

/// Position of a channel: index of its session in the list of sessions, and index of the channel in
/// the session.
#[derive(Clone, Copy, Debug)]
struct ChannelIndex {
    session: usize,
    channel: usize,
}

/// Orphaned rings whose shape was read, with the descriptor of their memory.
#[derive(Debug)]
struct ShapedOrphan {
    orphan: Orphan,
    identity: Identity,
    shape: Shape,
    memory: DeferredClose<OwnedFd>,
}

/// Rings and trace of an earlier connection, to be adopted by a new attachment.
#[derive(Debug, Default)]
struct Adoption {
    uuid: [u8; 16],
    /// Number of the newest set in the program's messages; `None` if the program no longer records
    /// into that set.
    replaces: Option<u32>,
    /// Sets of rings, the oldest first.
    sets: Vec<AdoptedRings>,
    /// Trace that continues the sets' trace; `None` if the program has that trace open already, or
    /// if that trace cannot be continued.
    trace: Option<Trace>,
}

/// Unread packets and uncounted losses of a set of orphaned rings.
#[derive(Debug)]
struct UnreadRings {
    key: ChannelKey,
    rings: u32,
    packets: u64,
    losses: Losses,
}

/// Returns the number of bytes that are charged to the user's quota for sets of rings.
fn size_of_sets(sets: &[AdoptedRings]) -> u64 {
    sets.iter().map(|set| set.rings.charge()).sum()
}

impl<'n> Recorder<'n> {
    pub(crate) fn new(
        programs: &'n mut Programs,
        sessions: &'n mut Sessions,
        log: &'n Log,
    ) -> Recorder<'n> {
        Recorder { programs, sessions, log, effects: Vec::new() }
    }

    fn send(&mut self, to: ConnectionId, message: ToApplication) {
        self.effects.push(Effect::send(to, message));
    }

    /// Sends `Ping` to a program, and returns its number. The `Pong` with this number confirms that
    /// the program has handled all earlier messages.
    pub(crate) fn ping(&mut self, id: ConnectionId) -> u64 {
        let Some(program) = self.programs.get_mut(id) else { return 0 };
        let number = program.ping();
        self.send(id, ToApplication::Ping(number));
        number
    }

    /// Sends the user's sampling rules to a program that has just connected.
    pub(crate) fn send_sampling(&mut self, id: ConnectionId) {
        let uid = self.programs.get(id).map(|program| program.process.uid);
        let rules = uid.and_then(|uid| self.sessions.sampling.get(&uid));
        if let Some(rules) = rules.map(|own| own.rules.clone()) {
            self.send(id, ToApplication::Sampling(Some(rules)));
        }
    }

    /// Handles rings that a program offers from an earlier connection. Keeps them for adoption. If
    /// a limit is exceeded, counts the losses of these rings or of an older set instead.
    pub(crate) fn offer(
        &mut self,
        id: ConnectionId,
        orphan: Orphan,
        memory: DeferredClose<OwnedFd>,
    ) -> io::Result<()> {
        let identity = Identity::of(&*memory)?;
        let Some(program) = self.programs.get(id) else { return Ok(()) };
        let process = |one: &Program| (one.process.pid, one.process.uid);
        // If the rings are known, the agent has their memory mapped, most likely still when the
        // rings are adopted, or has drained them.
        let is_same = |one: &Program| process(one) == process(program);
        let is_known = self.programs.all().any(|one| is_same(one) && one.has_mapped(identity));
        let Some(program) = self.programs.get_mut(id) else { return Ok(()) };
        let Program { recovery, descriptors, .. } = program;
        let rings = OrphanedRings { orphan, identity, memory: Some(memory) };
        match recovery.offer(rings, is_known, || descriptors.grow(1).is_ok())? {
            Offer::Kept => {}
            Offer::Lost(memory) => {
                memory.iter().for_each(|memory| self.count_orphans_lost(id, memory))
            }
        }
        Ok(())
    }

    /// Counts the unread packets and uncounted losses of orphaned rings that exceed a limit.
    /// `memory` is the descriptor of the rings' memory.
    fn count_orphans_lost(&mut self, id: ConnectionId, memory: &OwnedFd) {
        let Some(program) = self.programs.get(id) else { return };
        let rings = shape_of_orphans(memory).and_then(|shape| {
            self.channel_of(program, &shape)?;
            Rings::adopt(memory, shape, ring_clock(program))
        });
        if let Some(unread) = rings.ok().and_then(|rings| self.unread_in(program, &rings)) {
            self.count_lost(unread);
        }
    }

    /// Returns the session and channel of orphaned rings. Fails if there is no such session or
    /// channel, or if the session may not record the program. Also fails if the shape differs from
    /// that of the channel's rings: the memory is then forged, and its size must not determine how
    /// much is read.
    fn channel_of(&self, program: &Program, shape: &Shape) -> io::Result<ChannelIndex> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let session = self.session_of(program, shape.uuid);
        let session = session.ok_or_else(|| invalid("its trace is not known"))?;
        let at = self.sessions.position(session);
        let at = at.ok_or_else(|| invalid("its session is not there any more"))?;
        let (session, channel) = (&self.sessions.list[at], shape.stream as usize);
        if channel >= session.channels.len() || !session.may_record(&program.process) {
            return Err(invalid("it is not recorded any more"));
        }
        let own = shape_of(&session.channels[channel].channel, shape.stream, shape.uuid);
        // The machine may have had more processors when the rings were made.
        let rings_max = own.rings.max(possible_processors() + 1);
        if !is_shape_of(&session.channels[channel].channel, &own, shape) || shape.rings > rings_max
        {
            return Err(invalid("its rings have another shape"));
        }
        Ok(ChannelIndex { session: at, channel })
    }

    fn key_of(&self, index: ChannelIndex) -> ChannelKey {
        let session = self.sessions.list[index.session].id;
        ChannelKey { session, channel: index.channel }
    }

    /// Returns the unread packets and uncounted losses of a program's orphaned rings; `None` if
    /// [`channel_of`](Self::channel_of) fails for them.
    fn unread_in(&self, program: &Program, rings: &Rings) -> Option<UnreadRings> {
        let key = self.key_of(self.channel_of(program, rings.shape()).ok()?);
        let packets = rings.packets_waiting();
        let mut losses = Losses::default();
        let discarded = Amount::events(rings.discarded_uncounted());
        losses.add(Cause::AgentAway, Amount { packets, ..discarded });
        Some(UnreadRings { key, rings: rings.count() as u32, packets, losses })
    }

    fn count_lost(&mut self, unread: UnreadRings) {
        let UnreadRings { key, rings, packets, losses } = unread;
        self.sessions.count_lost_rings(key, rings, packets, &losses);
    }

    /// Gives a program new rings in place of orphaned rings whose session still exists. The
    /// orphaned rings are adopted, or released if that fails.
    pub(crate) fn adopt(&mut self, id: ConnectionId) {
        let Some(program) = self.programs.get_mut(id) else { return };
        if program.recovery.lost() > 0 {
            let line = format!(
                "{}: earlier agents have left more than {ORPHANS_MAX} sets of rings; the others are \
                 lost: {}",
                program.title(),
                program.recovery.lost()
            );
            self.log.about(program.account.uid(), &line);
        }
        // Orphaned sets of each channel, in the order in which the program offered them.
        let mut channels: Vec<Vec<ShapedOrphan>> = Vec::new();
        for OrphanedRings { orphan, identity, memory } in program.recovery.take_orphaned() {
            let shape = memory.as_ref().and_then(|memory| shape_of_orphans(memory).ok());
            let (Some(memory), Some(shape)) = (memory, shape) else {
                program.recovery.release(orphan.number);
                continue;
            };
            let stream = (shape.uuid, shape.stream);
            let rings = ShapedOrphan { orphan, identity, shape, memory };
            let is_same = |channel: &&mut Vec<ShapedOrphan>| {
                let first = channel.first().map(|first| &first.shape);
                first.is_some_and(|first| (first.uuid, first.stream) == stream)
            };
            match channels.iter_mut().find(is_same) {
                Some(channel) => channel.push(rings),
                None => channels.push(vec![rings]),
            }
        }
        // Decreasing a share cannot fail.
        let _ = program.descriptors.set(OWN_DESCRIPTORS);
        for channel in channels {
            let Err(error) = self.adopt_channel(id, &channel) else { continue };
            for rings in &channel {
                self.send(id, ToApplication::Release(rings.orphan.number));
            }
            let Some(program) = self.programs.get_mut(id) else { return };
            // With a tombstone, the rings count as read if the program offers them again.
            channel.iter().for_each(|rings| program.recovery.add_tombstone(rings.identity));
            let line =
                format!("{}: what an earlier agent has left is lost: {error}", program.title());
            self.log.about(program.account.uid(), &line);
        }
    }

    fn adopt_channel(&mut self, id: ConnectionId, orphans: &[ShapedOrphan]) -> io::Result<()> {
        let Some(program) = self.programs.get(id) else { return Ok(()) };
        let clock = ring_clock(program);
        let mut index = None;
        let mut sets = Vec::new();
        for ShapedOrphan { orphan, shape, memory, .. } in orphans {
            index = Some(self.channel_of(program, shape)?);
            let rings = Rings::adopt(memory, *shape, clock)?;
            sets.push(AdoptedRings { number: Some(orphan.number), rings });
        }
        let (Some(index), Some(last)) = (index, orphans.last()) else { return Ok(()) };
        let unread: Vec<UnreadRings> =
            sets.iter().filter_map(|set| self.unread_in(program, &set.rings)).collect();
        let replaces = (!last.orphan.is_spent).then_some(last.orphan.number);
        let adoption = Adoption { uuid: last.shape.uuid, replaces, sets, trace: None };
        let adopted = self.adopt_sets(id, index, adoption);
        if adopted.is_err() {
            unread.into_iter().for_each(|unread| self.count_lost(unread));
        }
        adopted
    }

    /// Adopts the sets of a channel and continues their trace. The session need not be active, as
    /// the packets in the sets are to be written in any case.
    fn adopt_sets(
        &mut self,
        id: ConnectionId,
        index: ChannelIndex,
        mut adoption: Adoption,
    ) -> io::Result<()> {
        let Some(program) = self.programs.get(id) else { return Ok(()) };
        let (key, uuid) = (self.key_of(index), adoption.uuid);
        if program.attachments.iter().any(|one| one.key() == key) {
            return Err(io::Error::other("it is recorded already"));
        }
        let session = &self.sessions.list[index.session];
        let suspended = self.sessions.suspended.remove(&uuid);
        let is_removed = |suspended: &&SuspendedTrace| {
            let chunks = session.chunks.as_ref();
            let chunk = chunks.and_then(|chunks| chunks.chunk_of(&suspended.directory));
            chunk.is_some_and(|chunk| chunk.state == ChunkState::Removing)
        };
        // What is written to a chunk that is being removed would be lost without being counted.
        let kept = suspended.as_ref().filter(|suspended| !is_removed(suspended));
        adoption.trace = kept.and_then(|suspended| {
            let pid = program.process.pid;
            let note = Note::new(self.sessions.notebook.clone(), session, pid, uuid);
            // If the trace cannot be continued, it stays unchanged, and a new trace is begun.
            Trace::resume(suspended.directory.clone(), session.output.clone(), note).ok()
        });
        let attached = self.attach(id, index, Some(adoption));
        let program = self.programs.get(id);
        let has_trace = program.is_some_and(|one| one.traces.contains_key(&key.session));
        if let Some(suspended) = suspended.filter(|_| !has_trace) {
            // Other channels may be able to continue the trace.
            let suspended = SuspendedTrace { is_earlier: false, ..suspended };
            self.sessions.suspended.insert(uuid, suspended);
        }
        attached.map(drop)
    }

    /// Returns the session that owns the trace with this UUID; `None` if the trace is not known or
    /// belongs to another program.
    fn session_of(&self, program: &Program, uuid: [u8; 16]) -> Option<SessionId> {
        let own = program.uuids.iter().find(|(_, own)| **own == uuid);
        let suspended = self.sessions.suspended.get(&uuid);
        let suspended = suspended.filter(|trace| trace.pid == program.process.pid);
        own.map(|(session, _)| *session).or(suspended.map(|trace| trace.session))
    }

    /// Sends a program the rules of a channel, unless these rules were already sent over the
    /// present connection. A program without rings for the channel is sent rings first, if the
    /// rules enable events. `session` and `channel` are indexes. Returns whether anything was sent.
    pub(crate) fn update_channel(
        &mut self,
        id: ConnectionId,
        session: usize,
        channel: usize,
    ) -> bool {
        let index = ChannelIndex { session, channel };
        let key = self.key_of(index);
        let (Some(program), session) = (self.programs.get(id), &self.sessions.list[session]) else {
            return false;
        };
        if session.channels[channel].is_removed {
            return self.remove_channel(id, key);
        }
        let is_kernel = session.channels[channel].is_kernel;
        if program.catalog.is_none()
            || program.is_kernel != is_kernel
            || !is_kernel && !session.may_record(&program.process)
        {
            return false;
        }
        let wanted = if session.is_active() {
            session.channels[channel].rules_for(&program.process)
        } else {
            RuleSet::default()
        };
        match program.attachments.iter().position(|one| one.key() == key) {
            Some(at) => {
                let own = &program.attachments[at];
                // An attachment that is being removed will be replaced by one with new rings.
                let is_current = own.has_sent_rules && own.rules == wanted;
                !own.is_removed() && !is_current && self.send_rules(id, at, wanted)
            }
            None if wanted.is_empty() => false,
            None => match self.attach(id, index, None) {
                Ok(at) => self.send_rules(id, at, wanted),
                Err(error) => {
                    let Some(program) = self.programs.get(id) else { return false };
                    let line = format!("{}: cannot be recorded: {error}", program.title());
                    self.log.about(program.account.uid(), &line);
                    let (pid, programs) = (program.process.pid, &*self.programs);
                    self.sessions.count_refused(key, pid, &error, || programs.pids());
                    false
                }
            },
        }
    }

    fn send_rules(&mut self, id: ConnectionId, at: usize, rules: RuleSet) -> bool {
        let Some(program) = self.programs.get_mut(id) else { return false };
        let Some(attachment) = program.attachments.get_mut(at) else { return false };
        let channel = attachment.number;
        if program.is_kernel {
            for rule in rules.kernel_rules(channel) {
                self.effects.push(Effect::send(id, ToApplication::KernelRule(rule)));
            }
        } else {
            for rule in rules.rules() {
                let rule = ChannelRule { channel, rule: rule.clone() };
                self.effects.push(Effect::send(id, ToApplication::Rule(rule)));
            }
        }
        attachment.set_rules(rules);
        self.send(id, ToApplication::Apply(channel));
        true
    }

    /// Chooses the shape of new rings of a channel, and reserves the user's quota for them and for
    /// the sets of rings that are adopted. If the quota does not suffice, first ends absences and
    /// evicts rings kept for snapshots.
    fn reserve(
        &mut self,
        id: ConnectionId,
        index: ChannelIndex,
        adoption: Option<&mut Adoption>,
    ) -> io::Result<(Shape, AttachmentQuota)> {
        let Some(program) = self.programs.get(id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let account = program.account.clone();
        let type_bytes = program.catalog.as_ref().map_or(0, Catalog::size) as u64;
        let session = &self.sessions.list[index.session];
        let is_written = session.purpose == Purpose::Record;
        let channel = &session.channels[index.channel].channel;
        let pid = program.process.pid;
        let shape = shape_for(channel, index.channel as u32, &account, || memory_limit(pid));
        let own = charge_min(&shape);
        // One descriptor is for the memory. Each ring has two more: of its file and of the index.
        let descriptors = 1 + if is_written { 2 * shape.rings as u64 } else { 0 };
        let has_both = || {
            account.has(Quota::Descriptors, descriptors)
                && account.has(Quota::TypeBytes, type_bytes)
        };
        self.programs.free_absent(&account, has_both, self.sessions, self.log);
        let key = self.key_of(index);
        let mut nothing = Vec::new();
        let sets = adoption.map_or(&mut nothing, |adoption| &mut adoption.sets);
        let ring_bytes = if is_written {
            self.free_rings(key, &account, own, &mut Vec::new());
            let mut ring_bytes = account.reserve(Quota::RingBytes, own)?;
            // The adopted sets are unmapped as soon as they are written.
            ring_bytes.grow_unchecked(size_of_sets(sets));
            ring_bytes
        } else {
            for number in self.free_rings(key, &account, own, sets) {
                self.send(id, ToApplication::Release(number));
            }
            account.reserve(Quota::RingBytes, own + size_of_sets(sets))?
        };
        let quota = AttachmentQuota {
            ring_bytes,
            type_bytes: account.reserve(Quota::TypeBytes, type_bytes)?,
            _descriptors: account.reserve(Quota::Descriptors, descriptors)?,
        };
        Ok((shape, quota))
    }

    /// Frees memory of the user's rings, until the channel's new rings (`own` bytes) and the
    /// adopted `sets` fit into the quota. If this does not suffice, evicts `sets`, the oldest
    /// first. Returns the numbers of those evicted sets that the program still has to release.
    fn free_rings(
        &mut self,
        key: ChannelKey,
        account: &Account,
        own: u64,
        sets: &mut Vec<AdoptedRings>,
    ) -> Vec<u32> {
        let mut released = Vec::new();
        // If the new rings alone exceed the quota, nothing is evicted.
        while account.is_within_limit(Quota::RingBytes, own)
            && !account.has(Quota::RingBytes, own + size_of_sets(sets))
        {
            if self.programs.free_rings(account.uid(), self.sessions, self.log) {
                continue;
            }
            if sets.is_empty() {
                break;
            }
            let AdoptedRings { number, rings } = sets.remove(0);
            let evictions = self.sessions.evictions_of(key);
            evictions.rings += rings.count() as u64;
            evictions.packets_lost +=
                (0..rings.count()).map(|ring| rings.packets_kept(ring)).sum::<u64>();
            released.extend(number);
        }
        released
    }

    /// Gives a program new rings for a channel, and begins or continues the trace. Returns the
    /// index of the new attachment.
    fn attach(
        &mut self,
        id: ConnectionId,
        index: ChannelIndex,
        mut adoption: Option<Adoption>,
    ) -> io::Result<usize> {
        let (shape, quota) = self.reserve(id, index, adoption.as_mut())?;
        let key = self.key_of(index);
        let stream = index.channel as u32;
        let Sessions { list, clocks, page_cache, notebook, .. } = &mut *self.sessions;
        let session = &mut list[index.session];
        let Some(program) = self.programs.get_mut(id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let rate = clocks.rate(&mut session.rates, program.clock);
        let known = adoption.as_ref().map(|adoption| adoption.uuid);
        let new = || known.unwrap_or_else(new_uuid);
        let uuid = *program.uuids.entry(session.id).or_insert_with(new);
        let (rings, file) = Rings::create(Shape { uuid, ..shape }, ring_clock(program))?;
        let is_new = !program.traces.contains_key(&session.id);
        if is_new {
            let earlier = adoption.as_mut().and_then(|adoption| adoption.trace.take());
            let mut trace = match earlier {
                Some(trace) => trace,
                None => {
                    let note = Note::new(notebook.clone(), session, program.process.pid, uuid);
                    new_trace(session, program, rate, note)
                }
            };
            prepare(&mut trace, session, program, page_cache);
            if let Some(chunks) = &mut session.chunks {
                // The trace of an earlier agent may be in an earlier chunk.
                chunks.is_moving |=
                    chunks.current().is_some_and(|chunk| chunk.sequence != trace.chunk());
            }
            // The next agent must find the note if the program has the rings.
            trace.note_directory();
            program.traces.insert(session.id, trace);
        }
        let channel = &session.channels[index.channel];
        if let Some(trace) = program.traces.get_mut(&session.id) {
            trace.add_channel(stream, channel);
        }
        let description = program.traces.get(&session.id).and_then(|trace| {
            describe_rings(trace, session, &session.channels[index.channel], program)
        });
        description.iter().for_each(|description| rings.describe(description));
        let number = program.take_number();
        let mut attachment = Attachment::new(key, number, rings, quota);
        attachment.description = description.map(Box::new);
        attachment.is_written = session.purpose == Purpose::Record;
        if program.is_kernel {
            // Names of events may differ from the patterns of the rules that select them.
            attachment.history.add_unknown();
        }
        // The `Pong` for the next `Ping` confirms that the program has mapped the memory.
        attachment.mapped = program.pinged + 1;
        let Adoption { replaces, sets, .. } = adoption.unwrap_or_default();
        // The stream's file may exist even if there are no rings to adopt.
        let drained = match attachment.adopt(sets, program.traces.get_mut(&key.session)) {
            Ok(drained) => drained,
            Err(error) => {
                if is_new {
                    // The stream's file is damaged and cannot be continued. A later attempt begins
                    // another trace.
                    program.traces.remove(&key.session);
                    program.uuids.remove(&key.session);
                }
                return Err(error);
            }
        };
        attachment.release(&drained);
        program.recovery.finish(drained);
        program.attachments.push(attachment);
        let at = program.attachments.len() - 1;
        // The program may record from now on. An empty drain requests a wake-up by the program.
        program.next_drain = Some(Instant::now());
        let message = ToApplication::AddChannel(AddChannel {
            channel: number,
            session: session.name.clone(),
            contexts: channel.channel.contexts.clone(),
            replaces,
        });
        let descriptors = vec![file, program.wake.clone()];
        self.programs.save_if_long(self.sessions);
        self.effects.push(Effect::send_with_descriptors(id, message, descriptors));
        Ok(at)
    }

    /// Frees memory of the user's rings, as long as the user exceeds the quota. If this does not
    /// suffice and no removal is pending, begins to remove the rings that use most memory. The
    /// program gets new, empty rings when it has unmapped the old ones, or when the time limit for
    /// this has passed. The old rings are then no longer charged to the user.
    pub(crate) fn limit_rings(&mut self, account: &Arc<Account>, now: Instant) {
        while account.is_over(Quota::RingBytes)
            && self.programs.free_rings(account.uid(), self.sessions, self.log)
        {}
        let own = |one: &Program| one.account.uid() == account.uid();
        let is_removing = |one: &Program| own(one) && one.next_removal().is_some();
        if !account.is_over(Quota::RingBytes) || !self.programs.ids(is_removing).is_empty() {
            return;
        }
        let all = self.programs.connected.iter_mut().filter(|(_, one)| own(one));
        let most = all.filter_map(|(id, one)| one.most_excess().map(|excess| (*id, one, excess)));
        let most = most.max_by_key(|(_, _, (_, excess))| *excess);
        let Some((id, program, (at, _))) = most else { return };
        let number = program.attachments[at].number;
        account.count_refused(Quota::RingBytes);
        let ping = program.ping();
        program.begin_removal(at, ping, now);
        self.send(id, ToApplication::RemoveChannel(number));
        self.send(id, ToApplication::Ping(ping));
    }

    /// Begins to remove a program's rings for a removed channel. The `Pong` for the next `Ping`
    /// confirms that the program has unmapped them. Returns whether the program has such rings.
    pub(crate) fn remove_channel(&mut self, id: ConnectionId, key: ChannelKey) -> bool {
        let Some(program) = self.programs.get_mut(id) else { return false };
        let pong = program.pinged + 1;
        let own = program.attachments.iter_mut().enumerate().find(|(_, one)| one.key() == key);
        let Some((at, attachment)) = own else { return false };
        attachment.set_rules(RuleSet::default());
        if !attachment.is_removed() {
            let number = attachment.number;
            program.begin_removal(at, pong, Instant::now());
            self.send(id, ToApplication::RemoveChannel(number));
        }
        true
    }

    /// Removes the attachments whose removal is over, and counts their losses. Returns true if
    /// there were any; the caller must then send the program new rings.
    pub(crate) fn take_removed(&mut self, id: ConnectionId, now: Instant) -> bool {
        let Some(program) = self.programs.get_mut(id) else { return false };
        let removed = program.take_removed(now);
        for attachment in &removed {
            self.sessions.count_ended(attachment);
            self.sessions.count_loss(attachment.session, &attachment.unread_losses());
            self.sessions.count_loss(attachment.session, &attachment.lost_by_renewal());
        }
        end_removed_traces(program, &removed, self.sessions);
        !removed.is_empty()
    }

    /// Sends a program messages to unmap its rings for a session. Returns whether the program has
    /// such rings.
    pub(crate) fn remove_session(&mut self, id: ConnectionId, session: SessionId) -> bool {
        let Some(program) = self.programs.get(id) else { return false };
        let own = program.attachments.iter().filter(|one| one.session == session);
        let removed = own.clone().filter(|one| !one.is_removed());
        let messages = removed.map(|one| ToApplication::RemoveChannel(one.number));
        self.effects.extend(messages.map(|message| Effect::send(id, message)));
        own.count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Requester;
    use crate::notebook::Notebook;
    use crate::output::Output;
    use crate::owner::Owner;
    use crate::process::ProcessInspector;
    use crate::program::Introduction;
    use crate::quota::{Accounts, Limits};
    use crate::requests::{Answer, FollowUp, RequestHandler};
    use crate::saved::SavedState;
    use crate::sessions::REFUSED_MAX;
    use crate::source::{EACH_WRITE, Poller, Source};
    use blkkin_control::{Clock, Events, Request, RetainingSession, Retention, Selection, catalog};
    use blkkin_sys::socket::Peer;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{MemfdFlags, SealFlags, memfd_create};
    use std::collections::HashSet;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    const PROGRAM: ConnectionId = 1;

    /// A node without sockets: one program and one session, both owned by root.
    struct Fixture {
        programs: Programs,
        sessions: Sessions,
        accounts: Accounts,
        catalog: OwnedFd,
        log: Log,
    }

    fn catalog_file() -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(c"catalog", flags).unwrap());
        file.set_len(catalog::SIZE as u64).unwrap();
        let magic = catalog::MAGIC.map(u64::to_le_bytes).concat();
        file.write_all_at(&magic, 0).unwrap();
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        file.into()
    }

    /// Returns this process as a program that has connected and sent its catalog.
    fn program(connection: ConnectionId, account: Arc<Account>, catalog: &OwnedFd) -> Program {
        let pid = std::process::id();
        let introduction = Introduction {
            process: ProcessInspector::start().unwrap().inspect(pid, 0).unwrap(),
            descriptors: account.reserve(Quota::Descriptors, OWN_DESCRIPTORS).unwrap(),
            account: account.clone(),
            pid_inner: pid,
            name: "program".to_owned(),
            release: String::new(),
            clock: Clock::Monotonic,
            is_kernel: false,
            wake: Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()),
        };
        let mut program = Program::new(connection, introduction);
        let catalog = DeferredClose::new(catalog.try_clone().unwrap(), 0);
        let share = account.reserve(Quota::TypeBytes, 0).unwrap();
        program.catalog = Some(Catalog::open(catalog, share).unwrap());
        program
    }

    impl Fixture {
        fn new(directory: &std::path::Path) -> Fixture {
            let poller = Arc::new(Poller::new().unwrap());
            let notebook = Notebook::of(&directory.join("agent.sock"), |_| ());
            let mut accounts = Accounts::new(Limits::default(), None);
            let catalog = catalog_file();
            let program = program(PROGRAM, accounts.of(0), &catalog);
            let mut programs = Programs::new(poller.clone());
            poller.add(&program.wake, Source::WakeUp(PROGRAM), EACH_WRITE).unwrap();
            programs.connected.insert(PROGRAM, program);
            let sessions = Sessions::new(SavedState::default(), notebook);
            let log = Log::new(|_| ());
            let mut fixture = Fixture { programs, sessions, accounts, catalog, log };
            let owner = Owner { uid: 0, gid: 0 };
            let output = Output::trusted(directory.join("traces"), owner);
            let session = blkkin_control::Session {
                name: "session".to_owned(),
                purpose: Purpose::Record,
                output: None,
            };
            let new = RetainingSession { session, retention: Retention::default() };
            fixture.requests().add_session(new, output, owner, true).unwrap();
            fixture
        }

        fn requests(&mut self) -> RequestHandler<'_> {
            RequestHandler {
                sessions: &mut self.sessions,
                programs: &mut self.programs,
                accounts: &mut self.accounts,
                traces: None,
                has_kernel_tracer: false,
                has_forwarder: false,
                effects: Vec::new(),
            }
        }

        fn act(&mut self, request: Request) -> Answer {
            let requester = Requester { owner: Owner { uid: 0, gid: 0 }, is_privileged: true };
            self.requests().act(requester, request).unwrap()
        }

        /// Updates the session's only channel, and returns the names of the messages sent to the
        /// program.
        fn update(&mut self) -> Vec<&'static str> {
            let mut recorder = Recorder::new(&mut self.programs, &mut self.sessions, &self.log);
            let has_changed = recorder.update_channel(PROGRAM, 0, 0);
            let names = names(&recorder.effects);
            assert_eq!(has_changed, !names.is_empty());
            names
        }
    }

    fn names(effects: &[Effect]) -> Vec<&'static str> {
        let name = |effect: &Effect| match effect {
            Effect::Send { message: ToApplication::AddChannel(_), descriptors, .. } => {
                assert_eq!(descriptors.len(), 2, "the memory and the eventfd");
                "AddChannel"
            }
            Effect::Send { message: ToApplication::Rule(_), .. } => "Rule",
            Effect::Send { message: ToApplication::Apply(_), .. } => "Apply",
            Effect::Send { message: ToApplication::RemoveChannel(_), .. } => "RemoveChannel",
            other => panic!("{other:?}"),
        };
        effects.iter().map(name).collect()
    }

    /// A program gets rings when an active session selects its events. It is sent rules only when
    /// they have changed.
    #[test]
    fn programs_follow_their_sessions() {
        let directory = tempfile::tempdir().unwrap();
        let mut node = Fixture::new(directory.path());
        let selection = Selection::for_names(["*"]);
        let name = "session".to_owned();
        let events = Events { session: name.clone(), channel: None, selection };
        assert!(matches!(node.act(Request::EnableEvents(events)), Answer::Settle(..)));
        assert_eq!(node.update(), [""; 0], "the session is not active");
        node.act(Request::StartSession(name.clone()));
        assert_eq!(node.update(), ["AddChannel", "Rule", "Apply"]);
        assert_eq!(node.update(), [""; 0]);
        let stopped = node.act(Request::StopSession(name.clone()));
        assert!(matches!(stopped, Answer::Settle(FollowUp::Write(_), scope)
            if node.programs.ids(|one| scope.has(one)) == [PROGRAM]));
        assert_eq!(node.update(), ["Apply"], "no rules are left");
        let destroyed = node.act(Request::DestroySession(name));
        let Answer::Settle(FollowUp::Destroy { session, .. }, _) = destroyed else {
            panic!("{destroyed:?}")
        };
        let mut recorder = Recorder::new(&mut node.programs, &mut node.sessions, &node.log);
        assert!(recorder.remove_session(PROGRAM, session));
        assert_eq!(names(&recorder.effects), ["RemoveChannel"]);
        assert!(node.programs.detach(session, &mut node.sessions).is_none());
        assert!(node.programs.get(PROGRAM).unwrap().attachments.is_empty());
    }

    /// A program whose connection ends before `RemoveChannel` arrives keeps recording into its
    /// rings. If it has unmapped the rings, its events meanwhile are lost, and the loss is counted.
    #[test]
    fn rings_are_kept_unless_the_program_has_unmapped_them() {
        for has_rings in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let mut node = Fixture::new(directory.path());
            let (name, selection) = ("session".to_owned(), Selection::for_names(["*"]));
            let events = Events { session: name.clone(), channel: None, selection };
            node.act(Request::EnableEvents(events));
            node.act(Request::StartSession(name));
            node.update();
            let now = Instant::now();
            let program = node.programs.get_mut(PROGRAM).unwrap();
            let ping = program.ping();
            program.begin_removal(0, ping, now);
            let identity = program.attachments[0].rings.identity();
            node.programs.disconnect(PROGRAM, false, &mut node.sessions, &node.log);

            let again = PROGRAM + 1;
            let mut program = super::tests::program(again, node.accounts.of(0), &node.catalog);
            if has_rings {
                let orphan = Orphan { number: 7, is_spent: false };
                let rings = OrphanedRings { orphan, identity, memory: None };
                program.recovery.offer(rings, true, || false).unwrap();
            }
            node.programs.connected.insert(again, program);
            let messages = node.programs.reconnect(again, &mut node.sessions, &node.log).unwrap();
            let kept = messages.iter().map(|(message, _)| match message {
                ToApplication::KeepChannel(kept) => kept.orphan,
                other => panic!("{other:?}"),
            });
            let expected: &[u32] = if has_rings { &[7] } else { &[] };
            assert_eq!(kept.collect::<Vec<u32>>(), expected);
            let program = node.programs.get_mut(again).unwrap();
            assert_eq!(program.take_removed(now + Duration::from_secs(3600)).len(), 0);
            assert_eq!(program.attachments.len(), expected.len());
            let session = &node.sessions.list[0];
            let losses = node.sessions.loss_replies(session, node.programs.all());
            assert_eq!(losses.is_empty(), has_rings, "{losses:?}");
        }
    }

    /// A program whose rings exceed the quota is counted as refused, and gets no message.
    #[test]
    fn programs_without_quota_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut node = Fixture::new(directory.path());
        let selection = Selection::for_names(["*"]);
        let name = "session".to_owned();
        let events = Events { session: name.clone(), channel: None, selection };
        node.act(Request::EnableEvents(events));
        node.act(Request::StartSession(name));
        let account = node.accounts.of(0);
        let _all = account.reserve_unchecked(Quota::RingBytes, Limits::default().ring_bytes);
        let mut recorder = Recorder::new(&mut node.programs, &mut node.sessions, &node.log);
        assert!(!recorder.update_channel(PROGRAM, 0, 0));
        assert!(recorder.effects.is_empty());
        let session = &node.sessions.list[0];
        let losses = node.sessions.loss_replies(session, node.programs.all());
        let [blkkin_control::Reply::Loss(loss)] = &losses[..] else { panic!("{losses:?}") };
        assert_eq!((loss.cause, loss.uncounted), (Cause::Quota, 1));
    }

    /// Stored refusals of processes that are not connected are dropped, so that a later refusal of
    /// a connection is counted.
    #[test]
    fn programs_are_counted_as_turned_away_after_many_refusals() {
        let directory = tempfile::tempdir().unwrap();
        let mut node = Fixture::new(directory.path());
        let (name, selection) = ("session".to_owned(), Selection::for_names(["*"]));
        let events = Events { session: name.clone(), channel: None, selection };
        node.act(Request::EnableEvents(events));
        node.act(Request::StartSession(name));
        let own = std::process::id();
        let (key, error) = (ChannelKey { session: 0, channel: 0 }, io::Error::other("no reason"));
        for pid in (0..REFUSED_MAX as u32 + 1).filter(|pid| *pid != own) {
            node.sessions.count_refused(key, pid, &error, HashSet::new);
        }
        let inspector = ProcessInspector::start().unwrap();
        let peer = Peer { pid: own, uid: 0, gid: 0 };
        node.sessions.count_refused_connection(peer, "quota".to_owned(), &inspector, HashSet::new);
        let session = &node.sessions.list[0];
        let losses = node.sessions.loss_replies(session, node.programs.all());
        let causes = losses.iter().filter_map(|reply| match reply {
            blkkin_control::Reply::Loss(loss) => Some(loss.cause),
            _ => None,
        });
        assert!(causes.clone().any(|cause| cause == Cause::Quota), "{losses:?}");
    }
}
