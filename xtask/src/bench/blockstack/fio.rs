//! Load by fio with its NBD engine, and fio's log of the rate of requests in each tenth of a
//! second. The load runs while modes change, so that all modes are measured with one process and
//! connection. Start at [`Fio::start`].

use super::servers::{LOAD_CPU, START_MAX, Server, TASKSET, VOLUME_BYTES, pinned};
use crate::tools::at;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Size of a request to block storage, in bytes.
pub(super) const BLOCK: u64 = 4096;

/// A kind of load that fio generates: the operations, and the number of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Name of the load in tables.
    pub(super) name: &'static str,
    /// Value of fio's option `--rw`.
    kind: &'static str,
    /// Number of requests that are in flight at any time.
    pub(super) depth: u32,
}

pub(super) const LOADS: [Load; 4] = [
    Load { name: "reads, 1 at a time", kind: "randread", depth: 1 },
    Load { name: "reads, 16 at a time", kind: "randread", depth: 16 },
    Load { name: "writes, 1 at a time", kind: "randwrite", depth: 1 },
    Load { name: "writes, 16 at a time", kind: "randwrite", depth: 16 },
];

/// Load of 70 % reads and 30 % writes.
pub(super) const MIXED: Load = Load { name: "70 % reads, 16 at a time", kind: "randrw", depth: 16 };

impl Load {
    pub(super) fn reads(&self) -> bool {
        self.kind == "randread"
    }
}

/// Duration of the intervals whose rates fio logs.
const PIECE: Duration = Duration::from_millis(100);

/// Time in milliseconds by which an interval may begin before, or end after, the measured time. The
/// times in fio's log vary a little.
const SLACK_MS: u64 = 4;

/// Time that fio has to end and to write its log.
const END_MAX: Duration = Duration::from_secs(20);

/// Processor time in seconds that a server must use until the load counts as running.
const BUSY_SECONDS: f64 = 0.02;

/// A running process of fio, killed on drop.
pub(super) struct Fio {
    child: Child,
    folder: PathBuf,
}

/// Rates of requests in successive intervals, from fio's log.
#[derive(Debug, PartialEq)]
pub(super) struct Rates(Vec<Piece>);

/// An interval of fio's log: its end in milliseconds since 1970, and its rate in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    end_ms: u64,
    rate: f64,
}

/// Returns the current time in milliseconds since 1970, as in fio's log.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}

/// Returns the version of fio; fails if fio or its NBD engine is missing.
pub(super) fn version() -> Result<String, String> {
    let missing = "fio with its engine `nbd` is needed; `cargo xtask peers` installs it";
    let ask = |argument: &str| {
        let output = Command::new("fio").arg(argument).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let engines = ask("--enghelp").unwrap_or_default();
    if !engines.split_whitespace().any(|engine| engine == "nbd") {
        return Err(missing.to_owned());
    }
    Ok(ask("--version").unwrap_or_default().trim().to_owned())
}

fn command(server: &Server, load: &Load, folder: &Path) -> Command {
    let mut command = match server.is_pinned {
        true => pinned(Command::new(TASKSET), Path::new("fio"), LOAD_CPU),
        false => Command::new("fio"),
    };
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.args(["--name=load", "--ioengine=nbd", "--norandommap", "--randrepeat=0"]);
    command.arg(format!("--uri={}", server.uri)).arg(format!("--rw={}", load.kind));
    command.arg(format!("--bs={BLOCK}")).arg(format!("--iodepth={}", load.depth));
    command.arg(format!("--size={VOLUME_BYTES}")).args(["--output=fio.txt", "--rwmixread=70"]);
    command
}

/// Writes the server's whole volume in large requests, so that no block is empty.
pub(super) fn fill(server: &Server, folder: &Path) -> Result<(), String> {
    let load = Load { name: "", kind: "write", depth: 4 };
    let mut command = command(server, &load, folder);
    // fio uses the last value of a repeated option.
    command.arg("--bs=1m");
    run(&mut command, folder)
}

/// Runs a load until it has read or written `bytes` bytes.
pub(super) fn bytes(server: &Server, load: &Load, folder: &Path, bytes: u64) -> Result<(), String> {
    run(command(server, load, folder).arg(format!("--io_size={bytes}")), folder)
}

fn run(command: &mut Command, folder: &Path) -> Result<(), String> {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cannot start fio: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(told(folder, &output.stderr)),
    }
}

