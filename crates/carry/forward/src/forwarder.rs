//! Producer of the traces below a directory.

use crate::connection::Connection;
use crate::spool::{SpoolStream, SpoolTrace, find_traces};
use crate::target::Target;
use blkkin_ctf::metadata::pack;
use blkkin_lttng::Declarations;
use blkkin_lttng::relay::{
    AddStream, Command, CreateChunk, CreateSession, Created, DataHeader, Index, Reply, code,
};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Sender of the traces below a directory to a relay.
#[derive(Debug)]
pub struct Forwarder {
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
    totals: Totals,
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
}

#[derive(Debug)]
struct SentStream {
    handle: u64,
    stream: SpoolStream,
    /// Number of packets that were sent.
    packets: u64,
}

impl SentStream {
    /// Sends the next packet and its index.
    fn send_next(
        &mut self,
        connection: &mut Connection,
        totals: &mut Totals,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let Some(entry) = self.stream.next()? else { return Ok(()) };
        self.stream.read(&entry, buffer)?;
        let (stream, net_sequence) = (self.handle, self.packets);
        let padding = entry.packet.packet_bits / 8 - buffer.len() as u64;
        let (data_size, padding_size) = (buffer.len() as u32, padding as u32);
        let header = DataHeader { stream, net_sequence, data_size, padding_size };
        self.packets += 1;
        totals.packets += 1;
        totals.bytes += buffer.len() as u64;
        connection.send_packet(header, buffer)?;
        connection.queue(&Command::SendIndex(Index {
            stream,
            net_sequence,
            packet: entry.packet,
            instance: entry.instance,
            packet_sequence: entry.packet_sequence.or(Some(net_sequence)),
        }))
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

/// Interval of the live timer that the session declares, in microseconds. Viewers use it to show
/// how late events may be.
const LIVE_TIMER_US: u32 = 1000;
/// Pause between two questions whether all packets have arrived.
const PENDING_PAUSE: Duration = Duration::from_millis(20);
/// Time limit for all packets to arrive at the end.
const PENDING_TIMEOUT: Duration = Duration::from_secs(60);

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn refused(what: &str, code: u32) -> io::Error {
    io::Error::other(format!("the relay refuses {what} (code {code})"))
}

impl Forwarder {
    /// Connects to a relay and creates a live session for the traces below `root`.
    pub fn connect(target: &Target, session: &SessionName, root: &Path) -> io::Result<Forwarder> {
        let mut connection = Connection::open(target)?;
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
            totals: Totals::default(),
        })
    }

    /// Returns the path of the session at the relay.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the numbers of what was sent so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Sends all packets that are in the traces now. Calls `warn` for each trace that cannot be
    /// sent. Returns the number of packets.
    pub fn send(&mut self, mut warn: impl FnMut(&str)) -> io::Result<u64> {
        let before = self.totals.packets;
        self.find_new_traces(&mut warn)?;
        for number in 0..self.traces.len() {
            self.send_trace(number)?;
        }
        self.connection.flush()?;
        Ok(self.totals.packets - before)
    }

    fn find_new_traces(&mut self, warn: &mut impl FnMut(&str)) -> io::Result<()> {
        for directory in find_traces(&self.root)? {
            let is_known = self.traces.iter().any(|sent| sent.trace.directory == directory);
            let size = fs::metadata(directory.join("metadata")).map_or(0, |file| file.len());
            if is_known || self.refused.get(&directory) == Some(&size) {
                continue;
            }
            let trace = match SpoolTrace::open(&self.root, &directory) {
                Ok(Some(trace)) => trace,
                Ok(None) => continue,
                Err(error) => {
                    if self.refused.insert(directory, size).is_none() {
                        warn(&error.to_string());
                    }
                    continue;
                }
            };
            let metadata = add_stream(&mut self.connection, &trace, "metadata")?;
            let (text, streams) = (String::new(), Vec::new());
            self.traces.push(SentTrace { trace, metadata, text, streams });
            self.totals.traces += 1;
            let number = self.traces.len() - 1;
            self.add_new_streams(number)?;
            self.send_metadata(number)?;
            self.connection.call_ok("the streams", &Command::StreamsSent)?;
        }
        Ok(())
    }

