//! Rotation of sessions' traces: opens chunks, moves programs to them, closes and removes chunks.
//!
//! A program is moved between two packets. Its rings keep the events that are not written yet,
//! their numbers of packets and discarded events start at 0 again, and the new trace describes all
//! of the program anew. Each event is therefore in one chunk, and each chunk is readable alone. A
//! program with rings of an earlier agent is moved once these are written.

use crate::chunk_removal::{ChunkRemoval, DESCRIPTORS, Removed};
use crate::chunks::{CHUNKS_MAX, Chunk, ChunkState, REST, SessionChunks};
use crate::clock::Clocks;
use crate::effect::Effect;
use crate::node::Node;
use crate::notebook::{Note, Notebook};
use crate::page_cache::PageCacheTrimmer;
use crate::pending_rotation::PendingRotation;
use crate::program::Program;
use crate::program_trace::{new_trace, prepare};
use crate::quota::Quota;
use crate::requests::failed;
use crate::session::{Session, SessionId};
use crate::sessions::Sessions;
use crate::source::ConnectionId;
use crate::trace::Trace;
use blkkin_control::{Failed, Reply, ToApplication, code};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for closing a chunk, after which a command is told that programs still write to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which a chunk stays open for programs that have not returned to this agent yet. Those
/// that return later continue in the chunk where they were, and are moved then.
const RETURN_TIME: Duration = Duration::from_secs(5);
/// Maximum number of directory entries removed per turn of the event loop, over all removals.
const REMOVED_AT_ONCE: usize = 128;
/// Time after which no further directory entry is removed in a turn, over all removals.
const REMOVING_TIME: Duration = Duration::from_millis(2);

impl Node {
    /// Begins a rotation that a command has requested. Events recorded so far are written to the
    /// chunk that is closed.
    pub(crate) fn begin_rotation(&mut self, command: ConnectionId, session: SessionId) {
        // Packets that cannot be written stay in the rings, for the next chunk.
        let _ = self.programs.write_all(session);
        let position = self.sessions.position(session);
        let own = position.map(|at| &mut self.sessions.list[at]);
        let Some(Session { name, output, chunks: Some(chunks), .. }) = own else {
            return self.finish(command, &Reply::Done);
        };
        let last = chunks.current().filter(|chunk| chunk.meter.written() > 0);
        let Some((sequence, path)) = last.map(|chunk| (chunk.sequence, chunk.path.clone())) else {
            return self.finish(command, &Reply::Done);
        };
        if let Err(error) = chunks.open_next(output, name) {
            let what = format!("cannot create the next chunk: {error}");
            return self.finish(command, &Reply::Failed(failed(code::OUTPUT, what)));
        }
        let deadline = Instant::now() + PATIENCE;
        self.rotations.push(PendingRotation { command, session, sequence, path, deadline });
        self.save();
        self.step_rotations(Instant::now());
    }

    /// Rotates the sessions whose chunk has reached its maximum size or age, moves programs to the
    /// current chunks, closes and removes earlier ones, and answers the commands that wait.
    pub(crate) fn step_rotations(&mut self, now: Instant) {
        let mut has_changed = false;
        for at in 0..self.sessions.list.len() {
            if self.sessions.list[at].chunks.is_none() {
                continue;
            }
            if self.rotate_if_due(at, now) {
                // The next agent must know the new chunk before there is a trace in it.
                self.save();
            }
            self.move_programs(at);
            has_changed |= self.close_chunks(at, now);
            self.remove_excess(at);
            let chunks = self.sessions.list[at].chunks.iter_mut();
            chunks.for_each(|chunks| chunks.note_waiting(now));
        }
        has_changed |= self.step_chunk_removals();
        if has_changed {
            self.save();
        }
        self.answer_rotations(now);
    }

    /// Opens a new chunk if the session's current one has reached its maximum size or age.
    fn rotate_if_due(&mut self, at: usize, now: Instant) -> bool {
        let session = &mut self.sessions.list[at];
        let (name, uid, output) = (&session.name, session.owner.uid, &session.output);
        let Some(chunks) = &mut session.chunks else { return false };
        if !chunks.is_due() || chunks.rest.is_some_and(|rest| rest > now) {
            return false;
        }
        chunks.rest = Some(now + REST);
        let Err(error) = chunks.open_next(output, name) else { return true };
        if !std::mem::replace(&mut chunks.has_logged_failure, true) {
            let line = format!("session `{name}`: cannot create its next chunk: {error}");
            self.log.about(uid, &line);
        }
        false
    }

