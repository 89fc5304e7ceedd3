//! Producer of the traces below a directory, for one connection to a relay.

use crate::connection::Connection;
use crate::positions::{Position, Positions};
use crate::sent_positions::SentPositions;
use crate::spool::{SpoolStream, SpoolTrace, find_traces, is_recorded, remove_chunk};
use crate::target::Target;
use crate::watcher::{Changes, Watcher};
use blkkin_control::COMPLETE_FILE;
use blkkin_ctf::metadata::pack;
use blkkin_lttng::Declarations;
use blkkin_lttng::relay::{
    AddStream, Command, CreateChunk, CreateSession, Created, DataHeader, Index, Reply, code,
};
use blkkin_secure::Credentials;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Sender of the traces below a directory over one connection.
#[derive(Debug)]
pub(crate) struct Forwarder {
    root: PathBuf,
    connection: Connection,
    /// Handle of the session at the relay.
    session: u64,
    /// Path of the session at the relay.
    path: String,
    traces: Vec<SentTrace>,
    /// Directories of traces that cannot be sent, with the sizes of their metadata. A trace is
    /// reported once, and is tried again when its metadata has grown.
    refused: HashMap<PathBuf, u64>,
    /// Directories of traces that have ended, and are at the relay.
    complete: HashSet<PathBuf>,
    /// Directories of chunks from which traces were removed.
    emptied: BTreeSet<PathBuf>,
    /// Set after positions of streams that are gone were forgotten.
    has_pruned: bool,
    /// Latest end of a packet that was sent, in nanoseconds.
    newest: Option<i128>,
    /// Time that the next beacons declare, in nanoseconds, and the moment when they are due; `None`
    /// if the relay knows all streams to be as late as the newest packet.
    beacon: Option<(i128, Instant)>,
    /// Time up to which the relay knows the session to be complete, in nanoseconds since 1970.
    complete_ns: u64,
    /// Moment at which the relay was last told such a time.
    declared: Option<Instant>,
    totals: Totals,
    is_spool: bool,
    /// Positions up to which packets were sent, for the thread that drops others.
    sent: Arc<SentPositions>,
}

/// Name of a session at a relay.
#[derive(Clone, Debug)]
pub struct SessionName {
    /// Name of this machine.
    pub host: String,
    /// Name of the session.
    pub name: String,
    /// Id of this producer, not all zero.
    pub producer: [u8; 16],
}

/// Numbers of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of traces.
    pub traces: u64,
    /// Number of packets.
    pub packets: u64,
    /// Size of the packets in bytes, without padding.
    pub bytes: u64,
    /// Size of the packets in bytes that were removed from a spool.
    pub bytes_removed: u64,
}

impl Totals {
    /// Adds the numbers of a later connection, which sends all traces again that are not complete.
    pub(crate) fn and(self, later: Totals) -> Totals {
        Totals {
            traces: self.traces.max(later.traces),
            packets: self.packets + later.packets,
            bytes: self.bytes + later.bytes,
            bytes_removed: self.bytes_removed + later.bytes_removed,
        }
    }
}

/// Outcome of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Number of packets that were sent.
    pub(crate) packets: u64,
    /// Time after which packets can be sent that are in the traces already; `None` if there are
    /// none.
    pub(crate) pause: Option<Duration>,
}

/// A trace of the session.
#[derive(Debug)]
struct SentTrace {
    trace: SpoolTrace,
    /// Handle of the metadata stream.
    metadata: u64,
    /// Text of the metadata that was sent: whole declarations.
    text: String,
    streams: Vec<SentStream>,
    /// Set if a recorder was writing the trace when it was last looked at.
    was_recorded: bool,
    /// Set if files of the trace are damaged, so that nothing more of it is sent.
    is_damaged: bool,
    /// Set if there are streams whose files are not complete yet.
    has_incomplete: bool,
    /// State of the metadata file all of which was sent.
    described: Option<(u64, u64, u64)>,
}

