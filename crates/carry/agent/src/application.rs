//! A traced program: what it has told, the rings that it was given, and the traces that become of them.

use crate::catalog::{Catalog, Room};
use crate::departed::Absence;
use crate::foreign::Foreign;
use crate::losses::{Losses, cause_of};
use crate::pace::{Hearing, Pace};
use crate::process::Process;
use crate::quota::{Account, Share};
use crate::rings::{Identity, Packets, Rings};
use crate::session::{Matcher, Orders, SessionId};
use crate::snapshot::Ends;
use crate::trace::Trace;
use blkkin_control::{Cause, Clock, EventType, Orphan};
use blkkin_ring::{Left, Moment};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A traced program.
#[derive(Debug)]
pub(crate) struct Application {
    /// A number that stays when it comes back over another connection.
    pub(crate) serial: u64,
    pub(crate) process: Process,
    pub(crate) account: Arc<Account>,
    pub(crate) descriptors: Share,
    /// Its process, as it says that it sees itself.
    pub(crate) pid_inner: u32,
    pub(crate) program: String,
    pub(crate) release: String,
    pub(crate) clock: Clock,
    /// None before it has said where its types are.
    pub(crate) catalog: Option<Catalog>,
    pub(crate) attachments: Vec<Attachment>,
    /// What is written, by session.
    pub(crate) traces: BTreeMap<SessionId, Trace>,
    /// UUIDs of its traces, by session.
    pub(crate) uuids: BTreeMap<SessionId, [u8; 16]>,
    /// Rings of connections before, of this daemon and of earlier ones.
    pub(crate) orphans: Vec<Offered>,
    /// How many there were beyond those for which there is room.
    pub(crate) orphans_lost: u64,
    /// Its numbers for rings of earlier daemons that have been read, and of which it is to be told, …
    pub(crate) released: Vec<u32>,
    /// … and which those were, as it may not hear of it; the last ones.
    pub(crate) done: VecDeque<Identity>,
    /// Whether it has said that it ends.
    pub(crate) is_ending: bool,
    /// If its connection has ended, and it may come back.
    pub(crate) absence: Option<Absence>,
    /// By which it wakes the daemon.
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) next_number: u32,
    /// When its rings are looked at next; never if it wakes the daemon itself.
    pub(crate) next_look: Option<Instant>,
    pub(crate) pace: Pace,
    pub(crate) hearing: Hearing,
    /// Whether the program was told to wake the daemon, and nothing has come since.
    pub(crate) is_asleep: bool,
    /// Whether the user was told that something cannot be written.
    pub(crate) is_in_trouble: bool,
    /// The last `Ping` that it was sent, and that it has answered.
    pub(crate) pinged: u64,
    pub(crate) ponged: u64,
}

/// Rings of which a program says that it has them of a connection before.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) orphan: Orphan,
    pub(crate) identity: Identity,
    /// None if the daemon has them itself.
    pub(crate) memory: Option<Foreign<OwnedFd>>,
}

/// Rings of an earlier daemon.
#[derive(Debug)]
pub(crate) struct LeftSet {
    /// The program's number for them, if it has them still.
    pub(crate) number: Option<u32>,
    pub(crate) rings: Rings,
}

/// The rings that a program has for a channel.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) session: SessionId,
    /// Which of the session's channels it is.
    pub(crate) channel: usize,
    /// The number by which the program knows it.
    pub(crate) number: u32,
    pub(crate) rings: Rings,
    holds: Holds,
    /// What is written as it comes, rather than kept for snapshots.
    pub(crate) is_written: bool,
    /// The answer of the program by which it has mapped the rings.
    mapped: u64,
    /// The rules that are in force; none if the program records nothing into it.
    pub(crate) rules: Orders,
    /// All rules that ever were, since events may come of each, and how many types of the catalog have been held
    /// against them.
    history: Vec<(Matcher, usize)>,
    /// Whether there were others that are not known, so that events may come of any type.
    had_others: bool,
    /// Whether the program was told rules at all.
    pub(crate) is_told: bool,
    /// Types of the catalog that are described, if events may come of any.
    described: usize,
    /// Rings of earlier daemons, of which these take the place, the oldest first.
    pub(crate) left_behind: Vec<LeftSet>,
    /// What could not be written is not tried again before.
    retry: Option<Instant>,
    /// If the program was told to let go of the rings because its user's hold too much memory: the answer by
    /// which it has, and when it is not waited for any longer.
    removed: Option<(u64, Instant)>,
    /// Why it could not be written.
    pub(crate) trouble: Option<(Cause, String)>,
    /// Losses by cause, of events that were discarded until so many were.
    pub(crate) losses: Losses,
    pub(crate) discarded_seen: u64,
}

