//! Tests of the queue on disk and in memory: batches on disk survive a restart, batches in memory
//! are counted as dropped, the queue is bounded, and damage is counted.

use crate::accounts::{PATIENCE, balanced, finish, of_format, options, push, with_span};
use crate::server::{Reply, Server};
use blkkin_deliver::{Cause, Error, Exporter, Options, Refusal, WhenFull};
use blkkin_model::TagRef;
use blkkin_wire::Format;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the URL of a closed port.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    format!("http://{address}/api/v2/spans")
}

fn with_queue(url: &str, folder: &Path) -> Options {
    Options { queue: Some(folder.to_owned()), ..options(url) }
}

#[test]
fn what_waits_is_sent_by_the_next_one() {
    let scratch = tempfile::tempdir().expect("a folder");
    let dead = Exporter::open(with_queue(&nobody(), scratch.path())).expect("an exporter");
    for batch in 0..3 {
        (0..10).for_each(|number| push(&dead, batch * 10 + number));
        dead.flush().expect("room");
    }
    // Spans that were not flushed are queued on close.
    push(&dead, 30);
    let counters = dead.close();
    balanced(&counters);
    assert_eq!((counters.pushed, counters.waiting), (31, 31));

    let server = Server::new(|_, _| Reply::status(202));
    let exporter = Exporter::open(with_queue(&server.url("/api/v2/spans"), scratch.path()));
    let exporter = exporter.expect("an exporter");
    push(&exporter, 31);
    let counters = finish(exporter);
    assert_eq!((counters.recovered, counters.pushed, counters.delivered), (31, 1, 32));
    assert_eq!(server.numbers(Format::ZipkinJson), (0..32).collect::<Vec<_>>());

    let exporter = Exporter::open(with_queue(&server.url("/api/v2/spans"), scratch.path()));
    assert_eq!(finish(exporter.expect("an exporter")).recovered, 0);
    assert_eq!(server.asked().len(), 5);
}

#[test]
fn without_a_folder_what_waits_is_lost_and_counted() {
    let exporter = Exporter::open(options(&nobody())).expect("an exporter");
    (0..10).for_each(|number| push(&exporter, number));
    exporter.flush().expect("room");
    push(&exporter, 10);
    assert!(!exporter.wait_until_empty(Duration::from_millis(20)));
    let trouble = exporter.trouble().expect("trouble");
    assert!(trouble.starts_with("cannot connect: "), "{trouble}");
    let counters = exporter.close();
    balanced(&counters);
    assert_eq!((counters.waiting, counters.dropped(Cause::Ended)), (0, 11));
}

#[test]
fn a_queue_has_one_user_and_one_format() {
    let scratch = tempfile::tempdir().expect("a folder");
    let first = Exporter::open(with_queue(&nobody(), scratch.path())).expect("an exporter");
    let error = Exporter::open(with_queue(&nobody(), scratch.path())).map(drop);
    assert!(error.expect_err("in use").to_string().contains("is in use"));
    push(&first, 0);
    first.close();
    let other = of_format(&nobody(), Some(Format::ZipkinProto));
    let other = Options { queue: Some(scratch.path().to_owned()), ..other };
    let error = Exporter::open(other).map(drop).expect_err("another format");
    let (found, wanted) = (Format::ZipkinJson, Format::ZipkinProto);
    assert!(
        matches!(error, Error::OtherFormat { queued: f, expected: w } if (f, w) == (found, wanted)),
        "{error}"
    );
}

/// Pushes spans with a text of 100 KiB until a span is refused. Returns the number of accepted
/// spans, and the refusal.
fn fill(exporter: &Exporter) -> (u64, Refusal) {
    let text = "x".repeat(100 << 10);
    for number in 0.. {
        let pushed = with_span(number, |span| {
            let tags = [TagRef::text("number", "n"), TagRef::text("text", &text)];
            let mut span = *span;
            span.tags = &tags;
            exporter.push(&span)
        });
        if let Err(refusal) = pushed {
            return (number, refusal);
        }
    }
    unreachable!("there is an end to everything")
}

#[test]
fn a_full_queue_says_so_and_goes_on_when_there_is_room() {
    for is_on_disk in [false, true] {
        let scratch = tempfile::tempdir().expect("a folder");
        let queue = is_on_disk.then(|| scratch.path().to_owned());
        let is_open = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let asked = is_open.clone();
        let server = Server::new(move |_, _| {
            Reply::status(if asked.load(std::sync::atomic::Ordering::Relaxed) { 202 } else { 503 })
        });
        let options = options(&server.url("/api/v2/spans"));
        let options = Options { queue, queue_bytes_max: 10 << 20, ..options };
        let exporter = Exporter::open(options).expect("an exporter");
        let (pushed, refusal) = fill(&exporter);
        assert!(matches!(refusal, Refusal::Full), "{refusal}");
        assert!((50..130).contains(&pushed), "{pushed}");
        assert!(!exporter.wait_for_room(Duration::from_millis(50)));
        let counters = exporter.counters();
        assert_eq!((counters.pushed, counters.waiting), (pushed, pushed));
        balanced(&counters);
        is_open.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(exporter.wait_for_room(PATIENCE));
        push(&exporter, 7);
        let counters = finish(exporter);
        assert_eq!((counters.pushed, counters.delivered), (pushed + 1, pushed + 1));
    }
}

