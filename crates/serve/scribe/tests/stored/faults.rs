//! Tests of the promises D4 and D5: disk errors, temporary and permanent. No message answered with
//! `OK` is lost, clients receive `TRY_LATER`, and the daemon resumes by itself when the disk works
//! again.

use crate::harness::{DaemonRun, HANG, RESUMES, SentMessages, Stores};
use crate::kills::{batches, count_answers_after_syncs, counts};
use blkkin_scribe::Status;
use blkkin_sys::testing::{
    Fault, Scratch, deadline, env_number, figure, is_installed, run_on_two_threads, sample, skip,
};
use std::time::Duration;

/// Sums over all runs with an injected fault on one thread. `slowest` is a maximum.
#[derive(Clone, Copy, Debug, Default)]
struct FaultCounts {
    faults: u64,
    acknowledged: u64,
    later: u64,
    slowest: Duration,
}

/// Runs the daemon with an injected fault, and then without. Returns an error if the daemon loses
/// an acknowledged message, miscounts denied messages, does not resume in time, or does not start
/// or end properly.
fn run_with_fault(fault: Fault, told: &mut FaultCounts) -> Result<(), String> {
    let scratch = Scratch::new("scribe-stored");
    let stores = Stores::new(&scratch.0);
    let mut sent = SentMessages::default();
    told.faults += 1;
    match DaemonRun::start(&fault.starter(), &stores) {
        Ok(mut life) => {
            let patience = if fault.stays { Duration::from_millis(200) } else { RESUMES };
            let (batches, all) = (batches(), batches() / 2);
            let is_taken = (0..2).all(|_| sent.send(&life, all, patience));
            if !fault.stays && !is_taken {
                return Err(format!("{batches} batches are not taken in time"));
            }
            let mut client = life.client();
            match client.status() {
                Ok(Status::Alive | Status::Warning) => {}
                other => return Err(format!("it does not live: {other:?}")),
            }
            if !fault.stays {
                // The daemon must resume without a restart.
                told.slowest =
                    told.slowest.max(life.wait_for_delivery(&sent, &stores, deadline(RESUMES))?);
            }
            let denied = client.counter("scribe_overall:denied for queue size");
            if denied.as_ref().ok() != Some(&(sent.later as i64)) {
                return Err(format!("{} were denied, and {denied:?} counted", sent.later));
            }
            drop(client);
            let end = life.end();
            if !end.success() {
                return Err(format!("it ends with {end}"));
            }
        }
        // The fault may hit the dynamic loader, before the daemon starts.
        Err((_, said)) if said.is_empty() && ["openat", "write"].contains(&fault.call) => {}
        Err((status, said)) => return Err(format!("it does not start: {status} {said:?}")),
    }
    let life = DaemonRun::start(&[], &stores);
    let mut life = life.map_err(|end| format!("does not start again: {end:?}"))?;
    if !sent.send(&life, 1, HANG) {
        return Err("it takes nothing more".to_owned());
    }
    life.wait_for_delivery(&sent, &stores, HANG)?;
    life.end();
    told.slowest = told.slowest.max(sent.slowest);
    (told.acknowledged, told.later) =
        (told.acknowledged + sent.acknowledged, told.later + sent.later);
    // Messages that a store could not make durable are delivered again.
    sent.check(&stores, (sent.again + 1) * 4 * Fault::TIMES)
}

fn sweep(faults: &[Fault]) -> FaultCounts {
    let mut told = FaultCounts::default();
    for &fault in faults {
        run_with_fault(fault, &mut told).unwrap_or_else(|why| panic!("{fault:?}: {why}"));
    }
    told
}

fn check(promise: &str, error: &'static str, what: &str) {
    let faults = sample(Fault::all(&counts(), error), env_number("TEST_FAULTS", 12));
    let results = run_on_two_threads(&faults, sweep);
    let sum = |of: fn(&FaultCounts) -> u64| results.iter().map(of).sum::<u64>();
    let later = sum(|told| told.later);
    assert!(later > 0, "nothing was refused");
    let slowest = results.iter().map(|told| told.slowest).max().unwrap_or_default();
    figure(
        promise,
        &format!(
            "{} daemons of Scribe's with {what}: {} batches answered OK, 0 lost; {later} messages told to come again, \
             and counted; they go on after {} ms at most",
            sum(|told| told.faults),
            sum(|told| told.acknowledged),
            slowest.as_millis(),
        ),
    );
}

#[test]
fn d5_a_disk_that_fails_loses_nothing() {
    if !is_installed("strace") {
        return skip("d5_a_disk_that_fails_loses_nothing", "strace is missing");
    }
    check("D5", "EIO", "calls that fail, some or all from one on");
}

#[test]
fn d4_a_disk_that_is_full_loses_nothing() {
    if !is_installed("strace") {
        return skip("d4_a_disk_that_is_full_loses_nothing", "strace is missing");
    }
    check("D4", "ENOSPC", "calls that find no room, some or all from one on");
}

#[test]
fn d5_a_failed_fdatasync_is_no_ok() {
    if !is_installed("strace") {
        return skip("d5_a_failed_fdatasync_is_no_ok", "strace is missing");
    }
    let failures = env_number("TEST_FAILURES", 8);
    let seen = (1..=failures).map(|number| {
        let seen = count_answers_after_syncs(Some(number));
        seen.unwrap_or_else(|why| panic!("fdatasync {number}: {why}"))
    });
    let seen: u64 = seen.sum();
    figure(
        "D5",
        &format!(
            "{failures} daemons of Scribe's whose n-th fdatasync failed: {seen} times OK, all durable"
        ),
    );
}
