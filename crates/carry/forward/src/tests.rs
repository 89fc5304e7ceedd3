//! Tests with a relay on loopback: what is below its directory is what was to be delivered.

use crate::delivery::{Delivery, Persistence, Report};
use crate::forwarder::{SessionName, Totals};
use crate::sent_positions::SentPositions;
use crate::target::Target;
use crate::trimmer::{Dropped, Trimmer};
use blkkin_control::{COMPLETE_FILE, CompleteTime};
use blkkin_ctf::clock_offsets::{self, Measurements};
use blkkin_ctf::metadata::unpack;
use blkkin_lttng::viewer::{Reply, Request, RequestKind, Seek};
use blkkin_relay::{Addresses, Admission, Options, Relay};
use blkkin_sys::testing::Scratch;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const METADATA: &str = "/* CTF 1.8 */\n\
    typealias integer { size = 32; align = 8; } := u32;\n\
    trace { major = 1; minor = 8; byte_order = le; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\";\n\
    packet.header := struct { u32 magic; }; };\n\
    clock { name = c; freq = 1000000000; };\n\
    stream { };\n";

/// A directory with traces, and a relay with its own directory.
struct Fixture {
    from: Scratch,
    to: Scratch,
    relay: Option<Relay>,
    addresses: Addresses,
}

/// A delivery on a thread.
struct Running {
    thread: JoinHandle<io::Result<Totals>>,
    ending: UnixStream,
    reports: Receiver<String>,
}

const TIMEOUT: Duration = Duration::from_secs(20);

fn start_relay(addresses: Addresses, output: &Path) -> Relay {
    let (output, admission) = (output.to_owned(), Admission::default());
    let options = Options { addresses, output, connections_max: 10, admission };
    Relay::start(options, |_| {}).expect("a relay")
}

impl Fixture {
    fn new() -> Fixture {
        let (from, to) = (Scratch::new("forward"), Scratch::new("forwarded"));
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay = start_relay(Addresses { control: free, data: free, viewers: free }, &to.0);
        let addresses = relay.addresses();
        Fixture { from, to, relay: Some(relay), addresses }
    }

    fn delivery(&self, persistence: Persistence) -> Delivery {
        let target = Target {
            is_secure: false,
            host: "127.0.0.1".to_owned(),
            control_port: self.addresses.control.port(),
            data_port: self.addresses.data.port(),
        };
        let (host, name) = ("node".to_owned(), "web".to_owned());
        let session = SessionName { host, name, producer: [1; 16] };
        Delivery::new(target, session, &self.from.0, persistence)
    }

    fn stop_relay(&mut self) {
        self.relay = None;
    }

    /// Starts a relay on the same ports, as soon as they are free.
    fn restart_relay(&mut self) {
        self.stop_relay();
        self.relay = Some(start_relay(self.addresses, &self.to.0));
    }

    /// Returns the packets of a stream at the relay, from all sessions in their order.
    fn packets_at_relay(&self, stream: &str) -> Vec<u8> {
        let mut found = Vec::new();
        collect(&self.to.0, stream, &mut found);
        found.sort();
        found.iter().flat_map(|path| fs::read(path).unwrap()).collect()
    }
}

fn collect(directory: &Path, name: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, name, found),
            false if path.ends_with(name) => found.push(path),
            false => {}
        }
    }
}

impl Running {
    fn start(mut delivery: Delivery) -> Running {
        let (ending, told) = UnixStream::pair().unwrap();
        let (sender, reports) = channel();
        let work = move || {
            delivery.run(told.as_fd(), &mut |report| {
                let line = match report {
                    Report::Connected(path) => format!("connected {path}"),
                    Report::Lost(_) => "lost".to_owned(),
                    Report::Damaged(line) => format!("damaged {line}"),
                    Report::Progress(totals, true) => format!("has {}", totals.packets),
                    Report::Progress(_, false) => "misses some".to_owned(),
                };
                let _ = sender.send(line);
            })
        };
        Running { thread: std::thread::spawn(work), ending, reports }
    }

