//! Tests of the client against a relay in memory, which gives packets from lists.

use super::*;
use crate::late::Late;
use blkkin_ctf::clock_offsets::Measurement;
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::viewer::{SessionNews, StreamNews};
use blkkin_reader::{Consumer, Event, Follower, Loss, Source, TimeBase, Trace as ReadTrace};
use std::ops::ControlFlow;

/// Metadata with one stream class and one event class, whose clock begins at 1000 ns.
const METADATA: &str = "/* CTF 1.8 */
    trace { major = 1; minor = 8; byte_order = le;
        packet.header := struct {
            integer { size = 32; align = 8; } magic;
            integer { size = 32; align = 8; } stream_id; }; };
    clock { name = c; freq = 1000000000; offset = 1000; };
    stream { id = 0;
        packet.context := struct {
            integer { size = 64; align = 8; map = clock.c.value; } timestamp_begin;
            integer { size = 64; align = 8; map = clock.c.value; } timestamp_end;
            integer { size = 64; align = 8; } content_size;
            integer { size = 64; align = 8; } packet_size;
            integer { size = 32; align = 8; } cpu_id; };
        event.header := struct {
            integer { size = 32; align = 8; } id;
            integer { size = 64; align = 8; map = clock.c.value; } timestamp; }; };
    event { name = e; id = 0; stream_id = 0; fields := struct { }; };";

/// Makes a packet with events at these times, and `padding` bytes behind them.
fn packet(stream: u64, begin: u64, end: u64, events: &[u64], padding: usize) -> Vec<u8> {
    let content = 44 + 12 * events.len();
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend(0_u32.to_le_bytes());
    for value in [begin, end, 8 * content as u64, 8 * (content + padding) as u64] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend((stream as u32).to_le_bytes());
    for time in events {
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(time.to_le_bytes());
    }
    bytes.resize(content + padding, 0);
    bytes
}

/// Next answer of a stream.
#[derive(Clone, Debug)]
enum Entry {
    Packet { offset: u64, index: PacketIndex, flags: u32 },
    Inactive(u64),
}

/// Relay in memory with one session.
#[derive(Default)]
struct Relay {
    sessions: Vec<Session>,
    entries: BTreeMap<u64, VecDeque<Entry>>,
    packets: BTreeMap<u64, Vec<u8>>,
    /// Parts of the metadata, by stream; an empty part ends a run.
    metadata: BTreeMap<u64, VecDeque<Vec<u8>>>,
    listed: Vec<Listed>,
    /// Set if streams end when their lists are empty.
    has_ended: bool,
    requests: Vec<Request>,
    part_size_max: usize,
    /// Set if the relay takes requests for news.
    can_await: bool,
    /// Set while a request for news is open.
    is_awaited: bool,
    /// News that were not sent.
    news: VecDeque<News>,
    clocks: Vec<Measurement>,
}

fn listed(id: u64, trace: u64, is_metadata: bool) -> Listed {
    let name = if is_metadata { "metadata" } else { "channel" };
    Listed { id, trace, is_metadata, path: "ust/uid".to_owned(), name: name.to_owned() }
}

impl Relay {
    /// Makes a relay with a session that has trace 7 with its metadata, and these streams.
    fn new(streams: &[u64]) -> Relay {
        let session = Session {
            id: 3,
            live_timer_us: 1000,
            host: "node".to_owned(),
            name: "web".to_owned(),
            ..Session::default()
        };
        let mut relay =
            Relay { sessions: vec![session], part_size_max: 1 << 20, ..Relay::default() };
        relay.listed.push(listed(70, 7, true));
        relay.metadata.insert(70, VecDeque::from([METADATA.into(), Vec::new()]));
        streams.iter().for_each(|id| relay.listed.push(listed(*id, 7, false)));
        relay
    }

    fn add_packet(&mut self, stream: u64, begin: u64, end: u64, events: &[u64], padding: usize) {
        let bytes = packet(stream, begin, end, events, padding);
        let offset = self.packets.keys().last().map_or(0, |last| last + (1 << 20));
        let bits = 8 * bytes.len() as u64;
        let content_bits = bits - 8 * padding as u64;
        let index =
            PacketIndex { packet_bits: bits, content_bits, begin, end, ..Default::default() };
        self.packets.insert(offset, bytes);
        self.entries.entry(stream).or_default().push_back(Entry::Packet {
            offset,
            index,
            flags: 0,
        });
    }

    fn inactive(&mut self, stream: u64, end: u64) {
        self.entries.entry(stream).or_default().push_back(Entry::Inactive(end));
    }

