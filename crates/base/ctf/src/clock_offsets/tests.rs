//! Tests of the file's text, and of corrections between, before and after measurements.

use super::*;
use crate::schema::ClockOrigin;

const BOOT: Uuid = Uuid(*b"0123456789abcdef");
const SECOND: u64 = 1_000_000_000;
/// Time of the reference clock when the machine's clocks showed 0.
const ORIGIN: u64 = 1_795_000_000 * SECOND;

fn offsets(list: Vec<Measurement>) -> Measurements {
    Measurements { boot: BOOT, list }
}

/// Returns a measurement at `second`: the reference clock is `ahead_ns` ahead of the trace's.
fn measured(second: u64, ahead_ns: i64, error_ns: u64) -> Measurement {
    let monotonic_ns = second * SECOND;
    let reference_ns = (ORIGIN + monotonic_ns).saturating_add_signed(ahead_ns);
    Measurement { monotonic_ns, tsc: 2 * monotonic_ns, reference_ns, error_ns }
}

fn clock(uuid: Option<Uuid>, frequency: u64) -> Clock {
    let offset_seconds = (ORIGIN / SECOND) as i64;
    Clock { uuid, frequency, offset_seconds, origin: ClockOrigin::UnixEpoch, ..Clock::default() }
}

fn correction(measurements: Vec<Measurement>) -> Correction {
    let correction = offsets(measurements).correction(&clock(Some(BOOT), SECOND));
    correction.expect("a correction")
}

fn at(correction: &Correction, second: f64) -> Offset {
    correction.at(ORIGIN as i64 + (second * 1e9) as i64)
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let written = offsets(vec![measured(1, 500, 20), measured(11, -3, 7)]);
    let text = written.text();
    assert_eq!(Measurements::parse(text.as_bytes()), Ok(written.clone()));
    // A line that is being written does not count.
    let cut = text.len() - 1;
    let parsed = Measurements::parse(&text.as_bytes()[..cut]).expect("whole lines");
    assert_eq!(parsed.list, written.list[..1]);
    let mut merged = offsets(vec![measured(11, -3, 7), measured(21, 0, 1)]);
    merged.merge(written.clone());
    assert_eq!(merged.list, [measured(1, 500, 20), measured(11, -3, 7), measured(21, 0, 1)]);
    merged.merge(Measurements { boot: Uuid([1; 16]), ..written });
    assert_eq!(merged.list.len(), 3, "another boot");
}

#[test]
fn an_invalid_line_is_named() {
    let title = offsets(Vec::new()).text();
    for (text, line) in [
        (String::new(), 1),
        ("blkkin-clock-offsets 2 x\n".to_owned(), 1),
        (title.replace('1', "g"), 1),
        (format!("{title}1 2 3\n"), 2),
        (format!("{title}1 2 3 4\n1 2 3 4 5\n"), 3),
        (format!("{title}1 2 3 -4\n"), 2),
        (format!("{title}1 2 3 99999999999999999999\n"), 2),
    ] {
        assert_eq!(Measurements::parse(text.as_bytes()), Err(line), "{text}");
    }
    let mut bytes = format!("{title}1 2 3 4\n").into_bytes();
    bytes.extend_from_slice(b"\xff\n");
    assert_eq!(Measurements::parse(&bytes), Err(3));
}

#[test]
fn the_last_measurements_since_the_counter_began_are_kept() {
    let list: Vec<_> = (1..=5).map(|second| measured(second, 0, 1)).collect();
    let mut kept = offsets(list[..2].to_vec());
    kept.extend(&list[2..], 4);
    assert_eq!(kept.list, list[1..]);
    let anew = Measurement { tsc: 1, ..measured(6, 0, 1) };
    kept.extend(&[anew], 4);
    assert_eq!(kept.list, [anew]);
    kept.extend(&[], 4);
    assert_eq!(kept.list, [anew]);
}

#[test]
fn both_clocks_of_the_boot_are_corrected_and_no_others() {
    let offsets = offsets(vec![measured(10, 5000, 20)]);
    let at =
        |clock: Clock| Some(offsets.correction(&clock)?.at(ORIGIN as i64 + 10 * SECOND as i64));
    let expected = Some(Offset { ns: 5000, error_ns: 20 });
    assert_eq!(at(clock(Some(BOOT), SECOND)), expected);
    assert_eq!(at(clock(Some(tsc_uuid(BOOT)), 2 * SECOND)), expected);
    assert_eq!(at(clock(Some(Uuid([9; 16])), SECOND)), None);
    assert_eq!(at(clock(None, SECOND)), None);
    assert_ne!(tsc_uuid(BOOT), BOOT);
    let reset = Measurement { tsc: 5, ..measured(20, 5000, 20) };
    let reset = Measurements { list: vec![measured(10, 5000, 20), reset], ..offsets };
    assert_eq!(reset.correction(&clock(Some(tsc_uuid(BOOT)), 2 * SECOND)), None);
    assert!(reset.correction(&clock(Some(BOOT), SECOND)).is_some());
}

