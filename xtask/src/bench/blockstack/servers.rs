//! Network block devices to measure: blockstack's NBD server alone, with a volume in memory; the
//! whole chain; and nbdkit, which is independent of BlkKin. Each server ends on drop.

use crate::bench::agent::Agent;
use crate::process::{Process, end};
use crate::tools::at;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Size of a volume in bytes. The whole volume is written before a measurement.
pub(super) const VOLUME_BYTES: u64 = 256 << 20;

pub(super) const START_MAX: Duration = Duration::from_secs(30);

/// A running server of block storage.
pub(super) struct Server {
    child: Child,
    pub(super) uri: String,
    /// Set if the server is pinned to a CPU. The load must then be pinned to another CPU.
    pub(super) is_pinned: bool,
    /// Processes of the server that handle requests.
    processes: Vec<Process>,
}

/// CPU of a single server; `LOAD_CPU` is the CPU of its load. Without pinning, both sometimes share
/// a CPU, which changes the rate several-fold if one request is in flight at a time.
const SERVER_CPU: &str = "0";
pub(super) const LOAD_CPU: &str = "1";

/// Completes a `taskset` command so that it runs `program` pinned to the CPU `processor`.
pub(super) fn pinned(mut command: Command, program: &Path, processor: &str) -> Command {
    // `taskset` executes the program in the same process.
    command.args(["--cpu-list", processor]).arg(program);
    command
}

/// Name of the program that pins other programs to CPUs.
pub(super) const TASKSET: &str = "taskset";

/// Returns a command for a program that `agent` traces. Without an agent, tracing is disabled.
fn command(program: &Path, agent: Option<&Agent>) -> Command {
    match agent {
        Some(agent) => agent.traced(program),
        None => {
            let mut command = Command::new(program);
            command.env("BLKKIN_DISABLE", "1");
            command
        }
    }
}

fn uri(volume: &str, socket: &Path) -> String {
    format!("nbd+unix:///{volume}?socket={}", socket.display())
}

impl Server {
    /// Starts blockstack's NBD server alone, with its volume in memory.
    pub(super) fn alone(
        program: &Path,
        agent: Option<&Agent>,
        folder: &Path,
    ) -> Result<Server, String> {
        let socket = folder.join("alone.sock");
        let mut command = pinned(command(Path::new(TASKSET), agent), program, SERVER_CPU);
        command.args(["nbd", "--memory", &format!("disk={VOLUME_BYTES}"), "--listen"]);
        command.arg(&socket).env("BLKKIN_PROGRAM", "nbd");
        // The server ends when its standard input is closed, so it does not outlive this process.
        command.arg("--until-eof").stdin(Stdio::piped());
        let (child, _) = start(&mut command, |line| line.starts_with("listening "))?;
        let processes = vec![Process(child.id())];
        Ok(Server { child, uri: uri("disk", &socket), is_pinned: true, processes })
    }

    /// Starts the whole chain, with its stores below `folder`.
    pub(super) fn chain(program: &Path, agent: &Agent, folder: &Path) -> Result<Server, String> {
        let mut command = command(program, Some(agent));
        command.args(["all", "--volume", &format!("disk={VOLUME_BYTES}"), "--dir"]).arg(folder);
        fs::create_dir_all(folder).map_err(at(folder))?;
        let log = folder.join("log");
        command.stdin(Stdio::null()).stderr(File::create(&log).map_err(at(&log))?);
        let (child, said) = start(&mut command, |line| line.starts_with("ready: "))?;
        let uri = said.last().and_then(|line| line.strip_prefix("ready: ")).unwrap_or_default();
        let processes = said.iter().filter_map(|line| process_of(line)).map(Process).collect();
        Ok(Server { child, uri: uri.to_owned(), is_pinned: false, processes })
    }

    /// Starts nbdkit with its memory plugin. If `log` is given, requests are logged to that file.
    pub(super) fn nbdkit(folder: &Path, log: Option<&Path>) -> Result<Server, String> {
        let socket = folder.join("nbdkit.sock");
        remove(&socket)?;
        let mut command = pinned(Command::new(TASKSET), Path::new("nbdkit"), SERVER_CPU);
        command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket);
        if log.is_some() {
            command.arg("--filter=log");
        }
        command.args(["memory", &VOLUME_BYTES.to_string()]);
        if let Some(log) = log {
            remove(log)?;
            command.arg(format!("logfile={}", log.display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start nbdkit: {error}"))?;
        let processes = vec![Process(child.id())];
        let mut server = Server { child, uri: uri("", &socket), is_pinned: true, processes };
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            if start.elapsed() > START_MAX || !matches!(server.child.try_wait(), Ok(None)) {
                return Err("nbdkit does not start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Returns the processor time of the server's processes, in seconds.
    pub(super) fn run_seconds(&self) -> Result<f64, String> {
        self.processes.iter().map(|process| process.run_seconds()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Starts a program, and waits for the line for which `is_ready` returns true. Returns all lines up
/// to that line.
fn start(
    command: &mut Command,
    is_ready: impl Fn(&str) -> bool + Send + 'static,
) -> Result<(Child, Vec<String>), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let output = child.stdout.take().ok_or("no pipe")?;
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let is_last = is_ready(&line);
            lines.push(line);
            if is_last {
                let _ = say.send(lines);
                return;
            }
        }
    });
    match said.recv_timeout(START_MAX) {
        Ok(lines) => Ok((child, lines)),
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(format!("{program} does not start"))
        }
    }
}

/// Parses the process id in a line such as `nbd       process 123     at …`.
fn process_of(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once(" process ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::process_of;

    #[test]
    fn processes_are_those_that_the_chain_tells() {
        assert_eq!(process_of("store.1   process 4711    at /tmp/store.1.sock"), Some(4711));
        assert_eq!(process_of("ready: nbd+unix:///disk?socket=/tmp/nbd.sock"), None);
    }
}