    fn index(&mut self, stream: u64) -> Reply {
        let entry = self.entries.get_mut(&stream).and_then(VecDeque::pop_front);
        let mut at = 0;
        let (index, status, flags) = match entry {
            Some(Entry::Packet { offset, index, flags }) => {
                at = offset;
                (index, IndexStatus::Ok, flags)
            }
            Some(Entry::Inactive(end)) => {
                (PacketIndex { end, ..Default::default() }, IndexStatus::Inactive, 0)
            }
            None if self.has_ended => (PacketIndex::default(), IndexStatus::End, 0),
            None => (PacketIndex::default(), IndexStatus::Retry, 0),
        };
        Reply::Index { offset: at, index, status, flags }
    }

    fn answer(&mut self, request: Request) -> Reply {
        self.requests.push(request);
        match request {
            Request::Connect { .. } => {
                let abilities = if self.can_await { OWN_REQUESTS } else { 0 };
                Reply::Connected { connection: 1, major: 2, minor: 13, abilities }
            }
            Request::ListSessions { .. } => Reply::Sessions(self.sessions.clone()),
            Request::Attach { .. } => {
                let streams = std::mem::take(&mut self.listed);
                Reply::Attached { status: AttachStatus::Ok, streams }
            }
            Request::NewStreams { .. } => {
                let streams = std::mem::take(&mut self.listed);
                let is_over = self.has_ended && self.entries.values().all(VecDeque::is_empty);
                let status = if is_over { NewStreamsStatus::End } else { NewStreamsStatus::Ok };
                Reply::NewStreams { status, streams }
            }
            Request::NextIndex { stream } => self.index(stream),
            Request::Packet { offset, size, .. } => {
                let packet = self.packets.range(..=offset).next_back();
                let part = packet.and_then(|(start, bytes)| bytes.get((offset - start) as usize..));
                let status = if part.is_some() { PacketStatus::Ok } else { PacketStatus::Error };
                let part = part.unwrap_or_default();
                let bytes = part[..part.len().min(size as usize).min(self.part_size_max)].to_vec();
                Reply::Packet { status, flags: 0, bytes }
            }
            Request::Metadata { stream } => {
                let part = self.metadata.get_mut(&stream).and_then(VecDeque::pop_front);
                let bytes = part.unwrap_or_default();
                let status =
                    if bytes.is_empty() { MetadataStatus::NoNew } else { MetadataStatus::Ok };
                Reply::Metadata { status, bytes }
            }
            Request::Clocks { known, .. } => {
                let list = self.clocks.iter().skip(known as usize).copied().collect();
                let measurements = Measurements { boot: BOOT, list };
                Reply::Clocks { first: known, measurements }
            }
            Request::CreateViewerSession | Request::Detach { .. } => Reply::Status(1),
            Request::Await { .. } | Request::Unknown(_) => panic!("{request:?} has no reply"),
        }
    }
}

/// Times of events, in cycles.
#[derive(Default)]
struct Times(Vec<i64>);

impl Consumer for Times {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        self.0.push(event.time().expect("a clock") - 1000);
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: &ReadTrace, _: &blkkin_reader::Stream, _: &Loss) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Client with its relay, and the follower of what it receives.
struct Run {
    client: Client,
    relay: Relay,
    follower: Follower,
    late: Late<Times>,
    now: Duration,
    /// Size of the pieces in which replies arrive.
    piece: usize,
    is_done: bool,
}

impl Run {
    fn new(relay: Relay) -> Run {
        Run::with_time_base(relay, TimeBase::Recorded)
    }

