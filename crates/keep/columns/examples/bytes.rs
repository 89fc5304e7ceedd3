//! Benchmark of spans in columns: time to push, sort, write and find them, and their size in memory
//! and in a file. Run it by `cargo run --release -p blkkin-columns --example bytes [SPANS [FILE
//! [LEVEL]]]`. It is single-threaded. LEVEL is the zstd level of columns whose values recur, as in
//! merged files.
//!
//! The spans are those of `blkkin_store::testing::requests`, in the form of OpenTelemetry senders
//! and spread over a day.
#![allow(clippy::print_stdout, reason = "a program")]

use blkkin_columns::{Block, File, Options, Sorted, Writer};
use blkkin_model::{Count, SpanRef, SpanSink};
use blkkin_store::testing::requests::{self, Requests};
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::time::Duration;

/// CPU time of this thread, since other processes use the machine too.
struct Instant(u64);

impl Instant {
    fn now() -> Instant {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        Instant(text.split(' ').next().and_then(|text| text.parse().ok()).expect("a number"))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Instant::now().0 - self.0)
    }
}

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const DAY_NS: u64 = 86_400_000_000_000;
const SPANS_OF_REQUEST: u64 = 8;

/// Passes whole requests with at least `spans` spans to `each`, the same ones in each call.
fn each(spans: usize, mut each: impl FnMut(&SpanRef<'_>)) {
    let mut sink = Each(&mut each);
    let options = requests::Options {
        shared: false,
        wide: true,
        typed: true,
        gap_ns: DAY_NS * SPANS_OF_REQUEST / spans as u64,
        ..requests::Options::default()
    };
    Requests::new(options).fill(spans as u64, &mut sink);
}

struct Each<'a>(&'a mut dyn FnMut(&SpanRef<'_>));

impl SpanSink for Each<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        (self.0)(span);
        ControlFlow::Continue(())
    }
}

fn said(what: &str, took: Duration, spans: usize) {
    println!("{what:<28} {:>9.1} ns a span", took.as_nanos() as f64 / spans as f64);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spans = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1 << 19);
    let path = arguments.next().unwrap_or_else(|| "target/spans.parquet".to_owned());

    let level_of_recurring = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let options = Options { level_of_recurring, ..Options::default() };

    let mut seen = Count::default();
    let begun = Instant::now();
    each(spans, |span| assert!(seen.span(span).is_continue()));
    let making = begun.elapsed();
    let mut blocks: Vec<Block> = Vec::new();
    let begun = Instant::now();
    each(spans, |span| {
        if blocks.last().is_none_or(|block| block.len() == 1 << 16) {
            blocks.push(Block::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push(span).expect("room");
        }
    });
    said("push", begun.elapsed().saturating_sub(making), spans);
    let begun = Instant::now();
    blocks[0].clear();
    let first = blocks[0].len();
    each((1 << 16).min(spans), |span| assert!(blocks[0].push(span).is_ok()));
    let again = begun.elapsed();
    assert_eq!(first, 0);
    println!("{:<28} {:>9.1} ms", "push into what was cleared", again.as_secs_f64() * 1e3);
    let memory: usize = blocks.iter().map(Block::memory_bytes).sum();
    println!("{:<28} {:>9.1} bytes a span", "memory", memory as f64 / spans as f64);

    let mut all = Block::new();
    let begun = Instant::now();
    blocks.iter().for_each(|block| all.append(block).expect("room"));
    said("append", begun.elapsed(), spans);

    let references: Vec<&Block> = blocks.iter().collect();
    let mut sorting = Duration::ZERO;
    let mut writing = Duration::ZERO;
    let file = BufWriter::with_capacity(1 << 20, std::fs::File::create(&path).expect("a file"));
    let mut writer = Writer::create(file, options).expect("a file");
    for part in references.chunks(8) {
        let begun = Instant::now();
        let sorted = Sorted::of(part);
        sorting += begun.elapsed();
        let begun = Instant::now();
        writer.append(&sorted).expect("written");
        writing += begun.elapsed();
    }
    let begun = Instant::now();
    let (_, written) = writer.finish().expect("written");
    writing += begun.elapsed();
    said("sort", sorting, spans);
    said("write", writing, spans);
    println!("{:<28} {:>9.1} bytes a span", "file", written.bytes as f64 / spans as f64);

    let begun = std::time::Instant::now();
    let file = File::open_path(&path).expect("ours");
    println!("{:<28} {:>9.1} µs", "open", begun.elapsed().as_secs_f64() * 1e6);
    println!(
        "{:<28} {:>9.1} bytes a span",
        "memory of an open file",
        file.memory_bytes() as f64 / spans as f64
    );
    for (column, bytes) in file.column_bytes() {
        println!(
            "  {:<26} {:>9.2} bytes a span",
            format!("{column:?}"),
            bytes as f64 / spans as f64
        );
    }
    let mut random = Random(99);
    let mut block = Block::new();
    for round in 0..2 {
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..200 {
            let row = random.below(file.len()) & !7;
            block.clear();
            let begun = std::time::Instant::now();
            file.rows(row..(row + 8).min(file.len()), &mut block).expect("whole");
            times.push(begun.elapsed());
        }
        times.sort();
        println!(
            "{:<28} {:>9.1} µs, p99 {:.1} µs",
            format!("8 rows, round {round}"),
            times[100].as_secs_f64() * 1e6,
            times[198].as_secs_f64() * 1e6
        );
    }
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        let row = random.below(spans as u64) as usize;
        let low = blocks[row >> 16].trace_low((row & 0xffff) as u32);
        block.clear();
        let begun = std::time::Instant::now();
        let _ = file.trace(low, &mut block).expect("whole");
        times.push(begun.elapsed());
        assert!(block.len() >= 4 || row >> 16 == 0);
    }
    times.sort();
    println!(
        "{:<28} {:>9.1} µs, p99 {:.1} µs",
        "by request",
        times[100].as_secs_f64() * 1e6,
        times[198].as_secs_f64() * 1e6
    );
    let begun = Instant::now();
    let mut count = Count::default();
    let _ = file.read(0..file.len(), &mut count).expect("whole");
    said("read all", begun.elapsed(), spans);
    let begun = Instant::now();
    file.verify().expect("whole");
    said("verify", begun.elapsed(), spans);
}
