//! The connections of this process to all agents, and the search for absent agents.

#[cfg(test)]
mod tests;

use super::bell;
use super::catalog_file::CatalogFile;
use super::connection::{Connection, EndReason, Orphan};
use super::purpose::OTHER;
use super::settings;
use crate::channels::CHANNELS_MAX;
use crate::registry::decision;
use blkkin_ring::Clock;
use blkkin_sys::DirectoryWatch;
use blkkin_sys::descriptor::has_standard_streams;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval between attempts to connect to an absent agent: 0.5 s.
const SEARCH_PAUSE: Duration = Duration::from_millis(500);
/// How long absent agents are polled for while another agent is connected: at the start, and after
/// a watched directory has changed.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// How long the channels of an agent that has exited are kept for the next agent.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time that orphans are kept while new agents connect and exit without reading them.
const ORPHAN_LIFE: Duration = Duration::from_secs(60);
/// Maximum number of orphans: enough for several agents that were killed in succession.
const ORPHANS_MAX: usize = 4 * CHANNELS_MAX;
/// Pause before reconnecting after the end of a connection. Each further connection that ends
/// before the agent's initial rules doubles the pause, up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Times since a connection's start at which to check whether the program has closed it. Programs
/// that close all descriptors do so as they become daemons.
const CLOSED_CHECKS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// Connections of this process: the state of each path where an agent may listen.
#[derive(Debug)]
pub(super) struct Connections {
    addresses: Vec<AgentAddress>,
    catalog: CatalogFile,
    clock: Clock,
    /// Set once the rules inherited from a parent process have been cleared.
    is_cleared: bool,
    /// Set once standard streams stayed closed for a second, so that there is no further wait for
    /// them.
    lacks_streams: bool,
    /// Notifies of new files at the paths of absent agents, while another agent is connected.
    watch: Option<DirectoryWatch>,
    /// Time until which absent agents are polled for although another agent is connected.
    search_until: Instant,
}

/// A path where an agent may listen.
#[derive(Debug)]
struct AgentAddress {
    path: &'static Path,
    state: State,
    /// Pause before the program reconnects after the next end of a connection.
    pause: Duration,
    /// Channels of an agent that has exited; kept for the next agent until `orphans_until`.
    orphans: Vec<Orphan>,
    orphans_until: Instant,
}

#[derive(Debug)]
enum State {
    Connected {
        connection: Box<Connection>,
        /// Times at which to check whether the program has closed the connection, in descending
        /// order.
        closed_checks: Vec<Instant>,
    },
    Paused {
        until: Instant,
        /// Set if the last attempt to connect failed.
        is_absent: bool,
    },
    /// The agent has refused this program for good.
    Refused,
}

impl Connections {
    pub(super) fn new() -> Connections {
        let paths = settings::get().sockets.iter();
        let until = Instant::now();
        let addresses = paths.map(|path| AgentAddress {
            path,
            state: State::Paused { until, is_absent: false },
            pause: PAUSE_MIN,
            orphans: Vec::new(),
            orphans_until: until,
        });
        let clock = if blkkin_sys::tsc_is_steady() { Clock::Tsc } else { Clock::Monotonic };
        Connections {
            addresses: addresses.collect(),
            catalog: CatalogFile::default(),
            clock,
            is_cleared: false,
            lacks_streams: false,
            watch: None,
            search_until: until + SEARCH_TIME,
        }
    }

    /// Makes all attempts to connect that are due. Returns true if there is a connection.
    pub(super) fn connect(&mut self) -> bool {
        for address in &mut self.addresses {
            address.connect(self.clock);
        }
        self.connections().next().is_some()
    }

    /// Returns true if there is a connection, and all connected agents have accepted the program.
    pub(super) fn is_accepted(&self) -> bool {
        self.connections().next().is_some() && self.connections().all(Connection::is_accepted)
    }

    /// Returns true if there is a connection, and all connected agents have sent their initial
    /// rules.
    pub(super) fn has_initial_rules(&self) -> bool {
        self.connections().next().is_some() && self.connections().all(Connection::has_initial_rules)
    }

    /// Returns true if all agents have refused this program for good.
    pub(super) fn is_refused_by_all(&self) -> bool {
        self.addresses.iter().all(|address| matches!(address.state, State::Refused))
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.addresses.iter().filter_map(|address| match &address.state {
            State::Connected { connection, .. } => Some(&**connection),
            _ => None,
        })
    }

    /// Serves the connections until `is_done` returns true. `is_done` is called before and after
    /// each wait; no wait lasts beyond `end`.
    pub(super) fn run_until(
        &mut self,
        is_done: impl Fn(&Connections) -> bool,
        end: Option<Instant>,
    ) {
        if !self.is_cleared {
            bell::enable_decisions();
            decision::clear_rules();
            self.is_cleared = true;
        }
        while !is_done(self) {
            // Before `main`, and right after a fork, no other thread could open files.
            if end.is_none() {
                self.let_program_open_files();
            }
            self.process();
            self.connect();
            if is_done(self) {
                break;
            }
            self.wait(end);
        }
    }

