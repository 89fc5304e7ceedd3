//! Sessions outlive the daemon: they are noted in a file beside its socket, and the next one goes on with
//! them, with the rings that programs have kept and the traces that were begun.

use crate::clock::Rates;
use crate::engine::{Agent, Totals};
use crate::losses::Losses;
use crate::output::Output;
use crate::owner::Owner;
use crate::process::may_run;
use crate::quota::{Account, Accounts, What};
use crate::session::{
    SamplingRules, Session, SessionChannel, SessionId, SessionRule, size_of_channel,
    size_of_sampling, size_of_session,
};
use crate::trace::Trace;
use blkkin_control::{
    Decoder, Received, Rule, Saved, SavedClosed, SavedEnded, SavedLimit, SavedLoss, SavedSampling,
    SavedSession, SavedTrace, SessionState, encode,
};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A trace that a program's rings went to, which nobody has open.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) session: SessionId,
    pub(crate) pid: u32,
    pub(crate) directory: PathBuf,
    /// Whether an earlier daemon has begun it, whose rings only its program has.
    pub(crate) is_earlier: bool,
}

/// The file of notes.
#[derive(Clone, Debug)]
pub(crate) struct Notebook {
    path: Arc<Path>,
    /// Notes that were added since it was written as a whole.
    added: Arc<AtomicUsize>,
    log: fn(&str),
}

/// What is noted of a trace that is open: by the trace itself, which alone knows where it is.
#[derive(Debug)]
pub(crate) struct Note {
    notebook: Notebook,
    session: SessionId,
    session_name: String,
    pid: u32,
    uuid: [u8; 16],
    /// Where it is, or is to be, as was noted last.
    directory: PathBuf,
}

/// What an earlier daemon has noted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) sessions: Vec<Session>,
    /// By UUID.
    pub(crate) traces: HashMap<[u8; 16], Begun>,
    /// Rules of sampling, by user.
    pub(crate) sampling: HashMap<u32, SamplingRules>,
    /// Losses of sessions.
    pub(crate) losses: BTreeMap<SessionId, Losses>,
    /// What the rings of ended programs have seen, by session and channel.
    pub(crate) ended: BTreeMap<(SessionId, usize), Totals>,
}

/// Longest file that is read.
const SIZE_MAX: u64 = 64 << 20;
/// Notes that are added before the file is written anew, without those that hold no more.
const ADDED_MAX: usize = 768;
/// Bytes of the directories of those, for each session.
const NOTED_MAX: usize = 1 << 20;
/// Traces that nobody has open, and whose programs may come back.
const BEGUN_MAX: usize = 16_384;

/// Where notes are.
fn path_of(socket: &Path) -> PathBuf {
    socket.with_extension("sessions")
}

/// Reads what an earlier daemon has noted. A part that cannot be understood ends it.
pub(crate) fn read(socket: &Path, accounts: &mut Accounts) -> io::Result<Notes> {
    let mut notes = Notes::default();
    let path = path_of(socket);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match File::options().read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(notes),
        Err(error) => return Err(error),
    };
    check_owner(&file.metadata()?, &path)?;
    let mut bytes = Vec::new();
    // Sessions come first, and what is noted of them is bounded for each user. What is beyond are traces, which
    // are not gone on with.
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    let mut decoder: Decoder<Saved> = Decoder::new();
    decoder.feed(&bytes, []);
    loop {
        match decoder.take() {
            Ok(Some(Received::Message { message, .. })) => notes.add(message, accounts),
            Ok(Some(Received::Unknown { .. })) => {}
            Ok(None) => return Ok(notes),
            // What was noted last may be there in part.
            Err(_) => return Ok(notes),
        }
    }
}

