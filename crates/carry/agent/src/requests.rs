//! Handlers of commands' requests: check permissions, and change sessions.

use crate::approved_probes::{self, Approvals};
use crate::attachment::ChannelKey;
use crate::change_waits::Awaited;
use crate::channel::{fill_in_sizes, memory_bounds, shape_of};
use crate::clearing::{self, ClearJob};
use crate::clock::Rates;
use crate::command::{Listing, Requester};
use crate::date;
use crate::directories::OutputPurpose;
use crate::dividing;
use crate::effect::Effect;
use crate::output::Output;
use crate::owner::Owner;
use crate::process::{self, Executable};
use crate::program::Program;
use crate::programs::Programs;
use crate::quota::{Account, Accounts, Quota, QuotaError, Share};
use crate::session::{
    SamplingRules, Session, SessionChannel, SessionId, SessionRule, WantedRule, size_of_channel,
    size_of_sampling, size_of_session,
};
use crate::sessions::Sessions;
use crate::source::ConnectionId;
use blkkin_control::limits::REDACTIONS_MAX;
use blkkin_control::sampling::Sampling;
use blkkin_control::{
    Activity, Applications, AwaitedChange, Channel, Context, EVENT_SIZES, Events, Failed,
    ForwardTask, Mode, NewChannel, Purpose, RecentSnapshot, RedactedEvents, Redaction, Reply,
    Request, RetainingSession, Retention, Ring, SessionForward, SessionLimit, SessionRotation,
    Snapshot, SpoolSize, ToApplication, WAIT_FOREVER, WAIT_MAX_US, code,
};
use blkkin_filter::Filter;
use blkkin_ring::Shape;
use jiff::Zoned;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that is answered once programs have confirmed its change, or a deadline has passed.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) command: ConnectionId,
    /// The session that has changed.
    pub(crate) session: SessionId,
    /// Connections of the programs to which the change was not sent yet.
    pub(crate) unsent: Vec<ConnectionId>,
    /// Connections of programs to which the change was sent, each with the number of the confirming
    /// `Pong`. Entries are removed from the end once they are confirmed.
    pub(crate) unconfirmed: Vec<(ConnectionId, u64)>,
    /// Set while the tracer of the kernel has not connected.
    pub(crate) awaits_kernel: bool,
    /// Reasons why events of the kernel cannot be recorded.
    pub(crate) unavailable: Vec<String>,
    /// Deadline for confirmations, needed because a program may be suspended. `None` until the
    /// change was sent to all programs.
    pub(crate) deadline: Option<Instant>,
    pub(crate) follow_up: FollowUp,
}

/// Time limit for programs to confirm a change.
const PATIENCE: Duration = Duration::from_millis(2000);

impl PendingRequest {
    /// Returns the time at which the event loop must continue with the request.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        self.deadline.unwrap_or(now)
    }

    /// Begins the wait for confirmations, after the change was sent to all programs.
    pub(crate) fn begin_wait(&mut self) {
        self.deadline = Some(Instant::now() + PATIENCE);
    }

    /// Returns whether the wait for confirmations is over: each program has confirmed the change or
    /// has disconnected, or the deadline has passed. Returns false before the wait has begun.
    pub(crate) fn is_over(&mut self, now: Instant, programs: &Programs) -> bool {
        let is_settled = |(id, ping): &(ConnectionId, u64)| {
            programs.get(*id).is_none_or(|program| program.has_confirmed(*ping))
        };
        // Removes settled entries from the end, so that they are not checked again.
        while self.unconfirmed.pop_if(|last| is_settled(last)).is_some() {}
        let is_confirmed = self.unconfirmed.is_empty() && !self.awaits_kernel;
        self.deadline.is_some_and(|deadline| now >= deadline || is_confirmed)
    }
}

/// Last step of a request, carried out after programs have confirmed the request's change.
#[derive(Debug)]
pub(crate) enum FollowUp {
    Nothing,
    /// Writing of the session's packets.
    Write(SessionId),
    /// Destruction of the session.
    Destroy {
        session: SessionId,
        name: String,
        uid: u32,
    },
    /// Removal of a channel.
    Remove(ChannelKey),
}

/// The programs to which a change of a session must be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) session: SessionId,
    /// The user whose programs the session may record; `None` for all users.
    uid: Option<u32>,
}

impl Scope {
    pub(crate) fn of(session: &Session) -> Scope {
        let uid = (!session.is_privileged).then_some(session.owner.uid);
        Scope { session: session.id, uid }
    }

    /// Returns whether the change must be sent to a program.
    pub(crate) fn has(&self, program: &Program) -> bool {
        self.uid.is_none_or(|uid| uid == program.process.uid)
            && (program.catalog.is_some() || !program.attachments.is_empty())
    }
}

/// Maximum number of sessions of one user.
const SESSIONS_MAX: usize = 256;
/// Maximum number of channels of a session.
const CHANNELS_MAX: usize = 32;
/// Maximum number of channels of a session, with those that were removed.
const CHANNELS_EVER_MAX: usize = 1024;
/// Default name of the channel that is made for the first events, as in LTTng, without its number.
const FIRST_CHANNEL: &str = "channel";
/// Default name of the channel that is made for the first events of the kernel, without its number.
const FIRST_KERNEL_CHANNEL: &str = "kernel";
/// Maximum number of files and directories removed or skipped per turn of the event loop, over all
/// removals.
const CLEARED_AT_ONCE: usize = 128;

