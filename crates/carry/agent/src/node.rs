//! State of the agent, and the messages that it exchanges with programs and commands. Handlers in
//! lower modules change sessions and programs; this module carries out their effects, and closes
//! connections that fail.

use crate::acceptor::Acceptor;
use crate::catalog::Catalog;
use crate::change_waits::ChangeWaits;
use crate::clock::Reading;
use crate::command::{Listing, Requester};
use crate::deferred_close::DeferredClose;
use crate::directories::{self, Directories, DirectoryRequest, OutputPurpose};
use crate::effect::Effect;
use crate::log::Log;
use crate::losses::{Amount, Losses};
use crate::output::Output;
use crate::pace::DOZE;
use crate::peers::Peers;
use crate::pending_rotation::PendingRotation;
use crate::process::ProcessInspector;
use crate::programs::Programs;
use crate::quota::{Account, Accounts, Quota};
use crate::recording::Recorder;
use crate::requests::{
    Answer, FollowUp, PendingRequest, RequestHandler, Scope, exceeded, failed, may_change,
};
use crate::sessions::Sessions;
use crate::snapshots::{SnapshotRequest, Snapshots};
use crate::source::{ConnectionId, EACH_WRITE, Poller, Source};
use crate::waiting_process::WaitingProcess;
use blkkin_control::{
    Cause, Failed, FromApplication, Reply, Request, RetainingSession, SpanSlot, ToApplication,
    Unavailable, code,
};
use blkkin_sys::socket::Peer;
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// State of the agent: the connections, programs and sessions, and the jobs in progress.
#[derive(Debug)]
pub(crate) struct Node {
    /// Path of the agent's socket.
    pub(crate) socket: PathBuf,
    /// Default directory of the sessions' outputs; with `None`, it is below each user's home
    /// directory.
    pub(crate) traces: Option<PathBuf>,
    pub(crate) log: Log,
    pub(crate) poller: Arc<Poller>,
    pub(crate) acceptor: Acceptor,
    pub(crate) inspector: ProcessInspector,
    pub(crate) accounts: Accounts,
    pub(crate) peers: Peers,
    pub(crate) programs: Programs,
    pub(crate) sessions: Sessions,
    /// Requests whose answer waits until programs have confirmed a change.
    pub(crate) pending: VecDeque<PendingRequest>,
    /// Rotations whose command waits until the chunk is closed.
    pub(crate) rotations: Vec<PendingRotation>,
    /// Commands that wait until the traces of a session change.
    pub(crate) change_waits: ChangeWaits,
    pub(crate) directories: Directories,
    pub(crate) snapshots: Snapshots,
    /// `None` if this agent was started without the rights to trace the kernel.
    pub(crate) kernel_tracer: Option<WaitingProcess>,
    /// `None` if sessions cannot be forwarded to relays.
    pub(crate) forwarder: Option<WaitingProcess>,
    /// Time of the next turn of the event loop, for sessions whose latest events are not declared
    /// complete yet.
    pub(crate) next_turn: Option<Instant>,
}

/// Number of queued bytes above which sending of a list pauses, until the command has read some.
const LIST_QUEUE_MAX: usize = 256 << 10;
/// Time limit for sending changes to programs in one turn of the loop.
const CHANGE_TIME_MAX: Duration = Duration::from_millis(10);
/// Pause before the next drain of a program without new packets, while writes of some but not all
/// of its channels have failed or were postponed.
const PAUSE_IN_TROUBLE: Duration = Duration::from_millis(20);
/// Pause before another turn of the event loop that declares the latest events complete.
const TURN_PAUSE: Duration = Duration::from_micros(150);
/// Time after which the last stores of a processor are visible to all other processors.
const LAST_DRAIN_PAUSE: Duration = Duration::from_millis(1);
/// Pause before the last drain after a sparse event. It is longer than [`LAST_DRAIN_PAUSE`]: the
/// next event usually wakes the agent before, which saves this wake-up.
const SPARSE_PAUSE: Duration = Duration::from_millis(5);

