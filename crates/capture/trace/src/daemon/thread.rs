//! Conversations with all daemons that there are for this process, and the wait for those that are not
//! there.

use super::catalog::CatalogFile;
use super::connection::{Connection, End, Orphan};
use super::settings;
use crate::registry;
use blkkin_ring::Clock;
use std::path::Path;
use std::time::{Duration, Instant};

/// From one look for a daemon to the next.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How long channels of a daemon that has gone are kept for the one that comes after it.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(5);
/// After the first nonsense from a daemon; then twice as long each time, up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long after a connection was begun somebody looks whether the program has closed it. Programs that
/// do so do it as they become daemons.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// Talks to daemons.
#[derive(Debug)]
pub(super) struct Talk {
    daemons: Vec<Daemon>,
    catalog: CatalogFile,
    clock: Clock,
    /// Whether what a parent was to record is forgotten.
    is_fresh: bool,
}

/// A place where a daemon may be.
#[derive(Debug)]
struct Daemon {
    path: &'static Path,
    state: State,
    /// The pause after its next nonsense.
    pause: Duration,
    /// Channels of one that has gone, and until when they are kept.
    orphans: Vec<Orphan>,
    kept_until: Instant,
}

#[derive(Debug)]
enum State {
    Talks {
        connection: Box<Connection>,
        /// When to look whether the program has closed it, from the last to the next.
        looks: Vec<Instant>,
    },
    Pauses {
        until: Instant,
    },
    /// It never wants to talk to this program.
    Refuses,
}

impl Talk {
    pub(super) fn new() -> Talk {
        let paths = settings::get().sockets.iter();
        let until = Instant::now();
        let daemons = paths.map(|path| Daemon {
            path,
            state: State::Pauses { until },
            pause: PAUSE_MIN,
            orphans: Vec::new(),
            kept_until: until,
        });
        let clock = if blkkin_sys::tsc_is_steady() { Clock::Tsc } else { Clock::Monotonic };
        Talk { daemons: daemons.collect(), catalog: CatalogFile::default(), clock, is_fresh: false }
    }

    /// Begins all conversations that can be begun now; whether there is one.
    pub(super) fn connect(&mut self) -> bool {
        for daemon in &mut self.daemons {
            daemon.connect(self.clock);
        }
        self.connections().next().is_some()
    }

    /// Whether somebody talks, and has told all.
    pub(super) fn has_answered(&self) -> bool {
        self.connections().next().is_some() && self.connections().all(Connection::has_answered)
    }

    /// Whether nobody will ever want to talk.
    pub(super) fn is_over(&self) -> bool {
        self.daemons.iter().all(|daemon| matches!(daemon.state, State::Refuses))
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.daemons.iter().filter_map(|daemon| match &daemon.state {
            State::Talks { connection, .. } => Some(&**connection),
            _ => None,
        })
    }

    /// Talks until something holds, which is asked again and again until `end`.
    pub(super) fn until(&mut self, is_done: impl Fn(&Talk) -> bool, end: Option<Instant>) {
        if !self.is_fresh {
            registry::forget_all();
            self.is_fresh = true;
        }
        while !is_done(self) {
            self.go_on();
            self.connect();
            if is_done(self) {
                break;
            }
            self.wait(end);
        }
    }

    fn go_on(&mut self) {
        let catalog = &mut self.catalog;
        for daemon in &mut self.daemons {
            daemon.go_on(catalog);
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, end: Option<Instant>) {
        let waits_for: Vec<_> = self.connections().filter_map(Connection::waits_for).collect();
        let next = self.daemons.iter().filter_map(Daemon::next).chain(end).min();
        let time = next.map(|next| next.saturating_duration_since(Instant::now()));
        if blkkin_sys::wait(&waits_for, time).is_err() {
            // Out of memory, perhaps; not to be tried without end.
            std::thread::sleep(PAUSE_MIN);
        }
    }
}

impl Daemon {
    /// When there is something to do, whatever happens.
    fn next(&self) -> Option<Instant> {
        match &self.state {
            State::Talks { looks, .. } => looks.last().copied(),
            State::Pauses { until } => Some(*until),
            State::Refuses => None,
        }
    }

    fn connect(&mut self, clock: Clock) {
        let State::Pauses { until } = self.state else { return };
        let now = Instant::now();
        if now < until {
            return;
        }
        // The look costs less than a socket, and takes no descriptor.
        let orphans = &mut self.orphans;
        let found =
            self.path.exists().then(|| Connection::new(self.path, clock, orphans)).flatten();
        if found.is_none() && now >= self.kept_until {
            self.orphans.drain(..).for_each(Orphan::remove);
        }
        self.state = match found {
            Some(connection) => State::Talks {
                connection: Box::new(connection),
                looks: LOOKS.iter().rev().map(|look| now + *look).collect(),
            },
            None => State::Pauses { until: now + LOOK_PAUSE },
        };
    }

    fn go_on(&mut self, catalog: &mut CatalogFile) {
        let State::Talks { connection, looks } = &mut self.state else { return };
        let now = Instant::now();
        while looks.last().is_some_and(|look| *look <= now) {
            looks.pop();
        }
        let pause = match connection.go_on(catalog) {
            Ok(()) => {
                if connection.has_answered() {
                    self.pause = PAUSE_MIN;
                }
                return;
            }
            Err(End::Refused) => {
                self.state = State::Refuses;
                return;
            }
            Err(End::Nonsense) => self.pause,
            // Those that are started anew are back soon.
            Err(End::Gone) => {
                self.orphans = connection.orphans();
                self.kept_until = now + ORPHAN_PATIENCE;
                self.pause
            }
        };
        self.pause = PAUSE_MAX.min(self.pause * 2);
        self.state = State::Pauses { until: now + pause };
    }
}
