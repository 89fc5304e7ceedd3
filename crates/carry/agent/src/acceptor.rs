//! Acceptor of connections. The acceptor pauses while the process or the machine has no free
//! descriptors; existing connections continue. Some descriptors of the process are reserved for the
//! agent's own work, such as files of traces. A connection that would use a reserved descriptor is
//! refused with the reason.

use crate::deferred_close::DeferredClose;
use crate::source::{Poller, Source};
use blkkin_sys::socket::{Listener, Socket};
use rustix::event::epoll::EventFlags;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Pause after the first failed attempt to accept; each further failure doubles it, up to
/// [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time without failures that ends a series of failures. Only the first failure of a series is
/// logged.
const SERIES_GAP: Duration = Duration::from_secs(10);
/// Maximum number of descriptors reserved for the agent's own work. If the process has fewer than
/// 4,096 descriptors, a quarter of them is reserved.
const RESERVED_MAX: u64 = 1024;

/// Returns the number of descriptors reserved for the agent's own work; `all` is the process's
/// limit.
pub(crate) fn reserved_descriptors(all: u64) -> u64 {
    RESERVED_MAX.min(all / 4)
}

/// Listening socket, with the pauses after failed attempts to accept.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: Listener,
    /// Time of the next attempt to accept; `None` outside of a pause, when the listening socket is
    /// watched.
    again: Option<Instant>,
    pause: Duration,
    count_failure: Option<FailureSeries>,
}

/// Series of failures, each less than [`SERIES_GAP`] after the previous one. A failure is a failed
/// attempt to accept, or a surplus connection.
#[derive(Debug)]
struct FailureSeries {
    count: u64,
    last: Instant,
}

/// Result of one attempt to accept. Sockets are closed on another thread, because closing may
/// block.
#[derive(Debug)]
pub(crate) enum AcceptResult {
    Nothing,
    Connection(DeferredClose<Socket>),
    /// Connection that must be refused, and the reason: only descriptors reserved for the agent's
    /// own work are free.
    Surplus(DeferredClose<Socket>, String),
}

/// Line for the log; `None` if there is nothing to log.
pub(crate) type Line = Option<String>;

impl Acceptor {
    /// Makes an acceptor, and watches its listening socket.
    pub(crate) fn open(listener: Listener, poller: &Poller) -> io::Result<Acceptor> {
        let acceptor = Acceptor { listener, again: None, pause: PAUSE_MIN, count_failure: None };
        acceptor.watch(poller)?;
        Ok(acceptor)
    }

