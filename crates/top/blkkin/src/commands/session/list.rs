//! `blkkin session list`: a line for each session, or the details of a single session.

use crate::conversation::{AgentArgs, SessionChannel, SessionDetails, check, json, print};
use crate::exit::{Error, Exit, note};
use crate::forwarding;
use crate::losses;
use crate::output::plural;
use crate::reach;
use crate::table::{Align, Table};
use crate::values::{blocking_text, bytes_text, retention_text, size_text};
use blkkin_control::{
    Channel, Chunks, Context, Levels, Purpose, RedactedRule, Redaction, Request, Retention,
    Rotation, Selection, Sharing,
};
use blkkin_reader::Text;
use blkkin_text::time::{TimeFormat, TimePrinter};
use std::time::Duration;

pub(super) fn run(name: Option<&str>, agent: &AgentArgs) -> Result<Exit, Error> {
    if let Some(name) = name {
        check(&Request::ListSessions(Some(name.into())))?;
    }
    let mut conversation = agent.connect()?;
    let sessions = conversation.sessions(name)?;
    if agent.json {
        let object = serde_json::json!({
            "schema": "blkkin.sessions.v1",
            "agent": conversation.address(),
            "sessions": sessions.iter().map(json::session).collect::<Vec<_>>(),
        });
        print(&format!("{object}\n"))?;
        return Ok(exit(name, &sessions));
    }
    let agent = conversation.address();
    let text = match (name, &sessions[..]) {
        (_, []) => {
            note(&format!("there is no session (agent at {agent})"));
            String::new()
        }
        (None, all) => lines(all, false),
        (Some(_), all) => all.iter().map(describe_session).collect::<Vec<_>>().join("\n"),
    };
    print(&text)?;
    Ok(exit(name, &sessions))
}

/// Returns [`Exit::Lost`] if a single session was named and has losses. Scripts list all sessions,
/// so losses do not change the status of that list.
fn exit(name: Option<&str>, sessions: &[SessionDetails]) -> Exit {
    let losses = name.and(sessions.first()).map_or(&[][..], |listed| &listed.losses);
    losses::exit(losses)
}

/// Formats a table of sessions, one line each.
pub(crate) fn lines(sessions: &[SessionDetails], color: bool) -> String {
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("STATE", Align::Left),
        ("PURPOSE", Align::Left),
        ("CHANNELS", Align::Right),
        ("RULES", Align::Right),
        ("LOST", Align::Left),
        ("OUTPUT", Align::Left),
    ]);
    for SessionDetails { state, channels, rules, losses, .. } in sessions {
        let session = &state.session;
        table.row(vec![
            session.name.as_str().into(),
            state.activity.word().into(),
            session.purpose.word().into(),
            channels.len().to_string().into(),
            rules.len().to_string().into(),
            losses.iter().map(losses::amount).collect::<Vec<_>>().join(", ").into(),
            session
                .output
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default()
                .into(),
        ]);
    }
    table.print(color)
}

