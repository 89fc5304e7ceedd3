//! An agent of one's own, on a thread: nobody else finds it, and it goes with its owner.

use crate::engine::{Agent, Options};
use crate::quota::Limits;
use std::fs::{self, DirBuilder};
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// An agent that runs on a thread.
#[derive(Debug)]
pub struct Background {
    directory: PathBuf,
    socket: PathBuf,
    /// The agent ends when it is dropped.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Background {
    /// Starts it, in a directory that only this user can enter.
    pub fn start(log: fn(&str)) -> io::Result<Background> {
        Background::start_with(log, Limits::default())
    }

    /// The same, where one user may have it hold so much.
    pub fn start_with(log: fn(&str), limits: Limits) -> io::Result<Background> {
        let directory = private_directory()?;
        let socket = directory.join("agent.sock");
        let options = Options {
            socket: socket.clone(),
            is_public: false,
            group: String::new(),
            traces: None,
            manager: None,
            limits,
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

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Has it write what there is, and end.
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

/// A new directory for sockets: paths of those must be short, and nobody else may enter it.
fn private_directory() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    let parents = runtime.into_iter().chain([std::env::temp_dir(), "/tmp".into()]);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for parent in parents {
        let [word] = blkkin_sys::random_words().unwrap_or([u64::from(std::process::id())]);
        let directory = parent.join(format!("blkkin-{word:016x}"));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}
