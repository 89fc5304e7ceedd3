//! A server on a port, with a thread for each connection. Start at [`Server::start`]; `connection`
//! is the code of these threads.
//!
//! Idle or slow peers cannot block the server. A frame must be complete within a time limit. When
//! the maximum number of connections is reached, the connection that was idle for the longest time
//! is evicted if that time is at least `idle_evictable`. The new connection is closed if none can
//! be evicted, or if too many evicted connections are still closing.
//!
//! All receive buffers share a memory limit. A `Log` call that exceeds the limit is discarded and
//! answered with `TRY_LATER`. Any other frame that exceeds the limit closes its connection.

mod connection;
mod counters;
mod options;
mod state;

pub use counters::ServerCounters;
pub use options::ServerOptions;

use crate::close_reason::CloseReason;
use crate::service::{Handler, Service};
use connection::Connection;
use counters::Counts;
use parking_lot::{Condvar, Mutex};
use state::{Peer, ServerState};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A server that is bound to a port, but accepts no connections yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    options: ServerOptions,
}

impl Server {
    /// Binds a port; 0 selects a free port. Connections are not accepted yet.
    pub fn bind(address: impl ToSocketAddrs, options: ServerOptions) -> io::Result<Server> {
        Ok(Server { listener: TcpListener::bind(address)?, options })
    }

    /// Returns the address and port that the server is bound to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Starts accepting connections and answering requests.
    pub fn start<H: Handler>(self, handler: H) -> io::Result<RunningServer<H>> {
        let Server { listener, options } = self;
        let address = listener.local_addr()?;
        let state = Arc::new(ServerState {
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
        let thread_state = Arc::clone(&state);
        let thread = thread::Builder::new().name("scribe".to_owned());
        let thread = thread.spawn(move || accept(&thread_state, &accepting))?;
        Ok(RunningServer { state, listener, address, thread: Some(thread) })
    }
}

/// A running server, which stops when it is dropped.
pub struct RunningServer<H: Handler> {
    state: Arc<ServerState<H>>,
    listener: TcpListener,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl<H: Handler> RunningServer<H> {
    /// Returns the address and port that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the handler that answers the requests.
    pub fn handler(&self) -> &H {
        self.state.service.handler()
    }

    /// Returns the current values of the server's counters.
    pub fn counters(&self) -> ServerCounters {
        self.state.counters()
    }

    /// Stops accepting connections, answers the frames that were read completely, and closes all
    /// connections. `Log` calls that are not in progress yet get `TRY_LATER`. Returns true once all
    /// connections have ended, so the handler is no longer called. After `patience`, shuts the
    /// remaining connections down and returns false. Further calls return true at once.
    pub fn stop(&mut self, patience: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        self.state.service.stop();
        self.state.is_stopping.store(true, Ordering::SeqCst);
        // Shutting the listener down interrupts `accept`.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = thread.join();
        let mut peers = self.state.peers();
        for peer in peers.values() {
            // Replies in progress can still be sent.
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
            self.state.ended.wait_for(&mut peers, left);
        }
        true
    }
}

impl<H: Handler> Drop for RunningServer<H> {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(10));
    }
}

/// Pause after a failed `accept`, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

fn accept<H: Handler>(state: &Arc<ServerState<H>>, listener: &TcpListener) {
    let mut number = 0;
    loop {
        let accepted = listener.accept();
        if state.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, address)) => {
                number += 1;
                state.open_connection(number, stream, address);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => {
                state.counts.accept_failures.fetch_add(1, Ordering::Relaxed);
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

impl<H: Handler> ServerState<H> {
    fn open_connection(self: &Arc<Self>, number: u64, stream: TcpStream, address: SocketAddr) {
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        if !self.make_room() {
            return self.count_closed(Some(address), &CloseReason::TooMany);
        }
        if let Err(error) = self.spawn(number, stream, address) {
            self.count_closed(Some(address), &CloseReason::Io(error));
        }
    }

    /// Makes room for a new connection, if necessary by closing an idle connection. Returns true if
    /// the new connection is permitted.
    fn make_room(&self) -> bool {
        let peers = self.peers();
        if peers.len() < self.options.connections_max {
            return true;
        }
        let quiet = |peer: &Arc<Peer>| {
            let since = peer.quiet_since_ms.load(Ordering::Relaxed);
            (self.now_ms().saturating_sub(since), Arc::clone(peer))
        };
        let here = |peer: &&Arc<Peer>| !peer.is_evicted.load(Ordering::Relaxed);
        let quietest = peers.values().filter(here).map(quiet).max_by_key(|(quiet, _)| *quiet);
        let yields_ms = self.options.idle_evictable.as_millis();
        match quietest {
            Some((quiet_ms, peer)) if u128::from(quiet_ms) >= yields_ms => {
                peer.is_evicted.store(true, Ordering::Relaxed);
                let _ = peer.stream.shutdown(Shutdown::Both);
                // Limit the number of connections that are still closing.
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
            is_evicted: AtomicBool::new(false),
        });
        self.peers().insert(number, Arc::clone(&peer));
        // The entry removes the connection when the thread ends, or if the thread cannot be
        // started.
        let entry = TableEntry { state: Arc::clone(self), number };
        let thread = thread::Builder::new().name("scribe peer".to_owned());
        let thread = thread.stack_size(self.options.stack_bytes);
        thread.spawn(move || {
            let state = Arc::clone(&entry.state);
            let address = peer.address;
            let closed = Connection::new(&state, stream, &peer).run();
            let is_evicted = peer.is_evicted.load(Ordering::Relaxed);
            let why = if is_evicted { Some(CloseReason::Evicted) } else { closed.err() };
            if let Some(why) = why {
                state.count_closed(Some(address), &why);
            }
            drop(entry);
        })?;
        Ok(())
    }
}

/// Guard that removes a connection from the table when dropped.
struct TableEntry<H: Handler> {
    state: Arc<ServerState<H>>,
    number: u64,
}

impl<H: Handler> Drop for TableEntry<H> {
    fn drop(&mut self) {
        self.state.peers().remove(&self.number);
        self.state.ended.notify_all();
    }
}
