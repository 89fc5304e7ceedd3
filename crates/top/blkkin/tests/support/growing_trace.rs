//! Recording in progress: a trace to which tests append packets, as a tracer does.

use super::recipe;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Trace with two event classes (`a`, `b`, each with a number `x`) in streams with sequence numbers
/// and counters of lost events.
pub struct Growing {
    pub path: PathBuf,
    /// Last byte of the trace's UUID.
    id: u8,
}

/// Packet to append, with its stream and sequence number.
#[derive(Clone, Copy)]
pub struct Packet<'e> {
    pub stream: u64,
    pub seq: u64,
    /// Start and end of the packet, in nanoseconds.
    pub time: (u64, u64),
    pub lost: u64,
    /// Class id, time, and number `x` of each event.
    pub events: &'e [(u8, u64, u8)],
}

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; uuid = "10111213-1415-1617-1819-1a1b1c1d1eID";
  packet.header := struct { u32 magic; u8 uuid[16]; u64 stream_instance_id; };
};
clock { name = c; freq = 1000000000; offset_s = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
  packet.context := struct {
    time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size;
    u64 packet_seq_num; u64 events_discarded; u64 cpu_id;
  };
  event.header := struct { u8 id; time timestamp; };
};
event { name = a; id = 0; fields := struct { u8 x; }; };
"#;

/// Declaration of the second event class, which is missing in the metadata at the start.
pub const LATER_METADATA: &str = "event { name = b; id = 1; fields := struct { u8 x; }; };\n";

impl Growing {
    /// Creates a trace without streams.
    pub fn begin(path: &Path, id: u8) -> Growing {
        let growing = Growing { path: path.to_owned(), id };
        fs::create_dir_all(path).expect("to make a folder");
        growing.append("metadata", METADATA.replace("ID", &format!("{id:02x}")).as_bytes());
        growing
    }

    /// Appends bytes to a file of the trace.
    pub fn append(&self, file: &str, bytes: &[u8]) {
        let path = self.path.join(file);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let mut file = file.unwrap_or_else(|error| panic!("{path:?}: {error}"));
        file.write_all(bytes).expect("to write");
    }

    /// Appends a packet to the file of its stream.
    pub fn packet(&self, packet: Packet<'_>) {
        self.append(&format!("stream_{}", packet.stream), &self.bytes(packet));
    }

    pub fn bytes(&self, packet: Packet<'_>) -> Vec<u8> {
        let Packet { stream, seq, time: (begin, end), lost, events } = packet;
        let id = self.id;
        let mut text = format!(
            "packet u32le 0xc1fc1fc1 101112131415161718191a1b1c1d1e{id:02x} u64le {stream}\n\
             u64le {begin} u64le {end} content32le size32le u64le {seq} u64le {lost}\n\
             u64le {stream}\n"
        );
        for (class, time, x) in events {
            text.push_str(&format!("u8 {class} u64le {time} u8 {x}\n"));
        }
        text.push_str("end fill 16 00\n");
        recipe::bytes(&text.lines().collect::<Vec<_>>()).expect("a packet")
    }
}

/// Writes a trace that is small but slow to read: a thousand hard links to one stream file. Each
/// link counts as a stream, as the streams have no ids.
pub fn write_slow_trace(path: &Path) {
    let growing = Growing::begin(path, 1);
    let metadata = growing.path.join("metadata");
    let text = fs::read_to_string(&metadata).expect("to read");
    let text = text.replace("u64 stream_instance_id;", "u64 no_id;");
    fs::write(&metadata, text).expect("to write");
    let events: Vec<(u8, u64, u8)> = (0..2000).map(|time| (0, time, time as u8)).collect();
    let packet = Packet { stream: 0, seq: 0, time: (0, 2000), lost: 0, events: &events };
    let mut bytes = growing.bytes(packet);
    // Offsets of the packet's start and end and of the events' times.
    let begins = [28, 36].into_iter().chain((0..2000).map(|event| 77 + 10 * event));
    let places: Vec<usize> = begins.collect();
    for seq in 0..300u64 {
        bytes[52..60].copy_from_slice(&seq.to_le_bytes());
        growing.append("stream_0", &bytes);
        for place in &places {
            let time = &mut bytes[*place..*place + 8];
            let later = u64::from_le_bytes(time.try_into().expect("eight bytes")) + 2000;
            time.copy_from_slice(&later.to_le_bytes());
        }
    }
    for number in 1..1000 {
        let name = growing.path.join(format!("stream_{number}"));
        fs::hard_link(growing.path.join("stream_0"), name).expect("another name");
    }
}
