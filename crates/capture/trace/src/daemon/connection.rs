//! One conversation with a daemon: bytes in, messages, what they ask for, bytes out. Nothing here waits.
//!
//! Channels that a daemon adds have numbers of its own. What it says that cannot be ends the
//! conversation; what it asks for that this process cannot do is left undone.

use super::catalog_file::CatalogFile;
use super::purpose::{GREETED, OTHER};
use super::settings;
use crate::channels::{self, CHANNELS_MAX};
use crate::event_context::{self, ContextSource};
use crate::registry::channel_rules::ChannelRules;
use crate::registry::decision;
use crate::sample;
use blkkin_control::limits::{FILTER_SIZE_MAX, RULES_MAX};
use blkkin_control::{
    AddChannel, Answer, Decoder, EventRule, FromApplication, Hello, KeepChannel, Messages, Opening,
    Received, Role, ToApplication, Version, encode,
};
use blkkin_ring::{Cells, Clock, Writer};
use blkkin_sys::SharedMemory;
use blkkin_sys::descriptor::{Held, raise};
use blkkin_sys::socket::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Answers that the daemon does not take; it has stopped reading.
const UNSENT_MAX: usize = 64 << 10;
/// Bytes of filters and patterns of rules that are not in force yet.
const RULES_SIZE_MAX: usize = 64 * FILTER_SIZE_MAX;

/// Why a conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The daemon has gone, or does not want to now, or there was something that failed here.
    Gone,
    /// The daemon says what cannot be.
    ProtocolError,
    /// The daemon will never want to.
    Refused,
}

/// A conversation.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Held<Socket>,
    phase: Phase,
    /// What the socket had no room for yet.
    unsent: Vec<u8>,
    channels: Vec<Channel>,
    /// Channels that an earlier daemon has left, by the numbers by which this one is told of them.
    orphans: Vec<Option<Orphan>>,
    clock: Clock,
    has_sampling: bool,
    /// Whether the daemon has got an answer to a `Ping`.
    has_answered: bool,
}

/// What comes next from the daemon.
#[derive(Debug)]
enum Phase {
    Greeting(Decoder<Answer>),
    Serving(Decoder<ToApplication>),
    /// While one becomes the other.
    Switching,
}

/// A channel that the daemon has added.
#[derive(Debug)]
pub(super) struct Channel {
    /// The daemon's number for it.
    number: u32,
    /// Where it is here; `None` if it could not be had.
    place: Option<AttachedRings>,
    sources: Vec<ContextSource>,
    /// Rules that are not in force yet, and their size.
    rules: Vec<EventRule>,
    rules_size: usize,
}

/// Rings of a daemon that has gone, kept for the one that comes after it.
#[derive(Debug)]
pub(super) struct Orphan {
    rings: OrphanRings,
    /// When their daemon has gone.
    since: Instant,
}

#[derive(Debug)]
enum OrphanRings {
    /// Events go to them as before, so that nothing is lost: the next daemon gives others in their place.
    Live(Channel),
    /// Others have been given, and what is in them has not been read yet.
    Spent(Held<OwnedFd>),
}

impl Orphan {
    /// Nothing is recorded any more, and the memory is let go.
    pub(super) fn remove(self) {
        if let OrphanRings::Live(channel) = self.rings {
            channel.remove();
        }
    }

    /// How long nobody has taken them.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    pub(super) fn is_spent(&self) -> bool {
        matches!(self.rings, OrphanRings::Spent(_))
    }

    fn memory(&self) -> Option<&OwnedFd> {
        match &self.rings {
            OrphanRings::Live(channel) => channel.place.as_ref()?.memory.get(),
            OrphanRings::Spent(memory) => memory.get(),
        }
    }
}

#[cfg(test)]
impl Orphan {
    /// One of which nobody knows, without rings.
    pub(super) fn for_test(since: Instant) -> Orphan {
        let (file, _) = SharedMemory::create(c"orphan", 4096).unwrap();
        let memory = Held::new(OwnedFd::from(file), OTHER).unwrap();
        Orphan { rings: OrphanRings::Spent(memory), since }
    }
}

/// What a channel has here.
#[derive(Debug)]
struct AttachedRings {
    slot: usize,
    has_contexts: bool,
    /// For the daemon that comes after this one.
    memory: Held<OwnedFd>,
    /// Wakes the daemon; closed when nobody writes to it any more.
    _eventfd: Held<OwnedFd>,
}

