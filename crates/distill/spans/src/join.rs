//! Parts of a span become one, or one for each service that took part: the rules by which Zipkin
//! makes spans of version 2 out of those of version 1.
//!
//! Each service that says something of a span has a [`Draft`]. Core annotations (`cs`, `sr`, …)
//! tell what it is, when it started and how long it took; a span's own event does so, too, and
//! counts more. Where nobody tells, it goes from the first event to the last.

use crate::losses::Losses;
use crate::pending::{Kept, Part, Pending, Voice};
use crate::request::{Oddity, bit};
use crate::texts::Texts;
use crate::words::{Word, Words};
use blkkin_model::Kind;
use std::cmp::Ordering;
use std::net::IpAddr;

/// What is needed while a request is made, kept for the next one.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Parts in the order in which they are looked at.
    pub(crate) order: Vec<u32>,
    pub(crate) drafts: Vec<Draft>,
    /// Which draft what part belongs to, in order of both.
    pub(crate) assigned: Vec<(u32, u32)>,
    /// Parts that were there twice.
    pub(crate) duplicates: u64,
    /// Spans that found no room among many of the same number.
    pub(crate) left_out: u64,
}

/// A span to be.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) id: u64,
    pub(crate) parent: u64,
    pub(crate) name: Word,
    pub(crate) service: Word,
    pub(crate) address: Address,
    pub(crate) remote: Option<Voice>,
    pub(crate) target: Word,
    pub(crate) kind: Kind,
    pub(crate) debug: bool,
    pub(crate) shared: bool,
    pub(crate) start: Option<u64>,
    pub(crate) duration: Option<u64>,
    pub(crate) odd: u32,
    /// Parts that are said by start, duration and kind already.
    pub(crate) used: [u32; 2],
    is_whole: bool,
    /// The first and the last part that is each of the core annotations, by word.
    cores: [(u32, u32); CORES],
    first: u64,
    last: u64,
    /// Which trace has the first part.
    source: u32,
}

/// An address that may be known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Address {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: i32,
    /// What is none, but was told as one.
    pub(crate) odd: Option<Word>,
    /// The one that was looked at last.
    seen: Option<Word>,
}

/// No part.
const NONE: u32 = u32::MAX;
const CORES: usize = Word::WIRE_RECEIVE.0 as usize + 1;
/// Services of one span that are told apart.
const SERVICES_MAX: usize = 64;

impl Scratch {
    /// Makes drafts of the parts in `order`.
    pub(crate) fn join(&mut self, pending: &Pending, words: &Words) {
        let Scratch { order, drafts, assigned, duplicates, left_out } = self;
        *left_out = 0;
        drafts.clear();
        assigned.clear();
        let texts = Texts { pending, words };
        order.sort_unstable_by(|a, b| {
            let (a, b) = (&pending.parts[*a as usize], &pending.parts[*b as usize]);
            texts.compare(a, b).then(a.source.cmp(&b.source))
        });
        let count = order.len();
        order.dedup_by(|a, b| {
            let (a, b) = (&pending.parts[*a as usize], &pending.parts[*b as usize]);
            a.time == b.time && texts.compare(a, b) == Ordering::Equal
        });
        *duplicates = (count - order.len()) as u64;
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let span = |part: &u32| pending.voice_of(&pending.parts[*part as usize]).span;
            let id = span(first);
            let size = rest.iter().position(|part| span(part) != id).unwrap_or(rest.len());
            let (group, others) = rest.split_at(size);
            rest = others;
            let from = drafts.len();
            Group { texts, from, id, drafts, assigned, left_out }.join(group);
        }
        // By draft; parts of one are in order already.
        assigned.sort_by_key(|(draft, _)| *draft);
    }
}

/// The parts of one span.
struct Group<'g, 'p> {
    texts: Texts<'p>,
    /// Where its drafts begin.
    from: usize,
    id: u64,
    drafts: &'g mut Vec<Draft>,
    assigned: &'g mut Vec<(u32, u32)>,
    left_out: &'g mut u64,
}