/// Sending of messages, and closing of connections.
impl Node {
    /// Carries out the effects in the order of the list.
    pub(crate) fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message, descriptors } => self.send(to, &message, descriptors),
                Effect::Reply { to, reply } => self.reply(to, &reply),
                Effect::Finish { to, reply } => self.finish(to, &reply),
            }
        }
    }

    /// Runs `handle` with a [`Recorder`], and carries out the effects. Returns the result of
    /// `handle`.
    fn record<T>(&mut self, handle: impl FnOnce(&mut Recorder<'_>) -> T) -> T {
        let mut recorder = Recorder::new(&mut self.programs, &mut self.sessions, &self.log);
        let outcome = handle(&mut recorder);
        let effects = recorder.effects;
        self.apply(effects);
        outcome
    }

    fn requests(&mut self) -> RequestHandler<'_> {
        RequestHandler {
            sessions: &mut self.sessions,
            programs: &mut self.programs,
            accounts: &mut self.accounts,
            traces: self.traces.as_deref(),
            has_kernel_tracer: self.kernel_tracer.is_some(),
            has_forwarder: self.forwarder.is_some(),
            effects: Vec::new(),
        }
    }

    /// Sends a message to a program; if that fails, the program is disconnected.
    fn send(&mut self, id: ConnectionId, message: &ToApplication, with: Vec<Arc<OwnedFd>>) {
        match self.peers.send(id, message, with) {
            Ok(()) => self.watch(id),
            Err(error) => self.fail(id, &error),
        }
    }

    /// Sends a reply to a command; if that fails, the command is disconnected.
    pub(crate) fn reply(&mut self, id: ConnectionId, reply: &Reply) {
        match self.peers.reply(id, reply) {
            Ok(()) => self.watch(id),
            Err(_) => self.disconnect(id),
        }
    }

    /// Sends the last reply to a request. The next request of the command may then be handled.
    pub(crate) fn finish(&mut self, id: ConnectionId, reply: &Reply) {
        if let Some(command) = self.peers.command_mut(id) {
            command.is_busy = false;
        }
        self.reply(id, reply);
        self.watch(id);
        // The command may have sent more requests meanwhile.
        self.peers.resumed.insert(id);
    }

    /// Updates the epoll events of a connection. Disconnects the connection if it exceeds a quota.
    pub(crate) fn watch(&mut self, id: ConnectionId) {
        if let Err(error) = self.peers.update(id) {
            self.fail(id, &error.into());
        }
    }

    /// Disconnects a connection after an error. Logs the error, unless the peer has closed the
    /// connection.
    pub(crate) fn fail(&mut self, id: ConnectionId, error: &io::Error) {
        self.log_error(id, error);
        self.disconnect(id);
    }

    fn log_error(&self, id: ConnectionId, error: &io::Error) {
        // Programs and commands may end at any time.
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            return;
        }
        let Some(peer) = self.peers.get(id) else { return };
        let title = match self.programs.get(id) {
            Some(program) => program.title(),
            None => format!("process {}", peer.peer.pid),
        };
        self.log.about(peer.connection.uid(), &format!("{title}: {error}"));
    }

    /// Closes a connection. If the peer is a program, [`Programs::disconnect`] handles its rings.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        self.sessions.forwardings.forget(id);
        self.change_waits.forget(id);
        let has_ended = self.peers.get(id).is_some_and(|peer| peer.connection.peer_has_ended());
        if self.peers.remove(id).is_some() {
            self.acceptor.retry_soon(Instant::now());
        }
        let shown = self.programs.get(id).filter(|program| program.span_slot() != 0);
        let process = shown.map(|program| program.process.pid);
        self.programs.disconnect(id, has_ended, &mut self.sessions, &self.log);
        if let Some(process) = process {
            self.send_span_slot(process);
        }
    }

    /// Counts the refusal of a program's connection as a loss.
    pub(crate) fn count_refused_program(&mut self, peer: Peer, reason: String) {
        let programs = &self.programs;
        self.sessions.count_refused_connection(peer, reason, &self.inspector, || programs.pids());
    }

    pub(crate) fn free_descriptors(&mut self, account: &Account, more: u64) {
        self.programs.free_descriptors(account, more, &mut self.sessions, &self.log);
    }

    pub(crate) fn save(&mut self) {
        self.sessions.save(self.programs.notes());
    }
}

