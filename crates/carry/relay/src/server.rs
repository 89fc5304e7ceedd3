//! Sockets of the relay: a port for each kind of connection, and a thread for each connection.

use crate::admission::{Admission, Entry, Gate};
use crate::close::Close;
use crate::control::Control;
use crate::data::DataReceiver;
use crate::sessions::Sessions;
use crate::viewing::Viewing;
use crate::waiters::Waiter;
use blkkin_secure::{Access, Channel, ServerKeys};
use blkkin_sys::listen_tcp;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Addresses of a relay's ports; port 0 selects a free port.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Address for producers' control connections.
    pub control: SocketAddr,
    /// Address for producers' data connections.
    pub data: SocketAddr,
    /// Address for viewers.
    pub viewers: SocketAddr,
}

/// Settings of a relay.
#[derive(Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub addresses: Addresses,
    /// Directory for the sessions.
    pub output: PathBuf,
    /// Maximum number of connections of each kind.
    pub connections_max: usize,
    /// Rules for the peers.
    pub admission: Admission,
}

/// A running relay, which stops when it is dropped.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    addresses: Addresses,
    listeners: Vec<(TcpListener, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    sessions: Arc<Sessions>,
    gate: Arc<Gate>,
    /// Lines about connections, of which there is a limited number in a second.
    lines: Mutex<LineLimit>,
    connections_max: usize,
    is_stopping: AtomicBool,
    /// Sockets of all connections, by number, to interrupt their threads.
    sockets: Mutex<HashMap<u64, (Kind, TcpStream)>>,
    ended: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Control,
    Data,
    Viewer,
}

/// Size of the buffer for reading a connection, in bytes.
const READ_SIZE: usize = 256 << 10;
/// Maximum size of a command that is not complete, in bytes.
const INPUT_MAX: usize = 32 << 20;
/// Time limit for sending a reply. A peer that does not read it is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a connection is silent before it is probed, and interval and number of probes
/// without an answer after which it is closed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 4;
/// Time limit for the first command of a producer and the first request of a viewer.
const FIRST_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed `accept`, usually for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time limit for connections to end when the relay stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

impl Relay {
    /// Binds the ports and starts to accept connections. `log` receives lines for the operator.
    pub fn start(
        options: Options,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Relay> {
        let Options { addresses, output, connections_max, admission } = options;
        let control = listen_tcp(addresses.control)?;
        let data = listen_tcp(addresses.data)?;
        let viewers = listen_tcp(addresses.viewers)?;
        let addresses = Addresses {
            control: control.local_addr()?,
            data: data.local_addr()?,
            viewers: viewers.local_addr()?,
        };
        let shared = Arc::new(Shared {
            sessions: Arc::new(Sessions::new(output, log)),
            gate: Arc::new(Gate::new(admission)),
            lines: Mutex::new(LineLimit::new()),
            connections_max,
            is_stopping: AtomicBool::new(false),
            sockets: Mutex::default(),
            ended: Condvar::new(),
        });
        let mut relay = Relay { shared, addresses, listeners: Vec::new() };
        let kinds = [(Kind::Control, control), (Kind::Data, data), (Kind::Viewer, viewers)];
        for (kind, listener) in kinds {
            let (shared, accepting) = (relay.shared.clone(), listener.try_clone()?);
            let thread = thread::Builder::new().name("relay accept".to_owned());
            let thread = thread.spawn(move || shared.accept(kind, &accepting))?;
            relay.listeners.push((listener, thread));
        }
        Ok(relay)
    }

    /// Returns the addresses that the relay listens on.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the sessions of the relay.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.shared.sessions
    }

    /// Replaces the certificate, tokens and client authorities for later connections.
    pub fn set_keys(&self, keys: ServerKeys) {
        self.shared.gate.set_keys(keys);
    }

