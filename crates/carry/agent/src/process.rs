//! What the kernel says of a process: who it belongs to, what it runs, and who started it.

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

/// A process, as of when it connected.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) executable: PathBuf,
    /// By how much its monotonic clock is ahead of the daemon's: time namespaces have their own.
    pub(crate) monotonic_ahead_ns: i64,
    /// Those that started it, the nearest first, with their executables, as far as they still run.
    ancestors: Vec<(u32, PathBuf)>,
}

/// Looks at what processes run, on a thread of its own that is there before the daemon is confined: it is
/// hidden from whoever is kept from files, as that thread is not.
///
/// Both share their memory, so whoever takes over the daemon's thread can have this one do what it is still
/// allowed to. That is to read links, and nothing else: the kernel refuses it to open, to write, to connect,
/// to start or to signal anything, and of root's powers it has only the one to look at other users'
/// processes. What is left to an intruder are names: of any process, what it runs, where it is, and which
/// files it has open; not what is in them.
#[derive(Debug)]
pub(crate) struct Looker {
    asked: Sender<Vec<u32>>,
    found: Receiver<Vec<PathBuf>>,
}

impl Looker {
    pub(crate) fn start() -> io::Result<Looker> {
        let (asked, questions) = channel::<Vec<u32>>();
        let (answers, found) = channel();
        let look = move || {
            crate::confine::confine_to_links();
            while let Ok(pids) = questions.recv()
                && answers.send(pids.into_iter().map(executable_of).collect()).is_ok()
            {}
        };
        std::thread::Builder::new().name("blkkin-looker".to_owned()).spawn(look)?;
        Ok(Looker { asked, found })
    }

    /// What there is to know of a process.
    pub(crate) fn look(&self, pid: u32, uid: u32) -> io::Result<Process> {
        let parents = std::iter::successors(parent_of(pid), |&parent| parent_of(parent));
        let pids: Vec<u32> = std::iter::once(pid).chain(parents.take(ANCESTORS_MAX)).collect();
        let gone = || io::Error::other("nobody looks at processes any more");
        self.asked.send(pids.clone()).map_err(|_| gone())?;
        let mut found = pids.into_iter().zip(self.found.recv().map_err(|_| gone())?);
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

/// Longest line of ancestors that is followed.
const ANCESTORS_MAX: usize = 64;
/// Bytes of their paths. Patterns are held against all of them.
const ANCESTORS_SIZE_MAX: usize = 16 << 10;

impl Process {
    /// One of which only that is known; what has its number now may be another one.
    pub(crate) fn ended(self) -> Process {
        Process { executable: PathBuf::new(), ancestors: Vec::new(), ..self }
    }

    /// Whether it is one of these, whose patterns for executables are given beside them.
    pub(crate) fn is_among(&self, processes: &Processes, executables: &[Executable]) -> bool {
        if processes.pids.is_empty() && executables.is_empty() {
            return true;
        }
        let is_named = |pid: u32, executable: &PathBuf| {
            let name = executable.file_name().unwrap_or_default().as_bytes();
            let path = executable.as_os_str().as_bytes();
            processes.pids.contains(&pid) || executables.iter().any(|one| one.fits(path, name))
        };
        is_named(self.pid, &self.executable)
            || (processes.children
                && self.ancestors.iter().any(|(pid, executable)| is_named(*pid, executable)))
    }
}

/// A pattern that is matched against executables.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Whether the pattern is matched against the whole path, rather than the name.
    is_path: bool,
    pattern: Pattern,
}

impl Executable {
    pub(crate) fn new(text: &str) -> Executable {
        Executable { is_path: text.contains('/'), pattern: Pattern::new(text) }
    }

    /// Returns the bytes that the compiled pattern takes.
    pub(crate) fn size(&self) -> usize {
        self.pattern.size()
    }

    /// Returns whether the pattern matches the executable of that path and name.
    pub(crate) fn fits(&self, path: &[u8], name: &[u8]) -> bool {
        self.pattern.fits(if self.is_path { path } else { name })
    }
}

/// 0 if it cannot be known.
fn monotonic_ahead_ns(pid: u32) -> i64 {
    let namespace = |name: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
    // The offsets that the kernel tells are those of its children.
    if namespace("time") != namespace("time_for_children") {
        return 0;
    }
    let of = |process: &str| {
        monotonic_offset_ns(&fs::read_to_string(format!("/proc/{process}/timens_offsets")).ok()?)
    };
    let ahead = of(&pid.to_string()).zip(of("self")).and_then(|(its, own)| its.checked_sub(own));
    ahead.unwrap_or(0)
}

/// What a time namespace adds to the monotonic clock, as the kernel tells its offsets.
fn monotonic_offset_ns(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find(|line| line.starts_with("monotonic"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Empty if it cannot be known. A file that was deleted or replaced since has its old name.
fn executable_of(pid: u32) -> PathBuf {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => PathBuf::from(std::ffi::OsStr::from_bytes(path)),
        None => path,
    }
}

/// Who started it, if that is known here.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may hold any of them.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

/// Whether there is a process of that number that has not ended. What cannot be found out may be there: those
/// that this namespace does not see have the number 0.
pub(crate) fn may_run(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(error) => return error != Errno::SRCH,
    };
    // It can be read when the process has ended.
    let mut ready = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
}

/// The number of a group, as `/etc/group` has it.
pub(crate) fn group_number(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    })
}

/// A user's home directory, as `/etc/passwd` has it.
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
        let own = Looker::start().unwrap().look(std::process::id(), 0).unwrap();
        let among = |pids: &[u32], executables: &[&str], children| {
            let compiled: Vec<Executable> =
                executables.iter().map(|text| Executable::new(text)).collect();
            let executables = executables.iter().map(|&text| text.to_owned()).collect();
            own.is_among(&Processes { pids: pids.to_vec(), executables, children }, &compiled)
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
