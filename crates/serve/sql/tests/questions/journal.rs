//! Tests of queries on records that are only in the journal: while a store accepts spans and writes
//! files, with limits, and after damage to the journal.

use crate::support::{options, run_query};
use blkkin_lake::Lake;
use blkkin_sql::{Format, Options};
use blkkin_store::{AcceptedBatch, Batch, Policy, Refusal, SpanStore};
use blkkin_wire::Format as WireFormat;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const COUNT: &str = "SELECT count(*) AS spans, count(DISTINCT trace_id) AS requests FROM spans";

fn open(directory: &Path) -> Lake {
    Lake::open(directory, blkkin_lake::Options::default()).expect("opened").0
}

/// Sends one span for each of the requests with these numbers, and waits for the acknowledgement.
fn send(lake: &Lake, requests: Range<u64>) {
    let spans = requests.map(|number| {
        format!(
            r#"{{"traceId":"{number:016x}","id":"{number:016x}","name":"read","timestamp":1795262400000000,"duration":{number},"localEndpoint":{{"serviceName":"osd.3"}}}}"#
        )
    });
    let bytes = format!("[{}]", spans.collect::<Vec<_>>().join(","));
    let batch =
        Batch { format: WireFormat::ZipkinJson, bytes: bytes.as_bytes(), policy: Policy::Whole };
    let (told, answer) = mpsc::channel::<Result<AcceptedBatch, Refusal>>();
    lake.accept(batch, Box::new(move |result| told.send(result).expect("somebody waits")));
    answer.recv().expect("an answer").expect("acknowledged");
}

/// Returns the number of spans and the number of requests that a query finds in the store.
fn count(directory: &Path) -> (u64, u64) {
    let (answer, _) = run_query(&options(directory), Format::Csv, COUNT);
    let answer = answer.expect("an answer");
    let numbers = answer.lines().nth(1).and_then(|line| line.split_once(',')).expect("two numbers");
    (numbers.0.parse().expect("a number"), numbers.1.parse().expect("a number"))
}

#[test]
fn what_is_acknowledged_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let lake = open(directory);
    assert_eq!(count(directory), (0, 0), "a store that has nothing yet");
    send(&lake, 1..11);
    assert_eq!(count(directory), (10, 10), "without any file");
    lake.flush().expect("written");
    assert_eq!(count(directory), (10, 10), "in a file");
    send(&lake, 11..16);
    assert_eq!(count(directory), (15, 15), "in a file and in the journal");
    drop(lake);
    assert_eq!(count(directory), (15, 15), "when nobody writes it any more");
}

#[test]
fn limits_hold_while_the_journal_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let lake = open(directory);
    (0..40).for_each(|batch| send(&lake, 1 + batch * 5000..1 + (batch + 1) * 5000));
    assert_eq!(count(directory), (200_000, 200_000));
    let none = Options { timeout: Duration::from_millis(1), ..options(directory) };
    let little = Options { memory_bytes: 1 << 20, ..options(directory) };
    for (options, expected) in [(none, "longer than"), (little, "memory")] {
        let (answer, _) = run_query(&options, Format::Csv, "SELECT 1");
        let error = answer.expect_err(expected);
        assert!(error.is_stopped() && error.to_string().contains(expected), "{error}");
    }
}

/// Each query result has whole batches, each span once, and no fewer spans than the result before,
/// while the store writes and merges files and removes journal segments.
#[test]
fn answers_are_whole_while_files_are_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let options = blkkin_lake::Options {
        merge_files: 2,
        journal: blkkin_journal::Options {
            segment_bytes: 64 << 10,
            payload_bytes_max: 32 << 10,
            ..blkkin_lake::Options::default().journal
        },
        ..blkkin_lake::Options::default()
    };
    let (lake, _) = Lake::open(directory, options).expect("opened");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for batch in 0..60 {
                send(&lake, 1 + batch * 100..101 + batch * 100);
                lake.flush().expect("written");
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let mut before = 0;
        while !is_done.load(Ordering::Relaxed) {
            let (spans, requests) = count(directory);
            assert_eq!(spans, requests);
            assert!(spans >= before && spans % 100 == 0, "{before} spans, and then {spans}");
            before = spans;
        }
    });
    assert_eq!(count(directory), (6000, 6000));
}

#[test]
fn damage_of_the_journal_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let lake = open(directory);
    (0..3).for_each(|batch| send(&lake, 1 + batch * 10..11 + batch * 10));
    drop(lake);
    let segment = fs::read_dir(directory.join("journal")).expect("a journal");
    let segment = segment.map(|entry| entry.expect("a name").path());
    let segment = segment.max_by_key(|path| path.metadata().expect("there").len()).expect("one");
    let bytes = fs::read(&segment).expect("read");
    let at = bytes.windows(16).position(|text| text == b"000000000000000c").expect("written");
    let mut file = OpenOptions::new().write(true).open(&segment).expect("opened");
    file.seek(SeekFrom::Start(at as u64)).expect("there");
    file.write_all(b"x").expect("written");
    let (answer, _) = run_query(&options(directory), Format::Csv, COUNT);
    let error = answer.expect_err("damage").to_string();
    assert!(error.contains("bytes at") && error.contains("journal/"), "{error}");
    let skipping = blkkin_sql::Options { skip_damaged: true, ..options(directory) };
    let (answer, summary) = run_query(&skipping, Format::Csv, COUNT);
    assert!(answer.expect("the rest").ends_with("\n20,20\n"));
    assert_eq!(summary.expect("a summary").left_out.len(), 1);
}
