//! An agent for tests: the agent's side of the connections and of the rings. The agent sends only
//! the messages that a test requests.

#![allow(dead_code, reason = "not each test needs all of it")]

use blkkin_ring::{Cells, Clock, HEADER_SIZE, Reader, Shape, TakeOutcome, packet};
use blkkin_sys::socket::{Listener, Socket};
use blkkin_trace::control::current_span::SlotOffset;
use blkkin_trace::control::{
    AddChannel, Answer, ChannelRule, Context, Decoder, EventRule, EventType, FieldKind,
    FromApplication, Hello, Messages, Opening, Received, ToApplication, Version, Welcome, catalog,
    encode,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit on any operation in a test, longer than the operation takes on the slowest machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A test agent's listening socket, in a directory of its own.
pub(crate) struct TestAgent {
    folder: PathBuf,
    pub(crate) path: PathBuf,
    listener: Option<Listener>,
}

impl TestAgent {
    pub(crate) fn new(name: &str) -> TestAgent {
        let folder = format!("blkkin-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("agent.sock");
        let mut daemon = TestAgent { folder, path, listener: None };
        daemon.listen();
        daemon
    }

    pub(crate) fn listen(&mut self) {
        self.listener = Some(Listener::bind(&self.path).unwrap());
    }

    /// Closes the socket and removes its file, like an agent that exits.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        std::fs::remove_file(&self.path).unwrap();
    }

    /// Accepts a connection within a time limit, and sends nothing on it.
    pub(crate) fn connected(&self, within: Duration) -> Option<Socket> {
        let listener = self.listener.as_ref().unwrap();
        let end = Instant::now() + within;
        loop {
            match listener.accept() {
                Ok(socket) => return Some(socket),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            let left = end.checked_duration_since(Instant::now())?;
            blkkin_sys::wait(&[(listener.as_fd(), false)], Some(left)).unwrap();
        }
    }

    /// Accepts the next program's connection, answers its `Hello`, and receives its catalog.
    pub(crate) fn program(&self) -> Program {
        let mut program = Program::new(self.connected(LONG).expect("a program"));
        program.welcome();
        program
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connected program, as the agent sees it: its socket, catalog and channels.
pub(crate) struct Program {
    pub(crate) socket: Socket,
    openings: Option<Decoder<Opening>>,
    decoder: Option<Decoder<FromApplication>>,
    pub(crate) hello: Option<Hello>,
    pub(crate) catalog: Option<File>,
    pub(crate) channels: HashMap<u32, Channel>,
    /// Numbers under which the program has offered the channels of earlier agents.
    pub(crate) orphans: Vec<u32>,
    pings: u64,
}

/// Rings of a channel, and a reader for each of them.
pub(crate) struct Channel {
    pub(crate) contexts: Vec<Context>,
    cells: Cells,
    shape: Shape,
    readers: Vec<Reader>,
    file: File,
    pub(crate) eventfd: OwnedFd,
}

/// A message that a program sent, or the end of the connection.
#[derive(Debug, PartialEq)]
pub(crate) enum ProgramMessage {
    Message(FromApplication),
    End,
}

impl Program {
    pub(crate) fn new(socket: Socket) -> Program {
        Program {
            socket,
            openings: Some(Decoder::new()),
            decoder: None,
            hello: None,
            catalog: None,
            channels: HashMap::new(),
            orphans: Vec::new(),
            pings: 0,
        }
    }

    /// Receives the program's `Hello`, the first message of a connection.
    pub(crate) fn receive_hello(&mut self) {
        let mut decoder = self.openings.take().unwrap();
        loop {
            if let Some(received) = decoder.take().unwrap() {
                let Received::Message { message: Opening::Hello(hello), .. } = received else {
                    panic!("not a hello");
                };
                self.hello = Some(hello);
                self.decoder = Some(decoder.followed_by());
                return;
            }
            let (bytes, descriptors) = self.receive(LONG).expect("in time").expect("a hello");
            decoder.feed(&bytes, descriptors);
        }
    }

    pub(crate) fn welcome(&mut self) {
        self.receive_hello();
        let release = "test".to_owned();
        self.send(&Answer::Welcome(Welcome { version: Version::OURS, release }), &[]);
        loop {
            let (said, mut descriptors) = self.next_message(LONG);
            match said {
                ProgramMessage::Message(FromApplication::Orphan(orphan)) => {
                    self.orphans.push(orphan.number)
                }
                said => {
                    assert_eq!(said, ProgramMessage::Message(FromApplication::Catalog));
                    self.catalog = Some(File::from(descriptors.pop().unwrap()));
                    return;
                }
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.socket.peer().unwrap().pid
    }

    pub(crate) fn send<M: Messages>(&self, message: &M, descriptors: &[BorrowedFd<'_>]) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        self.send_bytes(&bytes, descriptors);
    }

    #[track_caller]
    pub(crate) fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        assert!(self.try_send_bytes(bytes, descriptors), "the program has gone");
    }

    /// Sends bytes. Returns false if the program has closed the connection.
    pub(crate) fn try_send_bytes(
        &self,
        mut bytes: &[u8],
        mut descriptors: &[BorrowedFd<'_>],
    ) -> bool {
        while !bytes.is_empty() {
            match self.socket.send(bytes, descriptors) {
                Ok(sent) => (bytes, descriptors) = (&bytes[sent..], &[]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    blkkin_sys::wait(&[(self.socket.as_fd(), true)], Some(LONG)).unwrap();
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Receives bytes, or the end of the connection as `Some(None)`; `None` after the time limit.
    fn receive(&self, within: Duration) -> Option<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let end = Instant::now() + within;
        loop {
            let (mut bytes, mut descriptors) = (vec![0; 4096], Vec::new());
            match self.socket.receive(&mut bytes, &mut descriptors) {
                Ok(0) => return Some(None),
                Ok(size) => {
                    bytes.truncate(size);
                    return Some(Some((bytes, descriptors)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Some(None),
                Err(error) => panic!("{error}"),
            }
            let left = end.checked_duration_since(Instant::now())?;
            blkkin_sys::wait(&[(self.socket.as_fd(), false)], Some(left)).unwrap();
        }
    }

    /// Receives the program's next message; panics after the time limit.
    #[track_caller]
    pub(crate) fn next_message(&mut self, within: Duration) -> (ProgramMessage, Vec<OwnedFd>) {
        self.next_message_within(within).expect("the program says something")
    }

    pub(crate) fn next_message_within(
        &mut self,
        within: Duration,
    ) -> Option<(ProgramMessage, Vec<OwnedFd>)> {
        loop {
            let decoder = self.decoder.as_mut().unwrap();
            match decoder.take().unwrap() {
                Some(Received::Message { message, descriptors }) => {
                    return Some((ProgramMessage::Message(message), descriptors));
                }
                Some(unknown) => panic!("{unknown:?}"),
                None => {}
            }
            match self.receive(within)? {
                Some((bytes, descriptors)) => {
                    self.decoder.as_mut().unwrap().feed(&bytes, descriptors);
                }
                None => return Some((ProgramMessage::End, Vec::new())),
            }
        }
    }

    /// Sends a `Ping` and waits for the answer. All messages sent before have then taken effect.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        self.pings += 1;
        self.send(&ToApplication::Ping(self.pings), &[]);
        assert_eq!(
            self.next_message(LONG).0,
            ProgramMessage::Message(FromApplication::Pong(self.pings))
        );
    }

    /// Adds a channel with new rings and these contexts.
    pub(crate) fn add(&mut self, number: u32, contexts: &[Context]) {
        let channel = Channel::new(contexts);
        let descriptors = [channel.file.as_fd(), channel.eventfd.as_fd()];
        self.send(&add(number, contexts), &descriptors);
        self.channels.insert(number, channel);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.send(&ToApplication::RemoveChannel(number), &[]);
    }

    /// Sends rules for a channel, and puts them in force.
    pub(crate) fn enable(&mut self, channel: u32, rules: &[EventRule]) {
        for rule in rules {
            let rule = ChannelRule { channel, rule: rule.clone() };
            self.send(&ToApplication::Rule(rule), &[]);
        }
        self.send(&ToApplication::Apply(channel), &[]);
    }

    /// Returns all event types in the program's catalog, by index.
    pub(crate) fn types(&self) -> HashMap<u32, EventType> {
        types(self.catalog.as_ref().unwrap())
    }

    /// Returns the offset of threads' current spans, which the program's catalog tells.
    pub(crate) fn current_span(&self) -> Option<SlotOffset> {
        let mut word = [0; 8];
        let catalog = self.catalog.as_ref().unwrap();
        catalog.read_exact_at(&mut word, catalog::CURRENT_SPAN as u64).unwrap();
        SlotOffset::decode(u64::from_le_bytes(word))
    }

    /// Consumes and returns the events that a channel has recorded so far.
    pub(crate) fn events(&mut self, channel: u32) -> Vec<Event> {
        let channel = self.channels.get_mut(&channel).unwrap();
        let taken = channel.take();
        // Read after the rings, so that the types of all events are present.
        let types = types(self.catalog.as_ref().unwrap());
        taken.iter().flat_map(|bytes| split(bytes, &types, &channel.contexts)).collect()
    }

    pub(crate) fn names(&mut self, channel: u32) -> Vec<String> {
        self.events(channel).into_iter().map(|event| event.name).collect()
    }

    /// Waits until a channel has recorded `count` events, and consumes them.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, channel: u32, count: usize) -> Vec<Event> {
        let (mut events, end) = (Vec::new(), Instant::now() + LONG);
        while events.len() < count {
            assert!(Instant::now() < end, "{} events, not {count}: {events:?}", events.len());
            events.extend(self.events(channel));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(events.len(), count, "{events:?}");
        events
    }
}

/// An event that a program recorded, split into contexts and fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) contexts: Vec<Vec<u8>>,
    pub(crate) fields: Vec<Vec<u8>>,
}

pub(crate) fn add(channel: u32, contexts: &[Context]) -> ToApplication {
    let (session, contexts) = ("test".to_owned(), contexts.to_vec());
    ToApplication::AddChannel(AddChannel { channel, session, contexts, replaces: None })
}

/// Returns a rule for a name pattern.
pub(crate) fn rule(name: &str) -> EventRule {
    EventRule::for_names([name])
}

pub(crate) fn filtered(name: &str, filter: &str) -> EventRule {
    EventRule { filter: Some(filter.to_owned()), ..rule(name) }
}

fn types(catalog: &File) -> HashMap<u32, EventType> {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        catalog.read_exact_at(&mut bytes, at as u64).unwrap();
        u64::from_le_bytes(bytes)
    };
    assert_eq!([word(0), word(8)], catalog::MAGIC);
    let mut types = HashMap::new();
    for index in 0..word(catalog::COUNT) as usize {
        let word = word(catalog::word_of(index));
        if word != 0 {
            let place = catalog::decode_word(word).expect("a place");
            let mut bytes = vec![0; place.len()];
            catalog.read_exact_at(&mut bytes, place.start as u64).unwrap();
            let described = catalog::decode(&bytes).expect("a type");
            assert_eq!(described.index as usize, index);
            types.insert(described.index, described);
        }
    }
    types
}

impl Channel {
    fn new(contexts: &[Context]) -> Channel {
        let (subbuffer_size, subbuffer_count) = (16 << 10, 8);
        let shape = Shape { rings: 9, subbuffer_size, subbuffer_count, ..Shape::default() };
        let (file, cells) = Cells::create(c"rings", &shape).unwrap();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let eventfd = rustix::event::eventfd(0, flags).unwrap();
        let clock = if blkkin_sys::tsc_is_steady() { Clock::Tsc } else { Clock::Monotonic };
        let readers = (0..shape.rings).map(|ring| Reader::new(&shape, ring, clock)).collect();
        Channel { contexts: contexts.to_vec(), cells, shape, readers, file, eventfd }
    }

    /// Announces that the test's reader sleeps until it is woken.
    pub(crate) fn fall_asleep(&self) {
        self.cells.fall_asleep();
        assert!(blkkin_sys::barrier_for_all());
    }

    /// Returns the number of wake-ups since the last call.
    pub(crate) fn wakes(&self) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::read(&self.eventfd, &mut bytes) {
            Ok(_) => u64::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// Consumes the packets recorded so far, and returns them without their headers.
    fn take(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for reader in &mut self.readers {
            let mut bytes = Vec::new();
            while let TakeOutcome::Packet(_) =
                reader.take(&self.cells, &self.shape, true, &mut bytes)
            {
                packets.push(bytes.split_off(packet::SIZE));
                bytes.clear();
            }
        }
        packets
    }
}

/// Splits a packet without its header into events.
fn split(mut bytes: &[u8], types: &HashMap<u32, EventType>, contexts: &[Context]) -> Vec<Event> {
    let mut events = Vec::new();
    while let [first, second, ..] = *bytes {
        let id = u16::from_le_bytes([first, second]);
        let event = types.get(&id.into()).unwrap_or_else(|| panic!("type {id} was not told"));
        bytes = &bytes[HEADER_SIZE..];
        let mut cut = |size: usize| {
            let (part, rest) = bytes.split_at(size);
            bytes = rest;
            part.to_vec()
        };
        let mut parts = Vec::new();
        for context in contexts {
            parts.push(match context {
                Context::Procname => cut(17),
                Context::CgroupId => cut(8),
                Context::Supplied { .. } => text(&mut cut),
                _ => cut(4),
            });
        }
        let fields = event.fields.iter().map(|field| match &field.kind {
            FieldKind::Unsigned { width, .. }
            | FieldKind::Signed { width, .. }
            | FieldKind::Enum { width, .. } => cut(width.bytes()),
            FieldKind::Array { of, count } => cut(of.bytes() * *count as usize),
            FieldKind::Sequence { of } => {
                let count = cut(4);
                cut(of.bytes() * u32::from_le_bytes(*count.first_chunk().unwrap()) as usize)
            }
            FieldKind::F32 => cut(4),
            FieldKind::F64 => cut(8),
            FieldKind::Bool => cut(1),
            FieldKind::String => text(&mut cut),
            FieldKind::Bytes => {
                let count = cut(4);
                cut(u32::from_le_bytes(*count.first_chunk().unwrap()) as usize)
            }
        });
        let fields = fields.collect();
        events.push(Event { name: event.name.clone(), contexts: parts, fields });
    }
    events
}

fn text(cut: &mut impl FnMut(usize) -> Vec<u8>) -> Vec<u8> {
    let mut text = Vec::new();
    loop {
        match cut(1)[0] {
            0 => return text,
            byte => text.push(byte),
        }
    }
}
