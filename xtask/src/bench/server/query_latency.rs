//! Latency of queries, by the number of spans in the store. It is compared with databases that read
//! the same files, or have loaded them. Candidates run the same queries, in turns of [`PART`]
//! queries; databases run only the first ones. Start at [`run`].

use super::load::{load, p50_and_p99, rest};
use super::peers::database;
use super::state::{Bench, clear};
use crate::bench::goal::{Goal, Rival};
use crate::bench::serving::program::{Answer, OnDisk, QueryProcess};
use crate::measure::{Table, show_duration};
use crate::tools::at;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const MILLIONS: [u64; 2] = [1, 10];
const MILLIONS_FULL: u64 = 50;

/// Number of spans, in millions, for which the goals for latency are set. The goal for bytes a span
/// is set for the same number, unless the user gives others.
const JUDGED: u64 = 10;

/// Number of queries of each kind, except for `percentiles of each`, which has fewer. Databases are
/// slower and run only the first queries: `COUNT_OF_PEERS` of each `COUNT`.
const COUNT: u64 = 240;
const COUNT_OF_PEERS: u64 = 30;

/// Number of queries in one turn of a candidate.
const PART: usize = 60;

const PEERS: [&str; 3] = ["duckdb", "duckdb-parquet", "chdb"];

pub(super) const OURS: &str = "blkkin";

/// A goal for a percentile of the latency in one kind of query.
struct Wanted {
    kind: &'static str,
    percent: u32,
    ms: f64,
}

const WANTED: [Wanted; 8] = [
    Wanted { kind: "trace", percent: 50, ms: 0.3 },
    Wanted { kind: "trace", percent: 99, ms: 5.0 },
    Wanted { kind: "search in 1 %", percent: 50, ms: 1.0 },
    Wanted { kind: "search in 1 %", percent: 99, ms: 20.0 },
    Wanted { kind: "search", percent: 99, ms: 60.0 },
    Wanted { kind: "dependencies", percent: 50, ms: 1.0 },
    Wanted { kind: "percentiles", percent: 50, ms: 100.0 },
    Wanted { kind: "percentiles of each", percent: 50, ms: 100.0 },
];

const BYTES_WANTED: f64 = 25.0;
const BYTES_MAX: f64 = 35.0;

/// A server or database that runs the queries, with its answers.
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) asked: QueryProcess,
    pub(super) questions: usize,
    pub(super) cold: Vec<Answer>,
    pub(super) warm: Vec<Answer>,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    let mut millions = bench.options.spans.clone();
    if millions.is_empty() {
        millions.extend(MILLIONS);
        if bench.options.full {
            millions.push(MILLIONS_FULL);
        }
        if bench.options.quick {
            millions.truncate(1);
        }
    }
    bench.report.say("databases answer within the process that asks them, blkkin over HTTP");
    for millions in millions {
        ask_about(bench, millions)?;
    }
    Ok(())
}

fn ask_about(bench: &mut Bench<'_>, millions: u64) -> Result<(), String> {
    let data = bench.room("data")?;
    let server = bench.start(&data)?;
    let loaded = load(bench, &server, "otlp-http", millions * 1_000_000)?;
    let disk = rest(bench, &server, &data)?;
    bench.note_memory(format!("{millions} million spans"), server.rss_bytes_max()?);
    server.stop();
    tell_disk(bench, millions, loaded.sent.spans, &disk);
    let questions = bench.folder.join("questions.jsonl");
    let mut arguments = json!({"requests": loaded.sent.requests, "count": COUNT});
    loaded.numbers.tell(&mut arguments);
    let text = bench.program.text("questions", &arguments)?;
    fs::write(&questions, &text).map_err(at(&questions))?;
    let lines = text.lines().count();

    // All databases are filled before the page cache is emptied, so that each finds a cold cache in
    // its first queries.
    let rooms = bench.room("databases")?;
    let peers = load_peers(bench, &questions, &data, &rooms)?;
    let is_cold = drop_caches();
    if !is_cold {
        bench
            .report
            .say("the page cache cannot be emptied here: `cold` means a process that is new");
    }
    let start = Instant::now();
    let server = bench.start(&data)?;
    bench.report.say(format!("opened again in {}", show_duration(start.elapsed())));
    let asking = json!({"api": "own", "address": server.web(), "questions": questions});
    let mut candidates = vec![Candidate::new(OURS, bench.program.ask(&asking)?, lines)];
    let few = lines * COUNT_OF_PEERS as usize / COUNT as usize;
    for &name in &peers {
        let Some(python) = &bench.peers.python else { continue };
        let mut command = database(python, name, &questions, &data, &rooms.join(name));
        let mut asked = QueryProcess::start(&mut command)?;
        asked.line()?;
        candidates.push(Candidate::new(name, asked, few));
    }
    ask_in_turn(&mut candidates, lines)?;
    bench.note_memory(format!("questions about {millions} million"), server.rss_bytes_max()?);
    let title = format!("{millions} million spans");
    tell(bench, &title, &candidates);
    if millions == JUDGED {
        judge(bench, &candidates);
    }
    for candidate in candidates {
        candidate.asked.end()?;
    }
    server.stop();
    clear(&data)?;
    clear(&rooms)
}

