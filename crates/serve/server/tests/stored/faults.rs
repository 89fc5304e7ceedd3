//! Tests of the promises D4 and D5: disk errors, temporary and permanent. No acknowledged request
//! is lost, clients receive status 503, and the server starts again afterwards.

use crate::harness::{SentRequests, ServerRun, send_http};
use crate::kills::{batches, counts};
use crate::program::PlantedFault;
use blkkin_sys::testing::{
    env_number, figure, is_installed, points, run_on_two_threads, sample, skip, traced,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns whether a disk error can occur in this system call; false for calls on sockets.
fn is_of_disk(call: &str) -> bool {
    !["write", "writev", "sendto"].contains(&call)
}

/// Injected error: the system call, the number of the failing call in each thread, and the name of
/// the error.
#[derive(Clone, Copy, Debug)]
struct Fault {
    call: &'static str,
    number: u64,
    error: &'static str,
    /// True if all later calls fail, too.
    stays: bool,
}

impl Fault {
    fn starter(self) -> Vec<String> {
        let Fault { call, number, error, stays } = self;
        let plus = if stays { "+" } else { "" };
        let inject = format!("error={error}:when={number}{plus}");
        traced(&[call], Some(&inject), Path::new("/dev/null"))
    }
}

/// Sums over all runs with an injected fault.
#[derive(Clone, Debug, Default)]
struct FaultCounts {
    faults: u64,
    /// Number of servers that did not start because of the fault.
    did_not_start: u64,
    statuses: BTreeMap<u16, u64>,
}

/// Runs the server once with an injected fault and once without. With the fault the server must
/// report why it cannot start, or answer requests correctly until it stops normally. Without the
/// fault it must start and have all acknowledged requests. Returns an error otherwise.
fn run_with_fault(
    fault: Fault,
    directory: &Path,
    plant: PlantedFault,
    sent: &mut SentRequests,
    told: &mut FaultCounts,
) -> Result<(), String> {
    told.faults += 1;
    match ServerRun::start(&fault.starter(), directory, plant) {
        Ok(life) => {
            sent.send(&life, batches());
            let (status, _) =
                send_http(life.web, "GET", "/health", "").ok_or("it does not live")?;
            if status != 200 {
                return Err(format!("its health is {status}"));
            }
            // Requests may be missing at this moment, but none may be wrong.
            if let Some(Ok(found)) = life.all() {
                sent.compare(&found)?;
            }
            let end = life.end();
            if !end.success() {
                return Err(format!("it ends with {end}"));
            }
        }
        Err((_, said)) => {
            told.did_not_start += 1;
            // The fault may hit the dynamic loader before the server starts.
            let is_told = said.iter().any(|line| line.starts_with("cannot start: "));
            if !is_told && fault.call != "openat" {
                return Err(format!("it did not start, and says {said:?}"));
            }
        }
    }
    let life = ServerRun::start(&[], directory, PlantedFault::None);
    let life = life.map_err(|(status, said)| format!("does not start again: {status} {said:?}"))?;
    sent.check(&life).map_err(|why| format!("{why}, and it says {:?}", life.said))?;
    life.end();
    Ok(())
}

fn sweep(faults: &[Fault]) -> (FaultCounts, u64) {
    let mut told = FaultCounts::default();
    let mut acknowledged = 0;
    // Eight faults in a row share a directory, so that each server starts on the files of the
    // previous one.
    for some in faults.chunks(8) {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let mut sent = SentRequests::default();
        for &fault in some {
            let held = run_with_fault(fault, &data, PlantedFault::None, &mut sent, &mut told);
            if let Err(why) = held {
                // The files are kept for a developer's analysis.
                panic!("{fault:?} of {some:?} in {}: {why}", directory.keep().display());
            }
        }
        acknowledged += sent.acknowledged();
        for (status, count) in sent.statuses {
            *told.statuses.entry(status).or_default() += count;
        }
    }
    (told, acknowledged)
}

fn check(promise: &str, error: &'static str, what: &str) {
    let mut counts = counts();
    counts.retain(|call, _| is_of_disk(call));
    let places = sample(points(&counts), env_number("TEST_FAULTS", 20).div_ceil(2));
    // Each call fails once in one run and permanently in the next, in the same directory.
    let both = |&(call, number): &(&'static str, u64)| {
        [false, true].map(|stays| Fault { call, number, error, stays })
    };
    let results = run_on_two_threads(&places, |places| {
        sweep(&places.iter().flat_map(both).collect::<Vec<_>>())
    });
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    for (status, count) in results.iter().flat_map(|(told, _)| &told.statuses) {
        *statuses.entry(*status).or_default() += count;
    }
    assert!(statuses.keys().all(|status| [202, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains_key(&503), "nothing was refused: {statuses:?}");
    let sum = |of: fn(&FaultCounts) -> u64| results.iter().map(|(told, _)| of(told)).sum::<u64>();
    let acknowledged: u64 = results.iter().map(|it| it.1).sum();
    figure(
        promise,
        &format!(
            "{} servers with {what}: {acknowledged} requests acknowledged, 0 lost; {} batches told to come again; \
             {} did not start, and did the next time",
            sum(|told| told.faults),
            statuses[&503],
            sum(|told| told.did_not_start),
        ),
    );
}

#[test]
fn d5_a_disk_that_fails_loses_nothing() {
    if !is_installed("strace") {
        return skip("d5_a_disk_that_fails_loses_nothing", "strace is missing");
    }
    check("D5", "EIO", "a call that fails, or all from one on");
}

#[test]
fn d4_a_disk_that_is_full_loses_nothing() {
    if !is_installed("strace") {
        return skip("d4_a_disk_that_is_full_loses_nothing", "strace is missing");
    }
    check("D4", "ENOSPC", "a call that finds no room, or all from one on");
}

#[test]
fn d5_a_server_that_takes_failures_for_success_is_found_out() {
    if !is_installed("strace") {
        return skip(
            "d5_a_server_that_takes_failures_for_success_is_found_out",
            "strace is missing",
        );
    }
    let found = (4..12).any(|number| {
        let fault = Fault { call: "pwrite64", number, error: "EIO", stays: true };
        let directory = tempfile::tempdir().expect("a directory");
        let mut sent = SentRequests::default();
        let held = run_with_fault(
            fault,
            directory.path(),
            PlantedFault::IgnoredErrors,
            &mut sent,
            &mut FaultCounts::default(),
        );
        held.is_err_and(|why| why.contains("lost"))
    });
    assert!(found);
}
