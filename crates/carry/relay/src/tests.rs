//! Tests of the relay without sockets: producers and viewers are sequences of messages, divided at
//! any byte.

use crate::clock_log::{ClockLog, now_ns};
use crate::close::Close;
use crate::control::Control;
use crate::data::DataReceiver;
use crate::sessions::Sessions;
use crate::stream::METADATA_NEW;
use crate::viewing::Viewing;
use blkkin_ctf::clock_offsets::{Measurement, Measurements};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::PacketIndex;
use blkkin_lttng::relay::{
    AddStream, ChunkAction, Command, CreateChunk, CreateSession, DataHeader, Index, Reply,
    Rotation, abilities, code,
};
use blkkin_lttng::viewer::{
    self, AttachStatus, IndexStatus, MetadataStatus, NewStreamsStatus, News, PacketStatus, Request,
    RequestKind, Seek, SessionNews, StreamNews, flags,
};
use blkkin_sys::testing::{Mounted, Scratch, skip};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const TEXT: &[u8] = b"/* CTF 1.8 */ trace { };\n";
/// Time of creation of all sessions and chunks: 2026-11-28 13:00:00 UTC.
const CREATED_S: u64 = 1_795_870_800;

/// A relay with its directory.
struct Fixture {
    sessions: Arc<Sessions>,
    scratch: Scratch,
}

/// A producer with one data stream, and its two connections.
struct Producer {
    control: Control,
    data: DataReceiver,
    session: u64,
    stream: u64,
    metadata: u64,
    /// Number of packets sent so far.
    sent: u64,
}

impl Fixture {
    fn new() -> Fixture {
        let scratch = Scratch::new("relay");
        let sessions = Sessions::new(scratch.0.clone(), |_| {});
        Fixture { sessions: Arc::new(sessions), scratch }
    }

    fn control(&self) -> Control {
        Control::new(self.sessions.clone(), PEER)
    }

    fn producer(&self) -> Producer {
        self.producer_of(0)
    }

    /// Connects a producer of the session with this id at the producer.
    fn producer_of(&self, id: u64) -> Producer {
        let mut control = self.control();
        send(&mut control, &Command::version()).unwrap();
        let created = Command::CreateSession(CreateSession {
            name: "web".to_owned(),
            host: "node".to_owned(),
            base_path: "web".to_owned(),
            live_timer_us: 1000,
            producer: [7; 16],
            id,
            created_s: CREATED_S,
            ..CreateSession::default()
        });
        let Reply::Session(session) = send(&mut control, &created).unwrap() else { panic!() };
        let chunk = CreateChunk { id: 0, created_s: CREATED_S, name: None };
        assert_eq!(ok(&mut control, &Command::CreateChunk(chunk)), code::OK);
        let stream = add_stream(&mut control, "ch_0", "ust").unwrap();
        let metadata = add_stream(&mut control, "metadata", "ust").unwrap();
        assert_eq!(ok(&mut control, &Command::StreamsSent), code::OK);
        let data = DataReceiver::new(self.sessions.clone(), PEER);
        let session = session.handle;
        Producer { control, data, session, stream, metadata, sent: 0 }
    }

    fn viewing(&self) -> Viewing {
        let mut viewing = Viewing::new(self.sessions.clone()).expect("a viewer");
        ask(&mut viewing, &Request::connect()).unwrap();
        ask(&mut viewing, &Request::CreateViewerSession).unwrap();
        viewing
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.0.join("node").join(path)
    }
}

/// Sends a command, cut into two pieces at each possible place in turn, and returns the reply.
fn send(control: &mut Control, command: &Command) -> Result<Reply, Close> {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    let mut output = Vec::new();
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(control.receive(&bytes[..cut], &mut output).unwrap(), 0);
    }
    assert_eq!(control.receive(&bytes, &mut output)?, bytes.len());
    let (reply, size) = Reply::decode(command.kind(), &output).unwrap().expect("a reply");
    assert_eq!(size, output.len());
    Ok(reply)
}