#[derive(Debug)]
struct SentStream {
    handle: u64,
    stream: SpoolStream,
    /// Name of the stream among all streams of the directory.
    key: String,
    /// Number of packets that were sent over this connection.
    packets: u64,
    /// Number of packets over this connection and position in the file, about which the relay was
    /// asked whether it has them. They stay until it has.
    asked: Option<(u64, Position)>,
    /// Number of entries in the file whose packets the relay has.
    acknowledged: u64,
    /// Latest time that the relay knows of the stream, in cycles: the end of a packet, or a beacon.
    latest: Option<u64>,
    /// Id of the stream class, from the last packet.
    class: Option<u64>,
    /// Latest end of a packet of any stream when this one was added, in nanoseconds. Viewers may be
    /// there already: babeltrace2 2.0 fails if a stream begins with an earlier time.
    begun: Option<i128>,
}

impl SentStream {
    /// Sends the next packet and its index. Returns its end, in cycles.
    fn send_next(
        &mut self,
        connection: &mut Connection,
        totals: &mut Totals,
        sent: &SentPositions,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u64>, SendError> {
        let mut positions = sent.lock();
        let Some(entry) = self.stream.read_next(buffer).map_err(SendError::Spool)? else {
            return Ok(None);
        };
        positions.raise(&self.key, self.stream.position());
        drop(positions);
        let (stream, net_sequence) = (self.handle, self.packets);
        let padding = entry.packet.packet_bits / 8 - buffer.len() as u64;
        let (data_size, padding_size) = (buffer.len() as u32, padding as u32);
        let header = DataHeader { stream, net_sequence, data_size, padding_size };
        self.packets += 1;
        totals.packets += 1;
        totals.bytes += buffer.len() as u64;
        let index = Index {
            stream,
            net_sequence,
            packet: entry.packet,
            instance: entry.instance,
            packet_sequence: entry.packet_sequence.or(Some(net_sequence)),
        };
        connection.send_packet(header, buffer, index)?;
        self.class = Some(entry.packet.class);
        self.latest = self.latest.max(Some(entry.packet.end));
        Ok(Some(entry.packet.end))
    }

    fn is_acknowledged(&self) -> bool {
        self.acknowledged >= self.stream.position().packets
    }
}

/// Error of one trace or of the connection.
#[derive(Debug)]
enum SendError {
    /// The files of a trace cannot be read.
    Spool(io::Error),
    /// The relay does not answer, or refuses a command.
    Relay(io::Error),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        SendError::Relay(error)
    }
}

fn add_stream(connection: &mut Connection, trace: &SpoolTrace, name: &str) -> io::Result<u64> {
    let (path, name) = (trace.path.clone(), name.to_owned());
    let added = AddStream { name, path, ..AddStream::default() };
    match connection.call(&Command::AddStream(added))? {
        Reply::Stream { handle, code: code::OK } => Ok(handle),
        Reply::Stream { code, .. } => Err(refused("a stream", code)),
        _ => Err(io::Error::other("the relay does not answer with a stream")),
    }
}

/// Returns whether reading may succeed later: the files are not damaged, but for example the
/// process has no descriptor left.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, Other, UnexpectedEof};
    ![InvalidData, NotFound, Other, UnexpectedEof].contains(&error.kind())
}

/// Interval of the live timer that the session declares, in microseconds. Viewers use it to show
/// how late events may be.
const LIVE_TIMER_US: u32 = 1000;
/// Maximum number of packets of one stream that are sent in a row.
const PACKETS_AT_ONCE: u64 = 1024;
/// Pause until files are read again that could not be read.
const SPOOL_PAUSE: Duration = Duration::from_secs(1);
/// Pause until incomplete metadata is read again.
const METADATA_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two questions whether all packets have arrived.
const PENDING_PAUSE: Duration = Duration::from_millis(20);
/// Time limit for all packets to arrive at the end.
const PENDING_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after the last declaration of a recorder in which more of them are waited for.
const DECLARING_TIME: Duration = Duration::from_secs(2);
/// Time after a packet was sent until other streams are declared to have no older event. Within
/// it, the recorder writes what programs have recorded before: it polls busy programs every 10 ms,
/// and idle ones wake it.
const BEACON_DELAY: Duration = Duration::from_millis(200);

