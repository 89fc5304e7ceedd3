//! Benchmark of a store on disk: throughput of batches, latency of queries, and space. Run it by
//! `cargo run --release -p blkkin-lake --example measure [SPANS [DIRECTORY [BYTES_KEPT]]]`. It
//! removes the files that it created.
//!
//! The spans are those of `blkkin_store::testing::requests`, in batches of Zipkin's protobuf.
#![allow(clippy::print_stdout, reason = "a program")]

use blkkin_lake::{Lake, Options, Retention};
use blkkin_model::{Held, Span};
use blkkin_store::testing::requests::{self, Requests};
use blkkin_store::{Batch, Condition, Order, Policy, Query, SpanStore, Window};
use blkkin_wire::{Format, encode};
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

const BATCH_SPANS: usize = 2000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let number = |text: String| text.parse().expect("a number");
    let spans: u64 = arguments.next().map_or(1_000_000, number);
    let directory: PathBuf =
        arguments.next().map_or_else(|| std::env::temp_dir().join("blkkin-measure"), PathBuf::from);
    let bytes = arguments.next().map(number);
    let _ = std::fs::remove_dir_all(&directory);
    let options = Options { retention: Retention { age: None, bytes }, ..Options::default() };
    let (lake, _) = Lake::open(&directory, options.clone()).expect("opened");
    let begun = Instant::now();
    let last_ns = take(&lake, spans);
    println!("took {spans} spans in {:.1?}", begun.elapsed());
    lake.write_files().expect("written");
    settle(&lake, &directory);
    ask(&lake, last_ns);
    drop(lake);
    let begun = Instant::now();
    let (lake, opened) = Lake::open(&directory, options).expect("opened");
    println!("opened {} files in {:.1?}", opened.files, begun.elapsed());
    ask(&lake, last_ns);
    drop(lake);
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// Sends spans, with several batches in flight, and prints the throughput in spans a second.
fn take(lake: &Lake, spans: u64) -> u64 {
    let options = requests::Options::default();
    let mut last_ns = options.start_ns;
    let mut source = Requests::new(options);
    let (mut taken, mut shown, mut shown_at) = (0u64, 0u64, Instant::now());
    let (said, heard) = sync_channel(8);
    for _ in 0..8 {
        said.send(()).expect("room");
    }
    let mut making = Duration::ZERO;
    while taken < spans {
        let begun = Instant::now();
        let mut batch: Vec<Span> = Vec::with_capacity(BATCH_SPANS + 40);
        while batch.len() < BATCH_SPANS {
            let _ = source.next(&mut batch);
        }
        last_ns = batch.last().and_then(|span| span.start_ns).unwrap_or(last_ns);
        let held: Vec<Held<'_>> = batch.iter().map(Span::hold).collect();
        let mut bytes = Vec::new();
        encode(Format::ZipkinProto, held.iter().map(Held::as_ref), &mut bytes);
        making += begun.elapsed();
        loop {
            heard.recv().expect("an answer");
            let said = said.clone();
            let (format, policy) = (Format::ZipkinProto, Policy::Whole);
            let (send, answer) = std::sync::mpsc::channel();
            lake.accept(
                Batch { format, bytes: &bytes, policy },
                Box::new(move |result| {
                    let _ = send.send(result.is_ok());
                    let _ = said.send(());
                }),
            );
            // A rejection is reported immediately.
            if answer.try_recv() != Ok(false) {
                break;
            }
        }
        taken += batch.len() as u64;
        if shown_at.elapsed() >= Duration::from_secs(4) {
            let counters = lake.counters();
            let rate = (taken - shown) as f64 / shown_at.elapsed().as_secs_f64() / 1000.0;
            let (kept, memory) = (counters.kept / 1000, counters.memory_bytes >> 20);
            println!(
                "{rate:7.0} thousand a second, {kept} thousand kept, {memory} MiB in memory, {} MiB resident, \
                 making them takes {:.0} %",
                resident_bytes() >> 20,
                100.0 * making.as_secs_f64() / shown_at.elapsed().as_secs_f64()
            );
            (shown, shown_at, making) = (taken, Instant::now(), Duration::ZERO);
        }
    }
    last_ns
}

