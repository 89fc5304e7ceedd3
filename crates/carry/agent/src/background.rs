//! Runs an agent on a thread of the calling program. The agent serves only the program's own user,
//! and root.

use crate::agent::{Agent, Options};
use crate::quota::Limits;
use crate::waiting_process::WaitingProcess;
use std::fs::{self, DirBuilder, File};
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Prefix of the name of an agent's socket directory; a random number follows.
const PREFIX: &str = "blkkin-";
/// Minimum age of a socket directory that may be removed. A younger one may belong to an agent that
/// has not locked it yet.
const BEGINNING: Duration = Duration::from_secs(2);
/// Maximum number of directory entries checked in one search for abandoned directories.
const ENTRIES_MAX: usize = 4096;

/// An agent that runs on a thread of this process.
#[derive(Debug)]
pub struct Background {
    directory: PathBuf,
    socket: PathBuf,
    /// Write end of a pipe; closing it stops the agent.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Background {
    /// Starts an agent with the default resource limits. Only this user can enter the directory of
    /// the agent's socket.
    pub fn start(log: fn(&str)) -> io::Result<Background> {
        Background::start_with(log, Limits::default(), None, None)
    }

    /// Starts an agent with the given resource limits for each user, and processes that it starts
    /// when it needs them.
    pub fn start_with(
        log: fn(&str),
        limits: Limits,
        kernel_tracer: Option<WaitingProcess>,
        forwarder: Option<WaitingProcess>,
    ) -> io::Result<Background> {
        let directory = private_directory()?;
        let socket = directory.join("agent.sock");
        let options = Options {
            socket: socket.clone(),
            is_public: false,
            group: String::new(),
            traces: None,
            manager: None,
            watchdog: None,
            limits,
            kernel_tracer,
            signals: None,
            forwarder,
            log,
        };
        let agent = Agent::bind(options);
        let mut agent = agent.inspect_err(|_| drop(fs::remove_dir_all(&directory)))?;
        let (stopped, stop) = io::pipe()?;
        let thread = std::thread::Builder::new()
            .name("blkkin-agent".to_owned())
            .spawn(move || agent.run(stopped.as_fd()))?;
        Ok(Background { directory, socket, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the path of the agent's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Stops the agent, and waits until it has written all packets.
    pub fn end(mut self) -> io::Result<()> {
        self.end_now()
    }

    fn end_now(&mut self) -> io::Result<()> {
        drop(self.stop.take());
        let ended = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other("the agent has panicked")),
            None => Ok(()),
        };
        let _ = fs::remove_dir_all(&self.directory);
        ended
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.end_now();
    }
}

/// Returns whether a directory is older than [`BEGINNING`]. An agent locks its directory earlier.
fn is_old(directory: &fs::Metadata) -> bool {
    let age = directory.modified().ok().and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age > BEGINNING)
}

/// Removes from `parent` the socket directories of this user's agents that were killed.
fn remove_abandoned(parent: &Path) {
    let own = blkkin_sys::user_id();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().take(ENTRIES_MAX) {
        let name = entry.file_name();
        let is_ours =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|word| {
                word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
        // Entries with other names are not accessed, because their file systems may not answer.
        if !is_ours {
            continue;
        }
        let is_own = entry
            .metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == own && is_old(&found));
        if !is_own {
            continue;
        }
        let lock = entry.path().join("agent.lock");
        // A directory without a lock file may belong to an agent that is just starting.
        let opened = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(lock);
        if opened.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Makes a directory for the socket, which no other user may enter. The directory's name is short,
/// because the kernel limits the length of a socket's path. Also removes abandoned directories.
fn private_directory() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    let parents = runtime.into_iter().chain([std::env::temp_dir(), "/tmp".into()]);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for parent in parents {
        remove_abandoned(&parent);
        let [word] = blkkin_sys::random_words().unwrap_or([u64::from(std::process::id())]);
        let directory = parent.join(format!("{PREFIX}{word:016x}"));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}
