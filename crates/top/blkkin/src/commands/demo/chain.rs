//! Parts of the demo: a server with its store, a node agent, the chain's processes, and the feed of
//! requests to the server. Only the chain's roles are separate processes. Start at
//! [`Chain::start`].

use super::feed::Feed;
use crate::exit::Error;
use blkkin_agent::Background;
use blkkin_blockstack::{Address, Options as StackOptions, Stack};
use blkkin_client::{Client, Timeouts};
use blkkin_control::address::VARIABLE;
use blkkin_control::{Events, Purpose, Reply, Request, Selection, Session};
use blkkin_lake::{Lake, Options, Retention};
use blkkin_server::{Listen, Running, Server, Settings, StartError};
use blkkin_store::SpanStore;
use parking_lot::Mutex;
use std::fs::{DirEntry, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Running demo: the server, the agent, the chain, and the current recording.
pub(super) struct Chain {
    directory: PathBuf,
    stack: Option<Stack>,
    recording: Option<Recording>,
    /// Number of recordings so far. `lost` counts the losses of recordings that have ended.
    recordings: u32,
    lost: u64,
    client: Client,
    agent: Option<Background>,
    server: Option<Running>,
    store: Arc<dyn SpanStore>,
    web: SocketAddr,
}

/// Recording session, with the feed of its requests to the server.
struct Recording {
    session: String,
    trace: PathBuf,
    feed: Feed,
}

/// Part of the demo, as listed in its output: the server or the agent, in the demo's process, or a
/// role of the chain.
pub(super) struct DemoProcess {
    pub(super) name: String,
    pub(super) pid: u32,
    /// Network address or socket path at which the process listens.
    pub(super) at: String,
}

/// Counts that the demo prints in its status line and at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Number of spans in the store.
    pub(super) spans: u64,
    /// Total number of losses: events lost in rings, and spans lost, refused, or not delivered.
    pub(super) lost: u64,
}

/// Maximum size of the store, in bytes.
const STORE_BYTES_MAX: u64 = 2 << 30;

/// Log file for messages of the agent and of the demo itself; `None` if it cannot be opened.
static LOG: Mutex<Option<std::fs::File>> = Mutex::new(None);