    /// Waits for a report that begins with `prefix`, and returns the rest of its line.
    fn await_report(&self, prefix: &str) -> String {
        let until = Instant::now() + TIMEOUT;
        while let Ok(line) = self.reports.recv_timeout(until - Instant::now()) {
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.trim().to_owned();
            }
        }
        panic!("no report {prefix}");
    }

    fn end(mut self) -> io::Result<Totals> {
        // A delivery that has failed already has closed its end.
        if let Err(error) = self.ending.write_all(b"e") {
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
        self.thread.join().unwrap()
    }
}

/// Runs a delivery of what is in the directory. Returns the totals, the path at the relay and the
/// traces that could not be sent.
fn deliver(fixture: &Fixture) -> (io::Result<Totals>, PathBuf, Vec<String>) {
    let (mut path, mut damaged) = (PathBuf::new(), Vec::new());
    let (ending, mut end) = UnixStream::pair().unwrap();
    end.write_all(b"e").unwrap();
    let totals =
        fixture.delivery(Persistence::Once).run(ending.as_fd(), &mut |report| match report {
            Report::Connected(at) => path = fixture.to.0.join(at),
            Report::Damaged(line) => damaged.push(line.to_owned()),
            _ => {}
        });
    (totals, path, damaged)
}

/// Writes a trace without packets.
fn make_trace(directory: &Path) {
    fs::create_dir_all(directory.join("index")).unwrap();
    fs::write(directory.join("metadata"), METADATA).unwrap();
}

/// Appends packets of 8 bytes and 4 bytes of padding, and their index entries.
fn append(directory: &Path, stream: &str, packets: u64) {
    let open = |path: PathBuf| {
        let file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        let size = file.metadata().unwrap().len();
        (file, size)
    };
    let (mut data, size) = open(directory.join(stream));
    let (mut index, index_size) = open(directory.join("index").join(format!("{stream}.idx")));
    if index_size == 0 {
        index.write_all(&[0xc1f1_dcc1_u32, 1, 1, 72].map(u32::to_be_bytes).concat()).unwrap();
    }
    let (mut bytes, mut entries) = (Vec::new(), Vec::new());
    for number in 0..packets {
        let offset = size + number * 12;
        bytes.extend([0xc1fc_1fc1, offset as u32, 0].map(u32::to_le_bytes).concat());
        let entry = [offset, 12 * 8, 8 * 8, offset, offset + 1, 0, 0, 0, offset / 12];
        entries.extend(entry.map(u64::to_be_bytes).concat());
    }
    data.write_all(&bytes).unwrap();
    index.write_all(&entries).unwrap();
}

#[track_caller]
fn check_equal(from: &Path, to: &Path, streams: &[&str]) {
    for name in streams {
        let index = format!("index/{name}.idx");
        for path in [*name, &index] {
            assert_eq!(
                fs::read(from.join(path)).unwrap(),
                fs::read(to.join(path)).unwrap(),
                "{path}"
            );
        }
    }
    let text = |path: &Path| unpack(fs::read(path.join("metadata")).unwrap()).unwrap().text;
    assert_eq!(text(from).trim_end(), text(to).trim_end());
}

#[test]
fn a_growing_trace_arrives_as_it_is() {
    let fixture = Fixture::new();
    let trace = fixture.from.0.join("ust/pid/a");
    let running = Running::start(fixture.delivery(Persistence::Follow));
    let path = fixture.to.0.join(running.await_report("connected"));
    make_trace(&trace);
    append(&trace, "ch_0", 3);
    assert_eq!(running.await_report("has"), "3");
    // New metadata, a new stream, and a trace that appears later.
    let more = format!("{METADATA}event {{ id = 1; name = a; }};\n");
    fs::write(trace.join(".metadata.new"), more).unwrap();
    fs::rename(trace.join(".metadata.new"), trace.join("metadata")).unwrap();
    append(&trace, "ch_0", 3000);
    append(&trace, "ch_1", 1);
    let other = fixture.from.0.join("ust/pid/b");
    make_trace(&other);
    append(&other, "ch_0", 2);
    let totals = running.end().unwrap();
    let bytes = 3006 * 8;
    assert_eq!(totals, Totals { traces: 2, packets: 3006, bytes, bytes_removed: 0 });
    check_equal(&trace, &path.join("ust/pid/a"), &["ch_0", "ch_1"]);
    check_equal(&other, &path.join("ust/pid/b"), &["ch_0"]);
}

