//! Size on disk of a span from a real trace. The chain is traced under a mixed load, its spans are
//! sent to a server, and the server's files are measured once merging is at rest, or after a time
//! limit. For comparison, other programs write the same rows. Start at [`measure`].

use super::fio::{self, BLOCK, MIXED};
use super::recorded::{Recorded, count};
use super::servers::Server;
use super::stage::Stage;
use crate::bench::goal::Goal;
use crate::bench::recipe::Output;
use crate::bench::serving::program::{OnDisk, Program};
use crate::bench::serving::running::{Running, metric};
use crate::bench::serving::wait_for_rest;
use crate::peers::{self, Environment};
use crate::tools::at;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Number of requests. A read has seven spans and a write thirteen, so the spans fill enough files
/// for a merge.
const REQUESTS: u64 = 480_000;
const REQUESTS_QUICK: u64 = 120_000;

/// Wanted size of a span in real traces, with its index, in bytes; [`BYTES_MAX`] is its limit.
pub(super) const BYTES_WANTED: f64 = 25.0;
pub(super) const BYTES_MAX: f64 = 35.0;

/// Python script that writes the rows of all Parquet files with DuckDB and with pyarrow.
const SCRIPT: &str = r#"
import glob, json, os, sys
import duckdb, pyarrow.parquet as parquet
data, room = sys.argv[1:]
files = sorted(glob.glob(data + "/**/*.parquet", recursive=True))
rows = sum(parquet.read_metadata(file).num_rows for file in files)
database = duckdb.connect(room + "/spans.duckdb")
database.execute("SET enable_progress_bar = false")
database.execute("CREATE TABLE spans AS SELECT * FROM read_parquet(?)", [files])
database.execute("CHECKPOINT")
database.close()
parquet.write_table(parquet.read_table(files), room + "/spans.parquet", compression="zstd")
print(json.dumps({"rows": rows, "DuckDB": os.path.getsize(room + "/spans.duckdb"),
                  "pyarrow": os.path.getsize(room + "/spans.parquet")}))
"#;

/// Results of measuring the size of a span.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) recorded: Recorded,
    pub(super) trace_bytes: u64,
    /// Number of spans that the server has stored, including those that are not in Parquet files
    /// yet.
    pub(super) spans: f64,
    pub(super) disk: OnDisk,
    /// Set if merging was at rest before the time limit.
    pub(super) is_at_rest: bool,
    /// Name of each other program, and size in bytes of its file with the spans of the Parquet
    /// files.
    pub(super) others: Vec<(&'static str, u64)>,
    /// Name of the skipped comparison, with the reason; `None` if other programs were measured.
    pub(super) skipped: Option<String>,
}

impl Bytes {
    /// Returns the size of a span in bytes, without and with the index; `None` if no span is in a
    /// file.
    pub(super) fn a_span(&self) -> Option<(f64, f64)> {
        self.disk.bytes_a_span()
    }

    /// Returns the goal for the size of a span.
    pub(super) fn goal(&self) -> Goal {
        let with_index = self.a_span().map(|(_, with_index)| with_index);
        let what = "a span of real traces on disk, its index included";
        Goal::at_most(BYTES_WANTED, " B", what).limit(BYTES_MAX).measured(with_index)
    }

    /// Returns the average size of a span in another program's file of `bytes` bytes. The file was
    /// converted from BlkKin's Parquet files, so it holds the same spans.
    fn of_others(&self, bytes: u64) -> f64 {
        bytes as f64 / self.disk.spans as f64
    }

    /// Returns the average size of a span in bytes, by storage: the trace, BlkKin's files, and the
    /// files of other programs.
    pub(super) fn all(&self) -> Vec<(String, f64)> {
        let mut all = vec![("the trace".to_owned(), self.trace_bytes as f64 / self.spans)];
        if let Some((rows, with_index)) = self.a_span() {
            all.push(("BlkKin, rows".to_owned(), rows));
            all.push(("BlkKin, with its index".to_owned(), with_index));
        }
        let others = self.others.iter();
        all.extend(others.map(|(name, size)| ((*name).to_owned(), self.of_others(*size))));
        all
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "table": "bytes",
            "requests": self.recorded.requests,
            "events": self.recorded.events,
            "events_lost": self.recorded.lost,
            "trace_bytes": self.trace_bytes,
            "spans": self.spans,
            "spans_in_files": self.disk.spans,
            "files": self.disk.files,
            "parquet_bytes": self.disk.parquet_bytes,
            "index_bytes": self.disk.index_bytes,
            "at_rest": self.is_at_rest,
            "others": self.others.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}))
                .collect::<Vec<_>>(),
        })
    }
}

