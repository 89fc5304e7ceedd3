//! From spans to nodes. Start at `Linker::clean`.

use super::{Linker, Node, Place};
use blkkin_model::{EndpointRef, Kind, SpanRef};
use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where spans were recorded that may be parts of one: what one of them does not say, another may.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Endpoint {
    /// The index of a span that names the service.
    pub(super) service: Option<usize>,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    port: u16,
}

impl Linker {
    pub(super) fn clean(&mut self, spans: &[SpanRef<'_>], counts: impl Fn(usize) -> bool) {
        let Linker { order, nodes, .. } = self;
        order.clear();
        order.extend(0..spans.len());
        order.sort_unstable_by(|&one, &other| neighbours(&spans[one], &spans[other]));
        nodes.clear();
        for &at in order.iter() {
            let span = &spans[at];
            let counts = counts(at);
            match nodes.last_mut().filter(|last| last.is_also(span, spans)) {
                Some(last) => last.merge(at, span, counts),
                None => nodes.push(Node::new(at, span, counts)),
            }
        }
        for at in 1..nodes.len() {
            let (before, from_here) = nodes.split_at_mut(at);
            if let (Some(last), Some(node)) = (before.last(), from_here.first_mut()) {
                node.learn_from(last);
            }
        }
    }
}

/// The order in which parts of a span are next to each other, and a client comes before its server. It does not depend
/// on that in which they came.
fn neighbours(one: &SpanRef<'_>, other: &SpanRef<'_>) -> Ordering {
    let key = |span: &SpanRef<'_>| {
        let is_client = span.kind == Kind::Client;
        (span.id, span.shared, !span.shared && !is_client, !span.local.is_none())
    };
    key(one).cmp(&key(other)).then_with(|| {
        let (here, there) = (one.local, other.local);
        let names = (here.service.is_empty(), there.service.is_empty());
        names
            .0
            .cmp(&names.1)
            .then_with(|| lower(here.service).cmp(lower(there.service)))
            .then_with(|| none_last(here.ipv4, there.ipv4))
            .then_with(|| none_last(here.ipv6, there.ipv6))
            .then_with(|| said(one).cmp(&said(other)))
    })
}

/// What else linking looks at. Stores tell it no more of a span.
fn said<'a>(span: &SpanRef<'a>) -> impl Ord + use<'a> {
    let parent = span.parent_id.map(|id| id.number());
    let times = (span.start_ns, span.duration_ns);
    (
        times,
        parent,
        call_or_message(span.kind),
        span.is_error(),
        span.remote.service,
        span.local.port,
    )
}

fn none_last<T: Ord>(one: Option<T>, other: Option<T>) -> Ordering {
    (one.is_none(), one).cmp(&(other.is_none(), other))
}

/// What is said of a side of a call, if anything.
fn call_or_message(kind: Kind) -> Kind {
    if kind == Kind::Internal { Kind::Unspecified } else { kind }
}

fn named(at: usize, service: &str) -> Option<usize> {
    (!service.is_empty()).then_some(at)
}

impl Node {
    fn new(at: usize, span: &SpanRef<'_>, counts: bool) -> Node {
        Node {
            span: at,
            remote: named(at, span.remote.service),
            id: span.id.number(),
            parent_id: span.parent_id.map(|id| id.number()),
            kind: call_or_message(span.kind),
            shared: span.shared,
            is_error: span.is_error(),
            counts,
            duration_ns: span.duration_ns,
            endpoint: Endpoint::new(at, &span.local),
            plain: None,
            parent: None,
            ancestor: None,
            place: Place::Unknown,
            has_children: false,
            has_earlier_children: false,
            met_again: false,
        }
    }

    /// Whether a span is another part of this one.
    fn is_also(&self, span: &SpanRef<'_>, spans: &[SpanRef<'_>]) -> bool {
        self.id == span.id.number()
            && self.shared == span.shared
            && self.endpoint.may_be(&span.local, spans)
    }

    fn merge(&mut self, at: usize, span: &SpanRef<'_>, counts: bool) {
        self.remote = self.remote.or(named(at, span.remote.service));
        self.parent_id = self.parent_id.or(span.parent_id.map(|id| id.number()));
        if self.kind == Kind::Unspecified {
            self.kind = call_or_message(span.kind);
        }
        self.is_error |= span.is_error();
        self.counts &= counts;
        self.duration_ns = self.duration_ns.or(span.duration_ns);
        self.endpoint.merge(at, &span.local);
    }

    /// A server that does not say that it shares its id does so if the client is there; and it may not know its parent.
    fn learn_from(&mut self, last: &Node) {
        if self.id != last.id {
            return;
        }
        self.shared |= last.kind == Kind::Client && self.kind == Kind::Server;
        if self.shared {
            self.parent_id = self.parent_id.or(last.parent_id);
        }
    }
}

impl Endpoint {
    fn new(at: usize, of: &EndpointRef<'_>) -> Endpoint {
        Endpoint { service: named(at, of.service), ipv4: of.ipv4, ipv6: of.ipv6, port: of.port }
    }

    /// Whether nothing that is known of both differs.
    fn may_be(&self, other: &EndpointRef<'_>, spans: &[SpanRef<'_>]) -> bool {
        fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.is_some() && other.is_some() && one != other
        }
        let service = self.service(spans);
        let services_differ = !service.is_empty()
            && !other.service.is_empty()
            && !service.eq_ignore_ascii_case(other.service);
        let ports_differ = self.port != 0 && other.port != 0 && self.port != other.port;
        !services_differ
            && !differ(self.ipv4, other.ipv4)
            && !differ(self.ipv6, other.ipv6)
            && !ports_differ
    }

    fn merge(&mut self, at: usize, other: &EndpointRef<'_>) {
        self.service = self.service.or(named(at, other.service));
        self.ipv4 = self.ipv4.or(other.ipv4);
        self.ipv6 = self.ipv6.or(other.ipv6);
        if self.port == 0 {
            self.port = other.port;
        }
    }

    /// The service's name; empty if nobody says.
    pub(super) fn service<'a>(&self, spans: &[SpanRef<'a>]) -> &'a str {
        self.service.map_or("", |at| spans[at].local.service)
    }

    pub(super) fn is(&self, other: &Endpoint, spans: &[SpanRef<'_>]) -> bool {
        (self.ipv4, self.ipv6, self.port) == (other.ipv4, other.ipv6, other.port)
            && self.service(spans).eq_ignore_ascii_case(other.service(spans))
    }

    /// A number that is the same for those that are the same.
    pub(super) fn number(&self, spans: &[SpanRef<'_>]) -> u64 {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let service = self.service(spans).bytes().map(|byte| u64::from(byte.to_ascii_lowercase()));
        let ipv4 = self.ipv4.map_or(0, |ip| u64::from(ip.to_bits()));
        let ipv6 = self.ipv6.map_or(0, |ip| ip.to_bits());
        let rest = [ipv4, ipv6 as u64, (ipv6 >> 64) as u64, u64::from(self.port)];
        let mix = |sum: u64, part: u64| (sum ^ part).wrapping_mul(PRIME);
        service.chain(rest).fold(0xcbf2_9ce4_8422_2325, mix)
    }
}

fn lower(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().map(|byte| byte.to_ascii_lowercase())
}
