//! `blkkin trigger ls`: a line for each trigger of the user.

use super::files::{self, TriggerFiles};
use crate::conversation::print;
use crate::exit::{Error, Exit, note};
use crate::output::plural;
use crate::process_lock::Process;
use crate::table::{Align, Table};
use crate::values::span_text;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// List your triggers, and what they have done
///
/// A trigger is `waiting`, `done` when it has acted as often as it may, or `down`: it does not run,
/// and `blkkin trigger start` starts it.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin trigger ls\n  \
        blkkin trigger ls --json | jq -r '.triggers[].snapshots[]'",
    after_help = crate::help::EXIT_HELP
)]
pub(super) struct Ls {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

struct Row {
    name: String,
    words: Vec<String>,
    status: &'static str,
    state: Value,
}

pub(super) fn run(args: &Ls) -> Result<Exit, Error> {
    let rows = files::names()?.into_iter().map(|name| row(&name));
    let rows = rows.collect::<Result<Vec<Row>, Error>>()?;
    if rows.is_empty() && !args.json {
        note("there is no trigger; `blkkin trigger add` adds one");
        return Ok(Exit::Ok);
    }
    print(&if args.json { to_json(rows) } else { table(&rows) })?;
    Ok(Exit::Ok)
}

fn row(name: &str) -> Result<Row, Error> {
    let files = TriggerFiles::existing(name)?;
    let state = files.state();
    let status = match files.process() {
        Process::Down if files.is_over() => "done",
        Process::Down => "down",
        _ => "waiting",
    };
    Ok(Row { name: name.to_owned(), words: files.words(), status, state })
}

fn to_json(rows: Vec<Row>) -> String {
    let objects: Vec<Value> = rows
        .into_iter()
        .map(|Row { name, words, status, mut state }| {
            let mut object = json!({ "name": name, "status": status, "words": words });
            for (key, value) in state.as_object_mut().into_iter().flatten() {
                if !matches!(&**key, "fired" | "is_over") {
                    object[key] = value.take();
                }
            }
            object
        })
        .collect();
    format!("{}\n", json!({ "schema": "blkkin.triggers.v1", "triggers": objects }))
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("STATUS", Align::Left),
        ("ACTED", Align::Right),
        ("EVENTS", Align::Right),
        ("SKIPPED", Align::Right),
        ("LAST", Align::Right),
        ("WHEN AND WHAT", Align::Left),
    ]);
    let mut notes = String::new();
    for Row { name, words, status, state } in rows {
        let count = |key: &str| state[key].as_u64().unwrap_or(0).to_string();
        let last = state["last_time"].as_u64().map(Duration::from_nanos);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = last.map(|last| format!("{} ago", span_text(now.saturating_sub(last))));
        table.row(vec![
            name.as_str().into(),
            (*status).into(),
            count("acted").into(),
            count("events").into(),
            count("skipped").into(),
            ago.unwrap_or_default().into(),
            words.iter().skip(1).map(|word| quoted(word)).collect::<Vec<_>>().join(" ").into(),
        ]);
        if let Some(sent) = state["requests"].as_object() {
            let count = |key: &str| sent[key].as_u64().unwrap_or(0);
            let (found, missing) = (plural(count("found"), "request"), count("missing"));
            let (delivered, waiting) =
                (plural(count("spans_delivered"), "span"), count("spans_waiting"));
            let dropped = count("spans_dropped");
            let left_out = state["requests_left_out"].as_u64().unwrap_or(0);
            notes.push_str(&format!(
                "{name}: {found} found, {missing} not in memory, {left_out} left out as too many; \
                 {delivered} delivered, {waiting} waiting, {dropped} dropped\n"
            ));
        }
        if let Some(lost) = state["lost"].as_u64().filter(|lost| *lost > 0) {
            notes.push_str(&format!("{name}: {} lost\n", plural(lost, "event")));
        }
        let troubles = [&state["trouble"], &state["requests"]["trouble"]];
        for trouble in troubles.into_iter().filter_map(Value::as_str) {
            notes.push_str(&format!("{name}: {trouble}\n"));
        }
    }
    table.print(false) + &notes
}

/// Returns a word as a shell accepts it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=/.:,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
