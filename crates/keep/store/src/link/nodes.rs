//! State of the linker: [`Linker`] and its nodes.

use blkkin_model::{EndpointRef, Kind, SpanRef};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Call between two services, derived from a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Name of the calling service; not empty.
    pub parent: &'a str,
    /// Name of the called service; not empty.
    pub child: &'a str,
    /// True if the call failed.
    pub is_error: bool,
    /// Duration of the span that shows the call. `None` if the span has no duration, or if a
    /// client's own name is the only evidence of the call.
    pub duration_ns: Option<u64>,
    /// Index of the span that shows the call. If the span arrived in several parts, it is the index
    /// of one part.
    pub span: usize,
}

/// Linker that derives calls from requests. It reuses its allocations for the next request.
#[derive(Debug, Default)]
pub struct Linker {
    /// Indexes of spans in the order of `compare_parts`.
    pub(super) order: Vec<usize>,
    /// Nodes in order of span id.
    pub(super) nodes: Vec<Node>,
    /// Sorted index of the nodes of shared spans: span id, hash of the endpoint, index of the node.
    pub(super) shared: Vec<(u64, u64, usize)>,
    /// Path of the current search for an ancestor, as indexes of nodes.
    pub(super) path: Vec<usize>,
}

/// Node of the request's tree: a span, merged from the parts that arrived separately.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Index of one of the node's parts in the request's spans.
    pub(super) span: usize,
    /// Index of a part that names the remote service; `None` if no part does.
    pub(super) remote: Option<usize>,
    pub(super) id: u64,
    pub(super) parent_id: Option<u64>,
    /// Kind of the span if it is the client, server, producer or consumer of a call or a message;
    /// [`Kind::Unspecified`] otherwise.
    pub(super) kind: Kind,
    pub(super) shared: bool,
    pub(super) is_error: bool,
    /// False if an earlier call of [`Linker::link`] has already linked a part of the node.
    pub(super) is_new: bool,
    pub(super) duration_ns: Option<u64>,
    pub(super) endpoint: Endpoint,
    /// Index of the last unshared node with the same id. Only the first node with an id has this
    /// index; it is `None` in all other nodes.
    pub(super) unshared: Option<usize>,
    pub(super) parent: Option<usize>,
    /// Index of the nearest ancestor that is a call or a message; `None` without such an ancestor.
    pub(super) ancestor: Option<usize>,
    pub(super) position: SearchState,
    pub(super) has_children: bool,
    /// True if an earlier call of [`Linker::link`] has already linked a child of the node.
    pub(super) has_earlier_children: bool,
    /// True if an earlier linking counted the call for the client alone, and the server's span has
    /// arrived since.
    pub(super) has_late_server: bool,
}

/// Progress of the search for a node's ancestor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchState {
    Unknown,
    /// The node is on the path of the current search.
    Visiting,
    Rooted,
    /// The node is on a cycle of parents, or leads into a cycle.
    Cyclic,
}

/// Endpoint of a span, merged from the endpoints of its parts, which may be incomplete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Endpoint {
    /// Index of a span that names the service; `None` if no span does.
    pub(super) service: Option<usize>,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    port: u16,
}

/// Returns the kind of a call or a message unchanged, and [`Kind::Unspecified`] for other kinds.
pub(super) fn call_or_message(kind: Kind) -> Kind {
    if kind == Kind::Internal { Kind::Unspecified } else { kind }
}

fn named(at: usize, service: &str) -> Option<usize> {
    (!service.is_empty()).then_some(at)
}

impl Node {
    pub(super) fn new(at: usize, span: &SpanRef<'_>, counts: bool) -> Node {
        Node {
            span: at,
            remote: named(at, span.remote.service),
            id: span.id.number(),
            parent_id: span.parent_id.map(|id| id.number()),
            kind: call_or_message(span.kind),
            shared: span.shared,
            is_error: span.is_error(),
            is_new: counts,
            duration_ns: span.duration_ns,
            endpoint: Endpoint::new(at, &span.local),
            unshared: None,
            parent: None,
            ancestor: None,
            position: SearchState::Unknown,
            has_children: false,
            has_earlier_children: false,
            has_late_server: false,
        }
    }

    /// Returns whether a span is another part of this node: the ids and the shared flags are equal,
    /// and the endpoints are compatible.
    pub(super) fn is_part(&self, span: &SpanRef<'_>, spans: &[SpanRef<'_>]) -> bool {
        self.id == span.id.number()
            && self.shared == span.shared
            && self.endpoint.is_compatible(&span.local, spans)
    }

    pub(super) fn merge(&mut self, at: usize, span: &SpanRef<'_>, counts: bool) {
        self.remote = self.remote.or(named(at, span.remote.service));
        self.parent_id = self.parent_id.or(span.parent_id.map(|id| id.number()));
        if self.kind == Kind::Unspecified {
            self.kind = call_or_message(span.kind);
        }
        self.is_error |= span.is_error();
        self.is_new &= counts;
        self.duration_ns = self.duration_ns.or(span.duration_ns);
        self.endpoint.merge(at, &span.local);
    }

    /// Completes a node from the preceding node `last` if both have the same span id. A server
    /// after its client counts as shared. A shared node without a parent id takes the parent id of
    /// `last`.
    pub(super) fn inherit(&mut self, last: &Node) {
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
    pub(super) fn new(at: usize, of: &EndpointRef<'_>) -> Endpoint {
        Endpoint { service: named(at, of.service), ipv4: of.ipv4, ipv6: of.ipv6, port: of.port }
    }

    /// Returns whether two endpoints may be the same: all fields known in both are equal.
    pub(super) fn is_compatible(&self, other: &EndpointRef<'_>, spans: &[SpanRef<'_>]) -> bool {
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

    pub(super) fn merge(&mut self, at: usize, other: &EndpointRef<'_>) {
        self.service = self.service.or(named(at, other.service));
        self.ipv4 = self.ipv4.or(other.ipv4);
        self.ipv6 = self.ipv6.or(other.ipv6);
        if self.port == 0 {
            self.port = other.port;
        }
    }

    /// Returns the name of the service; empty if unknown.
    pub(super) fn service<'a>(&self, spans: &[SpanRef<'a>]) -> &'a str {
        self.service.map_or("", |at| spans[at].local.service)
    }

    pub(super) fn is(&self, other: &Endpoint, spans: &[SpanRef<'_>]) -> bool {
        (self.ipv4, self.ipv6, self.port) == (other.ipv4, other.ipv6, other.port)
            && self.service(spans).eq_ignore_ascii_case(other.service(spans))
    }

    /// Returns a hash of the endpoint (FNV-1a). Equal endpoints have equal hashes.
    pub(super) fn hash_value(&self, spans: &[SpanRef<'_>]) -> u64 {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let service = self.service(spans).bytes().map(|byte| u64::from(byte.to_ascii_lowercase()));
        let ipv4 = self.ipv4.map_or(0, |ip| u64::from(ip.to_bits()));
        let ipv6 = self.ipv6.map_or(0, |ip| ip.to_bits());
        let rest = [ipv4, ipv6 as u64, (ipv6 >> 64) as u64, u64::from(self.port)];
        let mix = |sum: u64, part: u64| (sum ^ part).wrapping_mul(PRIME);
        service.chain(rest).fold(0xcbf2_9ce4_8422_2325, mix)
    }
}

impl Node {
    pub(super) fn is_call(&self) -> bool {
        self.kind != Kind::Unspecified
    }
}
