//! A viewer's side of the protocol, without sockets and without a clock: it tells which request to
//! send next, and takes the bytes of the replies.
//!
//! Among the streams that may be asked, the client asks the one with the earliest promise: the
//! time before which the stream has no further events. So little more is received than what is
//! missing to deliver events in order. [`Client::complete_until`] is the earliest promise of all
//! streams, after the relay has listed the streams that were new by then. A stream of which the
//! relay tells nothing new for [`SILENCE_MAX`] and two periods of the live timer no longer counts;
//! its later events are late.
//!
//! A relay of BlkKin lets the client wait for news ([`Request::Await`]) once it has read what there
//! is, instead of asking each stream again and again. The relay tells of new streams, too, and the
//! time up to which a session is complete, which is a promise for all its streams.

mod producer_clocks;
mod stream;
#[cfg(test)]
mod tests;
mod trace;

use crate::error::Error;
use crate::url::SessionName;
use blkkin_ctf::clock_offsets::Measurements;
use blkkin_lttng::viewer::{
    AttachStatus, IndexStatus, MAJOR, MetadataStatus, NewStreamsStatus, News, OWN_REQUESTS,
    PacketStatus, Reply, Request, Seek, Session, Stream as Listed, flags,
};
use blkkin_lttng::{Fault, PacketIndex, Reason};
use blkkin_reader::{LiveSet, TimeBase};
use producer_clocks::ProducerClocks;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;
use stream::{Incoming, Promise, Stream, TraceKey};
use trace::Trace;

/// Purpose of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To list the relay's sessions.
    List,
    /// To list also those that have ended a short time ago, if the relay can.
    ListWithEnded,
    /// To read a session from a position on.
    Read(SessionName, Seek),
    /// To read those sessions of a name that have these ids, from their beginnings. They may have
    /// ended a short time ago.
    ReadEach(SessionName, Vec<u64>),
}

/// Next action of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this request.
    Send(Request),
    /// Pass bytes of the relay's reply to [`Client::receive`].
    Receive,
    /// Do nothing until this time, unless the consumer of the events has made progress.
    Wait(Duration),
    /// The connection can be closed.
    Done,
}

/// A viewer's side of a connection. All times are since any fixed moment.
#[derive(Debug)]
pub struct Client {
    goal: Goal,
    time_base: TimeBase,
    set: LiveSet,
    state: State,
    /// Requests whose replies are expected, in their order. While news are awaited, another request
    /// may follow.
    pending: VecDeque<Request>,
    /// Received bytes of that reply.
    buffer: Vec<u8>,
    /// All sessions of the relay.
    listed: Vec<Session>,
    /// Sessions that the client attaches to, in this order.
    matching: VecDeque<Session>,
    sessions: BTreeMap<u64, Attached>,
    traces: BTreeMap<TraceKey, Trace>,
    streams: BTreeMap<u64, Stream>,
    names: HashSet<String>,
    /// Maximum time for which a silent stream counts.
    silence_max: Duration,
    complete_until: i64,
    /// Latest end of a received packet, in nanoseconds.
    latest: i64,
    /// Promised time that holds unless the relay lists new streams.
    candidate: Option<i64>,
    checked_at: Duration,
    missing_packets: u64,
    /// Number of rounds of the consumer.
    rounds: u64,
    full: Option<Full>,
    /// Number of requests for packets and indexes.
    asked: u64,
    /// Size of undelivered packets from which nothing is requested.
    undelivered_max: u64,
    /// Set if the relay takes the requests that LTTng does not have.
    takes_own_requests: bool,
    /// Maximum size of the packets and maximum number of the replies that the relay may still send
    /// to the last such request.
    news_room: usize,
    news_count: u32,
    is_stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Listing,
    Preparing,
    Attaching,
    Reading,
    Detaching,
    Done,
}

/// Session to which the client is attached.
#[derive(Debug)]
struct Attached {
    /// Set if the relay is to be asked for new streams.
    wants_streams: bool,
    /// Set if the relay is to be asked for measurements of clocks.
    wants_clocks: bool,
    clocks: ProducerClocks,
    has_ended: bool,
    /// Time before which all events of the session were received, as the relay has promised.
    complete_until: i64,
}

/// Memory that is full.
#[derive(Clone, Copy, Debug)]
struct Full {
    since: Duration,
    /// Undelivered bytes and number of the round when all packets were given out.
    given_out: Option<(u64, u64)>,
}

