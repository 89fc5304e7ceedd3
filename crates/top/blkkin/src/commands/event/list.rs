//! `blkkin event list`: event types of running programs.

use super::processes::ProcessArgs;
use crate::conversation::{AgentArgs, check, json, print};
use crate::exit::{Error, Exit, note};
use crate::output::plural;
use crate::table::{Align, Table};
use blkkin_control::{Application, Applications, EventType, Reply, Request};

/// List the event types of running programs, by program
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin event list\n  \
        blkkin event list --exe ceph-osd --fields             with what they carry\n  \
        blkkin event list --json | jq -r '.programs[].event_types[].name' | sort -u",
    after_help = crate::help::AGENT_HELP
)]
pub(super) struct List {
    /// Show the fields of each event type
    #[arg(short, long)]
    fields: bool,

    #[command(flatten)]
    processes: ProcessArgs,

    #[command(flatten)]
    agent: AgentArgs,
}

/// Running program, with the event types that it has registered.
struct Program {
    application: Application,
    event_types: Vec<EventType>,
}

pub(super) fn run(args: List) -> Result<Exit, Error> {
    let processes = args.processes.processes()?;
    let request = Request::ListApplications(Applications { processes, event_types: true });
    check(&request)?;
    let mut conversation = args.agent.connect()?;
    let programs = programs(conversation.request(&request)?);
    if args.agent.json {
        let programs: Vec<_> = programs.iter().map(to_json).collect();
        let object = serde_json::json!({
            "schema": "blkkin.events.v1",
            "agent": conversation.address(),
            "programs": programs,
        });
        print(&format!("{object}\n"))?;
        return Ok(Exit::Ok);
    }
    if programs.is_empty() {
        note(&format!("no such program runs (agent at {})", conversation.address()));
    }
    let texts: Vec<String> = programs.iter().map(|program| text(program, args.fields)).collect();
    print(&texts.join("\n"))?;
    Ok(Exit::Ok)
}

fn programs(replies: Vec<Reply>) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    for reply in replies {
        match (reply, programs.last_mut()) {
            (Reply::Application(application), _) => {
                programs.push(Program { application, event_types: Vec::new() });
            }
            (Reply::EventType(event_type), Some(last)) => last.event_types.push(event_type),
            _ => {}
        }
    }
    for program in &mut programs {
        program.event_types.sort_by(|a, b| a.name.cmp(&b.name));
    }
    programs
}

fn to_json(program: &Program) -> serde_json::Value {
    let mut object = json::application(&program.application);
    object["event_types"] = program.event_types.iter().map(json::event_type).collect();
    object
}

fn text(program: &Program, fields: bool) -> String {
    let Application { pid, program: name, executable, .. } = &program.application;
    let executable = match executable.as_str() {
        "" => String::new(),
        path => format!(", {path}"),
    };
    let count = plural(program.event_types.len() as u64, "event type");
    let mut columns =
        vec![("  EVENT", Align::Left), ("LEVEL", Align::Left), ("PLACE", Align::Left)];
    if fields {
        columns.push(("FIELDS", Align::Left));
    }
    let mut table = Table::new(&columns);
    for event_type in &program.event_types {
        let EventType { name, level, file, line, .. } = event_type;
        let place = match (file.as_str(), *line) {
            ("", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        };
        let mut cells = vec![format!("  {name}").into(), level.to_string().into(), place.into()];
        if fields {
            let fields = event_type.fields.iter();
            let fields: Vec<String> = fields
                .map(|field| format!("{}: {}", field.name, json::kind(&field.kind)))
                .collect();
            cells.push(fields.join(", ").into());
        }
        table.row(cells);
    }
    let rows = if table.is_empty() { String::new() } else { table.print(false) };
    format!("{name} (pid {pid}{executable}): {count}\n{rows}")
}
