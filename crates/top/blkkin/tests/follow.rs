//! Tests of `view --follow` during a recording: each packet is printed once, when it is complete.
//! Ctrl-C prints the remaining packets and ends the command.

mod support;

use std::fs;
use support::growing_trace::{Growing, LATER_METADATA, Packet};
use support::process::{Ended, Running};
use support::{Scratch, blkkin, run, text, with_limit};

/// Starts `view --follow` for the directory `trace` of the scratch directory.
fn follow(scratch: &Scratch, arguments: &[&str]) -> Running {
    let mut command = blkkin(&scratch.0);
    Running::start(command.args(["view", "--follow", "--no-delta"]).args(arguments).arg("trace"))
}

/// Returns an event's line as `view` prints it.
fn line(stream: u64, class: u8, time: u64, x: u8) -> String {
    let name = ["a", "b"][usize::from(class)];
    format!("[01:46:40.{time:09}] {name}: {{ cpu_id = {stream} }}, {{ x = {x} }}")
}

/// Returns a packet without losses; its time range is that of `events`.
fn packet(stream: u64, seq: u64, events: &[(u8, u64, u8)]) -> Packet<'_> {
    let (_, first, _) = events[0];
    let (_, last, _) = events[events.len() - 1];
    Packet { stream, seq, time: (first, last), lost: 0, events }
}

#[track_caller]
fn interrupted(running: Running) -> Ended {
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    ended
}

#[test]
fn lines_come_as_packets_come() {
    let scratch = Scratch::new("follow");
    // The trace does not exist yet.
    let mut running = follow(&scratch, &[]);
    let waiting = "warning: trace: cannot open: no such file or directory; waiting for what may \
                   come";
    assert_eq!(running.error(), waiting);
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    growing.packet(packet(0, 0, &[(0, 10, 1), (0, 11, 2)]));
    running.expect(&[&line(0, 0, 10, 1), &line(0, 0, 11, 2)]);

    // A packet without events, and a further packet.
    growing.packet(Packet { stream: 0, seq: 1, time: (20, 25), lost: 0, events: &[] });
    growing.packet(packet(0, 2, &[(0, 30, 3)]));
    running.expect(&[&line(0, 0, 30, 3)]);

    // A packet without its last 20 bytes, and the first 30 bytes of a new stream; neither is
    // printed before the packet is complete.
    let next = growing.bytes(packet(0, 3, &[(0, 41, 5)]));
    let second = growing.bytes(packet(1, 0, &[(0, 40, 4)]));
    growing.append("stream_0", &next[..next.len() - 20]);
    growing.append("stream_1", &second[..30]);
    growing.packet(packet(2, 0, &[(0, 42, 6)]));
    running.expect(&[&line(2, 0, 42, 6)]);
    growing.append("stream_0", &next[next.len() - 20..]);
    running.expect(&[&line(0, 0, 41, 5)]);
    growing.append("stream_1", &second[30..]);
    running.expect(&[&line(1, 0, 40, 4)]);

    // Packets that arrived before Ctrl-C are printed, but no partial packets.
    growing.append("stream_1", &next[..next.len() - 20]);
    for seq in 4..100 {
        growing.packet(packet(0, seq, &[(0, 50 + seq, 7)]));
    }
    let ended = interrupted(running);
    let expected: Vec<String> = (4..100).map(|seq| line(0, 0, 50 + seq, 7)).collect();
    assert_eq!(ended.lines, expected);
    assert!(ended.errors.is_empty(), "{ended:?}");
}

/// A file that appears right before Ctrl-C is read, although files are listed only every 250 ms.
#[test]
fn files_of_the_last_moment_are_read() {
    for round in 0..4 {
        let scratch = Scratch::new("follow-last");
        let growing = Growing::begin(&scratch.0.join("trace"), 0);
        growing.packet(packet(0, 0, &[(0, 10, 1)]));
        let mut running = follow(&scratch, &[]);
        running.expect(&[&line(0, 0, 10, 1)]);
        growing.packet(packet(1, 0, &[(0, 20, round)]));
        let ended = interrupted(running);
        assert_eq!(ended.lines, [line(1, 0, 20, round)]);
    }
}