/// Handling of programs' messages and wake-ups.
impl Node {
    /// Handles a message from a program. Fails if the message violates the protocol, or exceeds a
    /// quota.
    pub(crate) fn receive(
        &mut self,
        id: ConnectionId,
        message: FromApplication,
        mut descriptors: Vec<DeferredClose<OwnedFd>>,
    ) -> io::Result<()> {
        let Some(program) = self.programs.get_mut(id) else { return Ok(()) };
        let is_sealed = |one: &DeferredClose<OwnedFd>| blkkin_sys::sealed_size(one.as_fd()).is_ok();
        if !matches!(message, FromApplication::KernelRings(_)) && !descriptors.iter().all(is_sealed)
        {
            return Err(io::Error::other("what it passes is not memory whose size stays"));
        }
        match message {
            FromApplication::Catalog => {
                let is_first = program.catalog.is_none();
                let Some(file) = descriptors.pop().filter(|_| is_first) else {
                    return Err(io::Error::other("it told twice where its event types are"));
                };
                let share = program.account.reserve(Quota::TypeBytes, 0)?;
                program.catalog = Some(Catalog::open(file, share)?);
                self.begin_to_record(id)
            }
            FromApplication::Orphan(orphan) => {
                let is_first = program.catalog.is_none();
                let Some(memory) = descriptors.pop().filter(|_| is_first) else {
                    return Err(io::Error::other("it tells of rings that it should not have"));
                };
                self.record(|recorder| recorder.offer(id, orphan, memory))
            }
            // Other threads and destructors may record until the process has ended.
            FromApplication::Goodbye => {
                program.is_ending = true;
                program.next_drain = Some(Instant::now());
                Ok(())
            }
            FromApplication::Ping(number) => {
                self.send(id, &ToApplication::Pong(number), vec![]);
                Ok(())
            }
            FromApplication::Pong(number) => program.receive_pong(number),
            FromApplication::KernelRings(channel) => match descriptors.pop() {
                Some(memory) if program.is_kernel => program.replace_rings(channel, &memory),
                _ => Err(io::Error::other("it is not the tracer of the kernel")),
            },
            FromApplication::Unavailable(unavailable) => {
                self.note_unavailable(id, unavailable);
                Ok(())
            }
        }
    }

    /// Counts events of the kernel that cannot be recorded as a loss, and adds the reason to the
    /// answers of the requests that wait for the tracer.
    fn note_unavailable(&mut self, id: ConnectionId, unavailable: Unavailable) {
        let Unavailable { channel, reason } = unavailable;
        let Some(program) = self.programs.get(id).filter(|one| one.is_kernel) else { return };
        let mut attachments = program.attachments.iter();
        let Some(attachment) = attachments.find(|one| one.number == channel) else { return };
        let session = attachment.session;
        let mut losses = Losses::default();
        losses.add(Cause::Probe, Amount::uncounted(1).because(Some(reason.clone())));
        self.sessions.count_loss(session, &losses);
        for pending in self.pending.iter_mut().filter(|one| one.session == session) {
            pending.unavailable.push(reason.clone());
        }
    }

