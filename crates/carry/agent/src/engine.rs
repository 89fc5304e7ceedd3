//! The loop: who has connected, what has come, whose rings are to be looked at.

use crate::application::{Application, Released};
use crate::behind::Behind;
use crate::caller::Caller;
use crate::catalog::{Catalog, Room};
use crate::clear::Clearing;
use crate::clock::Clocks;
use crate::connection::Connection;
use crate::departed::Absence;
use crate::door::{Door, Knock, own_descriptors};
use crate::foreign::{Foreign, Intake, intake_of};
use crate::log::Log;
use crate::losses::{Destroyed, Losses, RefusedPrograms};
use crate::outputs::{self, Making};
use crate::owner::Owner;
use crate::pace::{DOZE, Hearing, Pace};
use crate::process::{Looker, group_number};
use crate::quota::{Account, Accounts, Exceeded, Limits, Share, What};
use crate::requests::{Command, Pending};
use crate::saved::{self, Begun, Notebook, Notes};
use crate::session::{SamplingRules, Session, SessionId};
use crate::snapshot::Snapshotting;
use blkkin_control::{
    Answer, DecodeError, Decoder, FromApplication, Hello, Opening, Received, Refused, Reply,
    Request, Role, ToApplication, Version, Welcome,
};
use blkkin_sys::notify;
use blkkin_sys::socket::{Listener, Peer};
use rustix::event::{PollFd, PollFlags, epoll};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How an agent is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// Whether programs and commands of all users may connect.
    pub is_public: bool,
    /// Members of this group may control all sessions of a public agent.
    pub group: String,
    /// Where sessions go that do not say it. None: below each user's home directory.
    pub traces: Option<PathBuf>,
    /// The socket of the service manager that wants to know when it is ready and when it ends, if there is
    /// one: what `NOTIFY_SOCKET` says.
    pub manager: Option<OsString>,
    /// What one user may have it hold.
    pub limits: Limits,
    /// What to do with a line that somebody should read.
    pub log: fn(&str),
}

/// Number of a connection, and of the program or command behind it.
pub(crate) type Id = u64;

/// The node daemon.
#[derive(Debug)]
pub struct Agent {
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) own_uid: u32,
    group: Option<u32>,
    /// Whether it was said that the kernel does not tell of groups.
    misses_groups: bool,
    door: Door,
    /// Held while the daemon lives.
    _lock: File,
    pub(crate) epoll: OwnedFd,
    pub(crate) looker: Looker,
    _caller: Option<Caller>,
    /// Lets go of what is in memory of traces.
    pub(crate) behind: Option<Behind>,
    pub(crate) clocks: Clocks,
    pub(crate) peers: BTreeMap<Id, Connected>,
    pub(crate) applications: BTreeMap<Id, Application>,
    /// Programs that may come back, or have ended and left rings for snapshots; who left first comes first.
    pub(crate) departed: VecDeque<Application>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) accounts: Accounts,
    pub(crate) pending: VecDeque<Pending>,
    /// Directories that are being made for sessions and snapshots.
    pub(crate) makings: Vec<Making>,
    /// Snapshots that are being written.
    pub(crate) snapshots: VecDeque<Snapshotting>,
    /// Sessions of which traces are being removed.
    pub(crate) clearings: Vec<Clearing>,
    /// Commands of which the next request may be taken.
    pub(crate) resumed: BTreeSet<Id>,
    /// Traces that programs' rings went to, which nobody has open, by UUID.
    pub(crate) begun: HashMap<[u8; 16], Begun>,
    pub(crate) notebook: Notebook,
    /// Rules of sampling, by user.
    pub(crate) sampling: HashMap<u32, SamplingRules>,
    /// What the rings have seen of programs that are no more, by session and channel.
    pub(crate) ended: BTreeMap<(SessionId, usize), Totals>,
    /// Losses of sessions, without those of rings that are attached.
    pub(crate) losses: BTreeMap<SessionId, Losses>,
    /// Losses of sessions that have been destroyed.
    pub(crate) destroyed: VecDeque<Destroyed>,
    /// Programs that could not be given rings.
    pub(crate) refused: RefusedPrograms,
    /// Refused connections that are kept until they say hello, the oldest first. Some may be closed already.
    refused_openings: VecDeque<Id>,
    /// What was kept for snapshots, and had to make room, by session and channel.
    pub(crate) released: BTreeMap<(SessionId, usize), Released>,
    /// How long users were served while others waited.
    spent: HashMap<u32, Duration>,
    next_id: Id,
    pub(crate) next_session: SessionId,
}