    /// Adds the stream files that appeared. Returns true if there are any.
    fn add_new_streams(&mut self, number: usize) -> io::Result<bool> {
        let Forwarder { traces, connection, .. } = self;
        let Some(sent) = traces.get_mut(number) else { return Ok(false) };
        let is_known = |name: &str| sent.streams.iter().any(|own| own.stream.name == name);
        let new = sent.trace.new_streams(is_known)?;
        let has_new = !new.is_empty();
        for stream in new {
            let handle = add_stream(connection, &sent.trace, &stream.name)?;
            sent.streams.push(SentStream { handle, stream, packets: 0 });
        }
        Ok(has_new)
    }

    /// Sends the metadata that was added. Returns false if the metadata is incomplete now, so that
    /// it does not describe all packets. Fails if the metadata was replaced by another one.
    fn send_metadata(&mut self, number: usize) -> io::Result<bool> {
        let Some(sent) = self.traces.get_mut(number) else { return Ok(false) };
        let Some(text) = sent.trace.metadata()? else { return Ok(false) };
        let mut declarations = Declarations::default();
        declarations.append(text.as_bytes());
        let whole = text.get(..declarations.whole_size()).unwrap_or_default();
        let Some(added) = whole.strip_prefix(&*sent.text) else {
            let directory = sent.trace.directory.display();
            return Err(io::Error::other(format!("the metadata of {directory} was replaced")));
        };
        if added.is_empty() {
            return Ok(declarations.is_whole());
        }
        let bytes = pack(added, sent.trace.uuid, sent.trace.byte_order);
        let command = Command::SendMetadata { stream: sent.metadata, padding: 0, bytes };
        sent.text.push_str(added);
        self.connection.queue(&command)?;
        Ok(declarations.is_whole())
    }

    fn send_trace(&mut self, number: usize) -> io::Result<()> {
        if self.add_new_streams(number)? {
            self.connection.call_ok("the streams", &Command::StreamsSent)?;
        }
        let mut buffer = Vec::new();
        let count = self.traces.get(number).map_or(0, |sent| sent.streams.len());
        for stream in 0..count {
            let own = self.traces.get(number).and_then(|sent| sent.streams.get(stream));
            let waiting = own.map_or(Ok(0), |own| own.stream.waiting())?;
            if waiting == 0 {
                continue;
            }
            // Producers write metadata before the packets that need it, so metadata that is read
            // now describes the packets that were counted.
            if !self.send_metadata(number)? {
                continue;
            }
            let Forwarder { traces, connection, totals, .. } = self;
            let own = traces.get_mut(number).and_then(|sent| sent.streams.get_mut(stream));
            let Some(own) = own else { continue };
            for _ in 0..waiting {
                own.send_next(connection, totals, &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Waits until the relay has everything, and ends the session.
    pub fn end(mut self) -> io::Result<Totals> {
        let session = self.session;
        let until = Instant::now() + PENDING_TIMEOUT;
        while self.is_pending()? {
            if Instant::now() >= until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "packets did not arrive"));
            }
            std::thread::sleep(PENDING_PAUSE);
        }
        self.connection.call(&Command::EndDataPending { session })?;
        let close = Command::CloseChunk { id: 0, closed_s: now_s(), action: None };
        self.connection.call_ok("the end of the session", &close)?;
        for sent in &self.traces {
            let streams = sent.streams.iter().map(|own| (own.handle, own.packets.checked_sub(1)));
            for (stream, last) in std::iter::once((sent.metadata, None)).chain(streams) {
                self.connection.queue(&Command::CloseStream { stream, last })?;
            }
        }
        self.connection.flush()?;
        Ok(self.totals)
    }

    fn is_pending(&mut self) -> io::Result<bool> {
        let session = self.session;
        self.connection.call_ok("a question", &Command::BeginDataPending { session })?;
        for sent in &self.traces {
            for own in &sent.streams {
                let last = own.packets.checked_sub(1);
                let stream = own.handle;
                match self.connection.call(&Command::DataPending { stream, last })? {
                    Reply::Code(0) => {}
                    _ => return Ok(true),
                }
            }
        }
        Ok(false)
    }
}