    /// Begins to record a program that has sent its catalog. Sends the sampling rules, continues
    /// with rings of the program's earlier connection, adopts rings of earlier agents, and sends
    /// the program its channels and rules.
    fn begin_to_record(&mut self, id: ConnectionId) -> io::Result<()> {
        self.record(|recorder| recorder.send_sampling(id));
        for earlier in self.programs.earlier_connections(id) {
            self.disconnect(earlier);
        }
        let messages = self.programs.reconnect(id, &mut self.sessions, &self.log)?;
        self.apply(
            messages
                .into_iter()
                .map(|(message, fds)| Effect::send_with_descriptors(id, message, fds))
                .collect(),
        );
        self.record(|recorder| recorder.adopt(id));
        let is_kernel = self.programs.get(id).is_some_and(|program| program.is_kernel);
        if is_kernel {
            for slot in self.programs.span_slots().collect::<Vec<_>>() {
                self.send(id, &ToApplication::SpanSlot(slot), vec![]);
            }
        } else if let Some(program) = self.programs.get(id).filter(|one| one.span_slot() != 0) {
            self.send_span_slot(program.process.pid);
        }
        if let Some(program) = self.programs.get(id) {
            self.sessions.count_given_up(program.process.pid);
        }
        self.update(id);
        let ping = self.record(|recorder| recorder.ping(id));
        for pending in self.pending.iter_mut().filter(|one| is_kernel && one.awaits_kernel) {
            pending.awaits_kernel = false;
            pending.unconfirmed.push((id, ping));
        }
        Ok(())
    }

    /// Sends the tracer of the kernel the place at which the threads of a process show their
    /// current spans; 0 if they do not.
    fn send_span_slot(&mut self, process: u32) {
        let tracers = self.programs.ids(|program| program.is_kernel);
        if tracers.is_empty() {
            return;
        }
        // A library that was loaded before all others, such as libblkkin_preload, shows no spans.
        let slots = self.programs.span_slots().filter(|slot| slot.process == process);
        let slot = slots.last().unwrap_or(SpanSlot { process, offset: 0 });
        for tracer in tracers {
            self.send(tracer, &ToApplication::SpanSlot(slot), vec![]);
        }
    }

    /// Sends a program the changes of its channels and rules in all sessions.
    fn update(&mut self, id: ConnectionId) {
        for session in 0..self.sessions.list.len() {
            self.update_session(id, session);
        }
    }

    /// Sends a program the changes of its channels and rules in the session at this index. Returns
    /// whether there were any.
    fn update_session(&mut self, id: ConnectionId, session: usize) -> bool {
        let mut has_changed = false;
        for channel in 0..self.sessions.list[session].channels.len() {
            has_changed |= self.record(|recorder| recorder.update_channel(id, session, channel));
        }
        has_changed
    }

    /// Handles a wake-up by a program. The program found the agent asleep, or one of its rings is
    /// filling up.
    pub(crate) fn wake_up(&mut self, id: ConnectionId) {
        let Some(program) = self.programs.get_mut(id) else { return };
        // The eventfd is not read, as the program could make the read block. Each write to it is
        // reported.
        let look = program.wake_ups.wake_up(Instant::now());
        program.next_drain = Some(program.next_drain.map_or(look, |next| next.min(look)));
        if program.wake_ups.is_muted() {
            self.poller.modify(&program.wake, Source::WakeUp(id), EventFlags::empty());
        }
    }

    /// Tells the forwarder of each session that its traces have changed, and up to which time they
    /// are complete. `begun` is the beginning of the last drain.
    pub(crate) fn declare_complete(&mut self, begun: Reading) {
        self.next_turn = None;
        let Node { sessions, programs, .. } = self;
        // The next drain declares what is missing now.
        let is_polling = programs.connected.values().any(|one| one.next_drain.is_some());
        let (list, forwardings) = (&sessions.list, &mut sessions.forwardings);
        for (id, completeness) in forwardings.completeness() {
            let Some(session) = list.iter().find(|session| session.id == id) else { continue };
            let changes = session.size_limit.changes();
            if completeness.is_due(changes) {
                let until = programs.complete_until(id, begun);
                let until_ns = until.and_then(|until| session.rates.earliest_ns(until));
                completeness.declare(until_ns, changes, &session.output);
                if !is_polling && completeness.needs_turn() {
                    self.next_turn = Some(Instant::now() + TURN_PAUSE);
                }
            }
        }
    }

    /// Removes a program's rings whose removal is over, and gives it new ones for channels that
    /// still have rules.
    fn finish_removals(&mut self, id: ConnectionId, now: Instant) {
        if self.record(|recorder| recorder.take_removed(id, now)) {
            self.update(id);
            self.record(|recorder| recorder.ping(id));
        }
    }

