//! Snapshots: what the rings of a session hold is written to traces of their own, some of it in each turn of the loop,
//! so that others are served meanwhile.

use crate::application::SnapshotPlace;
use crate::attach::{about, directory_of, new_uuid};
use crate::engine::{Agent, Id, ROOM};
use crate::output::Output;
use crate::rings::Identity;
use crate::session::SessionId;
use crate::trace::Trace;
use blkkin_control::{Failed, Reply, code};
use blkkin_ring::Moment;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// A snapshot that is being written.
#[derive(Debug)]
pub(crate) struct Snapshotting {
    /// Who waits for it.
    command: Id,
    session: SessionId,
    output: Output,
    /// How far each ring had been written when the snapshot was asked for. A snapshot that is written ring by ring
    /// would otherwise have later events of one processor than of another, and miss what a thread recorded before it
    /// moved.
    ends: Ends,
    /// Serial numbers of the programs that are still to be written.
    left: VecDeque<u64>,
    /// The trace of the first of them, if it has been begun.
    current: Option<(Trace, SnapshotPlace)>,
}

/// How far rings had been written at one moment, by the memory that holds them and their number in it.
pub(crate) type Ends = HashMap<(Identity, usize), Moment>;

/// How often the rings are looked at until nothing was recorded between two looks. The last look counts where
/// programs record without a pause.
const LOOKS_MAX: usize = 4;

/// How long all snapshots together are written before others get their turn.
const TIME_AT_ONCE: Duration = Duration::from_millis(10);

impl Agent {
    /// Begins to write what the session's programs have recorded so far to a directory that is there.
    pub(crate) fn begin_snapshot(&mut self, command: Id, session: SessionId, output: Output) {
        let all = self.applications.values().chain(&self.departed);
        let own = all.filter(|one| one.attachments.iter().any(|one| one.session == session));
        let own: Vec<_> = own.collect();
        let ends_now = || {
            let rings = own.iter().flat_map(|one| one.ends_of_rings(session));
            rings.collect::<Ends>()
        };
        let mut ends = ends_now();
        for _ in 1..LOOKS_MAX {
            let before = std::mem::replace(&mut ends, ends_now());
            if ends == before {
                break;
            }
        }
        let left = own.iter().map(|one| one.serial).collect();
        let current = None;
        let snapshot = Snapshotting { command, session, output, ends, left, current };
        self.snapshots.push_back(snapshot);
    }

    /// Goes on with snapshots, and answers when one is done. Those that nobody waits for any more are given up.
    pub(crate) fn go_on_with_snapshots(&mut self) {
        let until = Instant::now() + TIME_AT_ONCE;
        for _ in 0..self.snapshots.len() {
            let Some(mut snapshot) = self.snapshots.pop_front() else { return };
            if !self.peers.contains_key(&snapshot.command) {
                continue;
            }
            match self.go_on_with(&mut snapshot, until) {
                Ok(false) => self.snapshots.push_back(snapshot),
                Ok(true) => {
                    self.reply(
                        snapshot.command,
                        &Reply::Written(snapshot.output.path().to_owned()),
                    );
                    self.finish_request(snapshot.command, &Reply::Done);
                }
                Err(error) => {
                    let (code, message) = (code::OUTPUT.to_owned(), error.to_string());
                    let failed = Failed { code, message, hint: None };
                    self.finish_request(snapshot.command, &Reply::Failed(failed));
                }
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Gives whether the snapshot is done.
    fn go_on_with(&mut self, snapshot: &mut Snapshotting, until: Instant) -> io::Result<bool> {
        let Some(session) = self.sessions.iter_mut().find(|one| one.id == snapshot.session) else {
            return Err(io::Error::other("the session was ended before its snapshot was written"));
        };
        while let Some(serial) = snapshot.left.front() {
            let mut all = self.applications.values_mut().chain(&mut self.departed);
            let Some(application) = all.find(|one| one.serial == *serial) else {
                snapshot.left.pop_front();
                snapshot.current = None;
                continue;
            };
            let (trace, place) = match &mut snapshot.current {
                Some((trace, place)) => (trace, place),
                none => {
                    let uuid = *application.uuids.entry(session.id).or_insert_with(new_uuid);
                    let rate = self.clocks.rate(&mut session.rates, application.clock);
                    let about = about(rate, session, application, uuid);
                    let path = directory_of(snapshot.output.path(), application);
                    let mut trace = Trace::new(path, snapshot.output.clone(), about, None);
                    for (number, channel) in session.channels.iter().enumerate() {
                        let channel = &channel.channel;
                        trace.add_channel(number as u32, &channel.name, &channel.contexts);
                    }
                    let (trace, place) = none.insert((trace, SnapshotPlace::default()));
                    (trace, place)
                }
            };
            match application.snapshot(ROOM, (session.id, &snapshot.ends), trace, place, until) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                // Of which the user may have no more types: what others recorded is told.
                Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                    self.log.about(
                        application.account.uid(),
                        &format!(
                            "{} ({}): is not in the snapshot as a whole: {error}",
                            application.program, application.process.pid
                        ),
                    );
                }
                Err(error) => return Err(error),
            }
            snapshot.left.pop_front();
            snapshot.current = None;
        }
        Ok(true)
    }
}