fn ok(control: &mut Control, command: &Command) -> u32 {
    match send(control, command).unwrap() {
        Reply::Code(code) | Reply::ChunkClosed { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

fn add_stream(control: &mut Control, name: &str, path: &str) -> Result<u64, u32> {
    let (name, path) = (name.to_owned(), path.to_owned());
    let added = AddStream { name, path, ..AddStream::default() };
    match send(control, &Command::AddStream(added)).unwrap() {
        Reply::Stream { handle, code: code::OK } => Ok(handle),
        Reply::Stream { code, .. } => Err(code),
        other => panic!("{other:?}"),
    }
}

fn ask(viewing: &mut Viewing, request: &Request) -> Result<viewer::Reply, Close> {
    let (mut bytes, mut output) = (Vec::new(), Vec::new());
    request.encode(&mut bytes);
    assert_eq!(viewing.receive(&bytes[..bytes.len() - 1], &mut output).unwrap(), 0);
    assert_eq!(viewing.receive(&bytes, &mut output)?, bytes.len());
    let kind = request.kind().expect("a known request");
    let (reply, size) = viewer::Reply::decode(kind, &output).unwrap().expect("a reply");
    assert_eq!(size, output.len());
    Ok(reply)
}

impl Producer {
    /// Sends metadata, which has no reply.
    fn send_metadata(&mut self, bytes: &[u8], padding: u32) {
        let (stream, bytes) = (self.metadata, bytes.to_vec());
        let (mut message, mut output) = (Vec::new(), Vec::new());
        Command::SendMetadata { stream, padding, bytes }.encode(&mut message);
        assert_eq!(self.control.receive(&message, &mut output).unwrap(), message.len());
        assert!(output.is_empty());
    }

    /// Returns the next packet: its header, its bytes, and its index.
    fn packet(&mut self) -> (Vec<u8>, Command) {
        let number = self.sent;
        self.sent += 1;
        let bytes = vec![b'a' + number as u8; 10];
        let mut message = Vec::new();
        DataHeader {
            stream: self.stream,
            net_sequence: number,
            data_size: bytes.len() as u32,
            padding_size: 6,
        }
        .encode(&mut message);
        message.extend_from_slice(&bytes);
        let index = Command::SendIndex(Index {
            stream: self.stream,
            net_sequence: number,
            packet: PacketIndex {
                packet_bits: 16 * 8,
                content_bits: 10 * 8,
                begin: number * 100,
                end: number * 100 + 50,
                class: 3,
                ..PacketIndex::default()
            },
            instance: Some(0),
            packet_sequence: Some(number),
        });
        (message, index)
    }

    fn send_packet(&mut self) {
        let (message, index) = self.packet();
        self.data.receive(&message).unwrap();
        assert_eq!(ok(&mut self.control, &index), code::OK);
    }

    /// Sends a packet on the control connection, as producers of BlkKin do.
    fn send_inline(&mut self) {
        let (message, index) = self.packet();
        let Command::SendIndex(index) = index else { panic!("an index") };
        for part in message.chunks(20) {
            self.say(&Command::Data(part.to_vec()));
        }
        self.say(&Command::Index(index));
    }

    /// Sends a command that has no reply.
    fn say(&mut self, command: &Command) {
        let (mut message, mut output) = (Vec::new(), Vec::new());
        command.encode(&mut message);
        assert_eq!(self.control.receive(&message, &mut output).unwrap(), message.len());
        assert!(output.is_empty());
    }

    fn rotate(&mut self, chunk: u64, action: ChunkAction) {
        let created = CreateChunk { id: chunk, created_s: CREATED_S + chunk, name: None };
        assert_eq!(ok(&mut self.control, &Command::CreateChunk(created)), code::OK);
        for positions in [vec![(self.stream, self.sent)], vec![(self.metadata, 0)]] {
            let rotation = Command::RotateStreams(Rotation { chunk: Some(chunk), positions });
            assert_eq!(ok(&mut self.control, &rotation), code::OK);
        }
        self.send_metadata(TEXT, 0);
        let closed_s = CREATED_S + chunk;
        let close = Command::CloseChunk { id: chunk - 1, closed_s, action: Some(action) };
        assert_eq!(ok(&mut self.control, &close), code::OK);
    }
}

impl Viewing {
    fn attach_to(&mut self, session: u64, seek: Seek) -> Vec<viewer::Stream> {
        match ask(self, &Request::Attach { session, seek: Some(seek) }).unwrap() {
            viewer::Reply::Attached { status: AttachStatus::Ok, streams } => streams,
            other => panic!("{other:?}"),
        }
    }

    fn next(&mut self, stream: u64) -> (PacketIndex, IndexStatus, u32) {
        let (_, index, status, flags) = self.next_with_offset(stream);
        (index, status, flags)
    }

    fn next_with_offset(&mut self, stream: u64) -> (u64, PacketIndex, IndexStatus, u32) {
        match ask(self, &Request::NextIndex { stream }).unwrap() {
            viewer::Reply::Index { offset, index, status, flags } => (offset, index, status, flags),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the bytes of the next packet.
    fn packet_of(&mut self, stream: u64) -> Vec<u8> {
        let (offset, index, status, _) = self.next_with_offset(stream);
        assert_eq!(status, IndexStatus::Ok);
        let size = (index.packet_bits / 8) as u32;
        let request = Request::Packet { stream, offset, size };
        match ask(self, &request).unwrap() {
            viewer::Reply::Packet { status: PacketStatus::Ok, bytes, .. } => bytes,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for news; returns them if there are any already.
    fn await_news(&mut self, room: u32) -> Option<News> {
        let (mut bytes, mut output) = (Vec::new(), Vec::new());
        Request::Await { room, count: 1, timeout_ms: 0 }.encode(&mut bytes);
        assert_eq!(self.receive(&bytes, &mut output).unwrap(), bytes.len());
        news_in(&output)
    }

    /// Returns the news after the viewer was woken; `None` if it was not woken.
    fn woken_news(&mut self) -> Option<News> {
        let waiter = self.waiter();
        assert!(self.wait().is_some(), "a viewer that waits");
        let mut polled = [PollFd::from_borrowed_fd(waiter.event(), PollFlags::IN)];
        if poll(&mut polled, Some(&Timespec::default())).unwrap() == 0 {
            return None;
        }
        waiter.clear();
        let mut output = Vec::new();
        self.answer_wait(&mut output);
        news_in(&output)
    }

    fn metadata_of(&mut self, stream: u64) -> Option<Vec<u8>> {
        match ask(self, &Request::Metadata { stream }).unwrap() {
            viewer::Reply::Metadata { status: MetadataStatus::Ok, bytes } => Some(bytes),
            viewer::Reply::Metadata { status: MetadataStatus::NoNew, .. } => None,
            other => panic!("{other:?}"),
        }
    }
}

fn news_in(output: &[u8]) -> Option<News> {
    match viewer::Reply::decode(RequestKind::Await, output).unwrap() {
        Some((viewer::Reply::News(news), size)) if size == output.len() => Some(news),
        None if output.is_empty() => None,
        other => panic!("{other:?}"),
    }
}

/// Returns what the news of the only stream say: state, end, flags and packet.
fn of_stream(news: &News) -> Vec<(IndexStatus, u64, u32, Vec<u8>)> {
    let say = |one: &StreamNews| (one.status, one.index.end, one.flags, one.bytes.clone());
    news.streams.iter().map(say).collect()
}

fn packet_bytes(number: u8) -> Vec<u8> {
    [vec![b'a' + number; 10], vec![0; 6]].concat()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

#[test]
fn packets_are_stored_with_padding_and_index() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 3);
    for _ in 0..2 {
        producer.send_packet();
    }
    assert_eq!(read(&fixture.path("web/ust/metadata")), [TEXT, &[0; 3]].concat());
    assert_eq!(read(&fixture.path("web/ust/ch_0")), [packet_bytes(0), packet_bytes(1)].concat());
    let index = read(&fixture.path("web/ust/index/ch_0.idx"));
    assert_eq!(index.len(), 16 + 2 * 72);
    assert_eq!(index[..16], [0xc1, 0xf1, 0xdc, 0xc1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 72]);
    assert_eq!(index[16 + 72..16 + 80], 16u64.to_be_bytes());
}

#[test]
fn packets_on_the_control_connection_are_stored() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let abilities = send(&mut producer.control, &Command::GetConfiguration).unwrap();
    let expected = abilities::CLEAR | abilities::INLINE | abilities::CLOCKS;
    assert_eq!(abilities, Reply::Configuration(expected));
    for _ in 0..3 {
        producer.send_inline();
    }
    let expected = [0, 1, 2].map(packet_bytes).concat();
    assert_eq!(read(&fixture.path("web/ust/ch_0")), expected);
    assert_eq!(read(&fixture.path("web/ust/index/ch_0.idx")).len(), 16 + 3 * 72);
    let (stream, last) = (producer.stream, Some(2));
    assert_eq!(ok(&mut producer.control, &Command::DataPending { stream, last }), 0);
}

#[test]
fn waiting_viewers_are_woken_by_news() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let mut viewing = fixture.viewing();
    let streams = viewing.attach_to(producer.session, Seek::Beginning);
    // A packet without metadata is no news.
    producer.send_inline();
    assert_eq!(viewing.await_news(1000), None);
    producer.send_metadata(TEXT, 0);
    let retry = (IndexStatus::Retry, 0, flags::NEW_METADATA, vec![]);
    let news = viewing.woken_news().expect("metadata");
    assert_eq!((of_stream(&news), news.sessions), (vec![retry], vec![]));
    assert!(viewing.metadata_of(streams[1].id).is_some());
    let ok = |number: u8| (IndexStatus::Ok, u64::from(number) * 100 + 50, 0, packet_bytes(number));
    assert_eq!(of_stream(&viewing.await_news(1000).expect("a packet")), [ok(0)]);
    assert_eq!(viewing.await_news(1000), None);
    assert_eq!(viewing.woken_news(), None);
    producer.send_inline();
    producer.send_inline();
    assert_eq!(of_stream(&viewing.woken_news().expect("packets")), [ok(1), ok(2)]);
    // The session is complete for a viewer that has all packets before.
    producer.send_inline();
    producer.send_inline();
    producer.say(&Command::Complete { until_ns: 700 });
    let news = viewing.await_news(20).expect("a packet");
    assert_eq!((of_stream(&news), news.sessions), (vec![ok(3)], vec![]));
    let news = viewing.await_news(20).expect("a packet");
    let complete = SessionNews {
        session: producer.session,
        complete_ns: 700,
        has_streams: false,
        has_clocks: false,
    };
    assert_eq!((of_stream(&news), news.sessions), (vec![ok(4)], vec![complete]));
    assert_eq!(viewing.await_news(20), None);
    // A promise that is not later is no news.
    producer.say(&Command::Complete { until_ns: 699 });
    assert_eq!(viewing.woken_news(), None);
    // A packet without room for it is requested by the viewer.
    producer.send_inline();
    producer.say(&Command::Complete { until_ns: 900 });
    assert_eq!(of_stream(&viewing.woken_news().expect("a packet")), [ok(5)]);
    producer.send_inline();
    let news = viewing.await_news(15).expect("an index");
    assert_eq!((news.streams[0].index.end, news.streams[0].bytes.len()), (650, 0));
}

#[test]
fn measurements_of_clocks_are_beside_traces_and_for_viewers() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let before = now_ns();
    let Reply::Time(told) = send(&mut producer.control, &Command::GetTime).unwrap() else {
        panic!("a time");
    };
    assert!((before..=now_ns()).contains(&told), "{told}");
    producer.send_metadata(TEXT, 0);
    let mut viewing = fixture.viewing();
    let streams = viewing.attach_to(producer.session, Seek::Beginning);
    assert!(viewing.metadata_of(streams[1].id).is_some());
    assert_eq!(viewing.await_news(1000), None);
    let stored = |path: &str| {
        let read = Measurements::parse(&read(&fixture.path(path))).expect("valid lines");
        assert_eq!(read.boot, BOOT);
        read.list.iter().map(|one| one.monotonic_ns).collect::<Vec<_>>()
    };
    let report = |n: u64| Command::ReportClocks { boot: BOOT, measurement: measured(n) };
    producer.say(&report(1));
    assert_eq!(stored("web/ust/.clock-offsets"), [1]);
    let news = viewing.woken_news().expect("a measurement");
    assert!(news.sessions[0].has_clocks, "{news:?}");
    producer.say(&report(2));
    let other = Uuid([8; 16]);
    producer.say(&Command::ReportClocks { boot: other, measurement: measured(3) });
    assert_eq!(stored("web/ust/.clock-offsets"), [1, 2]);
    let session = producer.session;
    let known =
        |viewing: &mut Viewing, known: u64| match ask(viewing, &Request::Clocks { session, known })
            .unwrap()
        {
            viewer::Reply::Clocks { first, measurements } => (first, measurements.list),
            other => panic!("{other:?}"),
        };
    assert_eq!(known(&mut viewing, 0), (0, vec![measured(1), measured(2)]));
    assert_eq!(known(&mut viewing, 1), (1, vec![measured(2)]));
    assert_eq!(known(&mut viewing, 9), (2, vec![]));
    assert_eq!(known(&mut fixture.viewing(), 0), (0, vec![]), "not attached");
    // Later traces and chunks have the earlier measurements, too.
    add_stream(&mut producer.control, "metadata", "ust/later").unwrap();
    assert_eq!(stored("web/ust/later/.clock-offsets"), [1, 2]);
    producer.rotate(1, ChunkAction::Keep);
    producer.say(&report(4));
    let archives = fs::read_dir(fixture.path("web/archives")).expect("chunks");
    let chunks: Vec<_> = archives.map(|chunk| chunk.expect("a chunk").path()).collect();
    let [chunk] = &chunks[..] else { panic!("{chunks:?}") };
    let name = chunk.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(stored(&format!("web/archives/{name}/ust/.clock-offsets")), [1, 2, 4]);
}

const BOOT: Uuid = Uuid([7; 16]);

fn measured(n: u64) -> Measurement {
    Measurement { monotonic_ns: n, tsc: 2 * n, reference_ns: CREATED_S + n, error_ns: 5 }
}

/// A producer cannot fill the memory with measurements, and one that was stopped is understood.
#[test]
fn measurements_of_clocks_are_limited() {
    let mut clocks = ClockLog::default();
    let taken = (1..10_000).filter(|n| clocks.add(BOOT, measured(*n))).count() as u64;
    assert!((1000..2000).contains(&taken), "{taken}");
    assert_eq!(clocks.count(), taken);
    assert!(!clocks.add(BOOT, measured(1)), "an earlier one");
    let mut clocks = ClockLog::default();
    (1..10).for_each(|n| assert!(clocks.add(BOOT, measured(n))));
    assert!(clocks.add(BOOT, Measurement { tsc: 1, ..measured(20) }), "the counter begins anew");
    let (first, measurements) = clocks.after(3);
    assert_eq!((first, measurements.list.len()), (9, 1));
}

/// Measurements that a full disk has refused follow later.
#[test]
fn measurements_of_clocks_survive_a_full_disk() {
    let scratch = Scratch::new("clocks");
    let chunk = crate::chunk::Chunk::create(&scratch.0, 0, CREATED_S, None).expect("a chunk");
    let mut clocks = ClockLog::default();
    let read = || Measurements::parse(&fs::read(scratch.0.join("t/.clock-offsets")).unwrap());
    for n in [1, 2, 3] {
        assert!(clocks.add(BOOT, measured(n)));
        if n != 2 {
            clocks.append_to(&chunk, "t", false).expect("room");
        }
    }
    assert_eq!(read().expect("lines").list, [measured(1), measured(3)]);
    clocks.append_to(&chunk, "t", true).expect("room");
    assert_eq!(read().expect("lines").list, [1, 2, 3].map(measured));
}

#[test]
fn waiting_viewers_learn_of_streams_and_of_the_end() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    let mut viewing = fixture.viewing();
    let streams = viewing.attach_to(producer.session, Seek::Beginning);
    assert!(viewing.metadata_of(streams[1].id).is_some());
    assert_eq!(viewing.await_news(1000), None);
    add_stream(&mut producer.control, "ch_1", "ust").unwrap();
    producer.say(&Command::Complete { until_ns: 700 });
    assert_eq!(ok(&mut producer.control, &Command::StreamsSent), code::OK);
    let news = viewing.woken_news().expect("a stream");
    let session = SessionNews {
        session: producer.session,
        complete_ns: 0,
        has_streams: true,
        has_clocks: false,
    };
    assert_eq!(news.sessions, [session]);
    let request = Request::NewStreams { session: producer.session };
    assert!(matches!(ask(&mut viewing, &request).unwrap(),
        viewer::Reply::NewStreams { streams, .. } if streams.len() == 1));
    // Another request ends the wait.
    assert_eq!(viewing.await_news(1000).expect("completeness").sessions[0].complete_ns, 700);
    assert_eq!(viewing.await_news(1000), None);
    let (mut bytes, mut output) = (Vec::new(), Vec::new());
    request.encode(&mut bytes);
    viewing.receive(&bytes, &mut output).unwrap();
    assert_eq!(news_in(&output[..12]), Some(News { is_last: true, ..News::default() }));
    assert_eq!(viewing.await_news(1000), None);
    let session = producer.session;
    drop(producer);
    let news = viewing.woken_news().or_else(|| viewing.await_news(1000)).expect("the end");
    assert_eq!(of_stream(&news).iter().map(|one| one.0).collect::<Vec<_>>(), [IndexStatus::End; 2]);
    assert_eq!(
        news.sessions,
        [SessionNews { session, complete_ns: 0, has_streams: true, has_clocks: false }]
    );
    assert!(matches!(
        ask(&mut viewing, &request).unwrap(),
        viewer::Reply::NewStreams { status: NewStreamsStatus::End, .. }
    ));
}

/// A relay that is killed leaves no directory that readers take for a trace without metadata.
#[test]
fn a_trace_appears_with_its_metadata() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_packet();
    let metadata = fixture.path("web/ust/metadata");
    assert!(!metadata.exists() && fixture.path("web/ust/ch_0").exists());
    producer.send_metadata(TEXT, 0);
    assert_eq!(read(&metadata), TEXT);
    let reset = Command::ResetMetadata { stream: producer.metadata, version: 1 };
    assert_eq!(ok(&mut producer.control, &reset), code::OK);
    producer.send_metadata(TEXT, 0);
    assert_eq!(read(&metadata), TEXT);
    assert!(!fixture.path("web/ust").join(METADATA_NEW).exists());
}

/// The data connection may be divided at any byte.
#[test]
fn packets_may_arrive_in_any_pieces() {
    for size in [1, 7, 31, 32, 33, 100] {
        let fixture = Fixture::new();
        let mut producer = fixture.producer();
        let (first, _) = producer.packet();
        let (second, _) = producer.packet();
        for piece in [first, second].concat().chunks(size) {
            producer.data.receive(piece).unwrap();
        }
        let expected = [packet_bytes(0), packet_bytes(1)].concat();
        assert_eq!(read(&fixture.path("web/ust/ch_0")), expected, "{size}");
    }
}

#[test]
fn viewers_see_a_packet_after_its_index_and_metadata() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let mut viewing = fixture.viewing();
    let streams = viewing.attach_to(producer.session, Seek::Last);
    let names: Vec<&str> = streams.iter().map(|stream| &*stream.name).collect();
    assert_eq!(names, ["ch_0", "metadata"]);
    assert_eq!(streams[0].trace, streams[1].trace);
    let (stream, metadata) = (streams[0].id, streams[1].id);
    assert_eq!(viewing.metadata_of(metadata), None);
    let (bytes, index) = producer.packet();
    producer.data.receive(&bytes).unwrap();
    assert_eq!(viewing.next(stream).1, IndexStatus::Retry);
    producer.send_metadata(TEXT, 0);
    assert_eq!(ok(&mut producer.control, &index), code::OK);
    let (offset, index, status, flags) = viewing.next_with_offset(stream);
    assert_eq!((status, flags), (IndexStatus::Ok, flags::NEW_METADATA));
    assert_eq!((offset, index.packet_bits, index.begin, index.class), (0, 128, 0, 3));
    assert!(viewing.metadata_of(metadata).unwrap().ends_with(b"trace { };"));
    assert_eq!(viewing.metadata_of(metadata), None);
    // The index may be first.
    let (bytes, index) = producer.packet();
    assert_eq!(ok(&mut producer.control, &index), code::OK);
    assert_eq!(viewing.next(stream).1, IndexStatus::Retry);
    producer.data.receive(&bytes).unwrap();
    assert_eq!(viewing.packet_of(stream), packet_bytes(1));
}

