//! Measures the cost of writing records, and prints it as JSON.
//!
//! - `journal DIRECTORY SECONDS THREADS RECORDS`: each thread appends RECORDS records at a time to
//!   a journal and waits until they are durable.
//! - `appended FILE SECONDS BYTES`: appends bytes to a plain file, and syncs it after each append.
//! - `overwritten FILE SECONDS BYTES`: overwrites bytes of a preallocated file, and syncs it after
//!   each write. This is the minimum of work for the disk.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that says what it measured on standard output"
)]

use blkkin_journal::{AtLimit, Journal, Options, Payload};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PAYLOAD_BYTES: usize = 200;

/// Maximum size of the plain file in bytes. A write that would exceed it goes to the file's start;
/// `appended` truncates the file first.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Latency of each append in nanoseconds, with totals of the run.
struct Measured {
    latencies: Vec<u64>,
    elapsed: Duration,
    records: u64,
    bytes: u64,
    /// Number of syncs to the disk: one for each group of a journal, or each write to a plain file.
    groups: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(measured) => {
            println!("{}", measured.into_json());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<Measured, Box<dyn Error>> {
    let [what, place, seconds, numbers @ ..] = arguments else {
        return Err("see the source".into());
    };
    let (place, seconds) = (Path::new(place), Duration::from_secs_f64(seconds.parse()?));
    let numbers: Vec<usize> = numbers.iter().map_while(|number| number.parse().ok()).collect();
    match (what.as_str(), &numbers[..]) {
        ("journal", &[threads, records]) => journal(place, seconds, threads, records),
        ("appended", &[bytes]) => by_hand(place, seconds, bytes, false),
        ("overwritten", &[bytes]) => by_hand(place, seconds, bytes, true),
        _ => Err("see the source".into()),
    }
}

fn journal(
    directory: &Path,
    seconds: Duration,
    threads: usize,
    records: usize,
) -> Result<Measured, Box<dyn Error>> {
    let options =
        Options { total_bytes_max: 256 << 20, at_limit: AtLimit::DropOldest, ..Options::default() };
    let (journal, _) = Journal::open(directory, options)?;
    let start = Instant::now();
    let latencies: Result<Vec<Vec<u64>>, _> = std::thread::scope(|scope| {
        let append = || append_for(&journal, seconds, records);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(append)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let elapsed = start.elapsed();
    let counters = journal.counters();
    Ok(Measured {
        latencies: latencies?.concat(),
        elapsed,
        records: counters.durable_records,
        bytes: counters.durable_bytes,
        groups: counters.groups,
    })
}

/// Appends `records` records at a time for `seconds`. Waits after each append until its records are
/// durable, and returns the latencies in nanoseconds.
fn append_for(
    journal: &Journal,
    seconds: Duration,
    records: usize,
) -> Result<Vec<u64>, blkkin_journal::Refusal> {
    let payload = [0x5a; PAYLOAD_BYTES];
    let payloads = vec![Payload { kind: 1, bytes: &payload }; records];
    let mut latencies = Vec::new();
    let start = Instant::now();
    while start.elapsed() < seconds {
        let before = Instant::now();
        journal.append(&payloads)?.wait()?;
        latencies.push(before.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

fn by_hand(
    path: &Path,
    seconds: Duration,
    bytes: usize,
    is_overwritten: bool,
) -> Result<Measured, Box<dyn Error>> {
    let group = vec![0x5a; bytes];
    let file = File::create(path)?;
    if is_overwritten {
        let zeros = vec![0; 1 << 20];
        (0..FILE_BYTES_MAX >> 20).try_for_each(|mib| file.write_all_at(&zeros, mib << 20))?;
    }
    file.sync_all()?;
    let (mut latencies, mut offset) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < seconds {
        let before = Instant::now();
        file.write_all_at(&group, offset)?;
        file.sync_data()?;
        latencies.push(before.elapsed().as_nanos() as u64);
        offset += bytes as u64;
        if offset + bytes as u64 > FILE_BYTES_MAX {
            offset = 0;
            if !is_overwritten {
                file.set_len(0)?;
            }
        }
    }
    let groups = latencies.len() as u64;
    let (elapsed, bytes) = (start.elapsed(), groups * bytes as u64);
    Ok(Measured { latencies, elapsed, records: 0, bytes, groups })
}

impl Measured {
    fn into_json(mut self) -> String {
        self.latencies.sort_unstable();
        format!(
            "{{\"records\": {}, \"bytes\": {}, \"groups\": {}, \"seconds\": {:.6}, \
             \"p50_ns\": {}, \"p99_ns\": {}}}",
            self.records,
            self.bytes,
            self.groups,
            self.elapsed.as_secs_f64(),
            self.percentile(50),
            self.percentile(99),
        )
    }

    fn percentile(&self, percent: usize) -> u64 {
        let rank = (self.latencies.len() * percent).div_ceil(100).max(1);
        self.latencies.get(rank - 1).copied().unwrap_or_default()
    }
}
