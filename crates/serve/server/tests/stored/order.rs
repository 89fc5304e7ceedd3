//! Tests of the promises D1 and D5: before the server acknowledges a batch, the batch has been
//! written and an fdatasync has succeeded. A kill does not test this, because the kernel keeps
//! written pages; the order of the system calls does.

use crate::harness::{SentRequests, ServerRun};
use crate::program::PlantedFault;
use blkkin_sys::testing::{answers_behind_syncs, env_number, figure, is_installed, skip, traced};
use std::path::Path;

const CALLS: [&str; 5] = ["pwrite64", "fdatasync", "write", "writev", "sendto"];

const ANSWER: &str = "\"HTTP/1.1 202";

/// Runs a server under strace. If `fails` is given, the fdatasync with that number fails in each
/// thread. Returns the number of acknowledgements, after checking that a successful fdatasync of
/// the journal precedes each; 0 if the server does not start.
fn observe(directory: &Path, plant: PlantedFault, fails: Option<u64>) -> Result<u64, String> {
    let log = directory.join("log");
    let mut words = traced(&CALLS, None, &log);
    words.extend(["-y", "-s", "16"].map(str::to_owned));
    if let Some(number) = fails {
        words.extend(["-e".to_owned(), format!("inject=fdatasync:error=EIO:when={number}")]);
    }
    let life = ServerRun::start(&words, &directory.join("data"), plant);
    let Ok(life) = life else { return Ok(0) };
    let mut sent = SentRequests::default();
    sent.send(&life, 24);
    assert!(life.end().success());
    let told = sent.statuses.get(&202).copied().unwrap_or_default();
    let text = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
    let seen = answers_behind_syncs(&text, "/journal/", ANSWER)?;
    // The trace must show every acknowledgement.
    if seen == told { Ok(seen) } else { Err(format!("{seen} of {told} answers were seen")) }
}

fn in_new_directory(plant: PlantedFault, fails: Option<u64>) -> Result<u64, String> {
    observe(tempfile::tempdir().expect("a directory").path(), plant, fails)
}

#[test]
fn d1_acknowledged_is_what_is_durable() {
    if !is_installed("strace") {
        return skip("d1_acknowledged_is_what_is_durable", "strace is missing");
    }
    assert_eq!(in_new_directory(PlantedFault::None, None), Ok(24));
    let found = in_new_directory(PlantedFault::NoSync, None).unwrap_err();
    assert!(found.contains("before"), "{found}");
    figure("D1", "24 acknowledgements, each behind an fdatasync of what it is of");
}

#[test]
fn d5_a_failed_fdatasync_is_no_acknowledgement() {
    if !is_installed("strace") {
        return skip("d5_a_failed_fdatasync_is_no_acknowledgement", "strace is missing");
    }
    let (mut acknowledged, failures) = (0, env_number("TEST_FAILURES", 16));
    for number in 1..=failures {
        let seen = in_new_directory(PlantedFault::None, Some(number));
        acknowledged += seen.unwrap_or_else(|why| panic!("fdatasync {number}: {why}"));
    }
    assert!(acknowledged > failures * 12, "{acknowledged}");
    let found =
        (3..8).any(|number| in_new_directory(PlantedFault::IgnoredErrors, Some(number)).is_err());
    assert!(found);
    figure(
        "D5",
        &format!(
            "{failures} servers whose n-th fdatasync failed: {acknowledged} acknowledgements, all durable"
        ),
    );
}