#[test]
fn each_viewer_has_its_own_position() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_packet();
    let (mut first, mut last) = (fixture.viewing(), fixture.viewing());
    first.attach_to(producer.session, Seek::Beginning);
    last.attach_to(producer.session, Seek::Last);
    assert_eq!(fixture.sessions.list()[0].viewers, 2);
    producer.send_packet();
    assert_eq!(last.packet_of(producer.stream), packet_bytes(1));
    assert_eq!(first.packet_of(producer.stream), packet_bytes(0));
    drop(last);
    assert_eq!(first.packet_of(producer.stream), packet_bytes(1));
    assert_eq!(fixture.sessions.list()[0].viewers, 1);
}

#[test]
fn beacons_promise_times_until_a_packet_arrives() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let mut viewing = fixture.viewing();
    viewing.attach_to(producer.session, Seek::Last);
    producer.send_packet();
    let beacon = Index {
        instance: Some(0),
        packet_sequence: Some(0),
        ..Index::beacon(producer.stream, Some(0), 3, 77)
    };
    assert_eq!(ok(&mut producer.control, &Command::SendIndex(beacon)), code::OK);
    assert_eq!(viewing.packet_of(producer.stream), packet_bytes(0));
    let (index, status, _) = viewing.next(producer.stream);
    assert_eq!((index.end, index.class, status), (77, 3, IndexStatus::Inactive));
    let (bytes, _) = producer.packet();
    producer.data.receive(&bytes).unwrap();
    assert_eq!(viewing.next(producer.stream).1, IndexStatus::Retry);
}