/// Starts each database once, so that `duckdb` and `chdb` load the files. Returns the databases'
/// names, or an empty list if the databases are not installed.
fn load_peers(
    bench: &mut Bench<'_>,
    questions: &Path,
    files: &Path,
    rooms: &Path,
) -> Result<Vec<&'static str>, String> {
    let Some(python) = bench.peers.python.clone() else { return Ok(Vec::new()) };
    for name in PEERS {
        let mut asked =
            QueryProcess::start(&mut database(&python, name, questions, files, &rooms.join(name)))?;
        let ready = asked.line()?;
        asked.end()?;
        let number = |key: &str| ready[key].as_f64().unwrap_or(0.0);
        let rows = number("rows");
        if name != "duckdb-parquet" {
            bench.report.say(format!(
                "{name}: loaded {rows:.0} spans in {:.1} s, {:.0} a second, {:.1} bytes each",
                number("load_seconds"),
                rows / number("load_seconds").max(1e-9),
                number("bytes") / rows.max(1.0),
            ));
        }
        bench.report.row(json!({"table": "loading", "name": name, "loaded": ready}));
    }
    Ok(PEERS.to_vec())
}

/// Empties the page cache, so that files are read from the disk again. Returns whether that
/// succeeded.
fn drop_caches() -> bool {
    let synced = Command::new("sync").status().is_ok_and(|status| status.success());
    synced && fs::write(PathBuf::from("/proc/sys/vm/drop_caches"), "3").is_ok()
}

impl Candidate {
    pub(super) fn new(name: &'static str, asked: QueryProcess, questions: usize) -> Candidate {
        Candidate { name, asked, questions, cold: Vec::new(), warm: Vec::new() }
    }
}

/// Returns the latencies of the answers to one kind of query, in nanoseconds.
fn times(answers: &[Answer], kind: &str) -> Vec<f64> {
    answers.iter().filter(|answer| answer.kind == kind).map(|answer| answer.ns).collect()
}

/// Runs the queries of each candidate twice, in turns. The answers of the first pass are added to
/// `cold`, those of the second to `warm`.
pub(super) fn ask_in_turn(candidates: &mut [Candidate], lines: usize) -> Result<(), String> {
    for is_warm in [false, true] {
        for from in (0..lines).step_by(PART) {
            for one in candidates.iter_mut() {
                let to = (from + PART).min(one.questions).min(lines);
                if from >= to {
                    continue;
                }
                let answers =
                    one.asked.ask(from, to).map_err(|error| format!("{}: {error}", one.name))?;
                if is_warm { one.warm.extend(answers) } else { one.cold.extend(answers) }
            }
        }
    }
    Ok(())
}

fn tell_disk(bench: &mut Bench<'_>, millions: u64, spans: f64, disk: &OnDisk) {
    bench.report.say(format!(
        "\n{millions} million spans: {} files with {:.1} million of them; {}; journal and others {}",
        disk.files,
        disk.spans as f64 / 1e6,
        disk.bytes_a_span().map_or_else(
            || "none is in a file".to_owned(),
            |(parquet, all)| format!("{all:.1} bytes a span, {parquet:.1} without the index"),
        ),
        crate::measure::show_bytes(disk.other_bytes),
    ));
    bench.report.row(json!({
        "table": "disk",
        "spans_sent": spans,
        "files": disk.files,
        "spans_in_files": disk.spans,
        "parquet_bytes": disk.parquet_bytes,
        "index_bytes": disk.index_bytes,
        "other_bytes": disk.other_bytes,
    }));
    let largest = bench.options.spans.iter().max().copied().unwrap_or(JUDGED);
    if millions == largest {
        let goal = Goal::at_most(
            BYTES_WANTED,
            " B",
            "a span of made-up traces on disk, its index included",
        );
        let bytes = disk.bytes_a_span().map(|(_, all)| all);
        bench.report.goal(goal.limit(BYTES_MAX).measured(bytes));
    }
}

/// Returns the kinds of queries that were answered, in the order of the first answers.
fn kinds(candidates: &[Candidate]) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for answer in candidates.iter().flat_map(|candidate| &candidate.warm) {
        if !kinds.contains(&answer.kind) {
            kinds.push(answer.kind.clone());
        }
    }
    kinds
}