/// Reads the offsets beside a trace at the relay.
fn offsets_of(trace: &Path) -> Measurements {
    Measurements::parse(&fs::read(trace.join(clock_offsets::FILE)).unwrap()).unwrap()
}

/// Each session has the measurements of those before, so that what is sent twice has one time.
#[test]
fn offsets_of_clocks_are_beside_each_trace() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("ust/pid/a");
    make_trace(&trace);
    append(&trace, "ch_0", 3);
    let start = |fixture: &Fixture| {
        let delivery = fixture.delivery(Persistence::Forever).remove_delivered();
        Running::start(delivery.resume().unwrap())
    };
    let running = start(&fixture);
    let path = fixture.to.0.join(running.await_report("connected"));
    assert_eq!(running.await_report("has"), "3");
    let first = offsets_of(&path.join("ust/pid/a"));
    assert_eq!(Some(first.boot.to_string()), blkkin_sys::boot_id());
    let [one] = first.list[..] else { panic!("{first:?}") };
    // The relay is on this machine: nobody has set its clock meanwhile.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let origin = now - blkkin_sys::monotonic_ns();
    let off = (one.reference_ns - one.monotonic_ns).abs_diff(origin);
    assert!(off <= one.error_ns + 1_000_000_000, "{off} ns off: {one:?}");
    // Another connection of the same process.
    fixture.restart_relay();
    running.await_report("lost");
    let path = fixture.to.0.join(running.await_report("connected"));
    let other = fixture.from.0.join("ust/pid/b");
    make_trace(&other);
    append(&other, "ch_0", 2);
    running.await_report("has");
    let second = offsets_of(&path.join("ust/pid/b"));
    assert_eq!(second.list[..1], [one]);
    assert_eq!(second.list.len(), 2, "{second:?}");
    // Another process, after this one was killed: it leaves its file.
    let kept = fixture.from.0.join(clock_offsets::FILE);
    let text = fs::read(&kept).unwrap();
    running.end().unwrap();
    assert!(!kept.exists(), "a delivery that has ended leaves nothing");
    fs::create_dir_all(&fixture.from.0).unwrap();
    fs::write(&kept, text).unwrap();
    let last = fixture.from.0.join("ust/pid/c");
    make_trace(&last);
    append(&last, "ch_0", 2);
    let running = start(&fixture);
    let path = fixture.to.0.join(running.await_report("connected"));
    running.await_report("has");
    let third = offsets_of(&path.join("ust/pid/c"));
    assert_eq!(third.list[..2], second.list);
    assert_eq!(third.list.len(), 3, "{third:?}");
    running.end().unwrap();
}

/// A viewer that waits for news.
struct Viewer {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Viewer {
    /// Attaches to the only session, whose only trace has metadata.
    fn attach(address: SocketAddr) -> Viewer {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut viewer = Viewer { socket, buffer: Vec::new() };
        viewer.ask(Request::connect());
        let Reply::Sessions(sessions) = viewer.ask(Request::ListSessions { with_ended: false })
        else {
            panic!()
        };
        viewer.ask(Request::CreateViewerSession);
        let (session, seek) = (sessions[0].id, Some(Seek::Beginning));
        let Reply::Attached { streams, .. } = viewer.ask(Request::Attach { session, seek }) else {
            panic!()
        };
        for stream in streams.iter().filter(|stream| stream.is_metadata) {
            viewer.ask(Request::Metadata { stream: stream.id });
        }
        viewer.send(Request::Await { room: 1 << 20, count: 1000, timeout_ms: 0 });
        viewer
    }

    fn send(&mut self, request: Request) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.socket.write_all(&bytes).unwrap();
    }