#[test]
fn new_streams_are_announced_and_the_end_is_told() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let mut viewing = fixture.viewing();
    viewing.attach_to(producer.session, Seek::Last);
    let session = producer.session;
    let new = |viewing: &mut Viewing| match ask(viewing, &Request::NewStreams { session }) {
        Ok(viewer::Reply::NewStreams { status, streams }) => (status, streams.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(new(&mut viewing), (NewStreamsStatus::Ok, 0));
    let other = add_stream(&mut producer.control, "ch_0", "other").unwrap();
    add_stream(&mut producer.control, "metadata", "other").unwrap();
    // Streams of a trace are shown together.
    assert_eq!(new(&mut viewing), (NewStreamsStatus::Ok, 0));
    assert_eq!(ok(&mut producer.control, &Command::StreamsSent), code::OK);
    producer.send_packet();
    assert_eq!(viewing.next(producer.stream).2, flags::NEW_STREAM);
    assert_eq!(new(&mut viewing), (NewStreamsStatus::Ok, 2));
    let last = Some(0);
    let close = Command::CloseStream { stream: producer.stream, last };
    assert_eq!(ok(&mut producer.control, &close), code::OK);
    assert_eq!(viewing.next(producer.stream).1, IndexStatus::End);
    drop(producer);
    assert_eq!(new(&mut viewing), (NewStreamsStatus::Ok, 0));
    assert_eq!(viewing.next(other).1, IndexStatus::End);
    assert_eq!(new(&mut viewing), (NewStreamsStatus::End, 0));
    assert!(fixture.sessions.list().is_empty());
}

/// A session that has ended is listed for those viewers that ask for it, and is read to its end.
#[test]
fn ended_sessions_are_read_by_viewers_that_know_them() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    producer.send_packet();
    let (session, stream) = (producer.session, producer.stream);
    drop(producer);
    let mut viewing = fixture.viewing();
    let mut listed = |with_ended| match ask(&mut viewing, &Request::ListSessions { with_ended }) {
        Ok(viewer::Reply::Sessions(sessions)) => sessions.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((listed(false), listed(true)), (0, 1));
    viewing.attach_to(session, Seek::Beginning);
    assert_eq!(viewing.packet_of(stream), packet_bytes(0));
    assert_eq!(viewing.next(stream).1, IndexStatus::End);
}

/// A session may have any number of traces one after the other. Those that are complete make room,
/// and viewers that have begun to read them go on.
#[test]
fn complete_traces_make_room_for_others() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let mut viewing = fixture.viewing();
    producer.send_metadata(TEXT, 0);
    producer.send_packet();
    viewing.attach_to(producer.session, Seek::Beginning);
    for stream in [producer.metadata, producer.stream] {
        let close = Command::CloseStream { stream, last: None };
        assert_eq!(ok(&mut producer.control, &close), code::OK);
    }
    for number in 0..200 {
        let path = format!("chunk-{number}/ust/pid/a");
        let of_trace = ["metadata", "ch_0", "ch_1"]
            .map(|name| add_stream(&mut producer.control, name, &path).unwrap());
        assert_eq!(ok(&mut producer.control, &Command::StreamsSent), code::OK);
        for stream in of_trace {
            let close = Command::CloseStream { stream, last: None };
            assert_eq!(ok(&mut producer.control, &close), code::OK);
        }
    }
    // The streams of a trace are forgotten together.
    let mut later = fixture.viewing();
    let listed = later.attach_to(producer.session, Seek::Beginning);
    assert!(listed.len() > 30 && listed.len() < 65, "{}", listed.len());
    assert_eq!(listed.iter().filter(|stream| stream.is_metadata).count() * 3, listed.len());
    assert_eq!(viewing.packet_of(producer.stream), packet_bytes(0));
    // Open streams stay.
    let path = "chunk-200/ust/pid/a";
    let mut add = |number: u64| add_stream(&mut producer.control, &format!("ch_{number}"), path);
    let added = (0..).take_while(|number| add(*number).is_ok()).count();
    assert_eq!(added, 64);
}

