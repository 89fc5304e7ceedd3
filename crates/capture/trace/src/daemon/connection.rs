//! A connection to one agent: decodes the agent's messages, executes them, and sends answers. All
//! socket operations are non-blocking.
//!
//! The agent numbers the channels that it adds. An invalid message ends the connection; a valid
//! request that this process cannot execute is ignored.

use super::catalog_file::CatalogFile;
use super::purpose::{ACCEPTED, OTHER};
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
use blkkin_sys::descriptor::{RegisteredDescriptor, raise};
use blkkin_sys::socket::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum size of unsent answers, in bytes; the connection is closed beyond it.
const UNSENT_MAX: usize = 64 << 10;
/// Maximum total size in memory of the filters and patterns in a channel's pending rules, in bytes.
const RULES_SIZE_MAX: usize = 64 * FILTER_SIZE_MAX;

/// Cause of a connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The agent has exited or refuses the program for now, the program has closed the socket, or
    /// an operation of this process failed.
    Disconnected,
    /// The agent sent an invalid message, or does not read the program's answers.
    ProtocolError,
    /// The agent refuses this program for good.
    Refused,
}

/// A connection to one agent, with the channels that this agent has added.
#[derive(Debug)]
pub(super) struct Connection {
    socket: RegisteredDescriptor<Socket>,
    phase: Phase,
    /// Encoded bytes of messages that the socket had no room for.
    unsent: Vec<u8>,
    channels: Vec<Channel>,
    /// Orphans of earlier agents. The index of an orphan is the number under which it was offered
    /// to this agent.
    orphans: Vec<Option<Orphan>>,
    clock: Clock,
    has_sampling: bool,
    /// Set once the agent has sent a `Ping`, which follows its initial rules.
    has_initial_rules: bool,
}

/// Phase of the connection, with the decoder for the agent's messages.
#[derive(Debug)]
enum Phase {
    Greeting(Decoder<Answer>),
    Serving(Decoder<ToApplication>),
    /// Placeholder while the decoder is replaced.
    Switching,
}

/// A channel that the agent has added.
#[derive(Debug)]
pub(super) struct Channel {
    /// Number of the channel, unique in this connection and chosen by the agent.
    number: u32,
    /// Rings of the channel; `None` if they could not be attached.
    attached: Option<AttachedRings>,
    sources: Vec<ContextSource>,
    /// Pending rules, in force after `Apply`; `rules_size` is the size of their filters and
    /// patterns.
    rules: Vec<EventRule>,
    rules_size: usize,
}

/// Rings of an agent that has exited, kept for the next agent.
#[derive(Debug)]
pub(super) struct Orphan {
    rings: OrphanRings,
    /// Time at which the rings became orphans.
    since: Instant,
}

#[derive(Debug)]
enum OrphanRings {
    /// Rings into which events are still recorded, until the next agent replaces or keeps them.
    Live(Channel),
    /// Replaced rings whose contents have not been read yet.
    Spent(RegisteredDescriptor<OwnedFd>),
}

impl Orphan {
    /// Stops recording into live rings and unmaps them; closes the descriptor of spent rings.
    pub(super) fn remove(self) {
        if let OrphanRings::Live(channel) = self.rings {
            channel.remove();
        }
    }

    /// Returns the time since the rings became orphans.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    pub(super) fn is_spent(&self) -> bool {
        matches!(self.rings, OrphanRings::Spent(_))
    }

    fn memory(&self) -> Option<&OwnedFd> {
        match &self.rings {
            OrphanRings::Live(channel) => channel.attached.as_ref()?.memory.get(),
            OrphanRings::Spent(memory) => memory.get(),
        }
    }
}

#[cfg(test)]
impl Orphan {
    /// Returns an orphan that has memory but no channel.
    pub(super) fn for_test(since: Instant) -> Orphan {
        let (file, _) = SharedMemory::create(c"orphan", 4096).unwrap();
        let memory = RegisteredDescriptor::new(OwnedFd::from(file), OTHER).unwrap();
        Orphan { rings: OrphanRings::Spent(memory), since }
    }
}

/// Rings of a channel that are attached to a slot.
#[derive(Debug)]
struct AttachedRings {
    slot: usize,
    has_contexts: bool,
    /// Descriptor of the rings' memory, to be offered to the next agent.
    memory: RegisteredDescriptor<OwnedFd>,
    /// Eventfd that wakes the agent; closed when the rings are no longer written to.
    _eventfd: RegisteredDescriptor<OwnedFd>,
}