/// Sums over rings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rings: u32,
    /// None if no program has been counted.
    pub(crate) recorded: Option<u64>,
    pub(crate) discarded: u64,
    pub(crate) packets: u64,
    pub(crate) packets_lost: u64,
    pub(crate) bytes: u64,
    /// Events with shortened strings.
    pub(crate) cut: u64,
}

/// Somebody who has connected.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) connection: Connection,
    pub(crate) peer: Peer,
    pub(crate) state: State,
    /// Until when it must have said what it is.
    opened: Instant,
    watched: epoll::EventFlags,
    holds: Holds,
}

/// What a connection takes of what its user may have.
#[derive(Debug)]
struct Holds {
    /// Descriptors that wait for their message.
    descriptors: Share,
    message_bytes: Share,
}

impl Holds {
    fn new(account: &Arc<Account>) -> Result<Holds, Exceeded> {
        Ok(Holds {
            descriptors: account.take(What::Descriptors, 0)?,
            message_bytes: account.take(What::MessageBytes, 0)?,
        })
    }
}

impl Connected {
    /// Notes what waits in it.
    fn weigh(&mut self) -> Result<(), Exceeded> {
        let (bytes, descriptors) = match &self.state {
            State::Opening(decoder) | State::Refused(decoder, _) => decoder.waiting(),
            State::Application(decoder) => decoder.waiting(),
            State::Command(command) => command.decoder.waiting(),
            State::Closing => (0, 0),
        };
        self.holds.descriptors.set(descriptors as u64)?;
        self.holds.message_bytes.set((bytes + self.connection.waiting_size()) as u64)
    }

    /// Whether it waits for an answer.
    fn is_busy(&self) -> bool {
        matches!(&self.state, State::Command(command) if command.is_busy)
    }
}

#[derive(Debug)]
pub(crate) enum State {
    Opening(Decoder<Opening, Foreign<OwnedFd>>),
    /// It was refused for this reason before it said hello.
    Refused(Decoder<Opening, Foreign<OwnedFd>>, String),
    Application(Decoder<FromApplication, Foreign<OwnedFd>>),
    Command(Command),
    /// It has been told all that it is told.
    Closing,
}

/// Descriptors that this process may have.
fn descriptors_in_all() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors that users may take: all but the agent's own.
fn descriptors_of_users() -> u64 {
    let all = descriptors_in_all();
    all - own_descriptors(all)
}

/// One user of a public agent leaves something for others.
fn limits_of(options: &Options) -> Limits {
    let all = descriptors_of_users();
    let most = if options.is_public { all / 4 * 3 } else { all };
    Limits { descriptors: options.limits.descriptors.min(most), ..options.limits }
}

/// Whether a program, and not a command, says hello.
fn is_program(taken: &Result<Option<Received<Opening, Foreign<OwnedFd>>>, DecodeError>) -> bool {
    let Ok(Some(Received::Message { message: Opening::Hello(hello), .. })) = taken else {
        return false;
    };
    matches!(hello.role, Role::Application { .. })
}

const DOOR: u64 = 0;
const STOP: u64 = 1;
pub(crate) const EACH_WRITE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);

/// What the kernel says when that program wakes the daemon.
pub(crate) fn data_of_wake(id: Id) -> epoll::EventData {
    epoll::EventData::new_u64(id * 2 + 1)
}

const NOW: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
/// Who has connected must say so soon what it is.
const OPENING_TIME: Duration = Duration::from_secs(5);
/// Refused connections that are kept until they say hello: few, since the agent's own descriptors may be 16.
const REFUSED_OPENINGS_MAX: usize = 4;
/// How long connections are served before rings are looked at.
const TURN: Duration = Duration::from_millis(20);
/// The same at the daemon's end.
const LAST_TURN: Duration = Duration::from_secs(1);
/// Times of users are halved when one of them is as long as that.
const SPENT_MAX: Duration = Duration::from_secs(10);
/// How many are let in before others get their turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// While something cannot be written, what can be waits no longer.
const LOOK_IN_TROUBLE: Duration = Duration::from_millis(20);
/// After it the last stores of a processor are seen by all others.
const ONE_MORE_LOOK: Duration = Duration::from_millis(1);
/// Of a program, beside its connection: by which it wakes the daemon, and of its types.
pub(crate) const OWN_DESCRIPTORS: u64 = 2;
/// Event types of one program.
pub(crate) const ROOM: Room = Room { types: 16_384, bytes: 8 << 20 };
/// Rings that a program may have of an earlier daemon.
pub(crate) const ORPHANS_MAX: usize = 64;
/// The same, if the daemon has them itself.
pub(crate) const ORPHANS_KNOWN_MAX: usize = 1024;
/// Rings beyond those, of which all that is done is to count what is lost with them.
pub(crate) const ORPHANS_LOST_MAX: u64 = 256;

