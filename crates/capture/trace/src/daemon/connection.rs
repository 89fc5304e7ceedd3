//! One conversation with a daemon: bytes in, messages, what they ask for, bytes out. Nothing here waits.
//!
//! Channels that a daemon adds have numbers of its own. What it says that cannot be ends the
//! conversation; what it asks for that this process cannot do is left undone.

use super::catalog::CatalogFile;
use super::settings;
use crate::channels::{self, CHANNELS_MAX};
use crate::registry::{self, EventRule, Orders, Source};
use crate::{sample, surroundings};
use blkkin_control::limits::{FILTER_SIZE_MAX, RULES_MAX};
use blkkin_control::{
    AddChannel, Answer, Decoder, FromApplication, Hello, KeepChannel, Messages, Opening, Received,
    Role, ToApplication, Version, encode,
};
use blkkin_ring::{Cells, Clock, Writer};
use blkkin_sys::SharedMemory;
use blkkin_sys::descriptor::{Held, raise};
use blkkin_sys::socket::Socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// What descriptors are noted for: sockets over which `Goodbye` may be said.
pub(super) const GREETED: u32 = 1;
/// What other descriptors are noted for.
pub(super) const OTHER: u32 = 0;

/// Answers that the daemon does not take; it has stopped reading.
const UNSENT_MAX: usize = 64 << 10;
/// Bytes of filters and patterns of rules that are not in force yet.
const RULES_SIZE_MAX: usize = 64 * FILTER_SIZE_MAX;

/// Why a conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The daemon has gone, or does not want to now, or there was something that failed here.
    Gone,
    /// The daemon says what cannot be.
    Nonsense,
    /// The daemon will never want to.
    Refused,
}

/// A conversation.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Held<Socket>,
    said: Said,
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
enum Said {
    Answer(Decoder<Answer>),
    Messages(Decoder<ToApplication>),
    /// While one becomes the other.
    Nothing,
}

/// A channel that the daemon has added.
#[derive(Debug)]
pub(super) struct Channel {
    /// The daemon's number for it.
    number: u32,
    /// Where it is here; `None` if it could not be had.
    place: Option<Place>,
    sources: Vec<Source>,
    /// Rules that are not in force yet, and their size.
    rules: Vec<EventRule>,
    rules_size: usize,
}

/// Rings of a daemon that has gone, kept for the one that comes after it.
#[derive(Debug)]
pub(super) struct Orphan {
    rings: Left,
    /// When their daemon has gone.
    since: Instant,
}

#[derive(Debug)]
enum Left {
    /// Events go to them as before, so that nothing is lost: the next daemon gives others in their place.
    Live(Channel),
    /// Others have been given, and what is in them has not been read yet.
    Spent(Held<OwnedFd>),
}

impl Orphan {
    /// Nothing is recorded any more, and the memory is let go.
    pub(super) fn remove(self) {
        if let Left::Live(channel) = self.rings {
            channel.remove();
        }
    }

    /// How long nobody has taken them.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    pub(super) fn is_spent(&self) -> bool {
        matches!(self.rings, Left::Spent(_))
    }

    fn memory(&self) -> Option<&OwnedFd> {
        match &self.rings {
            Left::Live(channel) => channel.place.as_ref()?.memory.get(),
            Left::Spent(memory) => memory.get(),
        }
    }
}

#[cfg(test)]
impl Orphan {
    /// One of which nobody knows, without rings.
    pub(super) fn for_test(since: Instant) -> Orphan {
        let (file, _) = SharedMemory::create(c"orphan", 4096).unwrap();
        let memory = Held::new(OwnedFd::from(file), OTHER).unwrap();
        Orphan { rings: Left::Spent(memory), since }
    }
}

