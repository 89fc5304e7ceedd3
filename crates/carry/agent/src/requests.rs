//! What commands ask for: who may, what it means, and when it is done.

use crate::application;
use crate::attach::{fill_in_sizes, shape_of};
use crate::catalog::Catalog;
use crate::clear;
use crate::clock::Rates;
use crate::date;
use crate::engine::{Agent, Id, ROOM, State, Totals};
use crate::foreign::Foreign;
use crate::output::Output;
use crate::outputs::OutputPurpose;
use crate::owner::Owner;
use crate::process;
use crate::quota::{Account, Exceeded, Share, What};
use crate::session::{
    Executable, SamplingRules, Session, SessionChannel, SessionId, SessionRule, size_of_channel,
    size_of_sampling, size_of_session,
};
use blkkin_control::sampling::Sampling;
use blkkin_control::{
    Activity, Application, Applications, Channel, Decoder, EVENT_SIZES, Ended, Events, Failed,
    Mode, NewChannel, Purpose, Reply, Request, Ring, SessionLimit, Snapshot, ToApplication,
    WAIT_FOREVER, WAIT_MAX_US, code, limits,
};
use blkkin_filter::Filter;
use blkkin_ring::Shape;
use jiff::Zoned;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A command that has connected.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) decoder: Decoder<Request, Foreign<OwnedFd>>,
    pub(crate) owner: Owner,
    /// Whether it may control everybody's sessions.
    pub(crate) is_privileged: bool,
    /// Whether the answer to its last request is not complete.
    pub(crate) is_busy: bool,
    /// A list that is sent as it is read.
    pub(crate) listing: Option<Listing>,
}

/// A list of programs that is being sent.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Programs that have not been listed as a whole.
    left: VecDeque<Id>,
    /// Which of the first one's types comes next, once it has been listed itself.
    next_type: Option<usize>,
    with_types: bool,
}

/// Bytes of a list that wait to be sent before what comes behind them is put together.
const LISTED_AHEAD: usize = 256 << 10;
/// How long programs are told of changes before others get their turn.
const VISITS_AT_ONCE: Duration = Duration::from_millis(10);

/// A request that is done when programs have done what they were told.
#[derive(Debug)]
pub(crate) struct Pending {
    command: Id,
    /// The session that has changed.
    session: SessionId,
    /// Programs that are still to be told.
    to_visit: Vec<Id>,
    /// Programs, and the number that each has to answer with.
    waits_for: Vec<(Id, u64)>,
    /// Programs that are stopped are not waited for longer, once all have been told.
    deadline: Option<Instant>,
    then: Then,
}

impl Pending {
    /// When it is to be gone on with.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        self.deadline.unwrap_or(now)
    }
}

/// What is left to do then.
#[derive(Debug)]
enum Then {
    Nothing,
    /// What programs have recorded for the session of that number is to be written.
    Write(SessionId),
    /// The session is to go, of that number, name and user.
    Destroy(SessionId, String, u32),
}

/// Whose the session was that has changed, and whether it may record programs of all users.
#[derive(Clone, Copy, Debug)]
struct Concerned {
    session: SessionId,
    /// None if it may record programs of all users.
    uid: Option<u32>,
}

impl Concerned {
    fn by(session: &Session) -> Concerned {
        let uid = (!session.is_privileged).then_some(session.owner.uid);
        Concerned { session: session.id, uid }
    }
}

const PATIENCE: Duration = Duration::from_millis(2000);
/// Sessions of one user.
const SESSIONS_MAX: usize = 256;
/// Channels of a session.
const CHANNELS_MAX: usize = 32;
/// The channel that is made for events when there is none: LTTng's name.
const FIRST_CHANNEL: &str = "channel0";

type Outcome = Result<Vec<Reply>, Failed>;

/// A request's end: at once, or when programs have followed.
enum End {
    Now,
    /// At once, and nothing has changed.
    AsBefore,
    When(Then, Concerned),
    /// When its directory has been made.
    Made((PathBuf, Owner), OutputPurpose),
    /// When programs have been listed.
    Listed(Listing),
    /// When what the session at that place has recorded is dropped.
    Cleared(usize, Share),
}

fn failed(code: &str, message: impl Into<String>) -> Failed {
    Failed { code: code.to_owned(), message: message.into(), hint: None }
}

