//! Shared code of the commands that talk to the node's agent: connecting, choosing the session,
//! reporting the result.

pub(crate) mod json;

use crate::exit::{Error, note};
use crate::losses;
use crate::output::{self, ignore_closed_pipe};
use crate::reach;
use crate::values;
use blkkin_client::{Client, Timeouts};
use blkkin_control::{
    Channel, Chunks, Fault, Forwarding, Loss, NewChannel, NewPart, NewSharedChannel, Reach, Reason,
    RecentSnapshot, RedactedEvents, RedactedRule, Reply, Request, Retention, SessionState, Sharing,
    code,
};
use blkkin_filter::suggest;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of names listed in a hint.
const NAMES_SHOWN_MAX: usize = 20;

/// Options of the commands that talk to the node's agent.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct AgentArgs {
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// How long to wait for an answer of the agent; 0 waits for ever
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "30",
        value_parser = values::patience,
        help_heading = "Agent"
    )]
    timeout: Duration,
}

impl AgentArgs {
    /// Connects to the agent at `BLKKIN_SOCKET` or, if the variable is not set, to the user's own
    /// agent, or else to the system's.
    pub(crate) fn connect(&self) -> Result<AgentConnection, Error> {
        let item = self.timeout;
        // While a thousand programs register, an agent may take as long to accept a connection as
        // to answer.
        AgentConnection::open(Timeouts { opening: item, item })
    }

    /// Sends a request about one session: the session that the user named, or the agent's only
    /// session.
    pub(crate) fn request_for_session(
        &self,
        named: Option<&str>,
        request: impl Fn(String) -> Request,
    ) -> Result<ActionResult, Error> {
        check(&request(named.unwrap_or("session").to_owned()))?;
        let mut conversation = self.connect()?;
        let session = match named {
            Some(name) => name.to_owned(),
            None => conversation.only_session()?,
        };
        let replies = conversation.request(&request(session.clone()))?;
        Ok(ActionResult {
            agent: conversation.address(),
            session,
            losses: losses::from_replies(&replies),
            reaches: reach::from_replies(&replies),
            retention: reach::retention_of(&replies),
            written: written_paths(replies),
        })
    }

    /// Reports a completed action. As text: a sentence and the losses to standard error, and the
    /// paths of written traces to standard output. As JSON: one object, with the additional members
    /// `more`.
    pub(crate) fn report(
        &self,
        done: &ActionResult,
        action: &str,
        words: impl Display,
        more: &[(&str, serde_json::Value)],
    ) -> Result<(), Error> {
        if self.json {
            let mut object = serde_json::json!({
                "schema": "blkkin.done.v1",
                "agent": done.agent,
                "done": action,
                "session": done.session,
                "written": done.written.iter().map(|path| path.display().to_string())
                    .collect::<Vec<_>>(),
            });
            for (key, value) in more {
                object[*key] = value.clone();
            }
            return print(&format!("{object}\n"));
        }
        let agent = &done.agent;
        let colon = if done.written.is_empty() { "" } else { ":" };
        note(&format!("{words} (agent at {agent}){colon}"));
        losses::report(&done.losses);
        let paths: String =
            done.written.iter().map(|path| format!("{}\n", path.display())).collect();
        print(&paths)
    }
}

/// Result of a completed request to an agent, to be reported to the user.
#[derive(Debug)]
pub(crate) struct ActionResult {
    pub(crate) agent: String,
    pub(crate) session: String,
    pub(crate) written: Vec<PathBuf>,
    /// Losses of the session. Empty for commands that do not end a recording.
    pub(crate) losses: Vec<Loss>,
    /// Reach of the rings that a snapshot has copied.
    pub(crate) reaches: Vec<Reach>,
    /// Retention of the session that a snapshot has copied, if its creator has stated one.
    pub(crate) retention: Option<Retention>,
}

