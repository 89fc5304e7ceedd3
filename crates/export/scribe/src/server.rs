//! A server on a port, with a thread for each connection. Start at [`Server::start`]; `connection` is what such a
//! thread does.
//!
//! Who does not send cannot hold it: a frame has to come whole within a time, and where there are as many connections
//! as there may be, the one that has been quiet for longest makes room. Memory for what has come of frames is limited
//! over all connections: a batch for which there is none is passed over, and answered with `TRY_LATER`.

mod connection;

use crate::fault::Fault;
use crate::frame::Misfit;
use crate::request::Limits;
use crate::service::{Handler, Service};
use connection::Connection;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a server lets its peers do.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// How large what they send may be.
    pub limits: Limits,
    /// How many connections there may be.
    pub connections_max: usize,
    /// How long one may be quiet.
    pub idle_max: Duration,
    /// How long one has been quiet at least that makes room for a new one.
    pub idle_yields: Duration,
    /// How long a frame may take to come, and replies to be read.
    pub frame_time_max: Duration,
    /// Memory for what has come of frames, beside 64 KiB for each connection.
    pub memory_bytes_max: usize,
    /// Stack of a connection's thread, on which the handler runs too.
    pub stack_bytes: usize,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            limits: Limits::default(),
            connections_max: 1000,
            idle_max: Duration::from_secs(3600),
            idle_yields: Duration::from_secs(10),
            frame_time_max: Duration::from_secs(60),
            memory_bytes_max: 128 << 20,
            stack_bytes: 256 << 10,
        }
    }
}

/// Why a connection was closed that the other side had not closed.
#[derive(Debug)]
pub enum Closed {
    /// There were too many.
    TooMany,
    /// There were too many, and this one was quiet for longest.
    MadeRoom,
    /// It was quiet for too long.
    Idle,
    /// A frame, or the reading of replies, took too long.
    Slow,
    /// What came is no frame.
    Misfit(Misfit),
    /// What came is no request.
    Fault(Fault),
    /// There was no memory for what came, and it was nothing that can be refused.
    NoMemory,
    /// It is broken, or there could be no thread for it.
    Io(io::Error),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::TooMany => write!(f, "too many connections"),
            Closed::MadeRoom => {
                write!(f, "too many connections, and this one was quiet for longest")
            }
            Closed::Idle => write!(f, "quiet for too long"),
            Closed::Slow => write!(f, "too slow"),
            Closed::Misfit(misfit) => misfit.fmt(f),
            Closed::Fault(fault) => fault.fmt(f),
            Closed::NoMemory => write!(f, "no memory is left for what it sends"),
            Closed::Io(error) => error.fmt(f),
        }
    }
}

/// What has been counted since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Connections that there are.
    pub connections: u64,
    /// That there were.
    pub accepted: u64,
    /// Closed at once, because there were too many.
    pub closed_too_many: u64,
    /// Closed to make room.
    pub closed_made_room: u64,
    /// Closed because they were quiet or slow.
    pub closed_slow: u64,
    /// Closed because of what they sent.
    pub closed_bad: u64,
    /// Closed because they were broken.
    pub closed_broken: u64,
    /// Frames that were answered.
    pub frames: u64,
    /// Batches that were passed over, because there was no memory.
    pub refused_memory: u64,
    /// Connections that could not be taken, mostly for want of descriptors.
    pub accept_failures: u64,
    /// Memory for what has come of frames, beside what each connection has.
    pub memory_bytes: u64,
}

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    closed_too_many: AtomicU64,
    closed_made_room: AtomicU64,
    closed_slow: AtomicU64,
    closed_bad: AtomicU64,
    closed_broken: AtomicU64,
    frames: AtomicU64,
    refused_memory: AtomicU64,
    accept_failures: AtomicU64,
}

/// What all threads of a server share.
struct Shared<H> {
    service: Service<H>,
    options: ServerOptions,
    counts: Counts,
    /// Memory that connections have beside their first.
    memory_bytes: AtomicUsize,
    peers: Mutex<HashMap<u64, Arc<Peer>>>,
    /// A connection has ended.
    ended: Condvar,
    started: Instant,
    is_stopping: AtomicBool,
}

/// A connection, as others see it.
struct Peer {
    stream: TcpStream,
    address: SocketAddr,
    /// When its last frame was answered, in milliseconds since the server was started; the maximum while one is being
    /// answered.
    quiet_since_ms: AtomicU64,
    has_made_room: AtomicBool,
}

/// A server that has a port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    options: ServerOptions,
}

impl Server {
    /// Takes a port; 0 is any that is free. Nobody is answered yet.
    pub fn bind(address: impl ToSocketAddrs, options: ServerOptions) -> io::Result<Server> {
        Ok(Server { listener: TcpListener::bind(address)?, options })
    }

    /// Where it is.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers, until it is stopped.
    pub fn start<H: Handler>(self, handler: H) -> io::Result<Running<H>> {
        let Server { listener, options } = self;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            service: Service::new(handler, options.limits),
            options,
            counts: Counts::default(),
            memory_bytes: AtomicUsize::new(0),
            peers: Mutex::default(),
            ended: Condvar::new(),
            started: Instant::now(),
            is_stopping: AtomicBool::new(false),
        });
        let accepting = listener.try_clone()?;
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("scribe".to_owned());
        let thread = thread.spawn(move || accept(&of_thread, &accepting))?;
        Ok(Running { shared, listener, address, thread: Some(thread) })
    }
}

