//! The session of the agent that records the events of a trigger.

use super::files::TriggerFiles;
use super::options::Add;
use crate::conversation::AgentConnection;
use crate::exit::Error;
use blkkin_client::{Client, Timeouts};
use blkkin_control::{
    Channel, Destination, Events, Levels, NewChannel, Purpose, Reply, Request, Rotation, Selection,
    Session, SessionForward, SessionRotation, code,
};
use std::path::PathBuf;
use std::time::Duration;

/// Size of a chunk of the session's trace, in bytes.
const CHUNK_SIZE: u64 = 1 << 20;
/// Number of chunks that are kept, the current one included.
const CHUNKS: u32 = 2;
/// Size and number of sub-buffers of the rings of programs.
const SUB_BUFFER_SIZE: u64 = 16 << 10;
const SUB_BUFFERS: u32 = 4;
/// Names of events in which a thread worked for a span. They have a duration, too.
const RUNS: &str = "blkkin:run*";
/// Names of events with tags, and filter for the tag of a failure.
const TAGS: &str = "*:keyval*";
const FAILED: &str = "key == \"error\"";
/// Filter for a failure in an event of the crate `tracing`.
const FAILED_EVENT: &str = "has(span_id) && has(error)";
/// Minimum number of clock cycles in a nanosecond. The clock is the counter of an x86 processor,
/// or has a cycle each nanosecond.
const CYCLES_PER_NS: f64 = 0.5;
const CHANNEL: &str = "events";
/// Time limit for an answer of the agent.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the name of a trigger's session.
pub(super) fn session_of(trigger: &str) -> String {
    format!("trigger-{trigger}")
}

/// Returns the name of the session that tells other nodes of a trigger's requests.
pub(super) fn shared_session_of(trigger: &str) -> String {
    format!("shared-trigger-{trigger}")
}

/// Rule for events of programs or of the kernel.
struct Rule {
    is_kernel: bool,
    selection: Selection,
}

/// Returns the rules that select the events of a trigger. A rule for slow spans selects some faster
/// ones, too, as the program knows their duration in cycles of its clock only.
fn rules(add: &Add) -> Result<Vec<Rule>, Error> {
    let conditions = &add.conditions;
    let mut selected = add.selected.clone();
    let is_kernel = selected.is_kernel();
    let names_events = selected.names_events();
    let mut rules = Vec::new();
    if let Some(slower) = conditions.slower {
        if is_kernel {
            return Err(Error::usage("--slower is for spans of programs")
                .hint("leave out --kernel and --probe; --filter selects slow events"));
        }
        let cycles = (slower.as_nanos() as f64 * CYCLES_PER_NS) as u64;
        let slow = format!("has(span_id) && has(start) && duration >= {cycles}");
        let filter = selected.filter.take().map(|own| format!("({own}) && {slow}"));
        selected.filter = Some(filter.unwrap_or(slow));
    }
    let mut selection = selected.selection(true)?;
    let of_processes = |name: &str, filter: Option<&str>| Selection {
        levels: Levels::Any,
        filter: filter.map(str::to_owned),
        processes: selection.processes.clone(),
        ..Selection::for_names([name])
    };
    if conditions.failed {
        for (names, filter) in [("*", FAILED_EVENT), (TAGS, FAILED)] {
            let selection = of_processes(names, Some(filter));
            rules.push(Rule { is_kernel: false, selection });
        }
    }
    if conditions.killed {
        let selection = of_processes("process:exit", None);
        rules.push(Rule { is_kernel: true, selection });
    }
    if names_events || conditions.slower.is_some() {
        if !names_events {
            selection.names = vec!["*".to_owned()];
        }
        if conditions.slower.is_some() {
            selection.excluded.push(RUNS.to_owned());
        }
        rules.push(Rule { is_kernel, selection });
    }
    Ok(rules)
}

/// Returns the requests that make the sessions of a trigger: its own, and the one that it shares. A
/// trigger without events has none.
fn requests(files: &TriggerFiles, add: &Add) -> Result<Vec<Vec<Request>>, Error> {
    if !add.records_events() {
        return Ok(Vec::new());
    }
    let rules = rules(add)?;
    let name = session_of(files.name());
    let rotation = Rotation {
        size: Some(CHUNK_SIZE),
        age_ms: None,
        files: Some(CHUNKS),
        total: None,
        name_pattern: None,
        hook: None,
    };
    let divide = Request::DivideSession(SessionRotation { session: name.clone(), rotation });
    let mut sessions = vec![session(name, Some(files.events()), divide, &rules)];
    if let Some(target) = &add.share.share {
        let name = shared_session_of(files.name());
        let destination =
            Destination { target: target.to_string(), is_spool: true, drops_oldest: false };
        let forward =
            Request::ForwardSession(SessionForward { session: name.clone(), destination });
        sessions.push(session(name, None, forward, &rules));
    }
    Ok(sessions)
}