    /// Sleeps for up to a second while standard streams are closed. The program is then probably
    /// becoming a daemon, and about to open files in their place. No descriptor of this library
    /// must get the number of a standard stream.
    fn let_program_open_files(&mut self) {
        const TURNS: u32 = 50;
        for _ in 0..TURNS {
            if self.lacks_streams || has_standard_streams() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.lacks_streams = true;
    }

    fn process(&mut self) {
        if self.watch.as_ref().is_some_and(DirectoryWatch::drain_events) {
            self.resume_search();
        }
        let catalog = &mut self.catalog;
        for address in &mut self.addresses {
            address.process(catalog);
        }
    }

    /// Polls again for absent agents for a limited time: some agents create a directory first, and
    /// listen later.
    fn resume_search(&mut self) {
        self.watch = None;
        self.search_until = Instant::now() + SEARCH_TIME;
        self.search_now();
    }

    /// Makes all absent agents due for the next call of [`connect`](Self::connect).
    fn search_now(&mut self) {
        for address in &mut self.addresses {
            if let State::Paused { until, is_absent: true } = &mut address.state {
                *until = Instant::now();
            }
        }
    }

    /// Sets up notifications of absent agents, if possible. Returns true if they replace polling.
    /// While there is no connection, and until `search_until`, polling continues, because
    /// notifications do not cover every case.
    fn can_rely_on_watch(&mut self) -> bool {
        let absent = self.absent();
        let is_idle = self.connections().next().is_some() && Instant::now() >= self.search_until;
        if absent.is_empty() || !is_idle {
            return false;
        }
        if self.watch.is_some() {
            return true;
        }
        let Some(watch) = DirectoryWatch::new(OTHER) else { return false };
        if !absent.iter().all(|path| watch.add(nearest_directory(path))) {
            return false;
        }
        self.watch = Some(watch);
        // Finds an agent that started before the watch was set up.
        self.search_now();
        self.connect();
        self.absent() == absent
    }

    fn absent(&self) -> Vec<&'static Path> {
        let absent = self.addresses.iter().filter(|address| address.is_absent());
        absent.map(|address| address.path).collect()
    }

    /// Waits for a message, a notification, or the next timer.
    fn wait(&mut self, end: Option<Instant>) {
        let is_watching = self.can_rely_on_watch();
        let connections = self.connections().filter_map(Connection::poll_target);
        let watch = self
            .watch
            .iter()
            .filter_map(DirectoryWatch::readable_descriptor)
            .map(|watch| (watch, false));
        let waits_for: Vec<_> = connections.chain(watch).collect();
        let next = self.addresses.iter().filter(|address| !(is_watching && address.is_absent()));
        let next = next.filter_map(AgentAddress::next_timer).chain(end).min();
        let time = next.map(|next| next.saturating_duration_since(Instant::now()));
        if blkkin_sys::wait(&waits_for, time).is_err() {
            // The machine is perhaps out of memory; the pause avoids a busy loop.
            std::thread::sleep(PAUSE_MIN);
        }
    }
}

impl AgentAddress {
    /// Returns true if no agent listens at this path, and no orphans are kept for the next one.
    fn is_absent(&self) -> bool {
        self.orphans.is_empty() && matches!(self.state, State::Paused { is_absent: true, .. })
    }

    /// Returns the time of the next timer: a check of the connection, or an attempt to connect.
    /// Returns `None` if neither is planned.
    fn next_timer(&self) -> Option<Instant> {
        match &self.state {
            State::Connected { closed_checks, .. } => closed_checks.last().copied(),
            State::Paused { until, .. } => Some(*until),
            State::Refused => None,
        }
    }

    fn connect(&mut self, clock: Clock) {
        let State::Paused { until, .. } = self.state else { return };
        let now = Instant::now();
        if now < until {
            return;
        }
        self.drop_stale_orphans(now);
        // Checking the path costs less than a socket, and needs no descriptor.
        let orphans = &mut self.orphans;
        let found =
            self.path.exists().then(|| Connection::new(self.path, clock, orphans)).flatten();
        if found.is_none() && now >= self.orphans_until {
            self.orphans.drain(..).for_each(Orphan::remove);
        }
        self.state = match found {
            Some(connection) => State::Connected {
                connection: Box::new(connection),
                closed_checks: CLOSED_CHECKS.iter().rev().map(|look| now + *look).collect(),
            },
            None => State::Paused { until: now + SEARCH_PAUSE, is_absent: true },
        };
    }

    /// Removes orphans that are too old. If there are too many orphans, also removes the oldest
    /// spent ones.
    fn drop_stale_orphans(&mut self, now: Instant) {
        let mut superfluous = self.orphans.len().saturating_sub(ORPHANS_MAX);
        let mut is_done = |orphan: &mut Orphan| {
            // Live orphans are kept; there are at most as many as channels.
            let is_superfluous = superfluous > 0 && orphan.is_spent();
            superfluous -= usize::from(is_superfluous);
            is_superfluous || orphan.age(now) >= ORPHAN_LIFE
        };
        self.orphans.extract_if(.., &mut is_done).for_each(Orphan::remove);
    }

    fn process(&mut self, catalog: &mut CatalogFile) {
        let State::Connected { connection, closed_checks } = &mut self.state else { return };
        let now = Instant::now();
        while closed_checks.last().is_some_and(|look| *look <= now) {
            closed_checks.pop();
        }
        let pause = match connection.process(catalog) {
            Ok(()) => {
                if connection.has_initial_rules() {
                    self.pause = PAUSE_MIN;
                }
                return;
            }
            Err(EndReason::Refused) => {
                self.state = State::Refused;
                return;
            }
            Err(EndReason::ProtocolError) => self.pause,
            // An agent that is being restarted will be back soon.
            Err(EndReason::Disconnected) => {
                self.orphans = connection.orphans();
                self.orphans_until = now + ORPHAN_PATIENCE;
                self.pause
            }
        };
        self.pause = PAUSE_MAX.min(self.pause * 2);
        self.state = State::Paused { until: now + pause, is_absent: false };
    }
}

/// Returns the nearest existing directory above a path. An entry must be created in it before the
/// path can exist.
fn nearest_directory(path: &Path) -> &Path {
    let directory = path.ancestors().skip(1).find(|directory| directory.is_dir());
    directory.unwrap_or(Path::new("."))
}
