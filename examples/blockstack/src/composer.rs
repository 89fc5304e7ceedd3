//! The volume composer: makes volumes of objects. A request that crosses objects becomes several, which are joined
//! again when all are answered.

use crate::address::Address;
use crate::hub::{Below, ClientId, Hub, Turn, announce};
use crate::message::{self, Header, Kind, Message, NAME_MAX, Next, PAYLOAD_MAX};
use crate::slab::Slab;
use crate::tracing::{COMPOSER, Span, arrived, object_call, volume_call};
use crate::volume::{Piece, Volume, object_name, pieces};
use std::io;

/// How many pieces may be under way before no more is listened to.
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

/// Something that somebody has asked for.
struct Request {
    client: ClientId,
    id: u64,
    kind: Kind,
    length: u32,
    /// Pieces that are not answered yet.
    left: u32,
    status: u32,
    /// What was read, if it is in several pieces.
    read: Vec<u8>,
    span: Span<'static>,
}

/// A piece of it that the mapper was asked for.
struct Call {
    request: u64,
    at: usize,
    length: usize,
    span: Span<'static>,
}

struct Composer {
    volumes: Vec<Volume>,
    hub: Hub<()>,
    mapper: Below,
    requests: Slab<Request>,
    calls: Slab<Call>,
}

pub(crate) fn run(options: Options) -> io::Result<()> {
    let (hub, address) = Hub::listen(&options.listen, options.until_eof, CLIENTS_MAX)?;
    let mut composer = Composer {
        volumes: options.volumes,
        hub,
        mapper: Below::new(options.mapper),
        requests: Slab::new(),
        calls: Slab::new(),
    };
    announce(&address)?;
    loop {
        let may_ask = composer.may_ask();
        match composer.hub.turn(Some(&mut composer.mapper), |_| may_ask, || (), None)? {
            Turn::End => return Ok(()),
            Turn::BelowLost => composer.lose_mapper(),
            Turn::Going => {}
        }
        composer.take_answers();
        for client in composer.hub.client_ids() {
            composer.take_requests(client);
        }
        if !composer.mapper.send() {
            composer.lose_mapper();
        }
        composer.hub.send();
    }
}

impl Composer {
    fn may_ask(&self) -> bool {
        self.calls.len() < CALLS_MAX && self.mapper.has_room()
    }

    fn take_requests(&mut self, id: ClientId) {
        while self.may_ask() {
            let Composer { hub, volumes, mapper, requests, calls } = self;
            let Some(client) = hub.client(id) else { return };
            let (unread, output) = client.link.unread_and_output();
            match message::next(unread) {
                Next::Message(message) if !message.header.is_reply => {
                    let size = message.size;
                    begin(&message, id, volumes, mapper, requests, calls, output);
                    client.link.take(size);
                }
                Next::Short(size) => return client.link.expect(size),
                Next::Message(_) | Next::Bad => return hub.drop_client(id),
            }
        }
    }

    fn take_answers(&mut self) {
        loop {
            let Some(link) = self.mapper.link() else { return };
            let Next::Message(message) = (match message::next(link.unread()) {
                Next::Short(size) => return link.expect(size),
                next => next,
            }) else {
                return self.lose_mapper();
            };
            let header = message.header;
            // Ends here: the mapper has answered.
            let Some(Call { request: id, at, length, span }) = self.calls.remove(header.id) else {
                return self.lose_mapper();
            };
            drop(span);
            let mut status = header.status;
            if let Some(request) = self.requests.get_mut(id) {
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
                    finish(&mut self.requests, id, message.payload, &mut self.hub);
                }
            }
            let size = message.size;
            link.take(size);
        }
    }

    /// What the mapper was asked for fails.
    fn lose_mapper(&mut self) {
        self.mapper.lose();
        for id in self.calls.ids() {
            self.calls.remove(id);
        }
        for id in self.requests.ids() {
            if let Some(request) = self.requests.get_mut(id) {
                request.status = EIO;
            }
            finish(&mut self.requests, id, &[], &mut self.hub);
        }
    }
}

/// Answers, if the client is still there.
fn finish(requests: &mut Slab<Request>, id: u64, payload: &[u8], hub: &mut Hub<()>) {
    let Some(request) = requests.remove(id) else { return };
    let Request { client, id, kind, length, status, read, span, .. } = request;
    if status != 0 {
        span.keyval("error", status);
    }
    let Some(client) = hub.client(client) else { return };
    answer(
        kind,
        id,
        length,
        status,
        if read.is_empty() { payload } else { &read },
        &mut client.link.output,
    );
}

fn answer(kind: Kind, id: u64, length: u32, status: u32, payload: &[u8], output: &mut Vec<u8>) {
    Header::reply(kind, id, length, status).write(&[], output);
    if status == 0 && matches!(kind, Kind::Read | Kind::List) {
        output.extend_from_slice(payload);
    }
}

/// Asks the mapper for what a message asks for; what needs none is answered at once.
fn begin(
    message: &Message<'_>,
    client: ClientId,
    volumes: &[Volume],
    mapper: &mut Below,
    requests: &mut Slab<Request>,
    calls: &mut Slab<Call>,
    output: &mut Vec<u8>,
) {
    let Header { kind, id, offset, length, fua, .. } = message.header;
    if kind == Kind::List {
        let lines: String =
            volumes.iter().map(|volume| format!("{} {}\n", volume.name, volume.size)).collect();
        return answer(kind, id, lines.len() as u32, 0, lines.as_bytes(), output);
    }
    let span = arrived(volume_call(kind), &COMPOSER, &message.header.trace);
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
        return answer(kind, id, length, EINVAL, &[], output);
    };
    let Some(link) = mapper.link() else {
        span.keyval("error", EIO);
        return answer(kind, id, length, EIO, &[], output);
    };
    let trace = span.trace();
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
    let mut ask = |piece: Piece, name: &[u8], payload: &[u8]| {
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
        ask(Piece { object: 0, offset: 0, length: 0, at: 0 }, &[], &[]);
    } else {
        let mut room = [0; NAME_MAX];
        for piece in pieces(offset, length) {
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