/// Maximum time for which a stream without news counts, beside two periods of the live timer.
pub const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Maximum of that time with the periods of the live timer.
const SILENCE_WITH_TIMER_MAX: Duration = Duration::from_secs(60);
/// Minimum time between two checks for new streams before the promised time is raised.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time between two checks for new streams.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Initial maximum size of undelivered packets: 256 MiB.
const UNDELIVERED_MAX: u64 = 256 << 20;
/// Size of undelivered packets from which only the earliest stream is asked: 16 MiB.
const AHEAD_MAX: u64 = 16 << 20;
/// Pause before the next look at memory that is full.
const FULL_PAUSE: Duration = Duration::from_millis(5);
/// Time for which memory may be full before all packets are given out without regard to order.
const FULL_MAX: Duration = Duration::from_secs(1);
/// Number of rounds after which given out packets cannot be read.
const ROUNDS_MAX: u64 = 3;
/// Maximum time until the relay answers, so that a relay is noticed that is gone.
const NEWS_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Maximum size of the packets in all replies to a [`Request::Await`].
const NEWS_ROOM: u32 = 1 << 20;
/// Maximum number of replies to a request.
const NEWS_COUNT: u32 = 1024;
/// Maximum size of one such reply without its packets.
const NEWS_REST: u32 = 8 << 20;
/// Number of requests of which one is for a stream that does not count.
const SILENT_SHARE: u64 = 4;
/// Maximum number of streams that are read at the same time.
const STREAMS_MAX: usize = 16_384;

impl Goal {
    /// Returns the session to read and the position from which it is read.
    fn session(&self) -> Option<(&SessionName, Seek)> {
        match self {
            Goal::List | Goal::ListWithEnded => None,
            Goal::Read(name, seek) => Some((name, *seek)),
            Goal::ReadEach(name, _) => Some((name, Seek::Beginning)),
        }
    }

    /// Returns whether sessions count that have ended a short time ago.
    fn includes_ended(&self) -> bool {
        matches!(self, Goal::ListWithEnded | Goal::ReadEach(..))
    }
}

impl Client {
    /// Makes a client of a new connection. It adds the traces that it receives to `set`. With
    /// [`TimeBase::Relay`], their times are corrected by measurements that the relay has, and so
    /// are all times of the client.
    pub fn new(goal: Goal, time_base: TimeBase, set: LiveSet) -> Client {
        Client {
            goal,
            time_base,
            set,
            state: State::Connecting,
            pending: VecDeque::new(),
            buffer: Vec::new(),
            listed: Vec::new(),
            matching: VecDeque::new(),
            sessions: BTreeMap::new(),
            traces: BTreeMap::new(),
            streams: BTreeMap::new(),
            names: HashSet::new(),
            silence_max: SILENCE_MAX,
            complete_until: i64::MIN,
            latest: i64::MIN,
            candidate: None,
            checked_at: Duration::ZERO,
            missing_packets: 0,
            rounds: 0,
            full: None,
            asked: 0,
            undelivered_max: UNDELIVERED_MAX,
            takes_own_requests: false,
            news_room: 0,
            news_count: 0,
            is_stopped: false,
        }
    }

    /// Returns all sessions of the relay, once they are listed.
    pub fn listed(&self) -> &[Session] {
        &self.listed
    }

    /// Returns true once the client is attached to the session.
    pub fn is_attached(&self) -> bool {
        matches!(self.state, State::Reading | State::Detaching)
    }

    /// Returns the time before which all events were received, in nanoseconds from the clock's
    /// origin. Never decreases.
    pub fn complete_until(&self) -> i64 {
        self.complete_until
    }

    /// Returns the time for which the relay may be silent because nothing is new.
    pub(crate) fn silence_permitted(&self) -> Duration {
        if self.awaits_only_news() { NEWS_INTERVAL_MAX } else { Duration::ZERO }
    }

    /// Returns the number of packets that the relay has announced and could not give.
    pub fn missing_packets(&self) -> u64 {
        self.missing_packets
    }

    /// Tells the client that the consumer has delivered what it could.
    pub fn count_round(&mut self) {
        self.rounds += 1;
    }

