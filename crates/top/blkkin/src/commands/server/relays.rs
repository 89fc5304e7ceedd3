//! Requests of sessions that relays hold (`--from`): a thread looks for sessions of each relay, and
//! one for each session assembles its requests and passes their spans to the server.
//!
//! A session is read from its beginning, except for events that this server or an earlier one has
//! read: [`Positions`] has the time up to which each session was read.

use super::log::{Level, Log};
use super::positions::Positions;
use crate::output::plural;
use crate::relay_credentials;
use blkkin_live::{Error, Late, Session, Url, Viewer};
use blkkin_reader::{Follower, TimeBase};
use blkkin_server::Entrance;
use blkkin_spans::{Collector, Limits, Request, Sink};
use blkkin_wire::{Batch, Format};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Readers of relays' sessions.
pub(super) struct Relays {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// State that all threads share.
struct Shared {
    entrance: Entrance,
    positions: Mutex<Positions>,
    log: Log,
    /// URLs of the sessions that are being read.
    read: Mutex<HashSet<String>>,
    /// Ids of the sessions that were read to their ends, with the URLs of their relays, while the
    /// relays list them.
    finished: Mutex<HashSet<(String, u64)>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    is_ending: Mutex<bool>,
    ended: Condvar,
}

/// Receiver of requests that stores their spans in batches.
struct StoringSink<'s> {
    shared: &'s Shared,
    batch: Batch,
    /// Time since which the server ends, and spans could not be stored.
    ending_since: Option<Instant>,
    /// Set if spans could not be stored before the server's end.
    has_dropped: bool,
}

/// Interval at which a relay is asked for its sessions.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a batch is offered again that the store has refused for lack of room.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time between two rounds of reading.
const ROUND_MAX: Duration = Duration::from_millis(50);
/// Format of spans on their way to the store. Others lack some of the fields.
const FORMAT: Format = Format::ZipkinProto;
/// Size of a batch of spans from which it is stored, in bytes.
const BATCH_SIZE: usize = 1 << 20;
/// Time without an event after which a request is complete.
const IDLE: Duration = Duration::from_millis(300);
/// Time without an event after which a request with an unended span is complete.
const IDLE_UNENDED: Duration = Duration::from_secs(10);
/// Time that is read again after the server was killed: that of requests which were not complete.
const REREAD: Duration = IDLE_UNENDED.saturating_add(Duration::from_secs(1));
/// Maximum time to store the last spans when the server ends.
const LAST_TIME: Duration = Duration::from_secs(5);
/// Interval at which the positions of sessions are saved.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

impl Relays {
    /// Starts to read the sessions of relays, or single sessions.
    pub(super) fn start(
        urls: Vec<Url>,
        entrance: Entrance,
        positions: Positions,
        log: Log,
    ) -> io::Result<Relays> {
        let shared = Arc::new(Shared {
            entrance,
            positions: Mutex::new(positions),
            log,
            read: Mutex::default(),
            finished: Mutex::default(),
            readers: Mutex::default(),
            is_ending: Mutex::new(false),
            ended: Condvar::new(),
        });
        let mut relays = Relays { shared, threads: Vec::new() };
        for url in urls {
            let shared = relays.shared.clone();
            let thread = Builder::new().name("relay sessions".to_owned());
            relays.threads.push(thread.spawn(move || shared.find_sessions(&url))?);
        }
        Ok(relays)
    }

    /// Stores what was read, and ends all threads.
    pub(super) fn stop(self) {
        *self.shared.is_ending.lock() = true;
        self.shared.ended.notify_all();
        for thread in self.threads {
            let _ = thread.join();
        }
        let readers = std::mem::take(&mut *self.shared.readers.lock());
        for reader in readers {
            let _ = reader.join();
        }
        self.shared.save();
    }
}

impl Shared {
    fn is_ending(&self) -> bool {
        *self.is_ending.lock()
    }

    /// Waits for `time`. Returns false once the server ends.
    fn pause(&self, time: Duration) -> bool {
        let mut is_ending = self.is_ending.lock();
        if !*is_ending {
            self.ended.wait_for(&mut is_ending, time);
        }
        !*is_ending
    }

    fn save(&self) {
        if let Err(error) = self.positions.lock().save() {
            let line = format!("how far relays were read cannot be saved: {error}");
            self.log.line(Level::Warn, &line);
        }
    }

