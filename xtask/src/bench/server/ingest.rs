//! Rate of acknowledged spans in each format, and processor time of sender and server. Start at
//! [`run`].

use super::state::{Bench, clear};
use crate::bench::goal::{Goal, Rival};
use crate::bench::serving::program::{Numbers, SendResult};
use crate::bench::serving::running::Running;
use crate::measure::{Table, median, show_bytes, show_duration};
use serde_json::json;
use std::time::Duration;

/// Names of the formats, each with the minimum rate of acknowledged spans a second.
pub(super) const FORMATS: [(&str, f64); 5] = [
    ("json", 300_000.0),
    ("proto3", 500_000.0),
    ("otlp-http", 500_000.0),
    ("otlp-grpc", 500_000.0),
    ("scribe", 400_000.0),
];
const WANTED: f64 = 1_000_000.0;

/// Names of the formats that Zipkin's server accepts over HTTP.
const OF_ZIPKIN: [&str; 2] = ["json", "proto3"];

/// Capacity of Zipkin's store in spans. More spans than are sent must fit, because evicting makes
/// the server 20 times as slow.
const ZIPKIN_SPANS_MAX: u64 = 3_000_000;

/// Number of requests in a batch, which have some 2500 spans together; `BATCHES` is the number of
/// batches that are encoded before the measurement.
pub(super) const REQUESTS_A_BATCH: u64 = 300;
const BATCHES: u64 = 96;

/// Number of connections; `IN_FLIGHT` is the number of unacknowledged batches on each.
const CONNECTIONS: u64 = 4;
const IN_FLIGHT: u64 = 2;

/// Results of sending spans to one server in one format.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) sent: SendResult,
    cpu_seconds: f64,
    rss_bytes_max: u64,
    /// Time from the last acknowledgement until the server was idle.
    after: Duration,
}

impl Run {
    /// Returns the rate of spans a second up to the time at which the server was idle.
    fn settled_rate(&self) -> f64 {
        self.sent.spans / (self.sent.seconds + self.after.as_secs_f64()).max(1e-9)
    }
}

/// A server with one format, and the results of its runs.
struct Case {
    who: &'static str,
    format: &'static str,
    runs: Vec<Run>,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    let (rounds, seconds) = if bench.options.quick { (1, 2.5) } else { (3, 6.0) };
    let mut whos = vec!["durable"];
    if bench.peers.zipkin.is_some() {
        whos.push("Zipkin");
    }
    let mut cases: Vec<Case> = Vec::new();
    for (format, _) in FORMATS {
        let may = |who: &&&str| **who != "Zipkin" || OF_ZIPKIN.contains(&format);
        cases.extend(whos.iter().filter(may).map(|who| Case { who, format, runs: Vec::new() }));
    }
    bench.report.say(format!(
        "medians of {rounds} rounds of {seconds} s; {CONNECTIONS} connections, {IN_FLIGHT} batches waiting on each\n\
         Zipkin acknowledges before it reads: its figure is until it had nothing left to do\n"
    ));
    for _ in 0..rounds {
        for case in &mut cases {
            case.runs.push(measure(bench, case.who, case.format, seconds)?);
        }
    }
    let table = table(&cases);
    bench.report.say(table);
    for case in &cases {
        tell(bench, case);
    }
    for (format, limit) in FORMATS {
        let find = |who: &str| cases.iter().find(|case| case.who == who && case.format == format);
        let rate = find("durable").map(Case::rate);
        let goal = Goal::at_least(WANTED, "/s", format!("spans taken durably, {format}"));
        let goal = goal.limit(limit).measured(rate);
        bench.report.goal(match find("Zipkin").map(Case::rate) {
            Some(rate) => {
                goal.rival(Rival { name: "Zipkin, memory", measured: Some(rate), times_min: None })
            }
            None => goal,
        });
    }
    Ok(())
}

fn measure(bench: &mut Bench<'_>, who: &str, format: &str, seconds: f64) -> Result<Run, String> {
    let room = bench.room("data")?;
    let server = match (who, &bench.peers.zipkin) {
        ("Zipkin", Some(jar)) => Running::zipkin(&bench.folder, jar, ZIPKIN_SPANS_MAX)?,
        _ => bench.start(&room)?,
    };
    // Before the measurement, the JVM compiles the code under load; it is slow until then.
    if who == "Zipkin" {
        send(bench, &server, format, seconds / 2.0)?;
        server.settle()?;
    }
    let run = send(bench, &server, format, seconds)?;
    if who == "durable" {
        bench.note_memory(format!("spans as {format}"), run.rss_bytes_max);
    }
    server.stop();
    clear(&room)?;
    Ok(run)
}

/// Returns the arguments of the sending program, for a run of `seconds`.
pub(super) fn arguments(server: &Running, format: &str, seconds: f64) -> serde_json::Value {
    let mut arguments = json!({
        "format": format,
        "address": server.address(format),
        "connections": CONNECTIONS,
        "in_flight": IN_FLIGHT,
        "requests_a_batch": REQUESTS_A_BATCH,
        "batches": BATCHES,
        "first": 0,
        "seconds": seconds,
    });
    Numbers::now().tell(&mut arguments);
    arguments
}