pub(crate) fn exceeded(exceeded: Exceeded) -> Failed {
    Failed { hint: Some(exceeded.advice().into()), ..failed(code::QUOTA, exceeded.reason()) }
}

impl Agent {
    /// Acts on a request, and answers it at once or later.
    pub(crate) fn request(&mut self, id: Id, request: Request) {
        let Some(State::Command(command)) = self.peers.get_mut(&id).map(|peer| &mut peer.state)
        else {
            return;
        };
        command.is_busy = true;
        let who = Who { owner: command.owner, is_privileged: command.is_privileged };
        let mut end = End::Now;
        let changes = !matches!(
            request,
            Request::ListSessions(_)
                | Request::ListApplications(_)
                | Request::Status(_)
                | Request::GetSampling
        );
        self.count_cut_off();
        let outcome = self.act(who, request, &mut end);
        // What programs have to follow in is noted when they have.
        let is_done = !matches!(
            end,
            End::AsBefore | End::Made(..) | End::When(Then::Write(_) | Then::Destroy(..), _)
        );
        if changes && is_done && outcome.is_ok() {
            self.save();
        }
        match outcome {
            Err(failed) => self.answer(id, &Reply::Failed(failed)),
            Ok(replies) => {
                for reply in &replies {
                    self.reply(id, reply);
                }
                match end {
                    End::Now | End::AsBefore => self.answer(id, &Reply::Done),
                    End::When(then, concerned) => self.answer_when_settled(id, then, concerned),
                    End::Made(output, purpose) => self.make_output(id, output, purpose),
                    End::Listed(listing) => self.list_on(id, listing),
                    End::Cleared(at, descriptors) => self.clear(id, at, descriptors),
                }
            }
        }
    }

    pub(crate) fn unknown_request(&mut self, id: Id) {
        let mut failed = failed(code::UNKNOWN_REQUEST, "the agent does not know this request");
        failed.hint =
            Some("it is older than this command: restart it with the same release".into());
        self.reply(id, &Reply::Failed(failed));
    }

    /// Gives a request's last reply; the next request may be taken.
    pub(crate) fn answer(&mut self, id: Id, reply: &Reply) {
        if let Some(State::Command(command)) = self.peers.get_mut(&id).map(|peer| &mut peer.state) {
            command.is_busy = false;
        }
        self.reply(id, reply);
        self.watch(id);
    }

    /// Tells all programs that a change concerns of it, and answers when they have followed.
    fn answer_when_settled(&mut self, command: Id, then: Then, concerned: Concerned) {
        let is_concerned = |one: &application::Application| {
            concerned.uid.is_none_or(|uid| uid == one.process.uid)
                && (one.catalog.is_some() || !one.attachments.is_empty())
        };
        let concerned_ids = self.applications.iter().filter(|(_, one)| is_concerned(one));
        let to_visit: Vec<Id> = concerned_ids.map(|(id, _)| *id).collect();
        let (session, waits_for, deadline) = (concerned.session, Vec::new(), None);
        self.pending.push_back(Pending { command, session, to_visit, waits_for, deadline, then });
        self.settle(Instant::now());
    }

    /// Goes on to tell programs what has changed; gives whether all have been told.
    fn visit(&mut self, pending: &mut Pending, until: Instant) -> bool {
        let at = self.sessions.iter().position(|one| one.id == pending.session);
        while let Some(id) = pending.to_visit.pop() {
            let has_changed = match (&pending.then, at) {
                (Then::Destroy(session, ..), _) => self.let_go(id, *session),
                (_, Some(at)) => self.update_session(id, at),
                (_, None) => false,
            };
            if has_changed {
                pending.waits_for.push((id, self.ping(id)));
            }
            if Instant::now() >= until {
                break;
            }
        }
        pending.to_visit.is_empty()
    }

    /// Has a program let go of the rings of a session; gives whether it had some.
    fn let_go(&mut self, id: Id, session: SessionId) -> bool {
        let Some(application) = self.applications.get(&id) else { return false };
        let own = application.attachments.iter().filter(|one| one.session == session);
        let own = own.map(|one| (one.number, one.is_removed()));
        let numbers: Vec<(u32, bool)> = own.collect();
        for (number, _) in numbers.iter().filter(|(_, is_removed)| !is_removed) {
            self.send(id, &ToApplication::RemoveChannel(*number), vec![]);
        }
        !numbers.is_empty()
    }