    fn with_time_base(relay: Relay, time_base: TimeBase) -> Run {
        let set = LiveSet::default();
        let name = SessionName { host: "node".to_owned(), session: "web".to_owned() };
        let client = Client::new(Goal::Read(name, Seek::Beginning), time_base, set.clone());
        let follower = Follower::with_time_base(&[Source::LiveSet(set)], time_base);
        let late = Late::new(Times::default(), time_base);
        Run { client, relay, follower, late, now: Duration::ZERO, piece: 7000, is_done: false }
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.client.next(self.now)? {
            Step::Send(request @ Request::Await { .. }) => {
                assert!(self.relay.can_await);
                self.relay.requests.push(request);
                self.relay.is_awaited = true;
            }
            Step::Send(request) => {
                let mut bytes = Vec::new();
                if std::mem::take(&mut self.relay.is_awaited) {
                    Reply::News(News { is_last: true, ..News::default() }).encode(&mut bytes);
                }
                self.relay.answer(request).encode(&mut bytes);
                self.receive(&bytes)?;
            }
            Step::Receive if self.relay.is_awaited => match self.relay.news.pop_front() {
                Some(news) => {
                    self.relay.is_awaited = !news.is_last;
                    let mut bytes = Vec::new();
                    Reply::News(news).encode(&mut bytes);
                    self.receive(&bytes)?;
                }
                None => self.now += Duration::from_millis(1),
            },
            Step::Receive => panic!("a reply is missing"),
            Step::Wait(until) => self.now = until.max(self.now + Duration::from_micros(10)),
            Step::Done => self.is_done = true,
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.chunks(self.piece) {
            assert_eq!(self.client.next(self.now)?, Step::Receive);
            self.client.receive(self.now, piece)?;
        }
        Ok(())
    }

    /// Takes steps for this time, delivering what is complete, and returns all events so far.
    fn run_for(&mut self, time: Duration) -> Vec<i64> {
        let end = self.now + time;
        while self.now < end && !self.is_done {
            self.step().expect("a sound relay");
            self.deliver();
        }
        self.late.consumer.0.clone()
    }

    fn deliver(&mut self) {
        let end_ns = self.client.complete_until();
        self.follower.refresh(false);
        let stats = self.follower.deliver_until(end_ns, |reading| reading, &mut self.late);
        assert_eq!(stats.problems, []);
        self.late.end_round(end_ns);
        self.client.count_round();
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn streams_are_merged_in_order_until_the_session_ends() {
    let mut relay = Relay::new(&[1, 2, 3]);
    for (stream, step) in [(1, 10), (2, 35)] {
        for number in 0..20 {
            let begin = number * step;
            relay.add_packet(stream, begin, begin + step, &[begin + 1, begin + step - 1], 0);
        }
    }
    relay.inactive(3, 50);
    relay.inactive(3, 400);
    for piece in [7000, 1] {
        let mut run = Run::new(Relay {
            sessions: relay.sessions.clone(),
            entries: relay.entries.clone(),
            packets: relay.packets.clone(),
            metadata: relay.metadata.clone(),
            listed: relay.listed.clone(),
            ..Relay { part_size_max: 1 << 20, ..Relay::default() }
        });
        run.piece = piece;
        let events = run.run_for(SECOND / 2);
        assert!(events.is_sorted(), "{events:?}");
        // Stream 1 has nothing more after 200, and may have.
        assert_eq!(events.len(), events.iter().filter(|time| **time < 200).count());
        run.relay.has_ended = true;
        let events = run.run_for(SECOND);
        assert!(events.is_sorted() && run.is_done, "{events:?}");
        assert_eq!((events.len(), run.late.count()), (80, 0));
        assert_eq!(run.client.complete_until(), i64::MAX);
        assert_eq!(run.relay.requests.last(), Some(&Request::Detach { session: 3 }));
    }
}

#[test]
fn a_silent_stream_delays_others_for_a_bounded_time() {
    let mut relay = Relay::new(&[1, 2]);
    relay.add_packet(1, 10, 20, &[11, 19], 0);
    let mut run = Run::new(relay);
    assert!(run.run_for(SECOND * 9 / 10).is_empty());
    assert_eq!(run.run_for(SECOND / 2), [11, 19]);
    // Its late events are delivered all the same, and counted.
    run.relay.add_packet(2, 5, 9, &[6, 8], 0);
    run.relay.add_packet(1, 20, 30, &[25], 0);
    run.relay.has_ended = true;
    assert_eq!(run.run_for(SECOND), [11, 19, 6, 8, 25]);
    assert_eq!(run.late.count(), 2);
    // Requests without news become rare.
    let asked = |request: &&Request| matches!(request, Request::NextIndex { .. });
    let count = run.relay.requests.iter().filter(asked).count();
    assert!(count < 80, "{count}");
}

/// Makes a relay that takes requests for news.
fn awaitable(streams: &[u64]) -> Relay {
    Relay { can_await: true, ..Relay::new(streams) }
}

/// Returns news of a packet with these events.
fn news_of(stream: u64, begin: u64, end: u64, events: &[u64]) -> News {
    let bytes = packet(stream, begin, end, events, 0);
    let bits = 8 * bytes.len() as u64;
    let index =
        PacketIndex { packet_bits: bits, content_bits: bits, begin, end, ..Default::default() };
    let status = IndexStatus::Ok;
    let streams = vec![StreamNews { stream, offset: 0, index, status, flags: 0, bytes }];
    News { streams, ..News::default() }
}

/// Returns news that the session is complete up to a time.
fn complete(until: u64) -> News {
    let session = SessionNews {
        session: 3,
        complete_ns: 1000 + until,
        has_streams: false,
        has_clocks: false,
    };
    News { sessions: vec![session], ..News::default() }
}

#[test]
fn news_are_delivered_at_once_if_the_session_is_complete() {
    for piece in [7000, 1] {
        let mut run = Run::new(awaitable(&[1, 2]));
        run.piece = piece;
        assert!(run.run_for(SECOND / 10).is_empty());
        let asked = run.relay.requests.len();
        let News { sessions, .. } = complete(25);
        run.relay.news.push_back(News { sessions, ..news_of(1, 10, 20, &[11, 19]) });
        assert_eq!(run.run_for(Duration::from_millis(2)), [11, 19]);
        run.relay.news.push_back(news_of(2, 20, 40, &[26, 38]));
        run.relay.news.push_back(news_of(1, 20, 30, &[27, 30]));
        run.relay.news.push_back(complete(30));
        assert_eq!(run.run_for(Duration::from_millis(9)), [11, 19, 26, 27]);
        // One request has all these replies.
        assert_eq!(run.relay.requests.len(), asked);
        // Stream 1 does not count after a second of silence.
        assert_eq!(run.run_for(SECOND * 3 / 2), [11, 19, 26, 27, 30, 38]);
        assert_eq!(run.late.count(), 0);
    }
}

#[test]
fn news_of_streams_lead_to_further_requests() {
    let mut run = Run::new(awaitable(&[1]));
    run.run_for(SECOND / 10);
    // A new stream, before which nothing is complete.
    run.relay.listed.push(listed(2, 7, false));
    let session = SessionNews { session: 3, complete_ns: 0, has_streams: true, has_clocks: false };
    let News { streams, .. } = news_of(1, 10, 20, &[11]);
    run.relay.news.push_back(News { sessions: vec![session], streams, is_last: false });
    assert!(run.run_for(Duration::from_millis(3)).is_empty());
    assert!(run.relay.requests.contains(&Request::NewStreams { session: 3 }));
    let News { sessions, .. } = complete(40);
    run.relay.news.push_back(News { sessions, is_last: true, ..news_of(2, 5, 30, &[6, 12]) });
    assert_eq!(run.run_for(Duration::from_millis(3)), [6, 11, 12]);
    // The last reply is followed by another request. A packet without its bytes is requested.
    run.relay.add_packet(1, 40, 50, &[41], 0);
    let Some(Entry::Packet { offset, index, .. }) =
        run.relay.entries.get_mut(&1).and_then(VecDeque::pop_front)
    else {
        panic!("a packet");
    };
    let (status, bytes) = (IndexStatus::Ok, Vec::new());
    let one = StreamNews { stream: 1, offset, index, status, flags: 0, bytes };
    run.relay.news.push_back(News { streams: vec![one], ..News::default() });
    run.relay.news.push_back(complete(60));
    assert_eq!(run.run_for(Duration::from_millis(9)), [6, 11, 12, 41]);
    let end = |stream| {
        let (status, bytes) = (IndexStatus::End, Vec::new());
        StreamNews { stream, offset: 0, index: PacketIndex::default(), status, flags: 0, bytes }
    };
    run.relay.has_ended = true;
    run.relay.news.push_back(News {
        sessions: vec![session],
        streams: vec![end(1), end(2)],
        is_last: false,
    });
    run.run_for(SECOND);
    assert!(run.is_done);
}

/// Corrected times may step back a little where the next measurement of a clock takes effect.
#[test]
fn corrected_times_are_late_by_more_than_a_step() {
    for (early_ns, base, count) in [
        (9_000_000, TimeBase::Relay, 0),
        (11_000_000, TimeBase::Relay, 1),
        (1, TimeBase::Recorded, 1),
    ] {
        let start = 100_000_000;
        let mut relay = Relay::new(&[1, 2]);
        relay.add_packet(1, start, start + 10, &[start + 5], 0);
        let mut run = Run::with_time_base(relay, base);
        run.run_for(SECOND * 3 / 2);
        let early = start + 10 - early_ns;
        run.relay.add_packet(2, early, early, &[early], 0);
        run.relay.has_ended = true;
        assert_eq!(run.run_for(SECOND).len(), 2);
        assert_eq!(run.late.count(), count, "{early_ns} {base:?}");
    }
}

const BOOT: Uuid = Uuid(*b"0123456789abcdef");

#[test]
fn times_are_corrected_by_the_offsets_that_the_relay_knows() {
    let measured = |monotonic_ns: u64, offset: u64| Measurement {
        monotonic_ns,
        tsc: 0,
        reference_ns: 1000 + monotonic_ns + offset,
        error_ns: 5,
    };
    let make = |time_base| {
        let mut relay = awaitable(&[1]);
        let uuid = format!("clock {{ uuid = \"{BOOT}\"; ");
        let metadata = METADATA.replace("clock { name", &format!("{uuid}name"));
        relay.metadata.insert(70, VecDeque::from([metadata.into(), Vec::new()]));
        relay.clocks = vec![measured(0, 500)];
        Run::with_time_base(relay, time_base)
    };
    let mut run = make(TimeBase::Relay);
    assert!(run.run_for(SECOND / 10).is_empty());
    run.relay.news.push_back(news_of(1, 10, 20, &[11, 19]));
    run.relay.news.push_back(complete(20));
    assert_eq!(run.run_for(Duration::from_millis(2)), [511, 519]);
    assert_eq!(run.client.complete_until(), 1520);
    // Ten seconds later the offset is 1000 ns more. A second later it counts, with the drift.
    run.relay.clocks.push(measured(10_000_000_000, 1500));
    let session = SessionNews { session: 3, complete_ns: 0, has_streams: false, has_clocks: true };
    run.relay.news.push_back(News { sessions: vec![session], ..News::default() });
    run.run_for(Duration::from_millis(2));
    let later = 11_000_000_000;
    run.relay.news.push_back(news_of(1, later, later + 9, &[later, later + 7]));
    run.relay.news.push_back(complete(later + 9));
    let later = later as i64;
    assert_eq!(run.run_for(Duration::from_millis(9)), [511, 519, later + 1600, later + 1607]);
    assert_eq!(run.client.complete_until(), 1000 + later + 1609);
    // Others are told the recorded times, and do not ask.
    let mut run = make(TimeBase::Recorded);
    run.run_for(SECOND / 10);
    run.relay.news.push_back(news_of(1, 10, 20, &[11, 19]));
    run.relay.news.push_back(complete(20));
    assert_eq!(run.run_for(Duration::from_millis(2)), [11, 19]);
    let is_clocks = |request: &Request| matches!(request, Request::Clocks { .. });
    assert!(!run.relay.requests.iter().any(is_clocks));
}

#[test]
fn hostile_news_are_refused() {
    let error = |news: News| {
        let mut run = Run::new(awaitable(&[1]));
        run.run_for(SECOND / 10);
        run.relay.news.push_back(news);
        (0..9).find_map(|_| run.step().err()).expect("an error").to_string()
    };
    // A packet follows one that is not received.
    let mut two = news_of(1, 10, 20, &[11]);
    two.streams[0].bytes.clear();
    two.streams.extend(news_of(1, 20, 30, &[21]).streams);
    assert!(error(two).contains("before the last one was read"));
    let mut large = news_of(1, 10, 20, &[11]);
    large.streams[0].bytes = vec![0; 10 << 20];
    let told = error(large);
    assert!(told.contains("AWAIT") && told.contains("up to 9 MiB"), "{told}");
    let mut other = news_of(1, 10, 20, &[11]);
    other.streams[0].bytes.push(0);
    other.streams[0].index.content_bits += 1 << 40;
    assert!(error(other).contains("GET_NEXT_INDEX"));
}

#[test]
fn metadata_is_requested_before_the_packets_that_need_it() {
    let mut relay = Relay::new(&[1]);
    // A run ends within no declaration, but its parts may.
    let (first, second) = METADATA.split_at(200);
    let runs = [first, second, "", "/* CTF 1.8 */ env { a = 1; };", ""];
    relay.metadata.insert(70, runs.into_iter().map(|run| run.as_bytes().to_vec()).collect());
    relay.add_packet(1, 10, 20, &[11], 0);
    relay.add_packet(1, 20, 30, &[21], 0);
    if let Some(Entry::Packet { flags, .. }) =
        relay.entries.get_mut(&1).and_then(VecDeque::back_mut)
    {
        *flags = flags::NEW_METADATA;
    }
    relay.has_ended = true;
    let mut run = Run::new(relay);
    assert_eq!(run.run_for(SECOND), [11, 21]);
    let kinds: Vec<u8> = run
        .relay
        .requests
        .iter()
        .filter_map(|request| match request {
            Request::Metadata { .. } => Some(b'm'),
            Request::NextIndex { .. } => Some(b'i'),
            Request::Packet { .. } => Some(b'p'),
            _ => None,
        })
        .collect();
    // The metadata is read until the relay has no more.
    let kinds = String::from_utf8_lossy(&kinds);
    assert!(kinds.starts_with("mmmipimmpim"), "{kinds}");
}

/// A packet that is announced before there is any metadata is kept until there is.
#[test]
fn packets_wait_for_the_first_metadata() {
    let mut relay = Relay::new(&[1]);
    let metadata = relay.metadata.remove(&70).expect("metadata");
    relay.add_packet(1, 10, 20, &[11], 0);
    let mut run = Run::new(relay);
    assert!(run.run_for(SECOND * 3).is_empty());
    run.relay.metadata.insert(70, metadata);
    run.relay.has_ended = true;
    assert_eq!(run.run_for(SECOND), [11]);
    assert!(run.is_done);
}

#[test]
fn new_streams_are_found_while_all_others_are_idle() {
    let mut run = Run::new(Relay::new(&[]));
    assert!(run.run_for(SECOND).is_empty());
    run.relay.listed.push(listed(1, 7, false));
    run.relay.add_packet(1, 10, 20, &[11, 12], 0);
    run.relay.inactive(1, 100);
    assert_eq!(run.run_for(SECOND / 2), [11, 12]);
    // A trace of another program.
    run.relay.metadata.insert(80, VecDeque::from([METADATA.into(), Vec::new()]));
    run.relay.listed.extend([listed(2, 8, false), listed(80, 8, true)]);
    run.relay.inactive(1, 400);
    run.relay.add_packet(2, 200, 300, &[222], 0);
    assert_eq!(run.run_for(SECOND * 2), [11, 12, 222]);
    let paths: Vec<_> = run.follower.traces().iter().map(|trace| trace.path.clone()).collect();
    assert_eq!(paths.len(), 2);
    assert_ne!(paths[0], paths[1]);
    assert_eq!(run.late.count(), 0);
}

#[test]
fn large_packets_come_in_parts() {
    let mut relay = Relay::new(&[1]);
    relay.add_packet(1, 10, 20, &[11], 700_000);
    relay.has_ended = true;
    relay.part_size_max = 100_000;
    let mut run = Run::new(relay);
    assert_eq!(run.run_for(SECOND), [11]);
    let parts = run.relay.requests.iter().filter_map(|request| match request {
        Request::Packet { size, .. } => Some(*size),
        _ => None,
    });
    let parts: Vec<u32> = parts.collect();
    assert_eq!(parts.len(), 8);
    assert!(parts.iter().all(|size| *size <= 256 << 10), "{parts:?}");
}

#[test]
fn a_consumer_that_lags_stops_the_requests() {
    let mut relay = Relay::new(&[1]);
    for number in 0..100 {
        relay.add_packet(1, number * 10, number * 10 + 10, &[number * 10 + 5], 10_000);
    }
    relay.has_ended = true;
    let mut run = Run::new(relay);
    run.client.undelivered_max = 100_000;
    while run.now < 10 * SECOND {
        run.step().expect("a sound relay");
    }
    assert!((100_000..111_000).contains(&run.client.undelivered()), "{}", run.client.undelivered());
    let events = run.run_for(SECOND);
    assert!(run.is_done && events.is_sorted());
    assert_eq!((events.len(), run.late.count()), (100, 0));
}

/// Memory that is full of packets before a promise that never comes is given out, late.
#[test]
fn full_memory_is_given_out_without_regard_to_order() {
    let mut relay = Relay::new(&[1]);
    for number in 0..100 {
        // The promised end does not grow.
        relay.add_packet(1, number * 10, number * 10 + 10, &[number * 10 + 5], 10_000);
    }
    for entry in relay.entries.get_mut(&1).expect("entries") {
        if let Entry::Packet { index, .. } = entry {
            index.end = 1;
        }
    }
    relay.has_ended = true;
    let mut run = Run::new(relay);
    run.client.undelivered_max = 100_000;
    let events = run.run_for(60 * SECOND);
    assert!(run.is_done);
    assert_eq!(events.len(), 100);
}

/// Returns the error of a client whose relay was changed.
#[track_caller]
fn error_after(change: impl FnOnce(&mut Relay)) -> Error {
    let mut relay = Relay::new(&[1]);
    relay.add_packet(1, 10, 20, &[11], 0);
    change(&mut relay);
    let mut run = Run::new(relay);
    while run.now < SECOND {
        if let Err(error) = run.step() {
            return error;
        }
    }
    panic!("no error");
}

#[track_caller]
fn check_error(part: &str, change: impl FnOnce(&mut Relay)) {
    let error = error_after(change).to_string();
    assert!(error.contains(part), "{error}");
}

fn first_index(relay: &mut Relay) -> &mut PacketIndex {
    match relay.entries.get_mut(&1).and_then(VecDeque::front_mut) {
        Some(Entry::Packet { index, .. }) => index,
        _ => panic!("no packet"),
    }
}

#[test]
fn sessions_that_cannot_be_read_are_explained() {
    assert!(matches!(error_after(|relay| relay.sessions[0].name = "x".to_owned()),
        Error::NoSession { sessions, .. } if sessions[0].name == "x"));
    assert!(matches!(error_after(|relay| relay.sessions[0].live_timer_us = 0), Error::NotLive(_)));
}

/// Sessions that may have ended are attached by their ids. Only some relays list them.
#[test]
fn sessions_are_attached_by_their_ids() {
    for can_await in [true, false] {
        let mut relay = Relay::new(&[1]);
        let other = Session { id: 4, ..relay.sessions[0].clone() };
        relay.sessions.push(other);
        (relay.has_ended, relay.can_await) = (true, can_await);
        let mut run = Run::new(relay);
        let name = SessionName { host: "node".to_owned(), session: "web".to_owned() };
        run.client =
            Client::new(Goal::ReadEach(name, vec![4, 5]), TimeBase::Recorded, LiveSet::default());
        for _ in 0..4 {
            run.step().expect("a sound relay");
        }
        let requests = &run.relay.requests;
        assert!(requests.contains(&Request::ListSessions { with_ended: can_await }));
        let attached = requests.iter().filter(|request| matches!(request, Request::Attach { .. }));
        let attach = Request::Attach { session: 4, seek: Some(Seek::Beginning) };
        assert_eq!(attached.collect::<Vec<_>>(), [&attach]);
    }
}

/// All sessions with the name are attached.
#[test]
fn all_sessions_of_a_name_are_attached() {
    let mut relay = Relay::new(&[1]);
    let other = Session { id: 4, ..relay.sessions[0].clone() };
    relay.sessions.extend([other, Session { id: 5, name: "x".to_owned(), ..Session::default() }]);
    relay.has_ended = true;
    let mut run = Run::new(relay);
    run.run_for(SECOND);
    for session in [3, 4] {
        let attach = Request::Attach { session, seek: Some(Seek::Beginning) };
        assert!(run.relay.requests.contains(&attach));
        assert!(run.relay.requests.contains(&Request::Detach { session }));
    }
    assert!(!run.relay.requests.iter().any(|r| matches!(r, Request::Attach { session: 5, .. })));
}

#[test]
fn hostile_replies_are_refused_with_message_and_byte() {
    check_error("GET_NEXT_INDEX, byte 8", |relay| first_index(relay).packet_bits = u64::MAX - 7);
    check_error("GET_NEXT_INDEX, byte 8", |relay| first_index(relay).packet_bits = 0);
    check_error("GET_NEXT_INDEX, byte 8", |relay| first_index(relay).packet_bits = 63);
    check_error("GET_NEXT_INDEX, byte 16", |relay| first_index(relay).content_bits = 1 << 40);
    check_error("GET_NEXT_INDEX, byte 0", |relay| {
        if let Some(Entry::Packet { offset, .. }) =
            relay.entries.get_mut(&1).and_then(VecDeque::front_mut)
        {
            *offset = u64::MAX;
        }
    });
    check_error("a stream twice", |relay| relay.listed.push(listed(1, 7, false)));
    check_error("a stream twice", |relay| relay.listed.push(listed(70, 7, false)));
    check_error("two streams of metadata", |relay| relay.listed.push(listed(71, 7, true)));
    check_error("metadata cannot be used", |relay| {
        relay.metadata.insert(70, VecDeque::from([b"trace {".to_vec(), Vec::new()]));
    });
    check_error("too far from 1970", |relay| {
        let far = METADATA.replace("offset = 1000;", "offset_s = 99999999999999;");
        relay.metadata.insert(70, VecDeque::from([far.into_bytes(), Vec::new()]));
    });
    check_error("more than 16384 streams", |relay| {
        relay.listed.extend((1000..17_000).map(|id| listed(id, 7, false)));
        relay.listed.truncate(16_000);
        relay.listed.extend((20_000..20_384).map(|id| listed(id, id, false)));
    });
}

#[test]
fn replies_that_do_not_fit_the_request_are_refused() {
    let mut client = Client::new(Goal::List, TimeBase::Recorded, LiveSet::default());
    assert!(client.receive(Duration::ZERO, b"x").is_err());
    client.next(Duration::ZERO).expect("a request");
    let mut reply = Vec::new();
    Reply::Connected { connection: 1, major: 2, minor: 4, abilities: 0 }.encode(&mut reply);
    reply.push(0);
    let error = client.receive(Duration::ZERO, &reply).expect_err("too long").to_string();
    assert!(error.contains("byte 20"), "{error}");
    let mut client = Client::new(Goal::List, TimeBase::Recorded, LiveSet::default());
    client.next(Duration::ZERO).expect("a request");
    let mut reply = Vec::new();
    Reply::Connected { connection: 1, major: 3, minor: 0, abilities: 0 }.encode(&mut reply);
    let error = client.receive(Duration::ZERO, &reply).expect_err("a version");
    assert!(matches!(error, Error::Version { major: 3 }));
    // A part that is larger than the request is refused at its head.
    let mut run = Run::new(Relay::new(&[1]));
    run.relay.add_packet(1, 10, 20, &[11], 0);
    loop {
        match run.client.next(run.now).expect("a sound relay") {
            Step::Send(Request::Packet { .. }) => break,
            Step::Send(request) => {
                let mut bytes = Vec::new();
                run.relay.answer(request).encode(&mut bytes);
                run.client.receive(run.now, &bytes).expect("a sound reply");
            }
            Step::Wait(until) => run.now = until,
            step => panic!("{step:?}"),
        }
    }
    let error = run.client.receive(run.now, &[0, 0, 0, 1, 0, 0, 1, 0]).expect_err("too large");
    assert!(error.to_string().contains("GET_PACKET, byte 4"), "{error}");
}

/// The seed of the fuzz target `live_client` is what a sound relay sends. `BLKKIN_WRITE_SEED=1`
/// writes it.
#[test]
fn the_seed_of_the_fuzz_target_is_a_whole_session() {
    let mut relay = Relay::new(&[1, 2]);
    for number in 0..4 {
        relay.add_packet(1 + number % 2, number * 10, number * 10 + 10, &[number * 10], 9);
    }
    relay.inactive(2, 50);
    relay.has_ended = true;
    let mut run = Run::new(relay);
    let mut seed = Vec::new();
    // The target's clock and rounds.
    while !run.is_done {
        match run.client.next(run.now).expect("a sound relay") {
            Step::Send(request) => {
                let start = seed.len();
                run.relay.answer(request).encode(&mut seed);
                run.client.receive(run.now, &seed[start..]).expect("a sound reply");
            }
            Step::Wait(until) => run.now = until.max(run.now + Duration::from_micros(100)),
            Step::Receive => panic!("a reply is missing"),
            Step::Done => run.is_done = true,
        }
        run.deliver();
    }
    assert_eq!(run.late.consumer.0, [0, 10, 20, 30]);
    let path = "../../../fuzz/corpus/live_client/session";
    if std::env::var_os("BLKKIN_WRITE_SEED").is_some() {
        std::fs::create_dir_all("../../../fuzz/corpus/live_client").expect("a directory");
        std::fs::write(path, &seed).expect("to write the seed");
    }
    assert!(std::fs::read(path).expect("the seed") == seed, "BLKKIN_WRITE_SEED=1 updates it");
}

/// Random changes of a sound relay's bytes end in an error or do no harm.
#[test]
fn random_bytes_do_no_harm() {
    for seed in 0..300_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let mut relay = Relay::new(&[1, 2]);
        for number in 0..4 {
            relay.add_packet(1 + number % 2, number * 10, number * 10 + 10, &[number * 10], 50);
        }
        relay.has_ended = true;
        let mut run = Run::new(relay);
        let _ = (0..300).try_for_each(|_| -> Result<(), Error> {
            match run.client.next(run.now)? {
                Step::Send(request) => {
                    let mut bytes = Vec::new();
                    run.relay.answer(request).encode(&mut bytes);
                    if below(8) == 0 {
                        let place = below(bytes.len() as u64) as usize;
                        bytes[place] = below(256) as u8;
                    }
                    run.client.receive(run.now, &bytes)?;
                }
                Step::Receive => run.client.receive(run.now, &[below(256) as u8])?,
                Step::Wait(until) => run.now = until.max(run.now + Duration::from_micros(10)),
                Step::Done => {}
            }
            run.follower.refresh(false);
            let end_ns = run.client.complete_until();
            run.follower.deliver_until(end_ns, |reading| reading, &mut run.late);
            Ok(())
        });
    }
}