/// Returns the requests that make a session with these rules.
fn session(name: String, output: Option<PathBuf>, set_up: Request, rules: &[Rule]) -> Vec<Request> {
    let session = Session { name: name.clone(), purpose: Purpose::Record, output };
    let mut requests = vec![Request::CreateSession(session), set_up];
    if rules.iter().any(|rule| !rule.is_kernel) {
        let channel = Channel {
            subbuffer_size: Some(SUB_BUFFER_SIZE),
            subbuffer_count: Some(SUB_BUFFERS),
            ..Channel::named(CHANNEL)
        };
        requests.push(Request::CreateChannel(NewChannel { session: name.clone(), channel }));
    }
    for Rule { is_kernel, selection } in rules {
        let selection = selection.clone();
        let events = Events { session: name.clone(), channel: None, selection };
        requests.push(match is_kernel {
            true => Request::EnableKernelEvents(events),
            false => Request::EnableEvents(events),
        });
    }
    requests.push(Request::StartSession(name));
    requests
}

/// Makes the sessions of a trigger, or none of them.
pub(super) fn make(
    conversation: &mut AgentConnection,
    files: &TriggerFiles,
    add: &Add,
) -> Result<(), Error> {
    let agent = conversation.address();
    make_by(|request| conversation.request(request).map(drop), &agent, files, add)
}

/// Makes the sessions again, or none of them, after an agent has lost one.
pub(super) fn make_again(agent: &str, files: &TriggerFiles, add: &Add) -> Result<(), Error> {
    destroy(agent, files.name());
    let mut client = connect(agent, PATIENCE)?;
    files.remove_events()?;
    make_by(|request| Ok(client.request_all(request).map(drop)?), agent, files, add)
}

fn make_by(
    mut send: impl FnMut(&Request) -> Result<(), Error>,
    agent: &str,
    files: &TriggerFiles,
    add: &Add,
) -> Result<(), Error> {
    let sessions = requests(files, add)?;
    sessions.iter().flatten().try_for_each(crate::conversation::check)?;
    for (number, session) in sessions.iter().enumerate() {
        for (at, request) in session.iter().enumerate() {
            if let Err(error) = send(request) {
                // A session that was there before stays.
                destroy_first(agent, files.name(), number + usize::from(at > 0));
                return Err(error);
            }
        }
    }
    Ok(())
}

fn session_names(trigger: &str) -> [String; 2] {
    [session_of(trigger), shared_session_of(trigger)]
}

/// Returns whether the agent has this session, and it is this user's.
pub(super) fn is_own(client: &mut Client, session: &str) -> Result<bool, blkkin_client::Error> {
    match client.request_all(&Request::ListSessions(Some(session.to_owned()))) {
        Ok(replies) => Ok(replies.into_iter().any(|reply| match reply {
            Reply::Session(state) => state.owner == blkkin_sys::user_id(),
            _ => false,
        })),
        Err(blkkin_client::Error::Failed { failed, .. })
            if failed.code == code::NO_SUCH_SESSION =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Connects to an agent. An answer may take as long as `patience`.
pub(super) fn connect(agent: &str, patience: Duration) -> Result<Client, blkkin_client::Error> {
    let timeouts = Timeouts { opening: Duration::from_secs(30), item: patience };
    let release = env!("CARGO_PKG_VERSION");
    Client::connect(&[PathBuf::from(agent)], "blkkin trigger", release, timeouts)
}

/// Destroys the sessions of a trigger, as far as there are any.
pub(super) fn destroy(agent: &str, trigger: &str) {
    destroy_first(agent, trigger, usize::MAX);
}

/// Destroys the first `count` sessions of a trigger.
fn destroy_first(agent: &str, trigger: &str, count: usize) {
    let Ok(mut client) = connect(agent, PATIENCE) else { return };
    for name in session_names(trigger).into_iter().take(count) {
        if is_own(&mut client, &name).unwrap_or(false) {
            let _ = client.request_all(&Request::DestroySession(name));
        }
    }
}
