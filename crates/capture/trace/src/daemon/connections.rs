//! Conversations with all daemons that there are for this process, and the wait for those that are not
//! there.

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
use blkkin_sys::Watch;
use blkkin_sys::descriptor::has_standard_streams;
use std::path::Path;
use std::time::{Duration, Instant};

/// From one look for a daemon to the next.
const SEARCH_PAUSE: Duration = Duration::from_millis(500);
/// So long daemons are looked for after something has happened to one, or where they may be.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// How long channels of a daemon that has gone are kept for the one that comes after it.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(5);
/// How long they are kept at most, however many daemons come and go and never read them.
const ORPHAN_LIFE: Duration = Duration::from_secs(60);
/// So many are kept: of channels of several daemons that were killed one after the other.
const ORPHANS_MAX: usize = 4 * CHANNELS_MAX;
/// After the first nonsense from a daemon; then twice as long each time, up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long after a connection was begun somebody looks whether the program has closed it. Programs that
/// do so do it as they become daemons.
const CLOSED_CHECKS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// Talks to daemons.
#[derive(Debug)]
pub(super) struct Connections {
    addresses: Vec<DaemonAddress>,
    catalog: CatalogFile,
    clock: Clock,
    /// Whether what a parent was to record is forgotten.
    is_cleared: bool,
    /// Whether the program is known to do without standard streams.
    lacks_streams: bool,
    /// Notices daemons that come, while this talks to others.
    watch: Option<Watch>,
    /// Until then they are looked for.
    search_until: Instant,
}

/// A place where a daemon may be.
#[derive(Debug)]
struct DaemonAddress {
    path: &'static Path,
    state: State,
    /// The pause after its next nonsense.
    pause: Duration,
    /// Channels of one that has gone, and until when they are kept.
    orphans: Vec<Orphan>,
    orphans_until: Instant,
}

#[derive(Debug)]
enum State {
    Connected {
        connection: Box<Connection>,
        /// When to look whether the program has closed it, from the last to the next.
        closed_checks: Vec<Instant>,
    },
    Paused {
        until: Instant,
        /// Whether there was none when somebody looked.
        is_absent: bool,
    },
    /// It never wants to talk to this program.
    Refused,
}

