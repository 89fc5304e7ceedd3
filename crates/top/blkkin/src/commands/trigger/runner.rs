//! Process of a trigger: waits for what fires it, and acts.

use super::actions::{self, Acted};
use super::conditions::{self, Checks};
use super::files::TriggerFiles;
use super::matching::Matching;
use super::options::Add;
use super::requests::RequestSender;
use super::schedule::{Cause, Schedule};
use super::wakes::{self, Wake};
use super::{sharing, source};
use crate::exit::{Error, Exit, warn};
use blkkin_client::Client;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time limit for the agent's answer about losses.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time in which the receiver can take the last spans. Those that it has not taken stay in the
/// trigger's directory.
const LAST_TIME: Duration = Duration::from_secs(5);
/// Maximum size in bytes of the text of an event in the state.
const TEXT_SIZE_MAX: usize = 4096;
/// Maximum number of snapshots that are remembered.
const SNAPSHOTS_MAX: usize = 10_000;

/// Runs a trigger until a signal ends it, or it has acted as often as it may.
pub(super) fn run(files: TriggerFiles, agent: &str, add: &Add) -> Result<Exit, Error> {
    let _lock = files.lock()?;
    let sender = RequestSender::open(&files, &add.requests)?;
    let mut runner = Runner::new(files, agent, add, sender);
    let failed = |error: std::io::Error| Error::failed(format!("the trigger cannot run: {error}"));
    let (sender, wakes) = channel();
    wakes::send_signals(&sender).map_err(failed)?;
    runner.save();
    let session = source::session_of(&add.name);
    wakes::send_changes(session, agent.to_owned(), sender.clone()).map_err(failed)?;
    sharing::start(&add.name, &add.share, &add.conditions, sender).map_err(failed)?;
    loop {
        let wake = match runner.timeout() {
            Some(timeout) => wakes.recv_timeout(timeout),
            None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match wake {
            Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(wake) => runner.take(wake),
            Err(RecvTimeoutError::Timeout) if runner.requests.is_some() => runner.save(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        runner.check();
        if let Some(cause) = runner.schedule.take_due(Instant::now()) {
            runner.act(&cause);
        }
        if runner.schedule.is_over() {
            source::destroy(agent, &add.name);
            runner.is_over = true;
            break;
        }
    }
    if let Some(requests) = &runner.requests {
        requests.wait(LAST_TIME);
    }
    runner.pid = None;
    runner.save();
    Ok(Exit::Ok)
}

struct Runner<'a> {
    files: TriggerFiles,
    agent: &'a str,
    add: &'a Add,
    matching: Matching,
    schedule: Schedule,
    checks: Checks,
    checked: Instant,
    client: Option<Client>,
    pid: Option<u32>,
    /// Number of times that the trigger has acted, in all processes.
    acted: u64,
    /// Number of events that fired it, and of those without a consequence.
    events: u64,
    skipped: u64,
    /// Time of the last event that was read, in nanoseconds since 1970.
    read_until: Option<i64>,
    last: Option<Last>,
    snapshots: VecDeque<PathBuf>,
    requests: Option<RequestSender>,
    trouble: Option<String>,
    sharing_trouble: Option<String>,
    is_over: bool,
}

/// Last time that the trigger has acted.
struct Last {
    time_ns: u64,
    cause: Cause,
}

impl<'a> Runner<'a> {
    fn new(
        files: TriggerFiles,
        agent: &'a str,
        add: &'a Add,
        requests: Option<RequestSender>,
    ) -> Runner<'a> {
        let state = files.state();
        let number = |name: &str| state[name].as_u64().unwrap_or(0);
        let acted = number("acted");
        let left = add.max().map(|max| max.saturating_sub(acted));
        let (delay, every) = add.pace();
        let read_until = state["read_until"].as_i64();
        let snapshots = state["snapshots"].as_array().into_iter().flatten();
        let last = state["last_time"].as_u64().map(|time_ns| {
            let text = state["last_cause"].as_str().unwrap_or_default().to_owned();
            let (events, requests) = (number("last_events"), BTreeSet::new());
            Last { time_ns, cause: Cause { events, text, requests } }
        });
        Runner {
            matching: Matching::new(&files.events(), &add.conditions, read_until),
            schedule: Schedule::new(delay, every, left),
            checks: Checks::new(&add.conditions.lost, &add.conditions.disk_free),
            checked: Instant::now(),
            client: None,
            pid: Some(std::process::id()),
            acted,
            events: number("events"),
            skipped: number("skipped"),
            read_until,
            last,
            snapshots: snapshots.filter_map(Value::as_str).map(PathBuf::from).collect(),
            requests,
            trouble: None,
            sharing_trouble: None,
            is_over: left == Some(0),
            files,
            agent,
            add,
        }
    }

    /// Returns the time after which something is to be done; `None` if only a wake is awaited.
    fn timeout(&self) -> Option<Duration> {
        let check = (!self.checks.is_empty()).then(|| self.checked + conditions::INTERVAL);
        // The numbers of spans that wait are shown.
        let is_sending = self.requests.as_ref().is_some_and(RequestSender::is_busy);
        let sending = is_sending.then(|| Instant::now() + conditions::INTERVAL);
        let next = self.schedule.due().into_iter().chain(check).chain(sending).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Changed => self.read(),
            Wake::Gone => match source::make_again(self.agent, &self.files, self.add) {
                Ok(()) => {
                    self.matching = Matching::new(&self.files.events(), &self.add.conditions, None);
                }
                Err(error) => return self.note_trouble(error.message().to_owned()),
            },
            Wake::Requests(requests) => {
                self.sharing_trouble = None;
                self.fire(0, "asked for by another node".to_owned(), requests);
            }
            Wake::SharingTrouble(why) => {
                if self.sharing_trouble.as_ref() != Some(&why) {
                    warn(&why);
                    self.sharing_trouble = Some(why);
                    self.save();
                }
                return;
            }
            Wake::Fire => {
                let asked = self.files.take_asked();
                let events = u64::from(asked.is_empty());
                self.fire(events, "fired by hand".to_owned(), asked);
            }
            Wake::Trouble(why) => return self.note_trouble(why),
            Wake::End => {}
        }
        if self.trouble.take().is_some() {
            self.save();
        }
    }

    fn note_trouble(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            warn(&why);
            self.trouble = Some(why);
            self.save();
        }
    }

    /// Reads new events.
    fn read(&mut self) {
        let found = self.matching.read();
        self.read_until = self.read_until.max(found.last_ns);
        if found.events > 0 {
            let requests = if self.requests.is_some() { found.requests } else { BTreeSet::new() };
            self.fire(found.events, found.first.unwrap_or_default(), requests);
        }
    }

    fn fire(&mut self, events: u64, mut text: String, requests: BTreeSet<u64>) {
        text.truncate(text.floor_char_boundary(TEXT_SIZE_MAX));
        self.events += events;
        if !self.schedule.add(Instant::now(), Cause { events, text, requests }) {
            self.skipped += events;
        }
        self.save();
    }

    /// Checks the conditions that no event tells of, if it is time.
    fn check(&mut self) {
        if self.checks.is_empty() || self.checked.elapsed() < conditions::INTERVAL {
            return;
        }
        self.checked = Instant::now();
        if self.client.is_none() && !self.add.conditions.lost.is_empty() {
            self.client = source::connect(self.agent, PATIENCE).ok();
        }
        for text in self.checks.check(self.client.as_mut()) {
            self.fire(1, text, BTreeSet::new());
        }
    }

    fn act(&mut self, cause: &Cause) {
        let directory = self.files.events().parent().map(PathBuf::from).unwrap_or_default();
        let mut acted = Acted::default();
        // Other nodes ask for requests only.
        if cause.events > 0 && self.add.has_other_action() {
            acted = actions::act(self.agent, self.add, cause, &directory);
        }
        let Acted { snapshot, mut failures } = acted;
        failures.extend(self.send_requests(&cause.requests).err());
        self.acted += 1;
        self.snapshots.extend(snapshot);
        self.remove_snapshots();
        failures.iter().for_each(|why| warn(why));
        self.trouble = (!failures.is_empty()).then(|| failures.join("; "));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ns = u64::try_from(now.as_nanos()).unwrap_or(0);
        self.last = Some(Last { time_ns, cause: cause.clone() });
        self.save();
    }

    fn send_requests(&mut self, wanted: &BTreeSet<u64>) -> Result<(), String> {
        let Some(sender) = self.requests.as_mut().filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let client = source::connect(self.agent, actions::PATIENCE);
        let mut client = client.map_err(|error| error.to_string())?;
        sender.send(&mut client, wanted, &self.files.rings())
    }

    /// Removes the oldest snapshots if there are too many.
    fn remove_snapshots(&mut self) {
        let keep = self.add.actions.keep.map_or(SNAPSHOTS_MAX, |keep| keep as usize);
        while self.snapshots.len() > keep {
            let Some(oldest) = self.snapshots.pop_front() else { return };
            if self.add.actions.keep.is_some()
                && let Err(error) = std::fs::remove_dir_all(&oldest)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                warn(&format!("cannot remove {}: {error}", oldest.display()));
            }
        }
    }

    /// Writes the state for `blkkin trigger ls` and for the next process.
    fn save(&self) {
        let snapshots: Vec<String> =
            self.snapshots.iter().map(|path| path.display().to_string()).collect();
        let state = json!({
            "pid": self.pid,
            "acted": self.acted,
            "events": self.events,
            "skipped": self.skipped,
            "read_until": self.read_until,
            "last_time": self.last.as_ref().map(|last| last.time_ns),
            "last_events": self.last.as_ref().map(|last| last.cause.events),
            "last_cause": self.last.as_ref().map(|last| &last.cause.text),
            "snapshots": snapshots,
            "requests": self.requests.as_ref().map(RequestSender::state),
            "requests_left_out": self.schedule.left_out(),
            "sharing_trouble": self.sharing_trouble,
            "trouble": self.trouble,
            "is_over": self.is_over,
        });
        if let Err(error) = self.files.set_state(&state) {
            warn(&format!("the trigger's state cannot be written: {error}"));
        }
    }
}
