//! Conversion of a span from Zipkin's v1 format to v2, by Zipkin's rules. Each annotation is
//! assigned to the span of its host; core annotations (`cs`, `sr`, …) become times, address
//! annotations become remote endpoints. Start at [`V1Span::convert`].
//!
//! Differences from Zipkin: Values of types that the v2 format lacks (numbers, flags, bytes) are
//! retained. An address annotation may have any value except false. If both sides of a call or
//! message are the same service, the remote address of the server or consumer belongs to that
//! side's own span.

use super::span::{HostSpan, V1Span};
use crate::error::{FieldContext, Reason, Result};
use crate::limits::Limits;
use blkkin_model::{EndpointRef, Kind, ValueRef};

/// A core annotation, and the host that recorded it.
#[derive(Clone, Copy, Debug)]
struct CoreAnnotation<'b> {
    time_ns: u64,
    host: EndpointRef<'b>,
    host_span: usize,
    /// Index of the annotation in the v1 span; for a start derived from the v1 span's own times,
    /// the index of the end.
    annotation: usize,
}

/// The core annotations of a v1 span: four for a call, the others for a message.
#[derive(Clone, Copy, Debug, Default)]
struct CoreAnnotations<'b> {
    client_send: Option<CoreAnnotation<'b>>,
    client_receive: Option<CoreAnnotation<'b>>,
    server_receive: Option<CoreAnnotation<'b>>,
    server_send: Option<CoreAnnotation<'b>>,
    message_send: Option<CoreAnnotation<'b>>,
    message_receive: Option<CoreAnnotation<'b>>,
    wire_send: Option<CoreAnnotation<'b>>,
    wire_receive: Option<CoreAnnotation<'b>>,
}

/// Remote addresses recorded by address annotations.
#[derive(Clone, Copy, Debug, Default)]
struct Addresses<'b> {
    client: Option<EndpointRef<'b>>,
    server: Option<EndpointRef<'b>>,
    message: Option<EndpointRef<'b>>,
}

/// Value of `host_span` for an annotation that has become a time or an endpoint.
const CONSUMED: usize = usize::MAX;

impl<'b> V1Span<'b> {
    /// Creates the span of each host and assigns each annotation to a span. `offset` is the start
    /// of the v1 span in the batch.
    pub(super) fn convert(&mut self, limits: &Limits, offset: usize) -> Result<()> {
        self.hosts_max = limits.hosts;
        let lists = &mut self.lists;
        if !lists.annotations.is_sorted_by_key(|it| it.annotation) {
            lists.annotations.sort_by_key(|it| it.annotation);
        }
        if !lists.binary_annotations.is_sorted_by_key(|it| it.tag.key) {
            lists.binary_annotations.sort_by_key(|it| it.tag.key);
        }
        lists.host_spans.clear();
        lists.host_spans.push(HostSpan::default());
        let mut core = self.assign_annotations();
        self.convert_call(&mut core);
        self.convert_message(&mut core);
        let addresses = self.assign_binary_annotations();
        self.set_remotes(&core, addresses);
        if self.lists.host_spans.len() > self.hosts_max {
            let reason = Reason::TooMany { what: "hosts", count_max: limits.hosts as u64 };
            return Err(reason.at(offset)).in_field("annotations");
        }
        Ok(())
    }

    /// Returns the index of the span for a host: the first span with the host's service name or
    /// without a host, to which the host is then assigned. If there is no such span, adds a span.
    /// Returns 0 if `host` is empty, or if the v1 span has too many hosts already.
    fn host_span_of(&mut self, host: EndpointRef<'b>) -> usize {
        if host.is_none() {
            return 0;
        }
        let host_spans = &mut self.lists.host_spans;
        // The v1 span will be refused, so skip the search of a long list.
        if host_spans.len() > self.hosts_max {
            return 0;
        }
        let found = host_spans.iter().position(|host_span| {
            host_span.local.is_none() || host_span.local.service == host.service
        });
        let index = found.unwrap_or_else(|| {
            host_spans.push(HostSpan::default());
            host_spans.len() - 1
        });
        let local = &mut host_spans[index].local;
        if local.is_none() {
            *local = host;
        }
        index
    }

