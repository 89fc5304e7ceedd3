//! State of a producer's control connection, without its socket.

use crate::clock_log::now_ns;
use crate::close::Close;
use crate::data::DataReceiver;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::stream::Stream;
use blkkin_lttng::IndexLayout;
use blkkin_lttng::relay::{
    AddStream, Command, Created, Index, MAJOR, MINOR, MINOR_MIN, Reply, abilities, code,
};
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// State of a control connection. The session ends when the state is dropped.
#[derive(Debug)]
pub struct Control {
    sessions: Arc<Sessions>,
    peer: IpAddr,
    /// Minor version in force; `None` before the producer has sent its version.
    minor: Option<u32>,
    session: Option<Arc<Session>>,
    /// Streams that were asked for since the last `BEGIN_DATA_PENDING`.
    checked: HashSet<u64>,
    /// State of the data that arrives on this connection.
    data: DataReceiver,
    /// Metadata streams whose last bytes are not in their files, because the disk is full.
    unwritten: Vec<Arc<Stream>>,
}

impl Control {
    /// Makes the state of a connection from the address `peer`.
    pub fn new(sessions: Arc<Sessions>, peer: IpAddr) -> Control {
        Control {
            data: DataReceiver::new(sessions.clone(), peer),
            sessions,
            peer,
            minor: None,
            session: None,
            checked: HashSet::new(),
            unwritten: Vec::new(),
        }
    }

