//! What commands ask for: who may, what it means, and when it is done.

use crate::attach::{fill_in_sizes, shape_of};
use crate::catalog::Catalog;
use crate::clear;
use crate::clock::Rates;
use crate::date;
use crate::engine::{Agent, Id, State, Totals};
use crate::foreign::Foreign;
use crate::owner::Owner;
use crate::process;
use crate::quota::{Account, Exceeded, Share, What};
use crate::session::{Session, SessionChannel, SessionId, SessionRule};
use blkkin_control::sampling::Sampling;
use blkkin_control::{
    Activity, Application, Applications, Channel, Decoder, Ended, Events, Failed, Mode, NewChannel,
    Purpose, Reply, Request, Ring, Snapshot, ToApplication, code, limits,
};
use blkkin_filter::Filter;
use jiff::Zoned;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
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
}

/// A request that is done when programs have done what they were told.
#[derive(Debug)]
pub(crate) struct Pending {
    command: Id,
    /// Programs, and the number that each has to answer with.
    waits_for: Vec<(Id, u64)>,
    /// Programs that are stopped are not waited for longer.
    pub(crate) deadline: Instant,
    then: Then,
}

/// What is left to do then.
#[derive(Debug)]
enum Then {
    Nothing,
    /// What programs have recorded for the session of that number is to be written.
    Write(SessionId),
    /// The session is to go, of that number.
    Destroy(SessionId),
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
    When(Then),
    /// When what the session at that place has recorded is dropped.
    Cleared(usize, Share),
}

fn failed(code: &str, message: impl Into<String>) -> Failed {
    Failed { code: code.to_owned(), message: message.into(), hint: None }
}

