//! Connection to the agent's socket, with deadlines for connecting, reading and writing.

use crate::error::Error;
use blkkin_control::{Decoder, Messages, Received};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of bytes received by one read from the socket.
const READ_SIZE: usize = 16 << 10;
/// Minimum timeout that is set on the socket. The kernel interprets a timeout of zero as no
/// timeout.
const SHORTEST: Duration = Duration::from_millis(1);

/// Time at which an operation fails, with the timeout from which it was computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    patience: Duration,
    /// Time of the deadline; `None` if the timeout is too long to be represented.
    at: Option<Instant>,
}

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Deadline {
        Deadline { patience, at: Instant::now().checked_add(patience) }
    }

    /// Returns the remaining time, at least [`SHORTEST`]; `None` without a deadline. Fails after
    /// the deadline.
    fn remaining(self) -> Result<Option<Duration>, ErrorKind> {
        let Some(at) = self.at else { return Ok(None) };
        match at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut),
            left => Ok(Some(left.max(SHORTEST))),
        }
    }
}

/// Connection of a client to the agent's socket.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    pub(crate) address: PathBuf,
    /// Number of bytes received since the connection was opened.
    pub(crate) received: u64,
}

impl Connection {
    /// Connects to the first of `addresses` that accepts a connection from this user. Addresses
    /// without an agent or without permission are skipped; any other error ends the attempt.
    pub(crate) fn open(addresses: &[PathBuf], deadline: Deadline) -> Result<Connection, Error> {
        let mut forbidden = None;
        for address in addresses {
            match connect(address, deadline) {
                Ok(stream) => {
                    return Ok(Connection { stream, address: address.clone(), received: 0 });
                }
                Err(error) => match error.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => {}
                    ErrorKind::PermissionDenied => forbidden = forbidden.or(Some(address)),
                    _ => return Err(socket_error(address, deadline, error)),
                },
            }
        }
        Err(match forbidden {
            Some(address) => Error::NotPermitted { address: address.clone() },
            None => Error::NoDaemon { tried: addresses.to_vec() },
        })
    }

    pub(crate) fn send(&mut self, mut bytes: &[u8], deadline: Deadline) -> Result<(), Error> {
        while !bytes.is_empty() {
            let written = deadline.remaining().map_err(io::Error::from).and_then(|left| {
                self.stream.set_write_timeout(left)?;
                self.stream.write(bytes)
            });
            match written {
                Ok(size) => bytes = &bytes[size..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(socket_error(&self.address, deadline, error)),
            }
        }
        Ok(())
    }

    /// Receives the next message, or fails at the deadline.
    pub(crate) fn receive<M: Messages>(
        &mut self,
        decoder: &mut Decoder<M>,
        deadline: Deadline,
    ) -> Result<Received<M>, Error> {
        loop {
            let taken = decoder.take();
            let wrong = |error| Error::InvalidMessage { address: self.address.clone(), error };
            if let Some(received) = taken.map_err(wrong)? {
                return Ok(received);
            }
            let mut bytes = [0; READ_SIZE];
            let read = deadline.remaining().map_err(io::Error::from).and_then(|left| {
                self.stream.set_read_timeout(left)?;
                self.stream.read(&mut bytes)
            });
            match read {
                Ok(0) => return Err(Error::Disconnected { address: self.address.clone() }),
                Ok(size) => {
                    self.received += size as u64;
                    decoder.feed(&bytes[..size], []);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(socket_error(&self.address, deadline, error)),
            }
        }
    }
}

/// Connects on another thread, which is abandoned at the deadline. Connecting blocks while the
/// agent's backlog is full, and [`UnixStream::connect`] has no timeout.
fn connect(address: &Path, deadline: Deadline) -> io::Result<UnixStream> {
    let (sender, connected) = mpsc::channel();
    let path = address.to_owned();
    thread::Builder::new().name("connect".into()).spawn(move || {
        // After the deadline, the receiver does not exist any more.
        let _ = sender.send(UnixStream::connect(path));
    })?;
    let late = |_| io::Error::from(ErrorKind::TimedOut);
    match deadline.remaining()? {
        Some(left) => connected.recv_timeout(left).map_err(late)?,
        None => connected.recv().unwrap_or_else(|_| Err(ErrorKind::Other.into())),
    }
}

/// Converts an I/O error of the socket to an [`Error`] with the agent's address.
fn socket_error(address: &Path, deadline: Deadline, error: io::Error) -> Error {
    let address = address.to_owned();
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::TimedOut { address, waited: deadline.patience }
        }
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::Disconnected { address },
        _ => Error::Socket { address, error },
    }
}
