//! Tests with a relay on loopback: what is below its directory is what the forwarder was given.

use crate::forwarder::{Forwarder, SessionName, Totals};
use crate::target::Target;
use blkkin_ctf::metadata::unpack;
use blkkin_relay::{Addresses, Options, Relay};
use blkkin_sys::testing::Scratch;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

const METADATA: &str = "/* CTF 1.8 */\n\
    typealias integer { size = 32; align = 8; } := u32;\n\
    trace { major = 1; minor = 8; byte_order = le; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\";\n\
    packet.header := struct { u32 magic; }; };\n\
    stream { };\n";

/// A directory with traces, and a relay with its own directory.
struct Fixture {
    from: Scratch,
    to: Scratch,
    relay: Relay,
}

impl Fixture {
    fn new() -> Fixture {
        let (from, to) = (Scratch::new("forward"), Scratch::new("forwarded"));
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let addresses = Addresses { control: free, data: free, viewers: free };
        let options = Options { addresses, output: to.0.clone(), connections_max: 10 };
        let relay = Relay::start(options, |_| {}).expect("a relay");
        Fixture { from, to, relay }
    }

    fn connect(&self) -> Forwarder {
        let Addresses { control, data, .. } = self.relay.addresses();
        let target = Target {
            host: "127.0.0.1".to_owned(),
            control_port: control.port(),
            data_port: data.port(),
        };
        let (host, name) = ("node".to_owned(), "web".to_owned());
        let session = SessionName { host, name, producer: [1; 16] };
        Forwarder::connect(&target, &session, &self.from.0).expect("a session")
    }

    /// Returns the path of a file at the relay.
    fn at_relay(&self, forwarder: &Forwarder, path: &str) -> PathBuf {
        self.to.0.join(forwarder.path()).join(path)
    }
}

/// Writes a trace without packets.
fn make_trace(directory: &Path) {
    fs::create_dir_all(directory.join("index")).unwrap();
    fs::write(directory.join("metadata"), METADATA).unwrap();
}

/// Appends packets of 8 bytes and 4 bytes of padding, and their index entries.
fn append(directory: &Path, stream: &str, packets: u64) {
    use std::io::Write;
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
    for number in 0..packets {
        let offset = size + number * 12;
        let packet = [&0xc1fc_1fc1_u32.to_le_bytes()[..], &(offset as u32).to_le_bytes(), &[0; 4]];
        data.write_all(&packet.concat()).unwrap();
        let entry = [offset, 12 * 8, 8 * 8, offset, offset + 1, 0, 0, 0, offset / 12];
        index.write_all(&entry.map(u64::to_be_bytes).concat()).unwrap();
    }
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
    let mut forwarder = fixture.connect();
    let no_warning = |line: &str| panic!("{line}");
    assert_eq!(forwarder.send(no_warning).unwrap(), 0);
    make_trace(&trace);
    append(&trace, "ch_0", 3);
    assert_eq!(forwarder.send(no_warning).unwrap(), 3);
    // New metadata, a new stream, and a trace that appears later.
    fs::write(trace.join("metadata"), format!("{METADATA}event {{ id = 1; name = a; }};\n"))
        .unwrap();
    append(&trace, "ch_0", 300);
    append(&trace, "ch_1", 1);
    let other = fixture.from.0.join("ust/pid/b");
    make_trace(&other);
    append(&other, "ch_0", 2);
    assert_eq!(forwarder.send(no_warning).unwrap(), 303);
    assert_eq!(forwarder.send(no_warning).unwrap(), 0);
    let at = |path: &str| fixture.at_relay(&forwarder, path);
    let (to, to_other) = (at("ust/pid/a"), at("ust/pid/b"));
    let totals = forwarder.end().unwrap();
    assert_eq!(totals, Totals { traces: 2, packets: 306, bytes: 306 * 8 });
    check_equal(&trace, &to, &["ch_0", "ch_1"]);
    check_equal(&other, &to_other, &["ch_0"]);
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
    let mut forwarder = fixture.connect();
    let mut warnings = Vec::new();
    for _ in 0..2 {
        forwarder.send(|line| warnings.push(line.to_owned())).unwrap();
    }
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let to = fixture.at_relay(&forwarder, "good");
    forwarder.end().unwrap();
    check_equal(&good, &to, &["ch_0"]);
}

/// Damage of an index is an error with its place, never a panic or a large allocation.
#[test]
fn damaged_indexes_are_errors() {
    for (offset, bytes) in
        [(0, [0; 8]), (8, [0xff; 8]), (24, [0xff; 8]), (24, [0, 0, 0, 0, 0, 0, 0, 7])]
    {
        let fixture = Fixture::new();
        let trace = fixture.from.0.join("a");
        make_trace(&trace);
        append(&trace, "ch_0", 1);
        let path = trace.join("index/ch_0.idx");
        let mut index = fs::read(&path).unwrap();
        index[offset..offset + 8].copy_from_slice(&bytes);
        fs::write(&path, index).unwrap();
        let mut forwarder = fixture.connect();
        let error = forwarder.send(|line| panic!("{line}")).unwrap_err();
        assert!(error.to_string().contains("ch_0.idx"), "{error}");
    }
}

#[test]
fn a_relay_that_is_missing_is_an_error() {
    let fixture = Fixture::new();
    let mut forwarder = fixture.connect();
    let trace = fixture.from.0.join("a");
    make_trace(&trace);
    append(&trace, "ch_0", 1);
    drop(fixture.relay);
    assert!(forwarder.send(|_| {}).is_err());
}