/// Describes a session with its channels, rules and losses.
fn describe_session(listed: &SessionDetails) -> String {
    let SessionDetails {
        state,
        channels,
        rules,
        losses,
        retention,
        reaches,
        forwarding,
        size_max,
        direct,
        chunks,
    } = listed;
    let session = &state.session;
    let does = match session.purpose {
        Purpose::Record => "records",
        Purpose::Snapshot => "keeps in memory, with snapshots",
    };
    let output = session.output.as_ref().map(|path| format!(" to {}", path.display()));
    let mut text = format!(
        "session {}: {}, {does}{}\nmade {} by user {}\n",
        session.name,
        state.activity.word(),
        output.unwrap_or_default(),
        date(state.created_ns),
        state.owner,
    );
    if let Some(Retention { keep_ms, memory }) = retention {
        let keep = keep_ms.map(|keep_ms| format!("the last {}", retention_text(keep_ms)));
        let memory = memory
            .map(|memory| format!("at most {} for each program and channel", bytes_text(memory)));
        let both: Vec<String> = keep.into_iter().chain(memory).collect();
        text += &format!("keeps {}\n", both.join(", "));
    }
    text.extend(forwarding.iter().map(forwarding::line));
    if let Some(size_max) = size_max {
        text += &format!("writes at most {}\n", bytes_text(*size_max));
    }
    if let Some(slowest_ns) = direct {
        let slowest = Duration::from_nanos(*slowest_ns);
        text += &format!("writes without the page cache; the longest write took {slowest:.1?}\n");
    }
    text.extend(chunks.iter().map(describe_chunks));
    text.extend(losses.iter().map(|loss| format!("lost: {}\n", losses::line(loss))));
    text.extend(reach::advice(reaches, |_| *retention).into_iter().map(|line| line + "\n"));
    let channels = channel_lines(channels);
    if !channels.is_empty() {
        text += &format!("\n{channels}");
    }
    if !rules.is_empty() {
        let mut table =
            Table::new(&[("CHANNEL", Align::Left), ("RULE", Align::Left), ("EVENTS", Align::Left)]);
        for RedactedRule { rule, redactions } in rules {
            let enabled = if rule.enabled { "enable" } else { "disable" };
            let events = selection(&rule.selection) + &redactions_text(redactions);
            let cells = [rule.channel.as_str(), enabled, &events];
            table.row(cells.map(Into::into).into());
        }
        text += &format!("\n{}", table.print(false));
    }
    if !reaches.is_empty() {
        text += &format!("\n{}", reach::table(reaches, |_| *retention, |_| "", false));
    }
    text
}