    fn assign_annotations(&mut self) -> CoreAnnotations<'b> {
        let mut core = CoreAnnotations::default();
        for index in 0..self.lists.annotations.len() {
            let annotation = self.lists.annotations[index];
            let host_span = self.host_span_of(annotation.host);
            self.lists.annotations[index].host_span = host_span;
            let Some((mark, kind)) = core.slot(annotation.annotation.value, annotation.host) else {
                continue;
            };
            let time_ns = annotation.annotation.time_ns;
            *mark = Some(CoreAnnotation {
                time_ns,
                host: annotation.host,
                host_span,
                annotation: index,
            });
            self.lists.annotations[index].host_span = CONSUMED;
            if kind != Kind::Unspecified {
                self.lists.host_spans[host_span].kind = kind;
            }
        }
        core
    }

    /// Sets the times of the client and server of a call, and the server span's `shared` flag.
    fn convert_call(&mut self, core: &mut CoreAnnotations<'b>) {
        let end_ns = self.start_ns.zip(self.duration_ns).and_then(|(a, b)| a.checked_add(b));
        let begin = |end: Option<CoreAnnotation<'b>>| {
            let end = end.filter(|end| Some(end.time_ns) == end_ns)?;
            Some(CoreAnnotation { time_ns: self.start_ns?, ..end })
        };
        core.client_send = core.client_send.or_else(|| begin(core.client_receive));
        core.server_receive = core.server_receive.or_else(|| begin(core.server_send));
        match (core.client_send, core.server_receive) {
            (Some(client), Some(server)) => self.set_call_times(client, server, core),
            (Some(client), None) if core.client_receive.is_some() => {
                self.set_times(client, core.client_receive);
            }
            (None, Some(server)) if core.server_send.is_some() => {
                self.set_times(server, core.server_send);
            }
            _ => self.set_partial_times(core),
        }
        let is_shared =
            self.start_ns.is_none() || (core.server_send.is_some() && self.duration_ns.is_none());
        if let (None, Some(server), true) = (core.client_send, core.server_receive, is_shared) {
            self.lists.host_spans[server.host_span].shared = true;
        }
    }

    /// Sets the times of a call whose client and server share one v1 span. The times of the v1 span
    /// are the client's.
    fn set_call_times(
        &mut self,
        client: CoreAnnotation<'b>,
        mut server: CoreAnnotation<'b>,
        core: &mut CoreAnnotations<'b>,
    ) {
        self.set_times(client, core.client_receive);
        if client.host.service == server.host.service {
            self.lists.host_spans[client.host_span].kind = Kind::Client;
            server.host_span = self.split_off(server.host, Kind::Server);
            core.server_receive = Some(server);
        }
        let host_span = &mut self.lists.host_spans[server.host_span];
        host_span.shared = true;
        host_span.start_ns = Some(server.time_ns);
        host_span.duration_ns = core.server_send.and_then(|end| duration_between(server, end));
        if core.client_receive.is_none() && self.duration_ns.is_none() {
            self.lists.host_spans[client.host_span].duration_ns = None;
        }
    }

    /// Adds a span for the second side of a call or message within one service. Returns the index
    /// of the span.
    fn split_off(&mut self, local: EndpointRef<'b>, kind: Kind) -> usize {
        self.lists.host_spans.push(HostSpan { kind, local, ..HostSpan::default() });
        self.lists.host_spans.len() - 1
    }

    /// Sets the times of a host's span from the v1 span's own times if start and duration are
    /// known, or else from core annotations.
    fn set_times(&mut self, begin: CoreAnnotation<'b>, end: Option<CoreAnnotation<'b>>) {
        let own = self.start_ns.zip(self.duration_ns);
        let host_span = &mut self.lists.host_spans[begin.host_span];
        host_span.start_ns = Some(own.map_or(begin.time_ns, |(start_ns, _)| start_ns));
        host_span.duration_ns = match own {
            Some((_, duration_ns)) => Some(duration_ns),
            None => end.and_then(|end| duration_between(begin, end)),
        };
    }

    /// Sets the known times of an incomplete call, or of a v1 span without a call. An end without a
    /// start remains an annotation. If the v1 span's own start is known, its times become those of
    /// the first span.
    fn set_partial_times(&mut self, core: &CoreAnnotations<'b>) {
        let begin_ns = |mark: Option<CoreAnnotation<'b>>| mark.map(|mark| mark.time_ns);
        for host_span in &mut self.lists.host_spans {
            host_span.start_ns = match host_span.kind {
                Kind::Client => begin_ns(core.client_send).or(host_span.start_ns),
                Kind::Server => begin_ns(core.server_receive).or(host_span.start_ns),
                _ => host_span.start_ns,
            };
        }
        for end in [core.client_receive, core.server_send].into_iter().flatten() {
            self.lists.annotations[end.annotation].host_span = end.host_span;
        }
        if self.start_ns.is_some() {
            let first = &mut self.lists.host_spans[0];
            (first.start_ns, first.duration_ns) = (self.start_ns, self.duration_ns);
        }
    }

    /// Sets the times of the producer and consumer of a message. If the v1 span has neither, `ws`
    /// and `wr` remain annotations.
    fn convert_message(&mut self, core: &mut CoreAnnotations<'b>) {
        match (core.message_send, core.message_receive) {
            (Some(producer), Some(consumer)) => self.set_message_times(producer, consumer, core),
            (Some(producer), None) => self.set_times(producer, core.wire_send),
            (None, Some(consumer)) => match core.wire_receive {
                Some(wire) => self.set_times(
                    CoreAnnotation { host_span: consumer.host_span, ..wire },
                    Some(consumer),
                ),
                None => self.set_times(consumer, None),
            },
            (None, None) => {
                for mark in [core.wire_send, core.wire_receive].into_iter().flatten() {
                    self.lists.annotations[mark.annotation].host_span = mark.host_span;
                }
            }
        }
    }

    fn set_message_times(
        &mut self,
        producer: CoreAnnotation<'b>,
        mut consumer: CoreAnnotation<'b>,
        core: &mut CoreAnnotations<'b>,
    ) {
        if producer.host.service == consumer.host.service {
            self.lists.host_spans[producer.host_span].kind = Kind::Producer;
            consumer.host_span = self.split_off(consumer.host, Kind::Consumer);
            core.message_receive = Some(consumer);
        }
        let host_span = &mut self.lists.host_spans[consumer.host_span];
        host_span.shared = true;
        host_span.start_ns = Some(core.wire_receive.unwrap_or(consumer).time_ns);
        host_span.duration_ns =
            core.wire_receive.and_then(|begin| duration_between(begin, consumer));
        let host_span = &mut self.lists.host_spans[producer.host_span];
        host_span.start_ns = Some(producer.time_ns);
        host_span.duration_ns = core.wire_send.and_then(|end| duration_between(producer, end));
    }

    fn assign_binary_annotations(&mut self) -> Addresses<'b> {
        let mut addresses = Addresses::default();
        for index in 0..self.lists.binary_annotations.len() {
            let binary = self.lists.binary_annotations[index];
            // Old senders write "1" for true.
            let is_address = !binary.host.is_none() && binary.tag.value != ValueRef::Bool(false);
            let address = match binary.tag.key {
                "ca" => &mut addresses.client,
                "sa" => &mut addresses.server,
                "ma" => &mut addresses.message,
                _ => &mut None,
            };
            if is_address && matches!(binary.tag.key, "ca" | "sa" | "ma") {
                *address = Some(binary.host);
                self.lists.binary_annotations[index].host_span = CONSUMED;
                continue;
            }
            let host_span = self.host_span_of(binary.host);
            // An empty `lc` value only names the host.
            let is_marker = binary.tag.key == "lc" && binary.tag.value == ValueRef::Str("");
            self.lists.binary_annotations[index].host_span =
                if is_marker { CONSUMED } else { host_span };
        }
        addresses
    }

    /// Sets the remote endpoints from address annotations.
    fn set_remotes(&mut self, core: &CoreAnnotations<'b>, addresses: Addresses<'b>) {
        let server = core.server_receive.or(core.server_send);
        let client = core.client_send.or(core.client_receive);
        if server.is_none() && client.is_none() && self.set_remotes_without_call(addresses) {
            return;
        }
        if let (Some(mut address), Some(server)) = (addresses.client, server)
            && address != server.host
        {
            // With the same name on both sides, the service would seem to call itself.
            if address.service == server.host.service {
                address.service = "";
            }
            self.lists.host_spans[server.host_span].remote = address;
        }
        if let (Some(address), Some(client)) = (addresses.server, client) {
            self.lists.host_spans[client.host_span].remote = address;
        }
        if let Some(address) = addresses.message {
            for mark in [core.message_send, core.message_receive].into_iter().flatten() {
                self.lists.host_spans[mark.host_span].remote = address;
            }
        }
    }

    /// Sets the remote endpoint of a v1 span without core annotations of a call. If only the client
    /// address is known, the first span becomes a server span. Returns true if `addresses` has a
    /// client or server address.
    fn set_remotes_without_call(&mut self, addresses: Addresses<'b>) -> bool {
        match (addresses.client, addresses.server) {
            (Some(client), Some(server)) => {
                let host_span = self.host_span_of(client);
                self.lists.host_spans[host_span].remote = server;
            }
            (None, Some(server)) => self.lists.host_spans[0].remote = server,
            (Some(client), None) => {
                let first = &mut self.lists.host_spans[0];
                (first.kind, first.remote) = (Kind::Server, client);
            }
            (None, None) => return false,
        }
        true
    }
}

impl<'b> CoreAnnotations<'b> {
    /// Returns the slot for a core annotation, and the kind of span that the annotation implies;
    /// `None` for any other annotation, and for an annotation without a host.
    fn slot(
        &mut self,
        value: &str,
        host: EndpointRef<'b>,
    ) -> Option<(&mut Option<CoreAnnotation<'b>>, Kind)> {
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

/// Returns the duration between two annotations; `None` if it is 0, as in Zipkin, or negative.
fn duration_between(begin: CoreAnnotation<'_>, end: CoreAnnotation<'_>) -> Option<u64> {
    end.time_ns.checked_sub(begin.time_ns).filter(|duration_ns| *duration_ns > 0)
}