/// Outcome of a successful request: its replies, or the work that is needed to complete it.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The request is complete, with these replies.
    Done(Vec<Reply>),
    /// The request is complete, and has changed nothing.
    Unchanged,
    /// The request is complete when programs have confirmed the change, and the last step is
    /// carried out.
    Settle(FollowUp, Scope),
    /// The request continues when its directory has been made: by adding the session, or by writing
    /// the snapshot.
    MakeDirectory { path: PathBuf, owner: Owner, purpose: OutputPurpose },
    /// The request is complete when all programs of the list have been sent.
    List(Listing),
    /// The request is complete when the current chunk of the session is closed.
    Rotate(SessionId),
    /// The request is complete, with a line for the log about the user `uid`.
    Log { uid: u32, line: String },
    /// The request is complete when the closed traces of the session at index `session` have been
    /// removed.
    Clear { session: usize, descriptors: Share },
    /// The request is complete when there was a change since the command has seen this number of
    /// changes.
    AwaitChange { awaited: Awaited, seen: Option<u64> },
    /// The request is complete when the list of forwarded sessions has changed.
    AwaitForwarding { is_first: bool },
}

impl Answer {
    /// Returns whether to save the sessions now. Requests with a follow-up or a directory save the
    /// sessions when they are complete.
    pub(crate) fn is_saved_now(&self) -> bool {
        !matches!(
            self,
            Answer::Unchanged
                | Answer::AwaitChange { .. }
                | Answer::AwaitForwarding { .. }
                | Answer::MakeDirectory { .. }
                | Answer::Rotate(_)
                | Answer::Settle(
                    FollowUp::Write(_) | FollowUp::Destroy { .. } | FollowUp::Remove(_),
                    _
                )
        )
    }
}

/// Returns whether a request may change the saved state.
pub(crate) fn may_change(request: &Request) -> bool {
    !matches!(
        request,
        Request::ListSessions(_)
            | Request::ListApplications(_)
            | Request::Status(_)
            | Request::GetSampling
            | Request::AwaitChange(_)
            | Request::AwaitSignal(_)
            | Request::AwaitForwarding(_)
            | Request::ListChunks(_)
    )
}

/// Returns the error for a request about chunks of a session whose trace is not divided.
fn not_divided(name: &str) -> Failed {
    let what = format!("the trace of session `{name}` is not divided into chunks");
    let hint = "make the session with --rotate, --size, --age, --files or --total";
    Failed { hint: Some(hint.into()), ..failed(code::WRONG_STATE, what) }
}

pub(crate) type Outcome = Result<Answer, Failed>;

pub(crate) fn failed(code: &str, message: impl Into<String>) -> Failed {
    Failed { code: code.to_owned(), message: message.into(), hint: None }
}

pub(crate) fn exceeded(error: QuotaError) -> Failed {
    Failed { hint: Some(error.advice().into()), ..failed(code::QUOTA, error.reason()) }
}

/// Returns a default name that no channel has, also none that was removed: `channel0`, for example.
fn first_free(prefix: &str, channels: &[SessionChannel]) -> String {
    let names = (0..=channels.len()).map(|number| format!("{prefix}{number}"));
    let mut free = names.filter(|name| channels.iter().all(|one| one.channel.name != *name));
    free.next().unwrap_or_default()
}

/// Returns the error for events in a shared channel.
fn has_no_events(name: &str) -> Failed {
    let what = format!("channel `{name}` is shared, and has no events of its own");
    let hint = format!("`blkkin channel create NAME --of {name} --share 25%` makes a part of it");
    Failed { hint: Some(hint), ..failed(code::BAD_VALUE, what) }
}

/// Returns the error for a request that names an unknown channel. Commands add the known ones.
pub(crate) fn no_such_channel(session: &Session, name: &str) -> Failed {
    failed(code::NO_SUCH_CHANNEL, format!("session `{}` has no channel `{name}`", session.name))
}

/// Checks that a command runs as the agent's user or as root, as the forwarder does.
fn check_forwarder(who: Requester) -> Result<(), Failed> {
    match [0, blkkin_sys::user_id()].contains(&who.owner.uid) {
        true => Ok(()),
        false => Err(failed(code::NOT_PERMITTED, "only the agent's forwarder may request this")),
    }
}

/// Handlers of requests, with the state that they change.
#[derive(Debug)]
pub(crate) struct RequestHandler<'n> {
    pub(crate) sessions: &'n mut Sessions,
    pub(crate) programs: &'n mut Programs,
    pub(crate) accounts: &'n mut Accounts,
    /// Default directory of the sessions' outputs; with `None`, it is below each user's home
    /// directory.
    pub(crate) traces: Option<&'n Path>,
    /// Set if the agent can start the tracer of the kernel.
    pub(crate) has_kernel_tracer: bool,
    /// Set if the agent can start the forwarder of sessions.
    pub(crate) has_forwarder: bool,
    pub(crate) effects: Vec<Effect>,
}

/// Change that a rule makes.
#[derive(Debug)]
struct EventChange {
    enabled: bool,
    /// Set for events of the kernel.
    is_kernel: bool,
    /// Redactions of the events' fields.
    redactions: Vec<Redaction>,
}

impl EventChange {
    /// Enables events of programs.
    const ENABLE: EventChange =
        EventChange { enabled: true, is_kernel: false, redactions: Vec::new() };
}