    /// Goes on with requests that concern programs, and ends those that wait for nothing any more. Each has its
    /// turn.
    pub(crate) fn settle(&mut self, now: Instant) {
        let until = now + VISITS_AT_ONCE;
        for _ in 0..self.pending.len() {
            let Some(mut pending) = self.pending.pop_front() else { break };
            if pending.deadline.is_none()
                && Instant::now() < until
                && self.visit(&mut pending, until)
            {
                pending.deadline = Some(Instant::now() + PATIENCE);
            }
            let is_settled = |(id, ping): &(Id, u64)| {
                self.applications.get(id).is_none_or(|application| application.is_settled(*ping))
            };
            // Those that have followed are not looked at again.
            while pending.waits_for.pop_if(|last| is_settled(last)).is_some() {}
            let is_over = pending
                .deadline
                .is_some_and(|deadline| now >= deadline || pending.waits_for.is_empty());
            if !is_over {
                self.pending.push_back(pending);
                continue;
            }
            let Pending { command, then, .. } = pending;
            let has_written = !matches!(then, Then::Nothing);
            let trouble = match then {
                Then::Nothing => None,
                Then::Write(id) => {
                    let trouble = self.write_all(id);
                    let session = self.sessions.iter().find(|session| session.id == id);
                    let losses = session.map(|session| self.last_loss_replies(session));
                    losses.iter().flatten().for_each(|loss| self.reply(command, loss));
                    trouble
                }
                Then::Destroy(id, name, uid) => {
                    // What cannot be written is counted.
                    let _ = self.detach(id);
                    // Rings that come back later are nobody's.
                    self.count_loss(id, &self.unreturned(id));
                    self.ended.retain(|(ended, _), _| *ended != id);
                    self.released.retain(|(released, _), _| *released != id);
                    let losses = self.bury(id, name, uid);
                    losses.iter().for_each(|loss| self.reply(command, loss));
                    None
                }
            };
            if has_written {
                self.save();
            }
            let reply = match trouble {
                None => Reply::Done,
                Some(error) => {
                    let what = format!("not all that was recorded can be written: {error}");
                    Reply::Failed(failed(code::OUTPUT, what))
                }
            };
            self.finish_request(command, &reply);
        }
    }

    /// Gives the last reply to a request that was not answered at once.
    pub(crate) fn finish_request(&mut self, command: Id, reply: &Reply) {
        self.answer(command, reply);
        // Requests may have come meanwhile.
        self.resumed.insert(command);
    }

    /// Writes what is in all rings of a session now. What cannot be written of others is not this one's
    /// trouble.
    fn write_all(&mut self, session: SessionId) -> Option<io::Error> {
        let mut trouble = None;
        for application in self.applications.values_mut().chain(&mut self.departed) {
            let drained = application.drain_all(crate::engine::ROOM, Some(session));
            trouble = drained.trouble.or(trouble);
        }
        trouble
    }

