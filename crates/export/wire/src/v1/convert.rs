//! What a span of Zipkin's first format is in the second one, by Zipkin's rules. Each annotation is
//! sorted to the part of its host; those that mark begins and ends become times, addresses
//! become endpoints. Start at [`V1::convert`].
//!
//! Where Zipkin drops what its second format has no type for (numbers, flags and bytes as values),
//! it is kept; and where client and server are of one service, what is said of the server goes to
//! the server.

use super::V1;
use crate::Limits;
use crate::fault::{Reason, Result, Within};
use blkkin_model::{EndpointRef, Kind, ValueRef};

/// What one host has of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Part<'b> {
    pub(super) kind: Kind,
    pub(super) shared: bool,
    pub(super) start_ns: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    pub(super) local: EndpointRef<'b>,
    pub(super) remote: EndpointRef<'b>,
}

/// A begin or end, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Mark<'b> {
    time_ns: u64,
    host: EndpointRef<'b>,
    part: usize,
    /// Which annotation it is.
    moment: usize,
}

/// The begins and ends of a call and of a message: where it is sent, and received.
#[derive(Clone, Copy, Debug, Default)]
struct Marks<'b> {
    client_send: Option<Mark<'b>>,
    client_receive: Option<Mark<'b>>,
    server_receive: Option<Mark<'b>>,
    server_send: Option<Mark<'b>>,
    message_send: Option<Mark<'b>>,
    message_receive: Option<Mark<'b>>,
    wire_send: Option<Mark<'b>>,
    wire_receive: Option<Mark<'b>>,
}

/// The addresses of client, server and broker.
#[derive(Clone, Copy, Debug, Default)]
struct Addresses<'b> {
    client: Option<EndpointRef<'b>>,
    server: Option<EndpointRef<'b>>,
    message: Option<EndpointRef<'b>>,
}

/// The part of what is of none: it has become a time or an endpoint.
const NOWHERE: usize = usize::MAX;

impl<'b> V1<'b> {
    /// Finds the parts, and of which each annotation is. `offset` is where the span starts.
    pub(super) fn convert(&mut self, limits: &Limits, offset: usize) -> Result<()> {
        self.hosts_max = limits.hosts;
        let lists = &mut self.lists;
        if !lists.moments.is_sorted_by_key(|it| it.note) {
            lists.moments.sort_by_key(|it| it.note);
        }
        if !lists.facts.is_sorted_by_key(|it| it.tag.key) {
            lists.facts.sort_by_key(|it| it.tag.key);
        }
        lists.parts.clear();
        lists.parts.push(Part::default());
        let mut marks = self.sort_moments();
        self.call(&mut marks);
        self.message(&mut marks);
        let addresses = self.sort_facts();
        self.address(&marks, addresses);
        if self.lists.parts.len() > self.hosts_max {
            let reason = Reason::TooMany { what: "hosts", count_max: limits.hosts as u64 };
            return Err(reason.at(offset)).within("annotations");
        }
        Ok(())
    }

    /// The part of a host: that of its service, or the first one that is of nobody yet.
    fn part_of(&mut self, host: EndpointRef<'b>) -> usize {
        if host.is_none() {
            return 0;
        }
        let parts = &mut self.lists.parts;
        // Too many to be looked through again and again; it is refused in the end.
        if parts.len() > self.hosts_max {
            return 0;
        }
        let found = parts
            .iter()
            .position(|part| part.local.is_none() || part.local.service == host.service);
        let index = found.unwrap_or_else(|| {
            parts.push(Part::default());
            parts.len() - 1
        });
        let local = &mut parts[index].local;
        if local.is_none() {
            *local = host;
        }
        index
    }

