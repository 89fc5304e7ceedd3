//! What a program is to record, as its sessions have it: rings are given and rules are sent as far as they
//! differ from what it has.

use crate::application::{Application, Attachment, Holds, LeftSet, Offered};
use crate::catalog::Catalog;
use crate::clock::Rate;
use crate::date;
use crate::engine::{Agent, Id, ORPHANS_KNOWN_MAX, ORPHANS_LOST_MAX, ORPHANS_MAX, OWN_DESCRIPTORS};
use crate::foreign::Foreign;
use crate::losses::{Amount, Losses};
use crate::quota::{Account, What};
use crate::rings::{
    Identity, Rings, charge_min, online_processors, possible_processors, shape_of_left,
};
use crate::saved::{Begun, Note};
use crate::session::{Orders, Session, SessionId};
use crate::trace::{About, Trace};
use blkkin_control::{
    AddChannel, Cause, Channel, ChannelRule, Clock, Mode, Orphan, Purpose, ToApplication,
};
use blkkin_ctf::schema::EnvValue;
use blkkin_ring::Shape;
use jiff::Zoned;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a sub-buffer by default, and sub-buffers of a ring. A ring holds the burst of a program that
/// records 400,000 events on one processor before the agent has run; pages that no event needs are not there.
const SUBBUFFER_SIZE: u64 = 512 << 10;
const SUBBUFFER_COUNT: u32 = 64;
/// Sub-buffers by default where all of them are in use all the time, or take memory in any case.
const SUBBUFFER_COUNT_FILLED: u32 = 4;

/// Says the sizes that nobody said.
pub(crate) fn fill_in_sizes(channel: &mut Channel) {
    channel.subbuffer_size.get_or_insert(SUBBUFFER_SIZE);
    channel.subbuffer_count.get_or_insert_with(|| {
        match channel.mode == Mode::Overwrite || blkkin_sys::is_accounting_strict() {
            true => SUBBUFFER_COUNT_FILLED,
            false => SUBBUFFER_COUNT,
        }
    });
    let own = shape_of(channel, 0, [0; 16]).event_size_max();
    channel.event_size.get_or_insert(own as u32);
}

/// A set of rings of an earlier daemon, which a program has passed on, and what it says of itself.
struct Passed {
    orphan: Orphan,
    identity: Identity,
    shape: Shape,
    memory: Foreign<OwnedFd>,
}

/// What earlier daemons have left of a channel.
#[derive(Default)]
struct Adopted {
    uuid: [u8; 16],
    /// The program's number for rings to which events still go.
    replaces: Option<u32>,
    /// The oldest first.
    left: Vec<LeftSet>,
    /// The trace that it had begun, if it is not gone on with already.
    trace: Option<Trace>,
}

/// What a set of rings that was left holds unread.
struct Waiting {
    place: (SessionId, usize),
    rings: u32,
    packets: u64,
    losses: Losses,
}

/// Bytes of a program's name in that of its trace.
const PROGRAM_SIZE_MAX: usize = 150;

/// The shape of a channel's rings.
pub(crate) fn shape_of(channel: &Channel, stream: u32, uuid: [u8; 16]) -> Shape {
    let mode = match channel.mode {
        Mode::Discard => blkkin_ring::Mode::Discard,
        Mode::Overwrite => blkkin_ring::Mode::Overwrite,
    };
    Shape {
        // Processors that come later have the ring of those who have none.
        rings: online_processors().last().map_or(1, |last| last + 1) + 1,
        subbuffer_size: channel.subbuffer_size.unwrap_or(SUBBUFFER_SIZE) as usize,
        subbuffer_count: channel.subbuffer_count.unwrap_or(SUBBUFFER_COUNT_FILLED) as usize,
        mode,
        uuid,
        stream,
        event_size: channel.event_size.unwrap_or(0),
        wait_us: channel.wait_us,
        start: 0,
    }
}

