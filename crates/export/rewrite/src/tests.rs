//! Tests of the rewriter, which compare the packets of the written trace with expected packets.

use crate::{Form, Rewriter, Summary};
use blkkin_ctf::schema::Version;
use blkkin_reader::{Event, Loss, PacketView, Reading, Source, Stream, Trace, Unordered};
use blkkin_sys::testing::Scratch;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le;
  packet.header := struct { u32 magic; u64 stream_instance_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
  packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size;
    u32 packet_size; u64 packet_seq_num; u64 events_discarded; u32 cpu_id; };
  event.header := struct { time timestamp; };
};
event { name = e; fields := struct { u32 x; }; };
";

/// A packet: begin, end, sequence number, total of lost events, CPU, and the times of its events.
type Packet<'e> = (u64, u64, u64, u64, u32, &'e [u64]);

fn bytes(instance: u64, packet: Packet<'_>) -> Vec<u8> {
    let (begin, end, seq, lost, cpu, events) = packet;
    let bits = (4 + 8 + 16 + 8 + 16 + 4 + 12 * events.len() as u32) * 8;
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend([instance, begin, end].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend([bits, bits].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend([seq, lost].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(cpu.to_le_bytes());
    for time in events {
        bytes.extend(time.to_le_bytes());
        bytes.extend((*time as u32).to_le_bytes());
    }
    bytes
}

/// Writes a trace with one file per stream. A stream is a file name, a stream id, and packets.
pub(crate) fn trace(path: &Path, streams: &[(&str, u64, &[Packet<'_>])]) {
    fs::create_dir_all(path).expect("to make a folder");
    fs::write(path.join("metadata"), METADATA).expect("to write");
    for (name, instance, packets) in streams {
        let bytes: Vec<u8> = packets.iter().flat_map(|packet| bytes(*instance, *packet)).collect();
        fs::write(path.join(name), bytes).expect("to write");
    }
}

/// Rewrites the trace `from` as `to`, in packets of about `packet_size` bytes.
fn rewrite(from: &Path, to: &Path, form: Form, packet_size: usize) -> Summary {
    let opened = blkkin_reader::open(&[Source::Path(from.to_owned())]);
    assert!(opened.problems.is_empty(), "{:?}", opened.problems);
    let (mut rewriter, refused) =
        Rewriter::new(&opened.traces, to, form, || false).expect("a place to write to");
    assert!(refused.is_empty(), "{refused:?}");
    rewriter.packet_size = packet_size;
    let stats = Reading::new(&opened.traces).ordered(&mut rewriter);
    assert!(stats.problems.is_empty(), "{:?}", stats.problems);
    rewriter.finish().expect("to write")
}

/// Packets of a written trace as tuples, with the stream id first.
#[derive(Default)]
struct Packets(Vec<(u64, u64, u64, u64, u64, Vec<u64>)>);

impl Unordered for Packets {
    fn packet(&mut self, _: &Trace, _: &Stream, packet: &PacketView<'_>) {
        let packet = packet.place.packet;
        let [begin, end, seq, lost] =
            [packet.begin, packet.end, packet.seq, packet.discarded].map(Option::unwrap_or_default);
        self.0.push((packet.instance.unwrap_or(99), begin, end, seq, lost, Vec::new()));
    }

    fn event(&mut self, event: &mut Event<'_>) {
        self.0.last_mut().expect("a packet").5.push(event.cycles());
    }

    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) {}
}

fn packets(path: &Path) -> Vec<(u64, u64, u64, u64, u64, Vec<u64>)> {
    let opened = blkkin_reader::open(&[Source::Path(path.to_owned())]);
    assert!(opened.problems.is_empty(), "{:?}", opened.problems);
    let (packets, stats) = Reading::new(&opened.traces).unordered(Packets::default);
    assert!(stats.problems.is_empty(), "{:?}", stats.problems);
    packets.into_iter().flat_map(|packets| packets.0).collect()
}

/// Checks that a stream of the packets `read` is rewritten as the packets `written`, in each CTF
/// version. CPUs are not compared.
#[track_caller]
fn check(packet_size: usize, read: &[Packet<'_>], written: &[Packet<'_>]) {
    for form in [Form::Same, Form::Version(Version::Ctf1), Form::Version(Version::Ctf2)] {
        let scratch = Scratch::new("rewrite");
        let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
        trace(&from, &[("stream", 7, read)]);
        let summary = rewrite(&from, &to, form, packet_size);
        let expected: Vec<_> = written
            .iter()
            .map(|(begin, end, seq, lost, _, events)| {
                (7, *begin, *end, *seq, *lost, events.to_vec())
            })
            .collect();
        assert_eq!(packets(&to), expected, "{form:?}");
        assert_eq!((summary.traces, summary.streams), (1, 1));
        assert_eq!(summary.packets, expected.len() as u64);
        let size = fs::metadata(to.join("stream")).expect("a stream").len();
        assert_eq!(summary.bytes, size);
    }
}

const LARGE: usize = 1 << 20;

#[test]
fn packets_are_joined_and_cut() {
    // Packets without a loss in between become one packet, from the first event to the last.
    check(
        LARGE,
        &[(0, 20, 0, 0, 1, &[5, 10]), (20, 30, 1, 0, 1, &[]), (30, 50, 2, 0, 1, &[30, 49])],
        &[(5, 49, 0, 0, 1, &[5, 10, 30, 49])],
    );
    // A different context begins a new packet.
    check(
        LARGE,
        &[(0, 20, 0, 0, 1, &[5, 10]), (20, 30, 1, 0, 2, &[25]), (30, 50, 2, 0, 1, &[30])],
        &[(5, 10, 0, 0, 1, &[5, 10]), (25, 25, 1, 0, 2, &[25]), (30, 30, 2, 0, 1, &[30])],
    );
    // The size limit begins a new packet, too; the minimum is one event per packet.
    check(
        1,
        &[(0, 20, 0, 0, 1, &[5, 10, 10, 15])],
        &[
            (5, 5, 0, 0, 1, &[5]),
            (10, 10, 1, 0, 1, &[10]),
            (10, 10, 2, 0, 1, &[10]),
            (15, 15, 3, 0, 1, &[15]),
        ],
    );
}

#[test]
fn losses_are_between_packets() {
    // Events lost until 40: the packet before the loss ends where the loss begins, the packet after
    // the loss ends where the loss ends.
    check(
        LARGE,
        &[(0, 20, 0, 0, 1, &[5]), (20, 40, 1, 3, 1, &[25]), (40, 50, 2, 3, 1, &[45])],
        &[(5, 20, 0, 0, 1, &[5]), (20, 40, 1, 3, 1, &[25]), (45, 45, 2, 3, 1, &[45])],
    );
    // Packets lost until 30.
    check(
        LARGE,
        &[(0, 20, 4, 0, 1, &[5]), (30, 40, 7, 0, 1, &[35]), (40, 50, 8, 0, 1, &[45])],
        &[(5, 20, 0, 0, 1, &[5]), (30, 45, 3, 0, 1, &[35, 45])],
    );
    // Losses of events and of packets, and consecutive losses.
    check(
        LARGE,
        &[(0, 20, 0, 1, 1, &[5]), (30, 40, 3, 4, 1, &[35]), (40, 50, 4, 5, 1, &[45])],
        &[(0, 20, 0, 1, 1, &[5]), (30, 40, 3, 4, 1, &[35]), (40, 50, 4, 5, 1, &[45])],
    );
    // Packets without events are written, too.
    check(
        LARGE,
        &[(0, 20, 0, 0, 1, &[]), (20, 40, 1, 3, 1, &[]), (50, 60, 4, 3, 1, &[])],
        &[(20, 20, 0, 0, 1, &[]), (20, 40, 1, 3, 1, &[]), (50, 50, 4, 3, 1, &[])],
    );
    // A split packet counts the losses before it only once.
    check(
        1,
        &[(0, 20, 0, 0, 1, &[5]), (20, 40, 1, 3, 1, &[25, 30]), (40, 50, 2, 4, 1, &[45])],
        &[
            (5, 5, 0, 0, 1, &[5]),
            (20, 20, 1, 0, 1, &[]),
            (20, 40, 2, 3, 1, &[25, 30]),
            (40, 50, 3, 4, 1, &[45]),
        ],
    );
}

/// A written stream has the stream id and the file name of its source stream. A number is appended
/// to a file name that readers reserve.
#[test]
fn streams_have_names_and_ids() {
    let scratch = Scratch::new("rewrite");
    let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
    let packet: &[Packet<'_>] = &[(0, 20, 0, 0, 1, &[5])];
    trace(&from, &[("channel_0", 0, packet), ("channel_1", 1, packet), ("index", 2, packet)]);
    rewrite(&from, &to, Form::Same, LARGE);
    let mut names: Vec<String> = fs::read_dir(&to)
        .expect("a trace")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["channel_0", "channel_1", "index_2", "metadata"]);
    let mut ids: Vec<u64> = packets(&to).iter().map(|packet| packet.0).collect();
    ids.sort();
    assert_eq!(ids, [0, 1, 2]);
}

/// The written traces contain the events so far if reading is stopped. No file is kept without
/// `finish`.
#[test]
fn an_end_may_come_early() {
    let scratch = Scratch::new("rewrite");
    let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
    let packet: &[Packet<'_>] = &[(0, 20, 0, 0, 1, &[5, 10, 15])];
    trace(&from, &[("a", 0, packet), ("b", 1, packet)]);
    let opened = blkkin_reader::open(&[Source::Path(from)]);
    let asked = AtomicUsize::new(0);
    let stop = move || asked.fetch_add(1, Ordering::Relaxed) == 3;
    let (mut rewriter, _) =
        Rewriter::new(&opened.traces, &to, Form::Same, stop).expect("a place to write to");
    let stats = Reading::new(&opened.traces).ordered(&mut rewriter);
    assert_eq!(stats.events, 4);
    let summary = rewriter.finish().expect("to write");
    assert_eq!((summary.streams, summary.packets), (2, 2));
    let times: Vec<Vec<u64>> = packets(&to).into_iter().map(|packet| packet.5).collect();
    assert_eq!(times, [[5, 10], [5, 10]]);

    let nothing = scratch.0.join("nothing");
    let (mut rewriter, _) =
        Rewriter::new(&opened.traces, &nothing, Form::Same, || false).expect("a place to write to");
    Reading::new(&opened.traces).ordered(&mut rewriter);
    assert!(nothing.exists());
    drop(rewriter);
    assert!(!nothing.exists());
}
