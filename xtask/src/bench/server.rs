//! `cargo xtask bench server`: rate at which `blkkin server` stores spans, delay until they are
//! found, their size on disk, and latency of queries. The figures are compared with Zipkin's
//! server, DuckDB and ClickHouse's engine.
//!
//! Each phase except `bytes` has a file in `server/`. The phases use [`serving`](super::serving) to
//! start servers, send spans and run queries. The program in `benches/server` does the sending and
//! querying, and shares the processors with the servers. A measurement whose peer is not installed
//! is reported and skipped. Other benches use [`serving`](super::serving), too: [`ui`], and
//! [`blockstack`], which sends spans of real traces by `blkkin spans`.

mod build;
mod ingest;
mod ingest_delay;
mod load;
mod peers;
mod query_latency;
mod state;
mod sustained_eviction;
pub(super) mod ui;
mod zipkin;

use super::blockstack;
use super::goal::Goal;
use super::options::Options;
use super::report::Report;
use crate::measure::show_bytes;
use peers::Peers;
use state::Bench;

/// Goal for the peak memory of a server, in MiB. It does not depend on the size of the store.
const RSS_MIB_MAX: f64 = 512.0;

struct Phase {
    name: &'static str,
    run: fn(&mut Bench<'_>) -> Result<(), String>,
    /// Set if the phase runs only when `--phase` names it.
    is_extra: bool,
}

const PHASES: [Phase; 7] = [
    Phase { name: "ingest", run: ingest::run, is_extra: false },
    Phase { name: "visible", run: ingest_delay::run, is_extra: false },
    Phase { name: "evict", run: sustained_eviction::run, is_extra: false },
    Phase { name: "bytes", run: bytes, is_extra: false },
    Phase { name: "questions", run: query_latency::run, is_extra: false },
    Phase { name: "zipkin", run: zipkin::run, is_extra: false },
    Phase { name: "build", run: build::run, is_extra: true },
];

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let phases = chosen(&options.phase)?;
    let mut bench = Bench::new(options, report, Peers::find)?;
    bench.report.say(
        "one machine has the server and who sends or asks; what both need of its processors is told",
    );
    for phase in phases {
        bench.report.say(format!("\n== {}", phase.name));
        (phase.run)(&mut bench)?;
    }
    if let Some((most, what)) = bench.memory.iter().max() {
        bench.report.say(format!("\nmost memory: {}, {what}", show_bytes(*most)));
        let mib = *most as f64 / f64::from(1 << 20);
        let goal = Goal::at_most(RSS_MIB_MAX, " MiB", "memory of a durable server, at most");
        bench.report.goal(goal.measured(Some(mib)));
    }
    Ok(())
}

/// Measures the size of a span from real traces. All other phases use synthetic spans.
fn bytes(bench: &mut Bench<'_>) -> Result<(), String> {
    blockstack::bytes_of_real_traces(bench.options, bench.report)
}

/// Returns the phases with these names. If there are no names, returns all phases except the extra
/// ones. Fails if a name is unknown.
fn chosen(names: &[String]) -> Result<Vec<&'static Phase>, String> {
    let known = || PHASES.iter().map(|phase| phase.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| PHASES.iter().all(|phase| phase.name != **name)) {
        return Err(format!("no phase `{name}`; there is {}", known()));
    }
    let is_chosen = |phase: &&Phase| match names.is_empty() {
        true => !phase.is_extra,
        false => names.iter().any(|name| name == phase.name),
    };
    Ok(PHASES.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn phases_are_chosen_by_name() {
        let names = |chosen: &[&str]| -> Result<Vec<&str>, String> {
            let wanted: Vec<String> = chosen.iter().map(|&name| name.to_owned()).collect();
            Ok(super::chosen(&wanted)?.iter().map(|phase| phase.name).collect())
        };
        assert_eq!(
            names(&[]),
            Ok(vec!["ingest", "visible", "evict", "bytes", "questions", "zipkin"])
        );
        assert_eq!(names(&["build", "evict"]), Ok(vec!["evict", "build"]));
        assert!(chosen(&["sleep".to_owned()]).is_err_and(|why| why.contains("`sleep`")));
    }
}
