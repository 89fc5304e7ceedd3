//! Measures the cost of commands: wall time, processor time and memory, over interleaved runs.
//!
//! [`interleave`] runs A B C A B C, so that a machine that becomes slower affects all commands
//! alike. [`Measured`] has the figures, [`Table`] formats them. Each run is started by a small
//! helper process (`cargo xtask measure`, hidden). The kernel reports peak memory as a maximum over
//! all children of a process, so the helper has only one child.

use crate::tools::Outcome;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// A command to measure. Its standard output is discarded; an error shows its standard error.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    /// Name of the candidate whose figures are the baseline for this candidate.
    pub(crate) baseline: Option<String>,
}

/// Measurement of one run of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) wall: Duration,
    /// Processor time of the command with all its threads and child processes, user and system.
    pub(crate) cpu: Duration,
    /// Maximum resident memory in bytes; with child processes, of the largest process.
    pub(crate) rss_bytes_max: u64,
}

/// All measurements of one candidate.
pub(crate) struct Measured {
    pub(crate) candidate: Candidate,
    samples: Vec<Sample>,
}

impl Candidate {
    pub(crate) fn new(name: &str, command: &[&str], baseline: Option<&str>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            baseline: baseline.map(str::to_owned),
        }
    }
}

impl Measured {
    /// Returns a percentile of the wall times of all runs.
    pub(crate) fn wall(&self, percent: usize) -> Duration {
        let mut walls: Vec<Duration> = self.samples.iter().map(|sample| sample.wall).collect();
        walls.sort();
        percentile(&walls, percent)
    }

    pub(crate) fn wall_median(&self) -> Duration {
        self.wall(50)
    }

    pub(crate) fn cpu_median(&self) -> Duration {
        let mut cpus: Vec<Duration> = self.samples.iter().map(|sample| sample.cpu).collect();
        cpus.sort();
        percentile(&cpus, 50)
    }

    pub(crate) fn rss_bytes_max(&self) -> u64 {
        self.samples.iter().map(|sample| sample.rss_bytes_max).max().unwrap_or(0)
    }
}

/// Returns the monotonic time in nanoseconds, as programs of benches record it.
pub(crate) fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Returns the nearest-rank percentile of a sorted list.
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns the nearest-rank median of figures in any order.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    percentile(&figures, 50)
}

/// Returns a candidate's measurements, found by its name.
pub(crate) fn find<'a>(measured: &'a [Measured], name: &str) -> Option<&'a Measured> {
    measured.iter().find(|one| one.candidate.name == name)
}

/// Returns the median wall time of `baseline` divided by that of `name`.
pub(crate) fn speed_up(measured: &[Measured], name: &str, baseline: &str) -> Option<f64> {
    let own = find(measured, name)?.wall_median().as_secs_f64();
    Some(find(measured, baseline)?.wall_median().as_secs_f64() / own)
}

/// Runs all candidates in turn: `warm_ups` rounds without measurement, then `runs` measured rounds.
pub(crate) fn interleave(
    candidates: &[Candidate],
    warm_ups: usize,
    runs: usize,
) -> Result<Vec<Measured>, String> {
    let mut measured: Vec<Measured> = candidates
        .iter()
        .map(|candidate| Measured { candidate: candidate.clone(), samples: Vec::new() })
        .collect();
    for round in 0..warm_ups + runs {
        for one in &mut measured {
            let sample = run_in_helper(&one.candidate)?;
            if round >= warm_ups {
                one.samples.push(sample);
            }
        }
    }
    Ok(measured)
}

/// Runs a candidate once, in a helper process, and returns the measurement.
fn run_in_helper(candidate: &Candidate) -> Result<Sample, String> {
    let own = std::env::current_exe().map_err(|error| format!("own executable: {error}"))?;
    let output = Command::new(own)
        .args(["measure", "--"])
        .args(&candidate.command)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `measure`: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed: {}", candidate.command.join(" "), stderr.trim()));
    }
    read_sample(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("`{}` could not be measured", candidate.command.join(" ")))
}

/// Runs the hidden subcommand, which starts one command. Prints wall time (ns), processor time (ns)
/// and memory (bytes).
pub(crate) fn run(options: &Options) -> Outcome {
    let (program, arguments) = options.command.split_first().ok_or("no command")?;
    let nowhere = File::create("/dev/null").map_err(|error| format!("/dev/null: {error}"))?;
    options.command.iter().for_each(|argument| cache(Path::new(argument)));
    wake_processors();
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(nowhere)
        .status()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let wall = start.elapsed();
    if !status.success() {
        return Err(format!("{program} ended with {status}"));
    }
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))?;
    let (user, system) = (usage.user_time(), usage.system_time());
    let cpu_us = (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec();
    println!("{} {} {}", wall.as_nanos(), cpu_us * 1000, usage.max_rss() * 1024);
    Ok(ExitCode::SUCCESS)
}

