//! Snapshots of sessions: copies the packets in a session's rings to traces of their own, in steps.
//! The event loop serves other users between the steps.

use crate::effect::Effect;
use crate::log::Log;
use crate::output::Output;
use crate::program::{SnapshotCursor, SnapshotScope};
use crate::program_trace::{describe, directory_of, new_uuid, ring_clock};
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

/// Snapshots that are being written, in round-robin order.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    queue: VecDeque<SnapshotJob>,
}

/// Request for a snapshot whose directory was made.
#[derive(Debug)]
pub(crate) struct SnapshotRequest {
    /// Connection of the command that waits for the snapshot.
    pub(crate) command: ConnectionId,
    pub(crate) session: SessionId,
    /// Time in milliseconds: packets that ended earlier are left out. The session may have a
    /// shorter time.
    pub(crate) keep_ms: Option<u64>,
    /// Directory for the snapshot's traces.
    pub(crate) output: Output,
}

/// A snapshot in progress, and the command that waits for it.
#[derive(Debug)]
struct SnapshotJob {
    request: SnapshotRequest,
    /// Cut-off: state of each sealed ring when the snapshot began. Rings are copied one after the
    /// other. Without a cut-off, the snapshot would hold later events of one processor than of
    /// another, and miss events that a thread recorded before it moved to another processor.
    ends: RingEnds,
    /// Time at which the snapshot began.
    begun: Instant,
    /// Reach of the rings when the snapshot began, as replies to the command.
    reaches: Vec<Reply>,
    /// Serial numbers of the programs whose rings are still to be copied.
    programs: VecDeque<u64>,
    /// Trace of the first program in `programs`; `None` until the trace is begun.
    current: Option<(Trace, SnapshotCursor)>,
}

/// Maximum number of attempts to read the positions of all rings without an event in between. If
/// programs record without a pause, the positions of the last attempt are used.
const ATTEMPTS_MAX: usize = 4;

/// Time limit for all snapshots in one turn of the loop.
const TURN: Duration = Duration::from_millis(10);

impl Snapshots {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Begins a snapshot of the packets in the session's rings.
    pub(crate) fn begin(
        &mut self,
        request: SnapshotRequest,
        programs: &Programs,
        reaches: Vec<Reply>,
    ) {
        let session = request.session;
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
        self.queue.push_back(SnapshotJob {
            request,
            ends,
            begun: Instant::now(),
            reaches,
            programs,
            current: None,
        });
    }

    /// Continues all snapshots for a limited time. Snapshots of commands that have disconnected are
    /// dropped.
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
            let to = job.request.command;
            if !is_connected(to) {
                continue;
            }
            match job.step(programs, sessions, log, until) {
                Ok(false) => self.queue.push_back(job),
                Ok(true) => {
                    let path = job.request.output.path().to_owned();
                    let replies = job.reaches.into_iter().chain([Reply::Written(path)]);
                    effects.extend(replies.map(|reply| Effect::Reply { to, reply }));
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
    /// Continues the snapshot until the deadline `until`. Returns true once the snapshot is
    /// complete.
    fn step(
        &mut self,
        programs: &mut Programs,
        sessions: &mut Sessions,
        log: &Log,
        until: Instant,
    ) -> io::Result<bool> {
        let Sessions { list, clocks, .. } = sessions;
        let SnapshotRequest { session, keep_ms, output, .. } = &self.request;
        let Some(session) = list.iter_mut().find(|one| one.id == *session) else {
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
                    let path = directory_of(output.path(), program);
                    let mut trace = Trace::new(path, output.clone(), about, None);
                    for (number, channel) in session.channels.iter().enumerate() {
                        trace.add_channel(number as u32, channel);
                    }
                    let (trace, cursor) = none.insert((trace, SnapshotCursor::default()));
                    (trace, cursor)
                }
            };
            let keep_ms = keep_ms.iter().copied().chain(session.retention.keep_ms).min();
            let since = keep_ms.map(|keep_ms| {
                let age = Duration::from_millis(keep_ms).saturating_add(self.begun.elapsed());
                let rate = clocks.rate(&mut session.rates, program.clock);
                ring_clock(program).now_after_loads().saturating_sub(rate.ticks(age))
            });
            let scope = SnapshotScope { session: session.id, ends: &self.ends, since };
            match program.snapshot(scope, trace, cursor, until) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                // The user's quota for event types is exhausted. Other programs are copied all the
                // same.
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