impl RequestHandler<'_> {
    /// Handles a request. Returns the replies, the work that completes the request, or the error.
    pub(crate) fn act(&mut self, who: Requester, request: Request) -> Outcome {
        match request {
            Request::CreateSession(session) => {
                let retention = Retention::default();
                self.create_session(who, RetainingSession { session, retention })
            }
            Request::CreateRetainingSession(new) => self.create_session(who, new),
            Request::StartSession(name) => {
                let at = self.find(who, &name)?;
                let session = &mut self.sessions.list[at];
                if session.is_active() {
                    return Err(failed(
                        code::WRONG_STATE,
                        format!("session `{name}` records already"),
                    ));
                }
                session.activity = Activity::Active;
                Ok(Answer::Settle(FollowUp::Nothing, Scope::of(session)))
            }
            Request::StopSession(name) => {
                let at = self.find(who, &name)?;
                let session = &mut self.sessions.list[at];
                if !session.is_active() {
                    let message = format!("session `{name}` does not record");
                    return Err(failed(code::WRONG_STATE, message));
                }
                session.activity = Activity::Stopped;
                Ok(Answer::Settle(FollowUp::Write(session.id), Scope::of(session)))
            }
            Request::DestroySession(name) => {
                let at = self.find(who, &name)?;
                let mut session = self.sessions.list.remove(at);
                self.sessions.retire_chunks(&mut session);
                let scope = Scope::of(&session);
                let (uid, name) = (session.owner.uid, session.name);
                let follow_up = FollowUp::Destroy { session: session.id, name, uid };
                Ok(Answer::Settle(follow_up, scope))
            }
            Request::LimitSession(SessionLimit { session, size_max }) => {
                let at = self.find(who, &session)?;
                self.sessions.list[at].size_limit.set(size_max);
                Ok(Answer::Done(vec![]))
            }
            Request::WriteDirectly(session) => {
                let at = self.find(who, &session)?;
                self.write_directly(at)?;
                Ok(Answer::Done(vec![]))
            }
            Request::DivideSession(SessionRotation { session, rotation }) => {
                let at = self.find(who, &session)?;
                if self.sessions.forwardings.has(self.sessions.list[at].id) {
                    let what = format!("session `{session}` is forwarded already");
                    return Err(failed(code::WRONG_STATE, what));
                }
                dividing::divide(&mut self.sessions.list[at], rotation)?;
                Ok(Answer::Done(vec![]))
            }
            Request::RotateSession(name) => {
                let at = self.find(who, &name)?;
                let session = &self.sessions.list[at];
                match session.chunks {
                    Some(_) => Ok(Answer::Rotate(session.id)),
                    None => Err(not_divided(&name)),
                }
            }
            Request::ListChunks(name) => {
                let found = self.find(who, &name);
                let listed = self.sessions.list_chunks(found.as_ref().ok().copied(), &name, who);
                match listed {
                    Some(replies) => Ok(Answer::Done(replies)),
                    None => Err(found.map_or_else(|unknown| unknown, |_| not_divided(&name))),
                }
            }
            Request::ReportHook(report) => {
                let failure = self.sessions.note_hook(who, report);
                Ok(failure.map_or(Answer::Done(vec![]), |(uid, line)| Answer::Log { uid, line }))
            }
            Request::ClearSession(name) => {
                let at = self.find(who, &name)?;
                let account = self.accounts.of(who.owner.uid);
                let descriptors = account.reserve(Quota::Descriptors, clearing::DEPTH_MAX);
                let descriptors = descriptors.map_err(exceeded)?;
                Ok(Answer::Clear { session: at, descriptors })
            }
            Request::Snapshot(snapshot) => self.begin_snapshot(who, snapshot, None),
            Request::RecentSnapshot(RecentSnapshot { snapshot, keep_ms }) => {
                self.begin_snapshot(who, snapshot, Some(keep_ms))
            }
            Request::ListSessions(name) => self.list(who, name.as_deref()),
            Request::CreateChannel(NewChannel { session, channel }) => {
                let at = self.find(who, &session)?;
                self.create_channel(at, channel, false)?;
                Ok(Answer::Done(vec![]))
            }
            Request::CreateKernelChannel(NewChannel { session, channel }) => {
                let at = self.find(who, &session)?;
                self.check_kernel(at)?;
                self.create_channel(at, channel, true)?;
                Ok(Answer::Done(vec![]))
            }
            Request::CreateSharedChannel(new) => self.create_shared_channel(who, new),
            Request::CreatePart(part) => self.create_part(who, &part),
            Request::RemoveChannel(channel) => self.remove_channel(who, &channel),
            Request::EnableEvents(events) => self.change_events(who, EventChange::ENABLE, events),
            Request::EnableKernelEvents(events) => {
                self.enable_kernel_events(who, events, Vec::new())
            }
            Request::EnableRedactedEvents(RedactedEvents { events, redactions }) => {
                self.enable_kernel_events(who, events, redactions)
            }
            Request::DisableEvents(events) => {
                let change = EventChange { enabled: false, ..EventChange::ENABLE };
                self.change_events(who, change, events)
            }
            Request::DisableKernelEvents(events) => {
                let change = EventChange { enabled: false, is_kernel: true, ..EventChange::ENABLE };
                self.change_events(who, change, events)
            }
            Request::ForwardSession(forward) => self.forward_session(who, forward),
            Request::AwaitChange(AwaitedChange { session, seen }) => {
                let at = self.find(who, &session)?;
                let awaited = Awaited::Session(self.sessions.list[at].id);
                Ok(Answer::AwaitChange { awaited, seen })
            }
            Request::AwaitSignal(seen) => {
                Ok(Answer::AwaitChange { awaited: Awaited::Signal, seen })
            }
            Request::AwaitForwarding(is_first) => {
                check_forwarder(who)?;
                Ok(Answer::AwaitForwarding { is_first })
            }
            Request::ReportForwarding(report) => {
                check_forwarder(who)?;
                if let Some(session) = self.sessions.get(report.number) {
                    session.size_limit.remove(report.bytes_removed);
                }
                match self.sessions.forwardings.report(report) {
                    true => Ok(Answer::Done(vec![])),
                    false => Ok(Answer::Unchanged),
                }
            }
            Request::ReportDropped(dropped) => {
                check_forwarder(who)?;
                if self.sessions.forwardings.note_dropped(dropped) {
                    self.sessions.count_dropped(dropped);
                }
                Ok(Answer::Unchanged)
            }
            Request::ReportSpoolSize(SpoolSize { number, bytes }) => {
                check_forwarder(who)?;
                if let Some(session) = self.sessions.get(number) {
                    session.size_limit.set_written(bytes);
                }
                Ok(Answer::Unchanged)
            }
            Request::ListApplications(wanted) => Ok(Answer::List(self.list_programs(who, &wanted))),
            Request::Status(name) => self.status(who, name.as_deref()),
            Request::GetSampling => {
                let rules = self.sessions.sampling.get(&who.owner.uid);
                Ok(Answer::Done(vec![Reply::Sampling(rules.map(|own| own.rules.clone()))]))
            }
            Request::SetSampling(rules) => {
                if let Some(Err(error)) = rules.as_deref().map(str::parse::<Sampling>) {
                    return Err(failed(code::BAD_VALUE, error.to_string()));
                }
                let before = self.sessions.sampling.get(&who.owner.uid).map(|own| &own.rules);
                if before == rules.as_ref() {
                    return Ok(Answer::Unchanged);
                }
                match rules.clone() {
                    Some(rules) => {
                        let account = self.accounts.of(who.owner.uid);
                        let bytes = account.reserve(Quota::RuleBytes, size_of_sampling(&rules));
                        let _bytes = bytes.map_err(exceeded)?;
                        self.sessions
                            .sampling
                            .insert(who.owner.uid, SamplingRules { rules, _bytes })
                    }
                    None => self.sessions.sampling.remove(&who.owner.uid),
                };
                for id in self.programs.ids(|one| one.process.uid == who.owner.uid) {
                    let message = ToApplication::Sampling(rules.clone());
                    self.effects.push(Effect::send(id, message));
                }
                Ok(Answer::Done(vec![]))
            }
        }
    }

    /// Returns the index of the session named `name` that the requester may see. The requester's
    /// own session has precedence.
    pub(crate) fn find(&self, who: Requester, name: &str) -> Result<usize, Failed> {
        let own = self.sessions.list.iter().position(|one| one.name == name && who.owns(one));
        let seen = || self.sessions.list.iter().position(|one| one.name == name && who.sees(one));
        own.or_else(seen).ok_or_else(|| {
            let mut failed = failed(code::NO_SUCH_SESSION, format!("there is no session `{name}`"));
            let names = self.sessions.list.iter().filter(|one| who.sees(one)).map(|one| &*one.name);
            failed.hint =
                blkkin_filter::suggest(name, names).map(|near| format!("did you mean `{near}`?"));
            failed
        })
    }

    fn create_session(&mut self, who: Requester, new: RetainingSession) -> Outcome {
        let RetainingSession { session, retention } = new;
        self.may_create(who.owner, &session.name)?;
        if retention != Retention::default() && session.purpose != Purpose::Snapshot {
            let what = "only sessions for snapshots retain events";
            return Err(failed(code::BAD_VALUE, what));
        }
        if let Some(memory) = retention.memory {
            check_memory(memory, &self.accounts.of(who.owner.uid))?;
        }
        let path = self.output_of(who.owner, &session)?;
        let is_privileged = who.is_privileged;
        let purpose = OutputPurpose::Session { session, retention, is_privileged };
        Ok(Answer::MakeDirectory { path, owner: who.owner, purpose })
    }

    /// Checks that the user may create one more session, and has none named `name`.
    fn may_create(&self, owner: Owner, name: &str) -> Result<(), Failed> {
        let own = || self.sessions.list.iter().filter(|one| one.owner.uid == owner.uid);
        if own().any(|one| one.name == *name) {
            let message = format!("there is a session `{name}` already");
            return Err(failed(code::SESSION_EXISTS, message));
        }
        if own().count() >= SESSIONS_MAX {
            let mut failed = failed(
                code::QUOTA,
                format!("user {} has {SESSIONS_MAX} sessions already", owner.uid),
            );
            failed.hint = Some("end some with `blkkin session destroy`".into());
            return Err(failed);
        }
        Ok(())
    }

    /// Returns the output directory for a new session: the requested one, or a default.
    fn output_of(&self, owner: Owner, wanted: &blkkin_control::Session) -> Result<PathBuf, Failed> {
        if let Some(output) = &wanted.output {
            return Ok(output.clone());
        }
        let home = || process::home_of(owner.uid).map(|home| home.join("blkkin-traces"));
        let traces = self.traces.map(Path::to_owned).or_else(home).ok_or_else(|| {
            failed(code::OUTPUT, "the user has no home directory; say where the trace goes")
        })?;
        Ok(traces.join(format!("{}-{}", wanted.name, date::for_names(&Zoned::now()))))
    }

    /// Adds a session whose directory has been made.
    pub(crate) fn add_session(
        &mut self,
        new: RetainingSession,
        output: Output,
        owner: Owner,
        is_privileged: bool,
    ) -> Result<(), Failed> {
        let RetainingSession { session: wanted, retention } = new;
        // Another session of that name may have been created meanwhile.
        self.may_create(owner, &wanted.name)?;
        let size = size_of_session(&wanted.name, output.path());
        let bytes =
            self.accounts.of(owner.uid).reserve(Quota::RuleBytes, size).map_err(exceeded)?;
        let id = self.sessions.take_number();
        self.sessions.list.push(Session {
            _bytes: bytes,
            id,
            name: wanted.name,
            owner,
            is_privileged,
            purpose: wanted.purpose,
            retention,
            output,
            activity: Activity::New,
            created: Zoned::now(),
            channels: Vec::new(),
            snapshots: 0,
            size_limit: Arc::default(),
            direct: None,
            rates: Rates::default(),
            chunks: None,
        });
        Ok(())
    }

    /// Makes a session write without the page cache.
    fn write_directly(&mut self, at: usize) -> Result<(), Failed> {
        let session = &mut self.sessions.list[at];
        if session.purpose == Purpose::Snapshot || session.activity != Activity::New {
            let what = "only a session that records to files can write without the page cache, and \
                        only before it is started";
            return Err(failed(code::WRONG_STATE, what));
        }
        // The agent waits for the disk, and with it all other users.
        if !session.output.is_trusted() {
            let what = "only root may write without the page cache by an agent of several users";
            let hint = Some("use an agent of your own: `blkkin record --direct`".into());
            return Err(Failed { hint, ..failed(code::NOT_PERMITTED, what) });
        }
        session
            .output
            .check_direct()
            .map_err(|error| failed(code::BAD_VALUE, error.to_string()))?;
        session.direct = Some(Arc::default());
        Ok(())
    }

    /// Forwards a session to a relay.
    fn forward_session(&mut self, who: Requester, forward: SessionForward) -> Outcome {
        let SessionForward { session: name, destination } = forward;
        let at = self.find(who, &name)?;
        let session = &self.sessions.list[at];
        if !self.has_forwarder {
            return Err(failed(code::FORWARD, "this agent cannot forward sessions"));
        }
        // The forwarder has the agent's network, which other users might not be permitted to use.
        if !who.is_privileged && who.owner.uid != blkkin_sys::user_id() {
            let what = "only root and members of the agent's group may forward sessions";
            let hint = Some("send it yourself, with `blkkin forward --follow`".into());
            return Err(Failed { hint, ..failed(code::NOT_PERMITTED, what) });
        }
        if session.purpose == Purpose::Snapshot {
            let what = format!("session `{name}` is for snapshots, which are not forwarded");
            return Err(failed(code::WRONG_STATE, what));
        }
        if session.chunks.as_ref().is_some_and(|chunks| chunks.rotation.takes_chunks_away()) {
            let what = format!("chunks of session `{name}` could be removed before they are sent");
            let hint = Some("leave out --files, --total and --on-chunk".into());
            return Err(Failed { hint, ..failed(code::BAD_VALUE, what) });
        }
        if !["net://", "nets://"].iter().any(|scheme| destination.target.starts_with(scheme)) {
            let what = format!("`{}` is no address of a relay", destination.target);
            return Err(failed(code::BAD_VALUE, what));
        }
        let is_limited = session.size_limit.size_max().is_some() && destination.is_spool;
        if destination.drops_oldest && !is_limited {
            let what = "only a spool with a size limit drops its oldest packets".to_owned();
            return Err(failed(code::BAD_VALUE, what));
        }
        let forwardings = &mut self.sessions.forwardings;
        if session.activity != Activity::New || forwardings.has(session.id) {
            let what = format!("session `{name}` is forwarded already, or has been started");
            return Err(failed(code::WRONG_STATE, what));
        }
        if forwardings.count_of(session.owner.uid) >= SESSIONS_MAX {
            let what = format!("user {} forwards {SESSIONS_MAX} sessions already", who.owner.uid);
            let hint = Some("`blkkin status` shows those that a relay has not taken yet".into());
            return Err(Failed { hint, ..failed(code::QUOTA, what) });
        }
        let task = ForwardTask {
            number: session.id,
            name,
            user: session.owner.uid,
            group: session.owner.gid,
            directory: session.output.path().to_owned(),
            destination,
            has_ended: false,
            to_drop: 0,
        };
        forwardings.add(task, false);
        Ok(Answer::Done(vec![]))
    }

    /// Chooses the directory of a snapshot.
    fn begin_snapshot(
        &mut self,
        who: Requester,
        Snapshot { session, output }: Snapshot,
        keep_ms: Option<u64>,
    ) -> Outcome {
        let at = self.find(who, &session)?;
        if self.sessions.list[at].purpose == Purpose::Record {
            let mut failed = failed(
                code::WRONG_STATE,
                format!("session `{session}` writes all that it records, so it has no snapshots"),
            );
            failed.hint = Some("make one with `blkkin session create NAME --snapshot`".into());
            return Err(failed);
        }
        let session = &mut self.sessions.list[at];
        let number = session.snapshots;
        session.snapshots += 1;
        // If the command names the directory, it is made with the requester's rights.
        let (path, owner) = output.map(|output| (output, who.owner)).unwrap_or_else(|| {
            let date = date::for_names(&Zoned::now());
            let name = format!("snapshot-1-{date}-{number}");
            (session.output.path().join(name), session.owner)
        });
        let purpose = OutputPurpose::Snapshot { session: session.id, keep_ms };
        Ok(Answer::MakeDirectory { path, owner, purpose })
    }

    /// Enables events of the kernel with redactions, and with those that the approval demands.
    fn enable_kernel_events(
        &mut self,
        who: Requester,
        events: Events,
        mut redactions: Vec<Redaction>,
    ) -> Outcome {
        redactions.append(&mut self.may_record_kernel(who, &events.selection.names)?);
        if redactions.len() > REDACTIONS_MAX {
            let message = format!("the rule has more than {REDACTIONS_MAX} redactions");
            return Err(failed(code::QUOTA, message));
        }
        let change = EventChange { enabled: true, is_kernel: true, redactions };
        self.change_events(who, change, events)
    }

    /// Checks that the user may record these events of the kernel: root may record all, and members
    /// of the group those that are approved. Returns the redactions without which they may not.
    fn may_record_kernel(
        &self,
        who: Requester,
        names: &[String],
    ) -> Result<Vec<Redaction>, Failed> {
        let refused = |why: String| {
            let hint = format!(
                "run the command as root, or let an administrator approve the events in {}",
                approved_probes::PATH
            );
            Failed { hint: Some(hint), ..failed(code::NOT_PERMITTED, why) }
        };
        if who.owner.uid == 0 || who.owner.uid == blkkin_sys::user_id() {
            return Ok(Vec::new());
        }
        if !who.is_privileged {
            return Err(refused("only root may record events of the kernel".to_owned()));
        }
        match Approvals::read().map(|approvals| approvals.check(names)) {
            Ok(Ok(redactions)) => Ok(redactions),
            Ok(Err(name)) => Err(refused(format!("the events `{name}` are not approved"))),
            Err(error) => Err(refused(format!("the approved events cannot be read: {error}"))),
        }
    }

    /// Checks that a session can record events of the kernel.
    pub(crate) fn check_kernel(&self, at: usize) -> Result<(), Failed> {
        let session = &self.sessions.list[at];
        if session.purpose == Purpose::Snapshot {
            let what =
                format!("snapshot session `{}` cannot hold events of the kernel", session.name);
            let hint = Some("record them in a session of its own, without --snapshot".into());
            return Err(Failed { hint, ..failed(code::WRONG_STATE, what) });
        }
        if !self.has_kernel_tracer {
            let what = "this agent cannot record events of the kernel";
            let hint =
                Some("start the agent as root; `blkkin doctor` shows what is missing".into());
            return Err(Failed { hint, ..failed(code::KERNEL, what) });
        }
        Ok(())
    }

    pub(crate) fn create_channel(
        &mut self,
        at: usize,
        mut channel: Channel,
        is_kernel: bool,
    ) -> Result<(), Failed> {
        let Session { purpose, retention, .. } = self.sessions.list[at];
        fill_in_sizes(&mut channel, is_kernel, purpose, retention);
        if is_kernel {
            let kernel_contexts = vec![Context::Pid, Context::Tid];
            if !channel.contexts.is_empty() && channel.contexts != kernel_contexts {
                let what = "events of the kernel have the contexts `pid` and `tid`, and no others";
                return Err(failed(code::BAD_VALUE, what));
            }
            if channel.mode == Mode::Overwrite {
                let what = "rings of the kernel cannot overwrite events yet; leave out --overwrite";
                return Err(failed(code::BAD_VALUE, what));
            }
            channel.contexts = kernel_contexts;
        }
        let session = &self.sessions.list[at];
        let name = &channel.name;
        if session.channels.iter().any(|one| one.is_named(name)) {
            let message = format!("session `{}` has a channel `{name}` already", session.name);
            return Err(failed(code::CHANNEL_EXISTS, message));
        }
        // A removed channel of this name has a stream in the session's traces.
        let removed = session.channels.iter().position(|one| one.channel.name == *name);
        if session.channels.iter().filter(|one| !one.is_removed).count() >= CHANNELS_MAX {
            let message = format!("session `{}` has {CHANNELS_MAX} channels already", session.name);
            return Err(failed(code::QUOTA, message));
        }
        if removed.is_none() && session.channels.len() >= CHANNELS_EVER_MAX {
            let what = format!(
                "session `{}` has had {CHANNELS_EVER_MAX} channels, its limit",
                session.name
            );
            let hint = "a removed channel of the same contexts can come back by its name";
            return Err(Failed { hint: Some(hint.into()), ..failed(code::QUOTA, what) });
        }
        if let Some(removed) = removed {
            let key = ChannelKey { session: session.id, channel: removed };
            self.check_return(key, &channel, is_kernel)?;
        }
        let bad_value = |why| failed(code::BAD_VALUE, format!("channel `{name}`: {why}"));
        let shape = shape_of(&channel, 0, [0; 16]);
        shape.check().map_err(|error| {
            let memory = retention.memory.filter(|_| !is_kernel);
            let hint = memory.map(|memory| {
                format!(
                    "the session's rings of a program have at most {memory} bytes, for {} rings; \
                     make it with a larger --memory, or leave out sizes of sub-buffers",
                    shape.rings
                )
            });
            Failed { hint, ..bad_value(error.to_string()) }
        })?;
        if let Some(size) = channel.event_size {
            check_event_size(size, &shape).map_err(bad_value)?;
        }
        let time = channel.wait_us;
        if time != WAIT_FOREVER && time > WAIT_MAX_US {
            return Err(bad_value(format!("events wait at most {WAIT_MAX_US} us, not {time}")));
        }
        let account = self.accounts.of(session.owner.uid);
        let bytes =
            account.reserve(Quota::RuleBytes, size_of_channel(&channel)).map_err(exceeded)?;
        let session = &mut self.sessions.list[at];
        let new = SessionChannel::new(channel, is_kernel, bytes);
        match removed.and_then(|at| session.channels.get_mut(at)) {
            Some(removed) => *removed = new,
            None => session.channels.push(new),
        }
        Ok(())
    }

    /// Enables or disables events by a new rule of a channel. To enable events, makes the first
    /// channel if the session has no channel for such events.
    fn change_events(&mut self, who: Requester, change: EventChange, events: Events) -> Outcome {
        let EventChange { enabled, is_kernel, redactions } = change;
        let at = self.find(who, &events.session)?;
        if is_kernel {
            self.check_kernel(at)?;
        }
        if let Some(Err(error)) =
            events.selection.filter.as_deref().map(Filter::parse_for_recording)
        {
            return Err(failed(code::BAD_VALUE, format!("the filter cannot be used: {error}")));
        }
        // Without this, all events with the rule's names would be disabled.
        if !enabled && events.selection.filter.is_some() {
            let message = "events cannot be disabled by a filter".to_owned();
            let mut refusal = failed(code::BAD_VALUE, message);
            refusal.hint =
                Some("disable them all, then enable them with the opposite filter".into());
            return Err(refusal);
        }
        let account = self.accounts.of(self.sessions.list[at].owner.uid);
        let rule = WantedRule { enabled, selection: events.selection, redactions };
        let rule = SessionRule::new(&account, rule).map_err(exceeded)?;
        let channels = &self.sessions.list[at].channels;
        let has_channel = channels.iter().any(|one| one.is_kernel == is_kernel && one.can_record());
        let is_taken = events
            .channel
            .as_ref()
            .is_some_and(|name| channels.iter().any(|one| one.is_named(name)));
        if !has_channel && !is_taken && enabled {
            let mode = match self.sessions.list[at].purpose {
                Purpose::Record => Mode::Discard,
                Purpose::Snapshot => Mode::Overwrite,
            };
            let first = if is_kernel { FIRST_KERNEL_CHANNEL } else { FIRST_CHANNEL };
            let name = events.channel.clone().unwrap_or_else(|| first_free(first, channels));
            let channel = Channel { mode, ..Channel::named(name) };
            self.create_channel(at, channel, is_kernel)?;
        }
        let session = &mut self.sessions.list[at];
        let named = |channel: &SessionChannel| match &events.channel {
            Some(name) => channel.is_named(name),
            None => channel.is_kernel == is_kernel && channel.can_record(),
        };
        let mut found = session.channels.iter_mut().filter(|channel| named(channel));
        let (Some(channel), None) = (found.next(), found.next()) else {
            let present = session.channels.iter().filter(|channel| channel.can_record());
            let names: Vec<&str> = present.map(|channel| &*channel.channel.name).collect();
            let mut failed = match &events.channel {
                Some(name) => no_such_channel(session, name),
                None if names.is_empty() => failed(
                    code::NO_SUCH_CHANNEL,
                    format!("session `{}` has no channel, and so no events", session.name),
                ),
                None => failed(
                    code::WHICH_CHANNEL,
                    format!("session `{}` has several channels", session.name),
                ),
            };
            failed.hint =
                (!names.is_empty()).then(|| format!("its channels: {}", names.join(", ")));
            return Err(failed);
        };
        if !channel.can_record() {
            return Err(has_no_events(&channel.channel.name));
        }
        if channel.is_kernel != is_kernel {
            let name = &channel.channel.name;
            let (own, hint) = match is_kernel {
                true => ("programs", "name another channel, or leave out --kernel"),
                false => ("the kernel", "name another channel, or add --kernel"),
            };
            let what = format!("channel `{name}` records events of {own}");
            return Err(Failed { hint: Some(hint.into()), ..failed(code::BAD_VALUE, what) });
        }
        if !channel.add(rule) {
            let message = format!("channel `{}` has too many rules", channel.channel.name);
            return Err(failed(code::QUOTA, message));
        }
        Ok(Answer::Settle(FollowUp::Nothing, Scope::of(session)))
    }

    fn list(&mut self, who: Requester, name: Option<&str>) -> Outcome {
        let all = 0..self.sessions.list.len();
        let wanted = match name {
            Some(name) => {
                let at = self.find(who, name)?;
                at..at + 1
            }
            None => all,
        };
        let mut replies = Vec::new();
        for at in wanted {
            if !who.sees(&self.sessions.list[at]) {
                continue;
            }
            let id = self.sessions.list[at].id;
            let reaches = name.map(|_| self.sessions.reaches(id, self.programs.all()));
            let session = &self.sessions.list[at];
            replies.push(Reply::Session(session.state()));
            replies.extend(self.sessions.retention_reply(id));
            replies.extend(self.sessions.forwardings.reply(id));
            replies.extend(session.size_limit.size_max().map(Reply::SizeMax));
            replies.extend(session.direct.iter().map(|one| Reply::Direct(one.slowest_ns())));
            replies.extend(dividing::summary(session));
            for channel in session.channels.iter().filter(|channel| !channel.is_removed) {
                replies.push(match channel.is_kernel {
                    true => Reply::KernelChannel(channel.channel.clone()),
                    false => Reply::Channel(channel.channel.clone()),
                });
                replies.extend(channel.sharing.clone().map(Reply::Sharing));
            }
            for channel in &session.channels {
                replies.extend(channel.rule_messages(Reply::Rule, Reply::RedactedRule));
            }
            replies.extend(self.sessions.loss_replies(session, self.programs.all()));
            replies.extend(reaches.into_iter().flatten());
        }
        Ok(Answer::Done(replies))
    }

    fn list_programs(&self, who: Requester, wanted: &Applications) -> Listing {
        let executables: Vec<Executable> =
            wanted.processes.executables.iter().map(|text| Executable::new(text)).collect();
        let is_wanted = |one: &Program| {
            let is_own = who.is_privileged || one.process.uid == who.owner.uid;
            is_own && one.process.is_selected_by(&wanted.processes, &executables)
        };
        let programs = self.programs.ids(is_wanted).into();
        Listing { programs, next_type: None, with_types: wanted.event_types }
    }

    /// Drops a session's packets in rings and open traces, and begins the removal of its closed
    /// traces.
    pub(crate) fn clear(&mut self, command: ConnectionId, session: usize, descriptors: Share) {
        let session = &mut self.sessions.list[session];
        let id = session.id;
        match &mut session.chunks {
            // The others are not cleared.
            Some(chunks) => session.size_limit.remove(chunks.clear_current()),
            None => session.size_limit.set_written(0),
        }
        let mut job = ClearJob::begin(command, session, descriptors);
        self.programs.clear(id, |cleared| job.note(cleared));
        self.sessions.clear_evictions(id);
        self.sessions.clear_jobs.push(job);
    }

    /// Continues the removals of closed traces, and answers the commands whose removal is complete.
    pub(crate) fn step_clear_jobs(&mut self) {
        let mut jobs = std::mem::take(&mut self.sessions.clear_jobs);
        // All removals share the limit, so that together they take no longer than one would.
        let entries = (CLEARED_AT_ONCE / jobs.len().max(1)).max(1);
        let later = jobs.split_off(jobs.len().min(CLEARED_AT_ONCE));
        let mut open: HashMap<SessionId, HashSet<&Path>> = HashMap::new();
        let done = jobs.extract_if(.., |job| {
            let id = job.session;
            let open = open.entry(id).or_insert_with(|| {
                self.programs
                    .all()
                    .filter_map(|one| Some(one.traces.get(&id)?.directory()))
                    .collect()
            });
            job.step(entries, open)
        });
        let done: Vec<ClearJob> = done.collect();
        self.sessions.clear_jobs = later;
        self.sessions.clear_jobs.append(&mut jobs);
        for job in done {
            let reply = match job.trouble {
                None => Reply::Done,
                Some(error) => Reply::Failed(failed(
                    code::OUTPUT,
                    format!("not all that was recorded can be removed: {error}"),
                )),
            };
            self.effects.push(Effect::Finish { to: job.command, reply });
        }
    }

    fn status(&mut self, who: Requester, name: Option<&str>) -> Outcome {
        let only = name.map(|name| self.find(who, name)).transpose()?;
        let mut replies = Vec::new();
        for (at, session) in self.sessions.list.iter().enumerate() {
            if only.is_some_and(|only| only != at) || !who.sees(session) {
                continue;
            }
            for program in self.programs.all() {
                let own = program.attachments.iter().filter(|one| one.session == session.id);
                for attachment in own {
                    let channel = &session.channels[attachment.channel].channel;
                    let rings = &attachment.rings;
                    for ring in 0..rings.count() {
                        let counts = rings.counts(ring);
                        let discarded = rings.discarded(ring);
                        let waiting = rings.waiting(ring);
                        let cut = rings.events_cut(ring);
                        if counts.packets == 0 && [discarded, waiting, cut] == [0; 3] {
                            // The ring is unused: most programs do not run on all processors.
                            continue;
                        }
                        let is_last = ring + 1 == rings.count();
                        replies.push(Reply::Ring(Ring {
                            session: session.name.clone(),
                            channel: channel.name.clone(),
                            pid: program.process.pid,
                            cpu: (!is_last).then_some(ring as u32),
                            time_ns: blkkin_sys::monotonic_ns(),
                            events_recorded: Some(rings.recorded(ring)),
                            events_discarded: discarded,
                            packets_taken: counts.packets,
                            packets_lost: counts.packets_lost,
                            bytes_written: counts.bytes.saturating_add(waiting),
                            bytes_waiting: waiting,
                            size: rings.shape().ring_size() as u64,
                            events_cut: cut,
                        }));
                    }
                }
            }
            for (number, channel) in session.channels.iter().enumerate() {
                let key = ChannelKey { session: session.id, channel: number };
                let Some(totals) = self.sessions.totals(key) else { continue };
                replies.push(Reply::Ended(totals.message(&session.name, &channel.channel.name)));
            }
            for (number, channel) in session.channels.iter().enumerate() {
                let key = ChannelKey { session: session.id, channel: number };
                let Some(evictions) = self.sessions.evictions(key) else { continue };
                replies.push(Reply::Released(blkkin_control::EvictedRings {
                    session: session.name.clone(),
                    channel: channel.channel.name.clone(),
                    rings: evictions.rings,
                    packets_lost: evictions.packets_lost,
                }));
            }
        }
        for (at, session) in self.sessions.list.iter().enumerate() {
            if only.is_none_or(|only| only == at) && who.sees(session) {
                replies.extend(self.sessions.loss_replies(session, self.programs.all()));
            }
        }
        let shown = self
            .sessions
            .list
            .iter()
            .enumerate()
            .filter(|(at, session)| only.is_none_or(|only| only == *at) && who.sees(session));
        let shown: Vec<SessionId> = shown.map(|(_, session)| session.id).collect();
        for id in shown {
            replies.extend(self.sessions.reaches(id, self.programs.all()));
            replies.extend(self.sessions.forwardings.reply(id));
        }
        if only.is_none() {
            let user = (!who.is_privileged).then_some(who.owner.uid);
            replies.extend(self.sessions.forwardings.ended_replies(user));
            replies.extend(
                self.sessions.destroyed_losses(|uid| who.is_privileged || uid == who.owner.uid),
            );
        }
        let accounts = self.accounts.all().into_iter();
        let seen = |account: &&Account| {
            who.is_privileged || account.uid() == self.accounts.owner_of(who.owner.uid)
        };
        let quotas = accounts.filter(seen).flat_map(Account::messages);
        replies.extend(quotas.filter(|_| name.is_none()).map(Reply::Quota));
        Ok(Answer::Done(replies))
    }
}

