//! Tests with a program that pushes spans, reports the flushed spans, and is killed at random
//! moments and restarted. All spans reported as flushed arrive.

use crate::accounts::{PATIENCE, balanced, options, push};
use crate::server::{Reply, Server};
use blkkin_deliver::{Exporter, Options};
use blkkin_sys::testing::{Random, own_test};
use blkkin_wire::Format;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

/// Marker before each report of the tested program. Output of the test harness lacks the marker,
/// but may precede it on the same line.
const MARK: &str = "says: ";

/// Acts as the tested program: pushes spans from a given number on, ten at a time, and reports the
/// flushed spans.
#[test]
#[ignore = "a program of other tests"]
fn exports() {
    let variable = |name| std::env::var(name).expect("a variable");
    let queue = Some(variable("TEST_QUEUE").into());
    let exporter = Exporter::open(Options { queue, ..options(&variable("TEST_URL")) });
    let exporter = exporter.expect("an exporter");
    let first: u64 = variable("TEST_FIRST").parse().expect("a number");
    let count: u64 = variable("TEST_COUNT").parse().expect("a number");
    for number in first..first + count {
        push(&exporter, number);
        if number % 10 == 9 {
            // With `TEST_EARLY`, the program reports spans that it has not flushed: the fault that
            // the test must detect.
            if std::env::var_os("TEST_EARLY").is_none() {
                exporter.flush().expect("room");
            }
            let line = format!("{MARK}{}\n", number + 1);
            std::io::stdout().lock().write_all(line.as_bytes()).expect("to say");
        }
    }
    assert!(exporter.wait_until_empty(PATIENCE));
    balanced(&exporter.close());
}

/// Runs the tested program with spans from a given number on, and returns the number after the last
/// span reported as flushed. If `kill_after` is set, the program is killed after this number of
/// reports and the delay. Otherwise the program only delivers the waiting batches, and exits by
/// itself.
fn run(
    url: &str,
    queue: &std::path::Path,
    first: u64,
    kill_after: Option<(u64, Duration)>,
    early: bool,
) -> u64 {
    let mut command = own_test::<&str>(&[], "kill::exports");
    command.env("TEST_URL", url).env("TEST_QUEUE", queue).env("TEST_FIRST", first.to_string());
    command.env("TEST_COUNT", if kill_after.is_some() { "100000" } else { "0" });
    if early {
        command.env("TEST_EARLY", "1");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("a program");
    let (mut flushed, mut count) = (first, 0);
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("a line");
        let Some((_, number)) = line.split_once(MARK) else { continue };
        flushed = number.parse().expect("a number");
        count += 1;
        if let Some((_, pause)) = kill_after.filter(|(after, _)| *after == count) {
            std::thread::sleep(pause);
            child.kill().expect("to kill");
        }
    }
    let status = child.wait().expect("a child");
    assert_eq!(status.success(), kill_after.is_none());
    flushed
}

/// Returns the number of spans that did not arrive although a killed program had reported them as
/// flushed. If `early` is set, the program reports spans before it flushes them.
fn missing(early: bool) -> usize {
    let scratch = tempfile::tempdir().expect("a folder");
    // Every third answer is a failure.
    let server = Server::new(|count, _| match count % 9 {
        2 => Reply::status(503),
        5 => Reply::Reset,
        8 => Reply::Answer(429, vec![("retry-after", "0".to_owned())], Vec::new()),
        _ => Reply::status(202),
    });
    let url = server.url("/api/v2/spans");
    let mut random = Random::new(7);
    let mut flushed = BTreeSet::new();
    for round in 0..12 {
        let first = round * 1_000_000;
        let pause = Duration::from_micros(random.next() % 3000);
        let after = 1 + random.next() % 30;
        let end = run(&url, scratch.path(), first, Some((after, pause)), early);
        flushed.extend(first..end);
    }
    run(&url, scratch.path(), 0, None, early);
    assert!(flushed.len() >= 120, "{}", flushed.len());
    let arrived: BTreeSet<u64> = server.numbers(Format::ZipkinJson).into_iter().collect();
    flushed.difference(&arrived).count()
}

#[test]
fn what_was_flushed_arrives() {
    assert_eq!(missing(false), 0);
}

#[test]
fn this_test_would_find_what_was_not_flushed() {
    assert!(missing(true) > 0);
}
