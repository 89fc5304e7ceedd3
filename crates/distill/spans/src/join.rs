//! Joining of the reports on a span into one draft for each participating service, two if the
//! service called itself, by Zipkin's rules for converting spans of version 1 to version 2.
//!
//! Core annotations (`cs`, `sr`, …) determine kind, start and duration of a [`Draft`]. The report
//! of a complete span determines them too, and takes precedence; `Undated` leaves start and
//! duration unknown. A span with neither lasts from its first event to its last.

use crate::interner::Symbol;
use crate::losses::Losses;
use crate::open_request::{ActivityKind, Body, Report, Reporter, StoredActivity};
use crate::request::{Oddity, bit};
use crate::resolver::Resolver;
use blkkin_model::Kind;
use std::cmp::Ordering;
use std::net::IpAddr;

/// Buffers for building a request, reused for the next request.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Indexes of the request's reports, in the order of `Resolver::compare`.
    pub(crate) order: Vec<u32>,
    pub(crate) drafts: Vec<Draft>,
    /// Pairs of draft index and report index, sorted by draft.
    pub(crate) assigned: Vec<(u32, u32)>,
    /// Number of duplicate reports.
    pub(crate) duplicates: u64,
    /// Complete spans dropped because too many had the same id.
    pub(crate) left_out: u64,
    /// Activities of the drafts' spans, without duplicates.
    pub(crate) activities: Vec<StoredActivity>,
    /// Number of activities of known spans, in all requests that one open request became.
    pub(crate) matched: u64,
}

/// A span under construction.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) id: u64,
    pub(crate) parent: u64,
    pub(crate) name: Symbol,
    pub(crate) service: Symbol,
    pub(crate) address: Address,
    pub(crate) remote: Option<Reporter>,
    pub(crate) target: Symbol,
    pub(crate) kind: Kind,
    pub(crate) debug: bool,
    pub(crate) shared: bool,
    pub(crate) start: Option<u64>,
    pub(crate) duration: Option<u64>,
    pub(crate) odd: u32,
    /// Indexes of the core annotations that determine start and end; `NONE` if absent. The span's
    /// annotations do not include them.
    pub(crate) used: [u32; 2],
    is_whole: bool,
    /// Indexes of the first and the last report of each core annotation, by symbol of the
    /// annotation.
    cores: [(u32, u32); CORES],
    first: u64,
    last: u64,
    /// Reader's id of the trace with the draft's earliest report, for the lookup of that trace's
    /// losses.
    pub(crate) source: u32,
}

/// Address of a service; unknown parts are `None`, or 0 for the port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Address {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: i32,
    /// Address text that does not parse as an IP address.
    pub(crate) invalid: Option<Symbol>,
    /// Address text that was parsed last, to avoid parsing it again.
    parsed: Option<Symbol>,
}

/// Index that stands for an absent report.
const NONE: u32 = u32::MAX;
const CORES: usize = Symbol::WIRE_RECEIVE.0 as usize + 1;
/// Maximum number of drafts with one span id, before drafts of self-calls are split. Reports that
/// would need a further draft go to the first draft; a second complete span is dropped there.
const SERVICES_MAX: usize = 64;

impl Scratch {
    /// Sorts and deduplicates `order`, builds `drafts` from its reports, and assigns the reports to
    /// drafts. Address annotations and dropped complete spans are not assigned.
    pub(crate) fn join(&mut self, resolver: Resolver<'_>) {
        let Scratch { order, drafts, assigned, duplicates, left_out, .. } = self;
        *left_out = 0;
        drafts.clear();
        assigned.clear();
        let request = resolver.request;
        order.sort_unstable_by(|a, b| {
            let (a, b) = (&request.reports[*a as usize], &request.reports[*b as usize]);
            resolver.compare(a, b).then(a.source.cmp(&b.source))
        });
        let count = order.len();
        order.dedup_by(|a, b| {
            let (a, b) = (&request.reports[*a as usize], &request.reports[*b as usize]);
            a.time == b.time && resolver.compare(a, b) == Ordering::Equal
        });
        *duplicates = (count - order.len()) as u64;
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let span = |report: &u32| request.reporter_of(&request.reports[*report as usize]).span;
            let id = span(first);
            let size = rest.iter().position(|report| span(report) != id).unwrap_or(rest.len());
            let (group, others) = rest.split_at(size);
            rest = others;
            let from = drafts.len();
            Group { resolver, from, id, drafts, assigned, left_out }.join(group);
        }
        // A stable sort by draft keeps the order of each draft's reports.
        assigned.sort_by_key(|(draft, _)| *draft);
    }
}