/// Whoever else could write it could have root's sessions record to any place.
fn check_owner(found: &fs::Metadata, path: &Path) -> io::Result<()> {
    let is_own = [0, blkkin_sys::user_id()].contains(&found.uid());
    if found.is_file() && is_own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let (uid, mode, path) = (found.uid(), found.mode() & 0o7777, path.display());
    let why =
        format!("`{path}` is of user {uid}, mode {mode:o}: others may have written it; remove it");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

impl Notes {
    fn add(&mut self, saved: Saved, accounts: &mut Accounts) {
        match saved {
            Saved::Session(saved) => {
                let account = accounts.of(saved.state.owner);
                self.sessions.push(session(saved, &account));
            }
            Saved::Channel(channel) => {
                if let Some(session) = self.sessions.last_mut() {
                    let account = accounts.of(session.owner.uid);
                    let bytes = account.owe(What::RuleBytes, size_of_channel(&channel));
                    session.channels.push(SessionChannel::new(channel, bytes));
                }
            }
            Saved::Rule(Rule { channel, enabled, selection }) => {
                let Some(session) = self.sessions.last_mut() else { return };
                let account = accounts.of(session.owner.uid);
                let mut channels = session.channels.iter_mut();
                let found = channels.find(|one| one.channel.name == channel);
                let rule = SessionRule::again(&account, enabled, selection);
                if let Some((found, rule)) = found.zip(rule) {
                    let _ = found.add(rule);
                }
            }
            Saved::Trace(trace) => {
                let uuid = uuid_of(trace.uuid_first, trace.uuid_second);
                let SavedTrace { session, pid, directory, .. } = trace;
                self.traces.insert(uuid, Begun { session, pid, directory, is_earlier: true });
            }
            Saved::Sampling(SavedSampling { user, rules }) => {
                let bytes = accounts.of(user).owe(What::RuleBytes, size_of_sampling(&rules));
                self.sampling.insert(user, SamplingRules { rules, _bytes: bytes });
            }
            Saved::Closed(SavedClosed { uuid_first, uuid_second }) => {
                self.traces.remove(&uuid_of(uuid_first, uuid_second));
            }
            Saved::Limit(SavedLimit { number, size_max }) => {
                let session = self.sessions.iter().find(|session| session.id == number);
                session.iter().for_each(|session| session.bound.set(size_max));
            }
            Saved::Loss(SavedLoss { number, loss }) => {
                self.losses.entry(number).or_default().set(loss);
            }
            Saved::Ended(SavedEnded { number, ended }) => {
                let session = self.sessions.iter().find(|session| session.id == number);
                let mut channels = session.into_iter().flat_map(|session| &session.channels);
                let at = channels.position(|one| one.channel.name == ended.channel);
                session.iter().for_each(|session| session.bound.add(ended.bytes_written));
                at.map(|at| self.ended.insert((number, at), Totals::of(&ended)));
            }
        }
    }
}

fn session(saved: SavedSession, account: &Arc<Account>) -> Session {
    let SessionState { session, activity, owner, created_ns } = saved.state;
    let output = session.output.unwrap_or_default();
    let bytes = account.owe(What::RuleBytes, size_of_session(&session.name, &output));
    let created = Timestamp::from_nanosecond(created_ns.into()).unwrap_or_default();
    let owner = Owner { uid: owner, gid: saved.group };
    Session {
        id: saved.number,
        name: session.name,
        owner,
        is_privileged: saved.is_privileged,
        purpose: session.purpose,
        // Until it is known whether its user is trusted.
        output: Output::guarded(output, owner),
        _bytes: bytes,
        activity,
        created: Zoned::new(created, TimeZone::system()),
        channels: Vec::new(),
        snapshots: saved.snapshots,
        bound: Arc::default(),
        rates: Rates::default(),
    }
}

impl Notebook {
    /// That of an agent that listens there.
    pub(crate) fn of(socket: &Path, log: fn(&str)) -> Notebook {
        Notebook { path: path_of(socket).into(), added: Arc::default(), log }
    }

    /// Adds a note. Whatever becomes of it, recording goes on.
    pub(crate) fn add(&self, saved: &Saved) {
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
            // Behind a part of a note others would not be found: all is to be written anew soon.
            self.added.store(usize::MAX / 2, Relaxed);
        }
        self.complain(added);
    }

    /// Replaces all notes.
    fn replace(&self, bytes: &[u8]) {
        let new = self.path.with_extension("sessions.new");
        let _ = fs::remove_file(&new);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written = made.and_then(|mut file| file.write_all(bytes));
        self.added.store(0, Relaxed);
        self.complain(written.and_then(|()| fs::rename(&new, &self.path)));
    }

    fn complain(&self, written: io::Result<()>) {
        if let Err(error) = written {
            (self.log)(&format!(
                "cannot note sessions for an agent that is started after this one: {error}"
            ));
        }
    }
}

