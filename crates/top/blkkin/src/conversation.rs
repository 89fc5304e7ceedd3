//! What commands that talk to the node's agent have in common: to find it, to know which session is
//! meant, to tell what was done.

pub(crate) mod json;

use crate::exit::{Error, note};
use crate::losses;
use crate::output::{self, unless_closed};
use crate::values;
use blkkin_client::{Client, Patience};
use blkkin_control::{Channel, Fault, Loss, Reason, Reply, Request, Rule, SessionState, code};
use blkkin_filter::suggest;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names that are told where one has to be chosen, at most.
const NAMES_TOLD: usize = 20;

/// How to talk, and how to tell.
#[derive(clap::Args, Debug)]
pub(crate) struct AgentArgs {
    /// One JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// How long to wait for an answer of the agent; 0 is for ever
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
    /// Talks to the user's own agent, or else to the system's.
    pub(crate) fn connect(&self) -> Result<Conversation, Error> {
        let item = self.timeout;
        // An agent that takes a thousand programs in takes as long to open as to answer.
        let patience = Patience { opening: item, item };
        let release = env!("CARGO_PKG_VERSION");
        let client = Client::connect(&blkkin_client::addresses(), "blkkin", release, patience);
        Ok(Conversation { client: client.map_err(with_patience)? })
    }

    /// Asks for something to be done to a session: the one that is named, or the only one.
    pub(crate) fn on_session(
        &self,
        named: Option<&str>,
        request: impl Fn(String) -> Request,
    ) -> Result<Done, Error> {
        check(&request(named.unwrap_or("session").to_owned()))?;
        let mut conversation = self.connect()?;
        let session = match named {
            Some(name) => name.to_owned(),
            None => conversation.only_session()?,
        };
        let replies = conversation.ask(&request(session.clone()))?;
        let losses = losses::among(&replies);
        Ok(Done { agent: conversation.address(), session, written: written(replies), losses })
    }

    /// Tells that something was done: in words, and what was written on standard output, or all as
    /// JSON. `more` are the keys of the JSON beyond those that all have.
    pub(crate) fn tell(
        &self,
        done: &Done,
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

/// Something that an agent has done.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) agent: String,
    pub(crate) session: String,
    pub(crate) written: Vec<PathBuf>,
    /// What the session has lost, of commands that end a recording.
    pub(crate) losses: Vec<Loss>,
}

/// Where traces are.
pub(crate) fn written(replies: Vec<Reply>) -> Vec<PathBuf> {
    let path = |reply| match reply {
        Reply::Written(path) => Some(path),
        _ => None,
    };
    replies.into_iter().filter_map(path).collect()
}

/// Writes to standard output, which nobody may read any more.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    Ok(unless_closed(output::write(text))?)
}

/// A conversation with an agent, which gives hints of its own.
#[derive(Debug)]
pub(crate) struct Conversation {
    client: Client,
}

/// A session with what it has.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) state: SessionState,
    pub(crate) channels: Vec<Channel>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) losses: Vec<Loss>,
}

impl Conversation {
    pub(crate) fn address(&self) -> String {
        self.client.address().display().to_string()
    }

    pub(crate) fn release(&self) -> &str {
        self.client.release()
    }

    /// The whole reply to a request.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Vec<Reply>, Error> {
        let mut replies = Vec::new();
        let asked = self
            .client
            .ask(request)
            .and_then(|mut items| items.try_for_each(|item| item.map(|reply| replies.push(reply))));
        let Err(error) = asked else { return Ok(replies) };
        losses::report(&losses::among(&replies));
        Err(match &error {
            blkkin_client::Error::Failed { failed, .. } => {
                let hint = self.names_hint(&failed.code, request);
                match hint {
                    Some(hint) => Error::from(error).hint(hint),
                    None => error.into(),
                }
            }
            _ => with_patience(error),
        })
    }

    /// Stops a session that is about to be destroyed. What cannot be written is counted by the request that
    /// follows.
    pub(crate) fn stop_at_last(&mut self, session: String) -> Result<(), Error> {
        let request = Request::StopSession(session);
        match self.client.ask_all(&request) {
            Err(blkkin_client::Error::Failed { failed, .. }) if failed.code == code::OUTPUT => {
                Ok(())
            }
            Err(error) => Err(with_patience(error)),
            Ok(_) => Ok(()),
        }
    }

    /// Sessions and what they have: the one that is named, or all.
    pub(crate) fn sessions(&mut self, named: Option<&str>) -> Result<Vec<Listed>, Error> {
        let request = Request::ListSessions(named.map(str::to_owned));
        check(&request)?;
        Ok(listed(self.ask(&request)?))
    }

    /// Name of the only session that there is.
    pub(crate) fn only_session(&mut self) -> Result<String, Error> {
        let mut names = self.session_names();
        match names.len() {
            0 => Err(Error::failed("there is no session").hint(MAKE_A_SESSION)),
            1 => Ok(names.remove(0)),
            _ => Err(Error::usage("there are several sessions, and none is named")
                .hint(format!("name one of {}", told(&names)))),
        }
    }

    /// None where that cannot be known.
    fn session_names(&mut self) -> Vec<String> {
        let replies = self.client.ask_all(&Request::ListSessions(None));
        let listed = listed(replies.unwrap_or_default());
        listed.into_iter().map(|listed| listed.state.session.name).collect()
    }

    /// Which names there are, where one was wrong or missing.
    fn names_hint(&mut self, code: &str, request: &Request) -> Option<String> {
        let (session, channel) = names_of(request);
        match code {
            code::NO_SUCH_SESSION => match self.session_names() {
                names if names.is_empty() => Some(MAKE_A_SESSION.into()),
                names => Some(nearest(session?, &names, "session")),
            },
            code::NO_SUCH_CHANNEL | code::WHICH_CHANNEL => {
                let request = Request::ListSessions(Some(session?.to_owned()));
                let listed = listed(self.client.ask_all(&request).ok()?);
                let channels = listed.into_iter().flat_map(|listed| listed.channels);
                let names: Vec<String> = channels.map(|channel| channel.name).collect();
                match channel {
                    _ if names.is_empty() => None,
                    Some(channel) => Some(nearest(channel, &names, "channel")),
                    None => Some(format!("name one with --channel: {}", told(&names))),
                }
            }
            _ => None,
        }
    }
}

