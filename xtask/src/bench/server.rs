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
mod sustained_eviction;
pub(super) mod ui;
mod zipkin;

use super::goal::Goal;
use super::serving::program::{PACKAGE, Program};
use super::serving::running::Running;
use super::{Options, Report, blkkin, blockstack};
use crate::measure::show_bytes;
use crate::tools::{at, target_dir};
use peers::Peers;
use std::fs;
use std::path::{Path, PathBuf};

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

/// State of the bench that all phases share.
struct Bench<'r> {
    options: &'r Options,
    report: &'r mut Report,
    /// Path of the program `blkkin`.
    server: PathBuf,
    program: Program,
    peers: Peers,
    /// Folder for the files of all phases except `bytes`.
    folder: PathBuf,
    /// Peak memory in bytes of runs of `blkkin server`, each with a description of the work. Phases
    /// add them by [`Bench::note_memory`].
    memory: Vec<(u64, String)>,
}

impl Bench<'_> {
    /// Stores the peak memory of `blkkin server` during some work, for the goal at the end.
    fn note_memory(&mut self, what: impl Into<String>, rss_bytes_max: u64) {
        self.memory.push((rss_bytes_max, what.into()));
    }
}

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

impl<'r> Bench<'r> {
    /// Builds the programs. Finds the peers by `find`, unless the bench is quick.
    fn new(
        options: &'r Options,
        report: &'r mut Report,
        find: fn(&Path) -> Peers,
    ) -> Result<Bench<'r>, String> {
        let folder = target_dir().join("bench/server");
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let server = PathBuf::from(blkkin::build_with(&[PACKAGE])?);
        let program = Program::built();
        let peers = if options.quick { Peers::none() } else { find(&folder) };
        peers.skipped.iter().for_each(|line| report.say(line));
        Ok(Bench { options, report, server, program, peers, folder, memory: Vec::new() })
    }

    /// Starts `blkkin server` with its store in `data`.
    fn start(&self, data: &Path) -> Result<Running, String> {
        Running::start(&self.server, &self.folder, &["--data".into(), data.into()])
    }

    /// Starts `blkkin server` with its store in `data`, whose size is limited to `bytes`.
    fn start_limited(&self, data: &Path, bytes: u64) -> Result<Running, String> {
        let limit = bytes.to_string().into();
        let options = ["--data".into(), data.into(), "--keep-bytes".into(), limit];
        Running::start(&self.server, &self.folder, &options)
    }

    /// Reports that a measurement is skipped, and why.
    fn skip(&self, why: &str) {
        self.report.say(format!("skipped: {why}"));
    }

    /// Makes an empty folder of the bench. An earlier folder with this name is removed.
    fn room(&self, name: &str) -> Result<PathBuf, String> {
        let room = self.folder.join(name);
        clear(&room)?;
        fs::create_dir_all(&room).map_err(at(&room))?;
        Ok(room)
    }
}

/// Removes a folder with its content, if it exists.
fn clear(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}

/// Returns the nearest-rank median of figures in any order.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    crate::measure::percentile(&figures, 50)
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