    /// Begins to read each session that appears at a relay, until the server ends.
    fn find_sessions(self: &Arc<Self>, url: &Url) {
        let mut is_reachable = true;
        loop {
            match relay_credentials::for_url(url)
                .and_then(|own| blkkin_live::list_with_ended(&url.relay(), own.as_ref()))
            {
                Ok(sessions) => {
                    if !std::mem::replace(&mut is_reachable, true) {
                        self.log.line(Level::Info, &format!("{url} answers again"));
                    }
                    self.begin_all(url, &sessions);
                }
                Err(error) => {
                    if std::mem::replace(&mut is_reachable, false) {
                        let line = format!("cannot read {url}: {error}; trying again");
                        self.log.line(Level::Warn, &line);
                    }
                }
            }
            if !self.pause(LIST_INTERVAL) {
                return;
            }
        }
    }

    /// Begins to read the sessions that are meant and were not read yet. A session may have ended
    /// since an earlier list, or while the relay was away.
    fn begin_all(self: &Arc<Self>, url: &Url, sessions: &[Session]) {
        let relay = url.relay().to_string();
        let mut finished = self.finished.lock();
        finished.retain(|(other, id)| {
            *other != relay || sessions.iter().any(|session| session.id == *id)
        });
        let mut ids: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
        for Session { id, host, name, live_timer_us, .. } in sessions {
            let is_meant = url
                .session
                .as_ref()
                .is_none_or(|wanted| wanted.host == *host && wanted.session == *name);
            if is_meant && *live_timer_us > 0 && !finished.contains(&(relay.clone(), *id)) {
                ids.entry((host, name)).or_default().push(*id);
            }
        }
        drop(finished);
        for ((host, name), ids) in ids {
            self.begin(url.with_session(host, name), ids);
        }
    }

    /// Begins to read the sessions of a URL that have these ids, unless the URL is being read.
    fn begin(self: &Arc<Self>, url: Url, ids: Vec<u64>) {
        if !self.read.lock().insert(url.to_string()) {
            return;
        }
        let shared = self.clone();
        let thread = Builder::new().name("relay reader".to_owned());
        let thread = thread.spawn({
            let url = url.clone();
            move || {
                shared.read_sessions(&url, ids);
                shared.read.lock().remove(&url.to_string());
            }
        });
        let mut readers = self.readers.lock();
        readers.retain(|reader| !reader.is_finished());
        match thread {
            Ok(thread) => readers.push(thread),
            Err(error) => {
                self.log.line(Level::Error, &format!("cannot read {url}: {error}"));
                self.read.lock().remove(&url.to_string());
            }
        }
    }

    /// Reads the sessions of a URL that have these ids to their ends.
    fn read_sessions(&self, url: &Url, ids: Vec<u64>) {
        let opened = relay_credentials::for_url(url)
            .and_then(|own| Viewer::open_each(url, own.as_ref(), ids.clone(), TimeBase::Relay));
        let viewer = match opened {
            Ok(viewer) => viewer,
            // The relay has forgotten the sessions since they were listed.
            Err(Error::NoSession { .. }) => return,
            Err(error) => {
                return self.log.line(Level::Warn, &format!("cannot read {url}: {error}"));
            }
        };
        let from = self.positions.lock().of(&url.to_string());
        let since = from.map_or(String::new(), |from| format!(" from {} on", time_text(from)));
        self.log.line(Level::Info, &format!("reading {url}{since}"));
        let limits = Limits {
            idle_ns: IDLE.as_nanos() as u64,
            idle_unended_ns: IDLE_UNENDED.as_nanos() as u64,
            // Each node's session is read by itself; the store joins what they have of a request.
            awaits_callers: false,
            ..Limits::default()
        };
        let collector = Collector::new(limits, StoringSink::new(self));
        let mut late = Late::new(collector, TimeBase::Relay);
        let mut follower = Follower::new(&[viewer.source()]);
        let (mut last, mut lost) = (None, 0);
        let (start, mut saved) = (Instant::now(), Instant::now());
        // Times up to which the session was read, with the moments when they were known.
        let mut history = VecDeque::new();
        let last = loop {
            if self.is_ending() {
                viewer.stop();
            }
            let progress = viewer.wait(last, ROUND_MAX);
            follower.refresh(progress.has_ended);
            let now = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
            let _ = late.consumer.advance(now);
            // The next server reads events after `end_ns` again. If the relay has ended instead,
            // no later connection has them.
            let stats = match progress.has_ended && !self.is_ending() {
                true => follower.deliver(|reading| reading.range(from, None), &mut late),
                false => follower.deliver_until(
                    progress.end_ns,
                    |reading| reading.range(from, None),
                    &mut late,
                ),
            };
            lost += stats.events_lost;
            late.consumer.sink.store();
            if progress.has_ended {
                break progress;
            }
            late.end_round(progress.end_ns);
            if saved.elapsed() >= SAVE_INTERVAL {
                saved = Instant::now();
                history.push_back((saved, progress.end_ns));
                while history.get(1).is_some_and(|(then, _)| then.elapsed() >= REREAD) {
                    history.pop_front();
                }
                // A server that is killed loses what it has assembled and not stored.
                let known = history.front().filter(|(then, _)| then.elapsed() >= REREAD);
                if let Some((_, end_ns)) = known {
                    self.set_position(url, end_ns.saturating_sub(REREAD.as_nanos() as i64));
                }
            }
            last = Some(progress);
        };
        let (count, collector) = (late.count(), &mut late.consumer);
        let _ = collector.finish();
        collector.sink.store();
        if !collector.sink.has_dropped {
            self.set_position(url, last.end_ns);
        }
        if self.report(url, &viewer, [lost, last.missing_packets, count]) {
            let relay = url.relay().to_string();
            self.finished.lock().extend(ids.into_iter().map(|id| (relay.clone(), id)));
        }
    }