fn send(bench: &Bench<'_>, server: &Running, format: &str, seconds: f64) -> Result<Run, String> {
    let before = server.cpu_seconds()?;
    let value = bench.program.run("ingest", &arguments(server, format, seconds))?;
    let cpu_seconds = server.cpu_seconds()? - before;
    let sent = SendResult::of(&value).ok_or_else(|| format!("`{value}` says too little"))?;
    let (after, rss_bytes_max) = (server.settle()?, server.rss_bytes_max()?);
    Ok(Run { sent, cpu_seconds, rss_bytes_max, after })
}

impl Case {
    fn median(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(figure).collect())
    }

    /// Returns the rate of each run in spans per second. Zipkin acknowledges spans before it
    /// decodes them, so its runs are timed until the server is idle.
    fn rates(&self) -> Vec<f64> {
        let rate = |run: &Run| match self.who {
            "Zipkin" => run.settled_rate(),
            _ => run.sent.rate(),
        };
        self.runs.iter().map(rate).collect()
    }

    fn rate(&self) -> f64 {
        median(self.rates())
    }
}

fn table(cases: &[Case]) -> String {
    let mut table = Table::new(&[
        "format",
        "store",
        "spans/s",
        "min",
        "max",
        "MB/s",
        "B/span",
        "p50",
        "p99",
        "again",
        "server",
        "sender",
        "memory",
        "busy after",
    ]);
    for case in cases {
        let rates = case.rates();
        let show = |ns: f64| show_duration(Duration::from_nanos(ns as u64));
        let a_span = |seconds: f64| format!("{:.0} ns", seconds * 1e9);
        table.row(vec![
            case.format.to_owned(),
            case.who.to_owned(),
            format!("{:.0}", case.rate()),
            format!("{:.0}", rates.iter().copied().fold(f64::INFINITY, f64::min)),
            format!("{:.0}", rates.iter().copied().fold(0.0, f64::max)),
            format!("{:.0}", case.median(|run| run.sent.bytes / run.sent.seconds / 1e6)),
            format!("{:.0}", case.median(|run| run.sent.bytes / run.sent.spans)),
            show(case.median(|run| run.sent.p50_ns)),
            show(case.median(|run| run.sent.p99_ns)),
            format!("{:.0}", case.median(|run| run.sent.refusals)),
            a_span(case.median(|run| run.cpu_seconds / run.sent.spans)),
            a_span(case.median(|run| run.sent.own_cpu_seconds / run.sent.spans)),
            show_bytes(case.median(|run| run.rss_bytes_max as f64) as u64),
            show_duration(Duration::from_secs_f64(case.median(|run| run.after.as_secs_f64()))),
        ]);
    }
    table.render()
}

fn tell(bench: &mut Bench<'_>, case: &Case) {
    bench.report.row(json!({
        "table": "ingest",
        "format": case.format,
        "store": case.who,
        "spans_per_second": case.rate(),
        "spans_per_second_of_each": case.rates(),
        "bytes_per_span": case.median(|run| run.sent.bytes / run.sent.spans),
        "p50_ns": case.median(|run| run.sent.p50_ns),
        "p99_ns": case.median(|run| run.sent.p99_ns),
        "refusals": case.median(|run| run.sent.refusals),
        "server_cpu_ns_per_span": case.median(|run| run.cpu_seconds * 1e9 / run.sent.spans),
        "sender_cpu_ns_per_span": case.median(|run| run.sent.own_cpu_seconds * 1e9 / run.sent.spans),
        "rss_bytes_max": case.median(|run| run.rss_bytes_max as f64),
        "busy_after_seconds": case.median(|run| run.after.as_secs_f64()),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(spans: f64, after: u64) -> Run {
        let sent = SendResult {
            spans,
            requests: 1,
            bytes: 10.0 * spans,
            refusals: 0.0,
            seconds: 2.0,
            own_cpu_seconds: 1.0,
            p50_ns: 1e6,
            p99_ns: 2e6,
            rates: Vec::new(),
        };
        Run { sent, cpu_seconds: 3.0, rss_bytes_max: 1 << 20, after: Duration::from_secs(after) }
    }

    #[test]
    fn zipkin_has_taken_spans_when_it_is_done() {
        let runs = vec![run(1000.0, 3), run(3000.0, 3), run(2000.0, 3)];
        let ours = Case { who: "durable", format: "json", runs: runs.clone() };
        let zipkin = Case { who: "Zipkin", format: "json", runs };
        assert_eq!((ours.rate(), zipkin.rate()), (1000.0, 400.0));
        let shown = table(&[ours, zipkin]);
        assert!(shown.contains("600") && shown.contains("1500000 ns"), "{shown}");
    }
}