impl ActionResult {
    /// Returns the result of an action on a session without written traces and losses.
    pub(crate) fn new(agent: String, session: String) -> ActionResult {
        let (written, losses, reaches) = (Vec::new(), Vec::new(), Vec::new());
        ActionResult { agent, session, written, losses, reaches, retention: None }
    }
}

/// Returns the paths of written traces in the agent's replies.
pub(crate) fn written_paths(replies: Vec<Reply>) -> Vec<PathBuf> {
    let path = |reply| match reply {
        Reply::Written(path) => Some(path),
        _ => None,
    };
    replies.into_iter().filter_map(path).collect()
}

/// Writes to standard output; a closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    Ok(ignore_closed_pipe(output::write(text))?)
}

/// Connection to an agent. An error about an unknown session or channel has a hint with the
/// existing names.
#[derive(Debug)]
pub(crate) struct AgentConnection {
    client: Client,
}

/// Channel of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionChannel {
    pub(crate) channel: Channel,
    /// Set if the channel records events of the kernel.
    pub(crate) is_kernel: bool,
    /// Part of the channel in the sharing of memory, if it has one.
    pub(crate) sharing: Option<Sharing>,
}

impl SessionChannel {
    /// Makes a channel with memory of its own.
    pub(crate) fn new(channel: Channel, is_kernel: bool) -> SessionChannel {
        SessionChannel { channel, is_kernel, sharing: None }
    }

    /// Returns the request that makes the channel in a session.
    pub(crate) fn create_request(&self, session: String) -> Request {
        let (channel, is_kernel) = (self.channel.clone(), self.is_kernel);
        match &self.sharing {
            Some(Sharing::Part { of, percent }) => {
                let (channel, of, percent) = (channel.name, of.clone(), *percent);
                Request::CreatePart(NewPart { session, channel, of, percent })
            }
            Some(Sharing::Shared) => {
                Request::CreateSharedChannel(NewSharedChannel { session, channel, is_kernel })
            }
            None if is_kernel => Request::CreateKernelChannel(NewChannel { session, channel }),
            None => Request::CreateChannel(NewChannel { session, channel }),
        }
    }

    /// Returns the source of the channel's events, by its name in LTTng.
    pub(crate) fn domain(&self) -> &'static str {
        if self.is_kernel { "kernel" } else { "user" }
    }
}

/// A session with its channels, rules and losses.
#[derive(Debug)]
pub(crate) struct SessionDetails {
    pub(crate) state: SessionState,
    pub(crate) channels: Vec<SessionChannel>,
    /// Rules, of which most have no redactions.
    pub(crate) rules: Vec<RedactedRule>,
    pub(crate) losses: Vec<Loss>,
    /// Retention that the session's creator has stated.
    pub(crate) retention: Option<Retention>,
    /// Reach of each program's rings. Empty unless the session is for snapshots, and was named in
    /// the request.
    pub(crate) reaches: Vec<Reach>,
    /// Forwarding to a relay.
    pub(crate) forwarding: Option<Forwarding>,
    /// Limit on the total size of the session's traces in bytes.
    pub(crate) size_max: Option<u64>,
    /// Duration of the longest write in nanoseconds, if the traces are written without the page
    /// cache.
    pub(crate) direct: Option<u64>,
    /// Summary of the chunks, if the session's trace is divided.
    pub(crate) chunks: Option<Chunks>,
}

impl AgentConnection {
    /// Connects to the agent of this user, or else to the system's.
    pub(crate) fn open(patience: Timeouts) -> Result<AgentConnection, Error> {
        let (addresses, release) = (blkkin_client::addresses(), env!("CARGO_PKG_VERSION"));
        let client = Client::connect(&addresses, "blkkin", release, patience);
        Ok(AgentConnection { client: client.map_err(with_timeout_hint)? })
    }

    pub(crate) fn address(&self) -> String {
        self.client.address().display().to_string()
    }

    pub(crate) fn release(&self) -> &str {
        self.client.release()
    }

