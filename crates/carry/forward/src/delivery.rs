//! Delivery of the traces below a directory to a relay, over as many connections as it takes.

use crate::clock_meter::ClockMeter;
use crate::forwarder::{Forwarder, SessionName, Totals, now_s};
use crate::positions::Positions;
use crate::sent_positions::SentPositions;
use crate::spool;
use crate::target::Target;
use crate::watcher::{Changes, Watcher};
use blkkin_secure::Credentials;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Delivery of the traces below a directory. What a relay has acknowledged is not sent again, so
/// each connection has a session of its own with the rest.
#[derive(Debug)]
pub struct Delivery {
    target: Target,
    session: SessionName,
    root: PathBuf,
    persistence: Persistence,
    credentials: Option<ReadCredentials>,
    is_spool: bool,
    /// Set if hidden files in the directory tell the next process how far this one has got.
    is_resumed: bool,
    /// Size of a spool's packets when the delivery was resumed, in bytes.
    size: u64,
    positions: Positions,
    sent: Arc<SentPositions>,
    watcher: Watcher,
    forwarder: Option<Forwarder>,
    clocks: Option<ClockMeter>,
    /// Numbers of what was sent over earlier connections.
    totals: Totals,
    has_connected: bool,
    /// Cleared while the positions cannot be saved.
    can_save: bool,
    /// When the last session was created at a relay, in seconds since 1970.
    created_s: u64,
    /// When to ask the relay next what has arrived; `None` if it has all that was sent.
    acknowledge_at: Option<Instant>,
    /// Number of bytes sent when acknowledgement was last requested.
    bytes_at_request: u64,
    /// Number of failures since the relay last acknowledged something.
    failures: u32,
}

/// Function that reads the credentials for connections with TLS.
struct ReadCredentials(Box<dyn Fn() -> io::Result<Credentials> + Send>);

impl std::fmt::Debug for ReadCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadCredentials")
    }
}

/// Rule that tells which failures of the connection are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The first failure is final.
    Once,
    /// Failures are final before the first connection, and after the work was told to end.
    Follow,
    /// No failure is final.
    Forever,
}