    fn watch(&self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.listener, Source::Listener, EventFlags::IN)
    }

    /// Returns the time of the next attempt to accept; `None` outside of a pause.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.again
    }

    /// Brings the next attempt forward, because a descriptor will be free soon.
    pub(crate) fn retry_soon(&mut self, now: Instant) {
        // Another thread closes the descriptor, so it is not free yet.
        let soon = now + PAUSE_MIN;
        self.again = self.again.map(|again| again.min(soon));
    }

    /// Accepts a connection, if one waits. Returns a line for the log if a series of failures
    /// begins or ends.
    pub(crate) fn accept(&mut self, poller: &Poller, now: Instant) -> (AcceptResult, Line) {
        let socket = match self.listener.accept() {
            // Closing the socket may block, as its queue may hold descriptors that the peer has
            // passed.
            Ok(socket) => {
                let uid = socket.peer().map_or(u32::MAX, |peer| peer.uid);
                DeferredClose::new(socket, uid)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.resume(poller, now);
                return (AcceptResult::Nothing, None);
            }
            Err(error) => {
                self.suspend(poller, now);
                let line = self.trouble(now, &error.to_string());
                return (AcceptResult::Nothing, line);
            }
        };
        self.resume(poller, now);
        // The kernel assigns the lowest free descriptor, so its value shows how many are in use.
        let number = u64::from(socket.as_fd().as_raw_fd().unsigned_abs());
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept = reserved_descriptors(limit);
        if number >= limit - kept {
            let reason = format!(
                "of {limit} descriptors only the {kept} for traces are left; end programs, or give the agent \
                 more (LimitNOFILE of its unit, ulimit -n)"
            );
            let line = self.trouble(now, &reason);
            return (AcceptResult::Surplus(socket, reason), line);
        }
        let line = self.end_series(now);
        (AcceptResult::Connection(socket), line)
    }

    /// Ends a pause, if there is one: watches the listening socket again. If that fails, begins
    /// another pause.
    fn resume(&mut self, poller: &Poller, now: Instant) {
        if self.again.is_some() {
            match self.watch(poller) {
                Ok(()) => (self.again, self.pause) = (None, PAUSE_MIN),
                Err(_) => self.pause(now),
            }
        }
    }

    /// Begins a pause: stops watching the listening socket. During a pause, begins the next one.
    fn suspend(&mut self, poller: &Poller, now: Instant) {
        if self.again.is_none() {
            poller.remove(&self.listener);
        }
        self.pause(now);
    }

    fn pause(&mut self, now: Instant) {
        self.again = Some(now + self.pause);
        self.pause = PAUSE_MAX.min(self.pause * 2);
    }

    /// Ends a series of failures after an accepted connection, if the last failure was at least
    /// [`SERIES_GAP`] ago. Returns a line for the log if a series has ended.
    fn end_series(&mut self, now: Instant) -> Line {
        let trouble = self.count_failure.take_if(|trouble| now >= trouble.last + SERIES_GAP)?;
        Some(format!("lets others in again; {} attempts had failed", trouble.count))
    }

    /// Counts a failed attempt to accept, or a surplus connection. Returns a line for the log if
    /// the failure is the first of a series.
    fn trouble(&mut self, now: Instant, reason: &str) -> Line {
        let trouble = self.count_failure.take().filter(|trouble| now < trouble.last + SERIES_GAP);
        let count = trouble.as_ref().map_or(0, |trouble| trouble.count) + 1;
        self.count_failure = Some(FailureSeries { count, last: now });
        trouble.is_none().then(|| {
            format!(
                "cannot let others in: {reason}. It is tried again, and not told again meanwhile"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_failures_is_told_once_and_paused_longer_each_time() {
        let path = std::env::temp_dir().join(format!("blkkin-door-{}", std::process::id()));
        let poller = Poller::new().unwrap();
        let mut acceptor = Acceptor::open(Listener::bind(&path).unwrap(), &poller).unwrap();
        let asks = |poller: &Poller| {
            let mut events = Vec::with_capacity(1);
            poller.wait(Some(Duration::ZERO), &mut events).unwrap();
            events.len()
        };
        let _waits = Socket::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(asks(&poller), 1);
        let (begun, mut now) = (Instant::now(), Instant::now());
        for number in 0..10 {
            acceptor.suspend(&poller, now);
            let expected = (PAUSE_MIN * (1 << number)).min(PAUSE_MAX);
            assert_eq!(acceptor.next(), Some(now + expected));
            assert_eq!(acceptor.trouble(now, "too few").is_some(), number == 0);
            now += expected;
        }
        assert_eq!(asks(&poller), 0, "nobody is asked about it");
        assert!(now < begun + SERIES_GAP && acceptor.end_series(now).is_none());
        acceptor.retry_soon(begun);
        assert_eq!(acceptor.next(), Some(begun + PAUSE_MIN));
        assert!(matches!(acceptor.accept(&poller, now), (AcceptResult::Connection(_), None)));
        assert!(matches!(acceptor.accept(&poller, now), (AcceptResult::Nothing, None)));
        assert_eq!(acceptor.next(), None);
        now += SERIES_GAP;
        assert_eq!(
            acceptor.end_series(now).unwrap(),
            "lets others in again; 10 attempts had failed"
        );
        assert!(acceptor.end_series(now).is_none() && acceptor.trouble(now, "too few").is_some());
    }
}