/// Each packet of a followed file is decoded by its own stream class. An earlier bug gave events
/// the names of the file's first stream class, or ended the program.
#[test]
fn a_file_gets_packets_of_another_stream_class() {
    let scratch = Scratch::new("follow-classes");
    let trace = scratch.0.join("trace");
    fs::create_dir(&trace).expect("to make a folder");
    let metadata = r#"/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 32; align = 8; } := u32;
        typealias integer { size = 64; align = 8; } := u64;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
        clock { name = c; freq = 1000000000; offset_s = 1000000000; };
        typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
        stream { id = 0;
          packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size; };
          event.header := struct { u8 id; time timestamp; };
        };
        stream { id = 1;
          packet.context := struct { u32 packet_size; u32 content_size; time timestamp_begin; time timestamp_end; };
          event.header := struct { time timestamp; };
        };
        event { name = a; id = 0; stream_id = 0; fields := struct { u8 x; }; };
        event { name = b; id = 0; stream_id = 1; fields := struct { u32 y; }; };"#;
    fs::write(trace.join("metadata"), metadata).expect("to write");
    let append = |recipe: &str| {
        let bytes = support::recipe::bytes(&recipe.lines().collect::<Vec<_>>()).expect("bytes");
        let file = fs::OpenOptions::new().append(true).create(true).open(trace.join("stream"));
        std::io::Write::write_all(&mut file.expect("a file"), &bytes).expect("to write");
    };
    let first = |from: u64, x: u8| {
        let to = from + 9;
        append(&format!(
            "packet\nu32le 0xc1fc1fc1 u32le 0 u64le {from} u64le {to} content32le size32le\n\
             u8 0 u64le {from} u8 {x}"
        ));
    };
    let second = |from: u64, y: u32| {
        let to = from + 9;
        append(&format!(
            "packet\nu32le 0xc1fc1fc1 u32le 1 size32le content32le u64le {from} u64le {to}\n\
             u64le {from} u32le {y}"
        ));
    };
    let line = |time: u64, event: &str| format!("[01:46:40.{time:09}] {event}");
    first(10, 1);
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(10, "a: { x = 1 }")]);
    second(20, 70_000);
    running.expect(&[&line(20, "b: { y = 70000 }")]);
    first(30, 2);
    running.expect(&[&line(30, "a: { x = 2 }")]);
    second(40, 70_001);
    running.expect(&[&line(40, "b: { y = 70001 }")]);
    let ended = interrupted(running);
    assert!(ended.lines.is_empty() && ended.errors.is_empty(), "{ended:?}");
}

#[test]
fn what_is_there_at_first_comes_in_order_of_time() {
    let scratch = Scratch::new("follow-order");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    growing.packet(packet(0, 0, &[(0, 10, 1), (0, 13, 2)]));
    growing.packet(packet(1, 0, &[(0, 11, 3)]));
    growing.packet(packet(0, 1, &[(0, 20, 4)]));
    growing.packet(packet(1, 1, &[(0, 19, 5), (0, 21, 6)]));
    let all = [
        line(0, 0, 10, 1),
        line(1, 0, 11, 3),
        line(0, 0, 13, 2),
        line(1, 0, 19, 5),
        line(0, 0, 20, 4),
        line(1, 0, 21, 6),
    ];
    // A limit ends the command without Ctrl-C.
    for limit in [0, 1, 4, 6] {
        let ended = follow(&scratch, &["--limit", &limit.to_string()]).end();
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(ended.lines, all[..limit]);
    }
    // A time range does not end the command.
    let mut running = follow(&scratch, &["--timerange", "+1ns,+10ns"]);
    for expected in &all[1..5] {
        running.expect(&[expected]);
    }
    let ended = interrupted(running);
    assert!(ended.lines.is_empty() && ended.errors.is_empty(), "{ended:?}");
}

#[test]
fn metadata_grows_with_the_recording() {
    let scratch = Scratch::new("follow-metadata");
    let growing = Growing::begin(&scratch.0.join("trace/grows"), 0);
    let other = Growing::begin(&scratch.0.join("trace/other"), 1);
    growing.packet(packet(0, 0, &[(0, 10, 1)]));
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(0, 0, 10, 1)]);

    // Half of a declaration: its trace waits, the other trace continues.
    let (half, rest) = LATER_METADATA.split_at(20);
    growing.append("metadata", half.as_bytes());
    other.packet(packet(7, 0, &[(0, 20, 2)]));
    running.expect(&[&line(7, 0, 20, 2)]);
    growing.append("metadata", rest.as_bytes());
    growing.packet(packet(0, 1, &[(1, 30, 3), (0, 31, 4)]));
    running.expect(&[&line(0, 1, 30, 3), &line(0, 0, 31, 4)]);

    // Each new event class is used immediately.
    for class in 2..14u8 {
        let name = format!("e{class}");
        let declared = LATER_METADATA.replace("b;", &format!("{name};"));
        let declared = declared.replace("id = 1", &format!("id = {class}"));
        let time = 100 + u64::from(class);
        growing.append("metadata", declared.as_bytes());
        growing.packet(packet(0, class.into(), &[(class, time, class)]));
        running.expect(&[&line(0, 0, time, class).replace(" a:", &format!(" {name}:"))]);
    }
    let ended = interrupted(running);
    assert!(ended.lines.is_empty() && ended.errors.is_empty(), "{ended:?}");
}