    /// Sends a request and returns all items of the reply. If the request fails, reports the losses
    /// among the items received before the failure.
    pub(crate) fn request(&mut self, request: &Request) -> Result<Vec<Reply>, Error> {
        let mut replies = Vec::new();
        let asked = self
            .client
            .request(request)
            .and_then(|mut items| items.try_for_each(|item| item.map(|reply| replies.push(reply))));
        let Err(error) = asked else { return Ok(replies) };
        losses::report(&losses::from_replies(&replies));
        Err(match &error {
            blkkin_client::Error::Failed { failed, .. } => {
                let hint = self.names_hint(&failed.code, request);
                match hint {
                    Some(hint) => Error::from(error).hint(hint),
                    None => error.into(),
                }
            }
            _ => with_timeout_hint(error),
        })
    }

    /// Divides the trace of a session that was just created, or destroys the session. `written` is
    /// its output directory, which is removed then.
    pub(crate) fn divide(&mut self, request: &Request, written: &[PathBuf]) -> Result<(), Error> {
        let (Some(session), _) = names_of(request) else { return Ok(()) };
        let Err(error) = self.request(request) else { return Ok(()) };
        let _ = self.client.request_all(&Request::DestroySession(session.to_owned()));
        for directory in written {
            let _ = std::fs::remove_dir(directory);
        }
        Err(error)
    }

    /// Stops a session that is destroyed next. An output error is ignored, as the destroy request
    /// counts the events that could not be written.
    pub(crate) fn stop_before_destroy(&mut self, session: String) -> Result<(), Error> {
        let request = Request::StopSession(session);
        match self.client.request_all(&request) {
            Err(blkkin_client::Error::Failed { failed, .. }) if failed.code == code::OUTPUT => {
                Ok(())
            }
            Err(error) => Err(with_timeout_hint(error)),
            Ok(_) => Ok(()),
        }
    }

    /// Returns the named session, or all sessions, with channels, rules and losses.
    pub(crate) fn sessions(&mut self, named: Option<&str>) -> Result<Vec<SessionDetails>, Error> {
        let request = Request::ListSessions(named.map(str::to_owned));
        check(&request)?;
        Ok(group_by_session(self.request(&request)?))
    }

    /// Returns the relay that gets a session's traces, if they are removed here once it has them.
    pub(crate) fn spooled_to(&mut self, session: &str) -> Result<Option<String>, Error> {
        let forwarding = self.sessions(Some(session))?.pop().and_then(|one| one.forwarding);
        let destination = forwarding.map(|forwarding| forwarding.destination);
        Ok(destination.filter(|destination| destination.is_spool).map(|one| one.target))
    }

    /// Returns the name of the only session; an error if the number of sessions is not one.
    pub(crate) fn only_session(&mut self) -> Result<String, Error> {
        let mut names = self.session_names();
        match names.len() {
            0 => Err(Error::failed("there is no session").hint(MAKE_A_SESSION)),
            1 => Ok(names.remove(0)),
            _ => Err(Error::usage("there are several sessions, and none is named")
                .hint(format!("name one of {}", name_list(&names)))),
        }
    }

    /// Returns the names of all sessions; an empty list if the request fails.
    fn session_names(&mut self) -> Vec<String> {
        let replies = self.client.request_all(&Request::ListSessions(None));
        let group_by_session = group_by_session(replies.unwrap_or_default());
        group_by_session
            .into_iter()
            .map(|group_by_session| group_by_session.state.session.name)
            .collect()
    }