/// Returns an error message with fio's own output, which is in `folder` and in `errors`.
fn told(folder: &Path, errors: &[u8]) -> String {
    let text = fs::read_to_string(folder.join("fio.txt")).unwrap_or_default();
    format!("fio failed: {} {}", String::from_utf8_lossy(errors).trim(), text.trim())
}

impl Fio {
    /// Starts a load that runs until [`Fio::end`]. fio writes its files to `folder`.
    pub(super) fn start(server: &Server, load: &Load, folder: &Path) -> Result<Fio, String> {
        let log = folder.join(LOG);
        match fs::remove_file(&log) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(at(&log)(error));
            }
            _ => {}
        }
        let mut command = command(server, load, folder);
        command.args(["--time_based", "--runtime=86400", "--log_unix_epoch=1"]);
        command.arg(format!("--log_avg_msec={}", PIECE.as_millis()));
        command.arg("--write_iops_log=load").stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start fio: {error}"))?;
        Ok(Fio { child, folder: folder.to_owned() })
    }

    /// Checks that fio still runs the load, and has not ended early.
    pub(super) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(told(&self.folder, &[])),
        }
    }

    /// Waits until the server's processor time shows that it processes requests of this load.
    pub(super) fn wait_for_requests(&mut self, server: &Server) -> Result<(), String> {
        let (start, before) = (Instant::now(), server.run_seconds()?);
        while server.run_seconds()? - before < BUSY_SECONDS {
            self.check()?;
            if start.elapsed() > START_MAX {
                return Err("fio asks nothing".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the load, and returns the rates in fio's log.
    pub(super) fn end(mut self) -> Result<Rates, String> {
        self.check()?;
        let id = i32::try_from(self.child.id()).map_err(|error| error.to_string())?;
        kill(Pid::from_raw(id), Signal::SIGINT).map_err(|error| format!("fio: {error}"))?;
        let start = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if start.elapsed() > END_MAX {
                return Err("fio does not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let log = self.folder.join(LOG);
        let text = fs::read_to_string(&log).map_err(at(&log))?;
        Rates::read(&text).ok_or_else(|| format!("{}: not a log of fio's", log.display()))
    }
}

/// Name of the file with the rates: the name in `--write_iops_log`, and the number of the only job.
const LOG: &str = "load_iops.1.log";

impl Drop for Fio {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Rates {
    /// Parses fio's log, with lines of `milliseconds, requests a second, direction, …`.
    fn read(text: &str) -> Option<Rates> {
        let piece = |line: &str| {
            let mut words = line.split(',').map(str::trim);
            let (end_ms, rate) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Piece { end_ms, rate })
        };
        let pieces: Vec<Piece> = text.lines().map(piece).collect::<Option<_>>()?;
        (!pieces.is_empty()).then_some(Rates(pieces))
    }

    fn nothing(&self, begin_ms: u64, end_ms: u64) -> String {
        let (first, last) = (self.0.first(), self.0.last());
        format!(
            "fio has counted nothing from {begin_ms} to {end_ms}, but from {first:?} to {last:?}"
        )
    }

    /// Returns the mean rate of the intervals between two times, with a tolerance of `SLACK_MS`
    /// at both. Fails if there is no such interval.
    pub(super) fn between(&self, begin_ms: u64, end_ms: u64) -> Result<f64, String> {
        let piece_ms = PIECE.as_millis() as u64;
        let is_within = |piece: &&Piece| {
            piece.end_ms >= begin_ms + piece_ms - SLACK_MS && piece.end_ms <= end_ms + SLACK_MS
        };
        let rates: Vec<f64> = self.0.iter().filter(is_within).map(|piece| piece.rate).collect();
        match rates.len() {
            0 => Err(self.nothing(begin_ms, end_ms)),
            count => Ok(rates.iter().sum::<f64>() / count as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read() {
        let text = "1000, 10, 0, 0, 0\n1100, 20, 0, 0, 0\n1200, 30, 0, 0, 0\n1300, 90, 0, 0, 0\n";
        let rates = Rates::read(text).expect("a log");
        assert_eq!(rates.between(1000, 1200), Ok(25.0));
        assert_eq!(rates.between(998, 1250), Ok(25.0));
        assert_eq!(rates.between(1001, 1204), Ok(25.0));
        assert_eq!(rates.between(1050, 1250), Ok(30.0));
        assert!(rates.between(1310, 1400).is_err());
        assert_eq!(Rates::read("1000\n"), None);
        assert_eq!(Rates::read(""), None);
    }
}
