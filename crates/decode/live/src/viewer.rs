//! Connection to a relay: a thread with a socket, with or without TLS, that carries out what the
//! client says.

use crate::client::{Client, Goal, Step};
use crate::error::Error;
use crate::url::{Family, SessionName, Url};
use blkkin_lttng::viewer::{Seek, Session};
use blkkin_reader::{LiveSet, Source, TimeBase};
use blkkin_secure::{Credentials, Stream};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum time for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum time for a reply, and for a request to be sent.
const REPLY_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time for listing sessions, or for attaching to one.
const OPENING_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time for the last replies after [`Viewer::stop`].
const STOP_TIME_MAX: Duration = Duration::from_secs(1);
/// Time for which a read waits before it looks at the stop.
const READ_TIME: Duration = Duration::from_millis(100);
const BUFFER_SIZE: usize = 64 << 10;

/// Reader of one session of a relay, on a thread of its own.
#[derive(Debug)]
pub struct Viewer {
    set: LiveSet,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    error: Option<Error>,
    /// Number of rounds of the consumer.
    rounds: u64,
    is_stopped: bool,
}

/// Progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time before which all events were received, for
    /// [`blkkin_reader::Follower::deliver_until`].
    pub end_ns: i64,
    /// Set once nothing more will be received.
    pub has_ended: bool,
    /// Number of packets that the relay has announced and could not give.
    pub missing_packets: u64,
}

impl Default for State {
    fn default() -> State {
        let progress = Progress { end_ns: i64::MIN, has_ended: false, missing_packets: 0 };
        State { progress, error: None, rounds: 0, is_stopped: false }
    }
}

/// Returns the sessions of a relay. Credentials are for a URL with TLS, here and in
/// [`Viewer::open`].
pub fn list(url: &Url, credentials: Option<&Credentials>) -> Result<Vec<Session>, Error> {
    list_for(Goal::List, url, credentials)
}

/// Returns the sessions of a relay, also those that have ended a short time ago, if the relay can
/// list them.
pub fn list_with_ended(
    url: &Url,
    credentials: Option<&Credentials>,
) -> Result<Vec<Session>, Error> {
    list_for(Goal::ListWithEnded, url, credentials)
}

fn list_for(
    goal: Goal,
    url: &Url,
    credentials: Option<&Credentials>,
) -> Result<Vec<Session>, Error> {
    let mut connection =
        Connection::open(url, credentials, goal, TimeBase::Recorded, LiveSet::default())?;
    let never_stopped = Shared::default();
    while connection.step(&never_stopped)? {
        connection.check_opening()?;
    }
    Ok(connection.client.listed().to_vec())
}

impl Viewer {
    /// Attaches to the session of a URL, from a position on. Fails if the URL has no session.
    pub fn open(
        url: &Url,
        credentials: Option<&Credentials>,
        seek: Seek,
        time_base: TimeBase,
    ) -> Result<Viewer, Error> {
        Viewer::begin(url, credentials, time_base, |name| Goal::Read(name, seek))
    }

    /// Attaches to those sessions of a URL's name that have these ids, from their beginnings. They
    /// may have ended since [`list_with_ended`] has returned them.
    pub fn open_each(
        url: &Url,
        credentials: Option<&Credentials>,
        ids: Vec<u64>,
        time_base: TimeBase,
    ) -> Result<Viewer, Error> {
        Viewer::begin(url, credentials, time_base, |name| Goal::ReadEach(name, ids))
    }

    fn begin(
        url: &Url,
        credentials: Option<&Credentials>,
        time_base: TimeBase,
        goal: impl FnOnce(SessionName) -> Goal,
    ) -> Result<Viewer, Error> {
        let Some(name) = url.session.clone() else {
            return Err(Error::Refused("the URL has no session"));
        };
        let set = LiveSet::default();
        let mut connection =
            Connection::open(url, credentials, goal(name), time_base, set.clone())?;
        let shared = Arc::new(Shared::default());
        while !connection.client.is_attached() && connection.step(&shared)? {
            connection.check_opening()?;
        }
        let thread = thread::Builder::new().name("live".to_owned()).spawn({
            let shared = shared.clone();
            move || connection.run(&shared)
        });
        let thread = Some(thread.map_err(Error::Storage)?);
        Ok(Viewer { set, shared, thread })
    }

    /// Returns the source for a [`blkkin_reader::Follower`]. It has more traces when more programs
    /// are traced.
    pub fn source(&self) -> Source {
        Source::LiveSet(self.set.clone())
    }