impl Note {
    /// Of a trace of that session and process. Nothing is noted yet.
    pub(crate) fn new(notebook: Notebook, session: &Session, pid: u32, uuid: [u8; 16]) -> Note {
        let (session_name, directory) = (session.name.clone(), PathBuf::new());
        Note { notebook, session: session.id, session_name, pid, uuid, directory }
    }

    /// Notes where the trace is, or is to be, if that is not noted already.
    pub(crate) fn note(&mut self, directory: &Path) {
        if self.directory != directory {
            directory.clone_into(&mut self.directory);
            self.notebook.add(&self.saved());
        }
    }

    /// Notes that nothing of the trace is missing that was not counted.
    pub(crate) fn close(&self) {
        let [uuid_first, uuid_second] = halves(self.uuid);
        self.notebook.add(&Saved::Closed(SavedClosed { uuid_first, uuid_second }));
    }

    fn saved(&self) -> Saved {
        saved_trace(self.uuid, self.session_name.clone(), self.begun())
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// What is left to know when the trace is not open any more.
    pub(crate) fn begun(&self) -> Begun {
        let (session, pid, directory) = (self.session, self.pid, self.directory.clone());
        Begun { session, pid, directory, is_earlier: false }
    }
}

fn uuid_of(first: u64, second: u64) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&first.to_le_bytes());
    uuid[8..].copy_from_slice(&second.to_le_bytes());
    uuid
}

/// First and second half.
fn halves(uuid: [u8; 16]) -> [u64; 2] {
    [0, 8].map(|at| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&uuid[at..at + 8]);
        u64::from_le_bytes(bytes)
    })
}

fn saved_trace(uuid: [u8; 16], name: String, begun: Begun) -> Saved {
    let [uuid_first, uuid_second] = halves(uuid);
    let Begun { session, pid, directory, .. } = begun;
    Saved::Trace(SavedTrace { session, name, pid, uuid_first, uuid_second, directory })
}

impl Agent {
    /// Notes all sessions and traces, in place of what was noted before.
    pub(crate) fn save(&mut self) {
        // Counts the traces whose programs have ended, which are not noted below.
        self.count_cut_off();
        let (sessions, mut room) = (&self.sessions, BEGUN_MAX);
        self.begun.retain(|_, begun| {
            let is_wanted = sessions.iter().any(|one| one.id == begun.session)
                && may_run(begun.pid)
                && room > 0;
            room -= usize::from(is_wanted);
            is_wanted
        });
        let mut bytes = Vec::new();
        let mut note = |saved: Saved| {
            // All of it has come over a connection, or goes over one, and keeps to the limits.
            let _ = encode(&saved, &mut bytes);
        };
        for session in &self.sessions {
            note(Saved::Session(SavedSession {
                number: session.id,
                state: session.state(),
                group: session.owner.gid,
                is_privileged: session.is_privileged,
                snapshots: session.snapshots,
            }));
            if let Some(size_max) = session.bound.size_max() {
                note(Saved::Limit(SavedLimit { number: session.id, size_max }));
            }
            for channel in &session.channels {
                note(Saved::Channel(channel.channel.clone()));
            }
            let rules = session.channels.iter().flat_map(SessionChannel::told_rules);
            rules.map(Saved::Rule).for_each(&mut note);
            self.saved_counters(session).into_iter().for_each(&mut note);
        }
        for (user, rules) in &self.sampling {
            let rules = rules.rules.clone();
            note(Saved::Sampling(SavedSampling { user: *user, rules }));
        }
        let mut room: HashMap<SessionId, usize> =
            self.sessions.iter().map(|one| (one.id, NOTED_MAX)).collect();
        for (uuid, begun) in &self.begun {
            let Some(room) = room.get_mut(&begun.session) else { continue };
            let Some(left) = room.checked_sub(begun.directory.as_os_str().len()) else { continue };
            *room = left;
            let session = self.sessions.iter().find(|session| session.id == begun.session);
            let name = session.map(|session| session.name.clone()).unwrap_or_default();
            note(saved_trace(*uuid, name, begun.clone()));
        }
        let all = self.applications.values().chain(&self.departed);
        let open = all.flat_map(|application| application.traces.values());
        open.filter_map(Trace::note).map(Note::saved).for_each(&mut note);
        self.notebook.replace(&bytes);
    }

    /// Writes the notes anew if many have been added.
    pub(crate) fn save_if_long(&mut self) {
        if self.notebook.added.load(Relaxed) > ADDED_MAX + self.applications.len() {
            self.save();
        }
    }
}