impl Connection {
    /// Begins a conversation with who listens there, if it is somebody whom this process obeys.
    pub(super) fn new(path: &Path, clock: Clock, orphans: &mut Vec<Orphan>) -> Option<Connection> {
        let socket = Socket::from(raise(Socket::connect(path).ok()?.into()));
        let peer = socket.peer().ok()?.uid;
        if peer != 0 && peer != blkkin_sys::user_id() {
            settings::report(|| format!("{}: the daemon is another user's", path.display()));
            return None;
        }
        let mut connection = Connection {
            socket: Held::new(socket, OTHER)?,
            phase: Phase::Greeting(Decoder::new()),
            unsent: Vec::new(),
            channels: Vec::new(),
            orphans: Vec::new(),
            clock,
            has_sampling: false,
            has_answered: false,
        };
        let hello = Hello {
            version: Version::OURS,
            role: Role::Application {
                pid: std::process::id(),
                clock: match clock {
                    Clock::Tsc => blkkin_control::Clock::Tsc,
                    _ => blkkin_control::Clock::Monotonic,
                },
            },
            program: settings::get().program.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
        };
        connection.send(&Opening::Hello(hello)).ok()?;
        connection.orphans = orphans.drain(..).map(Some).collect();
        Some(connection)
    }

    /// What is left when the daemon has gone.
    pub(super) fn orphans(&mut self) -> Vec<Orphan> {
        let since = Instant::now();
        // What could not be had here is nothing to be kept.
        let channels = self.channels.drain(..).filter(|channel| channel.place.is_some());
        let channels = channels.map(|channel| Orphan { rings: OrphanRings::Live(channel), since });
        self.orphans.drain(..).flatten().chain(channels).collect()
    }

