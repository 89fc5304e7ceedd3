//! Fuzzes files with measurements of clocks: valid ones are written as they were read, and a later
//! measurement changes no earlier time.
#![no_main]

use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::clock_offsets::{Measurement, Measurements, tsc_uuid};
use blkkin_ctf::schema::{Clock, ClockOrigin};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(measurements) = Measurements::parse(bytes) else { return };
    assert_eq!(Measurements::parse(measurements.text().as_bytes()).as_ref(), Ok(&measurements));
    for (uuid, frequency) in
        [(measurements.boot, 1_000_000_000), (tsc_uuid(measurements.boot), 2_600_000_123)]
    {
        let origin = ClockOrigin::UnixEpoch;
        let clock = Clock { uuid: Some(uuid), frequency, origin, ..Clock::default() };
        let Some(correction) = measurements.correction(&clock) else { continue };
        let times = [i64::MIN, 0, 1_000_000_000, 1_795_000_000_000_000_000, i64::MAX];
        for time in times {
            let _ = correction.uncorrect(correction.correct(time));
        }
        // A later measurement does not change the past.
        let Some(last) = measurements.list.last().copied() else { continue };
        let (Some(monotonic_ns), Some(tsc)) =
            (last.monotonic_ns.checked_add(2_000_000_000), last.tsc.checked_add(6_000_000_000))
        else {
            continue;
        };
        let mut more = measurements.clone();
        more.list.push(Measurement { monotonic_ns, tsc, ..last });
        let Some(later) = more.correction(&clock) else { continue };
        let reading = if uuid == measurements.boot { last.monotonic_ns } else { last.tsc };
        let now = TimeScale::new(&clock).ns(reading);
        // Times saturate beyond.
        if now > i64::MAX - 3_000_000_000 {
            continue;
        }
        for time in [i64::MIN, now.saturating_sub(1), now, now.saturating_add(1_000_000_000)] {
            assert_eq!(correction.at(time), later.at(time));
        }
    }
});
