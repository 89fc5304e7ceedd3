//! Sources of events for the event loop, and the epoll instance that watches them.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Number of a connection, which also identifies its program or command. Numbers are never reused.
pub(crate) type ConnectionId = u64;

/// A file descriptor that the event loop watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The socket on which the agent listens.
    Listener,
    /// The descriptor that becomes readable when the agent must end.
    Shutdown,
    /// The socket of a connection.
    Peer(ConnectionId),
    /// The eventfd by which a program wakes the agent.
    WakeUp(ConnectionId),
    /// The descriptor from which the signals for triggers are read.
    Signals,
}

/// Number of low bits in the epoll data that hold the variant of [`Source`]. The higher bits hold
/// the connection's number.
const KIND_BITS: u32 = 3;

impl Source {
    fn data(self) -> EventData {
        let (kind, id) = match self {
            Source::Listener => (0, 0),
            Source::Shutdown => (1, 0),
            Source::Peer(id) => (2, id),
            Source::WakeUp(id) => (3, id),
            Source::Signals => (4, 0),
        };
        EventData::new_u64(id << KIND_BITS | kind)
    }

    fn from_data(data: EventData) -> Source {
        let id = data.u64() >> KIND_BITS;
        match data.u64() & ((1 << KIND_BITS) - 1) {
            0 => Source::Listener,
            1 => Source::Shutdown,
            2 => Source::Peer(id),
            3 => Source::WakeUp(id),
            _ => Source::Signals,
        }
    }
}

/// Event flags that report each write to an eventfd. They are edge-triggered, since the eventfd is
/// never read.
pub(crate) const EACH_WRITE: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// Time from which a wait may take a millisecond longer.
const COARSE_TIME: Duration = Duration::from_millis(4);

/// Epoll instance that watches the sources.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    pub(crate) fn add(&self, file: impl AsFd, source: Source, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, file, source.data(), flags)?)
    }

    /// Changes the events for which a source is watched.
    pub(crate) fn modify(&self, file: impl AsFd, source: Source, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, file, source.data(), flags);
    }

    pub(crate) fn remove(&self, file: impl AsFd) {
        let _ = epoll::delete(&self.epoll, file);
    }

    /// Waits for events, at most for `timeout`, and stores them in `events`.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        events: &mut Vec<epoll::Event>,
    ) -> io::Result<()> {
        events.clear();
        // `epoll_pwait` counts milliseconds, which are too coarse for the next drain of busy rings.
        let fine = timeout.filter(|left| *left < COARSE_TIME && !left.is_zero());
        let timeout = fine.map_or(timeout, |_| Some(Duration::ZERO));
        if let Some(fine) = fine {
            let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
            match rustix::event::poll(&mut ready, Some(&timespec(fine))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

/// Returns the source of an event.
pub(crate) fn source_of(event: &epoll::Event) -> Source {
    Source::from_data(event.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_the_kernel() {
        for id in [0, 1, 2, 3, 1 << 40, (1 << 61) - 1] {
            for source in [Source::Peer(id), Source::WakeUp(id)] {
                assert_eq!(Source::from_data(source.data()), source);
            }
        }
        for source in [Source::Listener, Source::Shutdown, Source::Signals] {
            assert_eq!(Source::from_data(source.data()), source);
        }
    }
}
