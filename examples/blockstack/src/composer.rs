//! The volume composer, which maps volumes to objects. A request that crosses object boundaries is
//! split into several calls and answered after all of their replies.

use crate::address::Address;
use crate::event_loop::{ClientId, EventLoop, Turn, Upstream, announce};
use crate::id_table::IdTable;
use crate::message::{self, Header, Kind, Message, NAME_MAX, NextMessage, PAYLOAD_MAX};
use crate::tracing::{COMPOSER, Span, object_call, server_span, volume_call};
use crate::volume::{ObjectRange, Volume, object_name, object_ranges};
use std::io;

/// Number of calls in flight at which the composer reads no more requests. The calls of one request
/// may exceed the number.
const CALLS_MAX: usize = 4096;
const CLIENTS_MAX: usize = 8;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

pub(crate) struct Options {
    pub(crate) listen: Address,
    pub(crate) mapper: Address,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) until_eof: bool,
}

/// A request of an NBD server that the composer has not answered yet.
struct Request {
    client: ClientId,
    id: u64,
    kind: Kind,
    length: u32,
    /// Number of calls that the mapper has not answered yet.
    left: u32,
    status: u32,
    /// Buffer for the data of a read with several calls.
    read: Vec<u8>,
    span: Span<'static>,
}

/// A call to the mapper: the part of a request within one object, or a flush.
struct Call {
    request: u64,
    at: usize,
    length: usize,
    span: Span<'static>,
}

struct Composer {
    volumes: Vec<Volume>,
    event_loop: EventLoop<()>,
    mapper: Upstream,
    requests: IdTable<Request>,
    calls: IdTable<Call>,
}

pub(crate) fn run(options: Options) -> io::Result<()> {
    let (event_loop, address) = EventLoop::listen(&options.listen, options.until_eof, CLIENTS_MAX)?;
    let mut composer = Composer {
        volumes: options.volumes,
        event_loop,
        mapper: Upstream::new(options.mapper),
        requests: IdTable::new(),
        calls: IdTable::new(),
    };
    announce(&address)?;
    loop {
        let may_ask = composer.can_call();
        match composer.event_loop.turn(Some(&mut composer.mapper), |_| may_ask, || (), None)? {
            Turn::End => return Ok(()),
            Turn::UpstreamLost => composer.lose_mapper(),
            Turn::Continue => {}
        }
        composer.handle_replies();
        for client in composer.event_loop.client_ids() {
            composer.handle_requests(client);
        }
        if !composer.mapper.send() {
            composer.lose_mapper();
        }
        composer.event_loop.send();
    }
}

impl Composer {
    fn can_call(&self) -> bool {
        self.calls.len() < CALLS_MAX && self.mapper.has_room()
    }

    fn handle_requests(&mut self, id: ClientId) {
        while self.can_call() {
            let Composer { event_loop, volumes, mapper, requests, calls } = self;
            let Some(client) = event_loop.client(id) else { return };
            let (unread, output) = client.link.unread_and_output();
            match message::next(unread) {
                NextMessage::Whole(message) if !message.header.is_reply => {
                    let size = message.size;
                    let request = NewRequest { message: &message, client: id, output };
                    begin(request, volumes, mapper, requests, calls);
                    client.link.consume(size);
                }
                NextMessage::Short(size) => return client.link.reserve(size),
                NextMessage::Whole(_) | NextMessage::Bad => return event_loop.drop_client(id),
            }
        }
    }

    fn handle_replies(&mut self) {
        loop {
            let Some(link) = self.mapper.link() else { return };
            let NextMessage::Whole(message) = (match message::next(link.unread()) {
                NextMessage::Short(size) => return link.reserve(size),
                next => next,
            }) else {
                return self.lose_mapper();
            };
            let header = message.header;
            // Ends the span of the call, now that the mapper has answered.
            let Some(Call { request: id, at, length, span }) = self.calls.remove(header.id) else {
                return self.lose_mapper();
            };
            drop(span);
            let mut status = header.status;
            if let Some(request) = self.requests.get_mut(id) {
                let trace = request.span.trace();
                let _entered = trace.enter();
                let is_read = request.kind == Kind::Read && status == 0;
                if is_read && message.payload.len() != length {
                    status = EIO;
                } else if is_read && !request.read.is_empty() {
                    request.read[at..at + length].copy_from_slice(message.payload);
                }
                if status != 0 {
                    request.status = status;
                }
                request.left -= 1;
                if request.left == 0 {
                    finish(&mut self.requests, id, message.payload, &mut self.event_loop);
                }
            }
            let size = message.size;
            link.consume(size);
        }
    }