    /// Drains the rings of all programs whose next drain is due.
    pub(crate) fn drain_rings(&mut self, now: Instant) {
        let busy = self.programs.connected.values().filter(|one| one.pace.is_busy(now)).count();
        let busy = u32::try_from(busy).unwrap_or(u32::MAX).max(1);
        let (mut over, mut removing) = (Vec::new(), Vec::new());
        for (id, program) in &mut self.programs.connected {
            if program.next_drain.is_none_or(|look| look > now) {
                continue;
            }
            if program.wake_ups.drain() {
                self.poller.modify(&program.wake, Source::WakeUp(*id), EACH_WRITE);
            }
            let was_asleep = program.is_asleep;
            let mut drain = program.drain(None, Some(now));
            let mut retry = program.next_retry();
            self.sessions.note_written(program.clock, &drain.written);
            let is_sparse = drain.found && was_asleep && program.pace.is_sparse(now, busy);
            let mut wakes_surely = false;
            if (is_sparse || !drain.found) && retry.is_none() {
                if is_sparse {
                    program.pace.after(now, drain.fullest, busy);
                }
                wakes_surely = program.fall_asleep();
                drain = program.drain(None, Some(now));
                retry = program.next_retry();
                self.sessions.note_written(program.clock, &drain.written);
            }
            let trouble = retry.is_some();
            program.next_drain = match (drain.found, trouble) {
                (true, _) => {
                    let pause = program.pace.after(now, drain.fullest, busy);
                    program.doze(pause >= DOZE);
                    Some(now + pause)
                }
                // The agent does not request a wake-up: each event would cause one, although it
                // could not be written.
                (false, true) if program.has_all_writes_failed() => retry,
                (false, true) => {
                    program.doze(true);
                    Some(now + PAUSE_IN_TROUBLE)
                }
                (false, false) if is_sparse || !was_asleep => {
                    program.pace.begin_idle(now);
                    program.doze(false);
                    // A thread without memory barriers may have seen that the agent was awake, and
                    // then stored an event. The event is visible after this pause.
                    let pause = if is_sparse { SPARSE_PAUSE } else { LAST_DRAIN_PAUSE };
                    (!wakes_surely).then_some(now + pause)
                }
                (false, false) => None,
            };
            if drain.found || trouble {
                program.wake_up();
            }
            if let Some(error) = drain.trouble
                && !program.has_logged_failure
            {
                let line = format!(
                    "{}: cannot write what it records: {error}; events are kept as long as its \
                     rings have room, and counted then",
                    program.title()
                );
                self.log.about(program.account.uid(), &line);
                program.has_logged_failure = true;
            }
            // A postponed write is no end of the failure, and is not logged.
            program.has_logged_failure &= trouble;
            if (drain.found || is_sparse) && program.account.is_over(Quota::RingBytes) {
                over.push(program.account.clone());
            }
            if let Some(removal) = program.next_removal() {
                removing.push(*id);
                let next = program.next_drain.map_or(removal, |look| look.min(removal));
                program.next_drain = Some(next);
            }
        }
        for account in over {
            self.record(|recorder| recorder.limit_rings(&account, now));
        }
        removing.into_iter().for_each(|id| self.finish_removals(id, now));
        for id in self.programs.ids(|one| one.has_released()) {
            let Some(program) = self.programs.get_mut(id) else { continue };
            for attachment in &mut program.attachments {
                let released = attachment.take_released();
                self.sessions.count_loss(attachment.session, &released);
            }
            let numbers = program.recovery.take_drained();
            let messages = numbers.into_iter().map(ToApplication::Release);
            self.apply(messages.map(|message| Effect::send(id, message)).collect());
        }
    }
}