    fn sort_moments(&mut self) -> Marks<'b> {
        let mut marks = Marks::default();
        for index in 0..self.lists.moments.len() {
            let moment = self.lists.moments[index];
            let part = self.part_of(moment.host);
            self.lists.moments[index].part = part;
            let Some((mark, kind)) = marks.of(moment.note.value, moment.host) else { continue };
            let time_ns = moment.note.time_ns;
            *mark = Some(Mark { time_ns, host: moment.host, part, moment: index });
            self.lists.moments[index].part = NOWHERE;
            if kind != Kind::Unspecified {
                self.lists.parts[part].kind = kind;
            }
        }
        marks
    }

    /// A call: times of its client and server.
    fn call(&mut self, marks: &mut Marks<'b>) {
        let end_ns = self.start_ns.zip(self.duration_ns).and_then(|(a, b)| a.checked_add(b));
        let begin = |end: Option<Mark<'b>>| {
            let end = end.filter(|end| Some(end.time_ns) == end_ns)?;
            Some(Mark { time_ns: self.start_ns?, ..end })
        };
        marks.client_send = marks.client_send.or_else(|| begin(marks.client_receive));
        marks.server_receive = marks.server_receive.or_else(|| begin(marks.server_send));
        match (marks.client_send, marks.server_receive) {
            (Some(client), Some(server)) => self.both(client, server, marks),
            (Some(client), None) if marks.client_receive.is_some() => {
                self.time(client, marks.client_receive);
            }
            (None, Some(server)) if marks.server_send.is_some() => {
                self.time(server, marks.server_send);
            }
            _ => self.incomplete(marks),
        }
        let is_shared =
            self.start_ns.is_none() || (marks.server_send.is_some() && self.duration_ns.is_none());
        if let (None, Some(server), true) = (marks.client_send, marks.server_receive, is_shared) {
            self.lists.parts[server.part].shared = true;
        }
    }

    /// Client and server are in one span. The span's own times are the client's.
    fn both(&mut self, client: Mark<'b>, mut server: Mark<'b>, marks: &mut Marks<'b>) {
        self.time(client, marks.client_receive);
        if client.host.service == server.host.service {
            self.lists.parts[client.part].kind = Kind::Client;
            server.part = self.fork(server.host, Kind::Server);
            marks.server_receive = Some(server);
        }
        let part = &mut self.lists.parts[server.part];
        part.shared = true;
        part.start_ns = Some(server.time_ns);
        part.duration_ns = marks.server_send.and_then(|end| between(server, end));
        if marks.client_receive.is_none() && self.duration_ns.is_none() {
            self.lists.parts[client.part].duration_ns = None;
        }
    }

    /// A part of its own for the other end within one service.
    fn fork(&mut self, local: EndpointRef<'b>, kind: Kind) -> usize {
        self.lists.parts.push(Part { kind, local, ..Part::default() });
        self.lists.parts.len() - 1
    }

    /// Times by the span's own, or else by marks.
    fn time(&mut self, begin: Mark<'b>, end: Option<Mark<'b>>) {
        let own = self.start_ns.zip(self.duration_ns);
        let part = &mut self.lists.parts[begin.part];
        part.start_ns = Some(own.map_or(begin.time_ns, |(start_ns, _)| start_ns));
        part.duration_ns = match own {
            Some((_, duration_ns)) => Some(duration_ns),
            None => end.and_then(|end| between(begin, end)),
        };
    }

    /// Of a call only some marks are known. An end without its begin stays an annotation.
    fn incomplete(&mut self, marks: &Marks<'b>) {
        let begin_ns = |mark: Option<Mark<'b>>| mark.map(|mark| mark.time_ns);
        for part in &mut self.lists.parts {
            part.start_ns = match part.kind {
                Kind::Client => begin_ns(marks.client_send).or(part.start_ns),
                Kind::Server => begin_ns(marks.server_receive).or(part.start_ns),
                _ => part.start_ns,
            };
        }
        for end in [marks.client_receive, marks.server_send].into_iter().flatten() {
            self.lists.moments[end.moment].part = end.part;
        }
        if self.start_ns.is_some() {
            let first = &mut self.lists.parts[0];
            (first.start_ns, first.duration_ns) = (self.start_ns, self.duration_ns);
        }
    }

    /// A message: times of who sends it and who receives it.
    fn message(&mut self, marks: &mut Marks<'b>) {
        match (marks.message_send, marks.message_receive) {
            (Some(producer), Some(consumer)) => self.both_of_message(producer, consumer, marks),
            (Some(producer), None) => self.time(producer, marks.wire_send),
            (None, Some(consumer)) => match marks.wire_receive {
                Some(wire) => self.time(Mark { part: consumer.part, ..wire }, Some(consumer)),
                None => self.time(consumer, None),
            },
            (None, None) => {
                for mark in [marks.wire_send, marks.wire_receive].into_iter().flatten() {
                    self.lists.moments[mark.moment].part = mark.part;
                }
            }
        }
    }

    fn both_of_message(
        &mut self,
        producer: Mark<'b>,
        mut consumer: Mark<'b>,
        marks: &mut Marks<'b>,
    ) {
        if producer.host.service == consumer.host.service {
            self.lists.parts[producer.part].kind = Kind::Producer;
            consumer.part = self.fork(consumer.host, Kind::Consumer);
            marks.message_receive = Some(consumer);
        }
        let part = &mut self.lists.parts[consumer.part];
        part.shared = true;
        part.start_ns = Some(marks.wire_receive.unwrap_or(consumer).time_ns);
        part.duration_ns = marks.wire_receive.and_then(|begin| between(begin, consumer));
        let part = &mut self.lists.parts[producer.part];
        part.start_ns = Some(producer.time_ns);
        part.duration_ns = marks.wire_send.and_then(|end| between(producer, end));
    }

    fn sort_facts(&mut self) -> Addresses<'b> {
        let mut addresses = Addresses::default();
        for index in 0..self.lists.facts.len() {
            let fact = self.lists.facts[index];
            // Old senders say "1" for true.
            let is_address = !fact.host.is_none() && fact.tag.value != ValueRef::Bool(false);
            let address = match fact.tag.key {
                "ca" => &mut addresses.client,
                "sa" => &mut addresses.server,
                "ma" => &mut addresses.message,
                _ => &mut None,
            };
            if is_address && matches!(fact.tag.key, "ca" | "sa" | "ma") {
                *address = Some(fact.host);
                self.lists.facts[index].part = NOWHERE;
                continue;
            }
            let part = self.part_of(fact.host);
            // Without a value it says only which host it is.
            let is_marker = fact.tag.key == "lc" && fact.tag.value == ValueRef::Str("");
            self.lists.facts[index].part = if is_marker { NOWHERE } else { part };
        }
        addresses
    }

    /// Addresses become the other end's.
    fn address(&mut self, marks: &Marks<'b>, addresses: Addresses<'b>) {
        let server = marks.server_receive.or(marks.server_send);
        let client = marks.client_send.or(marks.client_receive);
        if server.is_none() && client.is_none() && self.address_of_no_call(addresses) {
            return;
        }
        if let (Some(mut address), Some(server)) = (addresses.client, server)
            && address != server.host
        {
            // Otherwise the service would seem to call itself.
            if address.service == server.host.service {
                address.service = "";
            }
            self.lists.parts[server.part].remote = address;
        }
        if let (Some(address), Some(client)) = (addresses.server, client) {
            self.lists.parts[client.part].remote = address;
        }
        if let Some(address) = addresses.message {
            for mark in [marks.message_send, marks.message_receive].into_iter().flatten() {
                self.lists.parts[mark.part].remote = address;
            }
        }
    }

    /// Whether there was an address.
    fn address_of_no_call(&mut self, addresses: Addresses<'b>) -> bool {
        match (addresses.client, addresses.server) {
            (Some(client), Some(server)) => {
                let part = self.part_of(client);
                self.lists.parts[part].remote = server;
            }
            (None, Some(server)) => self.lists.parts[0].remote = server,
            (Some(client), None) => {
                let first = &mut self.lists.parts[0];
                (first.kind, first.remote) = (Kind::Server, client);
            }
            (None, None) => return false,
        }
        true
    }
}

impl<'b> Marks<'b> {
    /// The mark that an annotation is, and what its host is by it. Without a host it marks nothing.
    fn of(&mut self, value: &str, host: EndpointRef<'b>) -> Option<(&mut Option<Mark<'b>>, Kind)> {
        if value.len() != 2 || host.is_none() {
            return None;
        }
        Some(match value {
            "cs" => (&mut self.client_send, Kind::Client),
            "cr" => (&mut self.client_receive, Kind::Client),
            "sr" => (&mut self.server_receive, Kind::Server),
            "ss" => (&mut self.server_send, Kind::Server),
            "ms" => (&mut self.message_send, Kind::Producer),
            "mr" => (&mut self.message_receive, Kind::Consumer),
            "ws" => (&mut self.wire_send, Kind::Unspecified),
            "wr" => (&mut self.wire_receive, Kind::Unspecified),
            _ => return None,
        })
    }
}

/// As Zipkin has it, none is none.
fn between(begin: Mark<'_>, end: Mark<'_>) -> Option<u64> {
    end.time_ns.checked_sub(begin.time_ns).filter(|duration_ns| *duration_ns > 0)
}
