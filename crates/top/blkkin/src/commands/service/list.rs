//! `blkkin service list` and `status`: a line for each recorder.

use super::recorder::{Recorder, named};
use crate::conversation::{AgentArgs, SessionDetails, print};
use crate::exit::{Error, Exit, note};
use crate::losses;
use crate::process_lock::Process;
use crate::table::{Align, Table};
use crate::values::span_text;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// List the registered recorders
///
/// A recorder is `recording`, `waiting` for its agent, `starting`, or `stopped`. An `enabled` one
/// starts with the machine. A file that cannot be used is `wrong`, and the line says why.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service list\n  \
        blkkin service list --json | jq -r '.recorders[].file'",
    after_help = crate::help::EXIT_HELP
)]
pub(super) struct List {
    /// Names of the recorders; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show what recorders do now
///
/// For each recorder: its state, since when and where it records, and what was lost. The exit
/// status is 1 if a recorder that was named does not record.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service status\n  \
        blkkin service status web && echo records",
    after_help = crate::help::AGENT_HELP
)]
pub(super) struct Status {
    /// Names of the recorders; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    agent: AgentArgs,
}

const NONE: &str = "there is no recorder; `blkkin service add FILE` adds one";

/// Returns the state of a recorder's process in a word.
fn phase(recorder: &Recorder, state: &Value) -> &'static str {
    match (recorder.process(), state["phase"].as_str()) {
        (Process::Down, _) => "stopped",
        (Process::Running(_), Some("recording")) => "recording",
        (Process::Running(_), Some("waiting")) => "waiting",
        _ => "starting",
    }
}

pub(super) fn list(args: &List) -> Result<Exit, Error> {
    let recorders = named(&args.names)?;
    if recorders.is_empty() && !args.json {
        note(NONE);
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("ENABLED", Align::Left),
        ("STATE", Align::Left),
        ("TRIGGERS", Align::Right),
        ("FILE", Align::Left),
    ]);
    let (mut objects, mut notes) = (Vec::new(), String::new());
    for recorder in &recorders {
        let name = recorder.name();
        let (definition, phase) = (recorder.definition(), phase(recorder, &recorder.state()));
        let (is_enabled, file) = (recorder.is_enabled(), recorder.file().display().to_string());
        let trouble = definition.as_ref().err().map(|error| error.message().to_owned());
        let triggers = definition.as_ref().map_or(0, |definition| definition.triggers.len());
        notes.extend(trouble.iter().map(|trouble| format!("{name}: {trouble}\n")));
        let shown = if trouble.is_some() && phase == "stopped" { "wrong" } else { phase };
        objects.push(json!({
            "name": name, "enabled": is_enabled, "state": phase, "triggers": triggers,
            "file": file, "trouble": trouble,
        }));
        table.row(vec![
            name.into(),
            if is_enabled { "yes" } else { "no" }.into(),
            shown.into(),
            triggers.to_string().into(),
            file.into(),
        ]);
    }
    print(&match args.json {
        true => format!("{}\n", json!({ "schema": "blkkin.recorders.v1", "recorders": objects })),
        false => table.print(false) + &notes,
    })?;
    Ok(Exit::Ok)
}

pub(super) fn status(args: &Status) -> Result<Exit, Error> {
    let recorders = named(&args.names)?;
    let is_json = args.agent.json;
    if recorders.is_empty() && !is_json {
        note(NONE);
        return Ok(Exit::Ok);
    }
    // Without an agent, the states of the processes are shown.
    let sessions = args.agent.connect().and_then(|mut agent| agent.sessions(None));
    let sessions = sessions.unwrap_or_default();
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("STATE", Align::Left),
        ("FOR", Align::Right),
        ("PROCESS", Align::Right),
        ("OUTPUT", Align::Left),
    ]);
    let (mut objects, mut notes) = (Vec::new(), String::new());
    let mut records = true;
    for recorder in &recorders {
        let (name, state) = (recorder.name(), recorder.state());
        let phase = phase(recorder, &state);
        let is_down = phase == "stopped";
        records &= phase == "recording";
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = state["begun_ns"].as_u64().filter(|since| !is_down && *since > 0);
        let time = since.map(|since| span_text(now.saturating_sub(Duration::from_nanos(since))));
        let pid = state["pid"].as_u64().filter(|_| !is_down);
        let output = state["output"].as_str();
        let own = |one: &&SessionDetails| {
            one.state.session.name == name
                && Some(one.state.created_ns) == state["created_ns"].as_u64()
        };
        let lost = sessions.iter().find(own).map_or(&[][..], |session| &session.losses);
        let trouble = state["trouble"].as_str().filter(|_| !is_down);
        objects.push(json!({
            "name": name, "state": phase, "since_ns": since, "pid": pid, "output": output,
            "lost": losses::all_to_json(lost), "trouble": trouble,
        }));
        notes.extend(lost.iter().map(|loss| format!("{name}: {}\n", losses::line(loss))));
        notes.extend(trouble.map(|trouble| format!("{name}: {trouble}\n")));
        table.row(vec![
            name.into(),
            phase.into(),
            time.unwrap_or_default().into(),
            pid.map_or(String::new(), |pid| pid.to_string()).into(),
            output.unwrap_or_default().into(),
        ]);
    }
    print(&match is_json {
        true => {
            format!("{}\n", json!({ "schema": "blkkin.recorder-status.v1", "recorders": objects }))
        }
        false => table.print(false) + &notes,
    })?;
    Ok(if args.names.is_empty() || records { Exit::Ok } else { Exit::Failed })
}
