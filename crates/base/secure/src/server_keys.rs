//! A server's certificate and key, and the admission of its clients.

use crate::channel::{Channel, invalid};
use crate::error::Error;
use crate::files::server_config;
use crate::greeting::{Greeting, Verdict};
use crate::tokens::{Access, Denial, TokenFiles, Tokens};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name of the protocol in the TLS handshake, which a server of another kind refuses.
pub(crate) const PROTOCOL: &[u8] = b"blkkin-relay";

/// Certificate, key, tokens and client authorities of a server.
#[derive(Debug)]
pub struct ServerKeys {
    config: Arc<ServerConfig>,
    tokens: Tokens,
}

impl ServerKeys {
    /// Reads the files. `client_ca` has the certificates that sign clients' certificates. Fails if
    /// there are neither tokens nor client authorities, since all clients would be admitted.
    pub fn read(
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
        tokens: &TokenFiles,
    ) -> Result<ServerKeys, Error> {
        let tokens = match client_ca {
            None if tokens.is_empty() => {
                return Err(Error::Tokens { missing: "reading and writing" });
            }
            None => Tokens::read(tokens)?,
            Some(_) => Tokens::read_any(tokens)?,
        };
        let mut config = server_config(certificate, key, client_ca)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Connections last, so none is resumed.
        config.send_tls13_tickets = 0;
        Ok(ServerKeys { config: Arc::new(config), tokens })
    }

    /// Admits a client: carries out the handshake, and checks the client's certificate or token.
    /// Changes the socket's timeout for reading.
    pub fn accept(
        &self,
        socket: &TcpStream,
        access: Access,
        time: Duration,
    ) -> io::Result<Channel> {
        let deadline = Instant::now() + time;
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        let mut channel = Channel::new(connection);
        let (mut greeting, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let size = read_until(socket, &mut buffer, deadline)?;
            let opened = channel.open(buffer.get(..size).unwrap_or_default());
            let opened = opened.map(|bytes| greeting.extend_from_slice(bytes));
            // The peer learns the reason of an error.
            let sent = channel.seal(&[]).and_then(|wire| { &*socket }.write_all(wire));
            opened.and(sent)?;
            let decoded = Greeting::decode(&greeting).map_err(invalid)?;
            let Some((Greeting { token }, used)) = decoded else { continue };
            if used < greeting.len() {
                return Err(invalid("bytes follow the greeting before the verdict"));
            }
            let verdict = self.judge(token, channel.has_peer_certificate(), access);
            { socket }.write_all(channel.seal(&[verdict.byte()])?)?;
            return match verdict {
                Verdict::Admitted => Ok(channel),
                _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, verdict.to_string())),
            };
        }
    }

    fn judge(&self, token: &[u8], has_certificate: bool, access: Access) -> Verdict {
        if has_certificate {
            return Verdict::Admitted;
        }
        if token.is_empty() {
            return Verdict::NoToken;
        }
        match self.tokens.check(token, access) {
            Ok(()) => Verdict::Admitted,
            Err(Denial::Unknown) => Verdict::UnknownToken,
            Err(Denial::Access) => Verdict::WrongAccess,
        }
    }
}

/// Reads some bytes. Fails at the end of the connection, and at the deadline.
fn read_until(socket: &TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not prove its identity");
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        socket.set_read_timeout(Some(left))?;
        match { socket }.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
            read => return read,
        }
    }
}
