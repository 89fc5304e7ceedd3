//! Addresses of roles: a Unix socket, or a host and port.

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

/// An address: the path of a Unix socket if it contains a slash, else `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of a Unix socket.
    Path(PathBuf),
    /// Host and port for TCP. Port 0 selects a free port.
    Net(String),
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Address, Self::Err> {
        if text.contains('/') {
            return Ok(Address::Path(text.into()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Address::Net(text.to_owned()))
            }
            _ => Err("neither HOST:PORT nor a path with a `/` in it"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Path(path) => path.display().fmt(f),
            Address::Net(address) => address.fmt(f),
        }
    }
}

/// Socket on which a role listens, local or TCP.
#[derive(Debug)]
pub(crate) enum Listener {
    Path(UnixListener),
    Net(TcpListener),
}

impl Address {
    /// Starts to listen. Returns the listener, and its actual address with the selected port in
    /// place of 0.
    pub(crate) fn listen(&self) -> io::Result<(Listener, Address)> {
        match self {
            Address::Path(path) => {
                // Remove the socket of an earlier process, even if it is in use.
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok((Listener::Path(listener), self.clone()))
            }
            Address::Net(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let own = Address::Net(listener.local_addr()?.to_string());
                Ok((Listener::Net(listener), own))
            }
        }
    }

    /// Connects, blocking until the connection is established.
    pub(crate) fn connect(&self) -> io::Result<Stream> {
        match self {
            Address::Path(path) => Ok(Stream::Path(UnixStream::connect(path)?)),
            Address::Net(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Net(stream))
            }
        }
    }
}

/// Blocking connection to a role or from a client, local or TCP.
#[derive(Debug)]
pub(crate) enum Stream {
    Path(UnixStream),
    Net(TcpStream),
}

impl Stream {
    /// Makes the descriptor non-blocking and returns it.
    pub(crate) fn into_nonblocking(self) -> io::Result<OwnedFd> {
        match self {
            Stream::Path(stream) => stream.set_nonblocking(true).map(|()| stream.into()),
            Stream::Net(stream) => stream.set_nonblocking(true).map(|()| stream.into()),
        }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        match self {
            Stream::Path(stream) => stream.into(),
            Stream::Net(stream) => stream.into(),
        }
    }
}

impl Listener {
    /// Accepts the next connection. Returns `WouldBlock` without a pending connection, since the
    /// listener is non-blocking.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Path(listener) => Ok(Stream::Path(listener.accept()?.0)),
            Listener::Net(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Ok(Stream::Net(stream))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Path(listener) => listener.as_fd(),
            Listener::Net(listener) => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Option<Address>| {
            assert_eq!(text.parse().ok(), expected, "{text}");
        };
        check("/run/x.sock", Some(Address::Path("/run/x.sock".into())));
        check("./x.sock", Some(Address::Path("./x.sock".into())));
        check("127.0.0.1:10809", Some(Address::Net("127.0.0.1:10809".into())));
        check("x.sock", None);
        check(":10809", None);
        check("localhost:70000", None);
    }
}