    /// What to wait for; `None` if the program has closed the socket.
    pub(super) fn waits_for(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.socket.get()?.as_fd(), !self.unsent.is_empty()))
    }

    /// Whether the daemon has let the program in.
    pub(super) fn is_greeted(&self) -> bool {
        matches!(self.phase, Phase::Serving(_))
    }

    /// Whether the daemon has told all that it had to tell at the start.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Does all that can be done without waiting.
    pub(super) fn process(&mut self, catalog: &mut CatalogFile) -> Result<(), EndReason> {
        self.flush()?;
        // So that a daemon that never stops talking does not keep others from it.
        for _ in 0..64 {
            let (mut bytes, mut descriptors) = ([0; 16 << 10], Vec::new());
            let socket = self.socket.get().ok_or(EndReason::Gone)?;
            let size = match socket.receive(&mut bytes, &mut descriptors) {
                Ok(0) => return Err(EndReason::Gone),
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(EndReason::Gone),
            };
            self.receive(&bytes[..size], descriptors, catalog)?;
        }
        Ok(())
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        descriptors: Vec<OwnedFd>,
        catalog: &mut CatalogFile,
    ) -> Result<(), EndReason> {
        match &mut self.phase {
            Phase::Greeting(decoder) => {
                decoder.feed(bytes, descriptors);
                let Some(answer) = next_message(decoder)? else { return Ok(()) };
                self.handle_answer(answer, catalog)?;
            }
            Phase::Serving(decoder) => decoder.feed(bytes, descriptors),
            Phase::Switching => {}
        }
        while let Phase::Serving(decoder) = &mut self.phase {
            let Some((message, descriptors)) = next_message(decoder)? else { break };
            self.handle(message, descriptors)?;
        }
        Ok(())
    }

    fn handle_answer(
        &mut self,
        (answer, _): (Answer, Vec<OwnedFd>),
        catalog: &mut CatalogFile,
    ) -> Result<(), EndReason> {
        if let Answer::Refused(refused) = &answer {
            settings::report(|| format!("the daemon refuses: {}", refused.reason));
            return Err(if refused.try_again { EndReason::Gone } else { EndReason::Refused });
        }
        if let Phase::Greeting(decoder) = std::mem::replace(&mut self.phase, Phase::Switching) {
            self.phase = Phase::Serving(decoder.followed_by());
        }
        // It has answered our only message so far, so nothing of that is unsent.
        self.offer_orphans();
        if !self.unsent.is_empty() {
            return Err(EndReason::Gone);
        }
        let mut frame = Vec::new();
        encode(&FromApplication::Catalog, &mut frame).map_err(|_| EndReason::Gone)?;
        let file = catalog.get().ok_or(EndReason::Gone)?;
        let socket = self.socket.get().ok_or(EndReason::Gone)?;
        let sent = socket.send(&frame, &[file.as_fd()]).map_err(|_| EndReason::Gone)?;
        self.unsent.extend(frame.get(sent..).unwrap_or_default());
        self.socket.set_purpose(GREETED);
        Ok(())
    }

    /// Tells of channels that an earlier daemon has left.
    fn offer_orphans(&mut self) {
        for (number, orphan) in (0..).zip(&self.orphans) {
            let Some(orphan) = orphan else { continue };
            let (Some(memory), Some(socket), true) =
                (orphan.memory(), self.socket.get(), self.unsent.is_empty())
            else {
                continue;
            };
            let mut frame = Vec::new();
            let told = blkkin_control::Orphan { number, is_spent: orphan.is_spent() };
            if encode(&FromApplication::Orphan(told), &mut frame).is_ok()
                && let Ok(sent) = socket.send(&frame, &[memory.as_fd()])
            {
                self.unsent.extend(frame.get(sent..).unwrap_or_default());
            }
        }
    }

    fn handle(
        &mut self,
        message: ToApplication,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), EndReason> {
        match message {
            ToApplication::AddChannel(channel) => self.add(&channel, descriptors),
            ToApplication::RemoveChannel(number) => {
                let place = self.channels.iter().position(|channel| channel.number == number);
                let channel = self.channels.swap_remove(place.ok_or(EndReason::ProtocolError)?);
                channel.remove();
                Ok(())
            }
            ToApplication::Rule(rule) => self.channel(rule.channel)?.add_rule(rule.rule),
            ToApplication::Apply(number) => {
                self.channel(number)?.apply();
                Ok(())
            }
            ToApplication::Sampling(text) => {
                self.sample(text.as_deref());
                Ok(())
            }
            ToApplication::Ping(number) => {
                self.has_answered = true;
                // Nobody wants what was not replaced.
                for orphan in &mut self.orphans {
                    if let Some(live) = orphan.take_if(|one| !one.is_spent()) {
                        live.remove();
                    }
                }
                self.send(&FromApplication::Pong(number))
            }
            ToApplication::KeepChannel(kept) => self.keep_channel(kept),
            ToApplication::Release(number) => {
                let orphan = self.orphans.get_mut(number as usize).and_then(Option::take);
                orphan.into_iter().for_each(Orphan::remove);
                Ok(())
            }
            // Nothing was asked.
            ToApplication::Pong(_) => Ok(()),
        }
    }

    fn channel(&mut self, number: u32) -> Result<&mut Channel, EndReason> {
        let mut channels = self.channels.iter_mut();
        channels.find(|channel| channel.number == number).ok_or(EndReason::ProtocolError)
    }

    fn add(&mut self, added: &AddChannel, descriptors: Vec<OwnedFd>) -> Result<(), EndReason> {
        let is_known = self.channels.iter().any(|channel| channel.number == added.channel);
        if is_known || self.channels.len() >= 16 * CHANNELS_MAX {
            return Err(EndReason::ProtocolError);
        }
        let sources = event_context::sources(&added.contexts);
        let replaced = added.replaces.and_then(|number| self.orphans.get_mut(number as usize));
        let mut no_orphan = None;
        let replaced = replaced.unwrap_or(&mut no_orphan);
        let place = match attach(descriptors, !sources.is_empty(), self.clock, replaced) {
            Ok(place) => Some(place),
            Err(error) => {
                settings::report(|| format!("a channel of session {}: {error}", added.session));
                None
            }
        };
        let (number, rules, rules_size) = (added.channel, Vec::new(), 0);
        self.channels.push(Channel { number, place, sources, rules, rules_size });
        Ok(())
    }

    /// Goes on with rings that the daemon has still.
    fn keep_channel(&mut self, kept: KeepChannel) -> Result<(), EndReason> {
        let is_known = self.channels.iter().any(|channel| channel.number == kept.channel);
        let orphan = self.orphans.get_mut(kept.orphan as usize).filter(|_| !is_known);
        let live = orphan.and_then(|orphan| orphan.take_if(|one| !one.is_spent()));
        let Some(Orphan { rings: OrphanRings::Live(channel), .. }) = live else {
            return Err(EndReason::ProtocolError);
        };
        self.channels.push(Channel {
            number: kept.channel,
            rules: Vec::new(),
            rules_size: 0,
            ..channel
        });
        Ok(())
    }

    fn sample(&mut self, text: Option<&str>) {
        let rules = text.map(str::parse);
        if let Some(Err(error)) = &rules {
            settings::report(|| format!("the daemon's rules of sampling: {error}"));
        }
        self.has_sampling = text.is_some();
        sample::set_override(rules.and_then(Result::ok));
    }

    fn send<M: Messages>(&mut self, message: &M) -> Result<(), EndReason> {
        encode(message, &mut self.unsent).map_err(|_| EndReason::Gone)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), EndReason> {
        while !self.unsent.is_empty() {
            let socket = self.socket.get().ok_or(EndReason::Gone)?;
            match socket.send(&self.unsent, &[]) {
                Ok(sent) => drop(self.unsent.drain(..sent.min(self.unsent.len()))),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(EndReason::Gone),
            }
        }
        match self.unsent.len() > UNSENT_MAX {
            true => Err(EndReason::ProtocolError),
            false => Ok(()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.orphans().into_iter().for_each(Orphan::remove);
        if self.has_sampling {
            sample::set_override(None);
        }
    }
}

/// The next message of a kind that is known.
fn next_message<M: Messages>(
    decoder: &mut Decoder<M>,
) -> Result<Option<(M, Vec<OwnedFd>)>, EndReason> {
    loop {
        match decoder.take() {
            Ok(Some(Received::Message { message, descriptors })) => {
                return Ok(Some((message, descriptors)));
            }
            Ok(Some(Received::Unknown { .. })) => {}
            Ok(None) => return Ok(None),
            Err(error) => {
                settings::report(|| format!("the daemon is not understood: {error}"));
                return Err(EndReason::ProtocolError);
            }
        }
    }
}

/// Begins to use the rings of a channel, in place of others if there are some.
fn attach(
    descriptors: Vec<OwnedFd>,
    has_contexts: bool,
    clock: Clock,
    replaced: &mut Option<Orphan>,
) -> io::Result<AttachedRings> {
    let invalid = |why| io::Error::new(ErrorKind::InvalidData, why);
    let Ok([memory, eventfd]) = <[OwnedFd; 2]>::try_from(descriptors) else {
        return Err(invalid("two descriptors are needed"));
    };
    // Where the kernel cannot, a daemon that falls asleep may see an event a little later.
    blkkin_sys::heed_barriers();
    let cells = Cells::new(SharedMemory::map(memory.as_fd())?);
    let writer = Writer::new(cells, clock).map_err(io::Error::other)?;
    writer.dump_little();
    let eventfd = Held::new(raise(eventfd), OTHER).filter(|held| held.identity().is_eventfd());
    let eventfd = eventfd.ok_or_else(|| invalid("there is no eventfd"))?;
    let number = eventfd.get().map_or(-1, AsRawFd::as_raw_fd);
    let memory = Held::new(raise(memory), OTHER).ok_or_else(|| invalid("there is no memory"))?;
    let writer = Box::new(writer.waking(number));
    match replaced.take() {
        Some(Orphan { rings: OrphanRings::Live(Channel { place: Some(old), .. }), since })
            if old.has_contexts == has_contexts =>
        {
            let slot = old.slot;
            return match channels::replace(slot, writer) {
                true => {
                    // What is in the old ones is still to be read.
                    *replaced = Some(Orphan { rings: OrphanRings::Spent(old.memory), since });
                    Ok(AttachedRings { slot, has_contexts, memory, _eventfd: eventfd })
                }
                false => Err(io::Error::other("its rings cannot be replaced")),
            };
        }
        other => other.into_iter().for_each(Orphan::remove),
    }
    let slot = channels::attach_somewhere(writer, has_contexts);
    let slot = slot.ok_or_else(|| io::Error::other("there are too many channels"))?;
    Ok(AttachedRings { slot, has_contexts, memory, _eventfd: eventfd })
}

impl Channel {
    /// Keeps a rule that is not in force yet.
    fn add_rule(&mut self, rule: EventRule) -> Result<(), EndReason> {
        let names = rule.names.iter().chain(&rule.excluded).chain(&rule.filter);
        self.rules_size += names.map(|text| text.len() + size_of::<String>()).sum::<usize>();
        if self.rules.len() >= RULES_MAX || self.rules_size > RULES_SIZE_MAX {
            return Err(EndReason::ProtocolError);
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Puts the rules in force.
    fn apply(&mut self) {
        let rules = std::mem::take(&mut self.rules);
        self.rules_size = 0;
        if let Some(AttachedRings { slot, .. }) = self.place {
            decision::set_channel_rules(
                slot,
                Some(ChannelRules::new(&rules, self.sources.clone())),
            );
        }
    }

    /// Nothing is recorded any more, and the memory is let go.
    fn remove(self) {
        if let Some(place) = self.place {
            let is_unused = decision::set_channel_rules(place.slot, None);
            channels::detach_for_good(place.slot, is_unused);
        }
    }
}