/// Events whose metadata is not written yet are printed once it is.
#[test]
fn events_wait_for_their_metadata() {
    let scratch = Scratch::new("follow-later");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    growing.packet(packet(0, 0, &[(0, 10, 1)]));
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(0, 0, 10, 1)]);
    for (round, class) in [(1, 1), (2, 2), (3, 3)] {
        let time = 100 * u64::from(class);
        // The readable part of a packet is printed. Later events of the stream wait for the rest.
        let events = [(0, time, 2), (0, time + 1, 3), (class, time + 2, 4), (0, time + 3, 5)];
        growing.packet(Packet { lost: round, ..packet(0, 2 * round, &events) });
        growing.packet(packet(0, 2 * round + 1, &[(class, time + 10, 6)]));
        running.expect(&[&line(0, 0, time, 2), &line(0, 0, time + 1, 3)]);
        growing.packet(packet(1, round, &[(0, time + 20, 7)]));
        running.expect(&[&line(1, 0, time + 20, 7)]);
        let declared = LATER_METADATA.replace("id = 1", &format!("id = {class}"));
        growing.append("metadata", declared.as_bytes());
        running.expect(&[&line(0, 1, time + 2, 4), &line(0, 0, time + 3, 5)]);
        running.expect(&[&line(0, 1, time + 10, 6)]);
    }
    // A packet whose metadata never arrives is reported.
    growing.packet(packet(0, 8, &[(9, 1000, 8)]));
    growing.packet(packet(1, 8, &[(0, 1000, 9)]));
    running.expect(&[&line(1, 0, 1000, 9)]);
    let ended = interrupted(running);
    assert!(ended.lines.is_empty(), "{ended:?}");
    let told: Vec<&String> = ended.errors.iter().filter(|e| !e.starts_with("WARNING")).collect();
    assert_eq!(told.len(), 2, "{ended:?}");
    assert!(told[0].starts_with("lost by the tracer in all: "), "{ended:?}");
    assert!(told[1].ends_with(": event is of class 9, which the metadata does not describe"));
}

/// Streams of different traces are not confused, even if their ids are equal.
#[test]
fn traces_come_one_after_the_other() {
    let scratch = Scratch::new("follow-traces");
    let start = |name: &str, id| Growing::begin(&scratch.0.join("trace").join(name), id);
    let (b, d) = (start("b", 1), start("d", 2));
    for (trace, x) in [(&b, 1), (&d, 2)] {
        let time = u64::from(x);
        trace.packet(packet(0, 0, &[(0, time, x)]));
        trace.packet(packet(1, 0, &[(0, 10 + time, x)]));
    }
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(0, 0, 1, 1), &line(0, 0, 2, 2), &line(1, 0, 11, 1), &line(1, 0, 12, 2)]);
    for (seq, name) in [(1, "a"), (2, "c"), (3, "e")] {
        let new = start(name, 10 + seq as u8);
        for (stream, trace) in [(0, &b), (1, &b), (0, &d), (1, &d)] {
            let time = 100 * seq + stream;
            trace.packet(packet(stream, seq, &[(0, time, 1)]));
            running.expect(&[&line(stream, 0, time, 1)]);
        }
        new.packet(packet(0, 0, &[(0, 100 * seq + 50, 5)]));
        running.expect(&[&line(0, 0, 100 * seq + 50, 5)]);
    }
    let ended = interrupted(running);
    assert!(ended.lines.is_empty() && ended.errors.is_empty(), "{ended:?}");
}

