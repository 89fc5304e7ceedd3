//! File in which the agent saves its state for the next agent: sessions, sampling rules, traces,
//! losses and totals. Each entry is a note. The file is beside the socket. It is rewritten as a
//! whole when sessions or sampling rules change, and when many notes were appended. A note is
//! appended for each new, renamed or ended trace, and for each counted loss or total.

use crate::session::{Session, SessionId};
use blkkin_control::{SavedCompletion, SavedTrace, StateRecord, encode};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A trace that is closed for now; its program may continue it.
#[derive(Clone, Debug)]
pub(crate) struct SuspendedTrace {
    pub(crate) session: SessionId,
    pub(crate) pid: u32,
    pub(crate) directory: PathBuf,
    /// Set for a trace of an earlier agent, until this agent begins to adopt the trace's rings.
    /// Until then, only the program has these rings.
    pub(crate) is_earlier: bool,
}

/// File of notes, shared by all traces of the agent. Each trace appends its notes.
#[derive(Clone, Debug)]
pub(crate) struct Notebook {
    path: Arc<Path>,
    /// Number of notes that were appended since the file was last written as a whole. A failed
    /// append sets a huge number, so that the file is rewritten soon.
    added: Arc<AtomicUsize>,
    log: fn(&str),
}

/// Note of an open trace. The trace appends the note when its program gets rings, and again if the
/// trace begins in another directory.
#[derive(Debug)]
pub(crate) struct Note {
    notebook: Notebook,
    session: SessionId,
    session_name: String,
    pid: u32,
    uuid: [u8; 16],
    /// Directory in the last appended note: the trace's present or future directory. Empty until a
    /// note is appended.
    directory: PathBuf,
}

/// Maximum number of appended notes, in addition to one for each connected program. Beyond it, the
/// file is rewritten as a whole.
const ADDED_MAX: usize = 768;
/// Returns the path of the file for an agent that listens on `socket`.
pub(crate) fn path_of(socket: &Path) -> PathBuf {
    socket.with_extension("sessions")
}

impl Notebook {
    /// Returns the notebook of an agent that listens on `socket`.
    pub(crate) fn of(socket: &Path, log: fn(&str)) -> Notebook {
        Notebook { path: path_of(socket).into(), added: Arc::default(), log }
    }

    /// Appends a note. A failure is logged, and recording continues.
    pub(crate) fn add(&self, saved: &StateRecord) {
        let mut bytes = Vec::new();
        let _ = encode(saved, &mut bytes);
        let append = |mut file: File| file.write_all(&bytes);
        self.added.fetch_add(1, Relaxed);
        let added = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.path)
            .and_then(append);
        if added.is_err() {
            // Notes after an incomplete note would not be read: the file must be written as a whole
            // soon.
            self.added.store(usize::MAX / 2, Relaxed);
        }
        self.log_failure(added);
    }

    /// Returns whether the file has so many appended notes that it should be rewritten; `programs`
    /// is the number of connected programs.
    pub(crate) fn is_long(&self, programs: usize) -> bool {
        self.added.load(Relaxed) > ADDED_MAX + programs
    }

    /// Replaces the content of the file by `bytes`.
    pub(crate) fn replace(&self, bytes: &[u8]) {
        let new = self.path.with_extension("sessions.new");
        let _ = fs::remove_file(&new);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written = made.and_then(|mut file| file.write_all(bytes));
        self.added.store(0, Relaxed);
        self.log_failure(written.and_then(|()| fs::rename(&new, &self.path)));
    }

    fn log_failure(&self, written: io::Result<()>) {
        if let Err(error) = written {
            (self.log)(&format!(
                "cannot note sessions for an agent that is started after this one: {error}"
            ));
        }
    }
}

impl Note {
    /// Returns the note of a trace of this session and process. Nothing is appended yet.
    pub(crate) fn new(notebook: Notebook, session: &Session, pid: u32, uuid: [u8; 16]) -> Note {
        let (session_name, directory) = (session.name.clone(), PathBuf::new());
        Note { notebook, session: session.id, session_name, pid, uuid, directory }
    }

    /// Appends a note of the trace's directory, unless the last note has the same directory.
    pub(crate) fn note(&mut self, directory: &Path) {
        if self.directory != directory {
            directory.clone_into(&mut self.directory);
            self.notebook.add(&self.saved());
        }
    }

    /// Appends a note that the trace was closed and its losses were counted.
    pub(crate) fn close(&self) {
        let [uuid_first, uuid_second] = halves(self.uuid);
        self.notebook.add(&StateRecord::Closed(SavedCompletion { uuid_first, uuid_second }));
    }

    pub(crate) fn saved(&self) -> StateRecord {
        saved_trace(self.uuid, self.session_name.clone(), self.suspended())
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the entry under which the trace can be continued after it was closed.
    pub(crate) fn suspended(&self) -> SuspendedTrace {
        let (session, pid, directory) = (self.session, self.pid, self.directory.clone());
        SuspendedTrace { session, pid, directory, is_earlier: false }
    }
}

pub(crate) fn uuid_of(first: u64, second: u64) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&first.to_le_bytes());
    uuid[8..].copy_from_slice(&second.to_le_bytes());
    uuid
}

/// Returns the two halves of a UUID as little-endian integers.
fn halves(uuid: [u8; 16]) -> [u64; 2] {
    [0, 8].map(|at| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&uuid[at..at + 8]);
        u64::from_le_bytes(bytes)
    })
}

pub(crate) fn saved_trace(uuid: [u8; 16], name: String, trace: SuspendedTrace) -> StateRecord {
    let [uuid_first, uuid_second] = halves(uuid);
    let SuspendedTrace { session, pid, directory, .. } = trace;
    StateRecord::Trace(SavedTrace { session, name, pid, uuid_first, uuid_second, directory })
}