pub(super) fn measure(stage: &Stage, program: &Program, is_quick: bool) -> Result<Bytes, String> {
    let room = Output::below(&stage.disk, "bytes")?;
    let trace = room.0.join("trace");
    record(stage, &trace, if is_quick { REQUESTS_QUICK } else { REQUESTS })?;
    let recorded = count(&stage.blkkin, &trace)?;

    let data = room.0.join("spans");
    let options = ["--data".into(), data.clone().into(), "--keep".into(), "0".into()];
    let server = Running::start(Path::new(&stage.blkkin), &room.0, &options)?;
    send(&stage.blkkin, &trace, &format!("http://{}/v1/traces", server.web()))?;
    let (disk, is_at_rest) = wait_for_rest(program, &server, &data, is_quick)?;
    let spans = metric(&server.get("/metrics")?, "blkkin_store_spans_accepted_total");
    let spans = spans.filter(|spans| *spans > 0.0).ok_or("the server does not count spans")?;
    server.stop();
    if disk.spans == 0 {
        return Err("the server has made no file of spans".to_owned());
    }
    let (others, skipped) = match others(&data, &room.0, disk.spans) {
        Ok(others) => (others, None),
        Err(why) => (Vec::new(), Some(format!("DuckDB and pyarrow ({why})"))),
    };
    let trace_bytes = size_of(&trace)?;
    Ok(Bytes { recorded, trace_bytes, spans, disk, is_at_rest, others, skipped })
}

/// Traces the chain while it processes `requests` requests, all of which are sampled.
fn record(stage: &Stage, trace: &Path, requests: u64) -> Result<(), String> {
    let place = Output::below(&stage.memory.0, "bytes")?;
    let server = Server::chain(&stage.blockstack, &stage.agent, &place.0.join("chain"))?;
    let agent = &stage.agent;
    let output = trace.to_string_lossy().into_owned();
    agent.command(&["session", "create", "bytes", "--output", &output])?;
    agent.command(&["event", "enable", "--session", "bytes", "*"])?;
    agent.command(&["session", "start", "bytes"])?;
    let done = fio::bytes(&server, &MIXED, &place.0, requests * BLOCK);
    agent.command(&["session", "stop", "bytes"])?;
    agent.command(&["session", "destroy", "bytes"])?;
    done
}

/// Sends the spans of a trace to a server by `blkkin spans`.
fn send(blkkin: &str, trace: &Path, url: &str) -> Result<(), String> {
    let start = Instant::now();
    let output = Command::new(blkkin)
        .args(["spans", "--to", url])
        .arg(trace)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {blkkin}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let (said, after) = (String::from_utf8_lossy(&output.stderr), start.elapsed());
            Err(format!("blkkin spans --to, after {} s: {}", after.as_secs(), said.trim()))
        }
    }
}

fn others(data: &Path, room: &Path, spans: u64) -> Result<Vec<(&'static str, u64)>, String> {
    let python = peers::python(Environment::Newest);
    let output = Command::new(&python)
        .args(["-c", SCRIPT])
        .args([data, room])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status;
    // The script prints the result last.
    let text = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .map_err(|_| errors.lines().last().map_or_else(|| status.to_string(), str::to_owned))?;
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    if number("rows") != Some(spans) {
        return Err(format!("they find {:?} spans, and not {spans}", number("rows")));
    }
    let names = ["DuckDB", "pyarrow"].into_iter();
    Ok(names.filter_map(|name| Some((name, number(name)?))).collect())
}

/// Returns the total size of all files below a folder, in bytes.
fn size_of(folder: &Path) -> Result<u64, String> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        let metadata = entry.metadata().map_err(at(folder))?;
        sum += if metadata.is_dir() { size_of(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