    /// Makes the client detach from the session.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Returns what to do next. After [`Step::Send`], the request counts as sent.
    pub fn next(&mut self, now: Duration) -> Result<Step, Error> {
        let awaits_news = self.awaits_only_news();
        if !self.pending.is_empty() && !awaits_news {
            return Ok(Step::Receive);
        }
        if self.is_stopped && self.state != State::Done {
            self.state = State::Detaching;
        }
        let step = match self.state {
            State::Connecting => Step::Send(Request::connect()),
            State::Listing => {
                let with_ended = self.takes_own_requests && self.goal.includes_ended();
                Step::Send(Request::ListSessions { with_ended })
            }
            State::Preparing => Step::Send(Request::CreateViewerSession),
            State::Attaching => self.attach()?,
            State::Reading => self.read(now)?,
            State::Detaching => self.detach(),
            State::Done => Step::Done,
        };
        match step {
            Step::Send(Request::Await { .. }) | Step::Wait(_) if awaits_news => Ok(Step::Receive),
            Step::Send(request) => {
                if matches!(request, Request::Await { .. }) {
                    self.begin_wait(now);
                }
                self.pending.push_back(request);
                Ok(step)
            }
            _ => Ok(step),
        }
    }

    /// Returns whether only news are awaited, so that another request can be sent.
    fn awaits_only_news(&self) -> bool {
        self.pending.len() == 1 && matches!(self.pending.front(), Some(Request::Await { .. }))
    }

    /// Takes bytes of the relay. Replies that become complete are carried out.
    pub fn receive(&mut self, now: Duration, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        while !self.buffer.is_empty() {
            let Some(request) = self.pending.front().copied() else {
                let reason = Reason::Long;
                return Err(Fault { message: "reply", offset: 0, reason }.into());
            };
            self.check_part(&request)?;
            let Some(kind) = request.kind() else { break };
            let Some((reply, size)) = Reply::decode(kind, &self.buffer)? else { break };
            let is_last = !matches!(&reply, Reply::News(news) if !news.is_last);
            if size < self.buffer.len() && is_last && self.pending.len() == 1 {
                return Err(Fault { message: "reply", offset: size, reason: Reason::Long }.into());
            }
            self.buffer.drain(..size);
            if is_last {
                self.pending.pop_front();
            }
            self.take(now, request, reply)?;
        }
        Ok(())
    }

    /// Refuses a reply that is larger than the request permits, before it is received.
    fn check_part(&self, request: &Request) -> Result<(), Fault> {
        if let Request::Await { room, .. } = request {
            let (size, max) = (self.buffer.len(), room.saturating_add(NEWS_REST) as usize);
            let reason = Reason::Size { declared: size as u64, permitted: "up to 9 MiB" };
            let fault = Fault { message: "reply to AWAIT", offset: max, reason };
            return if size <= max { Ok(()) } else { Err(fault) };
        }
        let (Request::Packet { size, .. }, Some(field)) = (request, self.buffer.get(4..8)) else {
            return Ok(());
        };
        let declared = field.try_into().map_or(0, u32::from_be_bytes);
        if declared <= *size {
            return Ok(());
        }
        let reason =
            Reason::Size { declared: declared.into(), permitted: "up to the size in the request" };
        Err(Fault { message: "reply to GET_PACKET", offset: 4, reason })
    }

    /// Carries out the reply to a request.
    fn take(&mut self, now: Duration, request: Request, reply: Reply) -> Result<(), Error> {
        match (request, reply) {
            (Request::Connect { .. }, Reply::Connected { major, abilities, .. }) => match major {
                MAJOR => {
                    self.state = State::Listing;
                    self.takes_own_requests = abilities == OWN_REQUESTS;
                }
                _ => return Err(Error::Version { major }),
            },
            (Request::ListSessions { .. }, Reply::Sessions(sessions)) => self.choose(sessions)?,
            (Request::CreateViewerSession, Reply::Status(status)) => match status {
                1 => self.state = State::Attaching,
                _ => return Err(Error::Refused("it has no room for a viewer")),
            },
            (Request::Attach { session, .. }, Reply::Attached { status, streams }) => {
                self.attached(now, session, status, streams)?;
            }
            (Request::NewStreams { session }, Reply::NewStreams { status, streams }) => {
                self.new_streams(now, session, status, streams)?;
            }
            (Request::NextIndex { stream }, Reply::Index { offset, index, status, flags }) => {
                self.index(now, stream, (offset, index), status, flags)?;
            }
            (Request::Packet { stream, .. }, Reply::Packet { status, flags, bytes }) => {
                self.part(now, stream, status, flags, &bytes)?;
            }
            (Request::Metadata { stream }, Reply::Metadata { status, bytes }) => {
                self.metadata(now, stream, status, &bytes)?;
            }
            (Request::Await { .. }, Reply::News(news)) => self.news(now, news)?,
            (Request::Clocks { session, .. }, Reply::Clocks { first, measurements }) => {
                self.align(session, first, measurements);
            }
            // A session that is gone needs no detaching.
            (Request::Detach { .. }, Reply::Status(_)) => {}
            _ => {}
        }
        Ok(())
    }

