//! How long it takes to keep spans in columns, to sort, write and find them, and how many bytes they take, in memory and
//! in a file. `cargo run --release -p blkkin-columns --example measure [SPANS [FILE]]`; single-threaded.
//!
//! The spans are made up: requests of eight spans, through a client, a gateway, object servers and their disks, each
//! with six tags, of which three quarters recur, and one or two annotations.
#![allow(clippy::print_stdout, reason = "a program")]

use blkkin_columns::{Block, File, Options, Sorted, Writer};
use blkkin_model::{
    AnnotationRef, Count, EndpointRef, Kind, Origin, SpanId, SpanRef, SpanSink, TagRef, TraceId,
    ValueRef,
};
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::time::Duration;

/// A moment, by the time that this thread has had a processor: others use this machine too.
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

/// Numbers that look random, always the same.
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

const NAMES: [&str; 8] =
    ["write", "submit", "handle", "replicate", "journal", "commit", "apply", "flush"];
const POOLS: [&str; 6] = ["rbd", "images", "volumes", "backups", "metadata", "ssd"];

/// Hands over the spans of a request.
fn request(random: &mut Random, start: u64, each: &mut dyn FnMut(&SpanRef<'_>)) {
    let trace = TraceId::from_number(random.next().max(1).into()).expect("not 0");
    let object = format!("rbd_data.{:012x}.{:016x}", random.below(500), random.below(10_000));
    let (pool, client) = (POOLS[random.below(6) as usize], format!("vm-{}", random.below(200)));
    let size = 4096 << random.below(5);
    let offset = random.below(1 << 22) * 4096;
    let mut ids = [0; 8];
    let mut starts = [start; 8];
    for (number, name) in NAMES.into_iter().enumerate() {
        let id = random.next().max(1);
        let parent = if number == 0 { None } else { Some((number - 1) / 2) };
        let start = parent.map_or(start, |parent| starts[parent]) + random.below(200_000);
        (ids[number], starts[number]) = (id, start);
        let osd = random.below(48);
        let service = if number < 2 { client.clone() } else { format!("osd.{osd}") };
        let duration = 50_000 + random.below(4_000_000) / (number as u64 + 1);
        let tag = |key, value| TagRef { key, value, origin: Origin::Span };
        let tags = [
            tag("host.name", ValueRef::Str(&service)),
            tag("object", ValueRef::Str(&object)),
            tag("offset", ValueRef::Int(offset as i64)),
            tag("pool", ValueRef::Str(pool)),
            TagRef {
                key: "service.version",
                value: ValueRef::Str("18.2.4"),
                origin: Origin::Resource,
            },
            tag("size", ValueRef::Int(size)),
        ];
        let annotations = [
            AnnotationRef { time_ns: start + duration / 3, value: "queued" },
            AnnotationRef { time_ns: start + duration / 2, value: "dequeued" },
        ];
        let host = Ipv4Addr::from(0x0a00_0000 + osd as u32);
        let local = EndpointRef { service: &service, ipv4: Some(host), ipv6: None, port: 6800 };
        each(&SpanRef {
            parent_id: parent.and_then(|parent| SpanId::from_number(ids[parent])),
            kind: if number % 2 == 0 { Kind::Server } else { Kind::Client },
            name,
            start_ns: Some(start),
            duration_ns: Some(duration),
            local,
            remote: if number == 0 { EndpointRef::NONE } else { local },
            annotations: &annotations[..1 + number % 2],
            tags: &tags,
            ..SpanRef::new(trace, SpanId::from_number(id).expect("not 0"))
        });
    }
}

fn each(spans: usize, each: &mut dyn FnMut(&SpanRef<'_>)) {
    let mut random = Random(7);
    let mut start = 1_790_000_000_000_000_000;
    for _ in 0..spans / 8 {
        start += random.below(20_000);
        request(&mut random, start, each);
    }
}

fn said(what: &str, took: Duration, spans: usize) {
    println!("{what:<28} {:>9.1} ns a span", took.as_nanos() as f64 / spans as f64);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spans = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1 << 19);
    let path = arguments.next().unwrap_or_else(|| "target/spans.parquet".to_owned());

    let mut seen = Count::default();
    let begun = Instant::now();
    each(spans, &mut |span| assert!(seen.span(span).is_continue()));
    let making = begun.elapsed();
    let mut blocks: Vec<Block> = Vec::new();
    let begun = Instant::now();
    each(spans, &mut |span| {
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
    each((1 << 16).min(spans), &mut |span| assert!(blocks[0].push(span).is_ok()));
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
    let mut writer = Writer::create(file, Options::default()).expect("a file");
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
        assert!(block.len() >= 8 || row >> 16 == 0);
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