/// Checks a session's limit on the size of a program's rings.
fn check_memory(memory: u64, account: &Account) -> Result<(), Failed> {
    let (smallest, largest) = memory_bounds();
    if !(smallest..=largest).contains(&memory) {
        let what = format!(
            "rings of {memory} bytes; those of one program have {smallest} to {largest} bytes on \
             this machine: one ring for each processor, and one more"
        );
        return Err(failed(code::BAD_VALUE, what));
    }
    if !account.is_within_limit(Quota::RingBytes, memory) {
        let (limit, _) = account.limit_and_left(Quota::RingBytes);
        let what = format!(
            "rings of {memory} bytes for each program; all rings of user {} may have {limit} bytes",
            account.uid()
        );
        return Err(failed(code::QUOTA, what));
    }
    Ok(())
}

/// Checks that a channel's maximum event size is permitted, and fits into a sub-buffer.
fn check_event_size(size: u32, shape: &Shape) -> Result<(), String> {
    let (size_min, size_max) = (*EVENT_SIZES.start(), *EVENT_SIZES.end());
    if !EVENT_SIZES.contains(&size) {
        return Err(format!("events are bounded to {size_min} to {size_max} bytes, not {size}"));
    }
    let (room, subbuffer) = (shape.event_size_max(), shape.subbuffer_size);
    match size as usize <= room {
        true => Ok(()),
        false => Err(format!(
            "a sub-buffer of {subbuffer} bytes holds events of up to {room} bytes, not {size}"
        )),
    }
}