/// Returns the present time in seconds since 1970.
pub(crate) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn refused(what: &str, code: u32) -> io::Error {
    io::Error::other(format!("the relay refuses {what} (code {code})"))
}

impl Forwarder {
    /// Connects to a relay and creates a live session for the traces below `root`. With `is_spool`,
    /// packets that the relay has acknowledged are removed.
    pub(crate) fn connect(
        target: &Target,
        session: &SessionName,
        root: &Path,
        is_spool: bool,
        sent: Arc<SentPositions>,
        credentials: Option<Credentials>,
    ) -> io::Result<Forwarder> {
        let mut connection = Connection::open(target, credentials)?;
        let SessionName { host, name, producer } = session.clone();
        let create = Command::CreateSession(CreateSession {
            name,
            host,
            live_timer_us: LIVE_TIMER_US,
            producer,
            created_s: now_s(),
            ..CreateSession::default()
        });
        let (session, path) = match connection.call(&create)? {
            Reply::Session(Created { handle, code: code::OK, path }) => {
                (handle, path.unwrap_or_default())
            }
            Reply::Session(Created { code, .. }) => return Err(refused("the session", code)),
            _ => return Err(io::Error::other("the relay does not answer with a session")),
        };
        connection.open_data()?;
        let chunk = CreateChunk { id: 0, created_s: now_s(), name: None };
        connection.call_ok("the session's chunk", &Command::CreateChunk(chunk))?;
        Ok(Forwarder {
            root: root.to_owned(),
            connection,
            session,
            path,
            traces: Vec::new(),
            refused: HashMap::new(),
            complete: HashSet::new(),
            emptied: BTreeSet::new(),
            has_pruned: false,
            newest: None,
            beacon: None,
            complete_ns: 0,
            declared: None,
            totals: Totals::default(),
            is_spool,
            sent,
        })
    }

