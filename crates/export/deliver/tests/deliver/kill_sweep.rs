//! Tests of promise D1: whichever system call the program is killed in, flushed spans arrive, and
//! refused batches are stored.

use crate::program_run::{Destination, ProgramRun, RESUMES, RunOptions};
use blkkin_sys::testing::{
    Scratch, answers_behind_syncs, deadline, env_number, figure, is_installed, most_calls, points,
    run_on_two_threads, sample, skip, traced,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Names of all system calls by which the program changes files or produces output.
pub(crate) const CALLS: [&str; 18] = [
    "openat",
    "mkdir",
    "mkdirat",
    "fallocate",
    "pwrite64",
    "write",
    "fdatasync",
    "fsync",
    "rename",
    "renameat",
    "renameat2",
    "ftruncate",
    "unlink",
    "unlinkat",
    "connect",
    "sendto",
    "sendmsg",
    "writev",
];

/// Number of killed runs that share a directory.
const LIVES: usize = 4;

/// Maximum time from the restart after a kill to the first flush.
const SERVES_AGAIN: Duration = Duration::from_secs(2);

/// Returns the number of batches in a run, enough for more than one segment of the queue.
pub(crate) fn batches() -> u64 {
    env_number("TEST_BATCHES", 20)
}

/// Returns the parameters of a run that starts with batch `first`.
pub(crate) fn how(first: u64) -> RunOptions {
    RunOptions { first, batches: batches(), patience: RESUMES, is_early: false }
}

/// Returns, for each system call, the maximum number of calls that one thread makes in a run.
pub(crate) fn counts() -> BTreeMap<&'static str, u64> {
    let scratch = Scratch::new("deliver-sweep");
    let destination = Destination::new(&scratch.0.join("queue"));
    let log = scratch.0.join("log");
    let life = ProgramRun::run(&traced(&CALLS, None, &log), &destination, how(0));
    assert!(life.is_good() && life.flushed == batches(), "{life:?}");
    destination.check(life.flushed, 0, 0).expect("all has come");
    most_calls(&log, &CALLS)
}

/// Runs the program and kills it in a system call; returns true if it was killed. Batches that were
/// not flushed are pushed again by the next run.
fn kill_in(
    call: &str,
    number: u64,
    destination: &Destination,
    flushed: &mut u64,
    is_early: bool,
) -> Result<bool, String> {
    let inject = format!("signal=SIGKILL:when={number}");
    let words = traced(&[call], Some(&inject), Path::new("/dev/null"));
    let life = ProgramRun::run(&words, destination, RunOptions { is_early, ..how(*flushed) });
    *flushed = life.flushed;
    match life.status.success() {
        true if life.is_good() => Ok(false),
        false if life.messages.is_empty() => Ok(true),
        _ => Err(format!("killed in {call} number {number}: {life:?}")),
    }
}

/// Runs the program undisturbed after a number of kills, and checks that all flushed batches
/// arrived. A further run checks that settled batches are not sent again. Returns the time until
/// the first flush of the first run.
fn check_at_rest(
    destination: &Destination,
    flushed: &mut u64,
    kills: u64,
) -> Result<Duration, String> {
    let mut run = || {
        let life = ProgramRun::run(&[], destination, RunOptions { batches: 1, ..how(*flushed) });
        *flushed = life.flushed;
        match life.is_good() {
            true => Ok(life.took),
            false => Err(format!("after {kills} kills: {life:?}")),
        }
    };
    let took = run()?;
    let before = destination.count();
    run()?;
    let after = destination.count();
    // Waiting batches, and flushed batches whose flush was not reported, are sent again, after each
    // later kill too.
    destination.check(*flushed, 0, kills * (kills + 2))?;
    if after != before + 1 {
        return Err(format!("{before} batches came, then {after}"));
    }
    match took <= deadline(SERVES_AGAIN) {
        true => Ok(took),
        false => Err(format!("it serves again only after {took:?}")),
    }
}