    /// Closes all connections and ends all threads.
    pub fn stop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.sessions.disk().stop();
        for (listener, thread) in self.listeners.drain(..) {
            // Shutting the listener down interrupts `accept`.
            let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
            let _ = thread.join();
        }
        let mut sockets = self.shared.sockets.lock();
        for (_, socket) in sockets.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let deadline = Instant::now() + STOP_PATIENCE;
        while !sockets.is_empty() && Instant::now() < deadline {
            self.shared.ended.wait_until(&mut sockets, deadline);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, kind: Kind, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok((socket, address)) => {
                    if let Err(error) = self.open(kind, socket, address) {
                        self.log_close(kind, address, &error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn open(
        self: &Arc<Self>,
        kind: Kind,
        socket: TcpStream,
        address: SocketAddr,
    ) -> io::Result<()> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        // A machine that loses its power closes no connection.
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
        if kind != Kind::Data {
            socket.set_read_timeout(Some(FIRST_TIMEOUT))?;
        }
        let entry = self.gate.entry(address.ip())?;
        let number = self.sessions.new_id();
        let mut sockets = self.sockets.lock();
        if sockets.values().filter(|(own, _)| *own == kind).count() >= self.connections_max {
            return Err(io::Error::other("there are too many connections"));
        }
        sockets.insert(number, (kind, socket.try_clone()?));
        drop(sockets);
        let connection = Connection { shared: self.clone(), kind, number, socket, address };
        let thread = thread::Builder::new().name("relay peer".to_owned());
        thread.spawn(move || connection.run(entry))?;
        Ok(())
    }

    fn log_close(&self, kind: Kind, address: SocketAddr, why: &dyn std::fmt::Display) {
        let kind = match kind {
            Kind::Control => "producer",
            Kind::Data => "producer's data",
            Kind::Viewer => "viewer",
        };
        let Some(left_out) = self.lines.lock().admit(Instant::now()) else { return };
        if left_out > 0 {
            self.sessions.disk().log(&format!("{left_out} lines about connections are left out"));
        }
        self.sessions.disk().log(&format!("{kind} {address} is disconnected: {why}"));
    }
}

/// Limit of log lines that peers cause.
#[derive(Debug)]
struct LineLimit {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// Maximum number of lines in [`LINES_TIME`].
const LINES_MAX: u32 = 20;
const LINES_TIME: Duration = Duration::from_secs(1);

impl LineLimit {
    fn new() -> LineLimit {
        LineLimit { since: Instant::now(), lines: 0, left_out: 0 }
    }

    /// Admits a line; returns the number of lines that were left out before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.since) >= LINES_TIME {
            (self.since, self.lines) = (now, 0);
        }
        self.lines += 1;
        if self.lines > LINES_MAX {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

/// A connection, which its thread serves. It is removed from the table when dropped.
struct Connection {
    shared: Arc<Shared>,
    kind: Kind,
    number: u64,
    socket: TcpStream,
    address: SocketAddr,
}

/// State of a viewer, which producers' threads use, too.
struct SharedViewing {
    viewing: Viewing,
    channel: Channel,
    /// Encrypted bytes that the socket did not take at once.
    unsent: Vec<u8>,
}

impl SharedViewing {
    /// Sends unsent bytes, and then replies.
    fn send(&mut self, mut socket: &TcpStream, output: &[u8]) -> io::Result<()> {
        socket.write_all(&std::mem::take(&mut self.unsent))?;
        socket.write_all(self.channel.seal(output)?)
    }
}

/// Sends news to a viewer that waits for them. Returns false if its thread must go on.
fn push_news(viewing: &Mutex<SharedViewing>, socket: &TcpStream) -> bool {
    let Some(mut state) = viewing.try_lock() else { return false };
    if !state.unsent.is_empty() {
        return false;
    }
    let mut output = Vec::new();
    state.viewing.answer_wait(&mut output);
    let SharedViewing { channel, unsent, .. } = &mut *state;
    // The viewer's own thread sends the remaining bytes, and handles an error.
    let Ok(wire) = channel.seal(&output) else { return false };
    let sent = match wire.is_empty() {
        true => 0,
        false => send(socket, wire, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0),
    };
    unsent.extend_from_slice(wire.get(sent..).unwrap_or_default());
    state.unsent.is_empty() && !state.viewing.has_ending()
}

impl Connection {
    fn run(self, entry: Entry) {
        let served = self.admit(entry).and_then(|channel| match self.kind {
            Kind::Control => self.serve_control(channel),
            Kind::Data => self.receive_data(channel),
            Kind::Viewer => self.serve_viewer(channel),
        });
        if let Err(why) = served {
            self.shared.log_close(self.kind, self.address, &why);
        }
    }

    fn peer(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    fn admit(&self, entry: Entry) -> Result<Channel, Close> {
        let access = match self.kind {
            Kind::Control | Kind::Data => Access::Write,
            Kind::Viewer => Access::Read,
        };
        entry.authenticate(&self.socket, access)
    }

    fn serve_control(&self, channel: Channel) -> Result<(), Close> {
        let mut control = Control::new(self.shared.sessions.clone(), self.peer());
        self.serve(channel, |input, output| control.receive(input, output))
    }

    /// Serves a viewer. While it waits for news, the threads of producers send them, too. So the
    /// state is locked until a reply is sent.
    fn serve_viewer(&self, channel: Channel) -> Result<(), Close> {
        let viewing = Viewing::new(self.shared.sessions.clone())?;
        let waiter = viewing.waiter();
        let viewing = Arc::new(Mutex::new(SharedViewing { viewing, channel, unsent: Vec::new() }));
        let (pushed, socket) = (Arc::downgrade(&viewing), self.socket.try_clone()?);
        waiter.push_by(move || pushed.upgrade().is_some_and(|it| push_news(&it, &socket)));
        let (mut input, mut buffer) = (Vec::new(), vec![0; READ_SIZE]);
        let mut is_first = true;
        loop {
            let mut state = viewing.lock();
            let mut output = Vec::new();
            let received = state.viewing.receive(&input, &mut output);
            state.send(&self.socket, &output)?;
            let used = received?;
            input.drain(..used);
            if used > 0 {
                if std::mem::take(&mut is_first) {
                    self.socket.set_read_timeout(None)?;
                }
                continue;
            }
            if input.len() > INPUT_MAX {
                return Err(Close::Order("a request is too large"));
            }
            input.shrink_to(READ_SIZE);
            let wait = state.viewing.wait();
            drop(state);
            if let Some(until) = wait
                && !self.wait(&waiter, until)?
            {
                let mut state = viewing.lock();
                let mut output = Vec::new();
                state.viewing.answer_wait(&mut output);
                state.send(&self.socket, &output)?;
                continue;
            }
            match self.read(&mut buffer)? {
                [] => return Ok(()),
                wire => input.extend_from_slice(viewing.lock().channel.open(wire)?),
            }
        }
    }

    /// Waits until the viewer is woken, or the time is over. Returns true if the viewer has sent
    /// something instead.
    fn wait(&self, waiter: &Waiter, until: Option<Instant>) -> io::Result<bool> {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut polled = [
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::from_borrowed_fd(waiter.event(), PollFlags::IN),
        ];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [socket, event] = polled;
        if !event.revents().is_empty() {
            waiter.clear();
        }
        Ok(!socket.revents().is_empty())
    }

    fn receive_data(&self, mut channel: Channel) -> Result<(), Close> {
        let mut data = DataReceiver::new(self.shared.sessions.clone(), self.peer());
        let mut buffer = vec![0; READ_SIZE];
        loop {
            match self.read(&mut buffer)? {
                [] => return Ok(()),
                wire => data.receive(channel.open(wire)?)?,
            }
        }
    }

    /// Reads commands and sends the replies of `receive`, which returns the number of bytes used.
    fn serve(
        &self,
        mut channel: Channel,
        mut receive: impl FnMut(&[u8], &mut Vec<u8>) -> Result<usize, Close>,
    ) -> Result<(), Close> {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut is_first = true;
        let mut buffer = vec![0; READ_SIZE];
        loop {
            let received = receive(&input, &mut output);
            (&self.socket).write_all(channel.seal(&output)?)?;
            output.clear();
            output.shrink_to(READ_SIZE);
            match received? {
                0 if input.len() > INPUT_MAX => return Err(Close::Order("a command is too large")),
                0 => match self.read(&mut buffer)? {
                    [] => return Ok(()),
                    wire => input.extend_from_slice(channel.open(wire)?),
                },
                used => {
                    if std::mem::take(&mut is_first) {
                        self.socket.set_read_timeout(None)?;
                    }
                    input.drain(..used);
                    input.shrink_to(READ_SIZE);
                }
            }
        }
    }

    /// Receives bytes; none at the end of the connection.
    fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        loop {
            match (&self.socket).read(buffer) {
                Ok(size) => return Ok(buffer.get(..size).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(&[]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it sends no command"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.sockets.lock().remove(&self.number);
        self.shared.ended.notify_all();
    }
}
