//! Formatting of a status as tables or as JSON.

use super::agent_status::Status;
use super::rows::{RingCounters, Row, RowSubject, lost};
use crate::commands::session::list::lines;
use crate::conversation::json;
use crate::forwarding;
use crate::losses;
use crate::output::plural;
use crate::reach;
use crate::table::{Align, Cell, Table};
use blkkin_control::limits::EVENT_TYPES_MAX;
use blkkin_control::{Application, Chunks, EvictedRings, Loss, Quota, Retention};
use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Value, json};
use std::collections::HashMap;

const LOST: Style = AnsiColor::Red.on_default().bold();

/// Formats the tables of a status. The last line is always about losses.
pub(super) fn text(status: &Status, rows: &[Row], rings: bool, color: bool) -> String {
    let mut text = format!("agent at {}, release {}\n\n", status.agent, status.release);
    text += &match status.sessions.is_empty() {
        true => "no session\n\n".to_owned(),
        false => format!("{}\n", lines(&status.sessions, color)),
    };
    text += &match status.applications.is_empty() {
        true => "no program that could be traced\n\n".to_owned(),
        false => {
            let programs = programs(&status.applications, color);
            format!("{programs}\n{}", refusals(&status.applications))
        }
    };
    if !rows.is_empty() {
        text += &format!("{}\n", ring_table(status, rows, rings).print(color));
    }
    if !status.reaches.is_empty() {
        let names = names(status);
        let name = |pid| names.get(&pid).copied().unwrap_or_default();
        let table = reach::table(&status.reaches, |name| retention_of(status, name), name, color);
        text += &format!("{table}\n");
    }
    let advice = reach::advice(&status.reaches, |name| retention_of(status, name));
    text.extend(advice.into_iter().map(|line| line + "\n"));
    let divided = status.sessions.iter().filter_map(|listed| listed.chunks.as_ref());
    text.extend(divided.filter(|chunks| chunks.removed > 0).map(removed_line));
    text.extend(rows.iter().filter(|row| row.counters.events_cut > 0).map(cut_line));
    text.extend(status.released.iter().map(released_line));
    text.extend(status.forwardings.iter().map(forwarding::line));
    text.extend(status.quotas.iter().filter(|quota| quota.refused > 0).map(refused_line));
    text.extend(status.losses.iter().map(loss_line));
    text + &lost_line(status, rows, color)
}

/// Returns the retention of the session with this name.
fn retention_of(status: &Status, name: &str) -> Option<Retention> {
    let mut sessions = status.sessions.iter();
    sessions.find(|listed| listed.state.session.name == name).and_then(|listed| listed.retention)
}

/// Describes the chunks that were removed because of a session's limits.
fn removed_line(chunks: &Chunks) -> String {
    let removed = plural(chunks.removed, "oldest chunk");
    let size = blkkin_text::info::units::bytes(chunks.removed_bytes);
    format!("session {} has removed its {removed} ({size})\n", chunks.session)
}

fn loss_line(loss: &Loss) -> String {
    let which = if loss.is_destroyed { "destroyed session" } else { "session" };
    format!("{which} {} lost {}\n", loss.session, losses::line(loss))
}

fn cut_line(row: &Row) -> String {
    let Row { session, channel, subject, counters, .. } = row;
    let program = match *subject {
        RowSubject::Process(pid) | RowSubject::Ring(pid, _) => format!("process {pid}"),
        RowSubject::Ended => "ended programs".to_owned(),
    };
    let events = plural(counters.events_cut, "event");
    format!(
        "session {session}, channel {channel}, {program}: long strings of {events} were shortened \
         (--string-max)\n"
    )
}

fn released_line(released: &EvictedRings) -> String {
    let EvictedRings { session, channel, rings, packets_lost } = released;
    let (rings, packets) = (plural(*rings, "old ring"), plural(*packets_lost, "packet"));
    format!("to make room, {rings} of session {session}, channel {channel}, had to go: {packets}\n")
}

fn refused_line(quota: &Quota) -> String {
    let Quota { uid, what, used, limit, refused } = quota;
    format!("refused {}: user {uid} has {used} of {limit} {what}\n", plural(*refused, "time"))
}

