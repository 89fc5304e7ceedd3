//! Reporting that all benches share: tables for people, goals with their outcomes, and one JSON
//! line for programs with `--json`. Start at [`Report`].

use super::goal::{self, Goal};
use super::machine;
use crate::measure::{Measured, Table, show_bytes, show_duration, speed_up};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Collector of a bench's results. Tables are printed at once, the goals and the JSON line at the
/// end.
pub(super) struct Report {
    json: bool,
    rows: Vec<Value>,
    goals: Vec<Goal>,
}

impl Report {
    pub(super) fn new(json: bool) -> Report {
        Report { json, rows: Vec::new(), goals: Vec::new() }
    }

    /// Prints text for people, on standard error if standard output has the JSON line.
    pub(super) fn say(&self, text: impl AsRef<str>) {
        if self.json { eprintln!("{}", text.as_ref()) } else { println!("{}", text.as_ref()) }
    }

    /// Adds a row to the JSON line.
    pub(super) fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// Prints a table of measured commands, and adds a row for each. Each command processed
    /// `events` events.
    pub(super) fn measured(&mut self, title: &str, measured: &[Measured], events: u64) {
        let mut table = Table::new(&[
            title, "median", "min", "p10", "p90", "ns/event", "CPU", "peak RSS", "speed", "than",
        ]);
        for one in measured {
            let name = &one.candidate.name;
            let ns_per_event = one.wall_median().as_nanos() as f64 / events as f64;
            let baseline = one.candidate.baseline.as_deref();
            let speed_up = baseline.and_then(|baseline| speed_up(measured, name, baseline));
            table.row(vec![
                name.clone(),
                show_duration(one.wall_median()),
                show_duration(one.wall(0)),
                show_duration(one.wall(10)),
                show_duration(one.wall(90)),
                if events > 1 { format!("{ns_per_event:.1}") } else { String::new() },
                show_duration(one.cpu_median()),
                show_bytes(one.rss_bytes_max()),
                speed_up.map_or_else(String::new, |times| format!("{times:.2}x")),
                baseline.unwrap_or("").to_owned(),
            ]);
            self.row(json!({
                "table": title,
                "name": name,
                "command": one.candidate.command,
                "events": events,
                "wall_ns_median": one.wall_median().as_nanos() as u64,
                "wall_ns_min": one.wall(0).as_nanos() as u64,
                "wall_ns_p10": one.wall(10).as_nanos() as u64,
                "wall_ns_p90": one.wall(90).as_nanos() as u64,
                "cpu_ns_median": one.cpu_median().as_nanos() as u64,
                "rss_bytes_max": one.rss_bytes_max(),
                "baseline": baseline,
                "speed_up": speed_up,
            }));
        }
        self.say(table.render());
    }

    /// Adds a goal to the results.
    pub(super) fn goal(&mut self, goal: Goal) {
        self.goals.push(goal);
    }

    /// Prints the goals, and with `--json` the JSON line. Returns whether every goal is met or
    /// within its limit.
    pub(super) fn finish(&self, name: &str) -> bool {
        if !self.goals.is_empty() {
            self.say(goal::render(&self.goals));
        }
        if self.json {
            let when =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_secs());
            let goals: Vec<Value> = self.goals.iter().map(goal::to_json).collect();
            let line = json!({"bench": name, "when": when, "machine": machine::description(),
                              "rows": self.rows, "goals": goals});
            println!("{line}");
        }
        self.goals.iter().all(Goal::is_done)
    }
}
