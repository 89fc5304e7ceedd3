//! Connections of clients.

use crate::channel::Channel;
use crate::credentials::Credentials;
use crate::greeting::{Greeting, Verdict};
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
        let mut stream = Stream { socket, channel: credentials.channel(host)? };
        let mut greeting = Vec::new();
        let token = credentials.token();
        Greeting { token }.encode(&mut greeting).map_err(io::Error::other)?;
        stream.write_all(&greeting)?;
        let deadline = Instant::now() + HANDSHAKE_TIME_MAX;
        let mut buffer = [0; 4096];
        loop {
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
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"));
            }
        }
    }

    fn judged(self, verdict: Option<Verdict>) -> io::Result<Stream> {
        match verdict {
            Some(Verdict::Admitted) => Ok(self),
            Some(verdict) => {
                let told = format!("the server refuses: {verdict}");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, told))
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

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