    /// Moves the session's programs to its current chunk, except those with unwritten rings of
    /// earlier agents.
    fn move_programs(&mut self, at: usize) {
        let Sessions { list, clocks, page_cache, notebook, .. } = &mut self.sessions;
        let session = &mut list[at];
        if !session.chunks.as_ref().is_some_and(|chunks| chunks.is_moving) {
            return;
        }
        let (id, mut is_moving, mut spared, mut effects) = (session.id, false, vec![], vec![]);
        let connected = self.programs.connected.iter_mut().map(|(id, one)| (Some(*id), one));
        for (connection, program) in connected {
            let mut context = MoveContext { session, clocks, notebook, page_cache };
            match context.move_program(program) {
                Move::None => {}
                Move::Later => is_moving = true,
                Move::Done { left, kernel_channels } => {
                    spared.push(left);
                    let messages = kernel_channels.into_iter().map(ToApplication::RecordState);
                    let to = connection.into_iter().cycle();
                    effects.extend(to.zip(messages).map(|(to, message)| Effect::send(to, message)));
                }
            }
        }
        for program in self.programs.departed_mut() {
            let mut context = MoveContext { session, clocks, notebook, page_cache };
            match context.move_program(program) {
                Move::None => {}
                Move::Later => is_moving = true,
                Move::Done { left, .. } => spared.push(left),
            }
        }
        session.chunks.iter_mut().for_each(|chunks| chunks.is_moving = is_moving);
        spared.iter().for_each(|trace| self.sessions.spare(id, trace));
        self.programs.save_if_long(&mut self.sessions);
        self.apply(effects);
    }

    /// Closes the session's chunks to which no program writes any longer. Returns whether there
    /// were any.
    fn close_chunks(&mut self, at: usize, now: Instant) -> bool {
        let chunks = self.sessions.list[at].chunks.as_ref();
        if !chunks.is_some_and(SessionChunks::has_chunk_to_close) {
            return false;
        }
        self.sessions.count_cut_off();
        let Sessions { list, suspended, .. } = &mut self.sessions;
        let Session { id, output, chunks: Some(chunks), .. } = &mut list[at] else { return false };
        let mut has_closed = false;
        let earlier = chunks.list.len().saturating_sub(1);
        let open = chunks.list.iter_mut().take(earlier);
        for chunk in open.filter(|chunk| chunk.state == ChunkState::Open) {
            let may_return = chunk.left.is_some_and(|left| now < left + RETURN_TIME)
                && suspended.values().any(|trace| {
                    trace.is_earlier
                        && trace.session == *id
                        && trace.directory.starts_with(&chunk.path)
                });
            let is_written = |one: &Program| {
                one.traces.get(id).is_some_and(|trace| trace.chunk() == chunk.sequence)
            };
            if !may_return && !self.programs.all().any(is_written) {
                chunk.close(output);
                has_closed = true;
            }
        }
        has_closed
    }

    /// Begins the removal of the session's oldest chunks if there are too many.
    fn remove_excess(&mut self, at: usize) {
        let session = &mut self.sessions.list[at];
        let (id, output) = (session.id, &session.output);
        let account = self.accounts.of(session.owner.uid);
        let Some(chunks) = &mut session.chunks else { return };
        // Most turns of the loop find nothing to remove.
        let used: LazyCell<HashSet<u64>, _> = LazyCell::new(|| {
            let traces = self.programs.all().filter_map(|one| one.traces.get(&id));
            traces.map(Trace::chunk).collect()
        });
        let is_used = |chunk: &Chunk| used.contains(&chunk.sequence);
        while let Some(oldest) = chunks.excess(is_used)
            && let Some(chunk) = chunks.list.get_mut(oldest)
        {
            chunk.state = ChunkState::Removing;
            let descriptors = account.reserve_unchecked(Quota::Descriptors, DESCRIPTORS);
            let place = (&*chunk.path, chunk.identity);
            let removal =
                ChunkRemoval::begin(id, chunk.sequence, output.clone(), place, descriptors);
            self.sessions.chunk_removals.push(removal);
        }
        chunks.forget_unlimited(CHUNKS_MAX);
    }

    /// Runs a step of the pending removals of chunks. Returns whether one is complete.
    fn step_chunk_removals(&mut self) -> bool {
        let mut removals = std::mem::take(&mut self.sessions.chunk_removals);
        let entries = (REMOVED_AT_ONCE / removals.len().max(1)).max(1);
        let mut has_removed = false;
        let end = Instant::now() + REMOVING_TIME;
        // In the next turn, another removal comes first.
        let by = removals.len().min(1);
        removals.rotate_left(by);
        removals.retain_mut(|removal| {
            if Instant::now() >= end {
                return true;
            }
            let Some(removed) = removal.step(entries, end) else { return true };
            has_removed = true;
            let sessions = &mut self.sessions.list;
            let session = sessions.iter_mut().find(|session| session.id == removal.session);
            let Some(session) = session else { return false };
            let Some(chunks) = &mut session.chunks else { return false };
            chunks.forget(removal.sequence, matches!(removed, Removed::Whole));
            if let Removed::InPart(error) = removed
                && !std::mem::replace(&mut chunks.has_logged_failure, true)
            {
                let line = format!(
                    "session `{}`: not all of its oldest chunk can be removed: {error}",
                    session.name
                );
                self.log.about(session.owner.uid, &line);
            }
            false
        });
        self.sessions.chunk_removals = removals;
        has_removed
    }

