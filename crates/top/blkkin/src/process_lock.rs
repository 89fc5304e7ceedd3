//! Lock file of a process in the background, which has the process's id, so that there is one such
//! process, and other commands find it.

use crate::exit::Error;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Lock file of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessLock {
    path: PathBuf,
    /// Description of the process for messages, such as "trigger `slow`".
    what: String,
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    Down,
    /// The process cannot take signals yet.
    Starting,
    Running(Pid),
}

/// Lock that a process holds as long as it runs.
pub(crate) struct HeldLock(File);

/// Time limit for a process that was killed.
const KILL_TIME: Duration = Duration::from_secs(2);
/// Time limit for taking the lock, which other commands hold for moments.
const LOCK_TIME_MAX: Duration = Duration::from_secs(2);

impl HeldLock {
    /// Notes that the process takes signals.
    pub(crate) fn set_ready(&mut self) -> io::Result<()> {
        writeln!(self.0, "{}", std::process::id())
    }
}

impl ProcessLock {
    pub(crate) fn new(path: PathBuf, what: String) -> ProcessLock {
        ProcessLock { path, what }
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).read(true).open(&self.path)
    }

    /// Takes the lock for this process.
    pub(crate) fn take(&self) -> Result<HeldLock, Error> {
        let file = self.open()?;
        let deadline = Instant::now() + LOCK_TIME_MAX;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= deadline {
                return Err(Error::failed(format!("{} runs already", self.what)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // The id of an earlier process.
        file.set_len(0)?;
        Ok(HeldLock(file))
    }

    /// Returns the state of the process.
    pub(crate) fn process(&self) -> Process {
        let Ok(mut file) = self.open() else { return Process::Down };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            return Process::Down;
        }
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        text.trim().parse().ok().and_then(Pid::from_raw).map_or(Process::Starting, Process::Running)
    }

    /// Sends a signal to the process. Returns false if it does not run.
    pub(crate) fn signal(&self, signal: Signal) -> Result<bool, Error> {
        let failed = |error| Error::failed(format!("{} cannot be told: {error}", self.what));
        self.try_signal(signal).map_err(failed)
    }

    fn try_signal(&self, signal: Signal) -> io::Result<bool> {
        let Process::Running(pid) = self.process() else { return Ok(false) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Another process may have got the id meanwhile, but not the lock with this id.
        if self.process() != Process::Running(pid) {
            return Ok(false);
        }
        match pidfd_send_signal(process, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the process, and waits until it has ended.
    pub(crate) fn end(&self, time: Duration) -> Result<(), Error> {
        let what = &self.what;
        let failed = |error| Error::failed(format!("{what} cannot be ended: {error}"));
        for (signal, time) in [(Signal::TERM, time), (Signal::KILL, KILL_TIME)] {
            let deadline = Instant::now() + time;
            let mut is_told = false;
            while self.process() != Process::Down {
                if Instant::now() >= deadline {
                    break;
                }
                is_told = is_told || self.try_signal(signal).map_err(failed)?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        match self.process() {
            Process::Down => Ok(()),
            _ => Err(Error::failed(format!("the process of {what} does not end"))),
        }
    }
}
