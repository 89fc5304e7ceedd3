//! Connections of clients.

use crate::channel::Channel;
use crate::credentials::Credentials;
use crate::greeting::{Greeting, Verdict};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Blocking connection of a client, with or without TLS.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    channel: Channel,
}

/// Maximum time for the handshake and the server's verdict.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

impl Stream {
    /// Creates a connection without TLS.
    pub fn plain(socket: TcpStream) -> Stream {
        Stream { socket, channel: Channel::plain() }
    }

    /// Creates a connection with TLS to a host, and waits until the server has admitted the client.
    /// The error of a denial has the kind `PermissionDenied`, that of TLS `InvalidData`.
    pub fn secure(socket: TcpStream, host: &str, credentials: &Credentials) -> io::Result<Stream> {
        let timeout = socket.read_timeout()?;
        let mut stream = Stream { socket, channel: credentials.channel(host)? };
        let mut greeting = Vec::new();
        let token = credentials.token();
        Greeting { token }.encode(&mut greeting).map_err(io::Error::other)?;
        stream.write_all(&greeting)?;
        let deadline = Instant::now() + HANDSHAKE_TIME_MAX;
        let mut buffer = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"));
            }
            stream.socket.set_read_timeout(Some(left))?;
            let received = stream.read(&mut buffer).map(|bytes| bytes.map(<[u8]>::to_vec));
            match received {
                Ok(None) => {
                    let told = "the server has ended the connection; it may have no TLS";
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, told));
                }
                Ok(Some(bytes)) => {
                    // Messages of the handshake may be due.
                    stream.write_all(&[])?;
                    if let [verdict, ..] = bytes[..] {
                        stream.socket.set_read_timeout(timeout)?;
                        return stream.judged(Verdict::from_byte(verdict));
                    }
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => {
                    // The peer learns the reason.
                    let _ = stream.write_all(&[]);
                    return Err(error);
                }
            }
        }
    }

    fn judged(self, verdict: Option<Verdict>) -> io::Result<Stream> {
        match verdict {
            Some(Verdict::Admitted) => Ok(self),
            Some(verdict) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, DeniedError(verdict)))
            }
            None => Err(io::Error::other("the server's verdict is not known")),
        }
    }

    /// Returns the socket, to wait for it and to set its timeouts.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends bytes.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(self.channel.seal(bytes)?)
    }

    /// Receives bytes; `None` at the end of the connection. `buffer` is for the socket's bytes. The
    /// result is empty if they are no more than a part of a TLS message.
    pub fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match self.socket.read(buffer)? {
            0 => Ok(None),
            size => self.channel.open(buffer.get(..size).unwrap_or_default()).map(Some),
        }
    }
}

/// Error of a client that the server has refused.
#[derive(Clone, Copy, Debug)]
struct DeniedError(Verdict);

impl fmt::Display for DeniedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server refuses: {}", self.0)
    }
}

impl std::error::Error for DeniedError {}

/// Reason why a connection with TLS has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server wants another token, or a certificate.
    Client,
    /// The server's certificate is not trusted, or is another host's.
    Server,
}

impl Refusal {
    /// Returns the reason of an error; `None` if it is neither of these.
    pub fn of(error: &io::Error) -> Option<Refusal> {
        let cause = error.get_ref()?;
        if cause.is::<DeniedError>() {
            return Some(Refusal::Client);
        }
        match cause.downcast_ref()? {
            rustls::Error::InvalidCertificate(_) => Some(Refusal::Server),
            rustls::Error::AlertReceived(_) => Some(Refusal::Client),
            _ => None,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
