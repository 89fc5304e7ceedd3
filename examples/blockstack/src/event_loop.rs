//! Event loop of the roles in Rust: waits for input, accepts connections, and sends pending output.
//! It has a single thread, which blocks on a peer only while it connects to the role's server.

use crate::address::{Address, Listener};
use crate::link::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Interval between attempts to connect to a server.
const RETRY: Duration = Duration::from_millis(200);
/// Unsent output of a link, in bytes, at which the loop stops reading the client's socket, and the
/// roles stop calling the server.
const BACKLOG_MAX: usize = 64 << 20;

/// Listening socket and connected clients of a role, with the role's state `S` for each client.
#[derive(Debug)]
pub(crate) struct EventLoop<S> {
    listener: Listener,
    until_eof: bool,
    client_count_max: usize,
    clients: Vec<Option<Client<S>>>,
    generation: u32,
    ready: Vec<bool>,
}

/// A connected client with its link and the role's state for it.
#[derive(Debug)]
pub(crate) struct Client<S> {
    pub(crate) link: Link,
    pub(crate) state: S,
    generation: u32,
}

/// Id of a client. The generation distinguishes clients that used the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId {
    slot: usize,
    generation: u32,
}

/// Connection to the role's server, which is the next role in the chain.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: Address,
    link: Option<Link>,
    next_try: Instant,
}

/// Result of a turn of the event loop, apart from received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Continue,
    /// The connection to the server has ended; calls in flight will not be answered.
    UpstreamLost,
    /// Standard input has ended or has input; the role must exit.
    End,
}

/// Prints the role's address on standard output, for the process that started it.
pub(crate) fn announce(address: &Address) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "listening {address}")?;
    output.flush()
}

impl<S> EventLoop<S> {
    pub(crate) fn listen(
        address: &Address,
        until_eof: bool,
        client_count_max: usize,
    ) -> io::Result<(EventLoop<S>, Address)> {
        let (listener, address) = address.listen()?;
        let (clients, ready) = (Vec::new(), Vec::new());
        let event_loop =
            EventLoop { listener, until_eof, client_count_max, clients, generation: 0, ready };
        Ok((event_loop, address))
    }

    /// Connects `upstream` if necessary, waits at most `timeout` for sockets to become ready, reads
    /// their input, and accepts a client. Drops clients whose connection has ended. `may_read`
    /// decides whether to read from a client, and `state` creates the state of a new client.
    pub(crate) fn turn(
        &mut self,
        mut upstream: Option<&mut Upstream>,
        may_read: impl Fn(&Client<S>) -> bool,
        state: impl Fn() -> S,
        mut timeout: Option<Duration>,
    ) -> io::Result<Turn> {
        let mut turn = Turn::Continue;
        if let Some(upstream) = upstream.as_mut()
            && !upstream.connect()
        {
            timeout = Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY)));
        }
        let stdin = io::stdin();
        let mut polled = Vec::with_capacity(3 + self.clients.len());
        // If standard input is not watched, a descriptor without any events replaces it.
        polled.push(match self.until_eof {
            true => PollFd::new(&stdin, PollFlags::IN),
            false => PollFd::new(&self.listener, PollFlags::empty()),
        });
        polled.push(PollFd::new(&self.listener, PollFlags::IN));
        let upstream_link = upstream.as_ref().and_then(|upstream| upstream.link.as_ref());
        polled.extend(upstream_link.map(|link| PollFd::new(link, flags(link, true))));
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
        let upstream_is_ready = first > 2 && is_readable(&polled[2]);
        self.ready.clear();
        self.ready.extend(polled[first..].iter().map(is_readable));
        drop(polled);

        if let Some(upstream) = upstream.filter(|_| upstream_is_ready)
            && upstream.link.as_mut().is_some_and(|link| link.receive().is_err())
        {
            turn = Turn::UpstreamLost;
        }
        let mut ready = self.ready.iter();
        for slot in &mut self.clients {
            let Some(client) = slot else { continue };
            if ready.next() == Some(&true) && client.link.receive().is_err() {
                *slot = None;
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
        let slot = self.clients.iter().position(Option::is_none);
        let slot = slot.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        if slot >= self.client_count_max {
            self.clients.truncate(self.client_count_max);
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        let (link, state, generation) = (Link::new(fd), state(), self.generation);
        self.clients[slot] = Some(Client { link, state, generation });
    }

    /// Returns the ids of all connected clients.
    pub(crate) fn client_ids(&self) -> impl Iterator<Item = ClientId> + use<S> {
        let ids = self.clients.iter().enumerate().filter_map(|(slot, client)| {
            Some(ClientId { slot, generation: client.as_ref()?.generation })
        });
        ids.collect::<Vec<_>>().into_iter()
    }

    /// Returns the client with this id, if it is still connected.
    pub(crate) fn client(&mut self, id: ClientId) -> Option<&mut Client<S>> {
        let client = self.clients.get_mut(id.slot)?.as_mut()?;
        (client.generation == id.generation).then_some(client)
    }

    /// Closes a client's connection.
    pub(crate) fn drop_client(&mut self, id: ClientId) {
        if self.client(id).is_some() {
            self.clients[id.slot] = None;
        }
    }

    /// Sends pending output to all clients, as far as their sockets accept it. Drops clients whose
    /// connection has ended.
    pub(crate) fn send(&mut self) {
        for slot in &mut self.clients {
            if slot.as_mut().is_some_and(|client| client.link.send().is_err()) {
                *slot = None;
            }
        }
    }
}

impl Upstream {
    pub(crate) fn new(address: Address) -> Upstream {
        Upstream { address, link: None, next_try: Instant::now() }
    }

    /// Connects if there is no connection and the retry interval has passed. Returns true if there
    /// is a connection.
    fn connect(&mut self) -> bool {
        if self.link.is_none() && Instant::now() >= self.next_try {
            self.next_try = Instant::now() + RETRY;
            let fd = self.address.connect().and_then(|stream| stream.into_nonblocking());
            self.link = fd.ok().map(Link::new);
        }
        self.link.is_some()
    }

    /// Returns the link to the server, if it is connected.
    pub(crate) fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// Drops the connection to the server. A later turn connects again.
    pub(crate) fn disconnect(&mut self) {
        self.link = None;
    }

    /// Sends pending output to the server. Returns false if sending fails, and true if the server
    /// is not connected.
    #[must_use]
    pub(crate) fn send(&mut self) -> bool {
        self.link.as_mut().is_none_or(|link| link.send().is_ok())
    }

    /// Returns true if the unsent output is below its limit.
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

fn is_readable(fd: &PollFd<'_>) -> bool {
    fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
}