impl Agent {
    /// Begins to listen.
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
        // Whoever can open it could hold it.
        lock.set_permissions(fs::Permissions::from_mode(0o600))?;
        if lock.try_lock().is_err() {
            let message = format!("an agent already listens on `{}`", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        // Whoever had the lock is gone, so nobody listens on what is there.
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
        let own_uid = blkkin_sys::user_id();
        let caller = Caller::start(&path, (!options.is_public).then_some(own_uid)).ok();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let door = Door::open(listener, &epoll, DOOR)?;
        let group = group_number(&options.group);
        let mut accounts =
            Accounts::new(limits_of(&options), options.is_public.then(descriptors_of_users));
        let notes = saved::read(&path, &mut accounts).unwrap_or_else(|error| {
            (options.log)(&format!("cannot go on with sessions of an earlier agent: {error}"));
            Notes::default()
        });
        let notebook = Notebook::of(&path, options.log);
        Ok(Agent {
            own_uid,
            log: Log::new(options.log),
            group,
            misses_groups: false,
            accounts,
            options,
            door,
            _lock: lock,
            epoll,
            looker: Looker::start()?,
            // `None` if it cannot start, as without `/proc`: older programs are not found then.
            _caller: caller,
            behind: None,
            clocks: Clocks::new(),
            peers: BTreeMap::new(),
            applications: BTreeMap::new(),
            departed: VecDeque::new(),
            next_session: notes.sessions.iter().map(|session| session.id + 1).max().unwrap_or(1),
            sessions: notes.sessions,
            begun: notes.traces,
            notebook,
            pending: VecDeque::new(),
            makings: Vec::new(),
            snapshots: VecDeque::new(),
            clearings: Vec::new(),
            resumed: BTreeSet::new(),
            sampling: notes.sampling,
            ended: notes.ended,
            losses: notes.losses,
            destroyed: VecDeque::new(),
            refused: RefusedPrograms::default(),
            refused_openings: VecDeque::new(),
            released: BTreeMap::new(),
            spent: HashMap::new(),
            next_id: 1,
        })
    }

    /// Works until `stop` can be read. Then what is in the rings is written. The thread that calls it can
    /// do little else from then on, nor can threads that it starts.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> io::Result<()> {
        self.open_outputs();
        let mut traces = self.begun.values().filter_map(|begun| {
            let session = self.sessions.iter().find(|session| session.id == begun.session)?;
            session.output.find_directory(&begun.directory).ok()
        });
        for missing in crate::confine::confine(&mut traces) {
            self.log.line(&missing);
        }
        self.count_cut_off();
        if !self.sessions.is_empty() || !self.begun.is_empty() || !self.sampling.is_empty() {
            // Without what was noted in part, behind which nothing can be added.
            self.save();
        }
        // Confined as this thread is.
        self.behind = Some(Behind::start()?);
        let data = epoll::EventData::new_u64(STOP);
        epoll::add(&self.epoll, stop, data, epoll::EventFlags::IN)?;
        self.tell_manager(blkkin_sys::READY);
        let mut events = Vec::with_capacity(256);
        loop {
            let timeout = self.next_deadline().map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                rustix::time::Timespec {
                    tv_sec: left.as_secs() as i64,
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            events.clear();
            // `epoll_pwait` counts milliseconds, which are too coarse for the next look at rings.
            let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
            match rustix::event::poll(&mut ready, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&NOW)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let (mut ready, mut is_stopped) = (Vec::new(), false);
            for event in &events {
                match event.data.u64() {
                    DOOR => self.accept(),
                    STOP => is_stopped = true,
                    token if token % 2 == 0 => ready.push((token / 2, event.flags)),
                    token => self.woken(token / 2),
                }
            }
            // The kernel tells again of those who are not served now; at the end, all have their turn.
            let turn = if is_stopped { LAST_TURN } else { TURN };
            let serve = |agent: &mut Agent, (id, flags)| agent.serve(id, flags);
            let _ = self.take_turns(turn, ready, |&(id, _)| id, serve);
            if is_stopped {
                self.tell_manager(blkkin_sys::STOPPING);
                self.end();
                return Ok(());
            }
            let now = Instant::now();
            if self.door.next().is_some_and(|next| next <= now) {
                self.accept();
            }
            self.look_at_rings(now);
            self.end_openings(now);
            self.end_absences(now);
            self.settle(now);
            self.look_at_outputs(now);
            self.go_on_with_snapshots();
            self.go_on_clearing();
            // Each has its turn; the others come when all have had theirs.
            let resumed = std::mem::take(&mut self.resumed).into_iter().collect();
            let left = self.take_turns(TURN, resumed, |&id| id, Agent::take_messages);
            self.resumed.extend(left);
        }
    }

    /// Serves connections for some milliseconds, those first whose users have had the least of the daemon's time
    /// while others waited. Gives those that are left.
    fn take_turns<T>(
        &mut self,
        turn: Duration,
        mut ready: Vec<T>,
        id_of: impl Fn(&T) -> Id,
        mut serve: impl FnMut(&mut Agent, T),
    ) -> Vec<T> {
        let uid_of = |agent: &Agent, one: &T| {
            agent.peers.get(&id_of(one)).map_or(u32::MAX, |peer| peer.connection.uid())
        };
        let spent = |agent: &Agent, one: &T| {
            agent.spent.get(&uid_of(agent, one)).copied().unwrap_or(Duration::ZERO)
        };
        // The first one is at the end.
        ready.reverse();
        if !self.spent.is_empty() {
            ready.sort_by_cached_key(|one| std::cmp::Reverse(spent(self, one)));
        }
        let begun = Instant::now();
        let mut at = begun;
        while let Some(one) = ready.pop() {
            let uid = uid_of(self, &one);
            serve(self, one);
            let now = Instant::now();
            *self.spent.entry(uid).or_default() += now - at;
            at = now;
            if now - begun > turn {
                break;
            }
        }
        if ready.is_empty() && at - begun <= TURN {
            self.spent.clear();
        } else if self.spent.values().any(|spent| *spent > SPENT_MAX) {
            self.spent.values_mut().for_each(|spent| *spent /= 2);
        }
        ready
    }

    fn tell_manager(&self, state: &str) {
        let Some(manager) = &self.options.manager else { return };
        if let Err(error) = notify(manager, state) {
            self.log.line(&format!("cannot tell the service manager {state}: {error}"));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let looks = self.applications.values().filter_map(|application| application.next_look);
        let now = Instant::now();
        let pending = self.pending.iter().map(|pending| pending.next(now));
        let openings = self.peers.values().filter_map(|peer| match peer.state {
            State::Opening(_) | State::Refused(..) => Some(peer.opened + OPENING_TIME),
            _ => None,
        });
        let absences = self.departed.iter().filter_map(|one| one.absence.as_ref());
        let absences = absences.map(Absence::next);
        let is_busy =
            !self.clearings.is_empty() || !self.resumed.is_empty() || !self.snapshots.is_empty();
        let makings = (!self.makings.is_empty()).then(|| now + outputs::PAUSE);
        let others = absences.chain(is_busy.then_some(now)).chain(makings).chain(self.door.next());
        looks.chain(pending).chain(openings).chain(others).min()
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let (knock, line) = self.door.knock(&self.epoll, Instant::now());
            line.iter().for_each(|line| self.log.line(line));
            let (socket, superfluous) = match knock {
                Knock::Nobody => return,
                Knock::Somebody(socket) => (socket, None),
                Knock::Superfluous(socket, reason) => (socket, Some(reason)),
            };
            let Ok(peer) = socket.peer() else { continue };
            let may = self.options.is_public || peer.uid == self.own_uid || peer.uid == 0;
            if !may {
                continue;
            }
            let account = self.accounts.of(peer.uid);
            let mut connection = Connection::new(socket, account.uid());
            let holds = match superfluous {
                Some(reason) => Err(reason),
                None => {
                    self.make_descriptors(&account, 1);
                    let hold = |connection: &mut Connection| {
                        // Given back in this order.
                        connection.hold(account.take(What::Descriptors, 1)?);
                        connection.hold(account.take(What::Connections, 1)?);
                        Holds::new(&account)
                    };
                    hold(&mut connection).map_err(|error: Exceeded| error.to_string())
                }
            };
            let holds = match holds {
                Ok(holds) => holds,
                Err(reason) => {
                    self.refuse(connection, peer, reason);
                    continue;
                }
            };
            self.keep_peer(connection, peer, State::Opening(Decoder::new()), holds);
        }
    }

    /// Serves a connection from now on.
    fn keep_peer(
        &mut self,
        connection: Connection,
        peer: Peer,
        state: State,
        holds: Holds,
    ) -> Option<Id> {
        let id = self.next_id;
        self.next_id += 1;
        let (opened, watched) = (Instant::now(), epoll::EventFlags::IN);
        epoll::add(&self.epoll, &connection, epoll::EventData::new_u64(id * 2), watched).ok()?;
        self.peers.insert(id, Connected { connection, peer, state, opened, watched, holds });
        Some(id)
    }

    /// Refuses a connection, and counts it as a loss if it is a program's: a command records nothing.
    ///
    /// A program says hello as soon as it has connected, but may be interrupted in between. A few connections
    /// are therefore kept open for a while; their descriptors are of those for the agent's own work.
    fn refuse(&mut self, mut connection: Connection, peer: Peer, reason: String) {
        let refused = Refused { version: Version::OURS, try_again: true, reason: reason.clone() };
        // A peer whose socket has no room for that is not waited for.
        let _ = connection.send(&Answer::Refused(refused), vec![]);
        let mut decoder = Decoder::new();
        let is_open = connection.receive(&mut decoder).unwrap_or(false);
        match decoder.take() {
            // A connection that has passed descriptors is closed at once.
            Ok(None) if is_open && decoder.waiting().1 == 0 => {}
            taken => {
                if is_program(&taken) {
                    self.count_turned_away(peer, reason);
                }
                return;
            }
        }
        let account = self.accounts.of(peer.uid);
        let Ok(holds) = Holds::new(&account) else { return };
        self.refused_openings.retain(|id| self.peers.contains_key(id));
        while self.refused_openings.len() >= REFUSED_OPENINGS_MAX
            && let Some(oldest) = self.refused_openings.pop_front()
        {
            self.disconnect(oldest);
        }
        let state = State::Refused(decoder, reason);
        let kept = self.keep_peer(connection, peer, state, holds);
        self.refused_openings.extend(kept);
    }

    fn end_openings(&mut self, now: Instant) {
        let is_late = |peer: &Connected| {
            matches!(peer.state, State::Opening(_) | State::Refused(..))
                && now >= peer.opened + OPENING_TIME
        };
        let late = self.peers.iter().filter(|(_, peer)| is_late(peer));
        for id in late.map(|(id, _)| *id).collect::<Vec<Id>>() {
            self.disconnect(id);
        }
    }

    /// Does what a connection is ready for.
    fn serve(&mut self, id: Id, flags: epoll::EventFlags) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.is_busy() {
            // What it asks for meanwhile waits in its socket.
            let is_gone = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            if is_gone || peer.connection.flush().is_err() {
                return self.disconnect(id);
            }
            let listing = match &mut peer.state {
                State::Command(command) => command.listing.take(),
                _ => None,
            };
            return match listing {
                Some(listing) => self.list_on(id, listing),
                None => self.watch(id),
            };
        }
        if flags.contains(epoll::EventFlags::OUT) && peer.connection.flush().is_err() {
            return self.disconnect(id);
        }
        if self.resumed.contains(&id) {
            // First what it has asked already.
            return self.watch(id);
        }
        match intake_of(peer.connection.uid()) {
            Intake::Open => {}
            // The kernel says again that there is something.
            Intake::Later => return self.watch(id),
            Intake::Never => return self.disconnect(id),
        }
        let is_open = match &mut peer.state {
            State::Opening(decoder) | State::Refused(decoder, _) => {
                peer.connection.receive(decoder)
            }
            State::Application(decoder) => peer.connection.receive(decoder),
            State::Command(command) => peer.connection.receive(&mut command.decoder),
            State::Closing if peer.connection.is_waiting() => Ok(true),
            State::Closing => Ok(false),
        };
        self.take_messages(id);
        match is_open {
            Ok(true) => self.watch(id),
            Ok(false) | Err(_) => self.disconnect(id),
        }
    }