    /// Chooses the sessions with the wanted name: a traced machine may have several, for instance
    /// one for the kernel.
    fn choose(&mut self, sessions: Vec<Session>) -> Result<(), Error> {
        self.listed = sessions;
        let Some((wanted, _)) = self.goal.session() else {
            self.state = State::Done;
            return Ok(());
        };
        let is_wanted =
            |session: &&Session| session.host == wanted.host && session.name == wanted.session;
        self.matching = self.listed.iter().filter(is_wanted).cloned().collect();
        if let Goal::ReadEach(_, ids) = &self.goal {
            self.matching.retain(|session| ids.contains(&session.id));
        }
        if self.matching.is_empty() {
            let sessions = std::mem::take(&mut self.listed);
            return Err(Error::NoSession { name: wanted.clone(), sessions });
        }
        if self.matching.iter().all(|session| session.live_timer_us == 0) {
            return Err(Error::NotLive(wanted.clone()));
        }
        let timer = self.matching.iter().map(|session| session.live_timer_us).max().unwrap_or(0);
        let with_timer = SILENCE_MAX + 2 * Duration::from_micros(timer.into());
        self.silence_max = with_timer.min(SILENCE_WITH_TIMER_MAX);
        self.state = State::Preparing;
        Ok(())
    }

    fn attach(&mut self) -> Result<Step, Error> {
        let Some((name, seek)) = self.goal.session() else { return Ok(Step::Done) };
        if let Some(session) = self.matching.pop_front() {
            return Ok(Step::Send(Request::Attach { session: session.id, seek: Some(seek) }));
        }
        if self.sessions.is_empty() {
            let sessions = std::mem::take(&mut self.listed);
            return Err(Error::NoSession { name: name.clone(), sessions });
        }
        self.state = State::Reading;
        Ok(Step::Wait(Duration::ZERO))
    }

    fn attached(
        &mut self,
        now: Duration,
        id: u64,
        status: AttachStatus,
        streams: Vec<Listed>,
    ) -> Result<(), Error> {
        let Some((name, _)) = self.goal.session() else { return Ok(()) };
        match status {
            AttachStatus::Ok => {
                let session = Attached {
                    wants_streams: false,
                    wants_clocks: self.takes_own_requests && self.time_base == TimeBase::Relay,
                    clocks: ProducerClocks::default(),
                    has_ended: false,
                    complete_until: i64::MIN,
                };
                if self.sessions.insert(id, session).is_some() {
                    return Err(Error::Refused("it has listed a session twice"));
                }
                self.add_streams(now, id, streams)
            }
            AttachStatus::Already => Err(Error::Taken(name.clone())),
            // The session was closed since it was listed, or is one of several.
            AttachStatus::Unknown => Ok(()),
            AttachStatus::NotLive => Err(Error::NotLive(name.clone())),
            AttachStatus::SeekError => Err(Error::Refused("it does not know the position")),
            AttachStatus::NoSession => Err(Error::Refused("the viewer has no session")),
        }
    }

    fn add_streams(
        &mut self,
        now: Duration,
        session: u64,
        streams: Vec<Listed>,
    ) -> Result<(), Error> {
        for listed in streams {
            let key = (session, listed.trace);
            let known = self.traces.values().filter_map(|trace| trace.metadata_stream);
            let count = self.streams.len() + self.traces.len();
            if self.streams.contains_key(&listed.id) || known.into_iter().any(|id| id == listed.id)
            {
                return Err(Error::Refused("it has listed a stream twice"));
            }
            if count >= STREAMS_MAX {
                return Err(Error::Refused("it has listed more than 16384 streams"));
            }
            if !self.traces.contains_key(&key) {
                let name = self.name_of(&listed.path);
                self.traces.insert(key, Trace::new(name, now));
            }
            match (listed.is_metadata, self.traces.get_mut(&key)) {
                (true, Some(trace)) if trace.metadata_stream.is_none() => {
                    trace.metadata_stream = Some(listed.id);
                }
                (true, _) => return Err(Error::Refused("a trace has two streams of metadata")),
                (false, _) => {
                    self.streams.insert(listed.id, Stream::new(key, now));
                }
            }
        }
        Ok(())
    }

