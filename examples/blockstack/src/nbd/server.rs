//! Takes requests of NBD clients, asks the composer, and answers. Each request begins here, and so does its trace:
//! whether it is followed is decided once, when it comes.
//!
//! Of a request that is followed this role records six events: the request itself and the question to the composer,
//! at their ends, and in between its offset, length and handle, and that it was sent on. With a volume in memory it
//! asks nobody, and records as many: a span of what memory did, and that the request was answered.

use super::handshake::{Handshake, Step, greet};
use super::memory::Memory;
use super::request::{EIO, LENGTH_MAX, REQUEST_SIZE, Request, Task, reply};
use crate::address::Address;
use crate::hub::{Below, Client, ClientId, Hub, Turn, announce};
use crate::message::{self, Header, Kind, Next};
use crate::slab::Slab;
use crate::tracing::{Span, memory_call, root, volume_call};
use crate::volume::Volume;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const CLIENTS_MAX: usize = 32;
/// How much of one client's may be under way.
const REQUESTS_MAX: usize = 128;
const BYTES_MAX: usize = LENGTH_MAX as usize;
/// How long a client may take until it has chosen a volume.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the composer may take to say which volumes there are.
const COMPOSER_PATIENCE: Duration = Duration::from_secs(10);
/// Those who take too long are looked for now and then.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// And so soon those whose requests wait until they have read answers.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub(crate) struct Options {
    pub(crate) listen: Address,
    pub(crate) source: Source,
    pub(crate) until_eof: bool,
}

/// Where volumes come from.
pub(crate) enum Source {
    Composer(Address),
    Memory(Volume),
}

/// Who does what is asked for.
enum Backing {
    Composer(Below),
    Memory(Memory),
}

/// What is known of a client.
struct State {
    phase: Phase,
    request_count: usize,
    /// Of what is to be read or written by them.
    byte_count: usize,
}

enum Phase {
    Handshake(Handshake, Instant),
    /// Requests go to this volume.
    Requests(usize),
    /// No more is read of it. It goes when it was told all that is to be told.
    Ending,
}

/// A request that the composer was asked for.
struct Pending {
    client: ClientId,
    cookie: u64,
    kind: Kind,
    length: u32,
    // In the order in which they end.
    call: Span<'static>,
    root: Span<'static>,
}

struct Server {
    volumes: Vec<Volume>,
    hub: Hub<State>,
    backing: Backing,
    pending: Slab<Pending>,
    /// Whether somebody's requests wait until he has read answers.
    is_held: bool,
}

pub(crate) fn run(options: Options) -> io::Result<()> {
    let (volumes, backing) = match options.source {
        Source::Composer(address) => {
            (volumes_of(&address)?, Backing::Composer(Below::new(address)))
        }
        Source::Memory(volume) => {
            let memory = Memory::new(volume.size)?;
            (vec![volume], Backing::Memory(memory))
        }
    };
    let (hub, address) = Hub::listen(&options.listen, options.until_eof, CLIENTS_MAX)?;
    let mut server = Server { volumes, hub, backing, pending: Slab::new(), is_held: false };
    announce(&address)?;
    loop {
        let has_room = server.backing.has_room();
        let may_read = |client: &Client<State>| match client.state.phase {
            Phase::Handshake(..) => true,
            Phase::Requests(_) => {
                has_room && client.state.has_room() && client.link.backlog() < BYTES_MAX
            }
            Phase::Ending => false,
        };
        let timeout = Some(if server.is_held { LOOK_AGAIN } else { LOOK_EVERY });
        server.is_held = false;
        match server.hub.turn(server.backing.below(), may_read, State::new, timeout)? {
            Turn::End => return Ok(()),
            Turn::BelowLost => server.lose_composer(),
            Turn::Going => {}
        }
        server.take_answers();
        for client in server.hub.client_ids() {
            server.serve(client);
        }
        if !server.backing.below().is_none_or(Below::send) {
            server.lose_composer();
        }
        server.hub.send();
    }
}