impl Scratch {
    /// Sets `activities` to those of the drafts' spans among the given ones, sorted by span and
    /// without duplicates. Counts them and their duplicates. Returns their number with duplicates.
    pub(crate) fn match_activities(
        &mut self,
        activities: impl Iterator<Item = StoredActivity>,
        resolver: Resolver<'_>,
    ) -> u64 {
        self.activities.clear();
        self.activities.extend(activities);
        if self.activities.is_empty() {
            return 0;
        }
        // Drafts are sorted by id.
        let drafts = &self.drafts;
        self.activities.retain(|activity| {
            drafts.binary_search_by_key(&activity.span, |draft| draft.id).is_ok()
        });
        let count = self.activities.len();
        let compare = |a: &StoredActivity, b: &StoredActivity| {
            let key = |activity: &StoredActivity| {
                let mut key = StoredActivity { detail: Symbol::NONE, source: 0, ..*activity };
                if let ActivityKind::Call { arguments, .. } = &mut key.kind {
                    *arguments = Symbol::NONE;
                }
                key
            };
            let texts = |activity: &StoredActivity| {
                let arguments = match activity.kind {
                    ActivityKind::Call { arguments, .. } => arguments,
                    _ => Symbol::NONE,
                };
                [activity.detail, arguments].map(|symbol| resolver.get(symbol))
            };
            key(a).cmp(&key(b)).then_with(|| texts(a).cmp(&texts(b)))
        };
        self.activities.sort_unstable_by(|a, b| compare(a, b).then(a.source.cmp(&b.source)));
        self.activities.dedup_by(|a, b| compare(a, b) == Ordering::Equal);
        self.duplicates += (count - self.activities.len()) as u64;
        self.matched += count as u64;
        count as u64
    }
}

/// Group of drafts with one span id, to which all reports on this id are joined.
struct Group<'g, 'p> {
    resolver: Resolver<'p>,
    /// Index of the group's first draft.
    from: usize,
    id: u64,
    drafts: &'g mut Vec<Draft>,
    assigned: &'g mut Vec<(u32, u32)>,
    left_out: &'g mut u64,
}

impl Group<'_, '_> {
    fn join(mut self, group: &[u32]) {
        let mut addresses: [Option<Reporter>; 3] = [None; 3];
        for number in group {
            let report = &self.resolver.request.reports[*number as usize];
            let reporter = *self.resolver.request.reporter_of(report);
            if let Body::Tag(key, _) = report.body
                && let Some(place) = ADDRESSES.iter().position(|address| *address == key)
            {
                // An address annotation carries the endpoint of the other side.
                addresses[place] = Some(reporter);
                continue;
            }
            let at = self.draft_for(&reporter, &report.body);
            let draft = &mut self.drafts[at];
            if report.body.is_span() && draft.is_whole {
                *self.left_out += 1;
                continue;
            }
            draft.add(&reporter, report, *number, self.resolver);
            self.assigned.push((at as u32, *number));
        }
        if self.drafts.len() == self.from {
            // All reports are address annotations: only the other side is known.
            let reports =
                group.iter().map(|number| &self.resolver.request.reports[*number as usize]);
            let mut draft = Draft::new(self.id);
            for report in reports {
                let reporter = self.resolver.request.reporter_of(report);
                (draft.parent, draft.name) = (reporter.parent, reporter.name);
                (draft.first, draft.last) =
                    (draft.first.min(report.time), draft.last.max(report.time));
            }
            self.drafts.push(draft);
        }
        self.set_kinds();
        self.set_remotes(addresses);
    }