/// A followed recording may be rotated: LTTng moves the files of a finished chunk to another
/// directory, and creates new files with the same names.
#[test]
fn files_are_moved_and_deleted() {
    let scratch = Scratch::new("follow-rotation");
    let path = scratch.0.join("trace");
    let (live, archives) = (path.join("live"), path.join("archives"));
    fs::create_dir_all(&archives).expect("to make a folder");
    let mut growing = Growing::begin(&live, 0);
    growing.packet(packet(0, 0, &[(0, 10, 0)]));
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(0, 0, 10, 0)]);
    for chunk in 1..3u64 {
        let archive = archives.join(chunk.to_string());
        fs::rename(&live, &archive).expect("to move");
        growing.path = archive;
        // The last packet arrives after the move.
        let time = 100 * chunk;
        growing.packet(packet(0, 2 * chunk - 1, &[(0, time, 1)]));
        running.expect(&[&line(0, 0, time, 1)]);
        growing = Growing::begin(&live, 0);
        growing.packet(packet(0, 2 * chunk, &[(0, time + 10, 2)]));
        running.expect(&[&line(0, 0, time + 10, 2)]);
    }
    // A file is deleted, and a new file gets its name (and perhaps its inode number).
    for seq in 5..9 {
        fs::remove_file(live.join("stream_0")).expect("to delete");
        growing.packet(packet(0, seq, &[(0, 1000 + seq, 3)]));
        running.expect(&[&line(0, 0, 1000 + seq, 3)]);
    }
    // Packets with the sequence numbers of printed packets, and five more: only those five are
    // printed.
    let copy = Growing::begin(&path.join("copy"), 0);
    for seq in 0..14 {
        copy.packet(packet(0, seq, &[(0, 1000 + seq, 3)]));
    }
    let new: Vec<String> = (9..14).map(|seq| line(0, 0, 1000 + seq, 3)).collect();
    running.expect(&new.iter().map(String::as_str).collect::<Vec<_>>());
    let ended = interrupted(running);
    assert!(ended.lines.is_empty() && ended.errors.is_empty(), "{ended:?}");
}

/// `view` can read and follow more files than it may have open, because it closes each file that it
/// has read completely.
#[test]
fn there_may_be_more_files_than_descriptors() {
    let scratch = Scratch::new("follow-files");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    for seq in 0..200 {
        let bytes = growing.bytes(packet(0, seq, &[(0, seq, 1)]));
        growing.append(&format!("stream_0_{seq}"), &bytes);
    }
    let expected: Vec<String> = (0..200).map(|seq| line(0, 0, seq, 1)).collect();
    let limited = |arguments: &[&str]| {
        let arguments = [&["view", "--no-delta"], arguments, &["trace"]].concat();
        Running::start(&mut with_limit("-n 32", blkkin(&scratch.0).args(arguments)))
    };
    for arguments in [&["--threads", "2"][..], &["--threads", "1"], &["--follow", "--limit", "200"]]
    {
        let ended = limited(arguments).end();
        assert!(ended.errors.is_empty() && ended.status.success(), "{arguments:?}: {ended:?}");
        assert_eq!(ended.lines, expected, "{arguments:?}");
    }
    let mut running = limited(&["--follow"]);
    running.expect(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    for some in (200..300).collect::<Vec<u64>>().chunks(20) {
        for seq in some {
            let bytes = growing.bytes(packet(0, *seq, &[(0, *seq, 1)]));
            growing.append(&format!("stream_0_{seq}"), &bytes);
        }
        some.iter().for_each(|seq| running.expect(&[&line(0, 0, *seq, 1)]));
    }
}

#[test]
fn what_is_damaged_is_told_once() {
    let scratch = Scratch::new("follow-damage");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    growing.packet(packet(0, 0, &[(0, 10, 1)]));
    growing.packet(packet(1, 0, &[(0, 11, 2)]));
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(0, 0, 10, 1), &line(1, 0, 11, 2)]);
    let size = fs::metadata(growing.path.join("stream_0")).expect("a file").len();
    growing.append("stream_0", &[0xff; 100]);
    for seq in 1..5 {
        growing.packet(packet(0, seq, &[(0, 10 + 10 * seq, 3)]));
        growing.packet(packet(1, seq, &[(0, 11 + 10 * seq, 4)]));
        running.expect(&[&line(1, 0, 11 + 10 * seq, 4)]);
    }
    let ended = interrupted(running);
    let error = format!(
        "error: trace/stream_0: offset {size}: packet starts with 0xffffffff, not with CTF's magic number \
         0xc1fc1fc1"
    );
    assert_eq!(ended.errors, [error]);
    assert!(ended.lines.is_empty(), "{ended:?}");
}

