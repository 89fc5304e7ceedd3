//! Fuzzes files with offsets of clocks: valid ones are written as they were read, and times near the
//! limits are corrected.
#![no_main]

use blkkin_ctf::clock_offsets::{Offsets, tsc_uuid};
use blkkin_ctf::schema::{Clock, ClockOrigin};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(offsets) = Offsets::parse(bytes) else { return };
    assert_eq!(Offsets::parse(offsets.text().as_bytes()).as_ref(), Ok(&offsets));
    for (uuid, frequency) in
        [(offsets.boot, 1_000_000_000), (tsc_uuid(offsets.boot), 2_600_000_123)]
    {
        let origin = ClockOrigin::UnixEpoch;
        let clock = Clock { uuid: Some(uuid), frequency, origin, ..Clock::default() };
        let Some(correction) = offsets.correction(&clock) else { continue };
        for time in [i64::MIN, 0, 1_000_000_000, 1_795_000_000_000_000_000, i64::MAX] {
            correction.uncorrect(time);
            let offset = correction.at(time);
            assert_eq!(correction.correct(time), time.saturating_add(offset.ns));
        }
    }
});
