//! Facts that the kernel reports about a process: its executable, its ancestors, and its clocks.
//! Also looks up users in `/etc/passwd` and groups in `/etc/group`.

use blkkin_control::Processes;
use blkkin_control::rules::Pattern;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A process as the kernel described it when the program connected.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) executable: PathBuf,
    /// Difference between the process's monotonic clock and the agent's, in nanoseconds; positive
    /// if the process's clock is ahead. Each time namespace has its own clock.
    pub(crate) monotonic_ahead_ns: i64,
    /// Ancestors at the time of the inspection, the nearest first, with their executables. Limited
    /// by [`ANCESTORS_MAX`] and [`ANCESTORS_SIZE_MAX`].
    ancestors: Vec<(u32, PathBuf)>,
}

/// Inspector of processes, with a thread that is started before the agent is confined. The kernel
/// hides executables of other processes from a thread whose file access is restricted.
///
/// The inspecting thread shares its memory with the agent's thread, so an intruder in the agent's
/// thread can control it. The inspecting thread can only read symbolic links: the kernel does not
/// let it open, write, connect, start or signal anything. It keeps only root's capability to
/// inspect other users' processes. The intruder learns the names of any process's executable,
/// directory and open files, but not their content.
#[derive(Debug)]
pub(crate) struct ProcessInspector {
    requests: Sender<Vec<u32>>,
    answers: Receiver<Vec<PathBuf>>,
}

impl ProcessInspector {
    pub(crate) fn start() -> io::Result<ProcessInspector> {
        let (requests, received) = channel::<Vec<u32>>();
        let (sender, answers) = channel();
        let look = move || {
            crate::confine::confine_to_links();
            while let Ok(pids) = received.recv()
                && sender.send(pids.into_iter().map(executable_of).collect()).is_ok()
            {}
        };
        std::thread::Builder::new().name("blkkin-looker".to_owned()).spawn(look)?;
        Ok(ProcessInspector { requests, answers })
    }

    /// Inspects process `pid` of user `uid`, and its ancestors.
    pub(crate) fn inspect(&self, pid: u32, uid: u32) -> io::Result<Process> {
        let parents = std::iter::successors(parent_of(pid), |&parent| parent_of(parent));
        let pids: Vec<u32> = std::iter::once(pid).chain(parents.take(ANCESTORS_MAX)).collect();
        let gone = || io::Error::other("nobody looks at processes any more");
        self.requests.send(pids.clone()).map_err(|_| gone())?;
        let mut found = pids.into_iter().zip(self.answers.recv().map_err(|_| gone())?);
        let (pid, executable) = found.next().ok_or_else(gone)?;
        let mut room = ANCESTORS_SIZE_MAX;
        let fits = |(_, executable): &(u32, PathBuf)| {
            room = room.saturating_sub(executable.as_os_str().len());
            room > 0
        };
        let ancestors = found.take_while(fits).collect();
        let monotonic_ahead_ns = monotonic_ahead_ns(pid);
        Ok(Process { pid, uid, executable, monotonic_ahead_ns, ancestors })
    }
}

/// Maximum number of ancestors that are inspected.
const ANCESTORS_MAX: usize = 64;
/// Maximum total size of the paths of a process's ancestors, in bytes. The limit bounds the time
/// for matching patterns against all of them.
const ANCESTORS_SIZE_MAX: usize = 16 << 10;

impl Process {
    /// Returns the process without its executable and ancestors. They are not reliable once the
    /// process has ended, because its id may belong to another process.
    pub(crate) fn ended(self) -> Process {
        Process { executable: PathBuf::new(), ancestors: Vec::new(), ..self }
    }

    /// Returns whether `processes` selects this process. `executables` are the compiled patterns of
    /// `processes`.
    pub(crate) fn is_selected_by(&self, processes: &Processes, executables: &[Executable]) -> bool {
        if processes.pids.is_empty() && executables.is_empty() {
            return true;
        }
        let is_named = |pid: u32, executable: &PathBuf| {
            let name = executable.file_name().unwrap_or_default().as_bytes();
            let path = executable.as_os_str().as_bytes();
            processes.pids.contains(&pid) || executables.iter().any(|one| one.matches(path, name))
        };
        is_named(self.pid, &self.executable)
            || (processes.children
                && self.ancestors.iter().any(|(pid, executable)| is_named(*pid, executable)))
    }
}

/// A pattern that selects processes by their executables.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Set if the pattern is matched against the whole path; otherwise against the file name.
    is_path: bool,
    pattern: Pattern,
}