/// Reads a file, or all files below a folder, so that the run finds them in the page cache. Files
/// above [`CACHED_SIZE_MAX`] are not read. A host may reclaim a guest's page cache between two
/// runs, and one run would then wait for the disk.
fn cache(path: &Path) {
    if let Ok(entries) = fs::read_dir(path) {
        return entries.flatten().for_each(|entry| cache(&entry.path()));
    }
    let file = File::open(path).ok().filter(|file| {
        file.metadata().is_ok_and(|file| file.is_file() && file.len() <= CACHED_SIZE_MAX)
    });
    if let Some(mut file) = file {
        let _ = io::copy(&mut file, &mut io::sink());
    }
}

/// Keeps all processors busy for a moment. A processor that idled during the previous run is slow
/// to wake up, most of all in a virtual machine: a run of 97 ms on two threads took 101 ms after
/// two seconds on one thread, and 108 ms after two seconds of sleep.
fn wake_processors() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let until = Instant::now() + WAKE_TIME;
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| while Instant::now() < until {});
        }
    });
}

const WAKE_TIME: Duration = Duration::from_millis(50);

/// Maximum size of a file that is read into the page cache, in bytes.
const CACHED_SIZE_MAX: u64 = 4 << 30;

fn read_sample(line: &str) -> Option<Sample> {
    let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().ok());
    Some(Sample {
        wall: Duration::from_nanos(numbers.next()??),
        cpu: Duration::from_nanos(numbers.next()??),
        rss_bytes_max: numbers.next()??,
    })
}

/// Measures the speed of sequential reads from memory on one thread, in bytes per second.
pub(crate) fn memory_bytes_per_second() -> f64 {
    const SIZE: usize = 128 << 20;
    let (left, right) = (vec![1_u8; SIZE], vec![1_u8; SIZE]);
    let read = || {
        let start = Instant::now();
        // The comparison reads both buffers to the end, with the C library's widest loads.
        black_box(black_box(&left) == black_box(&right));
        (2 * SIZE) as f64 / start.elapsed().as_secs_f64()
    };
    (0..5).map(|_| read()).fold(0.0, f64::max)
}

/// Text table with a left-aligned first column; other columns are right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Table {
        Table { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                match column {
                    0 => line += &format!("{cell:<width$}"),
                    _ => line += &format!("  {cell:>width$}"),
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Formats a duration with a suitable unit.
pub(crate) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.1} µs", seconds * 1e6),
    }
}

/// Formats a size with a suitable unit.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.1} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(walls_ms: &[u64]) -> Measured {
        let sample = |&ms| Sample {
            wall: Duration::from_millis(ms),
            cpu: Duration::from_millis(2 * ms),
            rss_bytes_max: ms << 20,
        };
        Measured {
            candidate: Candidate::new(&format!("run{}", walls_ms[0]), &["true"], None),
            samples: walls_ms.iter().map(sample).collect(),
        }
    }

    #[test]
    fn figures_of_a_candidate() {
        let one = measured(&[50, 10, 40, 20, 30]);
        assert_eq!(one.wall_median(), Duration::from_millis(30));
        assert_eq!(one.cpu_median(), Duration::from_millis(60));
        assert_eq!(one.wall(0), Duration::from_millis(10));
        assert_eq!(one.wall(10), Duration::from_millis(10));
        assert_eq!(one.wall(90), Duration::from_millis(50));
        assert_eq!(one.rss_bytes_max(), 50 << 20);
        assert_eq!(measured(&[7]).wall_median(), Duration::from_millis(7));
    }

    #[test]
    fn ratio_to_a_baseline() {
        let both = [measured(&[10]), measured(&[40])];
        assert_eq!(speed_up(&both, "run10", "run40"), Some(4.0));
        assert_eq!(speed_up(&both, "run10", "nobody"), None);
    }

    #[test]
    fn samples_are_read() {
        let expected = Sample {
            wall: Duration::from_nanos(5),
            cpu: Duration::from_nanos(6),
            rss_bytes_max: 7,
        };
        assert_eq!(read_sample("5 6 7\n"), Some(expected));
        assert_eq!(read_sample("5 6"), None);
        assert_eq!(read_sample("5 x 7"), None);
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["what", "time", "memory"]);
        table.row(vec!["a".into(), "12.5 ms".into(), "3.0 MiB".into()]);
        table.row(vec!["longer".into(), "1.00 s".into(), "10.0 MiB".into()]);
        let expected = "what       time    memory\n\
                        a       12.5 ms   3.0 MiB\n\
                        longer   1.00 s  10.0 MiB\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn units() {
        assert_eq!(show_duration(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(show_duration(Duration::from_millis(2500)), "2.50 s");
        assert_eq!(show_duration(Duration::from_nanos(2500)), "2.5 µs");
        assert_eq!(show_bytes(5 << 20), "5.0 MiB");
        assert_eq!(show_bytes(3 << 30), "3.0 GiB");
    }
}
