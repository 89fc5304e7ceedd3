//! Tests of clock jumps while no exporter has the queue open: the jumps neither drop waiting
//! batches nor keep them longer.

use crate::accounts::{PATIENCE, finish, options, push};
use crate::server::{Reply, Server};
use blkkin_deliver::{Cause, Exporter, Options};
use blkkin_journal::{Item, Journal, Payload, Reader};
use blkkin_wire::Format;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const YEAR_MS: i64 = 365 * 24 * 60 * 60 * 1000;

/// Byte range of a batch's time in its record.
const TIME: std::ops::Range<usize> = 13..21;

/// Queues three batches of ten spans in a folder, without delivering them.
fn queued(folder: &Path) {
    let server = Server::new(|_, _| Reply::status(503));
    let exporter = Exporter::open(with_queue(&server, folder)).expect("an exporter");
    for batch in 0..3 {
        (0..10).for_each(|number| push(&exporter, batch * 10 + number));
        exporter.flush().expect("room");
    }
    assert_eq!(exporter.close().waiting, 30);
}

fn with_queue(server: &Server, folder: &Path) -> Options {
    let url = server.url("/api/v2/spans");
    Options { queue: Some(folder.to_owned()), ..options(&url) }
}

/// Shifts the times of the waiting batches, as if the clock had been set after they were queued.
/// Returns the shifted time of the last batch.
fn shift(folder: &Path, milliseconds: i64) -> u64 {
    let folder = folder.join("batches");
    let mut batches = Vec::new();
    let mut reader = Reader::open(&folder, 0).expect("a journal");
    while let Some(item) = reader.next().expect("a readable journal") {
        let Item::Record(record) = item else { panic!("{item:?}") };
        batches.push((record.kind, record.payload.to_vec()));
    }
    drop(reader);
    assert_eq!(batches.len(), 3);
    fs::remove_dir_all(&folder).expect("to go");
    fs::create_dir(&folder).expect("a folder");
    let options = blkkin_journal::Options::default();
    let (journal, _) = Journal::open(&folder, options).expect("a journal");
    let mut last = 0;
    for (kind, mut bytes) in batches {
        let time = u64::from_le_bytes(bytes[TIME].try_into().expect("eight bytes"));
        last = time.saturating_add_signed(milliseconds);
        bytes[TIME].copy_from_slice(&last.to_le_bytes());
        let appended = journal.append(&[Payload { kind, bytes: &bytes }]).expect("room");
        appended.wait().expect("a durable batch");
    }
    journal.close().expect("to close");
    last
}

#[test]
fn a_clock_that_jumps_between_two_makes_nothing_too_old() {
    for jump in [-YEAR_MS, i64::MIN, YEAR_MS, i64::MAX] {
        let scratch = tempfile::tempdir().expect("a folder");
        queued(scratch.path());
        shift(scratch.path(), jump);
        let server = Server::new(|asked, _| Reply::status(if asked < 2 { 503 } else { 202 }));
        let exporter = Exporter::open(with_queue(&server, scratch.path())).expect("an exporter");
        let counters = finish(exporter);
        assert_eq!((counters.recovered, counters.delivered), (30, 30), "{jump}: {counters:?}");
        assert_eq!(server.numbers(Format::ZipkinJson)[20..], (0..30).collect::<Vec<_>>());
    }
}

#[test]
fn what_waits_grows_old_wherever_the_clock_is() {
    for jump in [-YEAR_MS, i64::MIN, YEAR_MS, i64::MAX] {
        let scratch = tempfile::tempdir().expect("a folder");
        queued(scratch.path());
        shift(scratch.path(), jump);
        let server = Server::new(|_, _| Reply::status(503));
        let age_max = Duration::from_millis(300);
        let options = Options { age_max, ..with_queue(&server, scratch.path()) };
        let start = Instant::now();
        let counters = finish(Exporter::open(options).expect("an exporter"));
        assert_eq!(counters.dropped(Cause::TooOld), 30, "{jump}: {counters:?}");
        assert!(start.elapsed() >= age_max - Duration::from_millis(1) && counters.retries > 0);
    }
}

#[test]
fn the_next_one_goes_on_where_the_last_batch_was_queued() {
    let scratch = tempfile::tempdir().expect("a folder");
    queued(scratch.path());
    let last = shift(scratch.path(), -YEAR_MS);
    queued_behind(scratch.path());
    // The earlier batches are a year old; the new batch is queued shortly after them.
    let folder = scratch.path().join("batches");
    let mut reader = Reader::open(&folder, 0).expect("a journal");
    let mut times = Vec::new();
    while let Some(item) = reader.next().expect("a readable journal") {
        let Item::Record(record) = item else { panic!("{item:?}") };
        let time = record.payload[TIME].try_into().expect("eight bytes");
        times.push(u64::from_le_bytes(time));
    }
    assert!(times.is_sorted() && times.len() == 4, "{times:?}");
    assert!((last..last + PATIENCE.as_millis() as u64).contains(&times[3]), "{times:?}");
}

/// Adds one batch to the queue folder, without delivering it.
fn queued_behind(folder: &Path) {
    let server = Server::new(|_, _| Reply::status(503));
    let exporter = Exporter::open(with_queue(&server, folder)).expect("an exporter");
    push(&exporter, 30);
    assert_eq!(exporter.close().waiting, 31);
}

#[test]
fn an_age_without_end_is_none() {
    let server = Server::new(|asked, _| Reply::status(if asked < 3 { 503 } else { 202 }));
    let url = server.url("/api/v2/spans");
    for age_max in [Duration::MAX, Duration::from_nanos(u64::MAX)] {
        let longest = Duration::MAX;
        let options = Options { age_max, pause_max: longest, ..options(&url) };
        let exporter = Exporter::open(options).expect("an exporter");
        (0..10).for_each(|number| push(&exporter, number));
        assert_eq!(finish(exporter).delivered, 10);
    }
}
