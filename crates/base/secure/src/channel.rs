//! TLS of a connection, without its socket.

use rustls::Connection;
use std::io::{self, BufRead, Write};

/// First byte that a TLS client sends.
pub const TLS_FIRST_BYTE: u8 = 0x16;

/// Codec between the bytes of a connection and those of its socket: TLS, or none.
#[derive(Debug)]
pub struct Channel {
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// Result of the last [`Channel::open`].
    plain: Vec<u8>,
    /// Result of the last [`Channel::seal`].
    wire: Vec<u8>,
}

/// Size to which a large buffer shrinks, in bytes.
const BUFFER_SIZE: usize = 256 << 10;

impl Channel {
    /// Creates a codec that changes nothing.
    pub fn plain() -> Channel {
        Channel { tls: None }
    }

    pub(crate) fn new(connection: impl Into<Connection>) -> Channel {
        let mut connection = connection.into();
        // Callers send what `seal` returns before they seal more.
        connection.set_buffer_limit(None);
        let tls = Tls { connection, plain: Vec::new(), wire: Vec::new() };
        Channel { tls: Some(Box::new(tls)) }
    }

    /// Encrypts bytes, and returns what is to be sent, including messages of TLS that are due.
    /// Bytes that are sealed before the handshake ends are returned by a later call.
    pub fn seal<'a>(&'a mut self, plain: &'a [u8]) -> io::Result<&'a [u8]> {
        let Some(tls) = &mut self.tls else { return Ok(plain) };
        tls.wire.clear();
        tls.wire.shrink_to(BUFFER_SIZE);
        tls.connection.writer().write_all(plain)?;
        while tls.connection.wants_write() {
            tls.connection.write_tls(&mut tls.wire)?;
        }
        Ok(&tls.wire)
    }

    /// Decrypts bytes that were received. After an error, [`seal`](Self::seal) returns the message
    /// that tells the peer of it.
    pub fn open<'a>(&'a mut self, mut wire: &'a [u8]) -> io::Result<&'a [u8]> {
        let Some(tls) = &mut self.tls else { return Ok(wire) };
        tls.plain.clear();
        tls.plain.shrink_to(BUFFER_SIZE);
        while !wire.is_empty() {
            if tls.connection.read_tls(&mut wire)? == 0 {
                return Err(invalid("bytes follow the end of TLS"));
            }
            let state = tls.connection.process_new_packets();
            state.map_err(invalid)?;
            tls.take_plain()?;
        }
        Ok(&tls.plain)
    }

    /// Returns whether the peer has proved its identity by a certificate.
    pub(crate) fn has_peer_certificate(&self) -> bool {
        let of_peer = self.tls.as_ref().and_then(|tls| tls.connection.peer_certificates());
        of_peer.is_some_and(|chain| !chain.is_empty())
    }
}

/// Returns the error of bytes that break a protocol.
pub(crate) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Tls {
    fn take_plain(&mut self) -> io::Result<()> {
        let mut reader = self.connection.reader();
        loop {
            let size = match reader.fill_buf() {
                // The peer has said that it sends no more.
                Ok([]) => return Ok(()),
                Ok(bytes) => {
                    self.plain.extend_from_slice(bytes);
                    bytes.len()
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            reader.consume(size);
        }
    }
}