    /// Returns the path of the session at the relay.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the connection on which the relay answers, to wait for its end.
    pub(crate) fn relay(&self) -> BorrowedFd<'_> {
        self.connection.control()
    }

    /// Returns the connection, for measurements of clocks between rounds.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns the numbers of what was sent so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Sends packets that are in the traces now, of each stream a limited number. Calls `warn` for
    /// each trace that cannot be sent.
    pub(crate) fn send(
        &mut self,
        changes: &Changes,
        positions: &mut Positions,
        watcher: &mut Watcher,
        warn: &mut dyn FnMut(&str),
    ) -> io::Result<Round> {
        let before = self.totals.packets;
        let mut pause = None;
        if changes.in_tree {
            watcher.watch_complete(&self.root);
        }
        // A trace that was complete may be continued.
        let is_unknown = |directory: &PathBuf| {
            !self.traces.iter().any(|sent| sent.trace.directory == *directory)
        };
        if changes.in_tree || changes.traces.keys().any(is_unknown) {
            self.find_new_traces(positions, watcher, warn)?;
        }
        for number in 0..self.traces.len() {
            let is_changed = |sent: &SentTrace| {
                !sent.is_damaged
                    && (changes.in_tree || changes.traces.contains_key(&sent.trace.directory))
            };
            if self.traces.get(number).is_some_and(is_changed) {
                match self.send_trace(number, changes, positions) {
                    Err(SendError::Spool(error)) if is_passing(&error) => {
                        pause = pause.or(Some(SPOOL_PAUSE));
                    }
                    Err(SendError::Spool(error)) => self.give_up(number, &error, warn),
                    Err(SendError::Relay(error)) => return Err(error),
                    Ok(of_trace) => pause = pause.into_iter().chain(of_trace).min(),
                }
            }
        }
        if let (Some(until_ns), None) = (changes.complete_ns, pause)
            && until_ns > self.complete_ns
        {
            (self.complete_ns, self.declared) = (until_ns, Some(Instant::now()));
            self.connection.declare_complete(until_ns)?;
        }
        self.connection.flush()?;
        Ok(Round { packets: self.totals.packets - before, pause })
    }

    /// Stops sending a trace whose files are damaged or gone.
    fn give_up(&mut self, number: usize, error: &io::Error, warn: &mut dyn FnMut(&str)) {
        let Some(sent) = self.traces.get_mut(number) else { return };
        sent.is_damaged = true;
        warn(&format!("{}: {error}", sent.trace.directory.display()));
    }

    fn find_new_traces(
        &mut self,
        positions: &mut Positions,
        watcher: &mut Watcher,
        warn: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let found = find_traces(&self.root, &mut |directory| watcher.watch(directory));
        let is_readable = found.unreadable.is_empty();
        for (directory, error) in found.unreadable {
            if self.refused.insert(directory.clone(), 0).is_none() {
                warn(&format!("{}: {error}", directory.display()));
            }
        }
        self.complete.retain(|trace| found.traces.binary_search(trace).is_ok());
        if is_readable && !found.traces.is_empty() && !self.has_pruned {
            self.has_pruned = true;
            let trace = |key: &str| Path::new(key).parent().map(|path| self.root.join(path));
            let is_present = |trace: PathBuf| found.traces.binary_search(&trace).is_ok();
            positions.retain(|key| trace(key).is_some_and(is_present));
        }
        for directory in found.traces {
            if self.complete.contains(&directory) && !is_recorded(&directory) {
                continue;
            }
            let is_known = self.traces.iter().any(|sent| sent.trace.directory == directory);
            let size = fs::metadata(directory.join("metadata")).map_or(0, |file| file.len());
            if is_known || self.refused.get(&directory) == Some(&size) {
                continue;
            }
            let opened = SpoolTrace::open(&self.root, &directory).and_then(|trace| {
                trace.map(|trace| Ok((state_of(&trace, positions)?, trace))).transpose()
            });
            match opened {
                Ok(Some((TraceState::New, trace))) => self.add_trace(trace, positions, warn)?,
                // babeltrace2 2.0 never reads a trace whose metadata it gets before any stream.
                Ok(Some((TraceState::Empty, _))) => {}
                Ok(Some((TraceState::Delivered, trace))) if self.is_spool => {
                    // An earlier connection has delivered it.
                    if let Err(error) = remove_trace(&trace, positions) {
                        warn(&format!("{}: {error}", trace.directory.display()));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    if self.refused.insert(directory, size).is_none() {
                        warn(&error.to_string());
                    }
                }
            }
        }
        Ok(())
    }

    fn add_trace(
        &mut self,
        trace: SpoolTrace,
        positions: &Positions,
        warn: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let metadata = add_stream(&mut self.connection, &trace, "metadata")?;
        let (text, streams) = (String::new(), Vec::new());
        let was_recorded = trace.is_recorded();
        self.traces.push(SentTrace {
            trace,
            metadata,
            text,
            streams,
            was_recorded,
            is_damaged: false,
            has_incomplete: false,
            described: None,
        });
        self.totals.traces += 1;
        let number = self.traces.len() - 1;
        let added = self.add_new_streams(number, positions).map(|_| ());
        match added.and_then(|()| self.send_metadata(number).map(|_| ())) {
            // It is tried again when the trace is sent.
            Err(SendError::Spool(error)) if is_passing(&error) => {}
            Err(SendError::Spool(error)) => self.give_up(number, &error, warn),
            Err(SendError::Relay(error)) => return Err(error),
            Ok(()) => {}
        }
        self.connection.call_ok("the streams", &Command::StreamsSent)
    }

    /// Adds the stream files that appeared. Returns true if there are any.
    fn add_new_streams(&mut self, number: usize, positions: &Positions) -> Result<bool, SendError> {
        let Forwarder { traces, connection, sent: sent_positions, newest, .. } = self;
        let Some(sent) = traces.get_mut(number) else { return Ok(false) };
        let is_known = |name: &str| sent.streams.iter().any(|own| own.stream.name == name);
        let found = sent.trace.new_streams(is_known).map_err(SendError::Spool)?;
        let (new, has_incomplete) = found;
        sent.has_incomplete = has_incomplete;
        let has_new = !new.is_empty();
        for mut stream in new {
            let handle = add_stream(connection, &sent.trace, &stream.name)?;
            let key = sent.trace.key(&stream.name);
            stream.skip_to(positions.of(&key)).map_err(SendError::Spool)?;
            let position = stream.position();
            let mut sent_packets = sent_positions.lock();
            match stream.last_before(sent_packets.of(&key)).map_err(SendError::Spool)? {
                Some(_) => sent_packets.raise(&key, position),
                // The stream was cleared.
                None => sent_packets.set(&key, position),
            }
            drop(sent_packets);
            let acknowledged = position.packets;
            sent.streams.push(SentStream {
                handle,
                stream,
                key,
                packets: 0,
                asked: None,
                acknowledged,
                latest: None,
                class: None,
                begun: *newest,
            });
        }
        Ok(has_new)
    }

    /// Sends the metadata that was added. Returns false if the metadata is incomplete now, so that
    /// it does not describe all packets. Fails if the metadata was replaced by another one.
    fn send_metadata(&mut self, number: usize) -> Result<bool, SendError> {
        let Some(sent) = self.traces.get_mut(number) else { return Ok(false) };
        let state = sent.trace.metadata_state().map_err(SendError::Spool)?;
        if sent.described == Some(state) {
            return Ok(true);
        }
        let text = sent.trace.metadata().map_err(SendError::Spool)?;
        let Some(text) = text else { return Ok(false) };
        let mut declarations = Declarations::default();
        declarations.append(text.as_bytes());
        let whole = text.get(..declarations.whole_size()).unwrap_or_default();
        let Some(added) = whole.strip_prefix(&*sent.text) else {
            return Err(SendError::Spool(io::Error::other("the metadata was replaced")));
        };
        sent.described = declarations.is_whole().then_some(state);
        if added.is_empty() {
            return Ok(declarations.is_whole());
        }
        let bytes = pack(added, sent.trace.uuid, sent.trace.byte_order);
        let command = Command::SendMetadata { stream: sent.metadata, padding: 0, bytes };
        sent.text.push_str(added);
        self.connection.queue(&command)?;
        Ok(declarations.is_whole())
    }

    /// Sends packets of a trace. Returns the pause after which more of them can be sent; `None` if
    /// there are no more.
    fn send_trace(
        &mut self,
        number: usize,
        changes: &Changes,
        positions: &mut Positions,
    ) -> Result<Option<Duration>, SendError> {
        let mut pause = None;
        let Some(sent) = self.traces.get(number) else { return Ok(None) };
        let of_trace = changes.traces.get(&sent.trace.directory).filter(|_| !changes.in_tree);
        let may_be_more = of_trace.is_none_or(|it| it.has_other_files) || sent.has_incomplete;
        if may_be_more && self.add_new_streams(number, positions)? {
            self.connection.call_ok("the streams", &Command::StreamsSent)?;
        }
        let Some(sent) = self.traces.get_mut(number) else { return Ok(None) };
        let mut waiting = Vec::new();
        let streams = sent.streams.iter_mut().enumerate();
        let concerned = |own: &SentStream| of_trace.is_none_or(|it| it.has_grown(&own.stream.name));
        for (at, own) in streams.filter(|(_, own)| may_be_more || concerned(own)) {
            let entries = own.stream.entries().map_err(SendError::Spool)?;
            if let Some(position) = own.stream.rewound(entries).map_err(SendError::Spool)? {
                own.stream.rewind(position);
                self.sent.lock().set(&own.key, own.stream.position());
                (own.acknowledged, own.asked) = (own.acknowledged.min(position), None);
                positions.remove(&own.key);
            }
            let packets = entries.saturating_sub(own.stream.position().packets);
            waiting.extend((packets > 0).then_some((at, packets)));
        }
        // Producers write metadata before the packets that need it, so metadata that is read now
        // describes the packets that were counted.
        if !waiting.is_empty() && !self.send_metadata(number)? {
            return Ok(Some(METADATA_PAUSE));
        }
        let mut buffer = Vec::new();
        for (stream, waiting) in waiting {
            let Forwarder { traces, connection, totals, newest, beacon, sent: positions, .. } =
                self;
            let Some(sent) = traces.get_mut(number) else { continue };
            let Some(own) = sent.streams.get_mut(stream) else { continue };
            let mut is_last = waiting <= PACKETS_AT_ONCE;
            for _ in 0..waiting.min(PACKETS_AT_ONCE) {
                let end = own.send_next(connection, totals, positions, &mut buffer)?;
                // The others were dropped.
                let Some(end) = end else {
                    is_last = true;
                    break;
                };
                if let Some(clock) = sent.trace.clock {
                    *newest = (*newest).max(Some(clock.to_ns(end)));
                }
            }
            if !is_last {
                pause = Some(Duration::ZERO);
            }
            *beacon = beacon.or(newest.map(|newest| (newest, Instant::now() + BEACON_DELAY)));
        }
        Ok(pause)
    }

    /// Returns the time at which beacons are due; `None` if the relay knows all streams to be as
    /// late as the newest packet.
    pub(crate) fn next_beacon(&self) -> Option<Instant> {
        self.beacon.map(|(_, due)| due)
    }

    /// Returns the time in nanoseconds up to which the relay has all events, as the recorder knows;
    /// `None` if it does not tell. A trace that continues another one, in the next chunk, may have
    /// earlier events than this one's last.
    fn complete_until(&self) -> Option<i128> {
        self.declared.filter(|declared| declared.elapsed() < DECLARING_TIME)?;
        Some(i128::from(self.complete_ns))
    }

    /// Declares for all streams that no event follows that is older than a packet that was sent
    /// some time ago.
    pub(crate) fn send_beacons(&mut self) -> io::Result<()> {
        let Some((declared, _)) = self.beacon.take() else { return Ok(()) };
        let declared = self.complete_until().map_or(declared, |until| declared.min(until));
        let later = self.newest.filter(|newest| *newest > declared);
        self.beacon = later.map(|newest| (newest, Instant::now() + BEACON_DELAY));
        let Forwarder { traces, connection, .. } = self;
        for sent in traces.iter_mut().filter(|sent| !sent.is_damaged) {
            let clock = sent.trace.clock;
            let Some(now) = clock.and_then(|clock| clock.to_cycles(declared)) else { continue };
            let classes: Vec<(String, u64)> = sent
                .streams
                .iter()
                .filter_map(|own| Some((channel(&own.stream.name).to_owned(), own.class?)))
                .collect();
            for own in &mut sent.streams {
                // A stream without packets has the class of its channel's other streams.
                let of_channel = || {
                    let name = channel(&own.stream.name);
                    classes.iter().find(|(channel, _)| channel == name).map(|(_, class)| *class)
                };
                let Some(class) = own.class.or_else(of_channel) else { continue };
                let is_behind = own.stream.waiting().map_or(true, |waiting| waiting > 0)
                    || own.latest.is_none() && own.begun.is_some_and(|begun| begun > declared);
                if is_behind || own.latest.is_some_and(|latest| latest >= now) {
                    continue;
                }
                own.latest = Some(now);
                let last = own.packets.checked_sub(1);
                let beacon = Index::beacon(own.handle, last, class, now);
                connection.send_index(beacon)?;
            }
        }
        connection.flush()
    }

    /// Asks the relay which packets it has, and stores how far in `positions`. Returns true if it
    /// has everything that was sent.
    pub(crate) fn acknowledge(&mut self, positions: &mut Positions) -> io::Result<bool> {
        let Forwarder { traces, connection, .. } = self;
        let mut is_complete = true;
        for sent in traces {
            for own in sent.streams.iter_mut().filter(|own| !own.is_acknowledged()) {
                let now = (own.packets, own.stream.position());
                let (packets, position) = *own.asked.get_or_insert(now);
                let question =
                    Command::DataPending { stream: own.handle, last: packets.checked_sub(1) };
                if connection.call(&question)? != Reply::Code(0) {
                    is_complete = false;
                    continue;
                }
                (own.asked, own.acknowledged) = (None, position.packets);
                positions.set(&own.key, position);
                is_complete &= own.is_acknowledged();
            }
        }
        Ok(is_complete)
    }

    /// Removes from a spool what the relay has acknowledged. The positions must have been saved, so
    /// that a process that continues does not look for what is removed.
    pub(crate) fn remove_acknowledged(&mut self) {
        let Forwarder { traces, is_spool, totals, .. } = self;
        for sent in traces.iter_mut().filter(|_| *is_spool) {
            for own in &mut sent.streams {
                // If this fails, the packets take space on the disk for longer.
                let removed = own.stream.remove_to(own.acknowledged, &sent.trace.directory);
                totals.bytes_removed += removed.unwrap_or_default();
            }
        }
    }

    /// Returns whether the relay has not acknowledged all packets that were sent.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.traces.iter().flat_map(|sent| &sent.streams).any(|own| !own.is_acknowledged())
    }

    /// Closes the streams of traces that are no longer recorded, once the relay has them. A spool
    /// removes these traces.
    pub(crate) fn close_ended(
        &mut self,
        positions: &mut Positions,
        warn: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let mut number = 0;
        let until = self.complete_until();
        while let Some(sent) = self.traces.get_mut(number) {
            // Viewers go on to later events once streams are closed.
            let may_close = until.is_none_or(|until| sent.latest_ns() <= until);
            match sent.has_ended(self.is_spool) {
                Ok(true) if may_close => {}
                Ok(_) => {
                    number += 1;
                    continue;
                }
                Err(error) => {
                    self.give_up(number, &error, warn);
                    continue;
                }
            }
            let sent = self.traces.remove(number);
            close_streams(&mut self.connection, &sent)?;
            self.remove_delivered(&sent, positions, warn);
            match self.is_spool {
                true => self.emptied.extend(sent.trace.chunk().map(|name| self.root.join(name))),
                false => drop(self.complete.insert(sent.trace.directory)),
            }
        }
        self.emptied.retain(|chunk| !remove_chunk(chunk));
        self.connection.flush()
    }

    /// Removes a trace that the relay has from a spool.
    fn remove_delivered(
        &mut self,
        sent: &SentTrace,
        positions: &mut Positions,
        warn: &mut dyn FnMut(&str),
    ) {
        if !self.is_spool {
            return;
        }
        sent.streams.iter().for_each(|own| self.sent.lock().remove(&own.key));
        match remove_trace(&sent.trace, positions) {
            Ok(size) => self.totals.bytes_removed += size,
            Err(error) => warn(&format!("{}: {error}", sent.trace.directory.display())),
        }
    }

    /// Waits until the relay has everything, and ends the session. A spool removes its traces.
    /// Returns the numbers, and whether all traces could be sent.
    pub(crate) fn end(
        mut self,
        positions: &mut Positions,
        warn: &mut dyn FnMut(&str),
    ) -> io::Result<(Totals, bool)> {
        let session = self.session;
        let until = Instant::now() + PENDING_TIMEOUT;
        while !self.acknowledge(positions)? {
            if Instant::now() >= until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "packets did not arrive"));
            }
            std::thread::sleep(PENDING_PAUSE);
        }
        if let Err(error) = positions.save() {
            warn(&format!("how far the relay is cannot be noted: {error}"));
        }
        self.connection.call_ok("a question", &Command::BeginDataPending { session })?;
        self.connection.call(&Command::EndDataPending { session })?;
        let close = Command::CloseChunk { id: 0, closed_s: now_s(), action: None };
        self.connection.call_ok("the end of the session", &close)?;
        for sent in &self.traces {
            close_streams(&mut self.connection, sent)?;
        }
        self.connection.flush()?;
        // Nothing is written any more.
        let _ = fs::remove_file(self.root.join(COMPLETE_FILE));
        let (damaged, whole): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.traces).into_iter().partition(|sent| sent.is_damaged);
        whole.iter().for_each(|sent| self.remove_delivered(sent, positions, warn));
        Ok((self.totals, damaged.is_empty()))
    }
}