/// Report of a delivery.
#[derive(Debug)]
pub enum Report<'a> {
    /// The relay has accepted a session, whose path this is.
    Connected(&'a str),
    /// The connection has failed, and is tried again until it succeeds.
    Lost(&'a io::Error),
    /// A trace cannot be sent, or not completely.
    Damaged(&'a str),
    /// The relay was asked what has arrived. These are the numbers of what was sent, and whether
    /// all of it has arrived.
    Progress(Totals, bool),
}

/// Interval of acknowledgement requests. Each costs a round trip and a write of the positions.
const ACKNOWLEDGE_PAUSE: Duration = Duration::from_secs(1);
/// Interval if a trace may have ended, or after [`UNACKNOWLEDGED_MAX`].
const ACKNOWLEDGE_PAUSE_MIN: Duration = Duration::from_millis(200);
/// Number of bytes after which acknowledgement is requested sooner, because a spool holds them
/// until then.
const UNACKNOWLEDGED_MAX: u64 = 256 << 10;
/// Pause after the first failure in a row. It doubles up to the longest one.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Longest wait without any change. Files on some network file systems change without notice.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Waits until a session has another time of creation than one that was created at `created_s`.
/// lttng-relayd names directories by this time, and would overwrite the earlier session.
fn await_second_after(created_s: u64) {
    while now_s() == created_s {
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Delivery {
    /// Prepares the delivery of the traces below `root`.
    pub fn new(
        target: Target,
        session: SessionName,
        root: &Path,
        persistence: Persistence,
    ) -> Delivery {
        Delivery {
            target,
            session,
            root: root.to_owned(),
            persistence,
            credentials: None,
            is_spool: false,
            is_resumed: false,
            size: 0,
            positions: Positions::default(),
            sent: Arc::default(),
            watcher: Watcher::new(),
            forwarder: None,
            clocks: None,
            totals: Totals::default(),
            has_connected: false,
            can_save: true,
            created_s: 0,
            acknowledge_at: None,
            bytes_at_request: 0,
            failures: 0,
        }
    }

    /// Sets how to read the credentials for a target with TLS, before each connection.
    pub fn with_credentials(
        mut self,
        read: impl Fn() -> io::Result<Credentials> + Send + 'static,
    ) -> Delivery {
        self.credentials = Some(ReadCredentials(Box::new(read)));
        self
    }

    /// Continues an earlier delivery of the directory, and notes in a hidden file there how far
    /// this one gets. Waits while another one delivers the directory.
    pub fn resume(mut self) -> io::Result<Delivery> {
        self.positions = Positions::read(&self.root)?;
        self.is_resumed = true;
        if self.is_spool {
            self.size = spool::allocated_size(&self.root);
        }
        self.sent.begin_with(&self.positions);
        Ok(self)
    }

    /// Returns the size of a spool's packets in bytes when the delivery was resumed, if it is to
    /// remove delivered ones.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Shares the positions up to which packets were sent with a [`Trimmer`](crate::Trimmer).
    pub fn with_positions(mut self, sent: Arc<SentPositions>) -> Delivery {
        self.sent = sent;
        self
    }

    /// Removes packets that the relay has acknowledged, and traces that have ended.
    pub fn remove_delivered(mut self) -> Delivery {
        self.is_spool = true;
        self
    }

    /// Sends what is in the directory and what is added, until `ending` becomes readable and all
    /// has arrived.
    pub fn run(
        &mut self,
        ending: BorrowedFd<'_>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> io::Result<Totals> {
        let mut changes = Changes { in_tree: true, ..Changes::default() };
        loop {
            match self.advance(&mut changes, ending, report) {
                Ok(true) => {}
                Ok(false) => return Ok(self.totals),
                Err(error) => {
                    let is_ending = changes.is_ending;
                    changes = self.pause(error, is_ending, ending, report)?;
                }
            }
        }
    }

    /// Sends what has changed, and waits for more. Returns false once all has arrived at the end.
    fn advance(
        &mut self,
        changes: &mut Changes,
        ending: BorrowedFd<'_>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> io::Result<bool> {
        if changes.of_relay {
            // The relay sends nothing unasked.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let Delivery { target, session, root, positions, watcher, is_spool, .. } = self;
        let (credentials, positions_sent) = (&self.credentials, &self.sent);
        let kept = self.is_resumed.then_some(&**root);
        let clocks = self.clocks.get_or_insert_with(|| ClockMeter::new(kept));
        let forwarder = match &mut self.forwarder {
            Some(forwarder) => forwarder,
            none => {
                await_second_after(self.created_s);
                self.created_s = now_s();
                let credentials = match (target.is_secure, credentials) {
                    (false, _) => None,
                    (true, Some(ReadCredentials(read))) => Some(read()?),
                    (true, None) => return Err(io::Error::other("there are no credentials")),
                };
                let shared = positions_sent.clone();
                let mut new =
                    Forwarder::connect(target, session, root, *is_spool, shared, credentials)?;
                clocks.begin(new.connection())?;
                report(Report::Connected(new.path()));
                self.has_connected = true;
                self.bytes_at_request = 0;
                none.insert(new)
            }
        };
        let warn = &mut |line: &str| report(Report::Damaged(line));
        let sent = forwarder.send(changes, positions, watcher, warn)?;
        if sent.packets > 0 {
            clocks.measure(forwarder.connection())?;
        }
        if changes.is_ending && sent.packets == 0 {
            let Some(forwarder) = self.forwarder.take() else { return Ok(false) };
            let (totals, is_whole) = forwarder.end(positions, warn)?;
            self.totals = self.totals.and(totals);
            if self.is_spool && is_whole {
                spool::remove_empty(root);
            }
            return Ok(false);
        }
        let now = Instant::now();
        if forwarder.next_beacon().is_some_and(|due| due <= now) {
            forwarder.send_beacons()?;
        }
        if self.acknowledge_at.is_some_and(|due| due <= now) {
            self.acknowledge_at = None;
            self.bytes_at_request = forwarder.totals().bytes;
            let is_complete = forwarder.acknowledge(positions)?;
            // Without the file, an interrupted delivery sends some packets again. The space of the
            // delivered packets may be what the file needs.
            let saved = positions.save();
            if let Some(error) = saved.as_ref().err().filter(|_| self.can_save) {
                report(Report::Damaged(&format!("{}: {error}", root.display())));
            }
            self.can_save = saved.is_ok();
            forwarder.remove_acknowledged();
            report(Report::Progress(self.totals.and(forwarder.totals()), is_complete));
            self.failures = 0;
        }
        if changes.in_tree || self.acknowledge_at.is_none() {
            forwarder.close_ended(positions, &mut |line| report(Report::Damaged(line)))?;
        }
        let is_urgent = changes.in_tree
            || forwarder.totals().bytes - self.bytes_at_request >= UNACKNOWLEDGED_MAX;
        if forwarder.has_unacknowledged() {
            let pause = if is_urgent { ACKNOWLEDGE_PAUSE_MIN } else { ACKNOWLEDGE_PAUSE };
            self.acknowledge_at = self.acknowledge_at.into_iter().chain([now + pause]).min();
        }
        let due = forwarder.next_beacon().into_iter().chain(self.acknowledge_at).min();
        let timeout = due.map_or(WAIT_MAX, |due| due.saturating_duration_since(now));
        let timeout = sent.pause.map_or(timeout, |pause| timeout.min(pause));
        let mut more = watcher.wait(ending, Some(forwarder.relay()), timeout)?;
        more.in_tree |= sent.pause.is_some() || more.is_ending;
        *changes = more;
        Ok(true)
    }

    /// Waits after a failure, unless it is final.
    fn pause(
        &mut self,
        error: io::Error,
        is_ending: bool,
        ending: BorrowedFd<'_>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> io::Result<Changes> {
        let forwarder = self.forwarder.take();
        let was_connected = forwarder.is_some();
        if let Some(mut forwarder) = forwarder {
            // What the relay had acknowledged before the failure is not sent again.
            if self.is_spool && self.positions.save().is_ok() {
                forwarder.remove_acknowledged();
            }
            self.totals = self.totals.and(forwarder.totals());
        }
        self.acknowledge_at = None;
        let is_final = match self.persistence {
            Persistence::Once => true,
            Persistence::Follow => is_ending || !self.has_connected,
            Persistence::Forever => false,
        };
        if is_final {
            return Err(error);
        }
        let pause = RETRY_PAUSE_MIN * 2_u32.saturating_pow(self.failures);
        let pause = pause.min(RETRY_PAUSE_MAX);
        if self.failures == 0 || was_connected {
            report(Report::Lost(&error));
        }
        self.failures = self.failures.saturating_add(1).min(16);
        let until = Instant::now() + pause;
        let mut is_ending = is_ending;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Changes { in_tree: true, is_ending, ..Changes::default() });
            }
            if is_ending {
                std::thread::sleep(left);
            } else {
                is_ending = self.watcher.wait(ending, None, left)?.is_ending;
            }
        }
    }
}