impl Chain {
    pub(super) fn start(directory: &Path, listen: SocketAddr) -> Result<Chain, Error> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: &dyn std::fmt::Display| Error::failed(format!("{what}: {error}"))
        };
        let log_file = OpenOptions::new().create(true).append(true).open(directory.join("log"));
        *LOG.lock() = log_file.ok();
        let retention = Retention { age: None, bytes: Some(STORE_BYTES_MAX) };
        let options = Options { retention, ..Options::default() };
        let (lake, _) = Lake::open(&directory.join("spans"), options)
            .map_err(|error| failed("cannot keep spans")(&error))?;
        let store: Arc<dyn SpanStore> = Arc::new(lake);
        let server = serve(&store, listen)?;
        let web = *server.web.first().ok_or_else(|| Error::failed("the server has no port"))?;
        let agent =
            Background::start(log).map_err(|error| failed("cannot start an agent")(&error))?;
        let client = Client::connect(
            &[agent.socket().to_owned()],
            "blkkin demo",
            env!("CARGO_PKG_VERSION"),
            Timeouts::default(),
        )?;
        let own =
            std::env::current_exe().map_err(|error| failed("cannot find this program")(&error))?;
        let program = vec![own.into(), "demo".into(), "role".into()];
        let mut options = StackOptions::new(&directory.join("chain"), program);
        options.environment.push((VARIABLE.into(), agent.socket().into()));
        let stack =
            Stack::start(options).map_err(|error| failed("cannot start the chain")(&error))?;
        Ok(Chain {
            directory: directory.to_owned(),
            stack: Some(stack),
            recording: None,
            recordings: 0,
            lost: 0,
            client,
            agent: Some(agent),
            server: Some(server),
            store,
            web,
        })
    }

    /// Starts a recording of all requests, with a feed to the server. Then ends the previous
    /// recording: waits until its requests are stored, and removes its trace.
    pub(super) fn record(&mut self) -> Result<(), Error> {
        self.recordings += 1;
        let session = format!("demo-{}", self.recordings);
        let trace = self.directory.join("trace").join(self.recordings.to_string());
        self.start_session(&session, Purpose::Record, Some(trace.clone()))?;
        self.ask(&Request::StartSession(session.clone()))?;
        let feed = Feed::start(trace.clone(), &format!("{}v1/traces", self.url()))?;
        // Other clients of the disk may have requests under way, so both sessions record for a
        // moment; the store keeps a span of both once.
        let before = self.recording.replace(Recording { session, trace, feed });
        let Some(before) = before else { return Ok(()) };
        let trace = before.trace.clone();
        self.end_recording(before)?;
        if let Err(error) = std::fs::remove_dir_all(&trace) {
            // Another process may have removed the trace or be reading it; the demo continues.
            log(&format!("cannot remove `{}`: {error}", trace.display()));
        }
        Ok(())
    }

    /// Starts a new recording if the current trace is larger than `bytes_max`. The load must have
    /// no request in flight.
    pub(super) fn rotate_above(&mut self, bytes_max: u64) -> Result<(), Error> {
        let size = self.recording.as_ref().map(|recording| bytes_below(&recording.trace));
        if size.is_some_and(|size| size > bytes_max) { self.record() } else { Ok(()) }
    }

    /// Ends a recording, sends its remaining requests to the server, and counts its losses.
    fn end_recording(&mut self, Recording { session, feed, .. }: Recording) -> Result<(), Error> {
        self.ask(&Request::StopSession(session.clone()))?;
        self.ask(&Request::DestroySession(session))?;
        self.lost += feed.end()?;
        Ok(())
    }

    /// Creates a session for all events, without starting it.
    pub(super) fn start_session(
        &mut self,
        name: &str,
        purpose: Purpose,
        output: Option<PathBuf>,
    ) -> Result<(), Error> {
        self.ask(&Request::CreateSession(Session { name: name.to_owned(), purpose, output }))?;
        self.ask(&Request::EnableEvents(Events {
            session: name.to_owned(),
            channel: None,
            selection: Selection::for_names(&["*".to_owned()]),
        }))?;
        Ok(())
    }

    /// Returns the directory with the demo's log, store, traces and chain.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Vec<Reply>, Error> {
        Ok(self.client.request_all(request)?)
    }

    /// Returns an error if a process of the chain has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        match self.stack.as_mut().and_then(Stack::ended) {
            Some(role) => Err(Error::failed(format!("{role} has ended by itself"))),
            None => Ok(()),
        }
    }

    pub(super) fn nbd(&self) -> Address {
        let path = || Address::Path(self.directory.join("chain/nbd.sock"));
        self.stack.as_ref().and_then(Stack::nbd).cloned().unwrap_or_else(path)
    }

    pub(super) fn nbd_uri(&self) -> String {
        self.stack.as_ref().map(Stack::nbd_uri).unwrap_or_default()
    }

    pub(super) fn port(&self) -> u16 {
        self.web.port()
    }

    /// Returns the URL of the server's page.
    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.web)
    }

    /// Returns the URL of a request's page.
    pub(super) fn page_of(&self, id: &str) -> String {
        format!("{}#/trace/{id}", self.url())
    }

    pub(super) fn parts(&self) -> Vec<DemoProcess> {
        let own = std::process::id();
        let socket = self.agent.as_ref().map(|agent| agent.socket().display().to_string());
        let mut parts = vec![
            DemoProcess { name: "server".to_owned(), pid: own, at: self.web.to_string() },
            DemoProcess { name: "agent".to_owned(), pid: own, at: socket.unwrap_or_default() },
        ];
        let roles = self.stack.as_ref().map(Stack::roles).unwrap_or_default();
        parts.extend(roles.iter().rev().map(|role| DemoProcess {
            name: role.name().to_owned(),
            pid: role.id(),
            at: role.address().to_string(),
        }));
        parts
    }

    pub(super) fn totals(&self) -> Totals {
        let counters = self.store.counters();
        let fed = self.recording.as_ref().map_or(0, |recording| recording.feed.lost());
        Totals { spans: counters.kept, lost: counters.lost + counters.refused + self.lost + fed }
    }

    /// Ends the chain, the recording, the server and the agent, in this order, so that every
    /// request that has begun is stored.
    pub(super) fn end(mut self) -> Result<Totals, Error> {
        if let Some(stack) = self.stack.take() {
            stack.stop().map_err(|error| Error::failed(format!("the chain: {error}")))?;
        }
        if let Some(recording) = self.recording.take() {
            self.end_recording(recording)?;
        }
        let totals = self.totals();
        if let Some(server) = self.server.take() {
            server.stop();
        }
        if let Some(agent) = self.agent.take() {
            let ended = agent.end();
            ended.map_err(|error| Error::failed(format!("the agent did not end well: {error}")))?;
        }
        Ok(totals)
    }
}

/// Returns the total size of the files below a directory. Files that appear or disappear meanwhile
/// may count as 0.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Starts the server at `listen`, or at another port if that port is in use.
fn serve(store: &Arc<dyn SpanStore>, listen: SocketAddr) -> Result<Running, Error> {
    let settings = |listen: SocketAddr| Settings {
        listen: Listen { web: vec![listen], ..Listen::default() },
        ..Settings::default()
    };
    let started = match Server::start(store.clone(), settings(listen)) {
        Err(StartError::Listen { error, .. }) if error.kind() == ErrorKind::AddrInUse => {
            Server::start(store.clone(), settings(SocketAddr::new(listen.ip(), 0)))
        }
        started => started,
    };
    started.map_err(|error| Error::failed(error.to_string()))
}

fn log(line: &str) {
    if let Some(file) = &mut *LOG.lock() {
        let _: io::Result<()> = writeln!(file, "{line}");
    }
}