/// A server that answers. Dropped, it stops.
pub struct Running<H: Handler> {
    shared: Arc<Shared<H>>,
    listener: TcpListener,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl<H: Handler> Running<H> {
    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who does its work.
    pub fn handler(&self) -> &H {
        self.shared.service.handler()
    }

    /// What has been counted.
    pub fn counters(&self) -> ServerCounters {
        self.shared.counters()
    }

    /// Takes no more connections, answers what has come whole, and closes all. The handler is not called any more when
    /// this returns true; false if one of its calls takes longer than `patience`.
    pub fn stop(&mut self, patience: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        self.shared.service.stop();
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // This ends the wait for the next connection.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = thread.join();
        let mut peers = self.shared.peers();
        for peer in peers.values() {
            // What is being answered can still be told.
            let _ = peer.stream.shutdown(Shutdown::Read);
        }
        let deadline = Instant::now() + patience;
        while !peers.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for peer in peers.values() {
                    let _ = peer.stream.shutdown(Shutdown::Both);
                }
                return false;
            }
            let waited = self.shared.ended.wait_timeout(peers, left);
            peers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl<H: Handler> Drop for Running<H> {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(10));
    }
}

/// How long to wait when there is no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

fn accept<H: Handler>(shared: &Arc<Shared<H>>, listener: &TcpListener) {
    let mut number = 0;
    loop {
        let accepted = listener.accept();
        if shared.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, address)) => {
                number += 1;
                shared.begin(number, stream, address);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => {
                shared.counts.accept_failures.fetch_add(1, Ordering::Relaxed);
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

impl<H: Handler> Shared<H> {
    fn peers(&self) -> MutexGuard<'_, HashMap<u64, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn begin(self: &Arc<Self>, number: u64, stream: TcpStream, address: SocketAddr) {
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        if !self.has_room() {
            return self.closed(Some(address), &Closed::TooMany);
        }
        if let Err(error) = self.spawn(number, stream, address) {
            self.closed(Some(address), &Closed::Io(error));
        }
    }

    /// Whether there may be one more connection, which another may have to make room for.
    fn has_room(&self) -> bool {
        let peers = self.peers();
        if peers.len() < self.options.connections_max {
            return true;
        }
        let quiet = |peer: &Arc<Peer>| {
            let since = peer.quiet_since_ms.load(Ordering::Relaxed);
            (self.now_ms().saturating_sub(since), Arc::clone(peer))
        };
        let here = |peer: &&Arc<Peer>| !peer.has_made_room.load(Ordering::Relaxed);
        let quietest = peers.values().filter(here).map(quiet).max_by_key(|(quiet, _)| *quiet);
        let yields_ms = self.options.idle_yields.as_millis();
        match quietest {
            Some((quiet_ms, peer)) if u128::from(quiet_ms) >= yields_ms => {
                peer.has_made_room.store(true, Ordering::Relaxed);
                let _ = peer.stream.shutdown(Shutdown::Both);
                // Those that are ending are as many as come at most.
                peers.len() < self.options.connections_max.saturating_mul(2)
            }
            _ => false,
        }
    }

    fn spawn(
        self: &Arc<Self>,
        number: u64,
        stream: TcpStream,
        address: SocketAddr,
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let peer = Arc::new(Peer {
            stream: stream.try_clone()?,
            address,
            quiet_since_ms: AtomicU64::new(self.now_ms()),
            has_made_room: AtomicBool::new(false),
        });
        self.peers().insert(number, Arc::clone(&peer));
        // Whatever becomes of the thread, also if there is none.
        let leave = Leave { shared: Arc::clone(self), number };
        let thread = thread::Builder::new().name("scribe peer".to_owned());
        let thread = thread.stack_size(self.options.stack_bytes);
        thread.spawn(move || {
            let shared = Arc::clone(&leave.shared);
            let address = peer.address;
            let closed = Connection::new(&shared, stream, &peer).run();
            let has_made_room = peer.has_made_room.load(Ordering::Relaxed);
            let why = if has_made_room { Some(Closed::MadeRoom) } else { closed.err() };
            if let Some(why) = why {
                shared.closed(Some(address), &why);
            }
            drop(leave);
        })?;
        Ok(())
    }

    fn closed(&self, peer: Option<SocketAddr>, why: &Closed) {
        let counter = match why {
            Closed::TooMany => &self.counts.closed_too_many,
            Closed::MadeRoom => &self.counts.closed_made_room,
            Closed::Idle | Closed::Slow => &self.counts.closed_slow,
            Closed::Misfit(_) | Closed::Fault(_) => &self.counts.closed_bad,
            Closed::NoMemory | Closed::Io(_) => &self.counts.closed_broken,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.service.handler().closed(peer, why);
    }

    fn counters(&self) -> ServerCounters {
        let counts = &self.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerCounters {
            connections: self.peers().len() as u64,
            accepted: of(&counts.accepted),
            closed_too_many: of(&counts.closed_too_many),
            closed_made_room: of(&counts.closed_made_room),
            closed_slow: of(&counts.closed_slow),
            closed_bad: of(&counts.closed_bad),
            closed_broken: of(&counts.closed_broken),
            frames: of(&counts.frames),
            refused_memory: of(&counts.refused_memory),
            accept_failures: of(&counts.accept_failures),
            memory_bytes: self.memory_bytes.load(Ordering::Relaxed) as u64,
        }
    }
}

/// Takes a connection out of those that there are.
struct Leave<H: Handler> {
    shared: Arc<Shared<H>>,
    number: u64,
}

impl<H: Handler> Drop for Leave<H> {
    fn drop(&mut self) {
        self.shared.peers().remove(&self.number);
        self.shared.ended.notify_all();
    }
}
