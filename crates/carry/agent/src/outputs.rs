//! Directories that users choose for what is recorded. A file system may not answer, so they are made by threads that
//! may be lost; which file systems are refused is in [`crate::output`].

use crate::confine::confine;
use crate::engine::{Agent, Id};
use crate::foreign::run;
use crate::output::{self, Output, Root};
use crate::owner::Owner;
use crate::quota::{Share, What};
use crate::requests::exceeded;
use blkkin_control::{Failed, Reply, code};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// A directory that is being made.
#[derive(Debug)]
pub(crate) struct Making {
    /// Who waits for it.
    command: Id,
    output: PathBuf,
    owner: Owner,
    deadline: Instant,
    made: Receiver<io::Result<Option<Root>>>,
    purpose: OutputPurpose,
}

/// What a directory is made for.
#[derive(Debug)]
pub(crate) enum OutputPurpose {
    Session {
        session: blkkin_control::Session,
        is_privileged: bool,
    },
    /// Of the session of that number.
    Snapshot(u64),
}

/// How long a file system has to answer.
const PATIENCE: Duration = Duration::from_millis(1000);
/// From one look at what was made to the next.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

impl Agent {
    /// Whether this user's outputs are guarded: see [`Output`].
    fn is_guarded(&self, owner: Owner) -> bool {
        self.options.is_public && ![0, self.own_uid].contains(&owner.uid)
    }

    /// Begins to make a directory with its owner's rights.
    pub(crate) fn make_output(
        &mut self,
        command: Id,
        (output, owner): (PathBuf, Owner),
        purpose: OutputPurpose,
    ) {
        let descriptor = match self.is_guarded(owner) {
            true => self.accounts.of(owner.uid).take(What::Descriptors, 1).map(Some),
            false => Ok(None),
        };
        let descriptor = match descriptor {
            Ok(descriptor) => descriptor,
            Err(error) => {
                return self.finish_request(command, &Reply::Failed(exceeded(error)));
            }
        };
        let (sender, made) = channel();
        let path = output.clone();
        let make = move || {
            let _ = sender.send(make(&path, owner, descriptor));
        };
        // Threads are the account's: an owner may have numbers of many users.
        run(&self.accounts.of(owner.uid), Box::new(make));
        let deadline = Instant::now() + PATIENCE;
        self.makings.push(Making { command, output, owner, deadline, made, purpose });
    }

    /// Goes on with requests whose directories have been made, or were not in time.
    pub(crate) fn look_at_outputs(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.makings.len() {
            let making = &self.makings[at];
            let made = match making.made.try_recv() {
                Ok(made) => made,
                Err(TryRecvError::Empty) if now < making.deadline => {
                    at += 1;
                    continue;
                }
                Err(_) => Err(output::no_answer()),
            };
            let Making { command, output: path, owner, purpose, .. } = self.makings.swap_remove(at);
            let failed = match made {
                Ok(None) => {
                    self.use_output(command, Output::trusted(path, owner), owner, purpose).err()
                }
                Ok(Some(root)) => {
                    let output = Output::guarded(path, owner);
                    output.open(Ok(root));
                    self.use_output(command, output, owner, purpose).err()
                }
                Err(error) => Some(Failed {
                    code: code::OUTPUT.to_owned(),
                    message: format!("cannot create `{}`: {error}", path.display()),
                    hint: None,
                }),
            };
            if let Some(failed) = failed {
                self.finish_request(command, &Reply::Failed(failed));
            }
        }
    }

    fn use_output(
        &mut self,
        command: Id,
        output: Output,
        owner: Owner,
        purpose: OutputPurpose,
    ) -> Result<(), Failed> {
        match purpose {
            OutputPurpose::Session { session, is_privileged } => {
                let path = output.path().to_owned();
                self.add_session(session, output, owner, is_privileged)?;
                self.save();
                self.reply(command, &Reply::Written(path));
                self.finish_request(command, &Reply::Done);
            }
            OutputPurpose::Snapshot(session) => self.begin_snapshot(command, session, output),
        }
        Ok(())
    }

    /// Opens the directories of an earlier agent's sessions. What a file system that does not answer is to take is
    /// lost until it answers; nobody else's is.
    pub(crate) fn open_outputs(&mut self) {
        let mut guarded: BTreeMap<u32, Vec<(Output, Owner, Share)>> = BTreeMap::new();
        for at in 0..self.sessions.len() {
            let owner = self.sessions[at].owner;
            if !self.is_guarded(owner) {
                let output = &mut self.sessions[at].output;
                *output = Output::trusted(output.path().to_owned(), owner);
                continue;
            }
            let descriptor = self.accounts.of(owner.uid).owe(What::Descriptors, 1);
            let output = self.sessions[at].output.clone();
            guarded.entry(owner.uid).or_default().push((output, owner, descriptor));
        }
        let (sender, done) = channel::<()>();
        for outputs in guarded.into_values() {
            let sender = sender.clone();
            let open = move || {
                // The agent's own thread says what cannot be given up.
                let _ = confine(&mut std::iter::empty());
                for (output, owner, descriptor) in outputs {
                    output.open(Root::open(output.path(), owner, descriptor));
                }
                drop(sender);
            };
            let thread = std::thread::Builder::new().name("blkkin-outputs".to_owned());
            // Without a thread, its outputs count as those that do not answer.
            let _ = thread.spawn(open);
        }
        drop(sender);
        let opened: Result<(), RecvTimeoutError> = done.recv_timeout(PATIENCE);
        if opened == Err(RecvTimeoutError::Timeout) {
            self.log.line(
                "the output of a session does not answer: nothing is written to it until it does",
            );
        }
    }
}

/// Makes a directory, and opens it if it takes up a descriptor.
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
