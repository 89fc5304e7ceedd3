//! Agents, a traced program without the tracer library, file systems in user space, and a reader of
//! traces, for tests. The program does only what a test requests, so that it can also violate the
//! protocol.
#![allow(dead_code, reason = "each test uses a part")]

use blkkin_agent::{Agent, Background, Limits, Options};
use blkkin_client::{Client, Timeouts};
use blkkin_control::Scalar;
use blkkin_control::catalog::{self, Description};
use blkkin_control::{
    Answer, Channel, Clock, Decoder, EventRule, Events, FromApplication, Hello, Level, Messages,
    Mode, NewChannel, Opening, Orphan, Purpose, Received, Reply, Request, Role, Selection, Session,
    ToApplication, Version, Width, encode,
};
use blkkin_ring::{Cells, Encoder, Outcome, Room, Writer, packet};
use blkkin_sys::SharedMemory;
use blkkin_sys::socket::Socket;
#[allow(unused_imports, reason = "each test uses a part")]
pub(crate) use blkkin_sys::testing::{figure, skip};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Timeout of operations that should be immediate.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Calls `look` until it returns a value; panics after [`PATIENCE`].
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An agent on a thread. Its socket's directory and its notes remain when the agent ends.
pub(crate) struct Running {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    pub(crate) fn start(options: Options) -> Running {
        let mut agent = Agent::bind(options).unwrap();
        let (stopped, stop) = io::pipe().unwrap();
        let thread = std::thread::spawn(move || agent.run(stopped.as_fd()));
        Running { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Successive agents on one socket, of which at most one runs at a time.
pub(crate) struct Succession {
    agent: Option<Running>,
    pub(crate) directory: tempfile::TempDir,
    limits: Limits,
}

/// Lines that the agents of all [`Succession`]s have logged.
pub(crate) static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Succession {
    pub(crate) fn begin(limits: Limits) -> Succession {
        let (agent, directory) = (None, tempfile::tempdir().unwrap());
        let mut succession = Succession { agent, directory, limits };
        succession.start_next();
        succession
    }

    /// Ends the running agent, and waits for its end.
    pub(crate) fn end(&mut self) {
        self.agent = None;
    }

    /// Ends the running agent, and starts the next one on the same socket.
    pub(crate) fn start_next(&mut self) {
        self.end();
        self.agent = Some(Running::start(Options {
            socket: self.socket(),
            is_public: false,
            group: String::new(),
            traces: None,
            manager: None,
            watchdog: None,
            limits: self.limits,
            kernel_tracer: None,
            forwarder: None,
            signals: None,
            log: |line| LOG.lock().unwrap().push(line.to_owned()),
        }));
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    /// Sends a request to the running agent over a new connection, and returns its replies.
    pub(crate) fn ask(&self, request: &Request) -> Vec<Reply> {
        self.client().request_all(request).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.try_client().unwrap()
    }

    pub(crate) fn try_client(&self) -> Result<Client, blkkin_client::Error> {
        Client::connect(&[self.socket()], "test", "0", Timeouts::default())
    }
}

/// An agent, and a command that is connected to it.
pub(crate) struct Node {
    pub(crate) agent: Option<Background>,
    pub(crate) client: Client,
    pub(crate) directory: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node::with(Background::start(|_| ()).unwrap())
    }

    pub(crate) fn with(agent: Background) -> Node {
        let addresses = [agent.socket().to_owned()];
        let client = Client::connect(&addresses, "test", "0", Timeouts::default()).unwrap();
        Node { agent: Some(agent), client, directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Vec<Reply> {
        self.client.request_all(request).unwrap()
    }

    /// Sends a request that must fail, and returns the error message.
    pub(crate) fn refusal(&mut self, request: &Request) -> String {
        self.client.request_all(request).unwrap_err().to_string()
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    /// Makes and starts session `s`, which records all events.
    pub(crate) fn record_all(&mut self, purpose: Purpose) {
        let output = self.output();
        self.record_all_as("s", purpose, output);
    }

    /// Makes and starts a session with this name, which records all events to `output`.
    pub(crate) fn record_all_as(&mut self, name: &str, purpose: Purpose, output: PathBuf) {
        let session = Session { name: name.into(), purpose, output: Some(output) };
        self.ask(&Request::CreateSession(session));
        // Rings of this size can be filled by a test.
        let channel = Channel {
            mode: match purpose {
                Purpose::Record => Mode::Discard,
                Purpose::Snapshot => Mode::Overwrite,
            },
            subbuffer_size: Some(512 << 10),
            subbuffer_count: Some(4),
            ..Channel::named("channel0")
        };
        self.ask(&Request::CreateChannel(NewChannel { session: name.into(), channel }));
        self.ask(&Request::EnableEvents(Events { session: name.into(), ..events("*") }));
        self.ask(&Request::StartSession(name.into()));
    }
}

/// Returns a selection of events for session `s`, by a pattern for the events' names.
pub(crate) fn events(names: &str) -> Events {
    let selection = Selection::for_names([names]);
    Events { session: "s".into(), channel: None, selection }
}

/// Set of rings from an earlier connection of a program. The program offers the set on each
/// reconnection.
pub(crate) struct OrphanedRings {
    pub(crate) file: File,
    /// Set if other rings have replaced the set, so that the program no longer records into the
    /// set.
    pub(crate) is_spent: bool,
}

/// Returns how much of a quota a user has reserved, and how many reservations were refused; zeros
/// if the agent does not report the quota.
pub(crate) fn quota(client: &mut Client, user: u32, what: &str) -> (u64, u64) {
    let status = client.request_all(&Request::Status(None)).unwrap();
    let found = status.into_iter().find_map(|reply| match reply {
        Reply::Quota(quota) if quota.uid == user && quota.what == what => Some(quota),
        _ => None,
    });
    found.map_or((0, 0), |quota| (quota.used, quota.refused))
}

/// A traced program without the tracer library, which does what the test requests.
pub(crate) struct Program {
    socket: Socket,
    decoder: Decoder<ToApplication>,
    pub(crate) catalog: SharedMemory,
    next_place: usize,
    pub(crate) writers: BTreeMap<u32, Writer>,
    /// Rules received since the last `Apply`, by channel number. `in_force` has the rules that an
    /// `Apply` has put into force.
    rules: BTreeMap<u32, Vec<EventRule>>,
    pub(crate) in_force: BTreeMap<u32, Vec<EventRule>>,
    /// Memory of the writers' rings, for direct access.
    pub(crate) memories: BTreeMap<u32, SharedMemory>,
    /// Eventfds by which the program's writers wake the agent.
    wakes: Vec<OwnedFd>,
    /// File of the catalog, sent again on each reconnection. `files` are the files of the rings, by
    /// channel number.
    catalog_file: File,
    pub(crate) files: BTreeMap<u32, File>,
    /// Rings of earlier connections, by their numbers in messages; `None` once they were released
    /// or turned into a channel.
    orphans: Vec<Option<OrphanedRings>>,
    /// Channel number in the last `AddChannel` or `KeepChannel`.
    pub(crate) newest: u32,
}

impl Program {
    /// Connects to the agent of `node`, and handles the messages up to the first `Ping`.
    pub(crate) fn start(node: &Node) -> Program {
        Program::start_as(node, std::process::id())
    }

    /// Connects like [`Program::start`], with `pid` as the process id in `Hello`.
    pub(crate) fn start_as(node: &Node, pid: u32) -> Program {
        Program::start_with(node.agent.as_ref().unwrap().socket(), pid, vec![])
    }

    /// Connects like [`Program::start`], to the agent that listens on this socket.
    pub(crate) fn start_at(socket: &Path) -> Program {
        Program::start_with(socket, std::process::id(), vec![])
    }

    /// Connects like [`Program::start_as`], and offers `orphans`, rings of earlier agents.
    pub(crate) fn start_with(socket: &Path, pid: u32, orphans: Vec<OrphanedRings>) -> Program {
        let (socket, decoder) = connect(socket, pid);
        let (file, catalog) = SharedMemory::create(c"catalog", catalog::SIZE).unwrap();
        for (at, word) in catalog::MAGIC.iter().enumerate() {
            catalog.word(8 * at).store(*word, Release);
        }
        let orphans: Vec<Option<OrphanedRings>> = orphans.into_iter().map(Some).collect();
        introduce(&socket, &orphans, &file);
        let mut program = Program {
            socket,
            decoder,
            catalog,
            next_place: catalog::DESCRIPTIONS,
            writers: BTreeMap::new(),
            rules: BTreeMap::new(),
            in_force: BTreeMap::new(),
            memories: BTreeMap::new(),
            wakes: Vec::new(),
            catalog_file: file,
            files: BTreeMap::new(),
            orphans,
            newest: 0,
        };
        eventually("the first ping", || program.handle_messages().then_some(()));
        program
    }

    /// Returns the number of sets of rings from earlier connections that were neither released nor
    /// turned into a channel.
    pub(crate) fn orphan_count(&self) -> usize {
        self.orphans.iter().flatten().count()
    }

    /// Closes the connection without `Goodbye`.
    pub(crate) fn lose_connection(&mut self) {
        let (nobody, _) = std::os::unix::net::UnixStream::pair().unwrap();
        self.socket = Socket::from(OwnedFd::from(nobody));
    }

    /// Reconnects, offers the program's rings, and handles messages up to the first `Ping`. Returns
    /// the socket of the earlier connection.
    pub(crate) fn reconnect(&mut self, node: &Node) -> Socket {
        self.reconnect_to(node.agent.as_ref().unwrap().socket())
    }

    /// Reconnects like [`Program::reconnect`], to the agent that listens on this socket.
    pub(crate) fn reconnect_to(&mut self, path: &Path) -> Socket {
        let before = self.reconnect_without_handling(path);
        eventually("a ping", || self.handle_messages().then_some(()));
        before
    }

    /// Reconnects and offers the program's rings. Messages are not handled yet.
    pub(crate) fn reconnect_without_handling(&mut self, path: &Path) -> Socket {
        let (socket, decoder) = connect(path, std::process::id());
        let live = std::mem::take(&mut self.files).into_values();
        self.orphans.extend(live.map(|file| Some(OrphanedRings { file, is_spent: false })));
        introduce(&socket, &self.orphans, &self.catalog_file);
        self.decoder = decoder;
        std::mem::replace(&mut self.socket, socket)
    }

    /// Reconnects, waits for the agent's first message, and loses the connection without handling
    /// the message.
    pub(crate) fn reconnect_and_disconnect(&mut self, path: &Path) {
        self.reconnect_without_handling(path);
        // The agent sends its first message after it has handled the catalog.
        eventually("the agent has heard it", || {
            receive(&self.socket, &mut self.decoder);
            self.decoder.take().unwrap()
        });
        self.lose_connection();
    }

    /// Handles the messages that were received; returns whether one of them was a `Ping`.
    pub(crate) fn handle_messages(&mut self) -> bool {
        receive(&self.socket, &mut self.decoder);
        let mut is_done = false;
        while let Some(received) = self.decoder.take().unwrap() {
            let Received::Message { message, descriptors } = received else { continue };
            match message {
                ToApplication::AddChannel(channel) => {
                    let [file, wake] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
                    let cells = Cells::new(SharedMemory::map(file.as_fd()).unwrap());
                    let writer = Writer::new(cells, blkkin_ring::Clock::Tsc).unwrap();
                    self.newest = channel.channel;
                    self.writers.insert(channel.channel, writer.with_eventfd(wake.as_raw_fd()));
                    let memory = SharedMemory::map(file.as_fd()).unwrap();
                    self.memories.insert(channel.channel, memory);
                    self.files.insert(channel.channel, File::from(file));
                    if let Some(replaced) = channel.replaces {
                        self.orphans[replaced as usize].as_mut().unwrap().is_spent = true;
                    }
                    self.wakes.push(wake);
                }
                ToApplication::KeepChannel(kept) => {
                    let orphan = self.orphans[kept.orphan as usize].take().unwrap();
                    assert!(!orphan.is_spent && self.writers.contains_key(&kept.channel));
                    self.newest = kept.channel;
                    self.files.insert(kept.channel, orphan.file);
                }
                ToApplication::RemoveChannel(number) => drop(self.writers.remove(&number)),
                ToApplication::Rule(rule) => {
                    self.rules.entry(rule.channel).or_default().push(rule.rule);
                }
                ToApplication::Apply(channel) => {
                    let rules = self.rules.remove(&channel).unwrap_or_default();
                    self.in_force.insert(channel, rules);
                }
                ToApplication::Ping(number) => {
                    send(&self.socket, &FromApplication::Pong(number), &[]);
                    is_done = true;
                }
                ToApplication::Release(number) => self.orphans[number as usize] = None,
                ToApplication::Sampling(_)
                | ToApplication::Pong(_)
                | ToApplication::KernelRule(_)
                | ToApplication::SpanSlot(_)
                | ToApplication::RecordState(_) => {}
            }
        }
        is_done
    }

    /// Handles messages on another thread while `work` runs.
    pub(crate) fn while_handling<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    self.handle_messages();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let worked = std::panic::catch_unwind(AssertUnwindSafe(work));
            done.store(true, Relaxed);
            worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Adds an event type with one integer field to the catalog.
    pub(crate) fn add_type(&mut self, index: u32, name: &str) {
        let kind = catalog::Kind::Scalar(Scalar::Unsigned { width: Width::Bits64, hex: false });
        let fields = [("n", kind)].into_iter();
        let level = Level::Info;
        let description = Description { index, name, level, file: "", line: 0, fields };
        let mut bytes = Vec::new();
        description.encode(|piece| bytes.extend_from_slice(piece)).unwrap();
        let place = self.next_place..self.next_place + bytes.len();
        self.catalog.copy_in(place.start, &bytes);
        self.next_place = place.end;
        let word = catalog::word_of(index as usize);
        self.catalog.word(word).store(catalog::encode_word(&place), Release);
        self.catalog.word(catalog::COUNT).fetch_max(u64::from(index) + 1, SeqCst);
    }

    /// Records an event of the type with this index, with `number` as the value of its field.
    pub(crate) fn record(&self, channel: u32, index: u32, number: u64) -> Outcome {
        record_as(&self.writers[&channel], index, number)
    }

    /// Sends bytes as they are, whether they are a message or not.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let _ = self.socket.send(bytes, &[]);
    }

    /// Wakes the agent by a write to each eventfd of the program's channels.
    pub(crate) fn wake(&self) {
        for wake in &self.wakes {
            let mut wake = File::from(wake.try_clone().unwrap());
            let _ = wake.write(&1u64.to_ne_bytes());
        }
    }

    pub(crate) fn goodbye(self) {
        send(&self.socket, &FromApplication::Goodbye, &[]);
    }
}

/// Mounts a file system in user space with the option `user_id=user`, and returns its open
/// `/dev/fuse`. Skips the test and returns `None` if that is not possible.
fn mount_fuse(test: &str, path: &Path, kind: &str, user: u32) -> Option<File> {
    let mount = || {
        let fuse = File::options().read(true).write(true).open("/dev/fuse")?;
        rustix::io::fcntl_setfd(&fuse, rustix::io::FdFlags::empty())?;
        let number = fuse.as_raw_fd();
        let options = format!("fd={number},rootmode=40000,user_id={user},group_id=0,allow_other");
        let mut mount = std::process::Command::new("mount");
        let output = mount.args(["-i", "-t", kind, "-o", &options, "test"]).arg(path).output()?;
        match output.status.success() {
            true => Ok(fuse),
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    };
    mount().inspect_err(|error| skip(test, &format!("nothing can be mounted: {error}"))).ok()
}

/// A file system in user space that never answers. It is mounted over a directory, and unmounted on
/// drop.
pub(crate) struct Hung {
    fuse: Option<File>,
    path: PathBuf,
}

impl Hung {
    /// Mounts the file system over `path`; returns `None` if that is not possible.
    pub(crate) fn over(test: &str, path: &Path, user: u32) -> Option<Hung> {
        let fuse = Some(mount_fuse(test, path, "fuse", user)?);
        Some(Hung { fuse, path: path.to_owned() })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        // Closing this file makes pending operations on the file system fail.
        drop(self.fuse.take());
        blkkin_sys::testing::unmount(&self.path);
    }
}

/// A file system in user space with a server. Only directories can be made in it.
pub(crate) struct Served {
    directory: blkkin_sys::testing::Scratch,
}

impl Served {
    /// Mounts and serves the file system; returns `None` if that is not possible.
    pub(crate) fn start(test: &str, kind: &str, user: u32) -> Option<Served> {
        let directory = blkkin_sys::testing::Scratch::new("served");
        let fuse = mount_fuse(test, &directory.0, kind, user)?;
        std::thread::spawn(move || while answer(&fuse).is_ok() {});
        Some(Served { directory })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        blkkin_sys::testing::unmount(self.path());
    }
}

/// Answers one request of the kernel, as in `linux/fuse.h`; fails when the file system is
/// unmounted.
fn answer(mut fuse: &File) -> io::Result<()> {
    use std::io::Read;
    const FORGETS: [u32; 2] = [2, 42];
    let mut request = vec![0; 1 << 17];
    let size = fuse.read(&mut request)?;
    let words = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
    let (operation, unique) = (words(4), &request[8..16]);
    assert!(size >= 40);
    let mut attributes = vec![0; 88];
    attributes[60..64].copy_from_slice(&0o40755u32.to_ne_bytes());
    attributes[64..68].copy_from_slice(&2u32.to_ne_bytes());
    // Names and attributes never expire.
    let valid = u64::from(u32::MAX).to_ne_bytes();
    let (error, body) = match operation {
        // LOOKUP: finds no name. Directories that were made are in the kernel's cache.
        1 => (-libc::ENOENT, vec![]),
        // GETATTR
        3 => (0, [&valid[..], &[0; 8], &attributes].concat()),
        // MKDIR: each directory has its own number.
        9 => (0, [unique, &[0; 8], &valid, &valid, &[0; 8], &attributes].concat()),
        // RMDIR
        11 => (0, vec![]),
        // STATFS
        17 => (0, vec![0; 80]),
        // INIT: version 7.31, writes of 4096 bytes.
        26 => {
            let mut body = vec![0; 64];
            body[..4].copy_from_slice(&7u32.to_ne_bytes());
            body[4..8].copy_from_slice(&31u32.to_ne_bytes());
            body[20..24].copy_from_slice(&4096u32.to_ne_bytes());
            (0, body)
        }
        operation if FORGETS.contains(&operation) => return Ok(()),
        _ => (-libc::ENOSYS, vec![]),
    };
    let length = 16 + body.len() as u32;
    let head = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), unique].concat();
    // The write fails if the request was aborted meanwhile.
    let _ = fuse.write(&[head, body].concat());
    Ok(())
}

/// Connects and sends `Hello`; retries until the agent sends `Welcome`.
fn connect(path: &Path, pid: u32) -> (Socket, Decoder<ToApplication>) {
    eventually("it is welcome", || try_to_connect(path, pid))
}

/// Connects and sends `Hello`; returns `None` if the agent refuses the connection.
fn try_to_connect(path: &Path, pid: u32) -> Option<(Socket, Decoder<ToApplication>)> {
    let socket = Socket::connect(path).unwrap();
    let role = Role::Application { pid, clock: Clock::Tsc };
    let (program, release) = ("prog/ram".into(), "0".into());
    let hello = Opening::Hello(Hello { version: Version::OURS, role, program, release });
    send(&socket, &hello, &[]);
    let mut answers: Decoder<Answer> = Decoder::new();
    let answer = eventually("an answer", || {
        receive(&socket, &mut answers);
        answers.take().unwrap()
    });
    let is_refused = matches!(answer, Received::Message { message: Answer::Refused(_), .. });
    (!is_refused).then(|| (socket, answers.followed_by()))
}

/// Connects as a program that sends `Hello` only after it was refused.
pub(crate) fn hello_after_refusal(path: &Path) {
    let socket = Socket::connect(path).unwrap();
    let mut answers: Decoder<Answer> = Decoder::new();
    let answer = eventually("an answer", || {
        receive(&socket, &mut answers);
        answers.take().unwrap()
    });
    assert!(matches!(answer, Received::Message { message: Answer::Refused(_), .. }), "{answer:?}");
    let role = Role::Application { pid: std::process::id(), clock: Clock::Tsc };
    let (program, release) = ("prog/ram".into(), "0".into());
    send(&socket, &Opening::Hello(Hello { version: Version::OURS, role, program, release }), &[]);
}

/// Offers the rings of earlier connections, and sends the catalog.
fn introduce(socket: &Socket, orphans: &[Option<OrphanedRings>], catalog: &File) {
    for (number, orphan) in (0..).zip(orphans) {
        let Some(OrphanedRings { file, is_spent }) = orphan else { continue };
        let orphan = Orphan { number, is_spent: *is_spent };
        send(socket, &FromApplication::Orphan(orphan), &[file]);
    }
    send(socket, &FromApplication::Catalog, &[catalog]);
}

fn record_as(writer: &Writer, index: u32, number: u64) -> Outcome {
    let mut room = Room::new();
    let mut encoder = Encoder::new(&mut room, index as u16);
    encoder.put(number.to_le_bytes());
    writer.record(&mut encoder.event())
}

/// Records an event of the type with index 0 and the field `number`.
pub(crate) fn record_with(writer: &Writer, number: u64) -> Outcome {
    record_as(writer, 0, number)
}

/// Makes an empty memfd of 4 KiB whose size is sealed.
pub(crate) fn sealed_memory() -> File {
    SharedMemory::create(c"empty", 4096).unwrap().0
}

fn send<M: Messages>(socket: &Socket, message: &M, files: &[&File]) {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    assert_eq!(socket.send(&bytes, &files).unwrap(), bytes.len());
}

fn receive<M: Messages>(socket: &Socket, decoder: &mut Decoder<M>) {
    let (mut bytes, mut descriptors) = ([0; 4096], Vec::new());
    match socket.receive(&mut bytes, &mut descriptors) {
        Ok(0) => panic!("the agent has closed the connection"),
        Ok(size) => decoder.feed(&bytes[..size], descriptors),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
    }
}

/// Content of all stream files of a trace: the type and number of each event, and the losses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceContent {
    pub(crate) numbers: Vec<(u16, u64)>,
    pub(crate) discarded: u64,
    /// Set if each file ends after a complete packet.
    pub(crate) is_whole: bool,
    /// Sum of the absolute differences between expected and actual packet numbers, from the second
    /// packet of each file on; 0 if no packet is missing or repeated there.
    pub(crate) gaps: u64,
    /// Number of events whose time is before that of an earlier event, or before the end of the
    /// previous packet.
    pub(crate) back: u64,
}

/// Returns the directories of the traces below `output`, sorted by the length of the path and then
/// by the path. Traces of one program, process and second are thus in the order of their creation.
pub(crate) fn traces_below(output: &Path) -> Vec<PathBuf> {
    let traces = std::fs::read_dir(output.join("ust/pid")).into_iter().flatten().flatten();
    let mut traces: Vec<PathBuf> = traces.map(|entry| entry.path()).collect();
    // If two traces would have the same name, that of the second ends with `-2`.
    traces.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    traces
}

/// Returns the directory of the only trace below `output`; `None` unless there is exactly one.
pub(crate) fn trace_below(output: &Path) -> Option<PathBuf> {
    let [trace] = <[PathBuf; 1]>::try_from(traces_below(output)).ok()?;
    Some(trace)
}

/// Reads all stream files of a trace.
pub(crate) fn read(trace: &Path) -> TraceContent {
    let mut found = TraceContent { is_whole: true, ..TraceContent::default() };
    for entry in std::fs::read_dir(trace).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name == "metadata" || name == "index" || name.starts_with('.') {
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        let mut rest = &bytes[..];
        let mut discarded = 0;
        let mut next = None;
        let mut latest = 0;
        while let Some((header, _)) = rest.split_first_chunk::<{ packet::SIZE }>() {
            let header = packet::Header::from_bytes(header).expect("a packet");
            let size = header.packet_size as usize;
            // The rest is an incomplete packet, which is just being written.
            let Some((whole, others)) = rest.split_at_checked(size) else { break };
            for event in whole[packet::SIZE..].chunks(18) {
                let time = u64::from_le_bytes(event[2..10].try_into().unwrap());
                found.back += u64::from(time < latest);
                latest = latest.max(time);
                let number = u64::from_le_bytes(event[10..].try_into().unwrap());
                found.numbers.push((u16::from_le_bytes([event[0], event[1]]), number));
            }
            found.gaps += next.map_or(0, |next: u64| next.abs_diff(header.number));
            next = Some(header.number + 1);
            latest = latest.max(header.last_time);
            discarded = header.discarded;
            rest = others;
        }
        found.is_whole &= rest.is_empty();
        found.discarded += discarded;
    }
    found.numbers.sort_unstable_by_key(|(_, number)| *number);
    found
}

/// Returns the number of processors, up to the last processor that is online.
pub(crate) fn online_processors() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let last = list.trim().rsplit([',', '-']).next().unwrap();
    last.parse::<usize>().unwrap() + 1
}