    /// Saves the time up to which a session was read.
    fn set_position(&self, url: &Url, end_ns: i64) {
        // A node's clock may be ahead, or a producer may lie: later events must not be hidden.
        let now = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
        let is_known = end_ns < i64::MAX;
        let end_ns = end_ns.min(now);
        let mut positions = self.positions.lock();
        let url = url.to_string();
        // `i64::MAX` means that the session has ended. It would hide all events of a later session
        // of this name.
        if is_known && positions.of(&url).is_none_or(|known| known < end_ns) {
            positions.set(&url, end_ns);
        }
        drop(positions);
        self.save();
    }

    /// Logs how the reading of a session has ended, and returns whether it was read to its end. The
    /// numbers are those of lost events, of missing packets, and of events that came after later
    /// ones.
    fn report(&self, url: &Url, viewer: &Viewer, [lost, missing, late]: [u64; 3]) -> bool {
        let told = [
            (lost, "event", "lost by the tracer"),
            (missing, "packet", "no longer at the relay"),
            (late, "event", "late"),
        ];
        let told = told.into_iter().filter(|(count, ..)| *count > 0);
        let losses: String =
            told.map(|(count, what, how)| format!("; {} {how}", plural(count, what))).collect();
        let line = match viewer.take_error() {
            None if self.is_ending() => format!("{url}: reading ends with the server{losses}"),
            None => format!("{url} has ended{losses}"),
            Some(error) => {
                let line = format!("{url}: {error}; reading it again{losses}");
                self.log.line(Level::Warn, &line);
                return false;
            }
        };
        self.log.line(Level::Info, &line);
        !self.is_ending()
    }
}

impl StoringSink<'_> {
    fn new(shared: &Shared) -> StoringSink<'_> {
        let batch = Batch::new(FORMAT);
        StoringSink { shared, batch, ending_since: None, has_dropped: false }
    }

    /// Stores the batch. Waits while the store has no room, and does not read meanwhile.
    fn store(&mut self) {
        let count = self.batch.count() as u64;
        if count == 0 {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Batch::new(FORMAT)).finish();
        let Shared { entrance, log, .. } = self.shared;
        if self.has_dropped {
            return;
        }
        let mut has_logged = false;
        while let Err(refusal) = entrance.accept(FORMAT, &batch) {
            if !std::mem::replace(&mut has_logged, true) {
                let line = format!("spans of relays wait: {}", refusal.reason);
                log.line(Level::Warn, &line);
            }
            if !self.shared.pause(REFUSED_PAUSE) {
                let since = *self.ending_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= LAST_TIME {
                    self.has_dropped = true;
                    let spans = plural(count, "span");
                    let line = format!("{spans} of relays were not stored, and are read again");
                    return log.line(Level::Warn, &line);
                }
                std::thread::sleep(REFUSED_PAUSE / 10);
            }
        }
    }
}

impl Sink for StoringSink<'_> {
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()> {
        for step in &request.steps {
            step.with_own_tags(|span| self.batch.span(span));
            if self.batch.size() >= BATCH_SIZE {
                self.store();
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns a time in nanoseconds since 1970 for people.
fn time_text(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into()).map_or(String::new(), |time| format!("{time:.3}"))
}