/// Handling of commands' requests.
impl Node {
    /// Handles a request of a command. The answer is sent at once, or when a pending job is
    /// complete.
    pub(crate) fn request(&mut self, id: ConnectionId, request: Request) {
        let Some(command) = self.peers.command_mut(id) else { return };
        command.is_busy = true;
        let requester: Requester = command.requester;
        let may_change = may_change(&request);
        self.sessions.count_cut_off();
        let mut handler = self.requests();
        let outcome = handler.act(requester, request);
        let effects = handler.effects;
        self.apply(effects);
        if may_change && outcome.as_ref().is_ok_and(Answer::is_saved_now) {
            self.save();
        }
        match outcome {
            Err(failed) => self.finish(id, &Reply::Failed(failed)),
            Ok(Answer::Done(replies)) => {
                replies.iter().for_each(|reply| self.reply(id, reply));
                self.finish(id, &Reply::Done);
            }
            Ok(Answer::Unchanged) => self.finish(id, &Reply::Done),
            Ok(Answer::Settle(follow_up, scope)) => self.begin_change(id, follow_up, scope),
            Ok(Answer::MakeDirectory { path, owner, purpose }) => {
                let request = DirectoryRequest { command: id, path, owner, purpose };
                if let Err(error) = self.directories.make(request, &mut self.accounts) {
                    self.finish(id, &Reply::Failed(exceeded(error)));
                }
            }
            Ok(Answer::List(listing)) => self.send_list(id, listing),
            Ok(Answer::AwaitChange { awaited, seen }) => self.change_waits.add(id, awaited, seen),
            Ok(Answer::AwaitForwarding { is_first }) => {
                self.sessions.forwardings.wait(id, is_first);
            }
            Ok(Answer::Rotate(session)) => self.begin_rotation(id, session),
            Ok(Answer::Log { uid, line }) => {
                self.log.about(uid, &line);
                self.finish(id, &Reply::Done);
            }
            Ok(Answer::Clear { session, descriptors }) => {
                self.requests().clear(id, session, descriptors);
            }
        }
    }

    /// Answers a request of an unknown kind.
    pub(crate) fn unknown_request(&mut self, id: ConnectionId) {
        let mut failed = failed(code::UNKNOWN_REQUEST, "the agent does not know this request");
        failed.hint =
            Some("it is older than this command: restart it with the same release".into());
        self.reply(id, &Reply::Failed(failed));
    }

    /// Sends items of a list until enough bytes are queued. Finishes the request after the last
    /// item.
    pub(crate) fn send_list(&mut self, id: ConnectionId, mut listing: Listing) {
        loop {
            let Some(peer) = self.peers.get(id) else { return };
            if peer.connection.waiting_size() > LIST_QUEUE_MAX {
                break;
            }
            let Some(reply) = listing.next(&mut self.programs) else {
                return self.finish(id, &Reply::Done);
            };
            self.reply(id, &reply);
        }
        if let Some(command) = self.peers.command_mut(id) {
            command.listing = Some(listing);
        }
    }

    /// Begins to send a change to all programs in `scope`. The command is answered when the
    /// programs have confirmed the change, or their deadline has passed.
    fn begin_change(&mut self, command: ConnectionId, follow_up: FollowUp, scope: Scope) {
        let to_visit = self.programs.ids(|program| scope.has(program));
        let (session, waits_for, deadline) = (scope.session, Vec::new(), None);
        let pending = PendingRequest {
            command,
            session,
            unsent: to_visit,
            unconfirmed: waits_for,
            // A channel can be removed although the tracer does not run.
            awaits_kernel: !matches!(follow_up, FollowUp::Remove(_)) && self.start_kernel_tracer(),
            unavailable: Vec::new(),
            deadline,
            follow_up,
        };
        self.pending.push_back(pending);
        self.continue_changes(Instant::now());
    }

    /// Starts the tracer of the kernel if an active session records events of the kernel. Returns
    /// true if the tracer has not connected yet.
    pub(crate) fn start_kernel_tracer(&mut self) -> bool {
        let Some(tracer) = self.kernel_tracer.as_mut().filter(|_| self.sessions.record_kernel())
        else {
            return false;
        };
        match tracer.start(&self.socket) {
            Ok(()) => self.programs.ids(|program| program.is_kernel).is_empty(),
            Err(error) => {
                self.log.line(&format!("cannot start the tracer of the kernel: {error}"));
                false
            }
        }
    }