#[test]
fn rotations_move_packets_to_their_chunks() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let mut viewing = fixture.viewing();
    viewing.attach_to(producer.session, Seek::Beginning);
    producer.send_metadata(TEXT, 0);
    producer.send_packet();
    // Packet 1 belongs to the old chunk, and arrives after the rotation; packet 2 to the new one.
    let (old, old_index) = producer.packet();
    let (new, new_index) = producer.packet();
    producer.sent = 2;
    producer.rotate(1, ChunkAction::Complete);
    producer.sent = 3;
    producer.data.receive(&[old, new].concat()).unwrap();
    for index in [old_index, new_index] {
        assert_eq!(ok(&mut producer.control, &index), code::OK);
    }
    producer.rotate(2, ChunkAction::Complete);
    producer.send_packet();
    let chunks = fixture.path("web/archives");
    let mut names: Vec<String> = fs::read_dir(&chunks)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    assert_eq!(names.len(), 3);
    for (name, packets) in names.iter().zip([vec![0, 1], vec![2], vec![3]]) {
        let trace = chunks.join(name).join("ust");
        let expected: Vec<Vec<u8>> = packets.iter().map(|number| packet_bytes(*number)).collect();
        assert_eq!(read(&trace.join("ch_0")), expected.concat(), "{name}");
        assert_eq!(read(&trace.join("index/ch_0.idx")).len(), 16 + 72 * packets.len());
        assert_eq!(read(&trace.join("metadata")), TEXT);
    }
    for number in 0..4 {
        assert_eq!(viewing.packet_of(producer.stream), packet_bytes(number));
    }
    assert!(viewing.metadata_of(producer.metadata).is_some());
    assert_eq!(viewing.metadata_of(producer.metadata), None);
}