#[test]
fn losses_are_told_where_they_happen() {
    let scratch = Scratch::new("follow-losses");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    growing.packet(packet(0, 0, &[(0, 10, 1)]));
    let mut running = follow(&scratch, &[]);
    running.expect(&[&line(0, 0, 10, 1)]);
    growing.packet(Packet { lost: 3, ..packet(0, 3, &[(0, 20, 2)]) });
    running.expect(&[&line(0, 0, 20, 2)]);
    let place = "in trace \"\" (UUID: 10111213-1415-1617-1819-1a1b1c1d1e00) within stream \
                 \"trace/stream_0\" (stream class ID: 0, stream ID: 0).";
    let times = "between [01:46:40.000000010] and [01:46:40.000000020]";
    assert_eq!(running.error(), format!("WARNING: Tracer discarded 3 events {times} {place}"));
    assert_eq!(running.error(), format!("WARNING: Tracer discarded 2 packets {times} {place}"));
    let ended = interrupted(running);
    assert_eq!(ended.errors, ["lost by the tracer in all: 3 events, 2 packets (2 events shown)"]);
}

/// `view --follow --json` describes streams in a `begin` line before their first events. It prints
/// a new `begin` line whenever a stream appears.
#[test]
fn json_tells_what_is_read_each_time_it_changes() {
    let scratch = Scratch::new("follow-json");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    let mut running = follow(&scratch, &["--json"]);
    let mut streams = Vec::new();
    let mut event = |running: &mut Running| loop {
        let line = running.line();
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        match value["type"].as_str() {
            Some("begin") => {
                let of = |trace: &serde_json::Value| trace["streams"].as_array().cloned();
                let traces = value["traces"].as_array().expect("traces");
                streams = traces.iter().filter_map(of).flatten().collect();
            }
            Some("event") => {
                let number = value["stream"].as_u64().expect("a number") as usize;
                let stream = streams[number]["stream_id"].as_u64().expect("a number");
                let cpu = value["packet"]["cpu_id"].as_u64().expect("a number");
                return (stream, cpu, value["fields"]["x"].as_u64().expect("a number"));
            }
            _ => panic!("{line}"),
        }
    };
    for seq in 0..3 {
        // Each round adds a stream whose id sorts before the others.
        for stream in (4 - seq..5).rev() {
            let x = 10 * seq as u8 + stream as u8;
            growing.packet(packet(stream, seq, &[(0, 10 * seq + stream, x)]));
            assert_eq!(event(&mut running), (stream, stream, x.into()));
        }
    }
    let ended = interrupted(running);
    let [end] = &ended.lines[..] else { panic!("{ended:?}") };
    let end: serde_json::Value = serde_json::from_str(end).expect("JSON");
    assert_eq!((end["type"].as_str(), end["events"].as_u64()), (Some("end"), Some(6)));
}

#[test]
fn a_selection_may_be_of_what_comes_later() {
    let scratch = Scratch::new("follow-selection");
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    let filter = ["--begin", "+5ns", "--filter", "name == \"b\" && y != 7"];
    let mut running = follow(&scratch, &filter);
    let warning = "warning: no event passes the filter yet: column 16: unknown field `y`";
    assert!(running.error().starts_with(warning));
    let declared = LATER_METADATA.replace("u8 x", "u8 y");
    growing.append("metadata", declared.as_bytes());
    growing.packet(packet(0, 0, &[(0, 1_000, 1), (1, 1_001, 2), (1, 1_005, 3), (1, 1_006, 7)]));
    growing.packet(packet(0, 1, &[(1, 1_009, 4)]));
    let line = |time, x| line(0, 1, time, x).replace("x =", "y =");
    running.expect(&[&line(1_005, 3), &line(1_009, 4)]);
    let ended = interrupted(running);
    assert!(ended.lines.is_empty() && ended.errors.is_empty(), "{ended:?}");

    let ended = follow(&scratch, &["--filter", "x =="]).end();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[test]
fn standard_input_cannot_be_followed() {
    let output = run(blkkin(&std::env::temp_dir()).args(["view", "--follow", "-"]));
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: --follow cannot read standard input\n\
                    hint: give the directory that the recording is written to\n";
    assert_eq!(text(&output.stderr), expected);
}
