//! `cargo xtask bench NAME`: the list of benches, and the reporting that they share.
//!
//! A bench is a module with a function in [`BENCHES`]. It reports through a [`Report`]: tables for
//! people, goals with their outcomes, and one JSON line for programs with `--json`.

mod agent;
mod blkkin;
mod blockstack;
mod c;
mod ctf;
mod goal;
mod journal;
mod large_packets;
pub(crate) mod lttng;
mod process;
pub(crate) mod recipe;
mod recording;
mod server;
mod serving;
mod sizes;
mod tracer;
mod wire;

use crate::measure::{Measured, Table, show_bytes, show_duration};
use crate::tools::{Outcome, is_ci};
use goal::Goal;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&Options, &mut Report) -> Result<(), String>,
}

const BENCHES: [Bench; 7] = [
    Bench {
        name: "blockstack",
        about: "what tracing costs a chain of block storage under fio, beside nbdkit",
        run: blockstack::run,
    },
    Bench {
        name: "ctf",
        about: "reading a trace that LTTng-UST recorded, beside babeltrace2",
        run: ctf::run,
    },
    Bench {
        name: "journal",
        about: "making records durable, beside writing the same bytes by hand",
        run: journal::run,
    },
    Bench {
        name: "server",
        about: "taking spans, keeping and finding them, beside Zipkin, DuckDB and ClickHouse's engine",
        run: server::run,
    },
    Bench {
        name: "tracer",
        about: "recording events: what it costs the traced program, beside LTTng-UST",
        run: tracer::run,
    },
    Bench {
        name: "ui",
        about: "showing large requests and searching many in a browser, beside Zipkin's pages",
        run: server::ui::run,
    },
    Bench {
        name: "wire",
        about: "decoding and encoding spans in each format, beside serde_json, prost and thrift",
        run: wire::run,
    },
];