#[test]
fn cleared_packets_are_removed() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    producer.send_packet();
    producer.rotate(1, ChunkAction::Delete);
    producer.send_packet();
    assert!(!fixture.path("web/ust").exists());
    let mut viewing = fixture.viewing();
    viewing.attach_to(producer.session, Seek::Beginning);
    assert_eq!(viewing.packet_of(producer.stream), packet_bytes(1));
}

#[test]
fn pending_data_is_told() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let stream = producer.stream;
    let pending = |last| Command::DataPending { stream, last };
    assert_eq!(ok(&mut producer.control, &pending(None)), 0);
    assert_eq!(ok(&mut producer.control, &pending(Some(0))), 1);
    let (bytes, index) = producer.packet();
    producer.data.receive(&bytes).unwrap();
    assert_eq!(ok(&mut producer.control, &pending(Some(0))), 1);
    assert_eq!(ok(&mut producer.control, &index), code::OK);
    assert_eq!(ok(&mut producer.control, &pending(Some(0))), 0);
    assert_eq!(ok(&mut producer.control, &pending(Some(1))), 1);
}

#[test]
fn a_packet_that_is_cut_off_leaves_no_bytes() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_packet();
    let (bytes, _) = producer.packet();
    producer.data.receive(&bytes[..bytes.len() - 1]).unwrap();
    drop(producer);
    assert_eq!(read(&fixture.path("web/ust/ch_0")), packet_bytes(0));
}

