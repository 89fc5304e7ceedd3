//! Tests that inject a fault at each disk operation of a scenario: the operation fails, alone or
//! with the operations after it; the power is cut during it; or the writer is killed before it.
//! Afterwards all acknowledged records exist, and the journal opens again without intervention.

use super::{figure, rig::Rig};
use crate::position;
use crate::testing::FalseSync;
use rustix::io::Errno;

/// Maximum number of consecutive operations that fail.
const FAILURES_MAX: u64 = 3;

/// Runs a scenario with full segments, readers, trims, positions, clean closes and kills.
fn run_scenario(rig: &mut Rig) -> Result<(), String> {
    for chapter in 0..3 {
        // Retries, as a supervisor would restart the program.
        if !(0..FAILURES_MAX).any(|_| rig.open().is_ok()) {
            rig.open().map_err(|why| format!("does not open: {why}"))?;
        }
        for page in 0..8 {
            let _ = rig.append();
            if page % 3 == 2 {
                rig.follow()?;
            }
        }
        rig.trim();
        let _ = position::write(&rig.disk, "reader", rig.oracle.trimmed);
        match chapter {
            0 => rig.close(),
            _ => rig.kill(),
        }
    }
    Ok(())
}

/// Returns the number of disk operations that the scenario performs without failures.
fn operations(seed: u64) -> u64 {
    let mut rig = Rig::new(seed);
    run_scenario(&mut rig).unwrap();
    rig.disk.operations()
}

/// Repairs the disk, and checks that the journal has all acknowledged records and works again.
fn check(rig: &mut Rig, what: &str) -> Result<(), String> {
    let place = |why| format!("{what}: {why}");
    rig.disk.repair();
    rig.kill();
    rig.oracle.check(&rig.disk).map_err(place)?;
    rig.open().map_err(place)?;
    rig.append().map_err(|why| format!("{what}: cannot append: {why}"))?;
    rig.follow().map_err(place)?;
    let position = position::read(&rig.disk, "reader").map_err(|why| format!("{what}: {why}"))?;
    if position.is_some_and(|position| position > rig.oracle.trimmed) {
        return Err(format!("{what}: a position that nobody set"));
    }
    rig.cut_power();
    rig.oracle.check(&rig.disk).map_err(place)?;
    Ok(())
}

/// Runs the scenario once for each of its operations. From that operation on, `in_a_row`
/// consecutive operations fail. Returns the number of operations.
fn fail_each(seed: u64, errno: Errno, in_a_row: u64) -> u64 {
    let operations = operations(seed);
    for k in 0..operations {
        let mut rig = Rig::new(seed);
        rig.disk.fail(k..k + in_a_row, errno);
        let what = format!("seed {seed}, {errno} from {k}, {in_a_row} times");
        run_scenario(&mut rig).unwrap_or_else(|why| panic!("{what}: {why}"));
        check(&mut rig, &what).unwrap();
    }
    operations
}

/// Cuts the power during operation `k` of the scenario and checks the journal. Then runs the
/// scenario again, without a power cut, and repeats the check.
fn cut_power(seed: u64, k: u64, lie: Option<FalseSync>) -> Result<(), String> {
    let mut rig = Rig::new(seed);
    let what = format!("seed {seed}, power ends at {k}");
    rig.disk.set_lie(lie);
    rig.disk.end_power_at(k);
    // The journal does not open without power.
    let _ = run_scenario(&mut rig);
    rig.cut_power();
    check(&mut rig, &what)?;
    run_scenario(&mut rig).map_err(|why| format!("{what}: then {why}"))?;
    check(&mut rig, &what)
}

#[test]
fn each_operation_may_fail() {
    let mut count = 0;
    for seed in 0..4 {
        for errno in [Errno::IO, Errno::NOSPC] {
            count += (1..=FAILURES_MAX).map(|row| fail_each(seed, errno, row)).sum::<u64>();
        }
    }
    figure("D5", &format!("{count} failures, in each operation of a journal"));
}

#[test]
fn the_power_may_be_cut_in_each_operation() {
    let mut count = 0;
    for seed in 0..12 {
        for k in 0..operations(seed) {
            cut_power(seed, k, None).unwrap();
            count += 1;
        }
    }
    figure("D2", &format!("{count} power cuts, one in each operation of a journal"));
}

/// Kills the writer before operation `k`. Cuts the power after the next writer has opened and read
/// the journal.
fn kill(seed: u64, k: u64) -> Result<(), String> {
    let mut rig = Rig::new(seed);
    let what = format!("seed {seed}, killed at {k}");
    rig.disk.stop_at(k);
    let _ = run_scenario(&mut rig);
    rig.kill();
    rig.disk.repair();
    let told = rig.open().and_then(|()| rig.follow());
    told.map_err(|why| format!("{what}: {why}"))?;
    rig.cut_power();
    check(&mut rig, &what)
}

#[test]
fn the_writer_may_be_killed_before_each_operation() {
    for seed in 0..12 {
        (0..operations(seed)).for_each(|k| kill(seed, k).unwrap());
    }
}

#[test]
fn a_disk_that_lies_is_found_out() {
    for lie in [FalseSync::Files, FalseSync::Names] {
        let count = operations(0);
        let found = (0..count).filter(|&k| cut_power(0, k, Some(lie)).is_err()).count() as u64;
        assert!(found > count / 2, "{lie:?}: found by {found} of {count} power cuts");
    }
}