/// What an attachment takes of what the program's user may have.
#[derive(Debug)]
pub(crate) struct Holds {
    /// Of the rings, and of those that are left behind.
    pub(crate) ring_bytes: Share,
    /// Of the types that its stream describes.
    pub(crate) type_bytes: Share,
    /// The rings' memory, and the stream's files.
    pub(crate) _descriptors: Share,
}

/// Rings that were kept for snapshots, and had to make room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released {
    pub(crate) rings: u64,
    pub(crate) packets_lost: u64,
}

/// Rings are read so often that about a quarter of this much is unread, if they are larger.
const READ_IN_TIME: u64 = 2 << 20;

/// A look takes as many bytes of packets as fit into a ring. Of one that was full, headers may be left that
/// were made anew; and the look before that may have been at what an earlier daemon has left.
const LOOKS_AT_FULL_RINGS: u32 = 3;

/// Rings that hold no more than this are not given up for others.
const RENEWED_MIN: u64 = 512 << 10;

/// How long a program may take to let go of rings that hold too much memory. After that the memory is its
/// own affair.
const REMOVAL_TIME: Duration = Duration::from_secs(2);

/// When metadata is written that was put off.
const METADATA_PAUSE: Duration = Duration::from_millis(20);
/// When what could not be written is tried again.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// Sets of rings that are done with and that a program may still offer.
const DONE_MAX: usize = 256;

/// Sets of rules that are kept to know what may have been recorded by them, …
const HISTORY_MAX: usize = 16;
/// … and the rules in all of them together.
const HISTORY_RULES_MAX: usize = 2 * blkkin_control::limits::RULES_MAX;

/// What came of looking at all rings of a program.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// The most that one ring had, in relation to what fits into it: in parts of 256.
    pub(crate) fullest: u64,
    pub(crate) found: bool,
    /// Why something could not be written. It is kept; the rings fill up meanwhile, and the program counts
    /// what finds no room.
    pub(crate) trouble: Option<io::Error>,
}

impl Attachment {
    pub(crate) fn new(
        (session, channel): (SessionId, usize),
        number: u32,
        (rings, holds): (Rings, Holds),
        is_written: bool,
        mapped: u64,
    ) -> Attachment {
        Attachment {
            session,
            channel,
            number,
            rings,
            holds,
            is_written,
            mapped,
            rules: Orders::default(),
            history: Vec::new(),
            had_others: false,
            is_told: false,
            described: 0,
            left_behind: Vec::new(),
            retry: None,
            removed: None,
            trouble: None,
            losses: Losses::default(),
            discarded_seen: 0,
        }
    }

    /// Which rings it has, the oldest first.
    pub(crate) fn identities(&self) -> impl Iterator<Item = Identity> {
        let left = self.left_behind.iter().map(|set| &set.rings);
        left.chain([&self.rings]).map(Rings::identity)
    }

    /// The program goes on with the rings over another connection, on which those before them have other
    /// numbers, or none. It has mapped them by that answer.
    pub(crate) fn go_on(&mut self, mapped: u64, number_of: impl Fn(Identity) -> Option<u32>) {
        for set in &mut self.left_behind {
            set.number = number_of(set.rings.identity());
        }
        self.mapped = mapped;
        self.is_told = false;
        self.retry = None;
        self.rings.wake_up();
    }

    /// What comes from now on is told as if nothing had been before, since its trace is closed.
    pub(crate) fn begin_anew(&mut self) {
        // Not if rings before these could not be written yet.
        if self.left_behind.is_empty() {
            (0..self.rings.count()).for_each(|ring| self.rings.begin_anew(ring));
        }
    }

    /// Passes over what is in rings of earlier daemons.
    fn pass_over_left_behind(&mut self) {
        for LeftSet { rings, .. } in &mut self.left_behind {
            (0..rings.count()).for_each(|ring| rings.pass_over(ring));
        }
    }