impl Connection {
    /// Connects to the agent at `path`, and takes over `orphans`. Returns `None`, and leaves
    /// `orphans` unchanged, if no agent listens, if the agent runs neither as root nor as this
    /// process's user, or if an operation of this process failed.
    pub(super) fn new(path: &Path, clock: Clock, orphans: &mut Vec<Orphan>) -> Option<Connection> {
        let socket = Socket::from(raise(Socket::connect(path).ok()?.into()));
        let peer = socket.peer().ok()?.uid;
        if peer != 0 && peer != blkkin_sys::user_id() {
            settings::report(|| format!("{}: the agent runs as another user", path.display()));
            return None;
        }
        let mut connection = Connection {
            socket: RegisteredDescriptor::new(socket, OTHER)?,
            phase: Phase::Greeting(Decoder::new()),
            unsent: Vec::new(),
            channels: Vec::new(),
            orphans: Vec::new(),
            clock,
            has_sampling: false,
            has_initial_rules: false,
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

    /// Removes and returns the orphans of this connection: the attached rings of its channels, and
    /// the remaining orphans of earlier agents. The latter include rings that the agent has
    /// replaced and not released.
    pub(super) fn orphans(&mut self) -> Vec<Orphan> {
        let since = Instant::now();
        // A channel without attached rings has no orphan.
        let channels = self.channels.drain(..).filter(|channel| channel.attached.is_some());
        let channels = channels.map(|channel| Orphan { rings: OrphanRings::Live(channel), since });
        self.orphans.drain(..).flatten().chain(channels).collect()
    }

    /// Returns the socket to poll, and true if it must be polled for writability too. Returns
    /// `None` if the program has closed the socket.
    pub(super) fn poll_target(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.socket.get()?.as_fd(), !self.unsent.is_empty()))
    }

    /// Returns true if the agent has accepted the program, so that messages other than `Hello` may
    /// be sent.
    pub(super) fn is_accepted(&self) -> bool {
        matches!(self.phase, Phase::Serving(_))
    }

    /// Returns true if the agent has sent all of its initial rules.
    pub(super) fn has_initial_rules(&self) -> bool {
        self.has_initial_rules
    }

    /// Sends unsent bytes, and executes the agent's messages until the socket has no more, or until
    /// 64 reads. Does not wait for the socket.
    pub(super) fn process(&mut self, catalog: &mut CatalogFile) -> Result<(), EndReason> {
        self.flush()?;
        // Bounded, so that an agent that sends without pause does not starve the others.
        for _ in 0..64 {
            let (mut bytes, mut descriptors) = ([0; 16 << 10], Vec::new());
            let socket = self.socket.get().ok_or(EndReason::Disconnected)?;
            let size = match socket.receive(&mut bytes, &mut descriptors) {
                Ok(0) => return Err(EndReason::Disconnected),
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(EndReason::Disconnected),
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
                let Some((answer, _)) = next_message(decoder)? else { return Ok(()) };
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
        answer: Answer,
        catalog: &mut CatalogFile,
    ) -> Result<(), EndReason> {
        if let Answer::Refused(refused) = &answer {
            settings::report(|| format!("the agent refuses this program: {}", refused.reason));
            return Err(if refused.try_again {
                EndReason::Disconnected
            } else {
                EndReason::Refused
            });
        }
        if let Phase::Greeting(decoder) = std::mem::replace(&mut self.phase, Phase::Switching) {
            self.phase = Phase::Serving(decoder.followed_by());
        }
        // The answer is to the only message sent so far, so nothing of that is unsent.
        self.offer_orphans();
        if !self.unsent.is_empty() {
            return Err(EndReason::Disconnected);
        }
        let mut frame = Vec::new();
        encode(&FromApplication::Catalog, &mut frame).map_err(|_| EndReason::Disconnected)?;
        let file = catalog.get().ok_or(EndReason::Disconnected)?;
        let socket = self.socket.get().ok_or(EndReason::Disconnected)?;
        let sent = socket.send(&frame, &[file.as_fd()]).map_err(|_| EndReason::Disconnected)?;
        self.unsent.extend(frame.get(sent..).unwrap_or_default());
        self.socket.set_purpose(ACCEPTED);
        Ok(())
    }

    /// Offers the orphans of earlier agents to this agent.
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
                let index = self.channels.iter().position(|channel| channel.number == number);
                let channel = self.channels.swap_remove(index.ok_or(EndReason::ProtocolError)?);
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
                self.has_initial_rules = true;
                // The agent has replaced or kept all the live orphans that it wants.
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
            // No `Ping` was sent, and the others are for the tracer of the kernel.
            ToApplication::Pong(_)
            | ToApplication::KernelRule(_)
            | ToApplication::SpanSlot(_)
            | ToApplication::RecordState(_) => Ok(()),
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
        let attached = match attach(descriptors, !sources.is_empty(), self.clock, replaced) {
            Ok(attached) => Some(attached),
            Err(error) => {
                settings::report(|| {
                    format!("cannot attach a channel of session {}: {error}", added.session)
                });
                None
            }
        };
        let (number, rules, rules_size) = (added.channel, Vec::new(), 0);
        self.channels.push(Channel { number, attached, sources, rules, rules_size });
        Ok(())
    }

    /// Adds a channel with orphaned rings that the agent keeps: the orphan becomes the agent's
    /// channel again.
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
            settings::report(|| format!("invalid sampling rules from the agent: {error}"));
        }
        self.has_sampling = text.is_some();
        sample::set_override(rules.and_then(Result::ok));
    }

    fn send<M: Messages>(&mut self, message: &M) -> Result<(), EndReason> {
        encode(message, &mut self.unsent).map_err(|_| EndReason::Disconnected)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), EndReason> {
        while !self.unsent.is_empty() {
            let socket = self.socket.get().ok_or(EndReason::Disconnected)?;
            match socket.send(&self.unsent, &[]) {
                Ok(sent) => drop(self.unsent.drain(..sent.min(self.unsent.len()))),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(EndReason::Disconnected),
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

/// Returns the next message, or `None` if more bytes are needed. Skips messages of unknown kinds.
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
                settings::report(|| format!("invalid message from the agent: {error}"));
                return Err(EndReason::ProtocolError);
            }
        }
    }
}