    fn act(&mut self, who: Who, request: Request, end: &mut End) -> Outcome {
        match request {
            Request::CreateSession(session) => {
                self.may_create(who.owner, &session.name)?;
                let output = self.output_of(who.owner, &session)?;
                let is_privileged = who.is_privileged;
                let purpose = OutputPurpose::Session { session, is_privileged };
                *end = End::Made((output, who.owner), purpose);
                Ok(vec![])
            }
            Request::StartSession(name) => {
                let at = self.find(who, &name)?;
                let session = &mut self.sessions[at];
                if session.is_active() {
                    return Err(failed(
                        code::WRONG_STATE,
                        format!("session `{name}` records already"),
                    ));
                }
                session.activity = Activity::Active;
                *end = End::When(Then::Nothing, Concerned::by(session));
                Ok(vec![])
            }
            Request::StopSession(name) => {
                let at = self.find(who, &name)?;
                let session = &mut self.sessions[at];
                if !session.is_active() {
                    let message = format!("session `{name}` does not record");
                    return Err(failed(code::WRONG_STATE, message));
                }
                session.activity = Activity::Stopped;
                *end = End::When(Then::Write(session.id), Concerned::by(session));
                Ok(vec![])
            }
            Request::DestroySession(name) => {
                let at = self.find(who, &name)?;
                let session = self.sessions.remove(at);
                let concerned = Concerned::by(&session);
                let then = Then::Destroy(session.id, session.name, session.owner.uid);
                *end = End::When(then, concerned);
                Ok(vec![])
            }
            Request::LimitSession(SessionLimit { session, size_max }) => {
                let at = self.find(who, &session)?;
                self.sessions[at].bound.set(size_max);
                Ok(vec![])
            }
            Request::ClearSession(name) => {
                let at = self.find(who, &name)?;
                let account = self.accounts.of(who.owner.uid);
                let descriptors = account.take(What::Descriptors, clear::DEPTH_MAX);
                *end = End::Cleared(at, descriptors.map_err(exceeded)?);
                Ok(vec![])
            }
            Request::Snapshot(Snapshot { session, output }) => {
                let at = self.find(who, &session)?;
                if self.sessions[at].purpose == Purpose::Record {
                    let mut failed = failed(
                        code::WRONG_STATE,
                        format!(
                            "session `{session}` writes all that it records, so it has no snapshots"
                        ),
                    );
                    failed.hint =
                        Some("make one with `blkkin session create NAME --snapshot`".into());
                    return Err(failed);
                }
                let session = &mut self.sessions[at];
                let number = session.snapshots;
                session.snapshots += 1;
                // Where the command says, it is made with the rights of who asks, and belongs to them.
                let output = output.map(|output| (output, who.owner)).unwrap_or_else(|| {
                    let date = date::for_names(&Zoned::now());
                    let name = format!("snapshot-1-{date}-{number}");
                    (session.output.path().join(name), session.owner)
                });
                *end = End::Made(output, OutputPurpose::Snapshot(session.id));
                Ok(vec![])
            }
            Request::ListSessions(name) => self.list(who, name.as_deref()),
            Request::CreateChannel(NewChannel { session, channel }) => {
                let at = self.find(who, &session)?;
                self.create_channel(at, channel)?;
                Ok(vec![])
            }
            Request::EnableEvents(events) => self.change_events(who, true, events, end),
            Request::DisableEvents(events) => self.change_events(who, false, events, end),
            Request::ListApplications(wanted) => {
                *end = End::Listed(self.list_applications(who, &wanted));
                Ok(vec![])
            }
            Request::Status(name) => self.status(who, name.as_deref()),
            Request::GetSampling => {
                let rules = self.sampling.get(&who.owner.uid);
                Ok(vec![Reply::Sampling(rules.map(|own| own.rules.clone()))])
            }
            Request::SetSampling(rules) => {
                if let Some(Err(error)) = rules.as_deref().map(str::parse::<Sampling>) {
                    return Err(failed(code::BAD_VALUE, error.to_string()));
                }
                let before = self.sampling.get(&who.owner.uid).map(|own| &own.rules);
                if before == rules.as_ref() {
                    *end = End::AsBefore;
                    return Ok(vec![]);
                }
                match rules.clone() {
                    Some(rules) => {
                        let account = self.accounts.of(who.owner.uid);
                        let bytes = account.take(What::RuleBytes, size_of_sampling(&rules));
                        let _bytes = bytes.map_err(exceeded)?;
                        self.sampling.insert(who.owner.uid, SamplingRules { rules, _bytes })
                    }
                    None => self.sampling.remove(&who.owner.uid),
                };
                let own = self.applications.iter();
                let own = own.filter(|(_, one)| one.process.uid == who.owner.uid);
                let own: Vec<Id> = own.map(|(id, _)| *id).collect();
                for id in own {
                    self.send(id, &ToApplication::Sampling(rules.clone()), vec![]);
                }
                Ok(vec![])
            }
        }
    }

    /// The place of a session that the user may see.
    fn find(&self, who: Who, name: &str) -> Result<usize, Failed> {
        let own = self.sessions.iter().position(|one| one.name == name && who.owns(one));
        let seen = || self.sessions.iter().position(|one| one.name == name && who.sees(one));
        own.or_else(seen).ok_or_else(|| {
            let mut failed = failed(code::NO_SUCH_SESSION, format!("there is no session `{name}`"));
            let names = self.sessions.iter().filter(|one| who.sees(one)).map(|one| &*one.name);
            failed.hint =
                blkkin_filter::suggest(name, names).map(|near| format!("did you mean `{near}`?"));
            failed
        })
    }