    /// Fails all requests in flight, after the connection to the mapper has ended or a reply was
    /// invalid. Drops the connection.
    fn lose_mapper(&mut self) {
        self.mapper.disconnect();
        for id in self.calls.ids() {
            self.calls.remove(id);
        }
        for id in self.requests.ids() {
            if let Some(request) = self.requests.get_mut(id) {
                request.status = EIO;
            }
            finish(&mut self.requests, id, &[], &mut self.event_loop);
        }
    }
}

/// Removes a request, answers it if the client is still connected, and ends its span.
fn finish(
    requests: &mut IdTable<Request>,
    id: u64,
    payload: &[u8],
    event_loop: &mut EventLoop<()>,
) {
    let Some(request) = requests.remove(id) else { return };
    let Request { client, id, kind, length, status, read, span, .. } = request;
    if status != 0 {
        span.keyval("error", status);
    }
    let Some(client) = event_loop.client(client) else { return };
    let payload = if read.is_empty() { payload } else { &read };
    answer(&Header::reply(kind, id, length, status), payload, &mut client.link.output);
}

fn answer(header: &Header, payload: &[u8], output: &mut Vec<u8>) {
    header.write(&[], output);
    if header.status == 0 && matches!(header.kind, Kind::Read | Kind::List) {
        output.extend_from_slice(payload);
    }
}

/// Request of a client that was just received.
struct NewRequest<'a> {
    message: &'a Message<'a>,
    client: ClientId,
    /// Output of the client, for an immediate answer.
    output: &'a mut Vec<u8>,
}

/// Sends the calls for a request to the mapper. A request without calls is answered at once.
fn begin(
    request: NewRequest<'_>,
    volumes: &[Volume],
    mapper: &mut Upstream,
    requests: &mut IdTable<Request>,
    calls: &mut IdTable<Call>,
) {
    let NewRequest { message, client, output } = request;
    let Header { kind, id, offset, length, fua, .. } = message.header;
    if kind == Kind::List {
        let lines: String =
            volumes.iter().map(|volume| format!("{} {}\n", volume.name, volume.size)).collect();
        return answer(&Header::reply(kind, id, lines.len() as u32, 0), lines.as_bytes(), output);
    }
    let span = server_span(volume_call(kind), &COMPOSER, &message.header.trace);
    let trace = span.trace();
    let _entered = trace.enter();
    let volume = volumes.iter().find(|volume| volume.name.as_bytes() == message.name);
    let is_within = |volume: &&Volume| match kind {
        Kind::Flush => true,
        _ => {
            let end = offset.checked_add(u64::from(length));
            length > 0 && end.is_some_and(|end| end <= volume.size)
        }
    };
    let is_small = kind != Kind::Read || length <= PAYLOAD_MAX;
    let (Some(volume), true) = (volume.filter(is_within), is_small) else {
        return answer(&Header::reply(kind, id, length, EINVAL), &[], output);
    };
    let Some(link) = mapper.link() else {
        span.keyval("error", EIO);
        return answer(&Header::reply(kind, id, length, EIO), &[], output);
    };
    let request = requests.insert(Request {
        client,
        id,
        kind,
        length,
        left: 0,
        status: 0,
        read: Vec::new(),
        span,
    });
    let mut left = 0;
    let mut ask = |piece: ObjectRange, name: &[u8], payload: &[u8]| {
        let span = trace.child(object_call(kind)).client_span();
        let mut header = Header::request(kind, calls.next_id(), piece.offset, piece.length);
        (header.fua, header.trace) = (fua, span.packed());
        header.write(name, &mut link.output);
        link.output.extend_from_slice(payload);
        let (at, length) = (piece.at as usize, piece.length as usize);
        calls.insert(Call { request, at, length, span });
        left += 1;
    };
    if kind == Kind::Flush {
        ask(ObjectRange { object: 0, offset: 0, length: 0, at: 0 }, &[], &[]);
    } else {
        let mut room = [0; NAME_MAX];
        for piece in object_ranges(offset, length) {
            let name = object_name(&volume.name, piece.object, &mut room);
            let end = piece.at as usize + piece.length as usize;
            let payload = message.payload.get(piece.at as usize..end).unwrap_or(&[]);
            ask(piece, name, payload);
        }
    }
    if let Some(request) = requests.get_mut(request) {
        request.left = left;
        if left > 1 && kind == Kind::Read {
            request.read = vec![0; length as usize];
        }
    }
}
