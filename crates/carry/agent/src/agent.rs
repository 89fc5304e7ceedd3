//! Event loop of the agent: waits for events, dispatches each to its handler, and drains rings.

use crate::acceptor::{AcceptResult, Acceptor, reserved_descriptors};
use crate::announcer::Announcer;
use crate::change_waits::ChangeWaits;
use crate::clock::Reading;
use crate::command::{Command, Requester};
use crate::connection::Connection;
use crate::deferred_close::{DeferredClose, Intake, intake_of};
use crate::directories::Directories;
use crate::fair_queue::{LAST_TURN, TURN, Turns};
use crate::log::Log;
use crate::node::Node;
use crate::notebook::Notebook;
use crate::owner::Owner;
use crate::page_cache::PageCacheTrimmer;
use crate::peers::{ConnectionQuota, PeerState, Peers};
use crate::process::{ProcessInspector, group_number};
use crate::program::{Introduction, OWN_DESCRIPTORS, Program};
use crate::programs::Programs;
use crate::quota::{Accounts, Limits, Quota, QuotaError};
use crate::saved::{self, SavedState};
use crate::sessions::Sessions;
use crate::snapshots::Snapshots;
use crate::source::{ConnectionId, EACH_WRITE, Poller, Source, source_of};
use crate::waiting_process::WaitingProcess;
use blkkin_control::{
    Answer, DecodeError, Decoder, Hello, Opening, Received, Refused, Request, Role, Version,
    Welcome,
};
use blkkin_sys::notify;
use blkkin_sys::socket::{Listener, Peer, Socket};
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of a node agent: its socket, its users and their limits, and the default output.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the socket on which the agent listens.
    pub socket: PathBuf,
    /// Set if programs and commands of all users may connect.
    pub is_public: bool,
    /// Name of the group whose members may control all sessions of a public agent.
    pub group: String,
    /// Default directory of the sessions' outputs. With `None`, it is below each user's home
    /// directory.
    pub traces: Option<PathBuf>,
    /// Socket of the service manager, from `NOTIFY_SOCKET`. The agent notifies the manager when it
    /// is ready and when it ends.
    pub manager: Option<OsString>,
    /// Interval at which the manager is told that the agent's loop goes on; `None` for never.
    pub watchdog: Option<Duration>,
    /// Resource limits that apply to each user.
    pub limits: Limits,
    /// Tracer of the kernel; `None` if the kernel cannot be traced.
    pub kernel_tracer: Option<WaitingProcess>,
    /// Forwarder of sessions to relays; `None` if sessions cannot be forwarded.
    pub forwarder: Option<WaitingProcess>,
    /// Socket with a byte for each signal that fires triggers; `None` for no signals.
    pub signals: Option<Arc<UnixStream>>,
    /// Function that writes a line to the log.
    pub log: fn(&str),
}

/// The node agent, with the state of its event loop.
#[derive(Debug)]
pub struct Agent {
    options: Options,
    own_uid: u32,
    /// Id of the group whose members may control all sessions; `None` if only root may.
    group: Option<u32>,
    /// Set once the agent has logged that the kernel does not report supplementary groups of peers.
    misses_groups: bool,
    /// Set if the agent has made its socket, and not the service manager.
    owns_socket: bool,
    /// Announcer to programs that were started before the agent. `None` if the announcer could not
    /// start, for example without `/proc`.
    _announcer: Option<Announcer>,
    node: Node,
    turns: Turns,
    /// Locked file beside the socket: only one agent can hold the lock. It is released after the
    /// listener in `node` is closed.
    _lock: File,
}

/// Maximum number of connections accepted in one turn of the loop.
const ACCEPTED_AT_ONCE: usize = 64;

/// Returns the maximum number of descriptors of this process (`RLIMIT_NOFILE`).
fn descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the number of descriptors for users: the limit of this process minus the descriptors
/// reserved for the agent's own work.
fn descriptors_of_users() -> u64 {
    let all = descriptor_limit();
    all - reserved_descriptors(all)
}

