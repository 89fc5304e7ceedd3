//! Serves NBD clients by calling the composer, or from a volume in memory. The trace of a request
//! starts here: sampling is decided once, when the request is forwarded or executed. All
//! other requests, such as refused or empty requests, have no trace.
//!
//! For a sampled request this role records six events. Two events are the spans of the request and
//! of the call to the composer, each recorded at its end. The other four are annotations: offset,
//! length and handle of the request, and the forwarding of the call. A failed call adds its error.
//! With a volume in memory there is no call, but the same number of events: the span of the memory
//! operation, and the reply.

use super::handshake::{Handshake, Step, greet};
use super::memory::Memory;
use super::request::{EIO, LENGTH_MAX, Operation, REQUEST_SIZE, Request, Task, reply};
use crate::address::Address;
use crate::event_loop::{Client, ClientId, EventLoop, Turn, Upstream, announce};
use crate::id_table::IdTable;
use crate::message::{self, Header, Kind, NextMessage};
use crate::tracing::{Span, memory_call, root, volume_call};
use crate::volume::Volume;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const CLIENTS_MAX: usize = 32;
/// Maximum number of requests in flight for each client.
const REQUESTS_MAX: usize = 128;
const BYTES_MAX: usize = LENGTH_MAX as usize;
/// Time limit for a client's handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for connecting to the composer to request its volumes. The reply has no time limit.
const COMPOSER_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which time limits are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the input of clients with too many unsent replies is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Options {
    pub(crate) listen: Address,
    pub(crate) source: Storage,
    pub(crate) until_eof: bool,
}

/// Storage of the volumes, as given on the command line.
pub(crate) enum Storage {
    Composer(Address),
    Memory(Volume),
}

/// Open storage: the connection to the composer, or a volume in memory.
enum StorageConnection {
    Composer(Upstream),
    Memory(Memory),
}

/// State of a client: phase of its connection, and its requests in flight.
struct ClientState {
    phase: Phase,
    request_count: usize,
    /// Total data size of the client's requests in flight, in bytes.
    byte_count: usize,
}

enum Phase {
    Handshake(Handshake, Instant),
    /// The client sends requests to the volume with this index.
    Requests(usize),
    /// The client's input is ignored. The connection is closed once all requests in flight are
    /// answered and all output is sent.
    Ending,
}

/// A request that waits for the composer's reply, with its spans.
struct PendingRequest {
    client: ClientId,
    cookie: u64,
    kind: Kind,
    length: u32,
    // The call's span ends before the root: fields are dropped in this order.
    call: Span<'static>,
    root: Span<'static>,
}

struct Server {
    volumes: Vec<Volume>,
    event_loop: EventLoop<ClientState>,
    backing: StorageConnection,
    pending: IdTable<PendingRequest>,
    /// Set if requests of a client wait until the client reads its replies.
    has_blocked_client: bool,
}

pub(crate) fn run(options: Options) -> io::Result<()> {
    let (volumes, backing) = match options.source {
        Storage::Composer(address) => {
            (volumes_of(&address)?, StorageConnection::Composer(Upstream::new(address)))
        }
        Storage::Memory(volume) => {
            let memory = Memory::new(volume.size)?;
            (vec![volume], StorageConnection::Memory(memory))
        }
    };
    let (event_loop, address) = EventLoop::listen(&options.listen, options.until_eof, CLIENTS_MAX)?;
    let mut server =
        Server { volumes, event_loop, backing, pending: IdTable::new(), has_blocked_client: false };
    announce(&address)?;
    loop {
        let has_room = server.backing.has_room();
        let may_read = |client: &Client<ClientState>| match client.state.phase {
            Phase::Handshake(..) => true,
            Phase::Requests(_) => {
                has_room && client.state.has_room() && client.link.backlog() < BYTES_MAX
            }
            Phase::Ending => false,
        };
        let timeout = Some(if server.has_blocked_client { RETRY_INTERVAL } else { CHECK_INTERVAL });
        server.has_blocked_client = false;
        match server.event_loop.turn(
            server.backing.upstream(),
            may_read,
            ClientState::new,
            timeout,
        )? {
            Turn::End => return Ok(()),
            Turn::UpstreamLost => server.lose_composer(),
            Turn::Continue => {}
        }
        server.forward_replies();
        for client in server.event_loop.client_ids() {
            server.serve(client);
        }
        if !server.backing.upstream().is_none_or(Upstream::send) {
            server.lose_composer();
        }
        server.event_loop.send();
    }
}