/// Names from the network stay below the relay's directory, and ids below their connection.
#[test]
fn hostile_peers_have_no_effect_on_others() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    let mut raw = fixture.control();
    assert!(send(&mut raw, &Command::StreamsSent).is_err(), "before the version");
    for (host, name, base_path) in [
        ("..", "s", ""),
        ("h", "../s", ""),
        ("h", "s", "../../x"),
        ("h", "s", "/x/../y"),
        ("", "s", ""),
    ] {
        let (host, name) = (host.to_owned(), name.to_owned());
        let base_path = base_path.to_owned();
        let created = CreateSession { host, name, base_path, ..CreateSession::default() };
        let mut control = fixture.control();
        send(&mut control, &Command::version()).unwrap();
        assert!(send(&mut control, &Command::CreateSession(created)).is_err());
    }
    // A second producer cannot use the streams of the first one.
    let mut other = fixture.producer_of(1);
    let packet = PacketIndex { packet_bits: 128, ..PacketIndex::default() };
    let index = Index { packet, stream: producer.stream, ..Index::default() };
    let stream = producer.metadata;
    for command in [
        Command::SendIndex(index),
        Command::ResetMetadata { stream, version: 0 },
        Command::DataPending { stream, last: None },
    ] {
        assert!(send(&mut other.control, &command).is_err(), "{command:?}");
    }
    let (bytes, _) = producer.packet();
    assert!(DataReceiver::new(fixture.sessions.clone(), OTHER).receive(&bytes).is_err());
    producer.data.receive(&bytes).unwrap();
    assert!(other.data.receive(&bytes).is_err(), "its own producer has a connection");
}

/// A snapshot shares the directory of earlier snapshots of its session, never that of others.
#[test]
fn snapshots_do_not_enter_directories_of_others() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    let snapshot = |base_path: &str, producer: u8| {
        let mut control = fixture.control();
        send(&mut control, &Command::version()).unwrap();
        let created = Command::CreateSession(CreateSession {
            name: "web".to_owned(),
            host: "node".to_owned(),
            base_path: base_path.to_owned(),
            is_snapshot: true,
            producer: [producer; 16],
            ..CreateSession::default()
        });
        let Reply::Session(session) = send(&mut control, &created).ok()? else { panic!() };
        Some((control, session.path.expect("a path")))
    };
    assert_eq!(snapshot("web", 1).unwrap().1, "node/web-2");
    let (mut control, path) = snapshot("web", 1).unwrap();
    assert_eq!(path, "node/web-2", "of the same session");
    assert_eq!(snapshot("web", 2).unwrap().1, "node/web-3");
    assert!(snapshot("web/ust", 1).is_some(), "known by now");
    assert!(snapshot("web/inner", 3).is_none(), "within another session");
    let mut named = |name: &str| {
        let chunk = CreateChunk { id: 0, created_s: CREATED_S, name: Some(name.to_owned()) };
        ok(&mut control, &Command::CreateChunk(chunk))
    };
    assert_eq!(named("one"), code::OK);
    let (mut control, _) = snapshot("web", 1).unwrap();
    let chunk = CreateChunk { id: 1, created_s: CREATED_S, name: Some("one".to_owned()) };
    assert_ne!(ok(&mut control, &Command::CreateChunk(chunk)), code::OK, "taken");
}

/// Two rotations may be under way before the packets of the first chunk arrive.
#[test]
fn rotations_overlap() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    let packets: Vec<(Vec<u8>, Command)> = (0..3).map(|_| producer.packet()).collect();
    producer.sent = 1;
    producer.rotate(1, ChunkAction::Complete);
    producer.sent = 2;
    producer.rotate(2, ChunkAction::Complete);
    for (bytes, index) in packets {
        producer.data.receive(&bytes).unwrap();
        assert_eq!(ok(&mut producer.control, &index), code::OK);
    }
    let chunks = fixture.path("web/archives");
    for entry in fs::read_dir(&chunks).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let number: u8 = name.rsplit('-').next().unwrap().parse().unwrap();
        assert_eq!(read(&chunks.join(&name).join("ust/ch_0")), packet_bytes(number), "{name}");
    }
}

/// A chunk may be removed while its first packet is under way.
#[test]
fn packets_of_removed_chunks_are_no_error() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    let (bytes, index) = producer.packet();
    producer.rotate(1, ChunkAction::Delete);
    producer.data.receive(&bytes).unwrap();
    assert_eq!(ok(&mut producer.control, &index), code::OK);
    producer.send_packet();
    assert!(!fixture.path("web/ust").exists());
}

