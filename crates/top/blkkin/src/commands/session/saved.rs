//! `blkkin session save` and `load`: a session's definition as a file.

use super::background;
use crate::commands::completions;
use crate::conversation::{
    ActionResult, AgentArgs, AgentConnection, SessionDetails, absolute, check, print, written_paths,
};
use crate::definition::{Definition, FileError, Relay};
use crate::exit::{Error, Exit, note};
use blkkin_control::{
    Destination, Events, RedactedEvents, RedactedRule, Request, RetainingSession, Retention,
    SessionForward, SessionLimit, SessionRotation,
};
use clap_complete::engine::ArgValueCandidates;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Write a session's definition to a file, for `session load`
///
/// The definition says what is recorded, with channels, events, filters, limits and chunks, but not
/// what was recorded. It is TOML, to be changed in an editor. An output directory that the agent
/// chose is left out, so that each session that is loaded has its own.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session save web -o web.toml\n  \
        blkkin session save web | ssh node2 blkkin session load -",
    after_help = crate::help::AGENT_HELP
)]
pub(super) struct Save {
    /// Name of the session; optional if there is only one
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completions::sessions))]
    name: Option<String>,

    /// File to make [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Make a session from a file, without starting it
///
/// The file is one of `session save`. It is checked as a whole before anything is made; if the
/// agent refuses a part of it, the session is destroyed again.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session load web.toml && blkkin session start web\n  \
        blkkin session load web.toml --name web2 -o /data/web2",
    after_help = crate::help::AGENT_HELP
)]
pub(super) struct Load {
    /// File to read; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Name of the session, instead of that in the file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Directory to make for the trace, instead of that in the file
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Maximum size of a file in bytes.
const SIZE_MAX: u64 = 8 << 20;

pub(super) fn save(args: &Save) -> Result<Exit, Error> {
    if let Some(name) = &args.name {
        check(&Request::ListSessions(Some(name.clone())))?;
    }
    let mut conversation = args.agent.connect()?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => conversation.only_session()?,
    };
    let Some(session) = conversation.sessions(Some(&name))?.pop() else {
        return Err(Error::failed("the agent's answer has no session"));
    };
    let text = definition_of(session).to_text();
    let Some(path) = &args.output else {
        print(&text)?;
        return Ok(Exit::Ok);
    };
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written
        .map_err(|error| Error::failed(format!("cannot write `{}`: {error}", path.display())))?;
    let written = absolute(Some(path))?.into_iter().collect();
    let new = ActionResult::new(conversation.address(), name);
    let done = ActionResult { written, ..new };
    let words = format!("session `{}` saved", done.session);
    args.agent.report(&done, "session save", words, &[])?;
    Ok(Exit::Ok)
}

/// Returns the definition of a session.
fn definition_of(session: SessionDetails) -> Definition {
    let is_direct = session.direct.is_some();
    let SessionDetails { state, channels, rules, retention, size_max, chunks, forwarding, .. } =
        session;
    let mut rotation = chunks.map(|chunks| chunks.rotation);
    if state.owner != rustix::process::getuid().as_raw()
        && let Some(hook) = rotation.as_mut().and_then(|rotation| rotation.hook.take())
    {
        let command = hook.command;
        note(&format!("the command for chunks of another user is left out: {command}"));
    }
    let mut session = state.session;
    session.output.take_if(|output| is_chosen_by_agent(output, &session.name));
    let retention = retention.unwrap_or_default();
    let destination = forwarding.map(|forwarding| forwarding.destination);
    let net = destination.and_then(|Destination { target, drops_oldest, .. }| {
        Some(Relay { target: target.parse().ok()?, drops_oldest })
    });
    let triggers = Vec::new();
    Definition { session, retention, net, size_max, is_direct, rotation, channels, rules, triggers }
}

/// Returns whether an output directory has the name that the agent chooses: the session's, and a
/// date.
fn is_chosen_by_agent(output: &Path, session: &str) -> bool {
    let name = output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let date = name.strip_prefix(session).and_then(|rest| rest.strip_prefix('-'));
    date.is_some_and(|date| {
        date.len() == 15
            && date.bytes().enumerate().all(|(at, byte)| match at {
                8 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    })
}

pub(super) fn load(args: Load) -> Result<Exit, Error> {
    let mut definition = parse(&args.file, &read(&args.file)?)?;
    if !definition.triggers.is_empty() {
        return Err(Error::usage("triggers are made with the recorder of a session")
            .hint(format!("`blkkin service add {}` adds one", args.file.display())));
    }
    if let Some(name) = args.name {
        definition.session.name = name;
    }
    if let Some(output) = absolute(args.output.as_deref())? {
        definition.session.output = Some(output);
    }
    definition.check()?;
    let mut conversation = args.agent.connect()?;
    let written = definition.make(&mut conversation)?;
    let new = ActionResult::new(conversation.address(), definition.session.name);
    let done = ActionResult { written, ..new };
    let words = format!("session `{}` made", done.session);
    args.agent.report(&done, "session load", words, &[])?;
    Ok(Exit::Ok)
}

/// Parses the text of a file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Definition, Error> {
    Definition::from_text(text).map_err(|error| {
        let FileError { hint, .. } = &error;
        let refused = Error::usage(format!("{}, {error}", path.display()));
        match hint {
            Some(hint) => refused.hint(hint.clone()),
            None => refused,
        }
    })
}

/// Reads a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let failed =
        |error: std::io::Error| Error::failed(format!("cannot read `{}`: {error}", path.display()));
    let mut text = String::new();
    let size = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(SIZE_MAX + 1).read_to_string(&mut text),
        false => {
            File::open(path).and_then(|file| file.take(SIZE_MAX + 1).read_to_string(&mut text))
        }
    };
    match size.map_err(failed)? as u64 > SIZE_MAX {
        true => Err(Error::usage(format!("`{}` is no session's definition", path.display()))),
        false => Ok(text),
    }
}