    /// Packets that could not be written.
    pub(crate) fn packets_waiting(&self) -> u64 {
        let left = self.left_behind.iter().map(|set| &set.rings);
        left.chain([&self.rings]).map(Rings::packets_waiting).fold(0, u64::saturating_add)
    }

    /// Whether it is of that session; all are of none.
    fn is_of(&self, session: Option<SessionId>) -> bool {
        session.is_none_or(|session| session == self.session)
    }

    /// Its stream's number in traces: that of the channel.
    pub(crate) fn stream(&self) -> u32 {
        self.channel as u32
    }

    /// Notes rules that are in force from now on.
    pub(crate) fn set_rules(&mut self, rules: Orders) {
        if !rules.is_empty() && !self.had_others {
            self.history.push((rules.matcher().clone(), 0));
            let count: usize = self.history.iter().map(|(matcher, _)| matcher.len()).sum();
            if self.history.len() > HISTORY_MAX || count > HISTORY_RULES_MAX {
                self.forget_rules();
            }
        }
        self.rules = rules;
        self.is_told = true;
    }

    /// From now on, events may come of any type: more is described than is recorded, which hurts nobody.
    fn forget_rules(&mut self) {
        self.had_others = true;
        self.history = Vec::new();
    }

    /// Notes in a trace all types of which events may be in the rings. To hold them against the rules takes its
    /// time, which the program's user has so much of; after that, all types are noted.
    pub(crate) fn note_types(
        &mut self,
        types: &[EventType],
        trace: &mut Trace,
        account: &Account,
        is_anew: bool,
    ) {
        let stream = self.stream();
        if is_anew {
            self.described = 0;
            self.history.iter_mut().for_each(|(_, described)| *described = 0);
        }
        let is_new = self.history.iter().any(|(_, described)| *described < types.len());
        if is_new && !self.had_others {
            let begun = Instant::now();
            let room = account.matching_time(begun);
            'all: for (matcher, described) in &mut self.history {
                while let Some(event_type) = types.get(*described) {
                    if begun.elapsed() > room {
                        self.had_others = true;
                        break 'all;
                    }
                    *described += 1;
                    if !trace.has_event(stream, event_type.index)
                        && matcher.may_record(&event_type.name, event_type.level)
                    {
                        trace.add_event(stream, event_type);
                    }
                }
            }
            account.spend_matching(begun.elapsed());
        }
        if self.had_others {
            self.forget_rules();
            for event_type in &types[self.described.min(types.len())..] {
                trace.add_event(stream, event_type);
            }
            self.described = types.len();
        }
    }

    /// Takes the place of rings of earlier daemons: goes on in their streams, where the last one was. Gives
    /// those that are done with already.
    pub(crate) fn take_over(
        &mut self,
        mut left: Vec<LeftSet>,
        trace: Option<&mut Trace>,
    ) -> io::Result<Vec<LeftSet>> {
        // By which rules they were recorded nobody knows.
        self.had_others |= !left.is_empty();
        let Some(trace) = trace.filter(|_| self.is_written) else {
            // A flight recorder: all of it is there that was not cleared.
            for ring in 0..most_rings(&self.rings, &left) {
                let mut is_wanted = true;
                for LeftSet { rings: set, .. } in left.iter_mut().rev() {
                    let Some(was) = set.left(ring) else { continue };
                    let position = if is_wanted { was.read } else { set.end(ring) };
                    set.read_behind(ring, (position, was), None);
                    is_wanted &= !was.is_first;
                }
            }
            self.left_behind = left;
            return Ok(Vec::new());
        };
        let mut done = left.len();
        for ring in 0..most_rings(&self.rings, &left) {
            let sets: Vec<Left> = left.iter().filter_map(|set| set.rings.left(ring)).collect();
            let mut resumed = Resumed::default();
            let settle = |size: u64| {
                resumed = resume(&sets, size);
                resumed.size
            };
            let last = trace.go_on_with_stream((self.stream(), ring as u32), settle)?;
            if !sets.is_empty() {
                done = done.min(resumed.set);
            }
            // Not all sets have as many rings.
            let with_ring =
                left.iter_mut().map(|set| &mut set.rings).filter(|set| ring < set.count());
            for (at, (set, &was)) in with_ring.zip(&sets).enumerate() {
                let position = match at.cmp(&resumed.set) {
                    // All of it is written.
                    Ordering::Less => set.end(ring),
                    Ordering::Equal => resumed.position.unwrap_or(was.start),
                    Ordering::Greater => was.start,
                };
                set.read_behind(ring, (position, was), last);
                if at < resumed.set {
                    // What was discarded is told, too, perhaps in another trace.
                    set.pass_over(ring);
                } else if at == resumed.set
                    && (was.size_after == 0 || at > 0 && resumed.position.is_none())
                {
                    // What it says of discarded events may be from before the sets before it were read, or
                    // is of what comes behind a trace that was closed.
                    set.go_on_behind(ring, last);
                }
            }
            self.rings.go_on_behind(ring, last);
        }
        self.left_behind = left.split_off(done.min(left.len()));
        self.weigh_rings();
        Ok(left)
    }

    /// Writes what is in rings of earlier daemons, to which nothing is written any more; what comes in
    /// those that took their place goes behind it. Gives those that are done with.
    fn write_left_behind(&mut self, trace: &mut Trace) -> io::Result<Vec<LeftSet>> {
        let stream = self.stream();
        let left = &mut self.left_behind;
        for ring in 0..most_rings(&self.rings, left) {
            let mut packets = Packets::default();
            let marks: Vec<_> = left.iter().map(|set| set.rings.mark_if(ring)).collect();
            let sets = left.iter_mut().map(|set| &mut set.rings);
            for set in sets.filter(|set| ring < set.count()) {
                if !packets.is_empty() {
                    // Behind what the set before had.
                    set.go_on_behind(ring, packets.headers().last().copied());
                }
                let mut own = Packets::default();
                let mut before = None;
                while before.replace(own.headers().len()) != Some(own.headers().len()) {
                    set.take(ring, &mut own);
                }
                set.finish(ring, &mut own);
                packets.append(own);
            }
            if packets.is_empty() {
                continue;
            }
            let before = trace.size(stream, ring as u32);
            if ring < self.rings.count() {
                self.rings.announce(ring, (before, before + packets.size()));
            }
            if let Err(error) = trace.append((stream, ring as u32), &packets, &self.rings) {
                for (set, mark) in left.iter_mut().zip(marks) {
                    mark.into_iter().for_each(|mark| set.rings.go_back(ring, mark));
                }
                return Err(error);
            }
            self.rings.go_on_behind(ring, packets.headers().last().copied());
        }
        Ok(std::mem::take(left))
    }

    /// What is kept of a ring, in all sets that have some of it, the oldest first.
    fn kept_sets(&self, ring: usize) -> Vec<&Rings> {
        let left = self.left_behind.iter().map(|set| &set.rings);
        let mut sets: Vec<&Rings> = left.chain([&self.rings]).collect();
        sets.retain(|set| ring < set.count());
        // What is older than something that was overwritten is not kept either.
        let first = sets.iter().rposition(|set| set.is_overtaken(ring)).unwrap_or(0);
        sets.split_off(first)
    }

    /// Packets that only the oldest set has, for snapshots.
    fn packets_of_oldest(&self) -> u64 {
        let oldest = self.left_behind.first().map_or(&self.rings, |oldest| &oldest.rings);
        let kept = (0..oldest.count()).map(|ring| {
            let sets = self.kept_sets(ring);
            let has_oldest = sets.first().is_some_and(|first| std::ptr::eq(*first, oldest));
            if has_oldest { oldest.packets_kept(ring) } else { 0 }
        });
        kept.sum()
    }

    /// Counts what the rings take now.
    fn weigh_rings(&mut self) {
        let left = self.left_behind.iter().map(|set| &set.rings);
        let sizes = left.chain([&self.rings]).map(Rings::charge);
        // Nobody is asked when a page is written: what is there counts.
        self.holds.ring_bytes.charge(sizes.fold(0, u64::saturating_add));
    }

    /// Whether the program was told to let go of the rings.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_some()
    }

    /// Bytes that could be given back if the program got other rings.
    fn excess(&self) -> u64 {
        match self.is_removed() || self.rings.shape().mode == blkkin_ring::Mode::Overwrite {
            true => 0,
            false => self.rings.charge().saturating_sub(RENEWED_MIN),
        }
    }

    /// Gives up the oldest set of rings that is kept for snapshots, of an earlier daemon.
    pub(crate) fn release_oldest(&mut self, totals: &mut Released) -> Option<LeftSet> {
        if self.is_written || self.left_behind.is_empty() {
            return None;
        }
        totals.packets_lost += self.packets_of_oldest();
        let oldest = self.left_behind.remove(0);
        totals.rings += oldest.rings.count() as u64;
        self.weigh_rings();
        Some(oldest)
    }

    /// Gives up all that is kept of a program that has ended.
    pub(crate) fn release_all(&mut self, totals: &mut Released) {
        while self.release_oldest(totals).is_some() {}
        totals.packets_lost += self.packets_of_oldest();
        totals.rings += self.rings.count() as u64;
    }

    /// Describes all types of which events may be in the rings.
    fn describe(
        &mut self,
        catalog: Option<&Catalog>,
        trace: &mut Trace,
        account: &Account,
    ) -> io::Result<()> {
        let Some(catalog) = catalog else { return Ok(()) };
        // It takes no more than that.
        self.holds.type_bytes.set(catalog.size() as u64)?;
        self.note_types(catalog.types(), trace, account, false);
        Ok(())
    }
}