fn lost_line(status: &Status, rows: &[Row], color: bool) -> String {
    let lost = lost(rows, &status.released, &status.losses);
    let parts = [
        (lost.events, plural(lost.events, "event")),
        (lost.packets, plural(lost.packets, "packet")),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect();
    let is_refused = status.quotas.iter().any(|quota| quota.refused > 0);
    match parts.is_empty() {
        true if lost.has_uncounted => "lost in all: an unknown number of events\n".into(),
        true if is_refused => "nothing else is known to be lost\n".into(),
        true => "nothing was lost\n".into(),
        false if color => format!("{LOST}lost in all: {}{LOST:#}\n", parts.join(", ")),
        false => format!("lost in all: {}\n", parts.join(", ")),
    }
}

fn programs(applications: &[Application], color: bool) -> String {
    let mut table = Table::new(&[
        ("PROGRAM", Align::Left),
        ("PID", Align::Right),
        ("USER", Align::Right),
        ("EVENT TYPES", Align::Right),
        ("RELEASE", Align::Left),
    ]);
    for application in applications {
        let Application { pid, uid, program, release, event_type_count, .. } = application;
        let numbers = [pid, uid, event_type_count].map(u32::to_string);
        let [pid, uid, count] = numbers.map(Cell::from);
        table.row(vec![program.as_str().into(), pid, uid, count, release.as_str().into()]);
    }
    table.print(color)
}

/// Lists the programs that have event types refused by the agent. Events of these types are not
/// recorded.
fn refusals(applications: &[Application]) -> String {
    let with = applications.iter().filter(|application| application.event_types_refused > 0);
    let line = |Application { program, pid, event_types_refused, .. }: &Application| {
        let count = u64::from(*event_types_refused);
        let types = plural(count, "event type");
        format!(
            "{program} ({pid}): {types} not recorded: too many ({EVENT_TYPES_MAX} at most, fewer with long \
             descriptions), or not what types may be\n"
        )
    };
    let lines: String = with.map(line).collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}

fn ring_table(status: &Status, rows: &[Row], rings: bool) -> Table {
    let names = names(status);
    let name = |pid| names.get(&pid).copied().unwrap_or_default();
    let count = if rings { "CPU" } else { "RINGS" };
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("CHANNEL", Align::Left),
        ("PROGRAM", Align::Left),
        ("PID", Align::Right),
        (count, Align::Right),
        ("EVENTS", Align::Right),
        ("EVENTS/S", Align::Right),
        ("BYTES/S", Align::Right),
        ("FILLED", Align::Right),
        ("DISCARDED", Align::Right),
        ("LOST PACKETS", Align::Right),
    ]);
    for Row { session, channel, subject, overwriting_loses, counters } in rows {
        let (pid, cpu) = match *subject {
            RowSubject::Process(pid) => (Some(pid), counters.rings.to_string()),
            RowSubject::Ring(pid, Some(cpu)) => (Some(pid), cpu.to_string()),
            RowSubject::Ring(pid, None) => (Some(pid), "any".into()),
            RowSubject::Ended if rings => (None, String::new()),
            RowSubject::Ended => (None, counters.rings.to_string()),
        };
        let rates = counters.rates;
        let rate = |rate: Option<f64>| rate.map(short).unwrap_or_default();
        let recorded = counters.events_recorded.map(|count| count.to_string());
        let discarded = match rates.map_or(0.0, |rates| rates.events_discarded) {
            rate if rate > 0.0 => format!("{} (+{}/s)", counters.events_discarded, short(rate)),
            _ => counters.events_discarded.to_string(),
        };
        table.row(vec![
            session.as_str().into(),
            channel.as_str().into(),
            pid.map_or("(ended)", name).into(),
            pid.map(|pid| pid.to_string()).unwrap_or_default().into(),
            cpu.into(),
            recorded.unwrap_or_default().into(),
            rate(rates.and_then(|rates| rates.events_recorded)).into(),
            rate(rates.map(|rates| rates.bytes_written)).into(),
            filled(counters).into(),
            count_cell(discarded, counters.events_discarded > 0),
            count_cell(
                counters.packets_lost.to_string(),
                *overwriting_loses && counters.packets_lost > 0,
            ),
        ]);
    }
    table
}