    fn reply(&mut self, kind: RequestKind) -> Reply {
        let mut part = [0; 4096];
        loop {
            if let Some((reply, size)) = Reply::decode(kind, &self.buffer).unwrap() {
                self.buffer.drain(..size);
                return reply;
            }
            let size = self.socket.read(&mut part).unwrap();
            assert_ne!(size, 0, "the relay has closed the connection");
            self.buffer.extend_from_slice(&part[..size]);
        }
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.send(request);
        self.reply(request.kind().unwrap())
    }

    /// Returns the number of packets that come before the session is complete up to a time.
    fn packets_until(&mut self, complete_ns: u64) -> usize {
        let mut packets = 0;
        loop {
            let Reply::News(news) = self.reply(RequestKind::Await) else { panic!() };
            packets += news.streams.iter().filter(|one| !one.bytes.is_empty()).count();
            if news.sessions.iter().any(|session| session.complete_ns == complete_ns) {
                return packets;
            }
        }
    }
}

/// The declarations of the recorder reach viewers with the packets before.
#[test]
fn sessions_are_declared_complete() {
    let fixture = Fixture::new();
    let declare = |until_ns: u64| {
        let content = CompleteTime { until_ns }.encode();
        let path = fixture.from.0.join(COMPLETE_FILE);
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
        file.unwrap().write_all(&content).unwrap();
    };
    let trace = fixture.from.0.join("ust/pid/a");
    make_trace(&trace);
    append(&trace, "ch_0", 2);
    declare(5000);
    let running = Running::start(fixture.delivery(Persistence::Follow));
    assert_eq!(running.await_report("has"), "2");
    let mut viewer = Viewer::attach(fixture.addresses.viewers);
    assert_eq!(viewer.packets_until(5000), 2);
    for round in 1..=3 {
        append(&trace, "ch_0", 40);
        declare(5000 + round);
        assert_eq!(viewer.packets_until(5000 + round), 40);
    }
    // A recorder that declares nothing more is followed all the same.
    append(&trace, "ch_0", 7);
    assert_eq!(running.await_report("has 129"), "");
    running.end().unwrap();
    assert!(!fixture.from.0.join(COMPLETE_FILE).exists());
}

#[test]
fn a_trace_that_cannot_be_sent_is_told_once_and_others_are_sent() {
    let fixture = Fixture::new();
    let bad = fixture.from.0.join("bad");
    make_trace(&bad);
    fs::write(bad.join("metadata"), "/* CTF 1.8 */ trace {").unwrap();
    let good = fixture.from.0.join("good");
    make_trace(&good);
    append(&good, "ch_0", 1);
    let (totals, path, damaged) = deliver(&fixture);
    assert_eq!(totals.unwrap().packets, 1);
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    check_equal(&good, &path.join("good"), &["ch_0"]);
}

/// Damage of an index is reported with its place, costs no large allocation, and does not keep
/// other traces from being sent.
#[test]
fn damaged_indexes_are_reported() {
    for (offset, bytes) in
        [(0, [0; 8]), (8, [0xff; 8]), (24, [0xff; 8]), (24, [0, 0, 0, 0, 0, 0, 0, 7])]
    {
        let fixture = Fixture::new();
        for name in ["a", "b"] {
            let trace = fixture.from.0.join(name);
            make_trace(&trace);
            append(&trace, "ch_0", 1);
        }
        let path = fixture.from.0.join("a/index/ch_0.idx");
        let mut index = fs::read(&path).unwrap();
        index[offset..offset + 8].copy_from_slice(&bytes);
        fs::write(&path, index).unwrap();
        let (totals, path, damaged) = deliver(&fixture);
        assert_eq!(totals.unwrap().packets, 1);
        assert!(damaged.iter().any(|line| line.contains("ch_0.idx")), "{damaged:?}");
        check_equal(&fixture.from.0.join("b"), &path.join("b"), &["ch_0"]);
    }
}

#[test]
fn a_relay_that_is_missing_is_an_error_at_first_and_at_the_end() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("a");
    make_trace(&trace);
    let running = Running::start(fixture.delivery(Persistence::Follow));
    running.await_report("connected");
    fixture.stop_relay();
    append(&trace, "ch_0", 1);
    running.await_report("lost");
    assert!(running.end().is_err());
    for persistence in [Persistence::Once, Persistence::Follow] {
        let running = Running::start(fixture.delivery(persistence));
        assert!(running.end().is_err());
    }
}

