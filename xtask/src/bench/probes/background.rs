//! A recorder that runs beside the load: start, readiness, end, and its resource usage. Start at
//! [`Background`]. [`count_lines`] counts lines of its output.

use crate::process::Process;
use crate::tools::at;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a recorder has to become ready.
const START_MAX: Duration = Duration::from_secs(60);

/// Time that a recorder has to write the rest of its output and to end.
const END_MAX: Duration = Duration::from_secs(120);

/// Processor time below which a recorder counts as idle, in an interval of `IDLE_FOR`.
const IDLE_SECONDS_MAX: f64 = 0.005;
const IDLE_FOR: Duration = Duration::from_millis(250);

/// Interval between two checks of a process.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A recorder's process, killed on drop. Its output goes to files.
pub(super) struct Background {
    child: Child,
    log: PathBuf,
}

/// Results of a recorder that has ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// Exit status; `None` if a signal ended the process.
    pub(super) code: Option<i32>,
    pub(super) usage: Usage,
    /// Text on standard error.
    pub(super) log: String,
}

/// Resource usage of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Processor time in seconds, with a resolution of 10 ms.
    pub(super) cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub(super) rss_bytes_max: u64,
}

impl Background {
    /// Starts a recorder. Standard output goes to `output`, and standard error to a file beside it.
    pub(super) fn start(command: &mut Command, output: &Path) -> Result<Background, String> {
        let log = output.with_extension("log");
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(output).map_err(at(output))?)
            .stderr(File::create(&log).map_err(at(&log))?)
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Background { child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `is_ready` returns true.
    pub(super) fn wait_until(&mut self, is_ready: impl Fn() -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !is_ready() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the recorder ended with {status}: {}", self.log().trim()));
            }
            if start.elapsed() > START_MAX {
                return Err(format!("the recorder is not ready: {}", self.log().trim()));
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(())
    }

    /// Waits until the recorder has emptied its buffers and is idle.
    pub(super) fn wait_until_idle(&self) -> Result<(), String> {
        let start = Instant::now();
        let mut before = Process(self.id()).run_seconds()?;
        loop {
            std::thread::sleep(IDLE_FOR);
            let now = Process(self.id()).run_seconds()?;
            if now - before <= IDLE_SECONDS_MAX {
                return Ok(());
            }
            if start.elapsed() > END_MAX {
                return Err(format!("the recorder does not become idle: {}", self.log().trim()));
            }
            before = now;
        }
    }

    /// Ends the recorder as Ctrl-C does, and waits until its output is complete.
    pub(super) fn interrupt(mut self) -> Result<Ending, String> {
        let mut usage = self.usage().unwrap_or_default();
        let id = i32::try_from(self.id()).map_err(|error| error.to_string())?;
        kill(Pid::from_raw(id), Signal::SIGINT).map_err(|error| format!("kill: {error}"))?;
        let start = Instant::now();
        loop {
            // A process that has ended, but was not waited for, has no memory.
            usage = self.usage().unwrap_or(usage);
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(Ending { code: status.code(), usage, log: self.log() });
            }
            if start.elapsed() > END_MAX {
                return Err(format!("the recorder does not end: {}", self.log().trim()));
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
    }

    fn usage(&self) -> Option<Usage> {
        let process = Process(self.id());
        let rss_bytes_max = process.rss_bytes_max().ok()?;
        let (user, system) = process.cpu_seconds().ok()?;
        Some(Usage { cpu_seconds: user + system, rss_bytes_max })
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // After `interrupt`, the process has ended and was waited for, which these calls notice.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number of lines in a file that contain one of the texts. `grep` counts them: the
/// file may have gigabytes, and this program is not optimized.
pub(super) fn count_lines(file: &Path, texts: &[String]) -> Result<u64, String> {
    let mut grep = Command::new("grep");
    grep.args(["--count", "--text", "--fixed-strings"]).env("LC_ALL", "C");
    for text in texts {
        grep.args(["-e", text]);
    }
    let output = grep.arg(file).output().map_err(|error| format!("cannot start grep: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = text.trim().parse();
    count.map_err(|_| format!("grep: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::Scratch;

    /// Lines with any of the texts are counted once, and texts are not patterns.
    #[test]
    fn lines_are_counted() {
        let scratch = Scratch::new("count-lines");
        let file = scratch.0.join("file");
        fs::write(&file, "a read(3)\nread\nopen( close(\nread(").expect("written");
        let count = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            count_lines(&file, &texts)
        };
        assert_eq!(count(&["read("]), Ok(2));
        assert_eq!(count(&["open(", "close("]), Ok(1));
        assert_eq!(count(&["write"]), Ok(0));
        assert!(count_lines(&scratch.0.join("none"), &["a".to_owned()]).is_err());
    }

    /// A recorder that sleeps is idle.
    #[test]
    fn idle_recorders_are_noticed() {
        let scratch = Scratch::new("idle");
        let output = scratch.0.join("output");
        let start = Instant::now();
        let mut command = Command::new("sleep");
        let background = Background::start(command.arg("60"), &output).expect("started");
        background.wait_until_idle().expect("idle");
        assert!(start.elapsed() >= IDLE_FOR);
    }

    /// A process is interrupted, and its usage and messages are known.
    #[test]
    fn recorders_are_ended() {
        let scratch = Scratch::new("background");
        let output = scratch.0.join("output");
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap 'echo lost >&2; exit 3' INT; echo x; while :; do sleep .01; done"]);
        let mut background = Background::start(&mut command, &output).expect("started");
        let is_ready = || fs::read_to_string(&output).is_ok_and(|text| text == "x\n");
        background.wait_until(is_ready).expect("ready");
        let ending = background.interrupt().expect("ended");
        assert_eq!((ending.code, &*ending.log), (Some(3), "lost\n"));
        assert!(ending.usage.rss_bytes_max > 0);
        let mut background =
            Background::start(&mut Command::new("false"), &output).expect("started");
        assert!(background.wait_until(|| false).is_err());
    }
}
