//! Process of a trigger: waits for what fires it, and acts.

use super::actions::{ActionReport, Actor};
use super::conditions::{self, Checks, Firing};
use super::files::{TriggerFiles, remove_tree};
use super::matching::Matching;
use super::options::Add;
use super::requests::{RequestProgress, RequestSender};
use super::schedule::{Cause, Schedule};
use super::state::State;
use super::wakes::{self, Wake};
use super::{sharing, source};
use crate::exit::{Error, Exit, warn};
use blkkin_client::Client;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time limit for the agent's answer about losses.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for actions that are under way, and for the receiver of requests, when the process ends.
const LAST_TIME: Duration = Duration::from_secs(4);
/// Maximum size in bytes of the text of an event in the state.
const TEXT_SIZE_MAX: usize = 4096;
/// Maximum number of snapshots that are remembered.
const SNAPSHOTS_MAX: usize = 10_000;

/// Runs a trigger until a signal ends it, it is removed, or it has acted as often as it may.
pub(super) fn run(files: &TriggerFiles, agent: &str, add: &Add) -> Result<Exit, Error> {
    let failed = |error: io::Error| Error::failed(format!("the trigger cannot run: {error}"));
    let (sender, wakes) = channel();
    wakes::send_signals(&sender).map_err(failed)?;
    let mut lock = files.lock().take()?;
    let before = files.state();
    let requests = RequestSender::open(files, &add.requests, &before["requests"])?;
    let progress = requests.as_ref().map(RequestSender::progress);
    let stop = Arc::new(AtomicBool::new(false));
    let actor = Actor {
        agent: agent.to_owned(),
        add: add.clone(),
        files: TriggerFiles::existing(&add.name)?,
        requests,
        stop: stop.clone(),
    };
    let tell = sender.clone();
    let actor = actor.start(move |acted| tell.send(Wake::Acted(acted)).is_ok()).map_err(failed)?;
    let mut runner = Runner::new(files, agent, add, State::from_json(&before), actor, progress);
    if add.records_events() {
        let session = source::session_of(&add.name);
        let go = wakes::send_changes(session, agent.to_owned(), sender.clone());
        runner.go = Some(go.map_err(failed)?);
    }
    if add.conditions.agent_signal {
        wakes::send_agent_signals(agent.to_owned(), sender.clone()).map_err(failed)?;
    }
    sharing::start(&add.name, &add.share, &add.conditions, sender.clone()).map_err(failed)?;
    runner.take_asked();
    runner.save();
    lock.set_ready().map_err(failed)?;
    runner.work(&wakes);
    runner.finish(&wakes, &stop);
    Ok(Exit::Ok)
}

struct Runner<'a> {
    files: &'a TriggerFiles,
    agent: &'a str,
    add: &'a Add,
    matching: Matching,
    schedule: Schedule,
    checks: Checks,
    checked: Instant,
    client: Option<Client>,
    state: State,
    /// Thread that acts, and the cause on which it acts.
    actor: Sender<Cause>,
    acting: Option<Cause>,
    requests: Option<RequestProgress>,
    /// Lets the thread that waits for changes go on.
    go: Option<SyncSender<()>>,
}

