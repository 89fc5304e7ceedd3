//! Where others connect. Descriptors may run out, in this process or on the whole machine: then nobody is let
//! in for a while, and what is there goes on. The last ones of this process are kept for its own work, such as
//! files of traces, so who comes when only those are left is told so.

use crate::foreign::Foreign;
use crate::source::{Poller, Source};
use blkkin_sys::socket::{Listener, Socket};
use rustix::event::epoll::EventFlags;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// From one attempt to the next while nobody can be let in: at first, and then twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Troubles that are no further apart are one, of which is told once.
const QUIET: Duration = Duration::from_secs(10);
/// Most descriptors that are kept for own work. Of few, it is a quarter.
const KEPT_MAX: u64 = 1024;

/// Number of descriptors that the agent keeps for its own files, out of `all`.
pub(crate) fn own_descriptors(all: u64) -> u64 {
    KEPT_MAX.min(all / 4)
}

/// A listener, and whether the kernel is asked about it.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Listener,
    /// When somebody is let in next; none while the kernel says so.
    again: Option<Instant>,
    pause: Duration,
    trouble: Option<Trouble>,
}

/// That not all could be let in.
#[derive(Debug)]
struct Trouble {
    count: u64,
    last: Instant,
}

/// Who is at the door.
#[derive(Debug)]
pub(crate) enum Knock {
    Nobody,
    Somebody(Foreign<Socket>),
    /// There is no descriptor left but those for own work: in words.
    Superfluous(Foreign<Socket>, String),
}

/// Something to be told.
pub(crate) type Line = Option<String>;

impl Door {
    /// Begins to accept connections.
    pub(crate) fn open(listener: Listener, poller: &Poller) -> io::Result<Door> {
        let door = Door { listener, again: None, pause: PAUSE_MIN, trouble: None };
        door.ask(poller)?;
        Ok(door)
    }

    fn ask(&self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.listener, Source::Listener, EventFlags::IN)
    }

    /// When to look who is there, although the kernel does not say.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.again
    }

    /// Something may have become free.
    pub(crate) fn look_soon(&mut self, now: Instant) {
        // It is closed on another thread.
        let soon = now + PAUSE_MIN;
        self.again = self.again.map(|again| again.min(soon));
    }

    /// The next one, and what is to be told.
    pub(crate) fn knock(&mut self, poller: &Poller, now: Instant) -> (Knock, Line) {
        let socket = match self.listener.accept() {
            // What waits unread in it may wait when it is closed.
            Ok(socket) => {
                let uid = socket.peer().map_or(u32::MAX, |peer| peer.uid);
                Foreign::new(socket, uid)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.listen(poller, now);
                return (Knock::Nobody, None);
            }
            Err(error) => {
                self.shut(poller, now);
                let line = self.trouble(now, &error.to_string());
                return (Knock::Nobody, line);
            }
        };
        self.listen(poller, now);
        // The lowest number that is free is taken first, so it says how many are not.
        let number = u64::from(socket.as_fd().as_raw_fd().unsigned_abs());
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept = own_descriptors(limit);
        if number >= limit - kept {
            let reason = format!(
                "of {limit} descriptors only the {kept} for traces are left; end programs, or give the agent \
                 more (LimitNOFILE of its unit, ulimit -n)"
            );
            let line = self.trouble(now, &reason);
            return (Knock::Superfluous(socket, reason), line);
        }
        let line = self.calm(now);
        (Knock::Somebody(socket), line)
    }

    /// Has the kernel say again when somebody comes.
    fn listen(&mut self, poller: &Poller, now: Instant) {
        if self.again.is_some() {
            match self.ask(poller) {
                Ok(()) => (self.again, self.pause) = (None, PAUSE_MIN),
                Err(_) => self.pause(now),
            }
        }
    }

    /// Whoever waits is not heard of for a while.
    fn shut(&mut self, poller: &Poller, now: Instant) {
        if self.again.is_none() {
            poller.remove(&self.listener);
        }
        self.pause(now);
    }

    fn pause(&mut self, now: Instant) {
        self.again = Some(now + self.pause);
        self.pause = PAUSE_MAX.min(self.pause * 2);
    }

    /// Somebody was let in; a line if that is over which was told.
    fn calm(&mut self, now: Instant) -> Line {
        let trouble = self.trouble.take_if(|trouble| now >= trouble.last + QUIET)?;
        Some(format!("lets others in again; {} attempts had failed", trouble.count))
    }

    /// Counts it; a line for the first of many.
    fn trouble(&mut self, now: Instant, reason: &str) -> Line {
        let trouble = self.trouble.take().filter(|trouble| now < trouble.last + QUIET);
        let count = trouble.as_ref().map_or(0, |trouble| trouble.count) + 1;
        self.trouble = Some(Trouble { count, last: now });
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
        let mut door = Door::open(Listener::bind(&path).unwrap(), &poller).unwrap();
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
            door.shut(&poller, now);
            let expected = (PAUSE_MIN * (1 << number)).min(PAUSE_MAX);
            assert_eq!(door.next(), Some(now + expected));
            assert_eq!(door.trouble(now, "too few").is_some(), number == 0);
            now += expected;
        }
        assert_eq!(asks(&poller), 0, "nobody is asked about it");
        assert!(now < begun + QUIET && door.calm(now).is_none());
        door.look_soon(begun);
        assert_eq!(door.next(), Some(begun + PAUSE_MIN));
        assert!(matches!(door.knock(&poller, now), (Knock::Somebody(_), None)));
        assert!(matches!(door.knock(&poller, now), (Knock::Nobody, None)));
        assert_eq!(door.next(), None);
        now += QUIET;
        assert_eq!(door.calm(now).unwrap(), "lets others in again; 10 attempts had failed");
        assert!(door.calm(now).is_none() && door.trouble(now, "too few").is_some());
    }
}