/// Bytes that sets of rings take.
fn size_of_sets(sets: &[LeftSet]) -> u64 {
    sets.iter().map(|set| set.rings.charge()).sum()
}

impl Agent {
    /// A program has said where its types are: it is told what to record.
    pub(crate) fn begin_to_record(&mut self, id: Id) -> io::Result<()> {
        let uid = self.applications.get(&id).map(|application| application.process.uid);
        let rules = uid.and_then(|uid| self.sampling.get(&uid)).map(|own| own.rules.clone());
        if rules.is_some() {
            self.send(id, &ToApplication::Sampling(rules), vec![]);
        }
        self.take_up(id)?;
        self.adopt(id);
        self.count_given_up(id);
        self.update(id);
        self.ping(id);
        Ok(())
    }

    /// A program says that it has rings of a connection before, and passes them on.
    pub(crate) fn offer(
        &mut self,
        id: Id,
        orphan: Orphan,
        memory: Foreign<OwnedFd>,
    ) -> io::Result<()> {
        let identity = Identity::of(&*memory)?;
        let Some(process) =
            self.applications.get(&id).map(|one| (one.process.pid, one.process.uid))
        else {
            return Ok(());
        };
        // Then the memory is here already, and perhaps still is when it is asked for.
        let all = self.applications.values().chain(&self.departed);
        let mut same = all.filter(|one| (one.process.pid, one.process.uid) == process);
        let is_own = same.any(|application| application.has_had(identity));
        let Some(application) = self.applications.get_mut(&id) else { return Ok(()) };
        if application.orphans.iter().any(|other| other.identity == identity) {
            return Err(io::Error::other("it has the same rings twice"));
        }
        let has_room = application.orphans.iter().filter(|one| one.memory.is_some()).count()
            < ORPHANS_MAX
            && application.descriptors.grow(1).is_ok();
        if !has_room && (!is_own || application.orphans.len() >= ORPHANS_KNOWN_MAX) {
            application.orphans_lost += 1;
            if application.orphans_lost > ORPHANS_LOST_MAX {
                return Err(io::Error::other("it has more rings than there can be"));
            }
            // What was read last is said by the newest ones; and the oldest one is most likely done with.
            let mut others = application.orphans.iter();
            let oldest = others.position(|one| one.memory.is_some() && one.orphan.is_spent);
            let new = Offered { orphan, identity, memory: Some(memory) };
            let lost = match oldest.map(|oldest| application.orphans.remove(oldest)) {
                Some(oldest) => {
                    application.orphans.push(new);
                    oldest
                }
                None => new,
            };
            application.released.push(lost.orphan.number);
            lost.memory.iter().for_each(|memory| self.lose(id, memory));
            return Ok(());
        }
        let memory = has_room.then_some(memory);
        application.orphans.push(Offered { orphan, identity, memory });
        Ok(())
    }

    /// There is no room for rings that an earlier daemon has left: what is in them is counted as lost.
    fn lose(&mut self, id: Id, memory: &OwnedFd) {
        let Some(application) = self.applications.get(&id) else { return };
        let clock = ring_clock(application);
        let left = shape_of_left(memory).and_then(|shape| {
            self.place_of(application, &shape)?;
            Rings::left_behind(memory, shape, clock)
        });
        if let Some(waiting) = left.ok().and_then(|left| self.waiting_in(id, &left)) {
            self.count_lost(waiting);
        }
    }