/// Maximum load average of the machine. Above it, other processes distort the figures, and the
/// bench says so.
const LOAD_AVERAGE_MAX: f64 = 0.5;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The bench; without a name all benches are listed
    name: Option<String>,
    /// Print one line of JSON on standard output, and all else on standard error
    #[arg(long)]
    json: bool,
    /// Use smaller input and fewer runs: to see that it works, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Use the largest inputs too (ctf: a trace of 10 GB; server: 50 million spans)
    #[arg(long)]
    full: bool,
    /// Run only this phase (server: ingest, visible, evict, bytes, questions, zipkin, build; ui:
    /// trace, search, beside; blockstack: alone, chain, beside, bytes); can be given several times
    #[arg(long, value_name = "NAME")]
    phase: Vec<String>,
    /// Millions of spans in the queried store (server: 1 and 10; ui: 10); can be given several
    /// times for server
    #[arg(long, value_name = "MILLION")]
    spans: Vec<u64>,
    /// Number of measurements of each mode (blockstack: 11; `alone`: three times as many)
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    /// Duration of each measurement (blockstack: 0.5; `beside`: twice as long)
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Measure this `blkkin` instead of building one (blockstack; server: only phase `bytes`)
    #[arg(long, value_name = "PROGRAM")]
    blkkin: Option<PathBuf>,
    /// Write the document with the results (blockstack: docs/evaluation.md)
    #[arg(long)]
    write_docs: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let Some(name) = &options.name else {
        let mut table = Table::new(&["bench"]);
        BENCHES
            .iter()
            .for_each(|bench| table.row(vec![format!("{}  {}", bench.name, bench.about)]));
        print!("{}", table.render());
        return Ok(ExitCode::SUCCESS);
    };
    let bench = BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        format!("no bench `{name}`; there is {}", names.join(", "))
    })?;
    let mut report = Report::new(options.json);
    if load_average() > LOAD_AVERAGE_MAX {
        report.say(format!(
            "this machine is busy (load average {}): figures are not to be quoted",
            load_average()
        ));
    }
    (bench.run)(options, &mut report)?;
    let ok = report.finish(bench.name);
    // A goal that is not met is a result, not an error. In CI it is an error, except with
    // `--quick`, because the table is not read there.
    Ok(if ok || !is_ci() || options.quick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Collector of a bench's results. Tables are printed at once, the goals and the JSON line at the
/// end.
struct Report {
    json: bool,
    rows: Vec<Value>,
    goals: Vec<Goal>,
}

impl Report {
    fn new(json: bool) -> Report {
        Report { json, rows: Vec::new(), goals: Vec::new() }
    }

    /// Prints text for people, on standard error if standard output has the JSON line.
    fn say(&self, text: impl AsRef<str>) {
        if self.json { eprintln!("{}", text.as_ref()) } else { println!("{}", text.as_ref()) }
    }

    /// Adds a row to the JSON line.
    fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// Prints a table of measured commands, and adds a row for each. Each command processed
    /// `events` events.
    fn measured(&mut self, title: &str, measured: &[Measured], events: u64) {
        let mut table = Table::new(&[
            title, "median", "min", "p10", "p90", "ns/event", "CPU", "peak RSS", "speed", "than",
        ]);
        for one in measured {
            let name = &one.candidate.name;
            let ns_per_event = one.wall_median().as_nanos() as f64 / events as f64;
            let baseline = one.candidate.baseline.as_deref();
            let speed_up =
                baseline.and_then(|baseline| crate::measure::speed_up(measured, name, baseline));
            table.row(vec![
                name.clone(),
                show_duration(one.wall_median()),
                show_duration(one.wall(0)),
                show_duration(one.wall(10)),
                show_duration(one.wall(90)),
                if events > 1 { format!("{ns_per_event:.1}") } else { String::new() },
                show_duration(one.cpu_median()),
                show_bytes(one.rss_bytes_max()),
                speed_up.map_or_else(String::new, |times| format!("{times:.2}x")),
                baseline.unwrap_or("").to_owned(),
            ]);
            self.row(json!({
                "table": title,
                "name": name,
                "command": one.candidate.command,
                "events": events,
                "wall_ns_median": one.wall_median().as_nanos() as u64,
                "wall_ns_min": one.wall(0).as_nanos() as u64,
                "wall_ns_p10": one.wall(10).as_nanos() as u64,
                "wall_ns_p90": one.wall(90).as_nanos() as u64,
                "cpu_ns_median": one.cpu_median().as_nanos() as u64,
                "rss_bytes_max": one.rss_bytes_max(),
                "baseline": baseline,
                "speed_up": speed_up,
            }));
        }
        self.say(table.render());
    }

    /// Adds a goal to the results.
    fn goal(&mut self, goal: Goal) {
        self.goals.push(goal);
    }

    /// Prints the goals, and with `--json` the JSON line. Returns whether every goal is met or
    /// within its limit.
    fn finish(&self, name: &str) -> bool {
        if !self.goals.is_empty() {
            self.say(goal::render(&self.goals));
        }
        if self.json {
            let when =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_secs());
            let goals: Vec<Value> = self.goals.iter().map(goal::to_json).collect();
            let line = json!({"bench": name, "when": when, "machine": machine(),
                              "rows": self.rows, "goals": goals});
            println!("{line}");
        }
        self.goals.iter().all(Goal::is_done)
    }
}

/// Returns a description of the machine for the JSON line, because figures depend on it.
fn machine() -> Value {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    json!({
        "cpu": after_colon(&cpuinfo, "model name"),
        "cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": after_colon(&meminfo, "MemTotal"),
        "kernel": kernel.trim(),
        "load_average": load_average(),
        "rustc": rustc.unwrap_or_default(),
    })
}

/// Returns the machine's load average over the last minute; 0 if it is unknown.
fn load_average() -> f64 {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loadavg.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Returns the text after the colon in the first line that begins with `key`.
fn after_colon<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::after_colon;

    #[test]
    fn proc_files_are_read() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz: fast\nprocessor\t: 1\n";
        assert_eq!(after_colon(text, "model name"), Some("A CPU @ 3 GHz: fast"));
        assert_eq!(after_colon(text, "flags"), None);
    }
}