impl Executable {
    pub(crate) fn new(text: &str) -> Executable {
        Executable { is_path: text.contains('/'), pattern: Pattern::new(text) }
    }

    /// Returns the memory of the compiled pattern, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.pattern.size()
    }

    /// Returns whether the pattern matches an executable with this path and file name.
    pub(crate) fn matches(&self, path: &[u8], name: &[u8]) -> bool {
        self.pattern.fits(if self.is_path { path } else { name })
    }
}

/// Returns by how many nanoseconds a process's monotonic clock is ahead of the agent's; 0 if that
/// is unknown.
fn monotonic_ahead_ns(pid: u32) -> i64 {
    let namespace = |name: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
    // `timens_offsets` has the offsets for future children of the process. They differ from its own
    // if the children will be in another time namespace.
    if namespace("time") != namespace("time_for_children") {
        return 0;
    }
    let of = |process: &str| {
        monotonic_offset_ns(&fs::read_to_string(format!("/proc/{process}/timens_offsets")).ok()?)
    };
    let ahead = of(&pid.to_string()).zip(of("self")).and_then(|(its, own)| its.checked_sub(own));
    ahead.unwrap_or(0)
}

/// Parses the content of `timens_offsets`. Returns the offset of the monotonic clock in
/// nanoseconds.
fn monotonic_offset_ns(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find(|line| line.starts_with("monotonic"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Returns the path of a process's executable; empty if the path is unknown. If the executable has
/// been deleted or replaced, returns its original path.
fn executable_of(pid: u32) -> PathBuf {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => PathBuf::from(std::ffi::OsStr::from_bytes(path)),
        None => path,
    }
}

/// Returns the parent of a process; `None` if the process has no parent in the agent's PID
/// namespace, or has ended.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may contain parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

/// Returns true unless process `pid` is known to have ended. Processes outside the agent's PID
/// namespace have the id 0, so their end cannot be detected.
pub(crate) fn may_run(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(error) => return error != Errno::SRCH,
    };
    // The descriptor becomes readable when the process ends.
    let mut ready = [PollFd::new(&process, PollFlags::IN)];
    // After an error, such as an interruption by a signal, the process may still run.
    !matches!(poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}

/// Returns the id of the group `name` in `/etc/group`.
pub(crate) fn group_number(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    })
}

/// Returns the home directory of user `uid` in `/etc/passwd`.
pub(crate) fn home_of(uid: u32) -> Option<PathBuf> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let parts: Vec<&str> = line.split(':').collect();
        (parts.get(2)?.parse() == Ok(uid)).then(|| parts.get(5).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart() {
        let own = ProcessInspector::start().unwrap().inspect(std::process::id(), 0).unwrap();
        let among = |pids: &[u32], executables: &[&str], children| {
            let compiled: Vec<Executable> =
                executables.iter().map(|text| Executable::new(text)).collect();
            let executables = executables.iter().map(|&text| text.to_owned()).collect();
            own.is_selected_by(&Processes { pids: pids.to_vec(), executables, children }, &compiled)
        };
        assert!(among(&[], &[], false));
        assert!(among(&[own.pid], &[], false));
        assert!(!among(&[own.pid + 1], &[], false));
        assert!(among(&[], &["blkkin_agent-*"], false));
        assert!(!among(&[], &["/blkkin_agent-*"], false));
        assert!(among(&[], &["/*/blkkin_agent-*"], false));
        let parent = std::os::unix::process::parent_id();
        assert!(!among(&[parent], &[], false));
        assert!(among(&[parent], &[], true));
    }

    #[test]
    fn time_namespaces_are_known() {
        let offset = |text: &str| monotonic_offset_ns(text);
        let year = "monotonic    31536000         5\nboottime            7         0\n";
        assert_eq!(offset(year), Some(31_536_000_000_000_005));
        assert_eq!(offset("monotonic          -2 500000000\n"), Some(-1_500_000_000));
        assert_eq!(offset("boottime 1 0\n"), None);
        assert_eq!(offset("monotonic 9223372036854775807 0\n"), None);
        assert_eq!(monotonic_ahead_ns(std::process::id()), 0);
    }

    #[test]
    fn users_and_groups_are_known() {
        assert_eq!(group_number("root"), Some(0));
        assert_eq!(home_of(0), Some("/root".into()));
        assert_eq!(group_number("no such group"), None);
    }
}