/// The most rings that a set has, of these and those that were left.
fn most_rings(rings: &Rings, left: &[LeftSet]) -> usize {
    left.iter().map(|set| set.rings.count()).fold(rings.count(), usize::max)
}

impl Application {
    /// Has all rings sealed that the program has mapped.
    pub(crate) fn seal_mapped(&mut self) -> io::Result<()> {
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

    /// Has the program's next event wake the daemon; what is in the rings by now is to be looked for once
    /// more.
    pub(crate) fn fall_asleep(&mut self) {
        self.is_asleep = true;
        let written = self.attachments.iter().filter(|attachment| attachment.is_written);
        written.for_each(|attachment| attachment.rings.fall_asleep());
        blkkin_sys::barrier_for_all();
    }

    /// Whether who finds a ring filling up is to wake the daemon, as it does not come before long.
    pub(crate) fn doze(&self, is_dozing: bool) {
        for attachment in self.attachments.iter().filter(|attachment| attachment.is_written) {
            if is_dozing { attachment.rings.doze() } else { attachment.rings.rouse() }
        }
    }

    /// Looks at the rings by itself again.
    pub(crate) fn wake_up(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.attachments.iter().for_each(|attachment| attachment.rings.wake_up());
        }
    }

    /// Sets of rings are done with: the program may let them go.
    pub(crate) fn let_go(&mut self, sets: impl IntoIterator<Item = LeftSet>) {
        for set in sets {
            self.released.extend(set.number);
            self.note_done(set.rings.identity());
        }
    }