    /// Which session's channel rings are of that an earlier daemon has left. They have the shape that the channel
    /// says: other memory is no agent's, and as large as somebody likes who is not to say how much is read.
    fn place_of(&self, application: &Application, left: &Shape) -> io::Result<(usize, usize)> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let session = self.session_of(application, left.uuid);
        let session = session.ok_or_else(|| invalid("its trace is not known"))?;
        let at = self.sessions.iter().position(|one| one.id == session);
        let at = at.ok_or_else(|| invalid("its session is not there any more"))?;
        let (session, number) = (&self.sessions[at], left.stream as usize);
        if number >= session.channels.len() || !session.may_record(&application.process) {
            return Err(invalid("it is not recorded any more"));
        }
        let own = shape_of(&session.channels[number].channel, left.stream, left.uuid);
        let of_a_ring = |shape: &Shape| (shape.subbuffer_size, shape.subbuffer_count, shape.mode);
        // There may have been more processors.
        let rings_max = own.rings.max(possible_processors() + 1);
        if of_a_ring(left) != of_a_ring(&own) || left.rings > rings_max {
            return Err(invalid("its rings have another shape"));
        }
        Ok((at, number))
    }

    /// What a program's rings that were left hold unread, if their session is still there.
    fn waiting_in(&self, id: Id, left: &Rings) -> Option<Waiting> {
        let (at, channel) = self.place_of(self.applications.get(&id)?, left.shape()).ok()?;
        let (place, rings) = ((self.sessions[at].id, channel), left.count() as u32);
        let packets = left.packets_waiting();
        let mut losses = Losses::default();
        let discarded = Amount::events(left.discarded_uncounted());
        losses.add(Cause::AgentAway, Amount { packets, ..discarded });
        Some(Waiting { place, rings, packets, losses })
    }

    fn count_lost(&mut self, waiting: Waiting) {
        let totals = self.ended.entry(waiting.place).or_default();
        totals.rings += waiting.rings;
        totals.packets_lost = totals.packets_lost.saturating_add(waiting.packets);
        self.note_totals(waiting.place);
        self.count_loss(waiting.place.0, &waiting.losses);
    }

    /// Gives a program rings in place of those that earlier daemons have left it, as far as their sessions
    /// are still there.
    fn adopt(&mut self, id: Id) {
        let Some(application) = self.applications.get_mut(&id) else { return };
        if application.orphans_lost > 0 {
            self.log.about(application.account.uid(), &format!(
                "{} ({}): earlier agents have left more than {ORPHANS_MAX} sets of rings; the others are \
                 lost: {}",
                application.program, application.process.pid, application.orphans_lost
            ));
        }
        // Those of one channel together, in their order.
        let mut channels: Vec<Vec<Passed>> = Vec::new();
        for Offered { orphan, identity, memory } in std::mem::take(&mut application.orphans) {
            let shape = memory.as_ref().and_then(|memory| shape_of_left(memory).ok());
            let (Some(memory), Some(shape)) = (memory, shape) else {
                application.released.push(orphan.number);
                continue;
            };
            let place = (shape.uuid, shape.stream);
            let passed = Passed { orphan, identity, shape, memory };
            let same = |channel: &&mut Vec<Passed>| {
                let first = channel.first().map(|first| &first.shape);
                first.is_some_and(|first| (first.uuid, first.stream) == place)
            };
            match channels.iter_mut().find(same) {
                Some(channel) => channel.push(passed),
                None => channels.push(vec![passed]),
            }
        }
        // It becomes less, which is never refused.
        let _ = application.descriptors.set(OWN_DESCRIPTORS);
        for channel in channels {
            let numbers: Vec<u32> = channel.iter().map(|passed| passed.orphan.number).collect();
            let Err(error) = self.adopt_channel(id, &channel) else { continue };
            for number in numbers {
                self.send(id, &ToApplication::Release(number), vec![]);
            }
            let Some(application) = self.applications.get_mut(&id) else { return };
            // As if they had been read, should the program offer them again.
            channel.iter().for_each(|passed| application.note_done(passed.identity));
            self.log.about(
                application.account.uid(),
                &format!(
                    "{} ({}): what an earlier agent has left is lost: {error}",
                    application.program, application.process.pid
                ),
            );
        }
    }

    fn adopt_channel(&mut self, id: Id, passed: &[Passed]) -> io::Result<()> {
        let Some(application) = self.applications.get(&id) else { return Ok(()) };
        let clock = ring_clock(application);
        let mut place = None;
        let mut left = Vec::new();
        for Passed { orphan, shape, memory, .. } in passed {
            place = Some(self.place_of(application, shape)?);
            let rings = Rings::left_behind(memory, *shape, clock)?;
            left.push(LeftSet { number: Some(orphan.number), rings });
        }
        let (Some((at, number)), Some(last)) = (place, passed.last()) else { return Ok(()) };
        let waiting: Vec<Waiting> =
            left.iter().filter_map(|set| self.waiting_in(id, &set.rings)).collect();
        let replaces = (!last.orphan.is_spent).then_some(last.orphan.number);
        let adopted = self.adopt_rings(id, (at, number), last.shape.uuid, (replaces, left));
        if adopted.is_err() {
            waiting.into_iter().for_each(|waiting| self.count_lost(waiting));
        }
        adopted
    }

    /// Also for a session that does not record now, as what is in the rings is to be written.
    fn adopt_rings(
        &mut self,
        id: Id,
        (at, number): (usize, usize),
        uuid: [u8; 16],
        (replaces, left): (Option<u32>, Vec<LeftSet>),
    ) -> io::Result<()> {
        let Some(application) = self.applications.get(&id) else { return Ok(()) };
        let session = &self.sessions[at];
        let place = (session.id, number);
        if application.attachments.iter().any(|one| (one.session, one.channel) == place) {
            return Err(io::Error::other("it is recorded already"));
        }
        let begun = self.begun.remove(&uuid);
        let trace = begun.as_ref().and_then(|begun| {
            let pid = application.process.pid;
            let note = Note::new(self.notebook.clone(), session, pid, uuid);
            // One that cannot be gone on with is left as it is, and another one is begun.
            Trace::go_on(begun.directory.clone(), session.output.clone(), note).ok()
        });
        let attached = self.attach(id, (at, number), Some(Adopted { uuid, replaces, left, trace }));
        let application = self.applications.get(&id);
        let has_trace = application.is_some_and(|one| one.traces.contains_key(&place.0));
        if let Some(begun) = begun.filter(|_| !has_trace) {
            // Other channels may be able to go on with it.
            self.begun.insert(uuid, Begun { is_earlier: false, ..begun });
        }
        attached.map(drop)
    }

    /// The session of a trace that a program's rings went to.
    fn session_of(&self, application: &Application, uuid: [u8; 16]) -> Option<SessionId> {
        let own = application.uuids.iter().find(|(_, own)| **own == uuid);
        let begun = self.begun.get(&uuid).filter(|begun| begun.pid == application.process.pid);
        own.map(|(session, _)| *session).or(begun.map(|begun| begun.session))
    }

    /// Asks a program to say when it has done all that it was told; the number of the question.
    pub(crate) fn ping(&mut self, id: Id) -> u64 {
        let Some(application) = self.applications.get_mut(&id) else { return 0 };
        application.pinged += 1;
        let number = application.pinged;
        self.send(id, &ToApplication::Ping(number), vec![]);
        number
    }

    /// Tells a program what to record, as far as that has changed.
    pub(crate) fn update(&mut self, id: Id) {
        for at in 0..self.sessions.len() {
            self.update_session(id, at);
        }
    }

    /// Tells a program what to record for the session at that place, as far as that has changed; gives whether it
    /// has.
    pub(crate) fn update_session(&mut self, id: Id, at: usize) -> bool {
        let mut has_changed = false;
        for channel in 0..self.sessions[at].channels.len() {
            has_changed |= self.update_channel(id, at, channel);
        }
        has_changed
    }

    fn update_channel(&mut self, id: Id, at: usize, number: usize) -> bool {
        let (Some(application), session) = (self.applications.get(&id), &self.sessions[at]) else {
            return false;
        };
        if application.catalog.is_none() || !session.may_record(&application.process) {
            return false;
        }
        let wanted = match session.is_active() {
            true => session.channels[number].rules_for(&application.process),
            false => Orders::default(),
        };
        let is_own = |one: &Attachment| (one.session, one.channel) == (session.id, number);
        let own = application.attachments.iter().position(is_own);
        match own {
            // It gets new ones soon.
            Some(own) if application.attachments[own].is_removed() => false,
            Some(own)
                if application.attachments[own].is_told
                    && application.attachments[own].rules == wanted =>
            {
                false
            }
            Some(own) => self.send_rules(id, own, wanted),
            None if wanted.is_empty() => false,
            None => match self.attach(id, (at, number), None) {
                Ok(own) => self.send_rules(id, own, wanted),
                Err(error) => {
                    let Some(application) = self.applications.get(&id) else { return false };
                    let pid = application.process.pid;
                    let line =
                        format!("{} ({pid}): cannot be recorded: {error}", application.program);
                    self.log.about(application.account.uid(), &line);
                    self.count_refused(self.sessions[at].id, number, pid, &error);
                    false
                }
            },
        }
    }

    fn send_rules(&mut self, id: Id, own: usize, rules: Orders) -> bool {
        let Some(application) = self.applications.get_mut(&id) else { return false };
        let Some(attachment) = application.attachments.get_mut(own) else { return false };
        let channel = attachment.number;
        attachment.set_rules(rules.clone());
        for rule in rules.rules() {
            let rule = rule.clone();
            self.send(id, &ToApplication::Rule(ChannelRule { channel, rule }), vec![]);
        }
        self.send(id, &ToApplication::Apply(channel), vec![]);
        true
    }

    /// Takes what rings of a channel, beside those that are left of it, take of what the user may have. What
    /// is kept only in case makes room.
    fn hold(
        &mut self,
        id: Id,
        (at, number): (usize, usize),
        adopted: Option<&mut Adopted>,
    ) -> io::Result<Holds> {
        let Some(application) = self.applications.get(&id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let account = application.account.clone();
        let type_bytes = application.catalog.as_ref().map_or(0, Catalog::size) as u64;
        let session = &self.sessions[at];
        let place = (session.id, number);
        let is_written = session.purpose == Purpose::Record;
        let shape = shape_of(&session.channels[number].channel, number as u32, [0; 16]);
        let own = charge_min(&shape);
        // A file and its index for each ring, and the memory.
        let descriptors = 1 + if is_written { 2 * shape.rings as u64 } else { 0 };
        let has_both = || {
            account.has(What::Descriptors, descriptors) && account.has(What::TypeBytes, type_bytes)
        };
        while !has_both() && self.end_oldest_absence(account.uid()) {}
        let mut nothing = Vec::new();
        let left = adopted.map_or(&mut nothing, |adopted| &mut adopted.left);
        let ring_bytes = if is_written {
            self.make_room(id, place, (&account, own), &mut Vec::new());
            let mut ring_bytes = account.take(What::RingBytes, own)?;
            // They are there no longer than it takes to write them.
            ring_bytes.owe(size_of_sets(left));
            ring_bytes
        } else {
            self.make_room(id, place, (&account, own), left);
            account.take(What::RingBytes, own + size_of_sets(left))?
        };
        Ok(Holds {
            ring_bytes,
            type_bytes: account.take(What::TypeBytes, type_bytes)?,
            _descriptors: account.take(What::Descriptors, descriptors)?,
        })
    }

    /// Gives up what is kept for snapshots of a user's programs and daemons that have ended, the oldest first
    /// and what is `left` of a channel itself last, until there is room for that channel's rings and for what
    /// is left of it.
    fn make_room(
        &mut self,
        id: Id,
        place: (SessionId, usize),
        (account, own): (&Account, u64),
        left: &mut Vec<LeftSet>,
    ) {
        // Not for what can never be.
        while account.could_have(What::RingBytes, own)
            && !account.has(What::RingBytes, own + size_of_sets(left))
        {
            if self.forget_oldest(account.uid()) {
                continue;
            }
            if left.is_empty() {
                return;
            }
            let LeftSet { number, rings } = left.remove(0);
            let totals = self.released.entry(place).or_default();
            totals.rings += rings.count() as u64;
            totals.packets_lost +=
                (0..rings.count()).map(|ring| rings.packets_kept(ring)).sum::<u64>();
            if let Some(number) = number {
                self.send(id, &ToApplication::Release(number), vec![]);
            }
        }
    }

    /// Gives a program rings for a channel.
    fn attach(
        &mut self,
        id: Id,
        (at, number): (usize, usize),
        mut adopted: Option<Adopted>,
    ) -> io::Result<usize> {
        let holds = self.hold(id, (at, number), adopted.as_mut())?;
        let session = &mut self.sessions[at];
        let channel = &session.channels[number].channel;
        let Some(application) = self.applications.get_mut(&id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let known = adopted.as_ref().map(|adopted| adopted.uuid);
        let new = || known.unwrap_or_else(new_uuid);
        let uuid = *application.uuids.entry(session.id).or_insert_with(new);
        let shape = shape_of(channel, number as u32, uuid);
        let clock = ring_clock(application);
        let (rings, file) = Rings::create(shape, clock)?;
        let is_written = session.purpose == Purpose::Record;
        let is_new = !application.traces.contains_key(&session.id);
        if is_new {
            let earlier = adopted.as_mut().and_then(|adopted| adopted.trace.take());
            let mut trace = match earlier {
                Some(trace) => trace,
                None => {
                    let directory = directory_of(session.output.path(), application);
                    let rate = self.clocks.rate(&mut session.rates, application.clock);
                    let about = about(rate, session, application, uuid);
                    let pid = application.process.pid;
                    let note = Note::new(self.notebook.clone(), session, pid, uuid);
                    Trace::new(directory, session.output.clone(), about, Some(note))
                }
            };
            trace.let_go_by(self.behind.clone());
            trace.bound_by(session.bound.clone());
            trace.count_for(application.account.clone());
            // Before the program has rings for it.
            trace.note_directory();
            application.traces.insert(session.id, trace);
        }
        if let Some(trace) = application.traces.get_mut(&session.id) {
            trace.add_channel(number as u32, &channel.name, &channel.contexts);
        }
        let channel_number = application.next_number;
        application.next_number += 1;
        let place = (session.id, number);
        // The program has mapped the memory when it answers the next question.
        let mapped = application.pinged + 1;
        let rings = (rings, holds);
        let mut attachment = Attachment::new(place, channel_number, rings, is_written, mapped);
        let Adopted { replaces, left, .. } = adopted.unwrap_or_default();
        // Its stream may be there, of rings that are not.
        let done = match attachment.take_over(left, application.traces.get_mut(&place.0)) {
            Ok(done) => done,
            Err(error) => {
                if is_new {
                    // It is there in part, and cannot be gone on with: another one is begun.
                    application.traces.remove(&place.0);
                    application.uuids.remove(&place.0);
                }
                return Err(error);
            }
        };
        done.iter().for_each(|set| attachment.losses.add_all(&set.losses()));
        application.attachments.push(attachment);
        let own = application.attachments.len() - 1;
        // From now on events may come, and the first one is to wake the daemon.
        application.next_look = Some(Instant::now());
        let message = ToApplication::AddChannel(AddChannel {
            channel: channel_number,
            session: session.name.clone(),
            contexts: channel.contexts.clone(),
            replaces,
        });
        let descriptors = vec![file, application.wake.clone()];
        self.save_if_long();
        self.send(id, &message, descriptors);
        for set in done {
            if let Some(number) = set.number {
                self.send(id, &ToApplication::Release(number), vec![]);
            }
        }
        Ok(own)
    }

    /// Takes rings that hold much memory from a user's programs until the user has no more than a quota
    /// says. The programs get new ones, in which nothing is written yet, when they have let go of the old
    /// ones. Who does not let go keeps the memory as its own, and the agent no part in it.
    pub(crate) fn limit_rings(&mut self, account: &Arc<Account>, now: Instant) {
        while account.is_over(What::RingBytes) && self.forget_oldest(account.uid()) {}
        let is_leaving = |one: &Application| one.next_removal().is_some();
        let own = |one: &&Application| one.account.uid() == account.uid();
        if !account.is_over(What::RingBytes)
            || self.applications.values().filter(own).any(is_leaving)
        {
            return;
        }
        let all = self.applications.iter().filter(|(_, one)| own(one));
        let most = all.filter_map(|(id, one)| Some((*id, one.most_excess()?)));
        let Some((id, (at, _))) = most.max_by_key(|(_, (_, excess))| *excess) else { return };
        let Some(application) = self.applications.get(&id) else { return };
        let number = application.attachments[at].number;
        account.count_refused(What::RingBytes);
        self.send(id, &ToApplication::RemoveChannel(number), vec![]);
        let ping = self.ping(id);
        if let Some(application) = self.applications.get_mut(&id) {
            application.note_removed(at, ping, now);
        }
    }

    /// Gives new rings to programs that have let go of theirs because of their memory.
    pub(crate) fn renew_rings(&mut self, id: Id, now: Instant) {
        let Some(application) = self.applications.get_mut(&id) else { return };
        let removed = application.take_removed(crate::engine::ROOM, now);
        if removed.is_empty() {
            return;
        }
        for attachment in &removed {
            self.count_ended(attachment);
            self.count_loss(attachment.session, &attachment.unread());
            self.count_loss(attachment.session, &attachment.lost_by_renewal());
        }
        drop(removed);
        self.update(id);
        self.ping(id);
    }

    /// Takes the rings of a session from all programs; what is in them is written, or dropped if it was
    /// for snapshots. The programs have let go of them.
    pub(crate) fn detach(&mut self, session: SessionId) -> Option<io::Error> {
        let mut trouble = None;
        let mut gone: Vec<Attachment> = Vec::new();
        let mut closed: Vec<Trace> = Vec::new();
        let mut types_lost: Vec<Losses> = Vec::new();
        for application in self.applications.values_mut().chain(&mut self.departed) {
            let count = application.attachments.len();
            let finished = application.finish(crate::engine::ROOM, Some(session));
            trouble = finished.trouble.or(trouble);
            let attachments = std::mem::take(&mut application.attachments);
            let (own, others): (Vec<_>, Vec<_>) =
                attachments.into_iter().partition(|attachment| attachment.session == session);
            application.attachments = others;
            gone.extend(own);
            closed.extend(application.traces.remove(&session));
            application.uuids.remove(&session);
            if application.attachments.len() != count {
                types_lost.push(application.types_lost());
            }
        }
        types_lost.iter().for_each(|types| self.count_loss(session, types));
        for mut trace in closed {
            let uuid = trace.note().map(Note::uuid);
            let misses = |one: &Attachment| {
                Some(one.rings.shape().uuid) == uuid && one.is_written && one.packets_waiting() > 0
            };
            trace.end(gone.iter().any(misses));
            self.spare(session, trace.directory());
        }
        self.departed.retain(|application| !application.attachments.is_empty());
        for attachment in &gone {
            self.count_ended(attachment);
            self.count_loss(session, &attachment.unread());
        }
        trouble
    }

    pub(crate) fn count_ended(&mut self, attachment: &Attachment) {
        let place = (attachment.session, attachment.channel);
        let totals = self.ended.entry(place).or_default();
        for ring in 0..attachment.rings.count() {
            let counts = attachment.rings.counts(ring);
            totals.rings += 1;
            // Programs count, and may count nonsense.
            let discarded = attachment.rings.discarded(ring);
            totals.discarded = totals.discarded.saturating_add(discarded);
            let recorded = attachment.rings.recorded(ring);
            totals.recorded = Some(totals.recorded.unwrap_or(0).saturating_add(recorded));
            totals.packets += counts.packets;
            totals.packets_lost += counts.packets_lost;
            totals.bytes += counts.bytes;
            totals.cut = totals.cut.saturating_add(attachment.rings.cut(ring));
        }
        attachment.rings.note_counted();
        self.note_totals(place);
        self.count_loss(place.0, &attachment.losses_so_far());
    }
}

/// Where a program's trace goes, below a session's directory: as LTTng has it for buffers of processes.
pub(crate) fn directory_of(output: &Path, application: &Application) -> PathBuf {
    let plain = |letter: char| if letter == '/' { '_' } else { letter };
    let mut name: String = application.program.chars().map(plain).take(100).collect();
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, '_');
    }
    let date = date::for_names(&Zoned::now());
    let mut size = name.len().min(PROGRAM_SIZE_MAX);
    while !name.is_char_boundary(size) {
        size -= 1;
    }
    name.truncate(size);
    let name = format!("{name}-{}-{date}", application.process.pid);
    output.join("ust").join("pid").join(name)
}

