//! Processor time, memory and wake-ups of a process, from `/proc`, and graceful termination of a
//! child process. Start at [`Process`].

use crate::tools::at;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

/// A process, given by its id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

/// Ends a child process by SIGTERM, and waits for it. Unlike `Child::kill`, this lets the child
/// clean up.
pub(crate) fn end(child: &mut Child) {
    let is_told =
        i32::try_from(child.id()).is_ok_and(|id| kill(Pid::from_raw(id), Signal::SIGTERM).is_ok());
    if is_told {
        let _ = child.wait();
    }
}

/// Ticks per second in `/proc/PID/stat` (USER_HZ), always 100 on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    /// Proportional set size: each shared page is divided among the processes that have mapped it.
    pub(crate) proportional: u64,
    /// Total size of the pages that only this process has mapped.
    pub(crate) private: u64,
}

impl Process {
    fn file(self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.0.to_string()).join(name)
    }

    fn read(self, name: &str) -> Result<(PathBuf, String), String> {
        let path = self.file(name);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        Ok((path, text))
    }

    /// Returns the processor time in user mode and in kernel mode, in seconds.
    pub(crate) fn cpu_seconds(self) -> Result<(f64, f64), String> {
        let (path, text) = self.read("stat")?;
        cpu_seconds(&text).ok_or_else(|| format!("{}: says `{text}`", path.display()))
    }

    /// Returns the processor time of the threads that exist now, in seconds with a resolution of
    /// nanoseconds.
    pub(crate) fn run_seconds(self) -> Result<f64, String> {
        let tasks = self.file("task");
        let mut sum = 0.0;
        for entry in fs::read_dir(&tasks).map_err(at(&tasks))? {
            let path = entry.map_err(at(&tasks))?.path().join("schedstat");
            // The file does not exist if the thread has ended meanwhile.
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let seconds = seconds_at(&text, 0);
            sum += seconds.ok_or_else(|| format!("{}: says `{text}`", path.display()))?;
        }
        Ok(sum)
    }

    /// Returns the total time for which the main thread was runnable and waited for a processor, in
    /// seconds.
    pub(crate) fn wait_seconds(self) -> Result<f64, String> {
        let (path, text) = self.read("schedstat")?;
        seconds_at(&text, 1).ok_or_else(|| format!("{}: says `{text}`", path.display()))
    }

    /// Returns the number of times that the threads that exist now went to sleep. The number of
    /// their wake-ups is the same.
    pub(crate) fn sleeps(self) -> Result<u64, String> {
        let tasks = self.file("task");
        let mut sum = 0;
        for entry in fs::read_dir(&tasks).map_err(at(&tasks))? {
            let path = entry.map_err(at(&tasks))?.path().join("status");
            let text = fs::read_to_string(&path).map_err(at(&path))?;
            let sleeps = number_of(&text, "voluntary_ctxt_switches:");
            sum += sleeps.ok_or_else(|| format!("{}: counts no sleeps", path.display()))?;
        }
        Ok(sum)
    }

    /// Returns the peak resident set size of the process in bytes.
    pub(crate) fn rss_bytes_max(self) -> Result<u64, String> {
        let (path, text) = self.read("status")?;
        let kib = number_of(&text, "VmHWM:");
        kib.map(|kib| kib << 10).ok_or_else(|| format!("{}: says no VmHWM", path.display()))
    }

    pub(crate) fn memory(self) -> Result<Memory, String> {
        let (path, text) = self.read("smaps_rollup")?;
        memory(&text).ok_or_else(|| format!("{}: says `{text}`", path.display()))
    }
}

/// Parses the times in fields 14 and 15 of `/proc/PID/stat`. Field 2 is a name in parentheses that
/// may contain any characters.
fn cpu_seconds(stat: &str) -> Option<(f64, f64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let mut next = || Some(ticks.next()?? as f64 / TICKS_PER_SECOND);
    Some((next()?, next()?))
}

/// Returns the number at index `place` of a `schedstat` file, converted from nanoseconds to
/// seconds.
fn seconds_at(schedstat: &str, place: usize) -> Option<f64> {
    Some(schedstat.split_whitespace().nth(place)?.parse::<u64>().ok()? as f64 / 1e9)
}

fn memory(rollup: &str) -> Option<Memory> {
    let bytes = |name| Some(number_of(rollup, name)? << 10);
    Some(Memory {
        proportional: bytes("Pss:")?,
        private: bytes("Private_Clean:")? + bytes("Private_Dirty:")?,
    })
}

/// Returns the number that follows `word` in the first line that begins with `word`.
fn number_of(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn files_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 300 400 5 6 125 50 0 0 20 0 1 0 99";
        assert_eq!(cpu_seconds(stat), Some((1.25, 0.5)));
        assert_eq!(cpu_seconds("7 (a) S 1 7"), None);
        assert_eq!(seconds_at("7 1500000000 44\n", 1), Some(1.5));
        assert_eq!(seconds_at("7", 1), None);
        let rollup = "Rss:  900 kB\nPss:  300 kB\nPss_Dirty: 1 kB\nPrivate_Clean:  20 kB\n\
                      Private_Dirty:  100 kB\n";
        let expected = Memory { proportional: 300 << 10, private: 120 << 10 };
        assert_eq!(memory(rollup), Some(expected));
        assert_eq!(memory("Pss: 1 kB\n"), None);
        let status = "Threads:\t1\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(number_of(status, "voluntary_ctxt_switches:"), Some(42));
    }

    #[test]
    fn this_process_is_known() {
        let own = Process(std::process::id());
        assert!(own.memory().expect("memory").private > 0);
        assert!(own.cpu_seconds().expect("times").0 >= 0.0);
        assert!(own.rss_bytes_max().expect("memory") > 1 << 20);
        assert!(own.wait_seconds().expect("a time") >= 0.0);
        assert!(own.run_seconds().expect("a time") >= 0.0);
    }

    /// Sleeps of a process are counted. The test uses a child process, because threads of other
    /// tests may end in this process at any time. Sleeps of an ended thread are no longer counted.
    #[test]
    fn sleeps_are_counted() {
        let mut echo = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat runs");
        let (mut lines, mut answers) = (
            echo.stdin.take().expect("standard input"),
            BufReader::new(echo.stdout.take().expect("standard output")),
        );
        let process = Process(echo.id());
        let mut answer_once = || {
            lines.write_all(b"a line\n").expect("sent");
            answers.read_line(&mut String::new()).expect("answered");
            process.sleeps().expect("sleeps")
        };
        let before = answer_once();
        let slept = (0..1000).any(|_| answer_once() > before);
        drop(lines);
        echo.wait().expect("ended");
        assert!(slept, "1000 answers without a sleep between");
    }
}