fn exceeded(exceeded: Exceeded) -> Failed {
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
        let outcome = self.act(who, request, &mut end);
        // What programs have to follow in is noted when they have.
        let is_done = !matches!(end, End::AsBefore | End::When(Then::Write(_) | Then::Destroy(_)));
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
                    End::When(then) => self.answer_when_settled(id, then),
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

    /// Tells all programs what has changed, and answers when they have followed.
    fn answer_when_settled(&mut self, command: Id, then: Then) {
        let all: Vec<Id> = self.applications.keys().copied().collect();
        let mut waits_for = Vec::new();
        for id in all {
            let is_let_go = match then {
                Then::Destroy(session) => self.let_go(id, session),
                _ => false,
            };
            if self.update(id) || is_let_go {
                waits_for.push((id, self.ping(id)));
            }
        }
        let deadline = Instant::now() + PATIENCE;
        self.pending.push(Pending { command, waits_for, deadline, then });
        self.settle(Instant::now());
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

    /// Ends requests that wait for nothing any more.
    pub(crate) fn settle(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.pending.len() {
            let pending = &self.pending[at];
            let is_behind = |(id, ping): &(Id, u64)| {
                self.applications.get(id).is_some_and(|application| !application.is_settled(*ping))
            };
            if now < pending.deadline && pending.waits_for.iter().any(is_behind) {
                at += 1;
                continue;
            }
            let Pending { command, then, .. } = self.pending.swap_remove(at);
            let trouble = match then {
                Then::Nothing => None,
                Then::Write(session) => self.write_all(session),
                Then::Destroy(session) => {
                    let trouble = self.detach(session);
                    self.ended.retain(|(ended, _), _| *ended != session);
                    self.released.retain(|(released, _), _| *released != session);
                    trouble
                }
            };
            self.save();
            let reply = match trouble {
                None => Reply::Done,
                Some(error) => {
                    let what = format!("not all that was recorded can be written: {error}");
                    Reply::Failed(failed(code::OUTPUT, what))
                }
            };
            self.answer(command, &reply);
            // Requests may have come meanwhile.
            self.resumed.insert(command);
        }
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
            Request::CreateSession(session) => self.create_session(who, session),
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
                *end = End::When(Then::Nothing);
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
                *end = End::When(Then::Write(session.id));
                Ok(vec![])
            }
            Request::DestroySession(name) => {
                let at = self.find(who, &name)?;
                let session = self.sessions.remove(at);
                *end = End::When(Then::Destroy(session.id));
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
                let written = self.snapshot(at, output.map(|output| (output, who.owner)));
                let path = written.map_err(|error| failed(code::OUTPUT, error.to_string()))?;
                Ok(vec![Reply::Written(path)])
            }
            Request::ListSessions(name) => self.list(who, name.as_deref()),
            Request::CreateChannel(NewChannel { session, channel }) => {
                let at = self.find(who, &session)?;
                self.create_channel(at, channel)?;
                Ok(vec![])
            }
            Request::EnableEvents(events) => self.change_events(who, true, events, end),
            Request::DisableEvents(events) => self.change_events(who, false, events, end),
            Request::ListApplications(wanted) => Ok(self.list_applications(who, &wanted)),
            Request::Status(name) => self.status(who, name.as_deref()),
            Request::GetSampling => {
                let rules = self.sampling.get(&who.owner.uid);
                Ok(vec![Reply::Sampling(rules.cloned())])
            }
            Request::SetSampling(rules) => {
                if let Some(Err(error)) = rules.as_deref().map(str::parse::<Sampling>) {
                    return Err(failed(code::BAD_VALUE, error.to_string()));
                }
                if self.sampling.get(&who.owner.uid) == rules.as_ref() {
                    *end = End::AsBefore;
                    return Ok(vec![]);
                }
                match &rules {
                    Some(rules) => self.sampling.insert(who.owner.uid, rules.clone()),
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

    fn create_session(&mut self, who: Who, wanted: blkkin_control::Session) -> Outcome {
        let name = wanted.name;
        if self.sessions.iter().any(|one| one.name == name && who.owns(one)) {
            let message = format!("there is a session `{name}` already");
            return Err(failed(code::SESSION_EXISTS, message));
        }
        if self.sessions.iter().filter(|one| who.owns(one)).count() >= SESSIONS_MAX {
            let mut failed = failed(
                code::QUOTA,
                format!("user {} has {SESSIONS_MAX} sessions already", who.owner.uid),
            );
            failed.hint = Some("end some with `blkkin session destroy`".into());
            return Err(failed);
        }
        let created = Zoned::now();
        let output = match wanted.output {
            Some(output) => output,
            None => {
                let home =
                    || process::home_of(who.owner.uid).map(|home| home.join("blkkin-traces"));
                let traces = self.options.traces.clone().or_else(home).ok_or_else(|| {
                    failed(code::OUTPUT, "the user has no home directory; say where the trace goes")
                })?;
                traces.join(format!("{name}-{}", date::for_names(&created)))
            }
        };
        who.owner.create_directory(&output).map_err(|error| {
            failed(code::OUTPUT, format!("cannot create `{}`: {error}", output.display()))
        })?;
        self.sessions.push(Session {
            id: self.next_session,
            name,
            owner: who.owner,
            is_privileged: who.is_privileged,
            purpose: wanted.purpose,
            output: output.clone(),
            activity: Activity::New,
            created,
            channels: Vec::new(),
            snapshots: 0,
            rates: Rates::default(),
        });
        self.next_session += 1;
        Ok(vec![Reply::Written(output)])
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
        shape_of(&channel, 0, [0; 16])
            .check()
            .map_err(|error| failed(code::BAD_VALUE, format!("channel `{name}`: {error}")))?;
        session.channels.push(SessionChannel::new(channel));
        Ok(())
    }

    /// Enables or disables events.
    fn change_events(&mut self, who: Who, enabled: bool, events: Events, end: &mut End) -> Outcome {
        let at = self.find(who, &events.session)?;
        if let Some(Err(error)) = events.selection.filter.as_deref().map(Filter::parse) {
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
        *end = End::When(Then::Nothing);
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
        }
        Ok(replies)
    }

    fn list_applications(&self, who: Who, wanted: &Applications) -> Vec<Reply> {
        let mut replies = Vec::new();
        for application in self.applications.values() {
            let process = &application.process;
            let is_own = who.is_privileged || process.uid == who.owner.uid;
            if !is_own || !process.is_among(&wanted.processes) {
                continue;
            }
            let types = application.catalog.as_ref().map_or(&[][..], |catalog| catalog.types());
            replies.push(Reply::Application(Application {
                pid: process.pid,
                pid_inner: application.pid_inner,
                uid: process.uid,
                program: application.program.clone(),
                executable: printable(&process.executable),
                release: application.release.clone(),
                clock: application.clock,
                event_type_count: types.len() as u32,
                event_types_refused: application.catalog.as_ref().map_or(0, Catalog::refused),
            }));
            if wanted.event_types {
                replies.extend(types.iter().cloned().map(Reply::EventType));
            }
        }
        replies
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
                        if counts.packets == 0 && discarded == 0 && waiting == 0 {
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
                            events_recorded: None,
                            events_discarded: discarded,
                            packets_taken: counts.packets,
                            packets_lost: counts.packets_lost,
                            bytes_written: counts.bytes.saturating_add(waiting),
                            bytes_waiting: waiting,
                            size: rings.shape().ring_size() as u64,
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
        let accounts = self.accounts.all().into_iter();
        let seen = |account: &&Account| who.is_privileged || account.uid() == who.owner.uid;
        let quotas = accounts.filter(seen).flat_map(Account::told);
        replies.extend(quotas.filter(|_| name.is_none()).map(Reply::Quota));
        Ok(replies)
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
    fn told(self, session: &str, channel: &str) -> Ended {
        Ended {
            session: session.to_owned(),
            channel: channel.to_owned(),
            rings: self.rings,
            events_recorded: None,
            events_discarded: self.discarded,
            packets_taken: self.packets,
            packets_lost: self.packets_lost,
            bytes_written: self.bytes,
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