    /// Carries out the commands that are complete in `input`, and appends the replies to `output`.
    /// Returns the size of these commands in bytes. On an error, `output` still holds the replies
    /// to send before closing the connection.
    pub fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, Close> {
        for stream in std::mem::take(&mut self.unwritten) {
            if !stream.write_metadata()? {
                self.unwritten.push(stream);
            }
        }
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let minor = self.minor.unwrap_or(MINOR);
            let Some((command, size)) = Command::decode(rest, minor)? else { break };
            used += size;
            self.carry_out(command, output)?;
        }
        if let Some(session) = self.session.as_ref().filter(|_| used > 0) {
            session.waiters.wake();
        }
        Ok(used)
    }

    fn carry_out(&mut self, command: Command, output: &mut Vec<u8>) -> Result<(), Close> {
        let mut reply = |reply: Reply| reply.encode(output);
        let ok = Reply::Code(code::OK);
        if let Command::Version { major, minor } = command {
            reply(Reply::Version { major: MAJOR, minor: MINOR });
            if major != MAJOR || minor < MINOR_MIN {
                return Err(Close::Version(major, minor));
            }
            self.minor = Some(minor.min(MINOR));
            return Ok(());
        }
        let minor = self.minor.ok_or(Close::Order("a command precedes the version"))?;
        match command {
            Command::GetConfiguration => {
                reply(Reply::Configuration(
                    abilities::CLEAR | abilities::INLINE | abilities::CLOCKS,
                ));
                return Ok(());
            }
            Command::CreateSession(created) => {
                if self.session.is_some() {
                    return Err(Close::Order("the connection has a session already"));
                }
                return match self.sessions.create(created, self.peer) {
                    Ok(session) => {
                        let path = (minor >= 11).then(|| session.output.path.clone());
                        reply(Reply::Session(Created { handle: session.id, code: code::OK, path }));
                        self.session = Some(session);
                        Ok(())
                    }
                    Err(error) => {
                        let path = (minor >= 11).then(String::new);
                        reply(Reply::Session(Created { handle: 0, code: code::FATAL, path }));
                        Err(error.into())
                    }
                };
            }
            Command::GetTime => {
                reply(Reply::Time(now_ns()));
                return Ok(());
            }
            Command::Unknown(number) => {
                reply(Reply::Code(code::UNKNOWN));
                return Err(Close::Unknown(number));
            }
            _ => {}
        }
        let session =
            self.session.as_ref().ok_or(Close::Order("a command precedes the session"))?;
        match command {
            Command::AddStream(mut added) => {
                added.path = Stream::trace_path(&added.path, minor).to_owned();
                match Self::add_stream(&self.sessions, session, added, minor) {
                    Ok(stream) => reply(Reply::Stream { handle: stream.id, code: code::OK }),
                    Err(error) => {
                        self.sessions.disk().log(&format!("a stream is refused: {error}"));
                        reply(Reply::Stream { handle: 0, code: code::UNKNOWN });
                    }
                }
            }
            Command::StreamsSent => {
                session.publish_streams();
                reply(ok);
            }
            Command::SendMetadata { stream, padding, mut bytes } => {
                let stream = metadata_stream(session, stream)?;
                bytes.resize(bytes.len() + padding as usize, 0);
                if !stream.append_metadata(&bytes)? {
                    self.unwritten.push(stream);
                }
            }
            Command::ResetMetadata { stream, .. } => {
                metadata_stream(session, stream)?.reset_metadata()?;
                reply(ok);
            }
            Command::SendIndex(index) => {
                let result = take_index(session, index);
                reply(Reply::Code(if result.is_ok() { code::OK } else { code::UNKNOWN }));
                result?;
            }
            Command::CloseStream { stream, last } => {
                let stream = session.stream(stream);
                reply(Reply::Code(if stream.is_some() { code::OK } else { code::UNKNOWN }));
                if let Some(stream) = stream {
                    stream.close(last);
                }
            }
            Command::DataPending { stream, last } => {
                let stream = session.stream(stream);
                let stream = stream.ok_or(Close::Order("the stream is unknown"))?;
                self.checked.insert(stream.id);
                reply(Reply::Code(stream.is_pending(last).into()));
            }
            Command::QuiescentControl { .. } => reply(ok),
            Command::BeginDataPending { .. } => {
                self.checked.clear();
                reply(ok);
            }
            Command::EndDataPending { .. } => {
                // The producer does not ask for streams that it has closed.
                let in_flight = session
                    .streams()
                    .iter()
                    .any(|stream| !self.checked.contains(&stream.id) && stream.lacks_packets());
                reply(Reply::Code(in_flight.into()));
            }
            Command::CreateChunk(chunk) => {
                let result = session.create_chunk(&chunk);
                reply(Reply::Code(if result.is_ok() { code::OK } else { code::UNKNOWN }));
                if let Err(error) = result {
                    self.sessions.disk().log(&format!("a chunk is refused: {error}"));
                }
            }
            Command::RotateStreams(rotation) => {
                let result = session.rotate(&rotation);
                reply(Reply::Code(if result.is_ok() { code::OK } else { code::UNKNOWN }));
                result?;
            }
            Command::CloseChunk { id, closed_s, action } => {
                let result = session.close_chunk(id, closed_s, action);
                let code = if result.is_ok() { code::OK } else { code::UNKNOWN };
                reply(Reply::ChunkClosed { code, path: session.output.path.clone() });
                if let Err(error) = result {
                    self.sessions.disk().log(&format!("a chunk cannot be closed: {error}"));
                }
            }
            Command::ChunkExists { .. } => {
                reply(Reply::ChunkExists { code: code::OK, exists: false });
            }
            Command::StartData => reply(ok),
            Command::Data(bytes) => self.data.take(&bytes)?,
            Command::Index(index) => take_index(session, index)?,
            Command::Complete { until_ns } => session.promise_complete(until_ns),
            Command::ReportClocks { boot, measurement } => session.take_clocks(boot, measurement),
            Command::Version { .. }
            | Command::GetConfiguration
            | Command::CreateSession(_)
            | Command::GetTime
            | Command::Unknown(_) => {}
        }
        Ok(())
    }

    fn add_stream(
        sessions: &Sessions,
        session: &Arc<Session>,
        added: AddStream,
        minor: u32,
    ) -> io::Result<Arc<Stream>> {
        if minor >= 11 && !session.has_chunk() {
            return Err(io::Error::other("the session has no chunk"));
        }
        sessions.add_stream(session, added, IndexLayout { has_instances: minor >= 8 })
    }
}

fn metadata_stream(session: &Session, id: u64) -> Result<Arc<Stream>, Close> {
    let stream = session.stream(id).filter(|stream| stream.is_metadata);
    stream.ok_or(Close::Order("the metadata stream is unknown"))
}

fn take_index(session: &Session, index: Index) -> Result<(), Close> {
    let stream = session.stream(index.stream).filter(|stream| !stream.is_metadata);
    Ok(stream.ok_or(Close::Order("the stream is unknown"))?.take_index(index)?)
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.end();
            self.sessions.remove_ended();
        }
    }
}