/// Waits until no more files are merged.
fn settle(lake: &Lake, directory: &std::path::Path) {
    let begun = Instant::now();
    let names = || {
        let files = std::fs::read_dir(directory.join("spans")).expect("there");
        let mut names: Vec<_> = files.filter_map(|file| Some(file.ok()?.file_name())).collect();
        names.sort();
        names
    };
    let (mut before, mut since) = (names(), Instant::now());
    while since.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(200));
        let now = names();
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    let counters = lake.counters();
    let files = before.iter().filter(|name| name.to_string_lossy().ends_with("parquet")).count();
    println!(
        "settled in {:.1?}: {} spans in {files} files, {:.1} bytes a span with index and journal, {} MiB in memory",
        begun.elapsed() - since.elapsed(),
        counters.kept,
        counters.disk_bytes as f64 / counters.kept as f64,
        counters.memory_bytes >> 20
    );
}

/// Prints the median and the maximum latency of queries.
fn ask(lake: &Lake, last_ns: u64) {
    let first_ns = requests::Options::default().start_ns;
    let length = last_ns - first_ns;
    let whole = Window { start_ns: 0, end_ns: u64::MAX };
    let part = |at: u64, of_thousand: u64| {
        let start_ns = first_ns + length / 1000 * at;
        Window { start_ns, end_ns: start_ns + length / 1000 * of_thousand }
    };
    show("calls of all times", 30, |_| lake.links(whole).expect("calls").len());
    show("calls of some window", 60, |at| {
        lake.links(part(at * 13 % 500, 1 + at * 7 % 499)).expect("calls").len()
    });
    let mut pairs = Vec::new();
    for service in lake.services().expect("services") {
        for name in lake.span_names(&service).expect("names") {
            pairs.push(format!(r#"service == "{service}" && name == "{name}""#));
        }
    }
    let conditions: Vec<Condition> =
        pairs.iter().map(|pair| Condition::parse(pair).expect("a condition")).collect();
    let each = conditions.len() as u64;
    show("latency of a pair", each, |at| {
        lake.latency(whole, &conditions[at as usize]).expect("latency").durations.count() as usize
    });
    show("latency of a pair, a part of the time", each, |at| {
        let window = part(at * 17 % 700, 300);
        lake.latency(window, &conditions[at as usize]).expect("latency").durations.count() as usize
    });
    let begun = Instant::now();
    for condition in &conditions {
        lake.latency(whole, condition).expect("latency");
    }
    println!("{:>42}: {:.2?}, {each} of them", "latency of all pairs", begun.elapsed());
    let tag = Condition::parse("offset == 4096").expect("a condition");
    show("latency by tag", 3, |_| {
        lake.latency(whole, &tag).expect("latency").durations.count() as usize
    });
    let search = |window, filters: &[&str], order| {
        let conditions = filters.iter().map(|it| Condition::parse(it).expect("a condition"));
        let query = Query { window, conditions: conditions.collect(), order, ..Query::new(20) };
        lake.search(&query).expect("found").requests.len()
    };
    let slow: [&str; 1] = [r#"service == "osd.3" && name == "write" && duration > 2ms"#];
    show("search in 1 % of the time", 20, |at| {
        search(part(at * 37 % 900, 10), &slow, Order::Newest)
    });
    show("search in all of it", 20, |_| search(whole, &slow, Order::Newest));
    show("search, slowest first", 3, |_| search(whole, &slow, Order::Slowest));
    show("search by tag alone", 3, |_| search(whole, &["offset == 4096"], Order::Newest));
    show("search by service and tag", 3, |_| {
        search(whole, &[r#"service == "guest""#, "offset == 4096"], Order::Newest)
    });
    let page = lake.search(&Query { limit: 50, window: part(300, 100), ..Query::new(50) });
    let ids: Vec<_> = page.expect("found").requests.iter().map(|it| it.trace_id).collect();
    show("a request by its id", ids.len() as u64, |at| {
        lake.trace(ids[at as usize]).expect("read").len()
    });
    println!(
        "{:>42}: {} MiB of the store, {} MiB resident",
        "in memory",
        lake.counters().memory_bytes >> 20,
        resident_bytes() >> 20
    );
}

fn show(what: &str, times: u64, mut ask: impl FnMut(u64) -> usize) {
    let mut found = 0;
    let mut took: Vec<Duration> = (0..times)
        .map(|at| {
            let begun = Instant::now();
            found = ask(at);
            begun.elapsed()
        })
        .collect();
    took.sort();
    if let Some(longest) = took.last() {
        println!("{what:>42}: {:>9.2?}, at most {longest:.2?} ({found})", took[took.len() / 2]);
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = text.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a number");
    pages * 4096
}