/// What a channel has here.
#[derive(Debug)]
struct Place {
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
            settings::tell(|| format!("{}: the daemon is another user's", path.display()));
            return None;
        }
        let mut connection = Connection {
            socket: Held::new(socket, OTHER)?,
            said: Said::Answer(Decoder::new()),
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
        connection.say(&Opening::Hello(hello)).ok()?;
        connection.orphans = orphans.drain(..).map(Some).collect();
        Some(connection)
    }

    /// What is left when the daemon has gone.
    pub(super) fn orphans(&mut self) -> Vec<Orphan> {
        let since = Instant::now();
        // What could not be had here is nothing to be kept.
        let channels = self.channels.drain(..).filter(|channel| channel.place.is_some());
        let channels = channels.map(|channel| Orphan { rings: Left::Live(channel), since });
        self.orphans.drain(..).flatten().chain(channels).collect()
    }

    /// What to wait for; `None` if the program has closed the socket.
    pub(super) fn waits_for(&self) -> Option<(BorrowedFd<'_>, bool)> {
        Some((self.socket.get()?.as_fd(), !self.unsent.is_empty()))
    }

    /// Whether the daemon has let the program in.
    pub(super) fn is_greeted(&self) -> bool {
        matches!(self.said, Said::Messages(_))
    }

    /// Whether the daemon has told all that it had to tell at the start.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Does all that can be done without waiting.
    pub(super) fn go_on(&mut self, catalog: &mut CatalogFile) -> Result<(), End> {
        self.flush()?;
        // So that a daemon that never stops talking does not keep others from it.
        for _ in 0..64 {
            let (mut bytes, mut descriptors) = ([0; 16 << 10], Vec::new());
            let socket = self.socket.get().ok_or(End::Gone)?;
            let size = match socket.receive(&mut bytes, &mut descriptors) {
                Ok(0) => return Err(End::Gone),
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(End::Gone),
            };
            self.hear(&bytes[..size], descriptors, catalog)?;
        }
        Ok(())
    }

    fn hear(
        &mut self,
        bytes: &[u8],
        descriptors: Vec<OwnedFd>,
        catalog: &mut CatalogFile,
    ) -> Result<(), End> {
        match &mut self.said {
            Said::Answer(decoder) => {
                decoder.feed(bytes, descriptors);
                let Some(answer) = next(decoder)? else { return Ok(()) };
                self.heard_answer(answer, catalog)?;
            }
            Said::Messages(decoder) => decoder.feed(bytes, descriptors),
            Said::Nothing => {}
        }
        while let Said::Messages(decoder) = &mut self.said {
            let Some((message, descriptors)) = next(decoder)? else { break };
            self.heard(message, descriptors)?;
        }
        Ok(())
    }

    fn heard_answer(
        &mut self,
        (answer, _): (Answer, Vec<OwnedFd>),
        catalog: &mut CatalogFile,
    ) -> Result<(), End> {
        if let Answer::Refused(refused) = &answer {
            settings::tell(|| format!("the daemon refuses: {}", refused.reason));
            return Err(if refused.try_again { End::Gone } else { End::Refused });
        }
        if let Said::Answer(decoder) = std::mem::replace(&mut self.said, Said::Nothing) {
            self.said = Said::Messages(decoder.followed_by());
        }
        // It has answered our only message so far, so nothing of that is unsent.
        self.offer_orphans();
        if !self.unsent.is_empty() {
            return Err(End::Gone);
        }
        let mut frame = Vec::new();
        encode(&FromApplication::Catalog, &mut frame).map_err(|_| End::Gone)?;
        let file = catalog.get().ok_or(End::Gone)?;
        let socket = self.socket.get().ok_or(End::Gone)?;
        let sent = socket.send(&frame, &[file.as_fd()]).map_err(|_| End::Gone)?;
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

    fn heard(&mut self, message: ToApplication, descriptors: Vec<OwnedFd>) -> Result<(), End> {
        match message {
            ToApplication::AddChannel(channel) => self.add(&channel, descriptors),
            ToApplication::RemoveChannel(number) => {
                let place = self.channels.iter().position(|channel| channel.number == number);
                let channel = self.channels.swap_remove(place.ok_or(End::Nonsense)?);
                channel.remove();
                Ok(())
            }
            ToApplication::Rule(rule) => self.channel(rule.channel)?.keep(rule.rule),
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
                self.say(&FromApplication::Pong(number))
            }
            ToApplication::KeepChannel(kept) => self.keep(kept),
            ToApplication::Release(number) => {
                let orphan = self.orphans.get_mut(number as usize).and_then(Option::take);
                orphan.into_iter().for_each(Orphan::remove);
                Ok(())
            }
            // Nothing was asked.
            ToApplication::Pong(_) => Ok(()),
        }
    }

    fn channel(&mut self, number: u32) -> Result<&mut Channel, End> {
        let mut channels = self.channels.iter_mut();
        channels.find(|channel| channel.number == number).ok_or(End::Nonsense)
    }

    fn add(&mut self, added: &AddChannel, descriptors: Vec<OwnedFd>) -> Result<(), End> {
        let is_known = self.channels.iter().any(|channel| channel.number == added.channel);
        if is_known || self.channels.len() >= 16 * CHANNELS_MAX {
            return Err(End::Nonsense);
        }
        let sources = surroundings::sources(&added.contexts);
        let replaced = added.replaces.and_then(|number| self.orphans.get_mut(number as usize));
        let mut no_orphan = None;
        let replaced = replaced.unwrap_or(&mut no_orphan);
        let place = match attach(descriptors, !sources.is_empty(), self.clock, replaced) {
            Ok(place) => Some(place),
            Err(error) => {
                settings::tell(|| format!("a channel of session {}: {error}", added.session));
                None
            }
        };
        let (number, rules, rules_size) = (added.channel, Vec::new(), 0);
        self.channels.push(Channel { number, place, sources, rules, rules_size });
        Ok(())
    }

    /// Goes on with rings that the daemon has still.
    fn keep(&mut self, kept: KeepChannel) -> Result<(), End> {
        let is_known = self.channels.iter().any(|channel| channel.number == kept.channel);
        let orphan = self.orphans.get_mut(kept.orphan as usize).filter(|_| !is_known);
        let live = orphan.and_then(|orphan| orphan.take_if(|one| !one.is_spent()));
        let Some(Orphan { rings: Left::Live(channel), .. }) = live else {
            return Err(End::Nonsense);
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
            settings::tell(|| format!("the daemon's rules of sampling: {error}"));
        }
        self.has_sampling = text.is_some();
        sample::overrule(rules.and_then(Result::ok));
    }

    fn say<M: Messages>(&mut self, message: &M) -> Result<(), End> {
        encode(message, &mut self.unsent).map_err(|_| End::Gone)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), End> {
        while !self.unsent.is_empty() {
            let socket = self.socket.get().ok_or(End::Gone)?;
            match socket.send(&self.unsent, &[]) {
                Ok(sent) => drop(self.unsent.drain(..sent.min(self.unsent.len()))),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(End::Gone),
            }
        }
        match self.unsent.len() > UNSENT_MAX {
            true => Err(End::Nonsense),
            false => Ok(()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.orphans().into_iter().for_each(Orphan::remove);
        if self.has_sampling {
            sample::overrule(None);
        }
    }
}

/// The next message of a kind that is known.
fn next<M: Messages>(decoder: &mut Decoder<M>) -> Result<Option<(M, Vec<OwnedFd>)>, End> {
    loop {
        match decoder.take() {
            Ok(Some(Received::Message { message, descriptors })) => {
                return Ok(Some((message, descriptors)));
            }
            Ok(Some(Received::Unknown { .. })) => {}
            Ok(None) => return Ok(None),
            Err(error) => {
                settings::tell(|| format!("the daemon is not understood: {error}"));
                return Err(End::Nonsense);
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
) -> io::Result<Place> {
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
        Some(Orphan { rings: Left::Live(Channel { place: Some(old), .. }), since })
            if old.has_contexts == has_contexts =>
        {
            let slot = old.slot;
            return match channels::replace(slot, writer) {
                true => {
                    // What is in the old ones is still to be read.
                    *replaced = Some(Orphan { rings: Left::Spent(old.memory), since });
                    Ok(Place { slot, has_contexts, memory, _eventfd: eventfd })
                }
                false => Err(io::Error::other("its rings cannot be replaced")),
            };
        }
        other => other.into_iter().for_each(Orphan::remove),
    }
    let slot = channels::attach_somewhere(writer, has_contexts);
    let slot = slot.ok_or_else(|| io::Error::other("there are too many channels"))?;
    Ok(Place { slot, has_contexts, memory, _eventfd: eventfd })
}

impl Channel {
    /// Keeps a rule that is not in force yet.
    fn keep(&mut self, rule: EventRule) -> Result<(), End> {
        let names = rule.names.iter().chain(&rule.excluded).chain(&rule.filter);
        self.rules_size += names.map(|text| text.len() + size_of::<String>()).sum::<usize>();
        if self.rules.len() >= RULES_MAX || self.rules_size > RULES_SIZE_MAX {
            return Err(End::Nonsense);
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Puts the rules in force.
    fn apply(&mut self) {
        let rules = std::mem::take(&mut self.rules);
        self.rules_size = 0;
        if let Some(Place { slot, .. }) = self.place {
            registry::set_orders(slot, Some(Orders::new(&rules, self.sources.clone())));
        }
    }

    /// Nothing is recorded any more, and the memory is let go.
    fn remove(self) {
        if let Some(place) = self.place {
            let is_unused = registry::set_orders(place.slot, None);
            channels::detach_for_good(place.slot, is_unused);
        }
    }
}