#[test]
fn the_oldest_go_if_that_is_wanted() {
    for is_on_disk in [false, true] {
        let scratch = tempfile::tempdir().expect("a folder");
        let queue = is_on_disk.then(|| scratch.path().to_owned());
        let options = Options {
            queue,
            queue_bytes_max: 10 << 20,
            when_full: WhenFull::DropOldest,
            batch_bytes: 256 << 10,
            // The sender is in a long delay and must be woken.
            pause_first: PATIENCE,
            pause_max: PATIENCE,
            ..options(&nobody())
        };
        let exporter = Exporter::open(options).expect("an exporter");
        let text = "x".repeat(10 << 10);
        for number in 0..3000 {
            with_span(number, |span| {
                let tags = [TagRef::text("text", &text)];
                let mut span = *span;
                span.tags = &tags;
                exporter.push(&span).expect("room is made");
            });
        }
        exporter.flush().expect("room is made");
        let counters = exporter.counters();
        balanced(&counters);
        let (dropped, waiting) = (counters.dropped(Cause::QueueFull), counters.waiting);
        assert_eq!(dropped + waiting, 3000, "{counters:?}");
        // No more batches than necessary are dropped: a segment is as large as half of the queue.
        assert!((450..1030).contains(&waiting), "{waiting}");
        let bytes = if is_on_disk { size(scratch.path()) } else { 0 };
        assert!(bytes <= (10 << 20) + (64 << 10), "{bytes}");
    }
}

/// Returns the total size of all files in a folder.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| match entry.file_type().expect("a type").is_dir() {
            true => size(&entry.path()),
            false => entry.metadata().map_or(0, |data| data.len()),
        })
        .sum()
}

#[test]
fn what_is_too_large_is_counted() {
    let server = Server::new(|_, _| Reply::status(202));
    let exporter = Exporter::open(options(&server.url("/api/v2/spans"))).expect("an exporter");
    push(&exporter, 0);
    for (size, is_too_large) in [(3 << 20, false), (5 << 20, true)] {
        let text = "x".repeat(size);
        let before = exporter.counters().dropped(Cause::TooLarge);
        with_span(1, |span| {
            let tags = [TagRef::text("text", &text)];
            let mut span = *span;
            span.tags = &tags;
            exporter.push(&span).expect("to be taken");
        });
        let after = exporter.counters().dropped(Cause::TooLarge);
        assert_eq!(after - before, u64::from(is_too_large), "{size}");
    }
    push(&exporter, 2);
    let counters = finish(exporter);
    assert_eq!((counters.pushed, counters.delivered), (4, 3));
    // The large span is sent alone and delays no other span.
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn damage_costs_what_it_hits_and_is_counted() {
    let scratch = tempfile::tempdir().expect("a folder");
    let dead = Exporter::open(with_queue(&nobody(), scratch.path())).expect("an exporter");
    for batch in 0..5 {
        (0..10).for_each(|number| push(&dead, batch * 10 + number));
        dead.flush().expect("room");
    }
    dead.close();
    let batches = scratch.path().join("batches");
    let files =
        fs::read_dir(&batches).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut hit = 0;
    for file in files.filter(|file| file.is_file()) {
        let mut bytes = fs::read(&file).expect("a file");
        // Damages a name in the third batch.
        if let Some(at) = bytes.windows(7).position(|window| window == b"span 25") {
            bytes[at] ^= 1;
            fs::write(&file, bytes).expect("a file");
            hit += 1;
        }
    }
    assert_eq!(hit, 1);
    let server = Server::new(|_, _| Reply::status(202));
    let exporter = Exporter::open(with_queue(&server.url("/api/v2/spans"), scratch.path()));
    let counters = finish(exporter.expect("an exporter"));
    assert_eq!((counters.recovered, counters.delivered), (50, 40));
    assert_eq!((counters.dropped(Cause::Damaged), counters.damages), (10, 1));
    let rest: Vec<u64> = (0..20).chain(30..50).collect();
    assert_eq!(server.numbers(Format::ZipkinJson), rest);
}

#[test]
fn closing_waits_for_nobody() {
    let server = Server::new(|_, _| Reply::Silence(PATIENCE));
    let exporter = Exporter::open(options(&server.url("/api/v2/spans"))).expect("an exporter");
    push(&exporter, 0);
    exporter.flush().expect("room");
    while server.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    assert_eq!(exporter.close().dropped(Cause::Ended), 1);
    assert!(start.elapsed() < PATIENCE / 4);
}