    /// Answers the commands that wait for a change of a session that has changed or is gone.
    pub(crate) fn answer_change_waits(&mut self) {
        for (command, changes) in self.change_waits.take_due(&self.sessions.list) {
            let last = match changes {
                Some(changes) => {
                    self.reply(command, &Reply::Changes(changes));
                    Reply::Done
                }
                None => Reply::Failed(failed(code::NO_SUCH_SESSION, "the session was destroyed")),
            };
            self.finish(command, &last);
        }
    }

    /// Sends the forwarder the list of sessions, if it has changed and the forwarder waits for it.
    /// Starts the forwarder for the first of them.
    pub(crate) fn answer_forwarder(&mut self) {
        if self.sessions.forwardings.is_empty() && !self.sessions.forwardings.has_forwarder() {
            return;
        }
        let Sessions { list, forwardings, .. } = &mut self.sessions;
        forwardings.ask_for_room(Instant::now(), |id| {
            list.iter().find(|session| session.id == id)?.size_limit.excess()
        });
        if let Some(Err(error)) = self.forwarder.as_mut().map(|one| one.start(&self.socket)) {
            self.log.line(&format!("cannot start the forwarder of sessions: {error}"));
            self.forwarder = None;
        }
        if let Some((forwarder, tasks)) = self.sessions.forwardings.take_answer() {
            tasks.iter().for_each(|task| self.reply(forwarder, task));
            self.finish(forwarder, &Reply::Done);
        }
    }

    /// Sends a change to further programs until the deadline `until`. Returns true once the change
    /// was sent to all programs.
    fn send_change(&mut self, pending: &mut PendingRequest, until: Instant) -> bool {
        let at = self.sessions.position(pending.session);
        while let Some(id) = pending.unsent.pop() {
            let has_changed = match (&pending.follow_up, at) {
                (FollowUp::Destroy { session, .. }, _) => {
                    self.record(|recorder| recorder.remove_session(id, *session))
                }
                (FollowUp::Remove(key), _) => {
                    self.record(|recorder| recorder.remove_channel(id, *key))
                }
                (_, Some(at)) => self.update_session(id, at),
                (_, None) => false,
            };
            if has_changed {
                pending.unconfirmed.push((id, self.record(|recorder| recorder.ping(id))));
            }
            if Instant::now() >= until {
                break;
            }
        }
        pending.unsent.is_empty()
    }

    /// Continues all pending requests in round-robin order, and answers complete requests.
    pub(crate) fn continue_changes(&mut self, now: Instant) {
        let until = now + CHANGE_TIME_MAX;
        for _ in 0..self.pending.len() {
            let Some(mut pending) = self.pending.pop_front() else { break };
            if pending.deadline.is_none()
                && Instant::now() < until
                && self.send_change(&mut pending, until)
            {
                pending.begin_wait();
            }
            if !pending.is_over(now, &self.programs) {
                self.pending.push_back(pending);
                continue;
            }
            let PendingRequest { awaits_kernel, unavailable, .. } = &mut pending;
            let unavailable = match *awaits_kernel {
                true => vec!["the tracer of the kernel does not run; see the agent's log".into()],
                false => std::mem::take(unavailable),
            };
            let reply = match self.follow_up(pending.command, pending.follow_up) {
                None if !unavailable.is_empty() => {
                    let what =
                        format!("events of the kernel are missing: {}", unavailable.join("; "));
                    Reply::Failed(failed(code::KERNEL, what))
                }
                None => Reply::Done,
                Some(error) => {
                    let what = format!("not all that was recorded can be written: {error}");
                    Reply::Failed(failed(code::OUTPUT, what))
                }
            };
            self.finish(pending.command, &reply);
        }
    }