fn count_cell(text: String, is_loss: bool) -> Cell {
    if is_loss { Cell::styled(text, LOST) } else { text.into() }
}

/// Returns the names of programs by process id.
fn names(status: &Status) -> HashMap<u32, &str> {
    let applications = status.applications.iter();
    applications.map(|application| (application.pid, application.program.as_str())).collect()
}

/// Formats the fill level of rings in per cent.
fn filled(counters: &RingCounters) -> String {
    match counters.size {
        0 => String::new(),
        size => format!("{:.0}%", 100.0 * counters.bytes_waiting as f64 / size as f64),
    }
}

/// Formats a number: from 1000 on with a unit prefix and one decimal place, else as an integer.
fn short(number: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{:.1}{name}", number / unit),
        None => format!("{number:.0}"),
    }
}

pub(super) fn to_json(status: &Status, rows: &[Row], rings: bool) -> Value {
    let lost = lost(rows, &status.released, &status.losses);
    let names = names(status);
    let key = if rings { "rings" } else { "programs" };
    json!({
        "schema": "blkkin.status.v1",
        "agent": status.agent,
        "release": status.release,
        "sessions": status.sessions.iter().map(json::session).collect::<Vec<_>>(),
        "applications": status.applications.iter().map(json::application).collect::<Vec<_>>(),
        key: rows.iter().map(|row| row_json(&names, row)).collect::<Vec<_>>(),
        "reaches": reach::to_json(&status.reaches),
        "forwardings": status.forwardings.iter().map(forwarding::to_json).collect::<Vec<_>>(),
        "released": status.released.iter().map(released_json).collect::<Vec<_>>(),
        "quotas": status.quotas.iter().map(quota_json).collect::<Vec<_>>(),
        "lost": {
            "events": lost.events,
            "packets": lost.packets,
            "uncounted": lost.has_uncounted,
            "causes": status.losses.iter().map(loss_json).collect::<Vec<_>>(),
        },
    })
}

fn loss_json(loss: &Loss) -> Value {
    let mut object = losses::to_json(loss);
    object["session"] = loss.session.as_str().into();
    object["destroyed"] = loss.is_destroyed.into();
    object
}

fn released_json(released: &EvictedRings) -> Value {
    let EvictedRings { session, channel, rings, packets_lost } = released;
    json!({ "session": session, "channel": channel, "rings": rings, "packets_lost": packets_lost })
}

fn quota_json(quota: &Quota) -> Value {
    let Quota { uid, what, used, limit, refused } = quota;
    json!({ "uid": uid, "what": what, "used": used, "limit": limit, "refused": refused })
}

fn row_json(names: &HashMap<u32, &str>, row: &Row) -> Value {
    let Row { session, channel, subject, counters, .. } = row;
    let (pid, cpu) = match *subject {
        RowSubject::Process(pid) => (Some(pid), None),
        RowSubject::Ring(pid, cpu) => (Some(pid), cpu),
        RowSubject::Ended => (None, None),
    };
    let mut object = json!({
        "session": session,
        "channel": channel,
        "ended": *subject == RowSubject::Ended,
        "pid": pid,
        "program": pid.and_then(|pid| names.get(&pid)),
        "rings": counters.rings,
        "events_recorded": counters.events_recorded,
        "events_discarded": counters.events_discarded,
        "packets_taken": counters.packets_taken,
        "packets_lost": counters.packets_lost,
        "bytes_written": counters.bytes_written,
        "bytes_waiting": counters.bytes_waiting,
        "size": counters.size,
        "events_cut": counters.events_cut,
        "rates": counters.rates.map(|rates| json!({
            "events_recorded": rates.events_recorded,
            "events_discarded": rates.events_discarded,
            "bytes_written": rates.bytes_written,
        })),
    });
    if let RowSubject::Ring(..) = subject {
        object["cpu"] = cpu.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_in_few_digits() {
        let check = |number, expected| assert_eq!(short(number), expected);
        check(0.0, "0");
        check(0.4, "0");
        check(999.0, "999");
        check(1234.0, "1.2k");
        check(2_500_000.0, "2.5M");
        check(12e12, "12000.0G");
    }
}