    /// Returns the index in `drafts` of the draft for a report. If none fits, adds a draft, or
    /// returns the group's first draft if the group has [`SERVICES_MAX`].
    fn draft_for(&mut self, reporter: &Reporter, body: &Body) -> usize {
        let is_span = body.is_span();
        let resolver = self.resolver;
        let fits = |draft: &Draft| {
            reporter.service.is_none()
                || draft.service.is_none()
                || resolver.is_same(draft.service, reporter.service)
        };
        let own = &self.drafts[self.from..];
        let found = own.iter().position(|draft| fits(draft) && !(is_span && draft.is_whole));
        if let Some(found) = found {
            return self.from + found;
        }
        let mut draft = Draft::new(self.id);
        if let Body::Span { kind, .. } | Body::Undated(kind) = body
            && own.iter().any(|other| fits(other) && other.is_whole && other.kind == *kind)
        {
            draft.odd |= bit(Oddity::SameId);
        }
        if own.len() >= SERVICES_MAX {
            self.drafts[self.from].odd |= bit(Oddity::ManyServices);
            return self.from;
        }
        self.drafts.push(draft);
        self.drafts.len() - 1
    }

    /// Determines kinds and times of the group's drafts without a complete span, and splits the
    /// drafts of services that called themselves. Copies name and parent to drafts without them.
    fn set_kinds(&mut self) {
        for at in self.from..self.drafts.len() {
            let draft = &mut self.drafts[at];
            if draft.is_whole {
                continue;
            }
            let is = |core: Symbol| draft.cores[core.0 as usize].0 != NONE;
            let is_caller = is(Symbol::CLIENT_SEND) || is(Symbol::CLIENT_RECEIVE);
            let is_called = is(Symbol::SERVER_RECEIVE) || is(Symbol::SERVER_SEND);
            let (is_sender, is_taker) = (is(Symbol::MESSAGE_SEND), is(Symbol::MESSAGE_RECEIVE));
            let fork = match (is_caller, is_called, is_sender, is_taker) {
                (true, true, ..) => Some(Kind::Server),
                (false, false, true, true) => Some(Kind::Consumer),
                _ => None,
            };
            if let Some(kind) = fork {
                // A service called itself: split its draft into a caller's and a callee's.
                let mut other = Draft { shared: true, ..draft.clone() };
                other.set_times(kind, self.resolver);
                self.drafts.push(other);
            }
            let draft = &mut self.drafts[at];
            let kind = match (is_caller, is_called, is_sender, is_taker) {
                (true, ..) => Kind::Client,
                (_, true, ..) => Kind::Server,
                (_, _, true, _) => Kind::Producer,
                (_, _, _, true) => Kind::Consumer,
                _ => Kind::Unspecified,
            };
            draft.set_times(kind, self.resolver);
            // A server draft shares the span id of its client, even if the client reported nothing.
            draft.shared = kind == Kind::Server;
        }
        let own = &mut self.drafts[self.from..];
        let is_called_by = |kind, caller| {
            matches!(
                (kind, caller),
                (Kind::Server, Kind::Client) | (Kind::Consumer, Kind::Producer)
            )
        };
        for at in 0..own.len() {
            own[at].shared |= own.iter().any(|other| is_called_by(own[at].kind, other.kind));
        }
        let name = own.iter().map(|draft| draft.name).find(|name| !name.is_none());
        let parent = own.iter().map(|draft| draft.parent).find(|parent| *parent != 0);
        for draft in own {
            if draft.name.is_none() {
                draft.name = name.unwrap_or(Symbol::NONE);
            }
            if draft.parent == 0 {
                draft.parent = parent.unwrap_or(0);
            } else if parent.is_some_and(|parent| parent != draft.parent) {
                draft.odd |= bit(Oddity::OtherParent);
            }
        }
    }