impl Connections {
    pub(super) fn new() -> Connections {
        let paths = settings::get().sockets.iter();
        let until = Instant::now();
        let addresses = paths.map(|path| DaemonAddress {
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

    /// Begins all conversations that can be begun now; whether there is one.
    pub(super) fn connect(&mut self) -> bool {
        for daemon in &mut self.addresses {
            daemon.connect(self.clock);
        }
        self.connections().next().is_some()
    }

    /// Whether somebody talks, and all who do have let the program in.
    pub(super) fn is_greeted(&self) -> bool {
        self.connections().next().is_some() && self.connections().all(Connection::is_greeted)
    }

    /// Whether somebody talks, and has told all.
    pub(super) fn has_answered(&self) -> bool {
        self.connections().next().is_some() && self.connections().all(Connection::has_answered)
    }

    /// Whether nobody will ever want to talk.
    pub(super) fn is_over(&self) -> bool {
        self.addresses.iter().all(|daemon| matches!(daemon.state, State::Refused))
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.addresses.iter().filter_map(|daemon| match &daemon.state {
            State::Connected { connection, .. } => Some(&**connection),
            _ => None,
        })
    }

    /// Talks until something holds, which is asked again and again until `end`.
    pub(super) fn run_until(
        &mut self,
        is_done: impl Fn(&Connections) -> bool,
        end: Option<Instant>,
    ) {
        if !self.is_cleared {
            bell::listen();
            decision::clear_rules();
            self.is_cleared = true;
        }
        while !is_done(self) {
            // Before `main`, and right after a fork, there is nobody else who could open files.
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

    /// Waits as long as the program seems to be about to open files in place of its standard streams, so that
    /// no descriptor of ours comes to be one of them, for however short a time. Most do so as they become
    /// daemons.
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
        if self.watch.as_ref().is_some_and(Watch::has_seen) {
            self.resume_search();
        }
        let catalog = &mut self.catalog;
        for daemon in &mut self.addresses {
            daemon.process(catalog);
        }
    }

    /// Looks for daemons again, for a while: some make a directory first, and listen later.
    fn resume_search(&mut self) {
        self.watch = None;
        self.search_until = Instant::now() + SEARCH_TIME;
        self.search_now();
    }

    /// Has those that are not there looked for the next time that somebody connects.
    fn search_now(&mut self) {
        for daemon in &mut self.addresses {
            if let State::Paused { until, is_absent: true } = &mut daemon.state {
                *until = Instant::now();
            }
        }
    }

    /// Whether those that are not there need not be looked for, because it is noticed when they come. With
    /// nobody else to talk to they are: what is noticed is not all that can happen.
    fn can_rely_on_watch(&mut self) -> bool {
        let absent = self.absent();
        let is_idle = self.connections().next().is_some() && Instant::now() >= self.search_until;
        if absent.is_empty() || !is_idle {
            return false;
        }
        if self.watch.is_some() {
            return true;
        }
        let Some(watch) = Watch::new(OTHER) else { return false };
        if !absent.iter().all(|path| watch.add(nearest_directory(path))) {
            return false;
        }
        self.watch = Some(watch);
        // Who came before that is found now.
        self.search_now();
        self.connect();
        self.absent() == absent
    }

    fn absent(&self) -> Vec<&'static Path> {
        let absent = self.addresses.iter().filter(|daemon| daemon.is_absent());
        absent.map(|daemon| daemon.path).collect()
    }

    /// Waits until there is something to do.
    fn wait(&mut self, end: Option<Instant>) {
        let is_watching = self.can_rely_on_watch();
        let connections = self.connections().filter_map(Connection::waits_for);
        let watch = self.watch.iter().filter_map(Watch::waits_for).map(|watch| (watch, false));
        let waits_for: Vec<_> = connections.chain(watch).collect();
        let next = self.addresses.iter().filter(|daemon| !(is_watching && daemon.is_absent()));
        let next = next.filter_map(DaemonAddress::next).chain(end).min();
        let time = next.map(|next| next.saturating_duration_since(Instant::now()));
        if blkkin_sys::wait(&waits_for, time).is_err() {
            // Out of memory, perhaps; not to be tried without end.
            std::thread::sleep(PAUSE_MIN);
        }
    }
}

impl DaemonAddress {
    /// Whether there is none, and nothing else to do for it.
    fn is_absent(&self) -> bool {
        self.orphans.is_empty() && matches!(self.state, State::Paused { is_absent: true, .. })
    }

    /// When there is something to do, whatever happens.
    fn next(&self) -> Option<Instant> {
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
        // The look costs less than a socket, and takes no descriptor.
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

    /// Gives up those that nobody has read for too long, and the oldest of too many.
    fn drop_stale_orphans(&mut self, now: Instant) {
        let mut superfluous = self.orphans.len().saturating_sub(ORPHANS_MAX);
        let mut is_done = |orphan: &mut Orphan| {
            // To others events still go, of which there are no more than channels.
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
                if connection.has_answered() {
                    self.pause = PAUSE_MIN;
                }
                return;
            }
            Err(EndReason::Refused) => {
                self.state = State::Refused;
                return;
            }
            Err(EndReason::ProtocolError) => self.pause,
            // Those that are started anew are back soon.
            Err(EndReason::Gone) => {
                self.orphans = connection.orphans();
                self.orphans_until = now + ORPHAN_PATIENCE;
                self.pause
            }
        };
        self.pause = PAUSE_MAX.min(self.pause * 2);
        self.state = State::Paused { until: now + pause, is_absent: false };
    }
}

/// Where something must be made first, before there can be such a path.
fn nearest_directory(path: &Path) -> &Path {
    let directory = path.ancestors().skip(1).find(|directory| directory.is_dir());
    directory.unwrap_or(Path::new("."))
}
