//! Tests of times that are corrected by measurements beside a trace.

use crate::Reading;
use crate::alignment::TimeBase;
use crate::follow::Follower;
use crate::testing::{TraceFolder, Transcript, check_lines};
use blkkin_ctf::clock_offsets::{FILE, Measurement};
use std::fs;

const BOOT: &str = "30313233-3435-3637-3839-616263646566";

/// Makes two traces, of which `y` has a clock that was measured.
fn measured_folder() -> TraceFolder {
    let folder = TraceFolder::new(
        "x/a 0.1 10..20 | 10 e 1, 20 e 2
         y/a 0.1 10..20 | 15 e 3",
    );
    let metadata = folder.path().join("y/metadata");
    let text = fs::read_to_string(&metadata).expect("metadata");
    let with_uuid =
        text.replace("clock { name = c;", &format!("clock {{ name = c; uuid = \"{BOOT}\";"));
    assert_ne!(text, with_uuid);
    fs::write(metadata, with_uuid).expect("to write metadata");
    folder
        .append_bytes(&format!("y/{FILE}"), format!("blkkin-clock-offsets 1 {BOOT}\n").as_bytes());
    measure(&folder, 1000, 988);
    folder
}

/// Adds a measurement of the clock of `y`.
fn measure(folder: &TraceFolder, monotonic_ns: u64, reference_ns: u64) {
    let line = Measurement { monotonic_ns, tsc: 0, reference_ns, error_ns: 5 }.line();
    folder.append_bytes(&format!("y/{FILE}"), line.as_bytes());
}

#[test]
fn events_are_ordered_by_corrected_times() {
    let folder = measured_folder();
    let read = |is_aligned: bool| {
        let mut opened = folder.open();
        if is_aligned {
            opened.align();
        }
        assert_eq!(opened.problems, []);
        let mut transcript = Transcript::default();
        let stats = Reading::new(&opened.traces).ordered(&mut transcript);
        transcript.finish(&folder, &stats)
    };
    check_lines(&read(true), "3 e3 0.1 \n 10 e1 0.1 \n 20 e2 0.1", "corrected");
    check_lines(&read(false), "10 e1 0.1 \n 15 e3 0.1 \n 20 e2 0.1", "recorded");
}

#[test]
fn measurements_are_followed() {
    let mut folder = measured_folder();
    let mut follower = Follower::with_time_base(&[folder.source()], TimeBase::Relay);
    let mut check = |folder: &TraceFolder, expected: &str| {
        let is_reopened = follower.refresh(true);
        let mut transcript = Transcript::default();
        let stats = follower.deliver(|reading| reading, &mut transcript);
        check_lines(&transcript.finish(folder, &stats), expected, "round");
        is_reopened
    };
    check(&folder, "3 e3 0.1 \n 10 e1 0.1 \n 20 e2 0.1");
    folder.append("x/a 0.1 25..26 | 25 e 4 \n y/a 0.1 30..30 | 30 e 5");
    check(&folder, "18 e5 0.1 \n 25 e4 0.1");
    // Two seconds later the clock is ahead by 100 ns more than after the first measurement.
    measure(&folder, 2_000_001_000, 2_000_000_888);
    folder.append("y/a 0.1 4000001000..4000001000 | 4000001000 e 6");
    assert!(!check(&folder, "4000000788 e6 0.1"), "nothing was opened again");
}

#[test]
fn invalid_measurements_are_reported() {
    let folder = measured_folder();
    folder.append_bytes(&format!("y/{FILE}"), b"1 2 3\n");
    let mut opened = folder.open();
    opened.align();
    let problems: Vec<String> = opened.problems.iter().map(ToString::to_string).collect();
    let path = folder.path().join("y").join(FILE);
    let expected = format!("{}: line 3 is not a measurement of a clock", path.display());
    assert_eq!(problems, [expected]);
    // Times are as recorded.
    assert!(opened.traces.iter().all(|trace| trace.alignment().correction().is_none()));
}