/// Returns the number of queries of a kind for which both candidates found the same number of
/// results. If one candidate ran fewer queries, only these are compared.
fn agreed(one: &[Answer], other: &[Answer], kind: &str) -> usize {
    let same = |(one, other): &(&Answer, &Answer)| {
        one.kind == kind && one == &&Answer { ns: one.ns, ..(*other).clone() }
    };
    one.iter().zip(other).filter(same).count()
}

pub(super) fn tell(bench: &mut Bench<'_>, title: &str, candidates: &[Candidate]) {
    let mut table = Table::new(&[
        title,
        "who",
        "asked",
        "found",
        "as ours",
        "cold p50",
        "cold p99",
        "warm p50",
        "warm p99",
        "than ours",
    ]);
    for kind in kinds(candidates) {
        let own = candidates.iter().find(|candidate| candidate.name == OURS);
        let ours = own.map(|ours| p50_and_p99(&times(&ours.warm, &kind)).0);
        for one in candidates {
            let (cold, warm) = (times(&one.cold, &kind), times(&one.warm, &kind));
            if warm.is_empty() {
                continue;
            }
            let found: u64 = one
                .warm
                .iter()
                .filter(|answer| answer.kind == kind)
                .map(|answer| answer.found)
                .sum();
            let (cold50, cold99) = p50_and_p99(&cold);
            let (warm50, warm99) = p50_and_p99(&warm);
            let show = |ns: f64| show_duration(Duration::from_nanos(ns as u64));
            let same =
                own.filter(|_| one.name != OURS).map(|own| agreed(&own.warm, &one.warm, &kind));
            let than_ours = ours.filter(|_| one.name != OURS).map(|ours| warm50 / ours.max(1.0));
            table.row(vec![
                kind.clone(),
                one.name.to_owned(),
                warm.len().to_string(),
                found.to_string(),
                same.map_or_else(String::new, |same| same.to_string()),
                show(cold50),
                show(cold99),
                show(warm50),
                show(warm99),
                than_ours.map_or_else(String::new, |times| format!("{times:.1} ×")),
            ]);
            bench.report.row(json!({
                "table": title,
                "kind": kind,
                "name": one.name,
                "asked": warm.len(),
                "found": found,
                "as_ours": same,
                "cold_p50_ns": cold50,
                "cold_p99_ns": cold99,
                "warm_p50_ns": warm50,
                "warm_p99_ns": warm99,
            }));
        }
    }
    bench.report.say(format!("\n{}", table.render()));
}

fn judge(bench: &mut Bench<'_>, candidates: &[Candidate]) {
    for Wanted { kind, percent, ms } in WANTED {
        let figure = |candidate: &Candidate| {
            let times = times(&candidate.warm, kind);
            let (p50, p99) = p50_and_p99(&times);
            (!times.is_empty()).then_some(if percent == 50 { p50 } else { p99 } / 1e6)
        };
        let ours = candidates.iter().find(|candidate| candidate.name == OURS).and_then(figure);
        let others = candidates.iter().filter(|candidate| candidate.name != OURS);
        let best = others
            .filter_map(|other| Some((other.name, figure(other)?)))
            .min_by(|one, other| one.1.total_cmp(&other.1));
        let goal = Goal::at_most(ms, " ms", format!("{kind}, p{percent}, {JUDGED} million spans"));
        let goal = goal.measured(ours);
        bench.report.goal(match best {
            Some((name, best)) => goal.rival(Rival { name, measured: Some(best), times_min: None }),
            None => goal,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a candidate for tests. Its answer to a question has the question's number as the
    /// latency, and a kind that depends on whether the number is odd.
    fn echo(name: &'static str, questions: usize) -> Candidate {
        let script = r#"while read from to; do
            out=""; while [ $from -lt $to ]; do out="$out,[\"k$((from % 2))\",$from,1]"; from=$((from + 1)); done
            echo "[${out#,}]"; done"#;
        let asked = QueryProcess::start(Command::new("sh").args(["-c", script])).expect("a shell");
        Candidate::new(name, asked, questions)
    }

    #[test]
    fn all_are_asked_the_same_in_turn() {
        let mut both = [echo(OURS, 130), echo("other", 70)];
        ask_in_turn(&mut both, 130).expect("answers");
        assert_eq!((both[0].cold.len(), both[0].warm.len()), (130, 130));
        assert_eq!(both[1].warm, both[0].warm[..70]);
        assert_eq!(times(&both[0].warm, "k1").len(), 65);
        assert_eq!(kinds(&both), ["k0", "k1"]);
        both[1].warm[3].found = 7;
        assert_eq!(agreed(&both[0].warm, &both[1].warm, "k1"), 34);
        both.into_iter().for_each(|one| one.asked.end().expect("ended"));
    }
}