/// Each packet that a relay has acknowledged is sent once, over all its restarts and those of the
/// sender. The packets here are numbered.
#[test]
fn acknowledged_packets_are_sent_once() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("a");
    make_trace(&trace);
    let resumed = |fixture: &Fixture| {
        Running::start(fixture.delivery(Persistence::Forever).resume().unwrap())
    };
    let mut running = resumed(&fixture);
    running.await_report("connected");
    let mut expected = 0;
    for round in 0..3 {
        append(&trace, "ch_0", 50);
        expected += 50;
        running.await_report("has");
        match round {
            // The relay ends while nothing is under way.
            0 => {
                fixture.stop_relay();
                running.await_report("lost");
                fixture.restart_relay();
                running.await_report("connected");
            }
            // The sender is told to end, and another one continues.
            1 => {
                running.end().unwrap();
                running = resumed(&fixture);
                running.await_report("connected");
            }
            // Packets wait while the relay is away.
            _ => {
                fixture.stop_relay();
                append(&trace, "ch_0", 50);
                expected += 50;
                running.await_report("lost");
                fixture.restart_relay();
                running.await_report("has");
            }
        }
    }
    running.end().unwrap();
    let numbers: Vec<u32> = fixture
        .packets_at_relay("ch_0")
        .chunks(12)
        .map(|packet| u32::from_le_bytes(packet[4..8].try_into().unwrap()) / 12)
        .collect();
    assert_eq!(numbers, (0..expected).collect::<Vec<u32>>());
}

/// A session that is cleared begins again, also if it has more packets than before when the sender
/// looks.
#[test]
fn cleared_streams_begin_again() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("a");
    make_trace(&trace);
    append(&trace, "ch_0", 5);
    let running = Running::start(fixture.delivery(Persistence::Forever));
    running.await_report("has");
    fixture.stop_relay();
    running.await_report("lost");
    // The packets after the clearing have other numbers and times.
    fs::write(trace.join("ch_1"), []).unwrap();
    append(&trace, "ch_1", 20);
    let (data, index) = (fs::read(trace.join("ch_1")), fs::read(trace.join("index/ch_1.idx")));
    let (data, index) = (data.unwrap(), index.unwrap());
    for name in ["ch_1", "index/ch_1.idx"] {
        fs::remove_file(trace.join(name)).unwrap();
    }
    let entries: Vec<u8> = index[16..]
        .chunks(72)
        .skip(10)
        .enumerate()
        .flat_map(|(number, entry)| [&(12 * number as u64).to_be_bytes(), &entry[8..]].concat())
        .collect();
    fs::write(trace.join("index/ch_0.idx"), [&index[..16], &entries].concat()).unwrap();
    fs::write(trace.join("ch_0"), &data[120..]).unwrap();
    fixture.restart_relay();
    running.await_report("connected");
    running.await_report("has");
    running.end().unwrap();
    let packets = fixture.packets_at_relay("ch_0");
    let numbers: Vec<u32> = packets
        .chunks(12)
        .map(|packet| u32::from_le_bytes(packet[4..8].try_into().unwrap()) / 12)
        .collect();
    assert_eq!(numbers, (0..5).chain(10..20).collect::<Vec<u32>>());
}