    /// Returns a unique name for a trace.
    fn name_of(&mut self, path: &str) -> String {
        let start = match self.goal.session() {
            Some((name, _)) => format!("{}/{}/{path}", name.host, name.session),
            None => path.to_owned(),
        };
        let mut name = start.clone();
        let mut number = self.names.len();
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{start} ({number})");
        }
        name
    }

    /// Chooses the next request of a client that is attached.
    fn read(&mut self, now: Duration) -> Result<Step, Error> {
        // Packets are read with the offsets that the relay has when they are.
        if let Some((&session, state)) = self.sessions.iter_mut().find(|(_, it)| it.wants_clocks) {
            state.wants_clocks = false;
            let known = state.clocks.count();
            return Ok(Step::Send(Request::Clocks { session, known }));
        }
        if let Some(stream) = self.traces.values().find_map(|trace| trace.due_metadata(now)) {
            return Ok(Step::Send(Request::Metadata { stream }));
        }
        if let Some((&session, _)) = self.sessions.iter().find(|(_, state)| state.wants_streams) {
            return Ok(Step::Send(Request::NewStreams { session }));
        }
        if let Some(candidate) = self.candidate.take() {
            let promised = self.promised(now).min(candidate);
            self.complete_until = self.complete_until.max(promised);
        }
        if self.streams.is_empty() && self.sessions.values().all(|session| session.has_ended) {
            self.complete_until = i64::MAX;
            self.state = State::Detaching;
            return Ok(self.detach());
        }
        if self.takes_own_requests {
            // The relay announces a new stream before it declares a time after the stream's start.
            self.complete_until = self.complete_until.max(self.promised(now));
            if self.is_full(now)? {
                return Ok(Step::Wait(now + FULL_PAUSE));
            }
            return Ok(match self.ask_stream(now) {
                Some(step) => step,
                None => self.await_news(now),
            });
        }
        let is_raised = self.promised(now) > self.complete_until;
        let interval = if is_raised { CHECK_INTERVAL } else { IDLE_CHECK_INTERVAL };
        if now >= self.checked_at + interval {
            self.checked_at = now;
            self.candidate = Some(self.promised(now));
            for session in self.sessions.values_mut() {
                session.wants_streams = !session.has_ended;
            }
            return self.read(now);
        }
        if self.is_full(now)? {
            return Ok(Step::Wait(now + FULL_PAUSE));
        }
        Ok(self.ask_stream(now).unwrap_or_else(|| self.wait(now, interval)))
    }

    /// Returns a request for a packet or an index, if one is due. Streams that count are preferred,
    /// the one with the earliest promise first: many silent streams must not keep the others from
    /// being read.
    fn ask_stream(&mut self, now: Duration) -> Option<Step> {
        let due = self.streams.iter().filter(|(_, stream)| self.can_ask(stream, now));
        let (counting, silent): (Vec<_>, Vec<_>) =
            due.partition(|(_, stream)| self.counts(stream, now));
        let earliest = counting.into_iter().min_by_key(|(_, stream)| stream.promise);
        let longest = silent.into_iter().min_by_key(|(_, stream)| stream.ask_at);
        let is_turn_of_silent = self.asked.is_multiple_of(SILENT_SHARE);
        let chosen = if is_turn_of_silent { longest.or(earliest) } else { earliest.or(longest) };
        let (&id, stream) = chosen?;
        if let Some(incoming) = &stream.incoming {
            let (offset, size) = incoming.next_part();
            self.asked += 1;
            return Some(Step::Send(Request::Packet { stream: id, offset, size }));
        }
        let counting = self.streams.values().filter(|stream| self.counts(stream, now));
        let earliest = counting.map(|stream| stream.promise).min();
        let is_ahead = earliest.is_some_and(|earliest| stream.promise > earliest);
        if is_ahead && self.undelivered() >= AHEAD_MAX {
            return None;
        }
        self.asked += 1;
        Some(Step::Send(Request::NextIndex { stream: id }))
    }

    /// Returns whether a packet or an index of a stream can be requested now.
    fn can_ask(&self, stream: &Stream, now: Duration) -> bool {
        let is_live = self.traces.get(&stream.trace).is_some_and(|trace| trace.live().is_some());
        // A relay of BlkKin sends packets only once the viewer has their metadata.
        let can_index = stream.incoming.is_none() && !self.takes_own_requests;
        stream.ask_at <= now && (is_live || can_index)
    }

    /// Waits for news; without them, until a silent stream ceases to count.
    fn await_news(&mut self, now: Duration) -> Step {
        if self.streams.values().any(|stream| self.can_ask(stream, now)) {
            // The consumer has enough to deliver.
            return Step::Wait(now + FULL_PAUSE);
        }
        let metadata = self.traces.values().filter_map(Trace::metadata_due_at);
        let silent = self.streams.values().filter(|stream| self.counts(stream, now));
        let until = silent.filter_map(|stream| Some(stream.silent_since? + self.silence_max));
        let timeout = metadata.chain(until).min().map(|due| due.saturating_sub(now));
        let timeout = timeout.unwrap_or(NEWS_INTERVAL_MAX).min(NEWS_INTERVAL_MAX);
        let timeout_ms = timeout.as_millis() as u32 + 1;
        Step::Send(Request::Await { room: NEWS_ROOM, count: NEWS_COUNT, timeout_ms })
    }

    /// Begins to wait for news, instead of asking each stream.
    fn begin_wait(&mut self, now: Duration) {
        (self.news_room, self.news_count) = (NEWS_ROOM as usize, NEWS_COUNT);
        self.streams.values_mut().for_each(|stream| stream.expect_news(now));
    }

    /// Takes the reply to [`Request::Await`].
    fn news(&mut self, now: Duration, news: News) -> Result<(), Error> {
        let size = news.streams.iter().map(|one| one.bytes.len()).sum();
        let left = (self.news_room.checked_sub(size), self.news_count.checked_sub(1));
        let (Some(room), Some(count)) = left else {
            return Err(Error::Refused("it has sent more news than were requested"));
        };
        (self.news_room, self.news_count) = (room, count);
        let has_packets = news.streams.iter().any(|one| one.status == IndexStatus::Ok);
        for one in news.streams {
            let is_known = self.streams.contains_key(&one.stream);
            if is_known && one.status == IndexStatus::Ok && !self.can_take(one.stream) {
                return Err(Error::Refused("it has sent a packet before the last one was read"));
            }
            self.index(now, one.stream, (one.offset, one.index), one.status, one.flags)?;
            if one.bytes.is_empty() {
                continue;
            }
            self.part(now, one.stream, PacketStatus::Ok, 0, &one.bytes)?;
            if let Some(stream) = self.streams.get_mut(&one.stream)
                && stream.incoming.is_none()
            {
                stream.expect_news(now);
            }
        }
        for one in news.sessions {
            let Some(session) = self.sessions.get_mut(&one.session) else { continue };
            session.wants_streams |= one.has_streams && !session.has_ended;
            session.wants_clocks |= one.has_clocks && self.time_base == TimeBase::Relay;
            let complete = i64::try_from(one.complete_ns).unwrap_or(i64::MAX);
            session.complete_until = session.complete_until.max(complete);
        }
        if news.is_last && count > 0 && self.pending.is_empty() && has_packets {
            // There is more than one request has room for. Each stream is asked, the one with the
            // earliest promise first.
            self.streams.values_mut().for_each(|stream| stream.ask_at = now);
        }
        Ok(())
    }

    /// Takes measurements of the clocks of a session's producer, and corrects the times of its
    /// traces.
    fn align(&mut self, id: u64, first: u64, measurements: Measurements) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.clocks.add(first, measurements);
        session.wants_clocks |= session.clocks.has_more();
        for (_, trace) in self.traces.iter_mut().filter(|(key, _)| key.0 == id) {
            trace.align(&mut session.clocks);
        }
    }

    /// Returns whether a stream's next packet can be taken: the one before was received, and its
    /// trace has metadata.
    fn can_take(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| {
            let trace = self.traces.get(&stream.trace);
            stream.incoming.is_none() && trace.is_some_and(|trace| trace.live().is_some())
        })
    }

    /// Returns the time at which something is due again.
    fn wait(&self, now: Duration, check_interval: Duration) -> Step {
        let streams = self.streams.values().map(|stream| stream.ask_at);
        let metadata = self.traces.values().filter_map(Trace::metadata_due_at);
        let next = streams.chain(metadata).filter(|at| *at > now).min();
        let check = self.checked_at + check_interval;
        Step::Wait(next.map_or(check, |next| next.min(check)))
    }

    /// Returns false for a stream of which nothing is known for too long.
    fn counts(&self, stream: &Stream, now: Duration) -> bool {
        stream.promise != Promise::Timeless
            && stream.silent_since.is_none_or(|since| now < since + self.silence_max)
    }

    /// Returns the earliest promise of all streams that count. Without such a stream, everything
    /// that was received can be delivered.
    fn promised(&self, now: Duration) -> i64 {
        let counting = self.streams.values().filter(|stream| self.counts(stream, now));
        let of_session = |stream: &Stream| {
            let complete = self.sessions.get(&stream.trace.0).map(|session| session.complete_until);
            let complete = complete.filter(|until| *until > 0);
            let trace = self.traces.get(&stream.trace);
            let until = complete.map(|until| trace.map_or(until, |trace| trace.correct(until)));
            until.map_or(Promise::Unknown, Promise::Until)
        };
        match counting.map(|stream| stream.promise.max(of_session(stream))).min() {
            Some(Promise::Until(time)) => time,
            Some(Promise::Unknown) => i64::MIN,
            Some(Promise::Timeless) | None => self.latest.saturating_add(1),
        }
    }

    fn undelivered(&self) -> u64 {
        let live = self.traces.values().filter_map(Trace::live);
        live.map(|trace| trace.undelivered_bytes()).sum()
    }

    /// Returns true while the consumer has too much to deliver. If that lasts, all packets are
    /// given out without regard to order.
    fn is_full(&mut self, now: Duration) -> Result<bool, Error> {
        let bytes = self.undelivered();
        if bytes < self.undelivered_max {
            self.full = None;
            return Ok(false);
        }
        // Streams that are not asked are not silent.
        let not_asked = |stream: &mut Stream| {
            stream.silent_since = stream.silent_since.map(|_| now);
        };
        self.streams.values_mut().for_each(not_asked);
        let full = self.full.get_or_insert(Full { since: now, given_out: None });
        match full.given_out {
            None if now >= full.since + FULL_MAX => {
                full.given_out = Some((bytes, self.rounds));
                self.complete_until = self.complete_until.max(self.latest.saturating_add(1));
            }
            Some((before, rounds)) if self.rounds >= rounds + ROUNDS_MAX => {
                full.given_out = Some((bytes, self.rounds));
                if bytes >= before && self.complete_until == i64::MAX {
                    return Err(Error::Unreadable);
                }
                if bytes >= before {
                    // The packets end later than the relay has said.
                    self.complete_until = i64::MAX;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn new_streams(
        &mut self,
        now: Duration,
        id: u64,
        status: NewStreamsStatus,
        streams: Vec<Listed>,
    ) -> Result<(), Error> {
        self.checked_at = now;
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        session.wants_streams = false;
        match status {
            NewStreamsStatus::Ok => self.add_streams(now, id, streams),
            NewStreamsStatus::NoNew => Ok(()),
            NewStreamsStatus::End => {
                session.has_ended = true;
                Ok(())
            }
            NewStreamsStatus::Error => Err(Error::Refused("the session is unknown")),
        }
    }

    fn index(
        &mut self,
        now: Duration,
        id: u64,
        (offset, index): (u64, PacketIndex),
        status: IndexStatus,
        flags: u32,
    ) -> Result<(), Error> {
        self.obey(now, id, flags);
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        match status {
            IndexStatus::Ok => {
                stream.incoming = Some(Incoming::new(offset, &index)?);
                stream.ask_at = now;
                // The packet has to wait for the first metadata of its trace.
                stream.silent_since.get_or_insert(now);
            }
            IndexStatus::Retry => stream.is_silent(now),
            IndexStatus::Inactive => {
                let trace = self.traces.get(&stream.trace).filter(|trace| trace.live().is_some());
                let is_new = trace.is_some_and(|trace| {
                    let time = trace.ns(index.class, index.end);
                    stream.promise(time)
                });
                if is_new {
                    stream.has_progressed(now);
                } else {
                    stream.is_silent(now);
                }
            }
            IndexStatus::End => self.end_stream(now, id),
            IndexStatus::Error => return Err(Error::Refused("a stream is unknown")),
        }
        Ok(())
    }

    fn end_stream(&mut self, now: Duration, id: u64) {
        let Some(ended) = self.streams.remove(&id) else { return };
        let has_more = self.streams.values().any(|stream| stream.trace == ended.trace);
        // LTTng's relay ends the session only when the end of all metadata was read.
        if let (false, false, Some(trace)) =
            (self.takes_own_requests, has_more, self.traces.get_mut(&ended.trace))
        {
            trace.end(now);
        }
    }

    /// Requests what a reply's flags announce.
    fn obey(&mut self, now: Duration, stream: u64, flags: u32) {
        let Some(key) = self.streams.get(&stream).map(|stream| stream.trace) else { return };
        if flags & flags::NEW_METADATA != 0
            && let Some(trace) = self.traces.get_mut(&key)
            && !trace.wants_metadata
        {
            trace.wants_metadata = true;
            trace.ask_at = now;
        }
        if flags & flags::NEW_STREAM != 0
            && let Some(session) = self.sessions.get_mut(&key.0)
        {
            session.wants_streams = !session.has_ended;
        }
    }

    fn part(
        &mut self,
        now: Duration,
        id: u64,
        status: PacketStatus,
        flags: u32,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.obey(now, id, flags);
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let (Some(incoming), Some(trace)) = (&mut stream.incoming, self.traces.get(&stream.trace))
        else {
            return Ok(());
        };
        match status {
            PacketStatus::Ok if bytes.is_empty() => {
                let reason = Reason::Size { declared: 0, permitted: "at least one byte" };
                return Err(Fault { message: "reply to GET_PACKET", offset: 4, reason }.into());
            }
            PacketStatus::Ok => {
                incoming.bytes.extend_from_slice(bytes);
                if !incoming.is_complete() {
                    return Ok(());
                }
                if let Some(live) = trace.live() {
                    live.append_packet(id, &incoming.bytes).map_err(Error::Storage)?;
                }
                let end = trace.ns(incoming.class, incoming.end);
                self.latest = self.latest.max(end.unwrap_or(i64::MIN));
                stream.promise(end);
                stream.incoming = None;
                stream.has_progressed(now);
            }
            PacketStatus::Retry => stream.is_silent(now),
            PacketStatus::Error if flags != 0 => stream.is_silent(now),
            // The relay has deleted the packet, for instance when the session was cleared.
            PacketStatus::Error => {
                self.missing_packets += 1;
                stream.incoming = None;
                stream.has_progressed(now);
            }
            PacketStatus::End => {
                self.missing_packets += 1;
                self.end_stream(now, id);
            }
        }
        Ok(())
    }

    fn metadata(
        &mut self,
        now: Duration,
        id: u64,
        status: MetadataStatus,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let mut traces = self.traces.iter_mut();
        let Some((&key, trace)) = traces.find(|(_, trace)| trace.metadata_stream == Some(id))
        else {
            return Ok(());
        };
        let clocks = self.sessions.get_mut(&key.0).map(|session| &mut session.clocks);
        match status {
            MetadataStatus::Ok if !bytes.is_empty() => return trace.add_metadata(bytes),
            MetadataStatus::Ok | MetadataStatus::NoNew => {
                trace.use_metadata(false, now, &self.set, clocks)?;
            }
            MetadataStatus::Error => trace.use_metadata(true, now, &self.set, clocks)?,
        }
        if trace.live().is_none() && trace.has_all_metadata {
            // A trace without metadata cannot be read.
            let before = self.streams.len();
            self.streams.retain(|_, stream| stream.trace != key);
            self.missing_packets += (before - self.streams.len()) as u64;
        }
        Ok(())
    }

    fn detach(&mut self) -> Step {
        match self.sessions.pop_first() {
            Some((session, _)) => Step::Send(Request::Detach { session }),
            None => {
                self.state = State::Done;
                Step::Done
            }
        }
    }
}