/// Packets may arrive after the producer has closed its control connection.
#[test]
fn viewers_wait_for_the_data_connection() {
    let fixture = Fixture::new();
    let Producer { mut control, mut data, session, stream, .. } = {
        let mut producer = fixture.producer();
        producer.send_packet();
        producer
    };
    let mut viewing = fixture.viewing();
    viewing.attach_to(session, Seek::Beginning);
    let mut bytes = Vec::new();
    let header = DataHeader { stream, net_sequence: 1, data_size: 16, padding_size: 0 };
    header.encode(&mut bytes);
    data.receive(&bytes).unwrap();
    let index = Index {
        stream,
        net_sequence: 1,
        packet: PacketIndex { packet_bits: 128, ..PacketIndex::default() },
        instance: Some(0),
        packet_sequence: Some(1),
    };
    assert_eq!(ok(&mut control, &Command::SendIndex(index)), code::OK);
    drop(control);
    assert_eq!(viewing.packet_of(stream), packet_bytes(0));
    assert_eq!(viewing.next(stream).1, IndexStatus::Retry);
    data.receive(&packet_bytes(1)).unwrap();
    assert_eq!(viewing.packet_of(stream), packet_bytes(1));
    assert_eq!(viewing.next(stream).1, IndexStatus::Retry);
    drop(data);
    assert_eq!(viewing.next(stream).1, IndexStatus::End);
}

/// While the disk is full, commands are answered, and what they bring is written later.
#[test]
fn commands_are_answered_while_the_disk_is_full() {
    let test = "commands_are_answered_while_the_disk_is_full";
    let mounted = match Mounted::in_memory(1024) {
        Ok(mounted) => mounted,
        Err(why) => return skip(test, &why),
    };
    let sessions = Arc::new(Sessions::new(mounted.path().to_owned(), |_| {}));
    let fixture = Fixture { sessions, scratch: Scratch::new("relay") };
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    // The next entry of the index file needs another page.
    let entries = (4096 - 16) / 72;
    for _ in 0..entries {
        producer.send_packet();
    }
    let (bytes, index) = producer.packet();
    producer.data.receive(&bytes).unwrap();
    let filler = mounted.path().join("filler");
    let filled = fs::write(&filler, vec![0; 2 << 20]).unwrap_err();
    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(ok(&mut producer.control, &index), code::OK);
    let more = vec![b'\n'; 8192];
    producer.send_metadata(&more, 0);
    let trace = mounted.path().join("node/web/ust");
    let mut viewing = fixture.viewing();
    viewing.attach_to(producer.session, Seek::Beginning);
    for number in 0..entries {
        assert_eq!(viewing.packet_of(producer.stream), packet_bytes(number as u8));
    }
    assert_eq!(viewing.next(producer.stream).1, IndexStatus::Retry);
    fs::remove_file(&filler).unwrap();
    producer.send_packet();
    for number in entries..entries + 2 {
        assert_eq!(viewing.packet_of(producer.stream), packet_bytes(number as u8));
    }
    assert_eq!(read(&trace.join("metadata")), [TEXT, &more].concat());
}

/// A closed stream takes no descriptors, and can still be read and moved.
#[test]
fn closed_streams_close_their_files() {
    let open_files = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok()).collect::<Vec<PathBuf>>()
    };
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    let (stream, last) = (producer.stream, Some(1));
    let is_own = |path: &&PathBuf| path.starts_with(&fixture.scratch.0);
    producer.send_packet();
    let close = Command::CloseStream { stream, last };
    assert_eq!(ok(&mut producer.control, &close), code::OK);
    let session = producer.session;
    let end = |producer: &mut Producer| {
        assert_eq!(ok(&mut producer.control, &Command::BeginDataPending { session }), code::OK);
        ok(&mut producer.control, &Command::EndDataPending { session })
    };
    assert_eq!(end(&mut producer), 1, "a packet is in flight");
    producer.send_packet();
    assert_eq!(end(&mut producer), 0);
    let names: Vec<PathBuf> = open_files().iter().filter(is_own).cloned().collect();
    assert_eq!(names.len(), 1, "metadata alone: {names:?}");
    let mut viewing = fixture.viewing();
    viewing.attach_to(session, Seek::Beginning);
    assert_eq!(viewing.packet_of(stream), packet_bytes(0));
    let close = Command::CloseChunk { id: 0, closed_s: 1, action: Some(ChunkAction::Complete) };
    assert_eq!(ok(&mut producer.control, &close), code::OK);
    assert_eq!(viewing.packet_of(stream), packet_bytes(1));
    assert_eq!(viewing.next(stream).1, IndexStatus::End);
}

/// Viewers read only streams of sessions to which they are attached.
#[test]
fn viewers_cannot_read_other_sessions() {
    let fixture = Fixture::new();
    let mut producer = fixture.producer();
    producer.send_metadata(TEXT, 0);
    producer.send_packet();
    let mut viewing = fixture.viewing();
    assert_eq!(viewing.next(producer.stream).1, IndexStatus::Error);
    let stream = producer.metadata;
    assert!(matches!(
        ask(&mut viewing, &Request::Metadata { stream }).unwrap(),
        viewer::Reply::Metadata { status: MetadataStatus::Error, .. }
    ));
    let stream = producer.stream;
    assert!(matches!(
        ask(&mut viewing, &Request::Packet { stream, offset: 0, size: 10 }).unwrap(),
        viewer::Reply::Packet { status: PacketStatus::Error, .. }
    ));
    viewing.attach_to(producer.session, Seek::Beginning);
    let read = |viewing: &mut Viewing, offset, size| match ask(
        viewing,
        &Request::Packet { stream, offset, size },
    )
    .unwrap()
    {
        viewer::Reply::Packet { bytes, .. } => bytes.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&mut viewing, 0, u32::MAX), 16);
    assert_eq!(read(&mut viewing, u64::MAX, u32::MAX), 0);
    assert_eq!(read(&mut viewing, 16, 1), 0);
}