/// Requests the list of volumes from the composer, which may still be starting.
fn volumes_of(composer: &Address) -> io::Result<Vec<Volume>> {
    let end = Instant::now() + COMPOSER_TIMEOUT;
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
            NextMessage::Whole(message) => {
                let text = str::from_utf8(message.payload).map_err(|_| bad())?;
                let volume = |line: &str| line.replace(' ', "=").parse().map_err(|_| bad());
                return text.lines().map(volume).collect();
            }
            NextMessage::Bad => return Err(bad()),
            NextMessage::Short(_) => match stream.read(&mut chunk)? {
                0 => return Err(bad()),
                count => bytes.extend_from_slice(&chunk[..count]),
            },
        }
    }
}

impl StorageConnection {
    fn upstream(&mut self) -> Option<&mut Upstream> {
        match self {
            StorageConnection::Composer(composer) => Some(composer),
            StorageConnection::Memory(_) => None,
        }
    }

    /// Returns true if another request may be started.
    fn has_room(&self) -> bool {
        match self {
            StorageConnection::Composer(composer) => composer.has_room(),
            StorageConnection::Memory(_) => true,
        }
    }
}

impl ClientState {
    fn new() -> ClientState {
        let phase = Phase::Handshake(Handshake::default(), Instant::now() + HANDSHAKE_TIMEOUT);
        ClientState { phase, request_count: 0, byte_count: 0 }
    }

    fn has_room(&self) -> bool {
        self.request_count < REQUESTS_MAX && self.byte_count < BYTES_MAX
    }
}

impl Server {
    /// Processes the input of a client.
    fn serve(&mut self, id: ClientId) {
        let Some(client) = self.event_loop.client(id) else { return };
        if let Phase::Handshake(handshake, deadline) = &mut client.state.phase {
            if Instant::now() > *deadline {
                return self.event_loop.drop_client(id);
            }
            if !handshake.has_greeted {
                handshake.has_greeted = true;
                greet(&mut client.link.output);
            }
        }
        loop {
            let Some(client) = self.event_loop.client(id) else { return };
            match &mut client.state.phase {
                Phase::Handshake(handshake, _) => {
                    let (unread, output) = client.link.unread_and_output();
                    match handshake.step(unread, &self.volumes, output) {
                        Step::Short(size) => return client.link.reserve(size),
                        Step::Consumed(size) => client.link.consume(size),
                        Step::Ready(size, volume) => {
                            client.link.consume(size);
                            client.state.phase = Phase::Requests(volume);
                        }
                        Step::End => client.state.phase = Phase::Ending,
                    }
                }
                &mut Phase::Requests(volume) => {
                    if !client.state.has_room() || !self.backing.has_room() {
                        return;
                    }
                    // Requests are small, but replies from memory are large and immediate.
                    if client.link.backlog() >= BYTES_MAX {
                        if client.link.send().is_err() {
                            return self.event_loop.drop_client(id);
                        }
                        if client.link.backlog() >= BYTES_MAX {
                            self.has_blocked_client = true;
                            return;
                        }
                    }
                    let (unread, output) = client.link.unread_and_output();
                    let Some((bytes, rest)) = unread.split_first_chunk() else {
                        return;
                    };
                    let Some(request) = Request::read(bytes) else {
                        return self.event_loop.drop_client(id);
                    };
                    let size = request.payload_size();
                    // Finding the next request would require reading all data of this request.
                    if size > LENGTH_MAX {
                        return self.event_loop.drop_client(id);
                    }
                    let Some(payload) = rest.get(..size as usize) else {
                        return client.link.reserve(REQUEST_SIZE + size as usize);
                    };
                    let volume = &self.volumes[volume];
                    match request.task(volume.size) {
                        Task::Forward(operation) => match &mut self.backing {
                            StorageConnection::Memory(memory) => {
                                answer(operation, &request, payload, memory, output);
                            }
                            StorageConnection::Composer(composer) => {
                                let call = ForwardedRequest {
                                    client: id,
                                    operation,
                                    request,
                                    volume,
                                    payload,
                                };
                                if call.send(composer, &mut self.pending) {
                                    client.state.request_count += 1;
                                    client.state.byte_count +=
                                        bytes_of(operation.kind, request.length);
                                } else {
                                    reply(request.cookie, EIO, output);
                                }
                            }
                        },
                        Task::Done => reply(request.cookie, 0, output),
                        Task::Refuse(error) => reply(request.cookie, error, output),
                        // Requests in flight are answered before the connection is closed.
                        Task::Disconnect => client.state.phase = Phase::Ending,
                    }
                    client.link.consume(REQUEST_SIZE + size as usize);
                }
                Phase::Ending => {
                    let is_done = client.state.request_count == 0;
                    let is_sent = client.link.send().is_err() || client.link.backlog() == 0;
                    if is_done && is_sent {
                        self.event_loop.drop_client(id);
                    }
                    return;
                }
            }
        }
    }