    /// Returns a hint with existing names if a request failed because its session or channel is
    /// unknown, or because it names no channel. Without sessions, the hint is to make one.
    fn names_hint(&mut self, code: &str, request: &Request) -> Option<String> {
        let (session, channel) = names_of(request);
        match code {
            code::NO_SUCH_SESSION => match self.session_names() {
                names if names.is_empty() => Some(MAKE_A_SESSION.into()),
                names => Some(nearest(session?, &names, "session")),
            },
            code::NO_SUCH_CHANNEL | code::WHICH_CHANNEL => {
                let list = Request::ListSessions(Some(session?.to_owned()));
                let group_by_session = group_by_session(self.client.request_all(&list).ok()?);
                let channels = group_by_session
                    .into_iter()
                    .flat_map(|group_by_session| group_by_session.channels);
                let is_meant = |one: &SessionChannel| match request {
                    Request::CreatePart(_) => one.sharing == Some(Sharing::Shared),
                    Request::RemoveChannel(_) => true,
                    _ => one.sharing != Some(Sharing::Shared),
                };
                let meant = channels.filter(is_meant);
                let names: Vec<String> = meant.map(|one| one.channel.name).collect();
                match channel {
                    _ if names.is_empty() => None,
                    Some(channel) => Some(nearest(channel, &names, "channel")),
                    None => Some(format!("name one with --channel: {}", name_list(&names))),
                }
            }
            _ => None,
        }
    }
}

/// Adds a hint about `--timeout` to a timeout error.
fn with_timeout_hint(error: blkkin_client::Error) -> Error {
    let is_late = matches!(error, blkkin_client::Error::TimedOut { .. });
    let error = Error::from(error);
    match is_late {
        true => error.hint("it may still do it: look with `blkkin status`; --timeout waits longer"),
        false => error,
    }
}

const MAKE_A_SESSION: &str = "make one with `blkkin session create NAME`";

/// Returns a hint with the name most similar to `wrong`, or with all names if none is similar.
fn nearest(wrong: &str, names: &[String], what: &str) -> String {
    match suggest(wrong, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.len() == 1 => format!("the only {what} is {}", name_list(names)),
        None => format!("the {what}s are {}", name_list(names)),
    }
}