/// Returns the resource limits of each user. On a public agent, a user has at most three quarters
/// of the descriptors for users.
fn limits_of(options: &Options) -> Limits {
    let all = descriptors_of_users();
    let most = if options.is_public { all / 4 * 3 } else { all };
    Limits { descriptors: options.limits.descriptors.min(most), ..options.limits }
}

/// Returns whether the first message of a connection is a program's `Hello`.
fn is_program(
    taken: &Result<Option<Received<Opening, DeferredClose<OwnedFd>>>, DecodeError>,
) -> bool {
    let Ok(Some(Received::Message { message: Opening::Hello(hello), .. })) = taken else {
        return false;
    };
    matches!(hello.role, Role::Application { .. })
}

impl Agent {
    /// Begins to listen, and restores the sessions of an earlier agent on the same socket.
    pub fn bind(options: Options) -> io::Result<Agent> {
        let path = options.socket.clone();
        let in_words = |what: &str, path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot {what} `{}`: {error}", path.display()))
        };
        if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
            let mode = if options.is_public { 0o755 } else { 0o700 };
            fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(directory)
                .map_err(|error| in_words("create the directory", directory, error))?;
        }
        let lock_path = path.with_extension("lock");
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&lock_path)
            .map_err(|error| in_words("open", &lock_path, error))?;
        // Otherwise a process of another user could open the file, and hold the lock.
        lock.set_permissions(fs::Permissions::from_mode(0o600))?;
        if lock.try_lock().is_err() {
            let message = format!("an agent already listens on `{}`", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        let inherited = Listener::inherited(&path);
        let owns_socket = inherited.is_none();
        let listener = match inherited {
            Some(listener) => listener,
            None => {
                // The earlier agent has released the lock, so only a service manager may listen on
                // an existing socket, to start another agent.
                if Socket::connect(&path).is_ok() {
                    let message = format!("the service manager listens on `{}`", path.display());
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
                }
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(in_words("remove", &path, error));
                    }
                    _ => {}
                }
                let listener =
                    Listener::bind(&path).map_err(|error| in_words("listen on", &path, error))?;
                let mode = if options.is_public { 0o666 } else { 0o600 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
                listener
            }
        };
        let own_uid = blkkin_sys::user_id();
        let announcer = Announcer::start(&path, (!options.is_public).then_some(own_uid)).ok();
        let poller = Arc::new(Poller::new()?);
        let acceptor = Acceptor::open(listener, &poller)?;
        let group = group_number(&options.group);
        let mut accounts =
            Accounts::new(limits_of(&options), options.is_public.then(descriptors_of_users));
        let saved = saved::read(&path, &mut accounts).unwrap_or_else(|error| {
            (options.log)(&format!("cannot go on with sessions of an earlier agent: {error}"));
            SavedState::default()
        });
        let node = Node {
            socket: path.clone(),
            traces: options.traces.clone(),
            log: Log::new(options.log),
            acceptor,
            inspector: ProcessInspector::start()?,
            accounts,
            peers: Peers::new(poller.clone()),
            programs: Programs::new(poller.clone()),
            sessions: Sessions::new(saved, Notebook::of(&path, options.log)),
            pending: VecDeque::new(),
            rotations: Vec::new(),
            change_waits: ChangeWaits::default(),
            directories: Directories::new(options.is_public, own_uid),
            snapshots: Snapshots::default(),
            kernel_tracer: options.kernel_tracer.clone(),
            forwarder: options.forwarder.clone(),
            next_turn: None,
            poller,
        };
        Ok(Agent {
            options,
            own_uid,
            group,
            misses_groups: false,
            owns_socket,
            _lock: lock,
            _announcer: announcer,
            node,
            turns: Turns::default(),
        })
    }

    /// Runs the event loop until `stop` becomes readable, then drains all rings. Confines the
    /// calling thread for good, with all threads that it starts later: see `confine`.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> io::Result<()> {
        self.begin()?;
        self.node.poller.add(stop, Source::Shutdown, EventFlags::IN)?;
        if let Some(signals) = &self.options.signals {
            signals.set_nonblocking(true)?;
            self.node.poller.add(&**signals, Source::Signals, EventFlags::IN)?;
        }
        self.notify_manager(blkkin_sys::READY);
        let mut events = Vec::with_capacity(256);
        let mut alive_at = self.options.watchdog.map(|_| Instant::now());
        loop {
            let now = Instant::now();
            if alive_at.is_some_and(|due| due <= now) {
                self.notify_manager(blkkin_sys::ALIVE);
                alive_at = self.options.watchdog.map(|interval| now + interval);
            }
            let timeout = self.node.next_deadline().into_iter().chain(alive_at).min();
            let timeout = timeout.map(|at| at.saturating_duration_since(Instant::now()));
            self.node.poller.wait(timeout, &mut events)?;
            let (mut ready, mut is_stopped) = (Vec::new(), false);
            for event in &events {
                match source_of(event) {
                    Source::Listener => self.accept(),
                    Source::Shutdown => is_stopped = true,
                    Source::Peer(id) => ready.push((id, event.flags)),
                    Source::WakeUp(id) => self.node.wake_up(id),
                    Source::Signals => {
                        let mut bytes = [0; 64];
                        let signals = self.options.signals.as_deref();
                        let read = signals.map(|mut signals| signals.read(&mut bytes));
                        let count = read.and_then(Result::ok).unwrap_or(0);
                        self.node.change_waits.add_signals(count as u64);
                    }
                }
            }
            // Connections that are not served in this turn stay ready, so the kernel reports them
            // again. The last turn is longer, so that all connections are served.
            let turn = if is_stopped { LAST_TURN } else { TURN };
            let serve = |agent: &mut Agent, (id, flags)| agent.serve(id, flags);
            let _ = self.serve_in_turns(turn, ready, |&(id, _)| id, serve);
            if is_stopped {
                self.notify_manager(blkkin_sys::STOPPING);
                self.end();
                return Ok(());
            }
            self.work(Instant::now());
        }
    }

    /// Opens the output directories of saved sessions, confines this thread, and starts the
    /// page-cache trimmer. The files of suspended traces stay readable.
    fn begin(&mut self) -> io::Result<()> {
        let Node { directories, sessions, accounts, log, .. } = &mut self.node;
        directories.open_all(&mut sessions.list, accounts, log);
        let mut traces = sessions.suspended.values().filter_map(|trace| {
            let session = sessions.get(trace.session)?;
            session.output.find_directory(&trace.directory).ok()
        });
        for missing in crate::confine::confine(&mut traces) {
            log.line(&missing);
        }
        sessions.count_cut_off();
        if !sessions.is_unused() {
            // Rewrites the whole file of notes, because notes after an incomplete one could not be
            // read.
            self.node.save();
        }
        // The new thread inherits the confinement of this thread.
        self.node.sessions.page_cache = Some(PageCacheTrimmer::start()?);
        self.node.start_kernel_tracer();
        self.node.answer_forwarder();
        Ok(())
    }

    /// Does all work that is due after the events of a turn: accepts connections again after a
    /// pause, drains rings, and continues requests.
    fn work(&mut self, now: Instant) {
        if self.node.acceptor.next().is_some_and(|next| next <= now) {
            self.accept();
        }
        let begun = Reading::now();
        self.node.drain_rings(now);
        for late in self.node.peers.late_openings(now) {
            self.node.disconnect(late);
        }
        let Node { programs, sessions, log, .. } = &mut self.node;
        programs.end_absences(now, sessions, log);
        self.node.step_rotations(now);
        self.node.continue_changes(now);
        self.node.use_directories(now);
        self.node.step_snapshots();
        self.node.step_clear_jobs();
        self.node.answer_change_waits();
        self.node.answer_forwarder();
        // Handles the next request of commands whose last request is finished. If the turn's time
        // is used up, the remaining commands follow in the next turn.
        let resumed = std::mem::take(&mut self.node.peers.resumed).into_iter().collect();
        let left = self.serve_in_turns(TURN, resumed, |&id| id, Agent::handle_messages);
        self.node.peers.resumed.extend(left);
        self.node.declare_complete(begun);
    }

    /// Serves connections for a limited time, in the order of [`Turns`]. Returns the connections
    /// that were not served.
    fn serve_in_turns<T>(
        &mut self,
        length: Duration,
        mut ready: Vec<T>,
        id_of: impl Fn(&T) -> ConnectionId,
        mut serve: impl FnMut(&mut Agent, T),
    ) -> Vec<T> {
        self.turns.sort(&mut ready, |one| self.node.peers.uid(id_of(one)));
        let mut turn = self.turns.begin(length);
        while let Some(one) = ready.pop() {
            let uid = self.node.peers.uid(id_of(&one));
            serve(self, one);
            if self.turns.charge(&mut turn, uid, Instant::now()) {
                break;
            }
        }
        self.turns.end(&turn, ready.is_empty());
        ready
    }

    fn notify_manager(&self, state: &str) {
        let Some(manager) = &self.options.manager else { return };
        if let Err(error) = notify(manager, state) {
            self.node.log.line(&format!("cannot tell the service manager {state}: {error}"));
        }
    }

    /// Accepts up to [`ACCEPTED_AT_ONCE`] connections.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let (arrival, line) = self.node.acceptor.accept(&self.node.poller, Instant::now());
            line.iter().for_each(|line| self.node.log.line(line));
            let (socket, surplus) = match arrival {
                AcceptResult::Nothing => return,
                AcceptResult::Connection(socket) => (socket, None),
                AcceptResult::Surplus(socket, reason) => (socket, Some(reason)),
            };
            let Ok(peer) = socket.peer() else { continue };
            let may = self.options.is_public || peer.uid == self.own_uid || peer.uid == 0;
            if !may {
                continue;
            }
            let account = self.node.accounts.of(peer.uid);
            let mut connection = Connection::new(socket, account.uid());
            let quota = match surplus {
                Some(reason) => Err(reason),
                None => {
                    self.node.free_descriptors(&account, 1);
                    let hold = |connection: &mut Connection| {
                        // The shares are returned in this order when the connection is closed.
                        connection.store_share(account.reserve(Quota::Descriptors, 1)?);
                        connection.store_share(account.reserve(Quota::Connections, 1)?);
                        ConnectionQuota::new(&account)
                    };
                    hold(&mut connection).map_err(|error: QuotaError| error.to_string())
                }
            };
            match quota {
                Ok(quota) => {
                    let state = PeerState::Opening(Decoder::new());
                    self.node.peers.insert(connection, peer, state, quota);
                }
                Err(reason) => self.refuse(connection, peer, reason),
            }
        }
    }

    /// Refuses a connection. The refusal of a program is counted as a loss; a command records
    /// nothing, so its refusal is not counted.
    ///
    /// Only the `Hello` shows whether the peer is a program, and it may arrive a moment after the
    /// connection. A few refused connections are therefore kept open until their `Hello` arrives,
    /// on descriptors that are reserved for the agent's own work.
    fn refuse(&mut self, mut connection: Connection, peer: Peer, reason: String) {
        let refused = Refused { version: Version::OURS, try_again: true, reason: reason.clone() };
        // If the peer's socket is full, the message is lost.
        let _ = connection.send(&Answer::Refused(refused), vec![]);
        let mut decoder = Decoder::new();
        let is_open = connection.receive(&mut decoder).unwrap_or(false);
        match decoder.take() {
            // A connection that has passed descriptors is closed at once.
            Ok(None) if is_open && decoder.waiting().1 == 0 => {}
            received => {
                if is_program(&received) {
                    self.node.count_refused_program(peer, reason);
                }
                return;
            }
        }
        let account = self.node.accounts.of(peer.uid);
        let Ok(quota) = ConnectionQuota::new(&account) else { return };
        while let Some(oldest) = self.node.peers.take_oldest_refused() {
            self.node.disconnect(oldest);
        }
        let state = PeerState::Refused(decoder, reason);
        let id = self.node.peers.insert(connection, peer, state, quota);
        self.node.peers.note_refused(id);
    }

    /// Handles events of a connection: sends queued bytes, and receives and handles messages.
    fn serve(&mut self, id: ConnectionId, flags: EventFlags) {
        let Some(peer) = self.node.peers.get_mut(id) else { return };
        if peer.is_busy() {
            // The command's next requests stay in its socket until the present request is finished.
            let is_gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            if is_gone || peer.connection.flush().is_err() {
                return self.node.disconnect(id);
            }
            let listing = self.node.peers.command_mut(id).and_then(|one| one.listing.take());
            return match listing {
                Some(listing) => self.node.send_list(id, listing),
                None => self.node.watch(id),
            };
        }
        if flags.contains(EventFlags::OUT) && peer.connection.flush().is_err() {
            return self.node.disconnect(id);
        }
        if self.node.peers.resumed.contains(&id) {
            // Requests that were received earlier are handled first.
            return self.node.watch(id);
        }
        let Some(peer) = self.node.peers.get_mut(id) else { return };
        match intake_of(peer.connection.uid()) {
            Intake::Open => {}
            // The socket stays readable, so the kernel reports it again.
            Intake::Later => return self.node.watch(id),
            Intake::Never => return self.node.disconnect(id),
        }
        let is_open = peer.receive();
        self.handle_messages(id);
        match is_open {
            Ok(true) => self.node.watch(id),
            Ok(false) | Err(_) => self.node.disconnect(id),
        }
    }

    /// Handles all completely received messages of a program, or one request of a command.
    fn handle_messages(&mut self, id: ConnectionId) {
        while let Some(peer) = self.node.peers.get_mut(id) {
            let outcome = match &mut peer.state {
                PeerState::Opening(decoder) => match decoder.take() {
                    Ok(Some(Received::Message { message: Opening::Hello(hello), .. })) => {
                        self.welcome(id, hello)
                    }
                    Ok(_) => return,
                    Err(error) => {
                        let refused = Answer::Refused(Refused::because(&error));
                        let _ = peer.connection.send(&refused, vec![]);
                        peer.state = PeerState::Closing;
                        return;
                    }
                },
                PeerState::Refused(decoder, reason) => match decoder.take() {
                    Ok(None) => return,
                    received => {
                        let (peer, reason) = (peer.peer, std::mem::take(reason));
                        self.node.disconnect(id);
                        if is_program(&received) {
                            self.node.count_refused_program(peer, reason);
                        }
                        return;
                    }
                },
                PeerState::Program(decoder) => match decoder.take() {
                    Ok(Some(Received::Message { message, descriptors })) => {
                        self.node.receive(id, message, descriptors)
                    }
                    Ok(Some(Received::Unknown { .. })) => Ok(()),
                    Ok(None) => return,
                    Err(error) => Err(io::Error::other(error.to_string())),
                },
                // Requests of a command are handled one at a time, alternating with requests of
                // other commands.
                PeerState::Command(command) if command.is_busy => return,
                PeerState::Command(command) => match command.decoder.take() {
                    Ok(Some(Received::Message { message, .. })) => {
                        self.node.peers.resumed.insert(id);
                        return self.node.request(id, message);
                    }
                    Ok(Some(Received::Unknown { .. })) => {
                        self.node.peers.resumed.insert(id);
                        return self.node.unknown_request(id);
                    }
                    Ok(None) => return,
                    Err(error) => Err(io::Error::other(error.to_string())),
                },
                PeerState::Closing => return,
            };
            if let Err(error) = outcome {
                self.node.fail(id, &error);
            }
        }
    }

    /// Answers `Hello`: welcomes a program or a command, or refuses it.
    fn welcome(&mut self, id: ConnectionId, hello: Hello) -> io::Result<()> {
        let Some(Peer { pid, uid, gid }) = self.node.peers.get(id).map(|peer| peer.peer) else {
            return Ok(());
        };
        if hello.role == Role::Kernel && uid != 0 && uid != self.own_uid {
            return Err(io::Error::other("only root may trace the kernel"));
        }
        let account = self.node.accounts.of(uid);
        let own = if matches!(hello.role, Role::Command) { 0 } else { OWN_DESCRIPTORS };
        self.node.free_descriptors(&account, own);
        let Some(peer) = self.node.peers.get_mut(id) else { return Ok(()) };
        let state = std::mem::replace(&mut peer.state, PeerState::Closing);
        let PeerState::Opening(decoder) = state else { return Ok(()) };
        let descriptors = match account.reserve(Quota::Descriptors, own) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                let (version, reason) = (Version::OURS, error.to_string());
                let refused = Refused { version, try_again: true, reason: reason.clone() };
                let sent = peer.connection.send(&Answer::Refused(refused), vec![]);
                if matches!(hello.role, Role::Application { .. }) {
                    self.node.count_refused_program(Peer { pid, uid, gid }, reason);
                }
                return sent;
            }
        };
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let welcome = Answer::Welcome(Welcome { version: Version::OURS, release });
        peer.connection.send(&welcome, vec![])?;
        let application = match hello.role {
            Role::Application { pid, clock } => Some((pid, clock)),
            Role::Kernel => Some((pid, blkkin_control::Clock::Monotonic)),
            Role::Command => None,
        };
        match application {
            Some((pid_inner, clock)) => {
                peer.state = PeerState::Program(decoder.followed_by());
                let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
                self.node.poller.add(&wake, Source::WakeUp(id), EACH_WRITE)?;
                let process = self.node.inspector.inspect(pid, uid)?;
                // If the process still runs after the inspection, its process id was not reused
                // before.
                let is_left = peer.connection.peer_has_ended();
                let process = if is_left { process.ended() } else { process };
                let (name, release) = (hello.program, hello.release);
                let introduction = Introduction {
                    process,
                    account,
                    descriptors,
                    pid_inner,
                    name,
                    release,
                    clock,
                    is_kernel: hello.role == Role::Kernel,
                    wake,
                };
                self.node.programs.connected.insert(id, Program::new(id, introduction));
            }
            None => {
                let decoder: Decoder<Request, DeferredClose<OwnedFd>> = decoder.followed_by();
                let (owner, is_privileged) = (Owner { uid, gid }, self.is_privileged(id)?);
                let requester = Requester { owner, is_privileged };
                let command = Command { decoder, requester, is_busy: false, listing: None };
                if let Some(peer) = self.node.peers.get_mut(id) {
                    peer.state = PeerState::Command(command);
                }
            }
        }
        Ok(())
    }

    /// Returns whether a peer may control all sessions: root, and members of the group. The groups
    /// are those that the kernel stored when the peer connected. The groups of the process are not
    /// read later, since its process id may have been reused.
    fn is_privileged(&mut self, id: ConnectionId) -> io::Result<bool> {
        let (Some(peer), Some(group)) = (self.node.peers.get(id), self.group) else {
            return Ok(self.node.peers.get(id).is_some_and(|peer| peer.peer.uid == 0));
        };
        if peer.peer.uid == 0 || peer.peer.gid == group {
            return Ok(true);
        }
        let groups = peer.connection.peer_groups()?;
        if groups.is_none() && !std::mem::replace(&mut self.misses_groups, true) {
            self.node.log.line(&format!(
                "this kernel (before 4.13) does not say which further groups who connects is in: of the \
                 group `{name}`, only those control all sessions whose first group it is (`newgrp {name}`)",
                name = self.options.group
            ));
        }
        Ok(groups.is_some_and(|groups| groups.contains(&group)))
    }

    /// Disconnects all programs, writes all packets and removes the socket, when the agent ends.
    fn end(&mut self) {
        for id in self.node.programs.ids(|_| true) {
            self.node.disconnect(id);
        }
        let Node { programs, sessions, log, .. } = &mut self.node;
        programs.end_all_absences(sessions, log);
        sessions.wake_forwarders();
        sessions.note_chunk_sizes();
        if self.owns_socket {
            let _ = fs::remove_file(&self.options.socket);
        }
    }
}