    /// Answers the commands whose chunk is closed, or whose time limit has passed.
    fn answer_rotations(&mut self, now: Instant) {
        for pending in std::mem::take(&mut self.rotations) {
            let PendingRotation { command, session, sequence, ref path, deadline } = pending;
            let session = self.sessions.get(session);
            let mut chunks = session.and_then(|one| one.chunks.as_ref()).map(|one| one.list.iter());
            let chunk = chunks.iter_mut().flatten().find(|chunk| chunk.sequence == sequence);
            if chunk.is_none_or(|chunk| chunk.state != ChunkState::Open) {
                self.reply(command, &Reply::Written(path.clone()));
                self.finish(command, &Reply::Done);
            } else if now >= deadline {
                let what = format!(
                    "the chunk `{}` is not complete yet: a program has not given back its rings of an \
                     earlier agent",
                    path.display()
                );
                let hint = Some("it is closed as soon as the program does, or ends".to_owned());
                let failed = Failed { hint, ..failed(code::WRONG_STATE, what) };
                self.finish(command, &Reply::Failed(failed));
            } else {
                self.rotations.push(pending);
            }
        }
    }

    /// Returns the time of the next work for rotations that no event triggers.
    pub(crate) fn next_rotation(&self, now: Instant) -> Option<Instant> {
        if !self.sessions.chunk_removals.is_empty() {
            return Some(now);
        }
        let all = self.sessions.list.iter().filter_map(|session| session.chunks.as_ref());
        let next = all.filter_map(|chunks| {
            chunks.next_attempt(now).into_iter().chain(chunks.next_rotation(now)).min()
        });
        next.chain(self.rotations.iter().map(|pending| pending.deadline)).min()
    }
}

/// Result of moving a program to a session's current chunk.
enum Move {
    /// The program has no trace in an earlier chunk.
    None,
    /// The program has unwritten rings of an earlier agent.
    Later,
    /// The program was moved. `left` is the directory of its trace in the earlier chunk,
    /// `kernel_channels` are the numbers of its channels if it is the tracer of the kernel.
    Done { left: PathBuf, kernel_channels: Vec<u32> },
}

/// State that moving a program needs and changes.
struct MoveContext<'n> {
    session: &'n mut Session,
    clocks: &'n mut Clocks,
    notebook: &'n Notebook,
    page_cache: &'n Option<PageCacheTrimmer>,
}

impl MoveContext<'_> {
    /// Continues a program's trace of the session in the current chunk.
    fn move_program(&mut self, program: &mut Program) -> Move {
        let MoveContext { session, clocks, notebook, page_cache } = self;
        let current = session.chunks.as_ref().and_then(SessionChunks::current);
        let Some(current) = current.map(|chunk| chunk.sequence) else { return Move::None };
        let id = session.id;
        let is_earlier = program.traces.get(&id).is_some_and(|trace| trace.chunk() != current);
        let Some(uuid) = program.uuids.get(&id).copied().filter(|_| is_earlier) else {
            return Move::None;
        };
        let own = |program: &Program| {
            let all = program.attachments.iter().enumerate();
            let own = all.filter(|(_, one)| one.session == id).map(|(at, _)| at);
            own.collect::<Vec<usize>>()
        };
        let own = own(program);
        if own.iter().any(|at| !program.attachments[*at].adopted.is_empty()) {
            return Move::Later;
        }
        let Some(mut old) = program.traces.remove(&id) else { return Move::None };
        old.end(false);
        for at in &own {
            let attachment = &mut program.attachments[*at];
            attachment.restart();
            attachment.history.restart();
        }
        let note = Note::new((*notebook).clone(), session, program.process.pid, uuid);
        let rate = clocks.rate(&mut session.rates, program.clock);
        let mut trace = new_trace(session, program, rate, note);
        prepare(&mut trace, session, program, page_cache);
        // The next agent must find the note if the program has the rings.
        trace.note_directory();
        for at in &own {
            let attachment = &program.attachments[*at];
            trace.add_channel(attachment.stream(), &session.channels[attachment.channel]);
        }
        program.traces.insert(id, trace);
        let numbers = own.iter().map(|at| program.attachments[*at].number);
        let kernel_channels = numbers.filter(|_| program.is_kernel).collect();
        Move::Done { left: old.directory().to_owned(), kernel_channels }
    }
}