    /// Whether a user may have one more session, of that name.
    fn may_create(&self, owner: Owner, name: &str) -> Result<(), Failed> {
        let own = || self.sessions.iter().filter(|one| one.owner.uid == owner.uid);
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

    /// Where a new session writes to.
    fn output_of(&self, owner: Owner, wanted: &blkkin_control::Session) -> Result<PathBuf, Failed> {
        if let Some(output) = &wanted.output {
            return Ok(output.clone());
        }
        let home = || process::home_of(owner.uid).map(|home| home.join("blkkin-traces"));
        let traces = self.options.traces.clone().or_else(home).ok_or_else(|| {
            failed(code::OUTPUT, "the user has no home directory; say where the trace goes")
        })?;
        Ok(traces.join(format!("{}-{}", wanted.name, date::for_names(&Zoned::now()))))
    }

    /// Adds a session whose directory has been made.
    pub(crate) fn add_session(
        &mut self,
        wanted: blkkin_control::Session,
        output: Output,
        owner: Owner,
        is_privileged: bool,
    ) -> Result<(), Failed> {
        // Another one may have been made meanwhile.
        self.may_create(owner, &wanted.name)?;
        let size = size_of_session(&wanted.name, output.path());
        let bytes = self.accounts.of(owner.uid).take(What::RuleBytes, size).map_err(exceeded)?;
        self.sessions.push(Session {
            _bytes: bytes,
            id: self.next_session,
            name: wanted.name,
            owner,
            is_privileged,
            purpose: wanted.purpose,
            output,
            activity: Activity::New,
            created: Zoned::now(),
            channels: Vec::new(),
            snapshots: 0,
            bound: Arc::default(),
            rates: Rates::default(),
        });
        self.next_session += 1;
        Ok(())
    }

    fn create_channel(&mut self, at: usize, mut channel: Channel) -> Result<(), Failed> {
        fill_in_sizes(&mut channel);
        let session = &mut self.sessions[at];
        let name = &channel.name;
        if session.channels.iter().any(|one| one.channel.name == *name) {
            let message = format!("session `{}` has a channel `{name}` already", session.name);
            return Err(failed(code::CHANNEL_EXISTS, message));
        }
        if session.channels.len() >= CHANNELS_MAX {
            let message = format!("session `{}` has {CHANNELS_MAX} channels already", session.name);
            return Err(failed(code::QUOTA, message));
        }
        let bad_value = |why| failed(code::BAD_VALUE, format!("channel `{name}`: {why}"));
        let shape = shape_of(&channel, 0, [0; 16]);
        shape.check().map_err(|error| bad_value(error.to_string()))?;
        if let Some(size) = channel.event_size {
            check_event_size(size, &shape).map_err(bad_value)?;
        }
        let time = channel.wait_us;
        if time != WAIT_FOREVER && time > WAIT_MAX_US {
            return Err(bad_value(format!("events wait at most {WAIT_MAX_US} us, not {time}")));
        }
        let account = self.accounts.of(session.owner.uid);
        let bytes = account.take(What::RuleBytes, size_of_channel(&channel)).map_err(exceeded)?;
        session.channels.push(SessionChannel::new(channel, bytes));
        Ok(())
    }

    /// Enables or disables events.
    fn change_events(&mut self, who: Who, enabled: bool, events: Events, end: &mut End) -> Outcome {
        let at = self.find(who, &events.session)?;
        if let Some(Err(error)) =
            events.selection.filter.as_deref().map(Filter::parse_for_recording)
        {
            return Err(failed(code::BAD_VALUE, format!("the filter cannot be used: {error}")));
        }
        let account = self.accounts.of(self.sessions[at].owner.uid);
        let rule = SessionRule::new(&account, enabled, events.selection).map_err(exceeded)?;
        if self.sessions[at].channels.is_empty() && enabled {
            let mode = match self.sessions[at].purpose {
                Purpose::Record => Mode::Discard,
                Purpose::Snapshot => Mode::Overwrite,
            };
            let name = events.channel.clone().unwrap_or_else(|| FIRST_CHANNEL.to_owned());
            let channel = Channel { mode, ..Channel::named(name) };
            self.create_channel(at, channel)?;
        }
        let session = &mut self.sessions[at];
        let named = |channel: &SessionChannel| match &events.channel {
            Some(name) => channel.channel.name == *name,
            None => true,
        };
        let mut found = session.channels.iter_mut().filter(|channel| named(channel));
        let (Some(channel), None) = (found.next(), found.next()) else {
            let names: Vec<&str> =
                session.channels.iter().map(|channel| &*channel.channel.name).collect();
            let mut failed = match &events.channel {
                Some(name) => failed(
                    code::NO_SUCH_CHANNEL,
                    format!("session `{}` has no channel `{name}`", session.name),
                ),
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
        if !channel.add(rule) {
            let message = format!("channel `{}` has too many rules", channel.channel.name);
            return Err(failed(code::QUOTA, message));
        }
        *end = End::When(Then::Nothing, Concerned::by(session));
        Ok(vec![])
    }

    fn list(&self, who: Who, name: Option<&str>) -> Outcome {
        let all = 0..self.sessions.len();
        let wanted = match name {
            Some(name) => {
                let at = self.find(who, name)?;
                at..at + 1
            }
            None => all,
        };
        let mut replies = Vec::new();
        for session in self.sessions[wanted].iter().filter(|session| who.sees(session)) {
            replies.push(Reply::Session(session.state()));
            for channel in &session.channels {
                replies.push(Reply::Channel(channel.channel.clone()));
            }
            let rules = session.channels.iter().flat_map(SessionChannel::told_rules);
            replies.extend(rules.map(Reply::Rule));
            replies.extend(self.loss_replies(session));
        }
        Ok(replies)
    }

    fn list_applications(&self, who: Who, wanted: &Applications) -> Listing {
        let executables: Vec<Executable> =
            wanted.processes.executables.iter().map(|text| Executable::new(text)).collect();
        let is_wanted = |one: &application::Application| {
            let is_own = who.is_privileged || one.process.uid == who.owner.uid;
            is_own && one.process.is_among(&wanted.processes, &executables)
        };
        let left = self.applications.iter().filter(|(_, one)| is_wanted(one));
        let left = left.map(|(id, _)| *id).collect();
        Listing { left, next_type: None, with_types: wanted.event_types }
    }

    /// Goes on to list programs as far as the command reads, and ends the request when all are listed.
    pub(crate) fn list_on(&mut self, id: Id, mut listing: Listing) {
        loop {
            let Some(peer) = self.peers.get(&id) else { return };
            if peer.connection.waiting_size() > LISTED_AHEAD {
                break;
            }
            let Some(reply) = self.next_listed(&mut listing) else {
                return self.finish_request(id, &Reply::Done);
            };
            self.reply(id, &reply);
        }
        if let Some(State::Command(command)) = self.peers.get_mut(&id).map(|peer| &mut peer.state) {
            command.listing = Some(listing);
        }
    }

    fn next_listed(&mut self, listing: &mut Listing) -> Option<Reply> {
        loop {
            let application = self.applications.get_mut(listing.left.front()?);
            let application = application.map(|one| {
                if listing.next_type.is_none()
                    && let Some(catalog) = &mut one.catalog
                {
                    // Types of which nobody has recorded anything yet. Those for which the user has no room are
                    // missing.
                    let _ = catalog.look(ROOM);
                }
                &*one
            });
            let types =
                application.and_then(|one| one.catalog.as_ref()).map_or(&[][..], Catalog::types);
            match (application, listing.next_type) {
                (Some(application), None) => {
                    listing.next_type = Some(0);
                    return Some(Reply::Application(told(application)));
                }
                (Some(_), Some(next)) if listing.with_types && next < types.len() => {
                    listing.next_type = Some(next + 1);
                    return Some(Reply::EventType(types[next].clone()));
                }
                _ => {
                    listing.left.pop_front();
                    listing.next_type = None;
                }
            }
        }
    }

    fn status(&self, who: Who, name: Option<&str>) -> Outcome {
        let only = name.map(|name| self.find(who, name)).transpose()?;
        let mut replies = Vec::new();
        for (at, session) in self.sessions.iter().enumerate() {
            if only.is_some_and(|only| only != at) || !who.sees(session) {
                continue;
            }
            for application in self.applications.values().chain(&self.departed) {
                let own = application.attachments.iter().filter(|one| one.session == session.id);
                for attachment in own {
                    let channel = &session.channels[attachment.channel].channel;
                    let rings = &attachment.rings;
                    for ring in 0..rings.count() {
                        let counts = rings.counts(ring);
                        let discarded = rings.discarded(ring);
                        let waiting = rings.waiting(ring);
                        let cut = rings.cut(ring);
                        if counts.packets == 0 && [discarded, waiting, cut] == [0; 3] {
                            // Of processors that never ran the program.
                            continue;
                        }
                        let is_last = ring + 1 == rings.count();
                        replies.push(Reply::Ring(Ring {
                            session: session.name.clone(),
                            channel: channel.name.clone(),
                            pid: application.process.pid,
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
                let Some(totals) = self.ended.get(&(session.id, number)) else { continue };
                replies.push(Reply::Ended(totals.told(&session.name, &channel.channel.name)));
            }
            for (number, channel) in session.channels.iter().enumerate() {
                let released = self.released.get(&(session.id, number));
                let Some(released) = released.filter(|released| released.rings > 0) else {
                    continue;
                };
                replies.push(Reply::Released(blkkin_control::Released {
                    session: session.name.clone(),
                    channel: channel.channel.name.clone(),
                    rings: released.rings,
                    packets_lost: released.packets_lost,
                }));
            }
        }
        for (at, session) in self.sessions.iter().enumerate() {
            if only.is_none_or(|only| only == at) && who.sees(session) {
                replies.extend(self.loss_replies(session));
            }
        }
        if only.is_none() {
            replies.extend(self.buried(|uid| who.is_privileged || uid == who.owner.uid));
        }
        let accounts = self.accounts.all().into_iter();
        let seen = |account: &&Account| {
            who.is_privileged || account.uid() == self.accounts.owner_of(who.owner.uid)
        };
        let quotas = accounts.filter(seen).flat_map(Account::told);
        replies.extend(quotas.filter(|_| name.is_none()).map(Reply::Quota));
        Ok(replies)
    }
}

/// Checks the bound on a channel's events.
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

/// A program as users are told of it.
fn told(application: &application::Application) -> Application {
    let process = &application.process;
    Application {
        pid: process.pid,
        pid_inner: application.pid_inner,
        uid: process.uid,
        program: application.program.clone(),
        executable: printable(&process.executable),
        release: application.release.clone(),
        clock: application.clock,
        event_type_count: application.catalog.as_ref().map_or(0, |one| one.types().len() as u32),
        event_types_refused: application.catalog.as_ref().map_or(0, Catalog::refused),
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
struct Who {
    owner: Owner,
    is_privileged: bool,
}

impl Who {
    fn owns(self, session: &Session) -> bool {
        session.owner.uid == self.owner.uid
    }

    fn sees(self, session: &Session) -> bool {
        self.is_privileged || self.owns(session)
    }
}

impl Totals {
    /// Takes over what an earlier agent has noted.
    pub(crate) fn of(ended: &Ended) -> Totals {
        Totals {
            rings: ended.rings,
            recorded: ended.events_recorded,
            discarded: ended.events_discarded,
            packets: ended.packets_taken,
            packets_lost: ended.packets_lost,
            bytes: ended.bytes_written,
            cut: ended.events_cut,
        }
    }

    pub(crate) fn told(self, session: &str, channel: &str) -> Ended {
        Ended {
            session: session.to_owned(),
            channel: channel.to_owned(),
            rings: self.rings,
            events_recorded: self.recorded,
            events_discarded: self.discarded,
            packets_taken: self.packets,
            packets_lost: self.packets_lost,
            bytes_written: self.bytes,
            events_cut: self.cut,
        }
    }
}

/// A path as text that can be shown.
fn printable(path: &Path) -> String {
    let plain = |letter: char| if letter.is_control() { '?' } else { letter };
    let mut text: String = path.to_string_lossy().chars().map(plain).collect();
    while text.len() > limits::PATH_SIZE_MAX {
        text.pop();
    }
    text
}
