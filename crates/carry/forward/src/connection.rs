//! The two connections of a producer's session. A relay of BlkKin gets everything on the first one.

use crate::target::Target;
use blkkin_lttng::relay::{
    Command, CommandKind, DataHeader, Index, MAJOR, MINOR_MIN, Reply, abilities, code,
};
use blkkin_secure::{Credentials, Stream};
use std::collections::VecDeque;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Connections of a session: commands with replies, and packets.
#[derive(Debug)]
pub(crate) struct Connection {
    control: Stream,
    data: Option<Stream>,
    /// Set if the relay takes packets and indexes on the connection for commands.
    is_inline: bool,
    /// Set if the relay tells its time and takes readings of clocks.
    takes_clocks: bool,
    target: Target,
    credentials: Option<Credentials>,
    /// Commands that were encoded, but not sent.
    output: Vec<u8>,
    /// Commands whose replies are missing, in their order.
    expected: VecDeque<CommandKind>,
    input: Vec<u8>,
}

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a reply, and for sending. A relay whose disk is full does not read for a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of commands without a reply. Their replies fit into the socket's buffer, so the
/// relay never waits for this side to read.
const EXPECTED_MAX: usize = 256;
/// Lowest minor version with chunks, which the commands here need.
const CHUNKS_MINOR: u32 = 11;
/// Lowest minor version with a relay's abilities.
const CONFIGURATION_MINOR: u32 = 12;
/// Maximum size of a part of a packet in a command, in bytes.
const PART_SIZE_MAX: usize = 256 << 10;
/// Size of unsent commands in bytes from which they are sent.
const UNSENT_MAX: usize = 256 << 10;

fn connect(host: &str, port: u16, credentials: Option<&Credentials>) -> io::Result<Stream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                return match credentials {
                    Some(credentials) => Stream::secure(socket, host, credentials),
                    None => Ok(Stream::plain(socket)),
                };
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn refused(what: &str, code: u32) -> io::Error {
    io::Error::other(format!("the relay refuses {what} (code {code})"))
}

impl Connection {
    /// Connects to a relay, and checks its version. With credentials, the connections have TLS.
    pub(crate) fn open(
        target: &Target,
        credentials: Option<Credentials>,
    ) -> io::Result<Connection> {
        let control = connect(&target.host, target.control_port, credentials.as_ref())?;
        let mut connection = Connection {
            control,
            data: None,
            is_inline: false,
            takes_clocks: false,
            target: target.clone(),
            credentials,
            output: Vec::new(),
            expected: VecDeque::new(),
            input: Vec::new(),
        };
        let minor = match connection.call(&Command::version())? {
            Reply::Version { major: MAJOR, minor } if minor >= CHUNKS_MINOR => minor,
            Reply::Version { major, minor } => {
                return Err(io::Error::other(format!(
                    "the relay has version {major}.{minor}, which is older than 2.{}",
                    CHUNKS_MINOR.max(MINOR_MIN)
                )));
            }
            _ => return Err(unexpected()),
        };
        if minor >= CONFIGURATION_MINOR {
            let abilities = match connection.call(&Command::GetConfiguration)? {
                Reply::Configuration(bits) => bits,
                _ => 0,
            };
            connection.is_inline = abilities & abilities::INLINE != 0;
            connection.takes_clocks = abilities & abilities::CLOCKS != 0;
        }
        Ok(connection)
    }

    /// Returns whether the relay tells its time and takes readings of clocks.
    pub(crate) fn takes_clocks(&self) -> bool {
        self.takes_clocks
    }

    /// Returns the connection for commands.
    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.socket().as_fd()
    }

    /// Opens the data connection, as LTTng does after the session was created.
    pub(crate) fn open_data(&mut self) -> io::Result<()> {
        if self.is_inline {
            return Ok(());
        }
        let Target { host, data_port, .. } = &self.target;
        self.data = Some(connect(host, *data_port, self.credentials.as_ref())?);
        Ok(())
    }

    /// Sends a command and returns its reply.
    pub(crate) fn call(&mut self, command: &Command) -> io::Result<Reply> {
        self.flush()?;
        command.encode(&mut self.output);
        self.send()?;
        self.reply(command.kind())
    }

    /// Sends a command whose reply must be a success.
    pub(crate) fn call_ok(&mut self, what: &str, command: &Command) -> io::Result<()> {
        match self.call(command)? {
            Reply::Code(code::OK) | Reply::ChunkClosed { code: code::OK, .. } => Ok(()),
            Reply::Code(code) | Reply::ChunkClosed { code, .. } => Err(refused(what, code)),
            _ => Err(unexpected()),
        }
    }

    /// Encodes a command that is sent later. Its reply must be a success.
    pub(crate) fn queue(&mut self, command: &Command) -> io::Result<()> {
        command.encode(&mut self.output);
        if command.kind() != CommandKind::Silent {
            self.expected.push_back(command.kind());
        }
        if self.expected.len() >= EXPECTED_MAX { self.flush() } else { Ok(()) }
    }

    /// Sends all queued commands, and waits for their replies.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        while let Some(kind) = self.expected.pop_front() {
            match self.reply(kind)? {
                Reply::Code(code::OK) => {}
                Reply::Code(code) => return Err(refused("a packet", code)),
                _ => return Err(unexpected()),
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        self.control.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    fn reply(&mut self, kind: CommandKind) -> io::Result<Reply> {
        let mut buffer = [0; 4096];
        loop {
            match Reply::decode(kind, &self.input).map_err(io::Error::other)? {
                Some((reply, size)) => {
                    self.input.drain(..size);
                    return Ok(reply);
                }
                None => match self.control.read(&mut buffer) {
                    Ok(None) => return Err(io::ErrorKind::ConnectionAborted.into()),
                    Ok(Some(bytes)) => self.input.extend_from_slice(bytes),
                    // A signal interrupts a read with a time limit, also if it is handled.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Sends a packet with its index, at the latest with the next [`flush`](Self::flush).
    pub(crate) fn send_packet(
        &mut self,
        header: DataHeader,
        bytes: &[u8],
        index: Index,
    ) -> io::Result<()> {
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        if !self.is_inline {
            let data = self.data.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            data.write_all(&encoded)?;
            data.write_all(bytes)?;
            return self.send_index(index);
        }
        let first = bytes.len().min(PART_SIZE_MAX);
        let (first, rest) = bytes.split_at(first);
        encoded.extend_from_slice(first);
        self.send_inline(Command::Data(encoded))?;
        for part in rest.chunks(PART_SIZE_MAX) {
            self.send_inline(Command::Data(part.to_vec()))?;
        }
        self.send_index(index)
    }

    /// Sends an index or a beacon, at the latest with the next [`flush`](Self::flush).
    pub(crate) fn send_index(&mut self, index: Index) -> io::Result<()> {
        match self.is_inline {
            true => self.send_inline(Command::Index(index)),
            false => self.queue(&Command::SendIndex(index)),
        }
    }

    /// Declares that all events before a time have been sent. Does nothing for LTTng's relay, which
    /// has no such command.
    pub(crate) fn declare_complete(&mut self, until_ns: u64) -> io::Result<()> {
        match self.is_inline {
            true => self.send_inline(Command::Complete { until_ns }),
            false => Ok(()),
        }
    }

    fn send_inline(&mut self, command: Command) -> io::Result<()> {
        command.encode(&mut self.output);
        if self.output.len() >= UNSENT_MAX { self.send() } else { Ok(()) }
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the relay's reply does not fit the command")
}