impl Group<'_, '_> {
    fn join(mut self, group: &[u32]) {
        let mut addresses: [Option<Voice>; 3] = [None; 3];
        for number in group {
            let part = &self.texts.pending.parts[*number as usize];
            let voice = *self.texts.pending.voice_of(part);
            if let Kept::Tag(key, _) = part.what
                && let Some(place) = ADDRESSES.iter().position(|address| *address == key)
            {
                // It is said in the name of the other side.
                addresses[place] = Some(voice);
                continue;
            }
            let at = self.choose(&voice, &part.what);
            let draft = &mut self.drafts[at];
            if part.what.is_span() && draft.is_whole {
                *self.left_out += 1;
                continue;
            }
            draft.hear(&voice, part, *number, self.texts);
            self.assigned.push((at as u32, *number));
        }
        if self.drafts.len() == self.from {
            // All that is known is the other side.
            let parts = group.iter().map(|number| &self.texts.pending.parts[*number as usize]);
            let mut draft = Draft::new(self.id);
            for part in parts {
                let voice = self.texts.pending.voice_of(part);
                (draft.parent, draft.name) = (voice.parent, voice.name);
                (draft.first, draft.last) = (draft.first.min(part.time), draft.last.max(part.time));
            }
            self.drafts.push(draft);
        }
        self.conclude();
        self.address(addresses);
    }