    /// Sets the remote endpoint of drafts from the address annotations. A client address turns a
    /// draft without a kind into a server draft if the group has none.
    fn set_remotes(&mut self, [client, server, broker]: [Option<Reporter>; 3]) {
        let own = &mut self.drafts[self.from..];
        let mut set_remote = |kinds: &[Kind], reporter: Option<Reporter>| {
            let Some(reporter) = reporter else { return true };
            let mut is_set = false;
            for draft in own.iter_mut().filter(|draft| kinds.contains(&draft.kind)) {
                draft.remote = Some(reporter);
                is_set = true;
            }
            is_set
        };
        set_remote(&[Kind::Producer, Kind::Consumer], broker);
        let is_server_set = set_remote(&[Kind::Client], server);
        let is_client_set = set_remote(&[Kind::Server], client);
        if !is_server_set {
            own[0].remote = server;
        }
        if !is_client_set && let Some(first) = own.iter_mut().find(|draft| draft.remote.is_none()) {
            first.remote = client;
            if first.kind == Kind::Unspecified {
                first.kind = Kind::Server;
            }
        }
    }
}

/// Keys of address annotations, which carry the endpoint of the other side.
const ADDRESSES: [Symbol; 3] =
    [Symbol::CLIENT_ADDRESS, Symbol::SERVER_ADDRESS, Symbol::MESSAGE_ADDRESS];

impl Draft {
    fn new(id: u64) -> Draft {
        Draft {
            id,
            parent: 0,
            name: Symbol::NONE,
            service: Symbol::NONE,
            address: Address::default(),
            remote: None,
            target: Symbol::NONE,
            kind: Kind::Unspecified,
            debug: false,
            shared: false,
            start: None,
            duration: None,
            odd: 0,
            used: [NONE; 2],
            is_whole: false,
            cores: [(NONE, NONE); CORES],
            first: u64::MAX,
            last: 0,
            source: 0,
        }
    }

    /// Adds a report to the draft. The caller adds reports in order of time.
    fn add(&mut self, reporter: &Reporter, report: &Report, number: u32, resolver: Resolver<'_>) {
        if self.name.is_none() {
            self.name = reporter.name;
        }
        if self.service.is_none() {
            self.service = reporter.service;
        }
        self.address.add(reporter, resolver);
        if self.parent == 0 {
            self.parent = reporter.parent;
        } else if reporter.parent != 0 && reporter.parent != self.parent {
            self.odd |= bit(Oddity::OtherParent);
        }
        if self.first > self.last {
            self.source = report.source;
        }
        (self.first, self.last) = (self.first.min(report.time), self.last.max(report.time));
        match report.body {
            Body::Span { start, duration, target, kind, debug } => {
                (self.start, self.duration) = (Some(start), Some(duration));
                (self.kind, self.target, self.debug) = (kind, target, debug);
                self.is_whole = true;
            }
            Body::Undated(kind) => (self.kind, self.is_whole) = (kind, true),
            Body::Event(Symbol(core)) if (core as usize) < CORES && !reporter.service.is_none() => {
                let (first, last) = &mut self.cores[core as usize];
                *last = number;
                if *first == NONE {
                    *first = number;
                } else {
                    self.odd |= bit(Oddity::Repeated);
                }
            }
            _ => {}
        }
    }

    /// Replaces the mark `Unfinished` of a draft. If the end is missing, and the trace lost events
    /// after the start, the new mark is `EndLost`. If the start is missing, and the trace lost
    /// events before the last report, the new mark is `StartLost`.
    pub(crate) fn mark_lost(&mut self, losses: &Losses) {
        if self.odd & bit(Oddity::Unfinished) == 0 {
            return;
        }
        let lost = match (self.start, self.used[0] == NONE) {
            (Some(start), false) if losses.has_loss_since(self.source, start) => Oddity::EndLost,
            (_, true) if losses.has_loss_until(self.source, self.last) => Oddity::StartLost,
            _ => return,
        };
        self.odd = self.odd & !bit(Oddity::Unfinished) | bit(lost);
    }

