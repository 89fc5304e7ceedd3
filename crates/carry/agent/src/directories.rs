//! Creation and opening of output directories that users choose. The file system may not answer, so
//! this work runs on threads that may block. [`crate::output`] checks which file systems are
//! permitted.

use crate::confine::confine;
use crate::deferred_close::run;
use crate::log::Log;
use crate::output::{self, Output, Root};
use crate::owner::Owner;
use crate::quota::{Accounts, Quota, QuotaError, Share};
use crate::session::{Session, SessionId};
use crate::source::ConnectionId;
use blkkin_control::{Failed, Retention, code};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Output directories that other threads are making.
#[derive(Debug)]
pub(crate) struct Directories {
    jobs: Vec<DirectoryJob>,
    /// Set if programs and commands of all users may connect.
    is_public: bool,
    own_uid: u32,
}

/// Request of a command for an output directory.
#[derive(Debug)]
pub(crate) struct DirectoryRequest {
    /// Connection of the command that waits for the directory.
    pub(crate) command: ConnectionId,
    /// Path at which the directory is made.
    pub(crate) path: PathBuf,
    /// User and group with whose permissions the directory is made.
    pub(crate) owner: Owner,
    /// Session or snapshot that writes to the directory.
    pub(crate) purpose: OutputPurpose,
}

/// Output directory that another thread is making.
#[derive(Debug)]
struct DirectoryJob {
    request: DirectoryRequest,
    deadline: Instant,
    made: Receiver<io::Result<Option<Root>>>,
}

/// Result of making a directory for a command: the output, or the error.
#[derive(Debug)]
pub(crate) struct MadeDirectory {
    pub(crate) command: ConnectionId,
    pub(crate) owner: Owner,
    pub(crate) purpose: OutputPurpose,
    pub(crate) output: Result<Output, Failed>,
}

#[derive(Debug)]
pub(crate) enum OutputPurpose {
    Session {
        session: blkkin_control::Session,
        retention: Retention,
        is_privileged: bool,
    },
    /// Snapshot of the session with this number. Packets that ended longer ago than `keep_ms` are
    /// left out, if it is given.
    Snapshot {
        session: SessionId,
        keep_ms: Option<u64>,
    },
}

/// Time limit for a file system to answer.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Interval between checks whether a directory was made.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

impl Directories {
    pub(crate) fn new(is_public: bool, own_uid: u32) -> Directories {
        Directories { jobs: Vec::new(), is_public, own_uid }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns whether the outputs of this owner are guarded: see [`Output`].
    fn is_guarded(&self, owner: Owner) -> bool {
        self.is_public && ![0, self.own_uid].contains(&owner.uid)
    }

    /// Starts the creation of a directory on another thread, with the file permissions of its
    /// owner. [`Directories::take_made`] returns the result.
    pub(crate) fn make(
        &mut self,
        request: DirectoryRequest,
        accounts: &mut Accounts,
    ) -> Result<(), QuotaError> {
        let owner = request.owner;
        // The account may be that of another user, who owns a range of user ids.
        let account = accounts.of(owner.uid);
        let guarded = self.is_guarded(owner);
        let descriptor = guarded.then(|| account.reserve(Quota::Descriptors, 1)).transpose()?;
        let (sender, made) = channel();
        let path = request.path.clone();
        let make = move || {
            let _ = sender.send(make(&path, owner, descriptor));
        };
        run(&account, Box::new(make));
        let deadline = Instant::now() + PATIENCE;
        self.jobs.push(DirectoryJob { request, deadline, made });
        Ok(())
    }

    /// Removes the jobs that are complete or past their deadline, and returns their results.
    pub(crate) fn take_made(&mut self, now: Instant) -> Vec<MadeDirectory> {
        let mut all = Vec::new();
        let mut at = 0;
        while at < self.jobs.len() {
            let job = &self.jobs[at];
            let made = match job.made.try_recv() {
                Ok(made) => made,
                Err(TryRecvError::Empty) if now < job.deadline => {
                    at += 1;
                    continue;
                }
                Err(_) => Err(output::no_answer()),
            };
            let DirectoryRequest { command, path, owner, purpose } =
                self.jobs.swap_remove(at).request;
            let output = match made {
                Ok(None) => Ok(Output::trusted(path, owner)),
                Ok(Some(root)) => {
                    let output = Output::guarded(path, owner);
                    output.open(Ok(root));
                    Ok(output)
                }
                Err(error) => Err(Failed {
                    code: code::OUTPUT.to_owned(),
                    message: format!("cannot create `{}`: {error}", path.display()),
                    hint: None,
                }),
            };
            all.push(MadeDirectory { command, owner, purpose, output });
        }
        all
    }

    /// Opens the guarded output directories of sessions that an earlier agent has saved, and waits
    /// for them up to [`PATIENCE`]. If a file system does not answer in time, nothing is written to
    /// it until it answers, and the same user's other outputs may have to wait too. Sessions of
    /// other users are not affected.
    pub(crate) fn open_all(&self, sessions: &mut [Session], accounts: &mut Accounts, log: &Log) {
        let mut guarded: BTreeMap<u32, Vec<(Output, Owner, Share)>> = BTreeMap::new();
        for session in sessions {
            let owner = session.owner;
            if !self.is_guarded(owner) {
                session.output = Output::trusted(session.output.path().to_owned(), owner);
                continue;
            }
            let descriptor = accounts.of(owner.uid).reserve_unchecked(Quota::Descriptors, 1);
            let output = session.output.clone();
            guarded.entry(owner.uid).or_default().push((output, owner, descriptor));
        }
        let (sender, done) = channel::<()>();
        for outputs in guarded.into_values() {
            let sender = sender.clone();
            let open = move || {
                // The event loop's thread logs restrictions that fail.
                let _ = confine(&mut std::iter::empty());
                for (output, owner, descriptor) in outputs {
                    output.open(Root::open(output.path(), owner, descriptor));
                }
                drop(sender);
            };
            let thread = std::thread::Builder::new().name("blkkin-outputs".to_owned());
            // If the thread cannot be started, its outputs never answer.
            let _ = thread.spawn(open);
        }
        drop(sender);
        let opened: Result<(), RecvTimeoutError> = done.recv_timeout(PATIENCE);
        if opened == Err(RecvTimeoutError::Timeout) {
            log.line(
                "the output of a session does not answer: nothing is written to it until it does",
            );
        }
    }
}

/// Makes a directory and checks its file system; removes the directory again if the check fails.
/// Returns the open directory of a guarded output. For a trusted output, `descriptor` and the
/// result are `None`.
fn make(path: &Path, owner: Owner, descriptor: Option<Share>) -> io::Result<Option<Root>> {
    owner.create_directory(path)?;
    let made = match descriptor {
        Some(descriptor) => Root::open(path, owner, descriptor).map(Some),
        None => output::check_trusted(path, owner).map(|()| None),
    };
    if made.is_err() {
        let _ = owner.act(|| fs::remove_dir(path));
    }
    made
}