impl<'a> Runner<'a> {
    fn new(
        files: &'a TriggerFiles,
        agent: &'a str,
        add: &'a Add,
        mut state: State,
        actor: Sender<Cause>,
        requests: Option<RequestProgress>,
    ) -> Runner<'a> {
        let left = add.max().map(|max| max.saturating_sub(state.acted));
        let (delay, every) = add.pace();
        let mut schedule = Schedule::new(delay, every, left);
        // An earlier process has ended before it could act.
        if let Some(cause) = state.pending.take() {
            schedule.add(Instant::now(), cause);
        }
        state.pid = Some(std::process::id());
        Runner {
            files,
            agent,
            add,
            matching: Matching::new(&files.events(), &add.conditions, state.fired.clone()),
            schedule,
            checks: Checks::new(&add.conditions.lost, &add.conditions.disk_free),
            checked: Instant::now(),
            client: None,
            state,
            actor,
            acting: None,
            requests,
            go: None,
        }
    }

    /// Waits and acts, until the end.
    fn work(&mut self, wakes: &Receiver<Wake>) {
        while !(self.schedule.is_over() && self.acting.is_none() && !self.is_sending()) {
            let wake = match self.timeout() {
                Some(timeout) => wakes.recv_timeout(timeout),
                None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match wake {
                Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(wake) => self.take(wake),
                // Only the numbers of requests may have changed.
                Err(RecvTimeoutError::Timeout) if self.requests.is_some() => self.save(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !self.files.exist() {
                source::destroy(self.agent, &self.add.name);
                return;
            }
            if self.schedule.is_over() {
                // Only spans are still to be delivered.
                if self.go.take().is_some() {
                    source::destroy(self.agent, &self.add.name);
                }
                continue;
            }
            self.check();
            if self.acting.is_none()
                && let Some(cause) = self.schedule.take_due(Instant::now())
            {
                self.acting = Some(cause.clone());
                self.save();
                let _ = self.actor.send(cause);
            }
        }
        source::destroy(self.agent, &self.add.name);
        self.state.is_over = true;
    }

    /// Ends what is under way. What cannot be done in time is left for the next process.
    fn finish(&mut self, wakes: &Receiver<Wake>, stop: &AtomicBool) {
        // First the actions go on, then they are told to end.
        for is_last in [false, true] {
            stop.store(is_last, Ordering::Relaxed);
            let deadline = Instant::now() + LAST_TIME;
            while self.acting.is_some()
                && let left = deadline.saturating_duration_since(Instant::now())
                && let Ok(wake) = wakes.recv_timeout(left)
            {
                match wake {
                    // What was cut short is done by the next process.
                    Wake::Acted(report) if report.is_stopped => break,
                    wake => self.take(wake),
                }
            }
        }
        let deadline = Instant::now() + LAST_TIME;
        if let Some(requests) = &self.requests {
            requests.wait(deadline.saturating_duration_since(Instant::now()));
        }
        self.state.pid = None;
        if self.files.exist() {
            self.save();
        }
    }

    /// Returns whether the receiver of requests does not have all of them.
    fn is_sending(&self) -> bool {
        self.requests.as_ref().is_some_and(RequestProgress::is_busy)
    }

    /// Returns the time after which something is to be done; `None` if only a wake is awaited.
    fn timeout(&self) -> Option<Duration> {
        let check = (!self.checks.is_empty()).then(|| self.checked + conditions::INTERVAL);
        let due = self.schedule.due().filter(|_| self.acting.is_none());
        // The numbers of spans that wait are shown.
        let sending = self.is_sending().then(|| Instant::now() + conditions::INTERVAL);
        let next = due.into_iter().chain(check).chain(sending).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Changed => {
                if self.state.troubles.agent.take().is_some() {
                    self.save();
                }
                self.read();
                self.go_on();
            }
            Wake::Gone => {
                // What the session has written before its end.
                self.read();
                match source::make_again(self.agent, self.files, self.add) {
                    Ok(()) => {
                        let fired = self.state.fired.clone();
                        let conditions = &self.add.conditions;
                        self.matching = Matching::new(&self.files.events(), conditions, fired);
                    }
                    Err(error) => self.note_agent_trouble(error.message().to_owned()),
                }
                self.go_on();
            }
            Wake::Trouble(why) => {
                self.note_agent_trouble(why);
                self.go_on();
            }
            Wake::Requests(requests) => {
                self.fire(0, "asked for by another node".to_owned(), requests);
            }
            Wake::Sharing(trouble) => {
                trouble.iter().for_each(|why| warn(why));
                self.state.troubles.sharing = trouble;
                self.save();
            }
            Wake::Fire(why) => {
                self.fire(1, why.to_owned(), BTreeSet::new());
            }
            Wake::Asked => self.take_asked(),
            Wake::Acted(acted) => self.note_acted(acted),
            Wake::End => {}
        }
    }

    /// Takes the requests that a command asks for.
    fn take_asked(&mut self) {
        let asked = self.files.take_asked();
        if !asked.is_empty() {
            self.fire(0, "asked for by name".to_owned(), asked);
        }
    }

    fn go_on(&self) {
        let _ = self.go.as_ref().map(|go| go.try_send(()));
    }

    fn note_agent_trouble(&mut self, why: String) {
        if self.state.troubles.agent.as_ref() != Some(&why) {
            warn(&why);
            self.state.troubles.agent = Some(why);
            self.save();
        }
    }

    /// Reads new events.
    fn read(&mut self) {
        let mut found = self.matching.read();
        self.state.fired.add(&found.fired);
        self.state.lost += found.lost;
        if self.requests.is_some() {
            self.state.requests_left_out += found.requests_left_out;
        }
        let had_trouble = self.state.troubles.traces.is_some();
        let has_news = found.lost > 0 || found.trouble.is_some() || had_trouble;
        self.state.troubles.traces = found.trouble.take();
        if !found.fired.is_empty() {
            let requests = if self.requests.is_some() { found.requests } else { BTreeSet::new() };
            self.fire(found.fired.len() as u64, found.first.unwrap_or_default(), requests);
        } else if has_news {
            self.save();
        }
    }

    /// Takes a reason to act. Returns false if it has no consequence.
    fn fire(&mut self, events: u64, mut text: String, requests: BTreeSet<u64>) -> bool {
        text.truncate(text.floor_char_boundary(TEXT_SIZE_MAX));
        self.state.events += events;
        let cause = Cause { events, text, requests, ..Cause::default() };
        let is_taken = self.schedule.add(Instant::now(), cause);
        if !is_taken {
            self.state.skipped += events;
        }
        self.save();
        is_taken
    }

    /// Checks the conditions that no event tells of, if it is time.
    fn check(&mut self) {
        let since = self.checked.elapsed();
        if self.checks.is_empty() || since < conditions::INTERVAL {
            return;
        }
        if since >= 2 * conditions::INTERVAL {
            self.checks.begin_again();
        }
        self.checked = Instant::now();
        let mut troubles = Vec::new();
        if self.client.is_none() && self.checks.need_agent() {
            match source::connect(self.agent, PATIENCE) {
                Ok(client) => self.client = Some(client),
                Err(error) => troubles.push(error.to_string()),
            }
        }
        let mut checked = self.checks.check(self.client.as_mut());
        if checked.lacks_agent {
            self.client = None;
            self.checks.begin_again();
        }
        troubles.append(&mut checked.troubles);
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        if self.state.troubles.check != trouble {
            self.state.troubles.check = trouble;
            self.save();
        }
        for Firing { text, disk } in checked.fired {
            let is_taken = self.fire(1, text, BTreeSet::new());
            if let Some(disk) = disk.filter(|_| !is_taken) {
                self.checks.fire_again(disk);
            }
        }
    }

    fn note_acted(&mut self, ActionReport { snapshot, failures, .. }: ActionReport) {
        let cause = self.acting.take().unwrap_or_default();
        self.state.acted += 1;
        self.state.snapshots.extend(snapshot);
        self.remove_snapshots();
        failures.iter().for_each(|why| warn(why));
        self.state.troubles.action = (!failures.is_empty()).then(|| failures.join("; "));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.state.last = Some((u64::try_from(now.as_nanos()).unwrap_or(0), cause));
        self.save();
    }

    /// Removes the oldest snapshots if there are too many.
    fn remove_snapshots(&mut self) {
        let keep = self.add.actions.keep;
        let max = keep.map_or(SNAPSHOTS_MAX, |keep| keep as usize);
        while self.state.snapshots.len() > max {
            let Some(oldest) = self.state.snapshots.pop_front() else { return };
            if keep.is_some()
                && let Err(error) = remove_tree(&oldest)
            {
                warn(&error.to_string());
            }
        }
    }

    /// Writes the state for `blkkin trigger ls` and for the next process.
    fn save(&mut self) {
        let mut pending = self.schedule.pending().cloned();
        if let Some(acting) = &self.acting {
            pending.get_or_insert_default().join(acting.clone());
        }
        self.state.pending = pending;
        self.state.requests_left_out += self.schedule.take_left_out();
        let state = self.state.to_json(self.requests.as_ref().map(RequestProgress::state));
        if let Err(error) = self.files.set_state(&state) {
            warn(&format!("the trigger's state cannot be written: {error}"));
        }
    }
}