fn name_list(names: &[String]) -> String {
    let mut name_list: Vec<String> =
        names.iter().take(NAMES_SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > NAMES_SHOWN_MAX {
        name_list.push(format!("and {} more", names.len() - NAMES_SHOWN_MAX));
    }
    name_list.join(", ")
}

/// Groups the items of a reply by session: each item belongs to the session item before it.
fn group_by_session(replies: Vec<Reply>) -> Vec<SessionDetails> {
    let mut all: Vec<SessionDetails> = Vec::new();
    for reply in replies {
        match (reply, all.last_mut()) {
            (Reply::Session(state), _) => {
                all.push(SessionDetails {
                    state,
                    channels: Vec::new(),
                    rules: Vec::new(),
                    losses: Vec::new(),
                    retention: None,
                    forwarding: None,
                    reaches: Vec::new(),
                    size_max: None,
                    direct: None,
                    chunks: None,
                });
            }
            (Reply::Channel(channel), Some(last)) => {
                last.channels.push(SessionChannel::new(channel, false));
            }
            (Reply::KernelChannel(channel), Some(last)) => {
                last.channels.push(SessionChannel::new(channel, true));
            }
            (Reply::Sharing(sharing), Some(last)) => {
                if let Some(channel) = last.channels.last_mut() {
                    channel.sharing = Some(sharing);
                }
            }
            (Reply::Rule(rule), Some(last)) => {
                last.rules.push(RedactedRule { rule, redactions: Vec::new() });
            }
            (Reply::RedactedRule(rule), Some(last)) => last.rules.push(rule),
            (Reply::Loss(loss), Some(last)) => last.losses.push(loss),
            (Reply::Forwarding(forwarding), Some(last)) => last.forwarding = Some(forwarding),
            (Reply::Retention(retention), Some(last)) => last.retention = Some(retention),
            (Reply::Reach(reach), Some(last)) => last.reaches.push(reach),
            (Reply::SizeMax(size_max), Some(last)) => last.size_max = Some(size_max),
            (Reply::Direct(slowest_ns), Some(last)) => last.direct = Some(slowest_ns),
            (Reply::Chunks(chunks), Some(last)) => last.chunks = Some(chunks),
            _ => {}
        }
    }
    all
}

/// Returns the session and the channel that a request names. `None` for each that the request does
/// not name, and for the session that `CreateSession` creates.
fn names_of(request: &Request) -> (Option<&str>, Option<&str>) {
    match request {
        Request::StartSession(session)
        | Request::StopSession(session)
        | Request::DestroySession(session)
        | Request::ClearSession(session)
        | Request::RotateSession(session)
        | Request::WriteDirectly(session)
        | Request::ListChunks(session) => (Some(session), None),
        Request::DivideSession(rotation) => (Some(&rotation.session), None),
        Request::ReportHook(report) => (Some(&report.session), None),
        Request::Snapshot(snapshot) | Request::RecentSnapshot(RecentSnapshot { snapshot, .. }) => {
            (Some(&snapshot.session), None)
        }
        Request::ListSessions(session) | Request::Status(session) => (session.as_deref(), None),
        Request::LimitSession(limit) => (Some(&limit.session), None),
        Request::AwaitChange(awaited) => (Some(&awaited.session), None),
        Request::ForwardSession(forward) => (Some(&forward.session), None),
        Request::CreateChannel(new) | Request::CreateKernelChannel(new) => {
            (Some(&new.session), Some(&new.channel.name))
        }
        Request::CreateSharedChannel(new) => (Some(&new.session), Some(&new.channel.name)),
        Request::CreatePart(part) => (Some(&part.session), Some(&part.of)),
        Request::RemoveChannel(named) => (Some(&named.session), Some(&named.channel)),
        Request::EnableEvents(events)
        | Request::DisableEvents(events)
        | Request::EnableKernelEvents(events)
        | Request::DisableKernelEvents(events)
        | Request::EnableRedactedEvents(RedactedEvents { events, .. }) => {
            (Some(&events.session), events.channel.as_deref())
        }
        Request::CreateSession(_)
        | Request::CreateRetainingSession(_)
        | Request::ListApplications(_)
        | Request::AwaitForwarding(_)
        | Request::AwaitSignal(_)
        | Request::ReportForwarding(_)
        | Request::ReportDropped(_)
        | Request::ReportSpoolSize(_)
        | Request::GetSampling
        | Request::SetSampling(_) => (None, None),
    }
}

/// Validates a request by the agent's own rules before it is sent.
pub(crate) fn check(request: &Request) -> Result<(), Error> {
    blkkin_client::check(request).map_err(Error::from)
}

/// Returns the user-visible name of the field that makes a request invalid; for a field without
/// such a name, the name of the message.
fn part(fault: &Fault) -> &'static str {
    match (fault.message, fault.field) {
        ("CreateSession" | "CreateRetainingSession", "name") | (_, "session") => {
            "the session's name"
        }
        ("CreateChannel" | "CreateKernelChannel" | "CreateSharedChannel", "name")
        | (_, "channel") => "the channel's name",
        (_, "of") => "the shared channel's name",
        (_, "name_pattern") => "the pattern of chunks' names",
        (_, "command") => "the command for chunks",
        (_, "contexts") => "the contexts",
        (_, "names") => "the patterns for events",
        (_, "excluded") => "the patterns to exclude",
        (_, "filter") => "the filter",
        (_, "pids") => "the process ids",
        (_, "executables") => "the patterns for executables",
        (_, "output") => "the output directory",
        (_, "rules") => "the rules",
        (_, "redactions" | "field") => "the redactions",
        (message, _) => message,
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match (fault.field, &fault.reason) {
            ("names" | "excluded" | "executables", Reason::Empty) => {
                Error::usage(format!("one of {} is empty", part(&fault)))
            }
            _ => Error::usage(format!("{}: {}", part(&fault), fault.reason)),
        }
    }
}

impl From<blkkin_client::Error> for Error {
    fn from(error: blkkin_client::Error) -> Error {
        if let blkkin_client::Error::LimitExceeded(fault) = error {
            return fault.into();
        }
        let failed = Error::failed(error.to_string());
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }
}

/// Makes an output path absolute, as the agent has another working directory.
pub(crate) fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let wrong = |error| Error::usage(format!("the output directory: {error}"));
    path.map(|path| std::path::absolute(path).map_err(wrong)).transpose()
}