impl SentTrace {
    /// Returns the latest end of the packets that were sent, in nanoseconds.
    fn latest_ns(&self) -> i128 {
        let ends = self.streams.iter().map(|own| own.stream.last_end());
        self.trace.clock.zip(ends.max()).map_or(0, |(clock, end)| clock.to_ns(end))
    }

    /// Returns whether the relay has all of the trace, and no recorder writes to it. `is_spool` is
    /// set if BlkKin's agent records the traces.
    fn has_ended(&mut self, is_spool: bool) -> io::Result<bool> {
        if !self.streams.iter().all(SentStream::is_acknowledged) || self.is_damaged {
            return Ok(false);
        }
        let is_recorded = self.trace.is_recorded();
        let was_recorded = std::mem::replace(&mut self.was_recorded, is_recorded) || is_spool;
        if is_recorded || !was_recorded {
            // The trace may end later, if it is recorded now.
            self.was_recorded |= was_recorded;
            return Ok(false);
        }
        // The recorder has written its last packets before it removed the mark.
        let is_known = |name: &str| self.streams.iter().any(|own| own.stream.name == name);
        if !self.trace.new_streams(is_known)?.0.is_empty() {
            return Ok(false);
        }
        for own in &self.streams {
            if own.stream.waiting()? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// State of a trace before it is sent.
enum TraceState {
    /// The relay does not have it completely.
    New,
    /// It is being recorded, and has no streams yet.
    Empty,
    /// The relay has it.
    Delivered,
}

fn state_of(trace: &SpoolTrace, positions: &Positions) -> io::Result<TraceState> {
    let streams = trace.new_streams(|_| false)?.0;
    if trace.is_recorded() {
        let is_empty = streams.is_empty();
        return Ok(if is_empty { TraceState::Empty } else { TraceState::New });
    }
    let mut is_known = false;
    for mut stream in streams {
        let key = trace.key(&stream.name);
        stream.skip_to(positions.of(&key))?;
        if stream.waiting()? > 0 {
            return Ok(TraceState::New);
        }
        is_known |= positions.has(&key);
    }
    Ok(if is_known { TraceState::Delivered } else { TraceState::New })
}

/// Removes a trace that the relay has, with the positions of its streams. Returns the size of its
/// packets in bytes, without those that were removed before.
fn remove_trace(trace: &SpoolTrace, positions: &mut Positions) -> io::Result<u64> {
    let mut size = 0;
    for mut stream in trace.new_streams(|_| false)?.0 {
        let key = trace.key(&stream.name);
        stream.skip_to(positions.of(&key))?;
        size += stream.bytes_left()?;
        positions.remove(&key);
    }
    match fs::remove_dir_all(&trace.directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(size),
    }
}

fn close_streams(connection: &mut Connection, sent: &SentTrace) -> io::Result<()> {
    let streams = sent.streams.iter().map(|own| (own.handle, own.packets.checked_sub(1)));
    for (stream, last) in std::iter::once((sent.metadata, None)).chain(streams) {
        connection.queue(&Command::CloseStream { stream, last })?;
    }
    Ok(())
}

/// Returns the name of a stream's channel: the stream's without its processor.
fn channel(stream: &str) -> &str {
    stream.rsplit_once('_').map_or(stream, |(channel, _)| channel)
}