    /// Carries out the last step of a request. Returns the last error if packets could not be
    /// written. The destruction of a session returns `None`, and counts such packets as lost.
    fn follow_up(&mut self, command: ConnectionId, follow_up: FollowUp) -> Option<io::Error> {
        let trouble = match follow_up {
            FollowUp::Nothing => return None,
            FollowUp::Write(id) => {
                let trouble = self.programs.write_all(id);
                let session = self.sessions.get(id);
                let losses = session
                    .map(|session| self.sessions.final_loss_replies(session, self.programs.all()));
                losses.iter().flatten().for_each(|loss| self.reply(command, loss));
                trouble
            }
            FollowUp::Remove(_) => {
                let now = Instant::now();
                let ids = self.programs.ids(|one| one.next_removal().is_some());
                ids.into_iter().for_each(|id| self.finish_removals(id, now));
                self.programs.drop_removed(&mut self.sessions);
                None
            }
            FollowUp::Destroy { session, name, uid } => {
                // Packets that cannot be written are counted as lost.
                let _ = self.programs.detach(session, &mut self.sessions);
                self.sessions.close_retired(session);
                let losses = self.sessions.archive_losses(session, name, uid, &self.accounts);
                self.sessions.forwardings.end(session);
                losses.iter().for_each(|loss| self.reply(command, loss));
                None
            }
        };
        self.save();
        trouble
    }

    /// Continues the requests whose directory was made. Requests whose directory could not be made
    /// before the deadline fail.
    pub(crate) fn use_directories(&mut self, now: Instant) {
        for made in self.directories.take_made(now) {
            let command = made.command;
            let begun = made.output.and_then(|output| match made.purpose {
                OutputPurpose::Session { session, retention, is_privileged } => {
                    let requester = Requester { owner: made.owner, is_privileged };
                    let new = RetainingSession { session, retention };
                    self.create_session(command, new, output, requester)
                }
                OutputPurpose::Snapshot { session, keep_ms } => {
                    let mut reaches = self.sessions.retention_reply(session);
                    reaches.extend(self.sessions.reaches(session, self.programs.all()));
                    let request = SnapshotRequest { command, session, keep_ms, output };
                    self.snapshots.begin(request, &self.programs, reaches);
                    Ok(())
                }
            });
            if let Err(failed) = begun {
                self.finish(command, &Reply::Failed(failed));
            }
        }
    }

    fn create_session(
        &mut self,
        command: ConnectionId,
        new: RetainingSession,
        output: Output,
        requester: Requester,
    ) -> Result<(), Failed> {
        let path = output.path().to_owned();
        let Requester { owner, is_privileged } = requester;
        self.requests().add_session(new, output, owner, is_privileged)?;
        self.save();
        self.reply(command, &Reply::Written(path));
        self.finish(command, &Reply::Done);
        Ok(())
    }

    /// Runs a step of the pending snapshots.
    pub(crate) fn step_snapshots(&mut self) {
        let Node { snapshots, programs, sessions, log, peers, .. } = self;
        let effects = snapshots.step(programs, sessions, log, |id| peers.get(id).is_some());
        self.apply(effects);
    }

    /// Runs a step of the pending removals of traces.
    pub(crate) fn step_clear_jobs(&mut self) {
        let mut handler = self.requests();
        handler.step_clear_jobs();
        let effects = handler.effects;
        self.apply(effects);
    }

    /// Returns the time of the next work that no event triggers, such as a drain or a deadline;
    /// `None` if no work is pending.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        let drains = self.programs.connected.values().filter_map(|program| program.next_drain);
        let pending = self.pending.iter().map(|pending| pending.next(now));
        let is_busy = !self.sessions.clear_jobs.is_empty()
            || !self.peers.resumed.is_empty()
            || !self.snapshots.is_empty();
        let making = (!self.directories.is_empty()).then(|| now + directories::PAUSE);
        let others = [
            self.peers.next_opening_deadline(),
            self.programs.next_absence(),
            is_busy.then_some(now),
            making,
            self.acceptor.next(),
            self.next_turn,
            self.next_rotation(now),
        ];
        drains.chain(pending).chain(others.into_iter().flatten()).min()
    }
}