fn sweep(points: &[(&str, u64)]) -> (u64, u64, Duration) {
    let (mut killed, mut flushed_all, mut slowest) = (0, 0, Duration::ZERO);
    for points in points.chunks(LIVES) {
        let scratch = Scratch::new("deliver-sweep");
        let destination = Destination::new(&scratch.0.join("queue"));
        let (mut flushed, mut kills) = (0, 0);
        for &(call, number) in points {
            let was = kill_in(call, number, &destination, &mut flushed, false);
            kills += u64::from(was.unwrap_or_else(|why| panic!("{why}")));
        }
        let took = check_at_rest(&destination, &mut flushed, kills);
        slowest = slowest.max(took.unwrap_or_else(|why| panic!("{why} {points:?}")));
        (killed, flushed_all) = (killed + kills, flushed_all + flushed);
    }
    (killed, flushed_all, slowest)
}

#[test]
fn d1_what_was_flushed_outlives_any_system_call() {
    if !is_installed("strace") {
        return skip("d1_what_was_flushed_outlives_any_system_call", "strace is missing");
    }
    let points = sample(points(&counts()), env_number("TEST_POINTS", 60));
    let results = run_on_two_threads(&points, sweep);
    let sum = |of: fn(&(u64, u64, Duration)) -> u64| results.iter().map(of).sum::<u64>();
    let (killed, flushed) = (sum(|it| it.0), sum(|it| it.1));
    let slowest = results.iter().map(|it| it.2).max().unwrap_or_default();
    // Threads differ between runs, and a call that is never made kills no program.
    assert!(killed >= points.len() as u64 / 2, "{killed} of {} were killed", points.len());
    figure(
        "D1",
        &format!(
            "exporters killed in {killed} system calls: {flushed} batches flushed, 0 lost, twice only what was sent \
             again; serve again after {} ms at most",
            slowest.as_millis()
        ),
    );
}

#[test]
fn d1_an_exporter_that_flushes_early_is_found_out() {
    if !is_installed("strace") {
        return skip("d1_an_exporter_that_flushes_early_is_found_out", "strace is missing");
    }
    let found = (2..12).step_by(3).any(|number| {
        let scratch = Scratch::new("deliver-sweep");
        let destination = Destination::new(&scratch.0.join("queue"));
        let mut flushed = 0;
        let killed = kill_in("pwrite64", number, &destination, &mut flushed, true);
        let kills = u64::from(killed.expect("it starts"));
        check_at_rest(&destination, &mut flushed, kills).is_err_and(|why| why.contains("lost"))
    });
    assert!(found);
}

/// Traces the system calls of a program and returns the number of reported flushes. Each reported
/// flush must follow an fdatasync; the fdatasync number `fails` returns an error. Kills cannot show
/// that data is durable, because the kernel keeps written data; the order of the calls can.
pub(crate) fn flushed_behind_syncs(fails: Option<u64>) -> Result<u64, String> {
    let scratch = Scratch::new("deliver-order");
    let destination = Destination::new(&scratch.0.join("queue"));
    let log = scratch.0.join("log");
    let mut words = traced(&["pwrite64", "fdatasync", "write"], None, &log);
    words.extend(["-y", "-s", "16"].map(str::to_owned));
    if let Some(number) = fails {
        words.extend(["-e".to_owned(), format!("inject=fdatasync:error=EIO:when={number}")]);
    }
    let life = ProgramRun::run(&words, &destination, how(0));
    let log = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
    let seen = answers_behind_syncs(&log, ".segment", "says: flushed")?;
    // The trace must contain the checked calls.
    match life.is_good() && seen == life.flushed {
        true => Ok(seen),
        false => Err(format!("{seen} were seen: {life:?}")),
    }
}

#[test]
fn d1_flushed_comes_behind_fdatasync() {
    if !is_installed("strace") {
        return skip("d1_flushed_comes_behind_fdatasync", "strace is missing");
    }
    assert_eq!(flushed_behind_syncs(None), Ok(batches()));
    figure(
        "D1",
        &format!("{} times flushed, each behind an fdatasync of what it is of", batches()),
    );
}