#[test]
fn the_drift_goes_on_after_a_measurement() {
    // 10 parts per million.
    let drifting = |n: u64| measured(100 + 10 * n, 100_000 * n as i64, 10);
    let correction = correction((0..4).map(drifting).collect());
    let after = at(&correction, 160.0);
    assert_eq!(after.ns, 600_000);
    // 10 of the measurement, 20 of the drift (over 30 s), and 2 parts per million of its change.
    assert_eq!(after.error_ns, 10 + 20 + 60_000);
    // After a minute, the drift may be another one.
    let later = at(&correction, 230.0);
    assert_eq!((later.ns, later.error_ns), (1_300_000, 10 + 66 + 120_000 + 4_000_000));
    assert_eq!(at(&correction, 115.0).ns, 150_000);
    let time = ORIGIN as i64 + 115_000_000_000;
    assert_eq!(correction.correct(time), time + 150_000);
    assert!(correction.uncorrect(time + 150_000).abs_diff(time) <= 1);
    // The drift is unknown with one measurement, and before the first.
    for second in [101.0, 99.0] {
        let expected = Offset { ns: 0, error_ns: 10 + 100_000 };
        assert_eq!(at(&correction, second), expected, "{second}");
    }
}

#[test]
fn later_measurements_do_not_change_earlier_times() {
    let measurements: Vec<_> =
        (0..40).map(|n| measured(100 + 10 * n, (n * n % 17) as i64 * 1000, 10 + n % 3)).collect();
    let all = correction(measurements.clone());
    for count in 1..measurements.len() {
        let part = correction(measurements[..count].to_vec());
        let end = measurements[count].monotonic_ns as f64 / 1e9;
        for second in [0.0, 99.0, end - 5.0, end, end + 0.999] {
            assert_eq!(at(&part, second), at(&all, second), "{count} {second}");
        }
        assert_ne!(at(&part, end + 1.0), at(&all, end + 1.0), "{count}");
    }
}

#[test]
fn a_clock_that_was_set_is_no_drift() {
    let hour = 3600 * SECOND as i64;
    let correction = correction(vec![
        measured(100, 0, 10),
        measured(110, 0, 10),
        measured(120, hour, 10),
        measured(130, hour, 10),
    ]);
    assert_eq!(at(&correction, 119.0).ns, 0);
    assert_eq!(at(&correction, 121.0), Offset { ns: hour, error_ns: 10 + 100_000 });
    assert_eq!(at(&correction, 132.0).ns, hour);
    assert!(at(&correction, 132.0).error_ns < 5000);
    // A step that a drift could explain makes the error larger.
    let jumps = |n: u64| measured(100 + 10 * n, if n < 4 { 0 } else { 4_000_000 }, 10);
    let correction = self::correction((0..8).map(jumps).collect());
    for seconds in [171.5, 180.0] {
        let Offset { ns, error_ns } = at(&correction, seconds);
        assert!(ns.abs_diff(4_000_000) <= error_ns, "{ns} {error_ns}");
    }
}

/// A measurement with a large error does not hide that a clock was set.
#[test]
fn a_set_clock_is_noticed_behind_a_slow_measurement() {
    let half = 500_000_000;
    let slow = measured(110, half / 2, 600_000_000);
    let correction = correction(vec![measured(100, 0, 10), slow, measured(120, half, 10)]);
    assert_eq!(at(&correction, 125.0).ns, half);
}

/// A drift is not known from two points that are near each other, nor across a long pause.
#[test]
fn an_uncertain_drift_is_none() {
    let noisy = correction(vec![measured(100, 0, 100_000), measured(102, 80_000, 100_000)]);
    let hours = at(&noisy, 36_000.0);
    assert_eq!(hours.ns, 80_000);
    assert!(hours.error_ns > 3_000_000_000, "{hours:?}");
    let paused = correction(vec![measured(100, 0, 10), measured(36_000, 20_000_000_000, 10)]);
    assert_eq!(at(&paused, 36_010.0), Offset { ns: 20_000_000_000, error_ns: 10 + 1_000_000 });
}

#[test]
fn the_best_of_near_measurements_counts() {
    let mut measurements =
        vec![measured(100, 300, 90), measured(100, 310, 20), measured(100, 0, 80)];
    measurements.push(measured(110, 310, 20));
    assert_eq!(at(&correction(measurements), 101.0), Offset { ns: 310, error_ns: 20 + 100_000 });
}

#[test]
fn extreme_measurements_do_no_harm() {
    let extremes = [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    for monotonic_ns in extremes {
        for reference_ns in extremes {
            for error_ns in extremes {
                let one = Measurement { monotonic_ns, tsc: monotonic_ns, reference_ns, error_ns };
                let all = vec![one, measured(10, 0, 1), Measurement { monotonic_ns: 3, ..one }];
                let Some(correction) = offsets(all).correction(&clock(Some(BOOT), SECOND)) else {
                    continue;
                };
                for time in [i64::MIN, -1, 0, 1, i64::MAX] {
                    correction.correct(time);
                    correction.uncorrect(time);
                }
            }
        }
    }
}