/// A spool gives back the space of what has arrived, and removes traces that have ended.
#[test]
fn a_spool_removes_what_has_arrived() {
    let fixture = Fixture::new();
    let trace = fixture.from.0.join("a");
    make_trace(&trace);
    fs::write(trace.join(".recording"), "").unwrap();
    append(&trace, "ch_0", 100_000);
    let blocks = |name: &str| fs::metadata(trace.join(name)).unwrap().blocks();
    let before = (blocks("ch_0"), blocks("index/ch_0.idx"));
    let delivery = fixture.delivery(Persistence::Forever).resume().unwrap().remove_delivered();
    let running = Running::start(delivery);
    let until = Instant::now() + TIMEOUT;
    while blocks("ch_0") * 10 > before.0 || blocks("index/ch_0.idx") * 10 > before.1 {
        assert!(Instant::now() < until, "{before:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A recorder continues from the last packet.
    let last = fs::read(trace.join("ch_0")).unwrap();
    assert_eq!(last[last.len() - 8..][..4], (12 * 99_999_u32).to_le_bytes());
    append(&trace, "ch_0", 1);
    fs::remove_file(trace.join(".recording")).unwrap();
    while trace.exists() {
        assert!(Instant::now() < until, "the trace stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    let totals = running.end().unwrap();
    assert_eq!((totals.packets, totals.bytes_removed), (100_001, 12 * 100_001));
    assert!(!fixture.from.0.exists(), "the empty directory stays");
    assert_eq!(fixture.packets_at_relay("ch_0").len(), 12 * 100_001);
}

/// Returns the numbers of packets at the relay, as [`append`] has written them.
fn numbers_at_relay(fixture: &Fixture, stream: &str) -> Vec<u64> {
    let packets = fixture.packets_at_relay(stream);
    let number =
        |packet: &[u8]| u64::from(u32::from_le_bytes(packet[4..8].try_into().unwrap())) / 12;
    packets.chunks(12).map(number).collect()
}

/// Returns the space that a stream's file takes, in bytes.
fn space(trace: &Path, stream: &str) -> u64 {
    fs::metadata(trace.join(stream)).unwrap().blocks() * 512
}

/// While the relay is away, the oldest packets of all streams are dropped: those with the earliest
/// ends. The rest arrives, and all is counted once as removed.
#[test]
fn the_oldest_packets_are_dropped() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("ust/pid/a");
    make_trace(&trace);
    fs::write(trace.join(".recording"), "").unwrap();
    append(&trace, "ch_0", 1);
    let sent = Arc::<SentPositions>::default();
    let mut trimmer = Trimmer::new(fixture.from.0.clone(), sent.clone());
    // What was acknowledged is not known yet.
    assert_eq!(trimmer.drop_oldest(1), Dropped::default());
    let delivery = fixture.delivery(Persistence::Follow).with_positions(sent);
    let running = Running::start(delivery.resume().unwrap().remove_delivered());
    assert_eq!(running.await_report("has"), "1");
    fixture.stop_relay();
    running.await_report("lost");
    append(&trace, "ch_0", 3000);
    append(&trace, "ch_1", 2000);
    let before = space(&trace, "ch_0");
    let dropped = trimmer.drop_oldest(3000 * 12);
    assert_eq!(dropped, Dropped { packets: 3000, bytes: 3000 * 12 });
    assert!(space(&trace, "ch_0") < before);
    let more = trimmer.drop_oldest(100);
    assert_eq!(more, Dropped { packets: 9, bytes: 9 * 12 });
    fs::remove_file(trace.join(".recording")).unwrap();
    fixture.restart_relay();
    running.await_report("has");
    let totals = running.end().unwrap();
    assert_eq!(totals.packets, 1 + 5000 - 3009);
    assert_eq!(totals.bytes_removed + 3009 * 12, 5001 * 12);
    let (first, second) = (numbers_at_relay(&fixture, "ch_0"), numbers_at_relay(&fixture, "ch_1"));
    assert_eq!((first[0], *first.last().unwrap(), *second.last().unwrap()), (0, 3000, 1999));
    // Both streams have dropped packets of the same time. Their first ones show where they are
    // missing.
    assert_eq!(second[0], 0);
    assert!(first[1].abs_diff(second[1]) <= 1, "{} {}", first[1], second[1]);
    for numbers in [&first[1..], &second[1..]] {
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
}

/// Streams of traces that have ended lose their first and last packets, too, if there are no
/// others. The relay gets what was recorded later.
#[test]
fn traces_that_have_ended_are_dropped_whole() {
    let mut fixture = Fixture::new();
    let sent = Arc::<SentPositions>::default();
    let mut trimmer = Trimmer::new(fixture.from.0.clone(), sent.clone());
    let delivery = fixture.delivery(Persistence::Follow).with_positions(sent);
    let running = Running::start(delivery.resume().unwrap().remove_delivered());
    running.await_report("connected");
    fixture.stop_relay();
    running.await_report("lost");
    let [ended, recorded] = ["a", "b"].map(|name| fixture.from.0.join("ust/pid").join(name));
    make_trace(&ended);
    append(&ended, "ch_0", 3);
    append(&ended, "ch_1", 1);
    make_trace(&recorded);
    fs::write(recorded.join(".recording"), "").unwrap();
    append(&recorded, "ch_0", 4);
    assert_eq!(trimmer.drop_oldest(1), Dropped { packets: 1, bytes: 12 });
    assert_eq!(trimmer.drop_oldest(2 * 12), Dropped { packets: 2, bytes: 2 * 12 });
    assert_eq!(trimmer.drop_oldest(1 << 30), Dropped { packets: 3, bytes: 3 * 12 });
    assert_eq!(trimmer.drop_oldest(1 << 30), Dropped::default());
    fs::remove_file(recorded.join(".recording")).unwrap();
    fixture.restart_relay();
    running.await_report("has");
    let totals = running.end().unwrap();
    assert_eq!((totals.packets, totals.bytes_removed), (2, 2 * 12));
    assert!(!ended.exists() && !recorded.exists());
}

/// After `session clear`, positions of packets that were sent before do not hold.
#[test]
fn cleared_streams_are_dropped_from_their_beginnings() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("ust/pid/a");
    make_trace(&trace);
    fs::write(trace.join(".recording"), "").unwrap();
    append(&trace, "ch_0", 50);
    let sent = Arc::<SentPositions>::default();
    let mut trimmer = Trimmer::new(fixture.from.0.clone(), sent.clone());
    let delivery = fixture.delivery(Persistence::Follow).with_positions(sent);
    let running = Running::start(delivery.resume().unwrap().remove_delivered());
    assert_eq!(running.await_report("has"), "50");
    fixture.stop_relay();
    running.await_report("lost");
    for path in ["ch_0", "index/ch_0.idx"] {
        fs::remove_file(trace.join(path)).unwrap();
    }
    // The offsets are the times of packets, too.
    let data = fs::File::create(trace.join("ch_0")).unwrap();
    data.set_len(1200).unwrap();
    append(&trace, "ch_0", 9);
    assert_eq!(trimmer.drop_oldest(1 << 30), Dropped { packets: 8, bytes: 8 * 12 });
    append(&trace, "ch_0", 60);
    assert_eq!(trimmer.drop_oldest(12), Dropped { packets: 1, bytes: 12 });
    fixture.restart_relay();
    running.await_report("connected");
    fs::remove_file(trace.join(".recording")).unwrap();
    assert_eq!(running.end().unwrap().packets, 50 + 69 - 9);
}

/// Each packet is sent or counted as dropped, whatever the sender does meanwhile. The last packet
/// of a stream is never dropped.
#[test]
fn packets_are_sent_or_dropped() {
    let mut fixture = Fixture::new();
    let trace = fixture.from.0.join("ust/pid/a");
    make_trace(&trace);
    fs::write(trace.join(".recording"), "").unwrap();
    let sent = Arc::<SentPositions>::default();
    let mut trimmer = Trimmer::new(fixture.from.0.clone(), sent.clone());
    let delivery = fixture.delivery(Persistence::Follow).with_positions(sent);
    let running = Running::start(delivery.resume().unwrap().remove_delivered());
    running.await_report("connected");
    let (mut dropped, mut written) = (0, 0);
    for round in 0..60 {
        if round == 20 {
            fixture.stop_relay();
        }
        if round == 40 {
            fixture.restart_relay();
        }
        append(&trace, "ch_0", 500);
        written += 500;
        dropped += trimmer.drop_oldest(200 * 12).packets;
    }
    dropped += trimmer.drop_oldest(u64::MAX).packets;
    fs::remove_file(trace.join(".recording")).unwrap();
    running.end().unwrap();
    let mut numbers = numbers_at_relay(&fixture, "ch_0");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64 + dropped, written);
    assert!(dropped > 0);
    assert_eq!(numbers.last(), Some(&(written - 1)));
}
