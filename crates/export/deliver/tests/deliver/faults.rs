//! Tests of promises D4 and D5: a disk is full or fails, temporarily or permanently. No flushed
//! span is lost. A permanent fault gives the pushing program an error; after a temporary fault, the
//! exporter continues without a restart.

use crate::kill_sweep::{counts, flushed_behind_syncs, how};
use crate::program_run::{Destination, ProgramRun, RESUMES, RunOptions};
use blkkin_sys::testing::{
    Fault, Scratch, env_number, figure, is_installed, run_on_two_threads, sample, skip,
};
use std::time::Duration;

/// Totals over all runs: injected faults, flushed batches, failed starts, runs with a refusal,
/// refused batches that were not stored, and the longest time between two flushes.
#[derive(Clone, Copy, Debug, Default)]
struct FaultTotals {
    faults: u64,
    flushed: u64,
    did_not_start: u64,
    refused: u64,
    not_kept: u64,
    slowest: Duration,
}

/// Runs the tested program with a disk fault, and then without. Checks that all flushed spans
/// arrive.
fn live(fault: Fault, totals: &mut FaultTotals) -> Result<(), String> {
    let scratch = Scratch::new("deliver-faults");
    let destination = Destination::new(&scratch.0.join("queue"));
    let patience = if fault.stays { Duration::from_millis(200) } else { RESUMES };
    let life = ProgramRun::run(&fault.starter(), &destination, RunOptions { patience, ..how(0) });
    totals.faults += 1;
    let has = |what: &str| life.messages.iter().any(|said| said.starts_with(what));
    let did_not_start = has("cannot start: ") || life.closed.is_none() && fault.call == "openat";
    totals.did_not_start += u64::from(did_not_start);
    totals.refused += u64::from(has("refused"));
    if !did_not_start {
        if !life.status.success() || life.closed.is_none() {
            return Err(format!("it does not live: {life:?}"));
        }
        // A temporary fault requires no restart.
        if !fault.stays && !life.is_good() {
            return Err(format!("it does not go on in time: {life:?}"));
        }
        totals.slowest = totals.slowest.max(life.slowest);
    }
    let again = ProgramRun::run(&[], &destination, RunOptions { batches: 2, ..how(life.flushed) });
    if !again.is_good() {
        return Err(format!("does not start again: {again:?}, after {life:?}"));
    }
    totals.flushed += again.flushed;
    let not_kept = life.closed.unwrap_or_default();
    totals.not_kept += not_kept;
    destination.check(again.flushed, not_kept, 2 + Fault::TIMES)
}

fn sweep(faults: &[Fault]) -> FaultTotals {
    let mut totals = FaultTotals::default();
    for &fault in faults {
        live(fault, &mut totals).unwrap_or_else(|why| panic!("{fault:?}: {why}"));
    }
    totals
}

fn check(promise: &str, error: &'static str, what: &str) {
    let faults = sample(Fault::all(&counts(), error), env_number("TEST_FAULTS", 16));
    let results = run_on_two_threads(&faults, sweep);
    let sum = |of: fn(&FaultTotals) -> u64| results.iter().map(of).sum::<u64>();
    let refused = sum(|totals| totals.refused);
    assert!(refused > 0, "nothing was refused");
    let slowest = results.iter().map(|totals| totals.slowest).max().unwrap_or_default();
    figure(
        promise,
        &format!(
            "{} exporters with {what}: {} batches flushed, 0 lost; {refused} were told that nothing is taken, {} did not \
             start, and did the next time; {} refused batches could not be put aside, and were counted; they go on after {} ms at most",
            sum(|totals| totals.faults),
            sum(|totals| totals.flushed),
            sum(|totals| totals.did_not_start),
            sum(|totals| totals.not_kept),
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
fn d5_a_failed_fdatasync_flushes_nothing() {
    if !is_installed("strace") {
        return skip("d5_a_failed_fdatasync_flushes_nothing", "strace is missing");
    }
    let failures = env_number("TEST_FAILURES", 8);
    let seen = (1..=failures).map(|number| {
        let seen = flushed_behind_syncs(Some(number));
        seen.unwrap_or_else(|why| panic!("fdatasync {number}: {why}"))
    });
    let seen: u64 = seen.sum();
    figure(
        "D5",
        &format!(
            "{failures} exporters whose n-th fdatasync failed: {seen} times flushed, all durable"
        ),
    );
}