    /// The draft of who speaks.
    fn choose(&mut self, voice: &Voice, what: &Kept) -> usize {
        let is_span = what.is_span();
        let texts = self.texts;
        let fits = |draft: &Draft| {
            voice.service.is_none()
                || draft.service.is_none()
                || texts.is_same(draft.service, voice.service)
        };
        let own = &self.drafts[self.from..];
        let found = own.iter().position(|draft| fits(draft) && !(is_span && draft.is_whole));
        if let Some(found) = found {
            return self.from + found;
        }
        let mut draft = Draft::new(self.id);
        if let Kept::Span { kind, .. } | Kept::Undated(kind) = what
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

    /// Works out kinds and times.
    fn conclude(&mut self) {
        for at in self.from..self.drafts.len() {
            let draft = &mut self.drafts[at];
            if draft.is_whole {
                continue;
            }
            let is = |core: Word| draft.cores[core.0 as usize].0 != NONE;
            let is_caller = is(Word::CLIENT_SEND) || is(Word::CLIENT_RECEIVE);
            let is_called = is(Word::SERVER_RECEIVE) || is(Word::SERVER_SEND);
            let (is_sender, is_taker) = (is(Word::MESSAGE_SEND), is(Word::MESSAGE_RECEIVE));
            let fork = match (is_caller, is_called, is_sender, is_taker) {
                (true, true, ..) => Some(Kind::Server),
                (false, false, true, true) => Some(Kind::Consumer),
                _ => None,
            };
            if let Some(kind) = fork {
                // A service that has called itself.
                let mut other = Draft { shared: true, ..draft.clone() };
                other.take(kind, self.texts);
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
            draft.take(kind, self.texts);
            // Who is called without being told by whom goes on with a number of somebody else's.
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
                draft.name = name.unwrap_or(Word::NONE);
            }
            if draft.parent == 0 {
                draft.parent = parent.unwrap_or(0);
            } else if parent.is_some_and(|parent| parent != draft.parent) {
                draft.odd |= bit(Oddity::OtherParent);
            }
        }
    }

    /// Tells drafts who is at the other end.
    fn address(&mut self, [client, server, broker]: [Option<Voice>; 3]) {
        let own = &mut self.drafts[self.from..];
        let mut tell = |kinds: &[Kind], voice: Option<Voice>| {
            let Some(voice) = voice else { return true };
            let mut is_told = false;
            for draft in own.iter_mut().filter(|draft| kinds.contains(&draft.kind)) {
                draft.remote = Some(voice);
                is_told = true;
            }
            is_told
        };
        tell(&[Kind::Producer, Kind::Consumer], broker);
        let is_server_told = tell(&[Kind::Client], server);
        let is_client_told = tell(&[Kind::Server], client);
        if !is_server_told {
            own[0].remote = server;
        }
        if !is_client_told && let Some(first) = own.iter_mut().find(|draft| draft.remote.is_none())
        {
            first.remote = client;
            if first.kind == Kind::Unspecified {
                first.kind = Kind::Server;
            }
        }
    }
}

/// Keys that say who is at the other end.
const ADDRESSES: [Word; 3] = [Word::CLIENT_ADDRESS, Word::SERVER_ADDRESS, Word::MESSAGE_ADDRESS];

impl Draft {
    fn new(id: u64) -> Draft {
        Draft {
            id,
            parent: 0,
            name: Word::NONE,
            service: Word::NONE,
            address: Address::default(),
            remote: None,
            target: Word::NONE,
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

    /// Takes in a part; they come in order of time.
    fn hear(&mut self, voice: &Voice, part: &Part, number: u32, texts: Texts<'_>) {
        if self.name.is_none() {
            self.name = voice.name;
        }
        if self.service.is_none() {
            self.service = voice.service;
        }
        self.address.hear(voice, texts);
        if self.parent == 0 {
            self.parent = voice.parent;
        } else if voice.parent != 0 && voice.parent != self.parent {
            self.odd |= bit(Oddity::OtherParent);
        }
        if self.first > self.last {
            self.source = part.source;
        }
        (self.first, self.last) = (self.first.min(part.time), self.last.max(part.time));
        match part.what {
            Kept::Span { start, duration, target, kind, debug } => {
                (self.start, self.duration) = (Some(start), Some(duration));
                (self.kind, self.target, self.debug) = (kind, target, debug);
                self.is_whole = true;
            }
            Kept::Undated(kind) => (self.kind, self.is_whole) = (kind, true),
            Kept::Event(Word(core)) if (core as usize) < CORES && !voice.service.is_none() => {
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

    /// Whether what is missing may be lost: an end, after the start; or a start, before all that is known.
    pub(crate) fn consider(&mut self, losses: &Losses) {
        if self.odd & bit(Oddity::Unfinished) == 0 {
            return;
        }
        let lost = match (self.start, self.used[0] == NONE) {
            (Some(start), false) if losses.is_after(self.source, start) => Oddity::EndLost,
            (_, true) if losses.is_before(self.source, self.last) => Oddity::StartLost,
            _ => return,
        };
        self.odd = self.odd & !bit(Oddity::Unfinished) | bit(lost);
    }

    /// Becomes what core annotations say, or what the first and last event do.
    fn take(&mut self, kind: Kind, texts: Texts<'_>) {
        let time = |number: u32| Some((number, texts.pending.parts.get(number as usize)?.time));
        // A call that was made again goes from the first one to the end of the last.
        let first = |word: Word| time(self.cores[word.0 as usize].0);
        let last = |word: Word| time(self.cores[word.0 as usize].1);
        let (begin, end) = match kind {
            Kind::Client => (first(Word::CLIENT_SEND), last(Word::CLIENT_RECEIVE)),
            Kind::Server => (first(Word::SERVER_RECEIVE), last(Word::SERVER_SEND)),
            Kind::Producer => (first(Word::MESSAGE_SEND), last(Word::WIRE_SEND)),
            Kind::Consumer => match first(Word::WIRE_RECEIVE) {
                Some(wire) => (Some(wire), last(Word::MESSAGE_RECEIVE)),
                None => (first(Word::MESSAGE_RECEIVE), None),
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
    /// Takes what is new of it.
    fn hear(&mut self, voice: &Voice, texts: Texts<'_>) {
        if self.port == 0 {
            self.port = port(voice.port);
        }
        if self.ip.is_some() || self.seen == Some(voice.ip) {
            return;
        }
        self.seen = Some(voice.ip);
        match texts.get(voice.ip) {
            // What blkin says if it does not know.
            "" | "NaN" => {}
            text => match text.parse::<IpAddr>() {
                Ok(ip) if ip.is_unspecified() => {}
                Ok(ip) => self.ip = Some(ip.to_canonical()),
                Err(_) => self.odd = self.odd.or(Some(voice.ip)),
            },
        }
    }

    /// That of somebody of whom nothing else is known.
    pub(crate) fn of(voice: &Voice, texts: Texts<'_>) -> Address {
        let mut address = Address::default();
        address.hear(voice, texts);
        address
    }
}

/// A port as it was before the original library has taken it for a number of 16 bits with a sign.
fn port(port: i32) -> i32 {
    match port {
        -1 => 0,
        -32768..-1 => port + 65536,
        _ => port,
    }
}