/// Attaches the rings of a channel. If `replaced` is a live orphan, and either both channels have
/// contexts or neither has, the new rings replace the orphan's rings, which become a spent orphan.
/// Otherwise the orphan is removed.
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
    let cells = Cells::new(SharedMemory::map(memory.as_fd())?);
    let writer = Writer::new(cells, clock).map_err(io::Error::other)?;
    writer.limit_dump();
    let eventfd = RegisteredDescriptor::new(raise(eventfd), OTHER)
        .filter(|held| held.identity().is_eventfd());
    let eventfd = eventfd.ok_or_else(|| invalid("there is no eventfd"))?;
    let number = eventfd.get().map_or(-1, AsRawFd::as_raw_fd);
    let memory = RegisteredDescriptor::new(raise(memory), OTHER)
        .ok_or_else(|| invalid("there is no memory"))?;
    let writer = Box::new(writer.with_eventfd(number).with_registration());
    match replaced.take() {
        Some(Orphan { rings: OrphanRings::Live(Channel { attached: Some(old), .. }), since })
            if old.has_contexts == has_contexts =>
        {
            let slot = old.slot;
            return match channels::replace(slot, writer) {
                true => {
                    // The contents of the old rings have not been read yet.
                    *replaced = Some(Orphan { rings: OrphanRings::Spent(old.memory), since });
                    Ok(AttachedRings { slot, has_contexts, memory, _eventfd: eventfd })
                }
                false => Err(io::Error::other("its rings cannot be replaced")),
            };
        }
        other => other.into_iter().for_each(Orphan::remove),
    }
    let slot = channels::attach_to_free_slot(writer, has_contexts);
    let slot = slot.ok_or_else(|| io::Error::other("there are too many channels"))?;
    Ok(AttachedRings { slot, has_contexts, memory, _eventfd: eventfd })
}

impl Channel {
    /// Adds a rule to the pending rules.
    fn add_rule(&mut self, rule: EventRule) -> Result<(), EndReason> {
        let names = rule.names.iter().chain(&rule.excluded).chain(&rule.filter);
        self.rules_size += names.map(|text| text.len() + size_of::<String>()).sum::<usize>();
        if self.rules.len() >= RULES_MAX || self.rules_size > RULES_SIZE_MAX {
            return Err(EndReason::ProtocolError);
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Puts the channel's pending rules in force.
    fn apply(&mut self) {
        let rules = std::mem::take(&mut self.rules);
        self.rules_size = 0;
        if let Some(AttachedRings { slot, .. }) = self.attached {
            decision::set_channel_rules(
                slot,
                Some(ChannelRules::new(&rules, self.sources.clone())),
            );
        }
    }

    /// Stops recording into the channel and unmaps its rings.
    fn remove(self) {
        if let Some(attached) = self.attached {
            let is_unused = decision::set_channel_rules(attached.slot, None);
            channels::detach_permanently(attached.slot, is_unused);
        }
    }
}