    /// Has the kernel say when more can be sent, if something waits for that.
    pub(crate) fn watch(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Err(exceeded) = peer.weigh() {
            self.complain(id, &exceeded.into());
            return self.disconnect(id);
        }
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, !peer.is_busy());
        flags.set(epoll::EventFlags::OUT, peer.connection.is_waiting());
        if flags != peer.watched {
            peer.watched = flags;
            let data = epoll::EventData::new_u64(id * 2);
            let _ = epoll::modify(&self.epoll, &peer.connection, data, flags);
        }
    }

    /// Acts on all messages that have come as a whole; of a command's requests, on one.
    pub(crate) fn take_messages(&mut self, id: Id) {
        while let Some(peer) = self.peers.get_mut(&id) {
            let outcome = match &mut peer.state {
                State::Opening(decoder) => match decoder.take() {
                    Ok(Some(Received::Message { message: Opening::Hello(hello), .. })) => {
                        self.welcome(id, hello)
                    }
                    Ok(_) => return,
                    Err(error) => {
                        let refused = Answer::Refused(Refused::because(&error));
                        let _ = peer.connection.send(&refused, vec![]);
                        peer.state = State::Closing;
                        return;
                    }
                },
                State::Refused(decoder, reason) => match decoder.take() {
                    Ok(None) => return,
                    taken => {
                        let (peer, reason) = (peer.peer, std::mem::take(reason));
                        self.disconnect(id);
                        if is_program(&taken) {
                            self.count_turned_away(peer, reason);
                        }
                        return;
                    }
                },
                State::Application(decoder) => match decoder.take() {
                    Ok(Some(Received::Message { message, descriptors })) => {
                        self.hear(id, message, descriptors)
                    }
                    Ok(Some(Received::Unknown { .. })) => Ok(()),
                    Ok(None) => return,
                    Err(error) => Err(io::Error::other(error.to_string())),
                },
                // One request after the other, and others' between them.
                State::Command(command) if command.is_busy => return,
                State::Command(command) => match command.decoder.take() {
                    Ok(Some(Received::Message { message, .. })) => {
                        self.resumed.insert(id);
                        return self.request(id, message);
                    }
                    Ok(Some(Received::Unknown { .. })) => {
                        self.resumed.insert(id);
                        return self.unknown_request(id);
                    }
                    Ok(None) => return,
                    Err(error) => Err(io::Error::other(error.to_string())),
                },
                State::Closing => return,
            };
            if let Err(error) = outcome {
                self.complain(id, &error);
                self.disconnect(id);
            }
        }
    }

    fn complain(&self, id: Id, error: &io::Error) {
        // Programs and commands end whenever they like.
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            return;
        }
        let Some(peer) = self.peers.get(&id) else { return };
        let who = match self.applications.get(&id) {
            Some(application) => format!("{} ({})", application.program, application.process.pid),
            None => format!("process {}", peer.peer.pid),
        };
        self.log.about(peer.connection.uid(), &format!("{who}: {error}"));
    }

    fn welcome(&mut self, id: Id, hello: Hello) -> io::Result<()> {
        let Some(Peer { pid, uid, gid }) = self.peers.get(&id).map(|peer| peer.peer) else {
            return Ok(());
        };
        let account = self.accounts.of(uid);
        let own = if matches!(hello.role, Role::Command) { 0 } else { OWN_DESCRIPTORS };
        self.make_descriptors(&account, own);
        let Some(peer) = self.peers.get_mut(&id) else { return Ok(()) };
        let state = std::mem::replace(&mut peer.state, State::Closing);
        let State::Opening(decoder) = state else { return Ok(()) };
        let descriptors = match account.take(What::Descriptors, own) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                let (version, reason) = (Version::OURS, error.to_string());
                let refused = Refused { version, try_again: true, reason: reason.clone() };
                let sent = peer.connection.send(&Answer::Refused(refused), vec![]);
                if matches!(hello.role, Role::Application { .. }) {
                    self.count_turned_away(Peer { pid, uid, gid }, reason);
                }
                return sent;
            }
        };
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let welcome = Answer::Welcome(Welcome { version: Version::OURS, release });
        peer.connection.send(&welcome, vec![])?;
        match hello.role {
            Role::Application { pid: pid_inner, clock } => {
                peer.state = State::Application(decoder.followed_by());
                let flags =
                    rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
                let wake = Arc::new(rustix::event::eventfd(0, flags)?);
                epoll::add(&self.epoll, wake.as_fd(), data_of_wake(id), EACH_WRITE)?;
                let process = self.looker.look(pid, uid)?;
                // If it still runs, that was it. This must come last.
                let is_left = peer.connection.is_left();
                let application = Application {
                    serial: id,
                    process: if is_left { process.ended() } else { process },
                    account,
                    descriptors,
                    pid_inner,
                    program: hello.program,
                    release: hello.release,
                    clock,
                    catalog: None,
                    attachments: Vec::new(),
                    traces: BTreeMap::new(),
                    uuids: BTreeMap::new(),
                    orphans: Vec::new(),
                    orphans_lost: 0,
                    released: Vec::new(),
                    done: VecDeque::new(),
                    is_ending: false,
                    absence: None,
                    wake,
                    next_number: 0,
                    next_look: None,
                    pace: Pace::default(),
                    hearing: Hearing::default(),
                    is_in_trouble: false,
                    is_asleep: false,
                    pinged: 0,
                    ponged: 0,
                };
                self.applications.insert(id, application);
            }
            Role::Command => {
                let decoder: Decoder<Request, Foreign<OwnedFd>> = decoder.followed_by();
                let owner = Owner { uid, gid };
                let is_privileged = self.is_privileged(id)?;
                let (is_busy, listing) = (false, None);
                let command = Command { decoder, owner, is_privileged, is_busy, listing };
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.state = State::Command(command);
                }
            }
        }
        Ok(())
    }

    /// Whether somebody may control everybody's sessions: root, and who is in the group. As of when it
    /// connected: what has its number by now may be another process.
    fn is_privileged(&mut self, id: Id) -> io::Result<bool> {
        let (Some(peer), Some(group)) = (self.peers.get(&id), self.group) else {
            return Ok(self.peers.get(&id).is_some_and(|peer| peer.peer.uid == 0));
        };
        if peer.peer.uid == 0 || peer.peer.gid == group {
            return Ok(true);
        }
        let groups = peer.connection.peer_groups()?;
        if groups.is_none() && !std::mem::replace(&mut self.misses_groups, true) {
            self.log.line(&format!(
                "this kernel (before 4.13) does not say which further groups who connects is in: of the \
                 group `{name}`, only those control all sessions whose first group it is (`newgrp {name}`)",
                name = self.options.group
            ));
        }
        Ok(groups.is_some_and(|groups| groups.contains(&group)))
    }

    /// What a program says.
    fn hear(
        &mut self,
        id: Id,
        message: FromApplication,
        mut descriptors: Vec<Foreign<OwnedFd>>,
    ) -> io::Result<()> {
        let Some(application) = self.applications.get_mut(&id) else { return Ok(()) };
        if descriptors.iter().any(|one| blkkin_sys::sealed_size(one.as_fd()).is_err()) {
            return Err(io::Error::other("what it passes is not memory whose size stays"));
        }
        match message {
            FromApplication::Catalog => {
                let is_first = application.catalog.is_none();
                let Some(file) = descriptors.pop().filter(|_| is_first) else {
                    return Err(io::Error::other("it told twice where its event types are"));
                };
                let share = application.account.take(What::TypeBytes, 0)?;
                application.catalog = Some(Catalog::open(file, share)?);
                self.begin_to_record(id)
            }
            FromApplication::Orphan(orphan) => {
                let is_first = application.catalog.is_none();
                let Some(memory) = descriptors.pop().filter(|_| is_first) else {
                    return Err(io::Error::other("it tells of rings that it should not have"));
                };
                self.offer(id, orphan, memory)
            }
            // Its other threads and its destructors may record until it is gone.
            FromApplication::Goodbye => {
                application.is_ending = true;
                application.next_look = Some(Instant::now());
                Ok(())
            }
            FromApplication::Ping(number) => {
                self.send(id, &ToApplication::Pong(number), vec![]);
                Ok(())
            }
            FromApplication::Pong(number) => {
                application.ponged = number.min(application.pinged);
                application.next_look = Some(Instant::now());
                application.seal_mapped()
            }
        }
    }

    /// Sends a message to a program; if that fails, it is dropped.
    pub(crate) fn send(&mut self, id: Id, message: &ToApplication, with: Vec<Arc<OwnedFd>>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match peer.connection.send(message, with) {
            Ok(()) => self.watch(id),
            Err(error) => {
                self.complain(id, &error);
                self.disconnect(id);
            }
        }
    }

    /// Sends a reply to a command.
    pub(crate) fn reply(&mut self, id: Id, reply: &Reply) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match peer.connection.answer(reply) {
            Ok(()) => self.watch(id),
            Err(_) => self.disconnect(id),
        }
    }

    /// Lets a connection go; of a program, all that it has recorded is kept.
    pub(crate) fn disconnect(&mut self, id: Id) {
        let has_ended = self.peers.get(&id).is_some_and(|peer| peer.connection.is_left());
        // With what nobody has taken out of the socket.
        if let Some(peer) = self.peers.remove(&id) {
            let _ = epoll::delete(&self.epoll, &peer.connection);
            self.door.look_soon(Instant::now());
        }
        if let Some(application) = self.applications.remove(&id) {
            self.depart(application, has_ended);
        }
    }

    /// A program has found the daemon asleep, or dozing while there is suddenly much.
    fn woken(&mut self, id: Id) {
        let Some(application) = self.applications.get_mut(&id) else { return };
        // It is never read, which a program could make wait: each write to it counts anew.
        let look = application.hearing.woken(Instant::now());
        application.next_look = Some(application.next_look.map_or(look, |next| next.min(look)));
        if application.hearing.is_deaf() {
            let none = epoll::EventFlags::empty();
            let _ = epoll::modify(&self.epoll, &application.wake, data_of_wake(id), none);
        }
    }

    fn look_at_rings(&mut self, now: Instant) {
        let busy = self.applications.values().filter(|one| one.pace.is_busy(now)).count();
        let busy = u32::try_from(busy).unwrap_or(u32::MAX).max(1);
        let (mut over, mut leaving) = (Vec::new(), Vec::new());
        for (id, application) in &mut self.applications {
            if application.next_look.is_none_or(|look| look > now) {
                continue;
            }
            if application.hearing.looked() {
                let wake = data_of_wake(*id);
                let _ = epoll::modify(&self.epoll, &application.wake, wake, EACH_WRITE);
            }
            let was_asleep = application.is_asleep;
            let mut drained = application.drain(ROOM, None, Some(now));
            let mut retry = application.next_retry();
            if !drained.found && retry.is_none() {
                application.fall_asleep();
                drained = application.drain(ROOM, None, Some(now));
                retry = application.next_retry();
            }
            let trouble = retry.is_some();
            application.next_look = match (drained.found, trouble) {
                (true, _) => {
                    let pause = application.pace.after(now, drained.fullest, busy);
                    application.doze(pause >= DOZE);
                    Some(now + pause)
                }
                // Of what cannot be written now, each event would find the daemon asleep.
                (false, true) if application.has_only_trouble() => retry,
                (false, true) => {
                    application.doze(true);
                    Some(now + LOOK_IN_TROUBLE)
                }
                (false, false) => (!was_asleep).then(|| {
                    application.pace.rest(now);
                    application.doze(false);
                    // A program that heeds no barriers may just have stored an event, and have found
                    // before that nobody sleeps. It is seen a moment later.
                    now + ONE_MORE_LOOK
                }),
            };
            if drained.found || trouble {
                application.wake_up();
            }
            if let Some(error) = drained.trouble
                && !application.is_in_trouble
            {
                self.log.about(application.account.uid(), &format!(
                    "{} ({}): cannot write what it records: {error}; events are kept as long as its \
                     rings have room, and counted then",
                    application.program, application.process.pid
                ));
            }
            application.is_in_trouble = trouble;
            if drained.found && application.account.is_over(What::RingBytes) {
                over.push(application.account.clone());
            }
            if let Some(removal) = application.next_removal() {
                leaving.push(*id);
                let next = application.next_look.map_or(removal, |look| look.min(removal));
                application.next_look = Some(next);
            }
        }
        for account in over {
            self.limit_rings(&account, now);
        }
        for id in leaving {
            self.renew_rings(id, now);
        }
        let with = self.applications.iter().filter(|(_, one)| !one.released.is_empty());
        let with: Vec<Id> = with.map(|(id, _)| *id).collect();
        for id in with {
            let application = self.applications.get_mut(&id);
            let released = application.map(|one| std::mem::take(&mut one.released));
            for orphan in released.into_iter().flatten() {
                self.send(id, &ToApplication::Release(orphan), vec![]);
            }
        }
    }

    /// Writes all that there is, at the end.
    fn end(&mut self) {
        let all: Vec<Id> = self.applications.keys().copied().collect();
        for id in all {
            self.disconnect(id);
        }
        self.end_all_absences();
        let _ = fs::remove_file(&self.options.socket);
    }
}