/// What to do when it takes too long is known to who has [`AgentArgs`].
fn with_patience(error: blkkin_client::Error) -> Error {
    let is_late = matches!(error, blkkin_client::Error::Late { .. });
    let error = Error::from(error);
    match is_late {
        true => error.hint("it may still do it: look with `blkkin status`; --timeout waits longer"),
        false => error,
    }
}

const MAKE_A_SESSION: &str = "make one with `blkkin session create NAME`";

/// The near name, or all.
fn nearest(wrong: &str, names: &[String], what: &str) -> String {
    match suggest(wrong, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.len() == 1 => format!("the only {what} is {}", told(names)),
        None => format!("the {what}s are {}", told(names)),
    }
}

fn told(names: &[String]) -> String {
    let mut told: Vec<String> =
        names.iter().take(NAMES_TOLD).map(|name| format!("`{name}`")).collect();
    if names.len() > NAMES_TOLD {
        told.push(format!("and {} more", names.len() - NAMES_TOLD));
    }
    told.join(", ")
}

/// Items that came in their order, put together.
fn listed(replies: Vec<Reply>) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for reply in replies {
        match (reply, all.last_mut()) {
            (Reply::Session(state), _) => {
                all.push(Listed {
                    state,
                    channels: Vec::new(),
                    rules: Vec::new(),
                    losses: Vec::new(),
                });
            }
            (Reply::Channel(channel), Some(last)) => last.channels.push(channel),
            (Reply::Rule(rule), Some(last)) => last.rules.push(rule),
            (Reply::Loss(loss), Some(last)) => last.losses.push(loss),
            _ => {}
        }
    }
    all
}

/// Session and channel that a request names.
fn names_of(request: &Request) -> (Option<&str>, Option<&str>) {
    match request {
        Request::StartSession(session)
        | Request::StopSession(session)
        | Request::DestroySession(session)
        | Request::ClearSession(session) => (Some(session), None),
        Request::Snapshot(snapshot) => (Some(&snapshot.session), None),
        Request::ListSessions(session) | Request::Status(session) => (session.as_deref(), None),
        Request::LimitSession(limit) => (Some(&limit.session), None),
        Request::CreateChannel(new) => (Some(&new.session), Some(&new.channel.name)),
        Request::EnableEvents(events) | Request::DisableEvents(events) => {
            (Some(&events.session), events.channel.as_deref())
        }
        Request::CreateSession(_)
        | Request::ListApplications(_)
        | Request::GetSampling
        | Request::SetSampling(_) => (None, None),
    }
}

/// Refuses what the agent would refuse because of its form, before anybody is asked.
pub(crate) fn check(request: &Request) -> Result<(), Error> {
    blkkin_client::check(request).map_err(Error::from)
}

/// What a user calls the part of a request that is wrong.
fn part(fault: &Fault) -> &'static str {
    match (fault.message, fault.field) {
        ("CreateSession", "name") | (_, "session") => "the session's name",
        ("CreateChannel", "name") | (_, "channel") => "the channel's name",
        (_, "contexts") => "the contexts",
        (_, "names") => "the patterns for events",
        (_, "excluded") => "the patterns to exclude",
        (_, "filter") => "the filter",
        (_, "pids") => "the process ids",
        (_, "executables") => "the patterns for executables",
        (_, "output") => "the output directory",
        (_, "rules") => "the rules",
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
        if let blkkin_client::Error::Unfit(fault) = error {
            return fault.into();
        }
        let failed = Error::failed(error.to_string());
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }
}

/// A path as the agent is to understand it, which is somewhere else.
pub(crate) fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let wrong = |error| Error::usage(format!("the output directory: {error}"));
    path.map(|path| std::path::absolute(path).map_err(wrong)).transpose()
}
