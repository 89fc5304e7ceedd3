//! The two connections of a producer's session.

use crate::target::Target;
use blkkin_lttng::relay::{Command, CommandKind, DataHeader, MAJOR, MINOR_MIN, Reply, code};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Connections of a session: commands with replies, and packets.
#[derive(Debug)]
pub(crate) struct Connection {
    control: TcpStream,
    data: Option<TcpStream>,
    target: Target,
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

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                return Ok(socket);
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
    /// Connects to a relay, and checks its version.
    pub(crate) fn open(target: &Target) -> io::Result<Connection> {
        let control = connect(&target.host, target.control_port)?;
        let mut connection = Connection {
            control,
            data: None,
            target: target.clone(),
            output: Vec::new(),
            expected: VecDeque::new(),
            input: Vec::new(),
        };
        match connection.call(&Command::version())? {
            Reply::Version { major: MAJOR, minor } if minor >= CHUNKS_MINOR => Ok(connection),
            Reply::Version { major, minor } => Err(io::Error::other(format!(
                "the relay has version {major}.{minor}, which is older than 2.{}",
                CHUNKS_MINOR.max(MINOR_MIN)
            ))),
            _ => Err(unexpected()),
        }
    }

    /// Returns the connection for commands.
    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Opens the data connection, as LTTng does after the session was created.
    pub(crate) fn open_data(&mut self) -> io::Result<()> {
        self.data = Some(connect(&self.target.host, self.target.data_port)?);
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
        if command.kind() != CommandKind::SendMetadata {
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
                    Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
                    Ok(size) => {
                        self.input.extend_from_slice(buffer.get(..size).unwrap_or_default());
                    }
                    // A signal interrupts a read with a time limit, also if it is handled.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Sends a packet on the data connection.
    pub(crate) fn send_packet(&mut self, header: DataHeader, bytes: &[u8]) -> io::Result<()> {
        let data = self.data.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        data.write_all(&encoded)?;
        data.write_all(bytes)
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the relay's reply does not fit the command")
}
