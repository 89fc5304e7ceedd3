//! State of a trigger: what `blkkin trigger ls` shows, and what the trigger's next process needs.

use super::matching::FiringEvents;
use super::schedule::Cause;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Counts and last results of a trigger, over all of its processes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pid: Option<u32>,
    /// Number of times that the trigger has acted.
    pub(super) acted: u64,
    /// Number of events that fired it, of those without a consequence, and of lost ones.
    pub(super) events: u64,
    pub(super) skipped: u64,
    pub(super) lost: u64,
    /// Time of the last action in nanoseconds since 1970, and its cause.
    pub(super) last: Option<(u64, Cause)>,
    /// Cause that was not acted on yet.
    pub(super) pending: Option<Cause>,
    pub(super) snapshots: VecDeque<PathBuf>,
    /// Number of requests that are not sent, because there were too many.
    pub(super) requests_left_out: u64,
    /// Events by which the next process knows what was read.
    pub(super) fired: FiringEvents,
    pub(super) troubles: Troubles,
    pub(super) is_over: bool,
}

/// Reasons why something of the trigger does not work at present.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// The agent does not answer, or has no session for the trigger.
    pub(super) agent: Option<String>,
    /// The trigger's traces cannot be read.
    pub(super) traces: Option<String>,
    /// The last action has failed.
    pub(super) action: Option<String>,
    /// A condition cannot be checked.
    pub(super) check: Option<String>,
    /// The sessions of other nodes cannot be read.
    pub(super) sharing: Option<String>,
}

impl Troubles {
    fn text(&self) -> Option<String> {
        let Troubles { agent, traces, action, check, sharing } = self;
        let all = [agent, traces, action, check, sharing];
        let texts: Vec<&str> = all.into_iter().flatten().map(String::as_str).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn hex(number: u64) -> Value {
    format!("{number:016x}").into()
}

fn from_hex(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?, 16).ok()
}

fn cause_to_json(cause: &Cause) -> Value {
    let requests: Vec<Value> = cause.requests.iter().copied().map(hex).collect();
    json!({ "events": cause.events, "text": cause.text, "requests": requests })
}

fn cause_from_json(value: &Value) -> Option<Cause> {
    let requests = value["requests"].as_array()?.iter().filter_map(from_hex).collect();
    let text = value["text"].as_str()?.to_owned();
    Some(Cause { events: value["events"].as_u64()?, text, requests, ..Cause::default() })
}

impl State {
    /// Reads the state of an earlier process.
    pub(super) fn from_json(value: &Value) -> State {
        let number = |name: &str| value[name].as_u64().unwrap_or(0);
        let items = |name: &str| value[name].as_array().into_iter().flatten();
        let fired =
            items("fired").filter_map(|pair| Some((pair[0].as_i64()?, from_hex(&pair[1])?)));
        let text = value["last_cause"].as_str().unwrap_or_default().to_owned();
        let events = number("last_events");
        let last = value["last_time"].as_u64();
        State {
            pid: None,
            acted: number("acted"),
            events: number("events"),
            skipped: number("skipped"),
            lost: number("lost"),
            last: last.map(|time| (time, Cause { events, text, ..Cause::default() })),
            pending: cause_from_json(&value["pending"]),
            snapshots: items("snapshots").filter_map(Value::as_str).map(PathBuf::from).collect(),
            requests_left_out: number("requests_left_out"),
            fired: FiringEvents { events: fired.collect() },
            troubles: Troubles::default(),
            is_over: value["is_over"] == true,
        }
    }

    /// Returns the state with the numbers of the requests that are sent.
    pub(super) fn to_json(&self, requests: Option<Value>) -> Value {
        let path = |path: &PathBuf| path.display().to_string();
        let fired: Vec<Value> =
            self.fired.events.iter().map(|(time, hash)| json!([time, hex(*hash)])).collect();
        json!({
            "pid": self.pid,
            "acted": self.acted,
            "events": self.events,
            "skipped": self.skipped,
            "lost": self.lost,
            "last_time": self.last.as_ref().map(|(time, _)| time),
            "last_events": self.last.as_ref().map(|(_, cause)| cause.events),
            "last_cause": self.last.as_ref().map(|(_, cause)| &cause.text),
            "pending": self.pending.as_ref().map(cause_to_json),
            "snapshots": self.snapshots.iter().map(path).collect::<Vec<String>>(),
            "requests": requests,
            "requests_left_out": self.requests_left_out,
            "trouble": self.troubles.text(),
            "fired": fired,
            "is_over": self.is_over,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_reads_what_it_needs() {
        let requests = [1, u64::MAX].into();
        let cause = Cause { events: 3, text: "why".into(), requests, ..Cause::default() };
        let mut state = State { acted: 7, lost: 2, ..State::default() };
        state.last = Some((9, Cause { events: 4, text: "then".into(), ..Cause::default() }));
        state.pending = Some(cause);
        state.fired.add(&[(5, 6), (-1, u64::MAX)]);
        state.snapshots.push_back("/a".into());
        state.troubles.action = Some("it failed".into());
        let json = state.to_json(None);
        assert_eq!(json["trouble"], "it failed");
        let again = State::from_json(&json);
        assert_eq!((again.acted, again.lost, &again.snapshots), (7, 2, &state.snapshots));
        assert_eq!((again.pending, again.last), (state.pending, state.last));
        assert_eq!(again.fired.events, state.fired.events);
        assert_eq!(State::from_json(&Value::Null).acted, 0);
    }
}