/// Destroys a session of which the agent has refused a part, and removes its empty directories.
fn undo(
    conversation: &mut AgentConnection,
    name: &str,
    written: &[PathBuf],
    error: Error,
) -> Error {
    let _ = conversation.request(&Request::DestroySession(name.to_owned()));
    for directory in written {
        let _ = std::fs::remove_dir(directory);
    }
    error
}

impl Definition {
    /// Checks that an agent can read all requests for the session.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let all = [self.create()].into_iter().chain(self.divide()).chain(self.requests());
        all.into_iter().try_for_each(|request| check(&request))
    }

    /// Makes the session, or nothing of it. Returns its output directory, if it has one.
    pub(crate) fn make(&self, conversation: &mut AgentConnection) -> Result<Vec<PathBuf>, Error> {
        let written = written_paths(conversation.request(&self.create())?);
        let divide = self.divide();
        if let Some(request) = &divide {
            conversation.divide(request, &written)?;
        }
        let mut others = self.requests().into_iter();
        if let Err(error) = others.try_for_each(|one| conversation.request(&one).map(drop)) {
            return Err(undo(conversation, &self.session.name, &written, error));
        }
        if let Some(request) = &divide
            && let Err(error) = background::start_if_needed(request, &conversation.address())
        {
            return Err(undo(conversation, &self.session.name, &written, error));
        }
        Ok(written)
    }

    /// Returns the request that creates the session.
    fn create(&self) -> Request {
        let (session, retention) = (self.session.clone(), self.retention);
        match retention == Retention::default() {
            true => Request::CreateSession(session),
            false => Request::CreateRetainingSession(RetainingSession { session, retention }),
        }
    }

    /// Returns the request that divides the session's trace.
    fn divide(&self) -> Option<Request> {
        let session = self.session.name.clone();
        let rotation = self.rotation.clone()?;
        Some(Request::DivideSession(SessionRotation { session, rotation }))
    }

    /// Returns the requests that set the session's limit, channels and rules.
    fn requests(&self) -> Vec<Request> {
        let session = || self.session.name.clone();
        let limit = self
            .size_max
            .map(|size_max| Request::LimitSession(SessionLimit { session: session(), size_max }));
        let channels = self.channels.iter().map(|listed| listed.create_request(session()));
        let rules = self.rules.iter().map(|RedactedRule { rule, redactions }| {
            let own = self.channels.iter().find(|one| one.channel.name == rule.channel);
            let channel = Some(rule.channel.clone());
            let selection = rule.selection.clone();
            let events = Events { session: session(), channel, selection };
            match (own.is_some_and(|channel| channel.is_kernel), rule.enabled) {
                (false, true) => Request::EnableEvents(events),
                (false, false) => Request::DisableEvents(events),
                (true, false) => Request::DisableKernelEvents(events),
                (true, true) if redactions.is_empty() => Request::EnableKernelEvents(events),
                (true, true) => {
                    let redactions = redactions.clone();
                    Request::EnableRedactedEvents(RedactedEvents { events, redactions })
                }
            }
        });
        // As for `session create`: a directory that the user has not chosen is a spool.
        let is_spool = self.session.output.is_none();
        let forward = self.net.as_ref().map(|Relay { target, drops_oldest }| {
            let (target, drops_oldest) = (target.to_string(), *drops_oldest);
            let destination = Destination { target, is_spool, drops_oldest };
            Request::ForwardSession(SessionForward { session: session(), destination })
        });
        let direct = self.is_direct.then(|| Request::WriteDirectly(session()));
        limit.into_iter().chain(direct).chain(forward).chain(channels).chain(rules).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_the_agent_chose_are_recognized() {
        let is_chosen = |path: &str| is_chosen_by_agent(Path::new(path), "web");
        assert!(is_chosen("/home/a/blkkin-traces/web-20261128-170506"));
        assert!(!is_chosen("/data/web"));
        assert!(!is_chosen("/data/web-20261128-1705061"));
        assert!(!is_chosen("/data/other-20261128-170506"));
        assert!(!is_chosen("/data/web-2026-128-170506"));
    }
}
