//! Sessions outlive the daemon: they are noted in a file beside its socket, and the next one goes on with
//! them, with the rings that programs have kept and the traces that were begun.

use crate::engine::Agent;
use crate::owner::Owner;
use crate::session::{Session, SessionChannel, SessionId};
use blkkin_control::{
    Decoder, Received, Rule, Saved, SavedSampling, SavedSession, SavedTrace, SessionState, encode,
};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A trace that a program's rings went to.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) session: SessionId,
    pub(crate) pid: u32,
    pub(crate) directory: PathBuf,
}

/// What an earlier daemon has noted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) sessions: Vec<Session>,
    /// By UUID.
    pub(crate) traces: HashMap<[u8; 16], Begun>,
    /// Rules of sampling, by user.
    pub(crate) sampling: HashMap<u32, String>,
}

/// Longest file that is read.
const SIZE_MAX: u64 = 64 << 20;

/// Where notes are.
fn path_of(socket: &Path) -> PathBuf {
    socket.with_extension("sessions")
}

/// Reads what an earlier daemon has noted. A part that cannot be understood ends it.
pub(crate) fn read(socket: &Path) -> io::Result<Notes> {
    let mut notes = Notes::default();
    let path = path_of(socket);
    match fs::metadata(&path) {
        Ok(metadata) if metadata.len() <= SIZE_MAX => {}
        Ok(_) => return Err(io::ErrorKind::FileTooLarge.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(notes),
        Err(error) => return Err(error),
    }
    let mut decoder: Decoder<Saved> = Decoder::new();
    decoder.feed(&fs::read(&path)?, []);
    loop {
        match decoder.take() {
            Ok(Some(Received::Message { message, .. })) => notes.add(message),
            Ok(Some(Received::Unknown { .. })) => {}
            Ok(None) => return Ok(notes),
            // What was noted last may be there in part.
            Err(_) => return Ok(notes),
        }
    }
}

impl Notes {
    fn add(&mut self, saved: Saved) {
        match saved {
            Saved::Session(saved) => self.sessions.push(session(saved)),
            Saved::Channel(channel) => {
                if let Some(session) = self.sessions.last_mut() {
                    session.channels.push(SessionChannel::new(channel));
                }
            }
            Saved::Rule(Rule { channel, enabled, selection }) => {
                let channels = self.sessions.last_mut().map(|session| session.channels.iter_mut());
                let mut channels = channels.into_iter().flatten();
                if let Some(found) = channels.find(|one| one.channel.name == channel) {
                    let _ = found.add(enabled, selection);
                }
            }
            Saved::Trace(trace) => {
                let mut uuid = [0; 16];
                uuid[..8].copy_from_slice(&trace.uuid_first.to_le_bytes());
                uuid[8..].copy_from_slice(&trace.uuid_second.to_le_bytes());
                let SavedTrace { session, pid, directory, .. } = trace;
                self.traces.insert(uuid, Begun { session, pid, directory });
            }
            Saved::Sampling(SavedSampling { user, rules }) => {
                self.sampling.insert(user, rules);
            }
        }
    }
}

fn session(saved: SavedSession) -> Session {
    let SessionState { session, activity, owner, created_ns } = saved.state;
    let created = Timestamp::from_nanosecond(created_ns.into()).unwrap_or_default();
    Session {
        id: saved.number,
        name: session.name,
        owner: Owner { uid: owner, gid: saved.group },
        is_privileged: saved.is_privileged,
        purpose: session.purpose,
        output: session.output.unwrap_or_default(),
        activity,
        created: Zoned::new(created, TimeZone::system()),
        channels: Vec::new(),
        snapshots: saved.snapshots,
    }
}

impl Agent {
    /// Notes all sessions and traces, in place of what was noted before.
    pub(crate) fn save(&self) {
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
            for channel in &session.channels {
                note(Saved::Channel(channel.channel.clone()));
            }
            let rules = session.channels.iter().flat_map(SessionChannel::told_rules);
            rules.map(Saved::Rule).for_each(&mut note);
        }
        for (user, rules) in &self.sampling {
            note(Saved::Sampling(SavedSampling { user: *user, rules: rules.clone() }));
        }
        for (uuid, begun) in &self.begun {
            if let Some(trace) = self.saved_trace(uuid, begun) {
                note(trace);
            }
        }
        let path = path_of(&self.options.socket);
        let new = path.with_extension("sessions.new");
        let _ = fs::remove_file(&new);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written = made.and_then(|mut file| file.write_all(&bytes));
        let written = written.and_then(|()| fs::rename(&new, &path));
        self.complain_of_notes(written);
    }

    /// Notes one more trace.
    pub(crate) fn save_trace(&mut self, uuid: [u8; 16], begun: Begun) {
        let mut bytes = Vec::new();
        if let Some(trace) = self.saved_trace(&uuid, &begun) {
            let _ = encode(&trace, &mut bytes);
        }
        self.begun.insert(uuid, begun);
        let append = |mut file: File| file.write_all(&bytes);
        let path = path_of(&self.options.socket);
        self.complain_of_notes(OpenOptions::new().append(true).open(path).and_then(append));
    }

    fn saved_trace(&self, uuid: &[u8; 16], begun: &Begun) -> Option<Saved> {
        let session = self.sessions.iter().find(|session| session.id == begun.session)?;
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&uuid[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Some(Saved::Trace(SavedTrace {
            session: begun.session,
            name: session.name.clone(),
            pid: begun.pid,
            uuid_first: half(0),
            uuid_second: half(8),
            directory: begun.directory.clone(),
        }))
    }

    fn complain_of_notes(&self, written: io::Result<()>) {
        if let Err(error) = written {
            (self.options.log)(&format!(
                "cannot note sessions for an agent that is started after this one: {error}"
            ));
        }
    }
}