/// The clock of a program's events, for readers of its rings.
fn ring_clock(application: &Application) -> blkkin_ring::Clock {
    match (application.clock, application.process.monotonic_ahead_ns) {
        (Clock::Tsc, _) => blkkin_ring::Clock::Tsc,
        (Clock::Monotonic, 0) => blkkin_ring::Clock::Monotonic,
        (Clock::Monotonic, ahead_ns) => blkkin_ring::Clock::MonotonicAhead(ahead_ns),
    }
}

pub(crate) fn about(
    rate: Rate,
    session: &Session,
    application: &Application,
    uuid: [u8; 16],
) -> About {
    let text = |text: &str| EnvValue::Str(text.to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let now = date::for_environment(&Zoned::now());
    let version = |part: &str| EnvValue::Int(part.parse().unwrap_or(0));
    let env = [
        ("domain", text("ust")),
        ("tracer_name", text("blkkin")),
        ("tracer_major", version(env!("CARGO_PKG_VERSION_MAJOR"))),
        ("tracer_minor", version(env!("CARGO_PKG_VERSION_MINOR"))),
        ("tracer_patchlevel", version(env!("CARGO_PKG_VERSION_PATCH"))),
        ("tracer_buffering_scheme", text("pid")),
        ("tracer_buffering_id", EnvValue::Int(application.process.pid.into())),
        ("architecture_bit_width", EnvValue::Int(64)),
        ("trace_name", text(&session.name)),
        ("trace_creation_datetime", text(&date::for_environment(&session.created))),
        ("hostname", text(&host)),
        ("vpid", EnvValue::Int(application.pid_inner.into())),
        ("procname", text(&application.program)),
        ("vpid_datetime", text(&now)),
    ];
    let (clock_name, rate) = match application.clock {
        Clock::Tsc => ("tsc", rate),
        Clock::Monotonic => ("monotonic", rate.ahead(application.process.monotonic_ahead_ns)),
    };
    About {
        uuid,
        env: env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        clock_name,
        rate,
    }
}

/// A random one, as RFC 9562 has it.
pub(crate) fn new_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    let words = blkkin_sys::random_words().unwrap_or_else(|| {
        let [first, second, ..] = blkkin_sys::whereabouts();
        [first, second]
    });
    uuid[..8].copy_from_slice(&words[0].to_le_bytes());
    uuid[8..].copy_from_slice(&words[1].to_le_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