/// Describes the chunks of a session's trace: their limits, numbers and sizes.
pub(crate) fn describe_chunks(chunks: &Chunks) -> String {
    let Rotation { size, age_ms, files, total, hook, .. } = &chunks.rotation;
    let limits = [
        size.map(|size| format!("closed at {}", bytes_text(size))),
        age_ms.map(|age_ms| format!("after {}", retention_text(age_ms))),
        files.map(|files| format!("at most {files} kept")),
        total.map(|total| format!("at most {} in all", bytes_text(total))),
        hook.as_ref().map(|hook| format!("each given to `{}`", hook.command.replace('\n', " "))),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let limits = if limits.is_empty() { "closed on command".to_owned() } else { limits.join(", ") };
    let size = |bytes| blkkin_text::info::units::bytes(bytes);
    let mut text =
        format!("chunks: {} ({}), {limits}\n", plural(chunks.count, "chunk"), size(chunks.bytes));
    if chunks.removed > 0 {
        let removed = plural(chunks.removed, "oldest chunk");
        text += &format!("removed: {removed} ({})\n", size(chunks.removed_bytes));
    }
    if chunks.hook_failures > 0 {
        let failures = plural(chunks.hook_failures, "chunk");
        text += &format!("the command failed for {failures}; the agent's log tells why\n");
    }
    text
}

/// Formats a table of channels, one line each.
pub(crate) fn channel_lines(channels: &[SessionChannel]) -> String {
    if channels.is_empty() {
        return String::new();
    }
    let has_shares = channels.iter().any(|listed| listed.sharing.is_some());
    let mut columns = vec![
        ("CHANNEL", Align::Left),
        ("DOMAIN", Align::Left),
        ("WHEN FULL", Align::Left),
        ("SUB-BUFFERS", Align::Right),
        ("EACH", Align::Right),
        ("STRING MAX", Align::Right),
        ("CONTEXTS", Align::Left),
    ];
    columns.extend(has_shares.then_some(("SHARE", Align::Left)));
    let mut table = Table::new(&columns);
    for listed in channels {
        let channel = &listed.channel;
        let contexts: Vec<&str> = channel.contexts.iter().map(Context::name).collect();
        let mut cells = vec![
            channel.name.as_str().into(),
            listed.domain().into(),
            when_full(channel).into(),
            sub_buffers(channel).into(),
            channel.subbuffer_size.map(size_text).unwrap_or_default().into(),
            channel.event_size.map(|size| size_text(size.into())).unwrap_or_default().into(),
            contexts.join(",").into(),
        ];
        let share = listed.sharing.as_ref().map(|sharing| share_text(sharing, listed, channels));
        cells.extend(has_shares.then(|| share.unwrap_or_default().into()));
        table.row(cells);
    }
    table.print(false)
}

/// Describes the role of a channel in sharing memory: of a shared one, what is free.
fn share_text(sharing: &Sharing, listed: &SessionChannel, all: &[SessionChannel]) -> String {
    let percent = |size: u64, shared: &Channel| size * 100 / shared.ring_size().max(1);
    match sharing {
        Sharing::Shared => {
            let shared = &listed.channel;
            let is_part = |one: &&SessionChannel| {
                one.sharing.as_ref().is_some_and(|sharing| sharing.is_part_of(&shared.name))
            };
            let used: u64 = all.iter().filter(is_part).map(|one| one.channel.ring_size()).sum();
            format!("{} % free", percent(shared.ring_size().saturating_sub(used), shared))
        }
        Sharing::Part { of, percent: share } => {
            let shared = all.iter().find(|one| one.channel.name == *of);
            let own = shared.map_or(0, |one| percent(listed.channel.ring_size(), &one.channel));
            match own == u64::from(*share) {
                true => format!("{own} % of {of}"),
                false => format!("{own} % of {of}, at most {share} %"),
            }
        }
    }
}

/// Returns the number of sub-buffers of a channel's rings; "by program" if the agent chooses it for
/// each program.
fn sub_buffers(channel: &Channel) -> String {
    match (channel.subbuffer_count, channel.subbuffer_size) {
        (Some(count), _) => count.to_string(),
        (None, Some(_)) => "by program".to_owned(),
        (None, None) => String::new(),
    }
}

/// Describes the behaviour of a channel whose ring is full.
fn when_full(channel: &Channel) -> String {
    match channel.wait_us {
        0 => channel.mode.word().to_owned(),
        wait_us => format!("wait {}, {}", blocking_text(wait_us), channel.mode.word()),
    }
}

/// Formats a selection of events in the syntax of the command line, except that more than 8 process
/// ids are only counted.
fn selection(selection: &Selection) -> String {
    let mut text = selection.names.join(" ");
    for excluded in &selection.excluded {
        text += &format!(" --exclude {excluded}");
    }
    match selection.levels {
        Levels::Any => {}
        Levels::AtLeast { level } => text += &format!(" --level {level}"),
        Levels::Exactly { level } => text += &format!(" --level-only {level}"),
    }
    if let Some(filter) = &selection.filter {
        text += &format!(" --filter '{}'", filter.replace(['\n', '\r', '\t'], " "));
    }
    let processes = &selection.processes;
    let pids: Vec<String> = processes.pids.iter().map(u32::to_string).collect();
    match pids.len() {
        0 => {}
        1..=8 => text += &format!(" --pid {}", pids.join(",")),
        count => text += &format!(" --pid {}", plural(count as u64, "process id")),
    }
    for executable in &processes.executables {
        text += &format!(" --exe {executable}");
    }
    if processes.children {
        text += " --children";
    }
    text
}

/// Formats redactions in the syntax of the command line, with the events of those that an approval
/// demands.
fn redactions_text(redactions: &[Redaction]) -> String {
    let text = |one: &Redaction| match &one.events {
        None => format!(" --redact {one}"),
        Some(events) => format!(" (redacted as approved: {events} {one})"),
    };
    redactions.iter().map(text).collect()
}

/// Formats a time as date and time in the local time zone, to the second.
fn date(ns: u64) -> String {
    let mut printer = TimePrinter::new(TimeFormat::Date, false);
    let text = Text::from_print(|out| printer.print(out, i64::try_from(ns).unwrap_or(i64::MAX), 0));
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| seconds.to_owned())
}
