//! Snapshots: the packets in the rings of a session are copied to traces of their own, in steps, so
//! that the loop serves others in between.

use crate::effect::Effect;
use crate::log::Log;
use crate::output::Output;
use crate::program::SnapshotCursor;
use crate::program_trace::{describe, directory_of, new_uuid};
use crate::programs::Programs;
use crate::rings::RingEnds;
use crate::session::SessionId;
use crate::sessions::Sessions;
use crate::source::ConnectionId;
use crate::trace::Trace;
use blkkin_control::{Failed, Reply, code};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Snapshots that are being written.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    queue: VecDeque<SnapshotJob>,
}

/// A snapshot that is being written.
#[derive(Debug)]
struct SnapshotJob {
    /// Connection of the command that waits for the snapshot.
    command: ConnectionId,
    session: SessionId,
    output: Output,
    /// Position of each ring when the snapshot was requested. A snapshot that is copied ring by
    /// ring would otherwise hold later events of one processor than of another, and miss what a
    /// thread recorded before it moved.
    ends: RingEnds,
    /// Serial numbers of the programs that are still to be copied.
    programs: VecDeque<u64>,
    /// Trace of the first of these programs, if it has been begun.
    current: Option<(Trace, SnapshotCursor)>,
}

/// Attempts to read the positions of all rings without an event in between. The last attempt counts
/// if programs record without a pause.
const ATTEMPTS_MAX: usize = 4;

/// Time for all snapshots in one turn of the loop.
const TURN: Duration = Duration::from_millis(10);

impl Snapshots {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Begins a snapshot of what the session's programs have recorded so far, to a directory that
    /// exists.
    pub(crate) fn begin(
        &mut self,
        command: ConnectionId,
        session: SessionId,
        output: Output,
        programs: &Programs,
    ) {
        let own: Vec<_> = programs.all().filter(|one| one.records(session)).collect();
        let ends_now = || {
            let rings = own.iter().flat_map(|one| one.ends_of_rings(session));
            rings.collect::<RingEnds>()
        };
        let mut ends = ends_now();
        for _ in 1..ATTEMPTS_MAX {
            let before = std::mem::replace(&mut ends, ends_now());
            if ends == before {
                break;
            }
        }
        let programs = own.iter().map(|one| one.serial).collect();
        let current = None;
        self.queue.push_back(SnapshotJob { command, session, output, ends, programs, current });
    }

    /// Continues all snapshots for a while. Snapshots of commands that are not connected any longer
    /// are given up.
    pub(crate) fn step(
        &mut self,
        programs: &mut Programs,
        sessions: &mut Sessions,
        log: &Log,
        is_connected: impl Fn(ConnectionId) -> bool,
    ) -> Vec<Effect> {
        let until = Instant::now() + TURN;
        let mut effects = Vec::new();
        for _ in 0..self.queue.len() {
            let Some(mut job) = self.queue.pop_front() else { break };
            let to = job.command;
            if !is_connected(to) {
                continue;
            }
            match job.step(programs, sessions, log, until) {
                Ok(false) => self.queue.push_back(job),
                Ok(true) => {
                    let reply = Reply::Written(job.output.path().to_owned());
                    effects.push(Effect::Reply { to, reply });
                    effects.push(Effect::Finish { to, reply: Reply::Done });
                }
                Err(error) => {
                    let (code, message) = (code::OUTPUT.to_owned(), error.to_string());
                    let reply = Reply::Failed(Failed { code, message, hint: None });
                    effects.push(Effect::Finish { to, reply });
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        effects
    }
}

impl SnapshotJob {
    /// Continues the snapshot until `until`; returns whether it is complete.
    fn step(
        &mut self,
        programs: &mut Programs,
        sessions: &mut Sessions,
        log: &Log,
        until: Instant,
    ) -> io::Result<bool> {
        let Sessions { list, clocks, .. } = sessions;
        let Some(session) = list.iter_mut().find(|one| one.id == self.session) else {
            return Err(io::Error::other("the session was ended before its snapshot was written"));
        };
        while let Some(serial) = self.programs.front() {
            let Some(program) = programs.with_serial(*serial) else {
                self.programs.pop_front();
                self.current = None;
                continue;
            };
            let (trace, cursor) = match &mut self.current {
                Some((trace, cursor)) => (trace, cursor),
                none => {
                    let uuid = *program.uuids.entry(session.id).or_insert_with(new_uuid);
                    let rate = clocks.rate(&mut session.rates, program.clock);
                    let about = describe(rate, session, program, uuid);
                    let path = directory_of(self.output.path(), program);
                    let mut trace = Trace::new(path, self.output.clone(), about, None);
                    for (number, channel) in session.channels.iter().enumerate() {
                        let channel = &channel.channel;
                        trace.add_channel(number as u32, &channel.name, &channel.contexts);
                    }
                    let (trace, cursor) = none.insert((trace, SnapshotCursor::default()));
                    (trace, cursor)
                }
            };
            match program.snapshot((session.id, &self.ends), trace, cursor, until) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                // The quota for event types is exhausted. Other programs are copied all the same.
                Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                    let line =
                        format!("{}: is not in the snapshot as a whole: {error}", program.title());
                    log.about(program.account.uid(), &line);
                }
                Err(error) => return Err(error),
            }
            self.programs.pop_front();
            self.current = None;
        }
        Ok(true)
    }
}
