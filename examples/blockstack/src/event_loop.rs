//! What all roles in Rust do between looking at messages: wait until something comes, take new connections, send
//! what is to be sent. One thread, which never waits for one peer alone.

use crate::address::{Address, Listener};
use crate::link::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How often somebody who is not there is called.
const RETRY: Duration = Duration::from_millis(200);
/// Who does not read answers is not listened to.
const BACKLOG_MAX: usize = 64 << 20;

/// A socket, who has called there, and what a role keeps of each.
#[derive(Debug)]
pub(crate) struct Hub<S> {
    listener: Listener,
    until_eof: bool,
    client_count_max: usize,
    clients: Vec<Option<Client<S>>>,
    generation: u32,
    ready: Vec<bool>,
}

/// Somebody who asks.
#[derive(Debug)]
pub(crate) struct Client<S> {
    pub(crate) link: Link,
    pub(crate) state: S,
    generation: u32,
}

/// Which client; another one in its place is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId {
    place: usize,
    generation: u32,
}

/// Whom a role asks itself.
#[derive(Debug)]
pub(crate) struct Below {
    address: Address,
    link: Option<Link>,
    next_try: Instant,
}

/// What has happened, apart from bytes that have come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Going,
    /// The connection to whom this asks has ended: what was asked will not be answered.
    BelowLost,
    /// Standard input has ended, and the role is to end with it.
    End,
}

/// Tells on standard output where a role can be called, which whoever has started it waits for.
pub(crate) fn announce(address: &Address) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "listening {address}")?;
    output.flush()
}

impl<S> Hub<S> {
    pub(crate) fn listen(
        address: &Address,
        until_eof: bool,
        client_count_max: usize,
    ) -> io::Result<(Hub<S>, Address)> {
        let (listener, address) = address.listen()?;
        let (clients, ready) = (Vec::new(), Vec::new());
        let hub = Hub { listener, until_eof, client_count_max, clients, generation: 0, ready };
        Ok((hub, address))
    }

    /// Waits until something has come, and reads it. `may_read` says of a client whether it is listened to now, and
    /// `state` what is kept of a new one. Waits at most for `timeout`, if there is one.
    pub(crate) fn turn(
        &mut self,
        mut below: Option<&mut Below>,
        may_read: impl Fn(&Client<S>) -> bool,
        state: impl Fn() -> S,
        mut timeout: Option<Duration>,
    ) -> io::Result<Turn> {
        let mut turn = Turn::Going;
        if let Some(below) = below.as_mut()
            && !below.connect()
        {
            timeout = Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY)));
        }
        let stdin = io::stdin();
        let mut polled = Vec::with_capacity(3 + self.clients.len());
        // Without anybody whose end counts, something that says nothing stands in its place.
        polled.push(match self.until_eof {
            true => PollFd::new(&stdin, PollFlags::IN),
            false => PollFd::new(&self.listener, PollFlags::empty()),
        });
        polled.push(PollFd::new(&self.listener, PollFlags::IN));
        let below_link = below.as_ref().and_then(|below| below.link.as_ref());
        polled.extend(below_link.map(|link| PollFd::new(link, flags(link, true))));
        let first = polled.len();
        for client in self.clients.iter().flatten() {
            let may_read = client.link.backlog() < BACKLOG_MAX && may_read(client);
            polled.push(PollFd::new(&client.link, flags(&client.link, may_read)));
        }
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(turn),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if self.until_eof && !polled[0].revents().is_empty() {
            return Ok(Turn::End);
        }
        let is_called = !polled[1].revents().is_empty();
        let below_is_ready = first > 2 && has_come(&polled[2]);
        self.ready.clear();
        self.ready.extend(polled[first..].iter().map(has_come));
        drop(polled);

        if let Some(below) = below.filter(|_| below_is_ready)
            && below.link.as_mut().is_some_and(|link| link.receive().is_err())
        {
            turn = Turn::BelowLost;
        }
        let mut ready = self.ready.iter();
        for place in &mut self.clients {
            let Some(client) = place else { continue };
            if ready.next() == Some(&true) && client.link.receive().is_err() {
                *place = None;
            }
        }
        if is_called {
            self.accept(state);
        }
        Ok(turn)
    }

    fn accept(&mut self, state: impl Fn() -> S) {
        let Ok(stream) = self.listener.accept() else { return };
        let Ok(fd) = stream.into_nonblocking() else { return };
        let place = self.clients.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        if place >= self.client_count_max {
            self.clients.truncate(self.client_count_max);
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        let (link, state, generation) = (Link::new(fd), state(), self.generation);
        self.clients[place] = Some(Client { link, state, generation });
    }

    /// All that are there.
    pub(crate) fn client_ids(&self) -> impl Iterator<Item = ClientId> + use<S> {
        let ids = self.clients.iter().enumerate().filter_map(|(place, client)| {
            Some(ClientId { place, generation: client.as_ref()?.generation })
        });
        ids.collect::<Vec<_>>().into_iter()
    }

    /// One, if it is still there.
    pub(crate) fn client(&mut self, id: ClientId) -> Option<&mut Client<S>> {
        let client = self.clients.get_mut(id.place)?.as_mut()?;
        (client.generation == id.generation).then_some(client)
    }

    /// Ends a connection.
    pub(crate) fn drop_client(&mut self, id: ClientId) {
        if self.client(id).is_some() {
            self.clients[id.place] = None;
        }
    }

    /// Sends what is to be sent to clients, as far as they take it.
    pub(crate) fn send(&mut self) {
        for place in &mut self.clients {
            if place.as_mut().is_some_and(|client| client.link.send().is_err()) {
                *place = None;
            }
        }
    }
}

impl Below {
    pub(crate) fn new(address: Address) -> Below {
        Below { address, link: None, next_try: Instant::now() }
    }

    /// Calls, if there is no connection, and not too often; whether there is one.
    fn connect(&mut self) -> bool {
        if self.link.is_none() && Instant::now() >= self.next_try {
            self.next_try = Instant::now() + RETRY;
            let fd = self.address.connect().and_then(|stream| stream.into_nonblocking());
            self.link = fd.ok().map(Link::new);
        }
        self.link.is_some()
    }

    /// The connection, if there is one.
    pub(crate) fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// Gives up the connection.
    pub(crate) fn lose(&mut self) {
        self.link = None;
    }

    /// Sends what is to be sent; whether the connection goes on.
    #[must_use]
    pub(crate) fn send(&mut self) -> bool {
        self.link.as_mut().is_none_or(|link| link.send().is_ok())
    }

    /// Whether more may be asked.
    pub(crate) fn has_room(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.backlog() < BACKLOG_MAX)
    }
}

fn flags(link: &Link, may_read: bool) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, may_read);
    flags.set(PollFlags::OUT, link.backlog() > 0);
    flags
}

fn has_come(fd: &PollFd<'_>) -> bool {
    fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
}