    /// Forwards the composer's replies to the clients.
    fn forward_replies(&mut self) {
        loop {
            let Some(link) = self.backing.upstream().and_then(Upstream::link) else { return };
            let message = match message::next(link.unread()) {
                NextMessage::Short(size) => return link.reserve(size),
                NextMessage::Whole(message) => message,
                NextMessage::Bad => return self.lose_composer(),
            };
            let header = message.header;
            let Some(pending) = self.pending.remove(header.id) else {
                return self.lose_composer();
            };
            let is_odd = header.kind != pending.kind
                || pending.kind == Kind::Read && header.length != pending.length;
            let status = if is_odd { EIO } else { header.status };
            finish(pending, status, message.payload, &mut self.event_loop);
            let size = message.size;
            link.consume(size);
        }
    }

    /// Fails all requests in flight, after the connection to the composer has ended or a reply was
    /// invalid. Drops the connection.
    fn lose_composer(&mut self) {
        if let Some(composer) = self.backing.upstream() {
            composer.disconnect();
        }
        for id in self.pending.ids() {
            if let Some(pending) = self.pending.remove(id) {
                finish(pending, EIO, &[], &mut self.event_loop);
            }
        }
    }
}

fn bytes_of(kind: Kind, length: u32) -> usize {
    if matches!(kind, Kind::Read | Kind::Write) { length as usize } else { 0 }
}

/// Request of a client that is forwarded to the composer.
struct ForwardedRequest<'a> {
    client: ClientId,
    operation: Operation,
    request: Request,
    volume: &'a Volume,
    payload: &'a [u8],
}

impl ForwardedRequest<'_> {
    /// Forwards the request to the composer; returns false if the composer is not connected.
    #[inline]
    fn send(&self, composer: &mut Upstream, pending: &mut IdTable<PendingRequest>) -> bool {
        let Some(link) = composer.link() else { return false };
        let Operation { kind, fua, name } = self.operation;
        let Request { cookie, offset, length, .. } = self.request;
        let root = request_span(name, &self.request);
        let trace = root.trace();
        let _entered = trace.enter();
        let call = root.child(volume_call(kind)).client_span();
        let mut header = Header::request(kind, pending.next_id(), offset, length);
        (header.fua, header.trace) = (fua, call.packed());
        header.write(self.volume.name.as_bytes(), &mut link.output);
        link.output.extend_from_slice(self.payload);
        root.event("sent to composer");
        let client = self.client;
        pending.insert(PendingRequest { client, cookie, kind, length, call, root });
        true
    }
}

/// Executes a request in memory and answers it.
#[inline]
fn answer(
    operation: Operation,
    request: &Request,
    payload: &[u8],
    memory: &mut Memory,
    output: &mut Vec<u8>,
) {
    let root = request_span(operation.name, request);
    let _entered = root.enter();
    let call = root.child(memory_call(operation.kind)).span();
    reply(request.cookie, 0, output);
    let start = request.offset as usize;
    let range = start..start + request.length as usize;
    memory.serve(operation.kind, range, payload, output);
    drop(call);
    root.event("answered");
}

/// Starts the root span of a request.
#[inline]
fn request_span(name: &'static str, request: &Request) -> Span<'static> {
    let root = root(name);
    root.keyval("offset", request.offset);
    root.keyval("length", request.length);
    root.keyval("handle", request.cookie);
    root
}

/// Answers a request, if the client is still connected, and ends its spans.
#[inline]
fn finish(
    pending: PendingRequest,
    status: u32,
    payload: &[u8],
    event_loop: &mut EventLoop<ClientState>,
) {
    let PendingRequest { client, cookie, kind, length, call, root } = pending;
    let _entered = root.enter();
    drop(call);
    if status != 0 {
        root.keyval("error", status);
    }
    let Some(client) = event_loop.client(client) else { return };
    client.state.request_count -= 1;
    client.state.byte_count -= bytes_of(kind, length);
    reply(cookie, status, &mut client.link.output);
    if status == 0 && kind == Kind::Read {
        client.link.output.extend_from_slice(payload);
    }
}
