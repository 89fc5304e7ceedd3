//! What was recorded is dropped, whoever recorded it: in rings, in traces that are open, and the traces of
//! programs that have ended, of which only their directories are known.
//!
//! There may be very many of those, so they are removed little by little, while programs record on. Only
//! files are taken away that a daemon has made.

use crate::engine::{Agent, Id};
use crate::output::Output;
use crate::quota::Share;
use crate::session::{Session, SessionId};
use crate::trace::{Part, part_named};
use blkkin_control::{Failed, Reply, code};
use rustix::fs::{Dir, DirEntry, FileType};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Traces that are being removed.
#[derive(Debug)]
pub(crate) struct Clearing {
    /// Who waits for it.
    command: Id,
    session: SessionId,
    output: Output,
    /// Traces that have been closed since it began: they hold what was recorded since then.
    spared: HashSet<PathBuf>,
    /// Directories that are being gone through, each in the one before.
    open: Vec<(PathBuf, Dir)>,
    _descriptors: Share,
    trouble: Option<io::Error>,
}

/// Directories that are open at once: all traces, one, and its index.
pub(crate) const DEPTH_MAX: u64 = 3;
/// Files and directories that are looked at before others get their turn.
const ENTRIES_AT_ONCE: usize = 128;

impl Clearing {
    fn begin(command: Id, session: &Session, _descriptors: Share) -> Clearing {
        let (spared, open, trouble) = (HashSet::new(), Vec::new(), None);
        let (session, output) = (session.id, session.output.clone());
        let all = output.path().join("ust").join("pid");
        let mut clearing =
            Clearing { command, session, output, spared, open, _descriptors, trouble };
        clearing.enter(all);
        clearing
    }

    fn enter(&mut self, directory: PathBuf) {
        match self.output.read_directory(&directory) {
            Ok(entries) => self.open.push((directory, entries)),
            Err(error) => self.note(Err(error)),
        }
    }

    fn note(&mut self, done: io::Result<()>) {
        match done {
            // Somebody else has removed it, or has put something into it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            done => self.trouble = done.err().or(self.trouble.take()),
        }
    }

    /// Goes on for so many files and directories, but for traces that are `open`; whether it is done.
    fn go_on(&mut self, entries: usize, open: &HashSet<&Path>) -> bool {
        // Its program has come back while it was being removed.
        if self.open.get(1).is_some_and(|(directory, _)| self.is_spared(directory, open)) {
            self.open.truncate(1);
        }
        for _ in 0..entries {
            let depth = self.open.len();
            let Some((directory, entries)) = self.open.last_mut() else { return true };
            match entries.next() {
                Some(Ok(entry)) => self.look_at(&entry, depth, open),
                Some(Err(error)) => self.note(Err(error.into())),
                None => {
                    let directory = std::mem::take(directory);
                    self.open.pop();
                    if depth > 1 {
                        self.note(self.output.remove_directory(&directory));
                    }
                }
            }
        }
        false
    }

    fn look_at(&mut self, entry: &DirEntry, depth: usize, open: &HashSet<&Path>) {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            return;
        }
        let Some((above, _)) = self.open.last() else { return };
        let path = above.join(name);
        let is_directory = match entry.file_type() {
            FileType::Unknown => self.output.find_directory(&path).is_ok(),
            kind => kind.is_dir(),
        };
        match (depth, is_directory) {
            (1, true) if !self.is_spared(&path, open) => self.enter(path),
            (2, true) if name == "index" => self.enter(path),
            (2, false) if is_part(name, &[Part::Metadata, Part::Mark, Part::Stream]) => {
                self.remove(&path);
            }
            (3, false) if is_part(name, &[Part::Index]) => self.remove(&path),
            _ => {}
        }
    }

    fn is_spared(&self, trace: &Path, open: &HashSet<&Path>) -> bool {
        open.contains(trace) || self.spared.contains(trace)
    }

    fn remove(&mut self, path: &Path) {
        self.note(self.output.remove_file(path));
    }
}

fn is_part(name: &OsStr, parts: &[Part]) -> bool {
    name.to_str().and_then(part_named).is_some_and(|part| parts.contains(&part))
}

impl Agent {
    /// Drops what a session has recorded so far.
    pub(crate) fn clear(&mut self, command: Id, at: usize, descriptors: Share) {
        let session = &self.sessions[at];
        let id = session.id;
        session.bound.clear();
        let mut clearing = Clearing::begin(command, session, descriptors);
        for application in self.applications.values_mut().chain(&mut self.departed) {
            application.forget(id);
            if let Some(trace) = application.traces.get_mut(&id) {
                clearing.note(trace.clear());
            }
        }
        // Of those that do not come back, nothing is left.
        for application in self.departed.iter_mut().filter(|one| !one.may_come()) {
            application.attachments.retain(|attachment| attachment.session != id);
        }
        self.departed.retain(|application| !application.attachments.is_empty());
        self.released.retain(|(released, _), _| *released != id);
        self.clearings.push(clearing);
    }

    /// A trace that was open until now is kept.
    pub(crate) fn spare(&mut self, session: SessionId, trace: &Path) {
        for clearing in self.clearings.iter_mut().filter(|one| one.session == session) {
            clearing.spared.insert(trace.to_owned());
        }
    }

    /// Goes on with what is being cleared, and answers when that is done.
    pub(crate) fn go_on_clearing(&mut self) {
        let mut clearings = std::mem::take(&mut self.clearings);
        // All together take no longer than one; each has its turn.
        let entries = (ENTRIES_AT_ONCE / clearings.len().max(1)).max(1);
        let now = clearings.len().min(ENTRIES_AT_ONCE);
        let later = clearings.split_off(now);
        let mut open: HashMap<SessionId, HashSet<&Path>> = HashMap::new();
        let done = clearings.extract_if(.., |clearing| {
            let id = clearing.session;
            let open = open.entry(id).or_insert_with(|| {
                let all = self.applications.values().chain(&self.departed);
                all.filter_map(|one| Some(one.traces.get(&id)?.directory())).collect()
            });
            clearing.go_on(entries, open)
        });
        let done: Vec<Clearing> = done.collect();
        self.clearings = later;
        self.clearings.append(&mut clearings);
        for clearing in done {
            let reply = match clearing.trouble {
                None => Reply::Done,
                Some(error) => Reply::Failed(Failed {
                    code: code::OUTPUT.to_owned(),
                    message: format!("not all that was recorded can be removed: {error}"),
                    hint: None,
                }),
            };
            self.answer(clearing.command, &reply);
            self.resumed.insert(clearing.command);
        }
    }
}
