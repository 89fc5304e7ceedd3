//! Directories that users choose for what is recorded. A file system may not answer, so they are made by threads that
//! may be lost, and those are refused that a user's own program serves: it could stop at any time.

use crate::engine::{Agent, Id};
use crate::foreign::run;
use crate::owner::Owner;
use blkkin_control::{Failed, Reply, code};
use rustix::fs::{fstatfs, major, minor};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// A directory that is being made.
#[derive(Debug)]
pub(crate) struct Making {
    /// Who waits for it.
    command: Id,
    output: PathBuf,
    owner: Owner,
    deadline: Instant,
    made: Receiver<io::Result<()>>,
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
/// What `statfs` says of file systems in user space.
const FUSE: u64 = 0x6573_5546;

impl Agent {
    /// Begins to make a directory with its owner's rights.
    pub(crate) fn make_output(
        &mut self,
        command: Id,
        (output, owner): (PathBuf, Owner),
        purpose: OutputPurpose,
    ) {
        let (sender, made) = channel();
        let path = output.clone();
        let make = move || {
            let _ = sender.send(make(&path, owner));
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
                Err(_) => Err(io::Error::other(
                    "its file system does not answer; choose a directory on another one",
                )),
            };
            let Making { command, output, owner, purpose, .. } = self.makings.swap_remove(at);
            let failed = match made {
                Ok(()) => self.use_output(command, (output, owner), purpose).err(),
                Err(error) => Some(Failed {
                    code: code::OUTPUT.to_owned(),
                    message: format!("cannot create `{}`: {error}", output.display()),
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
        (output, owner): (PathBuf, Owner),
        purpose: OutputPurpose,
    ) -> Result<(), Failed> {
        match purpose {
            OutputPurpose::Session { session, is_privileged } => {
                self.add_session(session, (output.clone(), owner), is_privileged)?;
                self.save();
                self.reply(command, &Reply::Written(output));
                self.finish_request(command, &Reply::Done);
            }
            OutputPurpose::Snapshot(session) => {
                self.begin_snapshot(command, session, (output, owner));
            }
        }
        Ok(())
    }
}

fn make(output: &Path, owner: Owner) -> io::Result<()> {
    owner.create_directory(output)?;
    let refused = owner.act(|| refuse_served(output));
    if refused.is_err() {
        let _ = owner.act(|| fs::remove_dir(output));
    }
    refused
}

/// Refuses a directory on a file system that a program serves which root has not started.
fn refuse_served(output: &Path) -> io::Result<()> {
    // Landlock lets directories be opened that cannot be read.
    let directory = rustix::fs::open(
        output,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    if fstatfs(&directory)?.f_type as u64 & 0xffff_ffff != FUSE {
        return Ok(());
    }
    let device = File::from(directory).metadata()?.dev();
    let device = format!("{}:{}", major(device), minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mut lines = mounts.lines().filter(|line| line.split(' ').nth(2) == Some(&*device));
    let is_roots = |line: &str| {
        let options = line.rsplit(' ').next().unwrap_or_default();
        options.split(',').any(|option| option == "user_id=0")
    };
    match lines.all(is_roots) {
        true => Ok(()),
        false => Err(io::Error::other(
            "its file system is served by a user's program, which could keep the agent waiting; choose a directory \
             on another one",
        )),
    }
}