    /// Nothing is wanted any more of rings that the program may still offer.
    pub(crate) fn note_done(&mut self, identity: Identity) {
        self.done.push_back(identity);
        if self.done.len() > DONE_MAX {
            self.done.pop_front();
        }
    }

    /// Whether rings are its own, or have been.
    pub(crate) fn has_had(&self, identity: Identity) -> bool {
        self.attachments.iter().flat_map(Attachment::identities).any(|own| own == identity)
            || self.done.contains(&identity)
    }

    /// Whether there are rings that it may not have mapped yet, and that cannot be read before.
    pub(crate) fn has_unsealed(&self) -> bool {
        self.attachments.iter().any(|attachment| !attachment.rings.is_sealed())
    }

    /// When what could not be written is to be tried again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.attachments.iter().filter_map(|attachment| attachment.retry).min()
    }

    /// Whether none of what it records can be written now.
    pub(crate) fn has_only_trouble(&self) -> bool {
        let mut written = self.attachments.iter().filter(|attachment| attachment.is_written);
        written.all(|attachment| attachment.retry.is_some())
    }

    /// Writes what is in the rings now, of one session or of all; where that has just failed, not before it
    /// is time to try again, if there is `now`.
    pub(crate) fn drain(
        &mut self,
        room: Room,
        session: Option<SessionId>,
        now: Option<Instant>,
    ) -> Drained {
        let mut drained = Drained::default();
        let mut packets = Packets::default();
        let mut done = Vec::new();
        let is_due =
            |one: &Attachment| one.retry.is_none_or(|retry| now.is_none_or(|now| retry <= now));
        let readable = |one: &&mut Attachment| {
            one.is_of(session) && one.is_written && one.rings.is_sealed() && is_due(one)
        };
        let look = |catalog: &mut Option<Catalog>| {
            catalog.as_mut().map_or(Ok(false), |catalog| catalog.look(room))
        };
        for attachment in self.attachments.iter_mut().filter(readable) {
            let Some(trace) = self.traces.get_mut(&attachment.session) else { continue };
            attachment.attribute();
            attachment.retry = None;
            let before = attachment.trouble.take();
            let mut trouble = None;
            trace.put_off(now.is_some());
            let mut fail = |error: io::Error| {
                if error.kind() == io::ErrorKind::ResourceBusy {
                    return Some(Instant::now() + METADATA_PAUSE);
                }
                trouble = Some((cause_of(&error), error.to_string()));
                drained.trouble = Some(error);
                Some(Instant::now() + TROUBLE_PAUSE)
            };
            let mut has_taken = false;
            if !attachment.left_behind.is_empty() {
                let written = look(&mut self.catalog).and_then(|_| {
                    attachment.describe(self.catalog.as_ref(), trace, &self.account)?;
                    attachment.write_left_behind(trace)
                });
                match written {
                    Ok(sets) => {
                        sets.iter().for_each(|set| attachment.losses.add_all(&set.losses()));
                        done.extend(sets);
                        attachment.weigh_rings();
                    }
                    Err(error) => {
                        attachment.retry = fail(error);
                        attachment.trouble = trouble;
                        continue;
                    }
                }
                drained.found = true;
            }
            for ring in 0..attachment.rings.count() {
                let mark = attachment.rings.mark(ring);
                packets.clear();
                attachment.rings.take(ring, &mut packets);
                if packets.is_empty() {
                    continue;
                }
                drained.found = true;
                has_taken = true;
                // A ring may hold a burst. What comes steadily is read in time for the cache.
                let ring_size = (attachment.rings.shape().ring_size() as u64).min(READ_IN_TIME);
                let fullness = packets.size() * 256 / ring_size;
                drained.fullest = drained.fullest.max(fullness);
                // Types are told before their first event is in a ring; so those of all events that were
                // just taken are found now.
                let looked = look(&mut self.catalog);
                let described = looked
                    .and_then(|_| attachment.describe(self.catalog.as_ref(), trace, &self.account));
                let (stream, cpu) = (attachment.stream(), ring as u32);
                let before = trace.size(stream, cpu);
                attachment.rings.announce(ring, (before, before + packets.size()));
                match described
                    .and_then(|()| trace.append((stream, cpu), &packets, &attachment.rings))
                {
                    Ok(()) => attachment.rings.free(ring),
                    Err(error) => {
                        attachment.rings.go_back(ring, mark);
                        attachment.retry = fail(error);
                    }
                }
            }
            if has_taken {
                attachment.weigh_rings();
            }
            // What was discarded until something could be written again has the same cause.
            attachment.trouble = before;
            attachment.attribute();
            attachment.trouble = trouble;
        }
        self.let_go(done);
        drained
    }

    /// The attachment whose rings could give back most memory, and how much.
    pub(crate) fn most_excess(&self) -> Option<(usize, u64)> {
        let excess = self.attachments.iter().map(Attachment::excess).enumerate();
        excess.filter(|(_, excess)| *excess > 0).max_by_key(|(_, excess)| *excess)
    }

    /// Notes that the program was told to let go of an attachment's rings, and answers with that number then.
    pub(crate) fn note_removed(&mut self, own: usize, ping: u64, now: Instant) {
        if let Some(attachment) = self.attachments.get_mut(own) {
            attachment.removed = Some((ping, now + REMOVAL_TIME));
            self.next_look = Some(now);
        }
    }

    /// Gives the attachments whose rings the program has let go of because of their memory; all that was
    /// in them is written.
    pub(crate) fn take_removed(&mut self, room: Room, now: Instant) -> Vec<Attachment> {
        let ponged = self.ponged;
        let is_gone = |one: &Attachment| {
            one.removed.is_some_and(|(ping, until)| ponged >= ping || until <= now)
        };
        if !self.attachments.iter().any(is_gone) {
            return Vec::new();
        }
        self.drain_all(room, None);
        self.attachments.extract_if(.., |one| is_gone(one)).collect()
    }

    /// When a program that lets go of rings is not waited for any longer.
    pub(crate) fn next_removal(&self) -> Option<Instant> {
        self.attachments.iter().filter_map(|one| one.removed).map(|(_, until)| until).min()
    }

    /// Writes all that was in the rings, of one session or of all, when it was called. What programs record
    /// meanwhile is not waited for: they may be quicker for ever.
    pub(crate) fn drain_all(&mut self, room: Room, session: Option<SessionId>) -> Drained {
        let mut last = self.drain(room, session, None);
        for _ in 1..LOOKS_AT_FULL_RINGS {
            if !last.found || last.trouble.is_some() {
                break;
            }
            last = self.drain(room, session, None);
        }
        last
    }

    /// Writes all that there is, when the program has ended or lets go of its rings: nothing more comes.
    pub(crate) fn finish(&mut self, room: Room, session: Option<SessionId>) -> Drained {
        let sealed = self.seal(|attachment| attachment.is_of(session));
        self.traces.values_mut().for_each(|trace| trace.put_off(false));
        let mut last = self.drain_all(room, session);
        last.trouble = sealed.err().or(last.trouble);
        self.tell_discarded(session, &mut last);
        last
    }

    /// Writes how many events the program has discarded since the last packets, where nothing else is left to
    /// be written.
    pub(crate) fn tell_discarded(&mut self, session: Option<SessionId>, last: &mut Drained) {
        let readable =
            |one: &&mut Attachment| one.is_of(session) && one.is_written && one.rings.is_sealed();
        for attachment in self.attachments.iter_mut().filter(readable) {
            // What the program has counted since its last event.
            let Some(trace) = self.traces.get_mut(&attachment.session) else { continue };
            for ring in 0..attachment.rings.count() {
                if !attachment.rings.is_drained(ring) {
                    // It would end before what could not be written.
                    continue;
                }
                let mut packets = Packets::default();
                let mark = attachment.rings.mark(ring);
                attachment.rings.finish(ring, &mut packets);
                if packets.is_empty() {
                    continue;
                }
                let (stream, cpu) = (attachment.stream(), ring as u32);
                let before = trace.size(stream, cpu);
                attachment.rings.announce(ring, (before, before + packets.size()));
                if let Err(error) = trace.append((stream, cpu), &packets, &attachment.rings) {
                    attachment.rings.go_back(ring, mark);
                    attachment.rings.announce(ring, (before, before));
                    last.trouble = Some(error);
                }
            }
        }
    }

    /// How far the rings of a session have been written now.
    pub(crate) fn ends_of_rings(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = ((Identity, usize), Moment)> {
        let own = self.attachments.iter().filter(move |one| one.session == session);
        let readable = own.filter(|one| one.rings.is_sealed());
        let sets = readable.flat_map(|one| {
            let left_behind = one.left_behind.iter().map(|set| &set.rings);
            left_behind.chain([&one.rings])
        });
        sets.flat_map(|set| (0..set.count()).map(|ring| ((set.identity(), ring), set.moment(ring))))
    }

    /// Goes on to write what the rings of a session held at a moment to a trace of its own, until then; gives
    /// whether that is all.
    pub(crate) fn snapshot(
        &mut self,
        room: Room,
        (session, ends): (SessionId, &Ends),
        trace: &mut Trace,
        place: &mut SnapshotPlace,
        until: Instant,
    ) -> io::Result<bool> {
        let mut packets = Packets::default();
        loop {
            let readable = |one: &&mut Attachment| {
                one.session == session && one.rings.is_sealed() && one.channel >= place.channel
            };
            let next = self.attachments.iter_mut().filter(readable).min_by_key(|one| one.channel);
            let Some(attachment) = next else { return Ok(true) };
            if attachment.channel > place.channel {
                *place = SnapshotPlace { channel: attachment.channel, ..SnapshotPlace::default() };
            }
            if place.ring >= attachment.rings.count() {
                *place = SnapshotPlace { channel: place.channel + 1, ..SnapshotPlace::default() };
                continue;
            }
            let ring = place.ring;
            place.ring += 1;
            packets.clear();
            for set in attachment.kept_sets(ring) {
                // Rings that could not be read at that moment have no end: all that they hold is written.
                let end = ends.get(&(set.identity(), ring)).copied();
                set.snapshot(ring, end, &mut packets);
            }
            if !packets.is_empty() {
                if let Some(catalog) = &mut self.catalog {
                    catalog.look(room)?;
                    let types = catalog.types();
                    if types.len() > place.types {
                        place.types = types.len();
                        attachment.note_types(types, trace, &self.account, true);
                    }
                }
                trace.append((attachment.stream(), ring as u32), &packets, &attachment.rings)?;
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Drops what is in the rings of a session.
    pub(crate) fn forget(&mut self, session: SessionId) {
        let mut done = Vec::new();
        for attachment in self.attachments.iter_mut().filter(|one| one.session == session) {
            if !attachment.rings.is_sealed() {
                // The program may still record into those before.
                attachment.pass_over_left_behind();
                continue;
            }
            done.append(&mut attachment.left_behind);
            attachment.weigh_rings();
            (0..attachment.rings.count()).for_each(|ring| attachment.rings.forget(ring));
        }
        self.let_go(done);
    }

    /// Whether it has done all that it was told.
    pub(crate) fn is_settled(&self, ping: u64) -> bool {
        self.ponged >= ping
    }
}

/// Where a snapshot of a program goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotPlace {
    channel: usize,
    ring: usize,
    /// Types of the catalog that the channel's stream was held against.
    types: usize,
}

/// Where to go on in a stream that earlier daemons have written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Resumed {
    /// So much of the file is kept.
    size: u64,
    /// Which set of rings is to be read next; those before it are done.
    set: usize,
    /// From where; none is from its start.
    position: Option<u64>,
}

/// Works out what was written of a stream, whose file has that size, by what was left of one ring in each
/// set, the oldest first.
///
/// A daemon announces in its own set what it writes: what it has taken there or, before that, all that
/// was in the sets before.
fn resume(sets: &[Left], mut size: u64) -> Resumed {
    for (set, left) in sets.iter().enumerate().rev() {
        if left.size_after == 0 && left.next == left.start && left.read == left.start {
            // It never wrote.
            if left.is_first {
                return Resumed { size, set, position: None };
            }
            continue;
        }
        let is_done = size == left.size_after;
        if left.next != left.start || left.read != left.start {
            if left.next != left.read && !is_done {
                size = size.min(left.size_before);
            }
            let position = Some(if is_done { left.next } else { left.read });
            return Resumed { size, set, position };
        }
        if is_done {
            return Resumed { size, set, position: None };
        }
        size = size.min(left.size_before);
    }
    Resumed { size, set: 0, position: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a daemon that read up to `read`, and announced `next`, has left.
    fn left(read: u64, next: u64, (size_before, size_after): (u64, u64)) -> Left {
        let (discarded_before, discarded_forgotten, is_first) = (0, 0, false);
        Left {
            start: 0,
            read,
            next,
            size_before,
            size_after,
            discarded_before,
            discarded_forgotten,
            is_first,
        }
    }

    #[test]
    fn streams_are_gone_on_with_where_they_end() {
        let check = |sets: &[Left], size, expected: (u64, usize, Option<u64>)| {
            let found = resume(sets, size);
            assert_eq!((found.size, found.set, found.position), expected, "{sets:?} {size}");
        };
        check(&[], 0, (0, 0, None));
        check(&[left(0, 0, (0, 0))], 0, (0, 0, None));
        // Killed before it wrote, while it did, when it had, and when it had freed what it wrote.
        check(&[left(0, 100, (0, 90))], 0, (0, 0, Some(0)));
        check(&[left(0, 100, (0, 90))], 50, (0, 0, Some(0)));
        check(&[left(0, 100, (0, 90))], 90, (90, 0, Some(100)));
        check(&[left(100, 100, (0, 90))], 90, (90, 0, Some(100)));
        check(&[left(100, 300, (90, 250))], 91, (90, 0, Some(100)));
        // The next one was killed before it wrote what the first had left, while it did, and behind.
        let first = left(100, 300, (90, 250));
        check(&[first, left(0, 0, (0, 0))], 90, (90, 0, Some(100)));
        check(&[first, left(0, 0, (90, 500))], 400, (90, 0, Some(100)));
        check(&[first, left(0, 0, (90, 500))], 500, (500, 1, None));
        check(&[first, left(0, 70, (500, 570))], 500, (500, 1, Some(0)));
        check(&[first, left(70, 70, (500, 570)), left(0, 0, (0, 0))], 570, (570, 1, Some(70)));
        // All was cleared, before anything had been recorded into the last one.
        let cleared = Left { is_first: true, ..left(0, 0, (0, 0)) };
        check(&[first, cleared], 0, (0, 1, None));
    }
}