    /// Waits until there is progress after `last`, but at most for `time`; returns the progress.
    ///
    /// The progress must be known before [`blkkin_reader::Follower::refresh`] is called, so that
    /// the packets up to its end are found. Each call counts as a round of reading that has ended.
    pub fn wait(&self, last: Option<Progress>, time: Duration) -> Progress {
        let mut state = self.shared.state.lock();
        state.rounds += 1;
        // The thread may wait for the consumer.
        self.shared.changed.notify_all();
        let deadline = Instant::now() + time;
        while last == Some(state.progress) && !state.progress.has_ended {
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.progress
    }

    /// Detaches from the session. [`Progress::has_ended`] is set soon.
    pub fn stop(&self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.changed.notify_all();
    }

    /// Returns the error that has ended the reading, once.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.state.lock().error.take()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Client with its socket.
struct Connection {
    client: Client,
    stream: Stream,
    address: String,
    begun: Instant,
    /// Time of the last request, from which its reply is awaited.
    sent: Instant,
    /// Time since which the client is to end.
    stopped: Option<Instant>,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(
        url: &Url,
        credentials: Option<&Credentials>,
        goal: Goal,
        time_base: TimeBase,
        set: LiveSet,
    ) -> Result<Connection, Error> {
        let address = url.relay().to_string();
        let failed = |error| Error::Connect { address: address.clone(), error };
        let stream = connect(url, credentials).map_err(failed)?;
        let begun = Instant::now();
        let client = Client::new(goal, time_base, set);
        let buffer = vec![0; BUFFER_SIZE];
        Ok(Connection { client, stream, address, begun, sent: begun, stopped: None, buffer })
    }

    /// Reads the session to its end.
    fn run(mut self, shared: &Shared) {
        let error = loop {
            match self.step(shared) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        let mut state = shared.state.lock();
        // Whatever fails after a stop is of no interest.
        state.error = error.filter(|_| !state.is_stopped);
        state.progress.has_ended = true;
        state.progress.missing_packets = self.client.missing_packets();
        shared.changed.notify_all();
    }

    /// Sends a request, receives bytes, or waits. Returns false once the client is done.
    fn step(&mut self, shared: &Shared) -> Result<bool, Error> {
        self.take_state(shared);
        let step = self.client.next(self.begun.elapsed())?;
        // The step may be a long wait.
        self.publish_progress(shared);
        if self.stopped.is_some_and(|stopped| stopped.elapsed() >= STOP_TIME_MAX) {
            return Ok(false);
        }
        match step {
            Step::Send(request) => {
                let mut bytes = Vec::new();
                request.encode(&mut bytes);
                self.sent = Instant::now();
                self.stream.write_all(&bytes).map_err(|error| self.lost(&error.to_string()))?;
            }
            Step::Receive => self.receive()?,
            Step::Wait(until) => {
                let mut state = shared.state.lock();
                if !state.is_stopped {
                    shared.changed.wait_until(&mut state, self.begun + until);
                }
            }
            Step::Done => return Ok(false),
        }
        Ok(true)
    }

    fn receive(&mut self) -> Result<(), Error> {
        match self.stream.read(&mut self.buffer) {
            Ok(None) => Err(self.lost("the relay has closed it")),
            Ok(Some(bytes)) => {
                self.sent = Instant::now();
                self.client.receive(self.begun.elapsed(), bytes)
            }
            Err(error) if is_timeout(&error) => {
                let permitted = REPLY_TIME_MAX + self.client.silence_permitted();
                match self.sent.elapsed() < permitted {
                    true => Ok(()),
                    false => Err(self.lost("the relay does not answer")),
                }
            }
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }

    /// Tells the client of the consumer's progress.
    fn take_state(&mut self, shared: &Shared) {
        let mut state = shared.state.lock();
        if state.is_stopped {
            self.client.stop();
            self.stopped.get_or_insert_with(Instant::now);
        }
        if std::mem::take(&mut state.rounds) > 0 {
            self.client.count_round();
        }
    }

    /// Tells the consumer of the client's progress.
    fn publish_progress(&self, shared: &Shared) {
        let mut state = shared.state.lock();
        let (end_ns, missing) = (self.client.complete_until(), self.client.missing_packets());
        if end_ns > state.progress.end_ns {
            state.progress.end_ns = end_ns;
            state.progress.missing_packets = missing;
            shared.changed.notify_all();
        }
    }

    /// Fails if listing or attaching takes too long, though the relay sends something now and then.
    fn check_opening(&self) -> Result<(), Error> {
        match self.begun.elapsed() < OPENING_TIME_MAX {
            true => Ok(()),
            false => Err(self.lost("the relay does not answer in time")),
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::Lost { address: self.address.clone(), reason: reason.to_owned() }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Connects to the first address that answers.
fn connect(url: &Url, credentials: Option<&Credentials>) -> io::Result<Stream> {
    let socket = connect_socket(url)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(READ_TIME))?;
    socket.set_write_timeout(Some(REPLY_TIME_MAX))?;
    match (url.is_secure, credentials) {
        (false, _) => Ok(Stream::plain(socket)),
        (true, Some(credentials)) => Stream::secure(socket, &url.host, credentials),
        (true, None) => Err(io::Error::other("there are no credentials")),
    }
}

fn connect_socket(url: &Url) -> io::Result<TcpStream> {
    let is_permitted = |address: &SocketAddr| match url.family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no such address");
    for address in (&*url.host, url.port).to_socket_addrs()?.filter(is_permitted) {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}