/// Asks the composer, who may still be starting, which volumes there are.
fn volumes_of(composer: &Address) -> io::Result<Vec<Volume>> {
    let end = Instant::now() + COMPOSER_PATIENCE;
    let stream = loop {
        match composer.connect() {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let fd: OwnedFd = stream.into_fd();
    let mut stream = std::fs::File::from(fd);
    let mut bytes = Vec::new();
    Header::request(Kind::List, 0, 0, 0).write(&[], &mut bytes);
    stream.write_all(&bytes)?;
    bytes.clear();
    let mut chunk = [0; 4096];
    let bad = || io::Error::other("the composer does not say which volumes there are");
    loop {
        match message::next(&bytes) {
            Next::Message(message) => {
                let text = str::from_utf8(message.payload).map_err(|_| bad())?;
                let volume = |line: &str| line.replace(' ', "=").parse().map_err(|_| bad());
                return text.lines().map(volume).collect();
            }
            Next::Bad => return Err(bad()),
            Next::Short(_) => match stream.read(&mut chunk)? {
                0 => return Err(bad()),
                count => bytes.extend_from_slice(&chunk[..count]),
            },
        }
    }
}

impl Backing {
    fn below(&mut self) -> Option<&mut Below> {
        match self {
            Backing::Composer(composer) => Some(composer),
            Backing::Memory(_) => None,
        }
    }

    /// Whether more may be asked of it.
    fn has_room(&self) -> bool {
        match self {
            Backing::Composer(composer) => composer.has_room(),
            Backing::Memory(_) => true,
        }
    }
}

impl State {
    fn new() -> State {
        let phase = Phase::Handshake(Handshake::default(), Instant::now() + PATIENCE);
        State { phase, request_count: 0, byte_count: 0 }
    }

    fn has_room(&self) -> bool {
        self.request_count < REQUESTS_MAX && self.byte_count < BYTES_MAX
    }
}

impl Server {
    /// Looks at what has come of a client.
    fn serve(&mut self, id: ClientId) {
        let Some(client) = self.hub.client(id) else { return };
        if let Phase::Handshake(handshake, deadline) = &mut client.state.phase {
            if Instant::now() > *deadline {
                return self.hub.drop_client(id);
            }
            if !handshake.has_greeted {
                handshake.has_greeted = true;
                greet(&mut client.link.output);
            }
        }
        loop {
            let Some(client) = self.hub.client(id) else { return };
            match &mut client.state.phase {
                Phase::Handshake(handshake, _) => {
                    let (unread, output) = client.link.unread_and_output();
                    match handshake.step(unread, &self.volumes, output) {
                        Step::Short(size) => return client.link.expect(size),
                        Step::Took(size) => client.link.take(size),
                        Step::Go(size, volume) => {
                            client.link.take(size);
                            client.state.phase = Phase::Requests(volume);
                        }
                        Step::End => client.state.phase = Phase::Ending,
                    }
                }
                &mut Phase::Requests(volume) => {
                    if !client.state.has_room() || !self.backing.has_room() {
                        return;
                    }
                    // Requests are small, and what memory has to say of them at once is not.
                    if client.link.backlog() >= BYTES_MAX {
                        if client.link.send().is_err() {
                            return self.hub.drop_client(id);
                        }
                        if client.link.backlog() >= BYTES_MAX {
                            self.is_held = true;
                            return;
                        }
                    }
                    let (unread, output) = client.link.unread_and_output();
                    let Some((bytes, rest)) = unread.split_first_chunk() else {
                        return;
                    };
                    let Some(request) = Request::read(bytes) else {
                        return self.hub.drop_client(id);
                    };
                    let size = request.payload_size();
                    // What is too long would have to be read to get to the next request.
                    if size > LENGTH_MAX {
                        return self.hub.drop_client(id);
                    }
                    let Some(payload) = rest.get(..size as usize) else {
                        return client.link.expect(REQUEST_SIZE + size as usize);
                    };
                    let volume = &self.volumes[volume];
                    match request.task(volume.size) {
                        Task::Ask { kind, fua, name } => match &mut self.backing {
                            Backing::Memory(memory) => {
                                answer((kind, name), &request, payload, memory, output);
                            }
                            Backing::Composer(composer) => {
                                let pending = &mut self.pending;
                                let length = request.length;
                                let asked = ask(
                                    (kind, fua, name),
                                    &request,
                                    volume,
                                    payload,
                                    id,
                                    composer,
                                    pending,
                                );
                                if asked {
                                    client.state.request_count += 1;
                                    client.state.byte_count += bytes_of(kind, length);
                                } else {
                                    reply(request.cookie, EIO, output);
                                }
                            }
                        },
                        Task::Done => reply(request.cookie, 0, output),
                        Task::Refuse(error) => reply(request.cookie, error, output),
                        // What is under way may still be answered, or not.
                        Task::Disconnect => client.state.phase = Phase::Ending,
                    }
                    client.link.take(REQUEST_SIZE + size as usize);
                }
                Phase::Ending => {
                    let is_done = client.state.request_count == 0;
                    let is_sent = client.link.send().is_err() || client.link.backlog() == 0;
                    if is_done && is_sent {
                        self.hub.drop_client(id);
                    }
                    return;
                }
            }
        }
    }

    /// Passes on what the composer has answered.
    fn take_answers(&mut self) {
        loop {
            let Some(link) = self.backing.below().and_then(Below::link) else { return };
            let message = match message::next(link.unread()) {
                Next::Short(size) => return link.expect(size),
                Next::Message(message) => message,
                Next::Bad => return self.lose_composer(),
            };
            let header = message.header;
            let Some(pending) = self.pending.remove(header.id) else {
                return self.lose_composer();
            };
            let is_odd = header.kind != pending.kind
                || pending.kind == Kind::Read && header.length != pending.length;
            let status = if is_odd { EIO } else { header.status };
            finish(pending, status, message.payload, &mut self.hub);
            let size = message.size;
            link.take(size);
        }
    }

    /// What the composer was asked for fails.
    fn lose_composer(&mut self) {
        if let Some(composer) = self.backing.below() {
            composer.lose();
        }
        for id in self.pending.ids() {
            if let Some(pending) = self.pending.remove(id) {
                finish(pending, EIO, &[], &mut self.hub);
            }
        }
    }
}

fn bytes_of(kind: Kind, length: u32) -> usize {
    if matches!(kind, Kind::Read | Kind::Write) { length as usize } else { 0 }
}

/// Sends a request on to the composer, if it is there.
#[inline]
fn ask(
    (kind, fua, name): (Kind, bool, &'static str),
    request: &Request,
    volume: &Volume,
    payload: &[u8],
    client: ClientId,
    composer: &mut Below,
    pending: &mut Slab<Pending>,
) -> bool {
    let Some(link) = composer.link() else { return false };
    let root = root(name);
    root.keyval("offset", request.offset);
    root.keyval("length", request.length);
    root.keyval("handle", request.cookie);
    let call = root.child(volume_call(kind)).client_span();
    let mut header = Header::request(kind, pending.next_id(), request.offset, request.length);
    (header.fua, header.trace) = (fua, call.packed());
    header.write(volume.name.as_bytes(), &mut link.output);
    link.output.extend_from_slice(payload);
    root.event("sent to composer");
    let (cookie, length) = (request.cookie, request.length);
    pending.insert(Pending { client, cookie, kind, length, call, root });
    true
}

/// Does what is asked for in memory, and answers.
#[inline]
fn answer(
    (kind, name): (Kind, &'static str),
    request: &Request,
    payload: &[u8],
    memory: &mut Memory,
    output: &mut Vec<u8>,
) {
    let root = root(name);
    root.keyval("offset", request.offset);
    root.keyval("length", request.length);
    root.keyval("handle", request.cookie);
    let call = root.child(memory_call(kind)).span();
    reply(request.cookie, 0, output);
    memory.serve(kind, request.offset, request.length, payload, output);
    drop(call);
    root.event("answered");
}

/// Answers a request, if the client is still there; its spans end here.
#[inline]
fn finish(pending: Pending, status: u32, payload: &[u8], hub: &mut Hub<State>) {
    let Pending { client, cookie, kind, length, call, root } = pending;
    drop(call);
    if status != 0 {
        root.keyval("error", status);
    }
    let Some(client) = hub.client(client) else { return };
    client.state.request_count -= 1;
    client.state.byte_count -= bytes_of(kind, length);
    reply(cookie, status, &mut client.link.output);
    if status == 0 && kind == Kind::Read {
        client.link.output.extend_from_slice(payload);
    }
}