    /// Sets the kind, and sets start and duration from the core annotations of this kind. Without a
    /// start annotation, the first event is the start. The duration stays unknown unless both
    /// annotations are present and in order. Without a kind, the draft lasts from its first event
    /// to its last.
    fn set_times(&mut self, kind: Kind, resolver: Resolver<'_>) {
        let time =
            |number: u32| Some((number, resolver.request.reports.get(number as usize)?.time));
        // A repeated call lasts from its first start to its last end.
        let first = |symbol: Symbol| time(self.cores[symbol.0 as usize].0);
        let last = |symbol: Symbol| time(self.cores[symbol.0 as usize].1);
        let (begin, end) = match kind {
            Kind::Client => (first(Symbol::CLIENT_SEND), last(Symbol::CLIENT_RECEIVE)),
            Kind::Server => (first(Symbol::SERVER_RECEIVE), last(Symbol::SERVER_SEND)),
            Kind::Producer => (first(Symbol::MESSAGE_SEND), last(Symbol::WIRE_SEND)),
            Kind::Consumer => match first(Symbol::WIRE_RECEIVE) {
                Some(wire) => (Some(wire), last(Symbol::MESSAGE_RECEIVE)),
                None => (first(Symbol::MESSAGE_RECEIVE), None),
            },
            Kind::Unspecified | Kind::Internal => (None, None),
        };
        self.kind = kind;
        let needs_end = matches!(kind, Kind::Client | Kind::Server);
        match (begin, end) {
            (Some((begin, start)), Some((end, last))) if last >= start => {
                (self.start, self.duration) = (Some(start), Some(last - start));
                self.used = [begin, end];
            }
            (Some((begin, start)), end) => {
                self.start = Some(start);
                self.used[0] = begin;
                self.odd |= match end {
                    Some(_) => bit(Oddity::Backwards),
                    None if needs_end => bit(Oddity::Unfinished),
                    None => 0,
                };
            }
            (None, _) => {
                self.start = (self.first <= self.last).then_some(self.first);
                if kind == Kind::Unspecified {
                    self.duration = Some(self.last.saturating_sub(self.first)).filter(|ns| *ns > 0);
                } else {
                    self.odd |= bit(Oddity::Unfinished);
                }
            }
        }
    }
}

impl Address {
    /// Adds a reporter's IP address and port, where they are unknown so far.
    fn add(&mut self, reporter: &Reporter, resolver: Resolver<'_>) {
        if self.port == 0 {
            self.port = port(reporter.port);
        }
        if self.ip.is_some() || self.parsed == Some(reporter.ip) {
            return;
        }
        self.parsed = Some(reporter.ip);
        match resolver.get(reporter.ip) {
            // Unknown address: empty, or the placeholder of blkin.
            "" | "NaN" => {}
            text => match text.parse::<IpAddr>() {
                Ok(ip) if ip.is_unspecified() => {}
                Ok(ip) => self.ip = Some(ip.to_canonical()),
                Err(_) => self.invalid = self.invalid.or(Some(reporter.ip)),
            },
        }
    }

    /// Returns the address that a single reporter gives.
    pub(crate) fn of(reporter: &Reporter, resolver: Resolver<'_>) -> Address {
        let mut address = Address::default();
        address.add(reporter, resolver);
        address
    }
}

/// Restores a port number that the original library recorded as a signed 16-bit number. There, -1
/// means an unknown port.
fn port(port: i32) -> i32 {
    match port {
        -1 => 0,
        -32768..-1 => port + 65536,
        _ => port,
    }
}
