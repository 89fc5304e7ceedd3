//! Rules for peers: those of trusted networks may connect, and those that prove their identity by
//! TLS and a token or a certificate.

use crate::close::Close;
use blkkin_secure::{Access, Channel, Network, ServerKeys, TLS_FIRST_BYTE};
use parking_lot::RwLock;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Rules for the peers of a relay.
#[derive(Debug, Default)]
pub struct Admission {
    /// Networks whose hosts need no TLS. Without `keys`, loopback addresses need none either.
    pub trusted_networks: Vec<Network>,
    /// Certificate, tokens and client authorities; `None` for no TLS.
    pub keys: Option<ServerKeys>,
}

/// Rules of a running relay, and the number of peers that have not proved their identity.
#[derive(Debug)]
pub(crate) struct Gate {
    trusted_networks: Vec<Network>,
    keys: RwLock<Option<Arc<ServerKeys>>>,
    unproved: AtomicUsize,
}

/// Permission to begin a connection.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// The peer needs no TLS, and can have none.
    Plain,
    /// The peer can have TLS.
    Free(Arc<ServerKeys>),
    /// The peer must have TLS.
    Guarded { keys: Arc<ServerKeys>, _unproved: Unproved<'a> },
}

/// Peer that has not proved its identity.
#[derive(Debug)]
pub(crate) struct Unproved<'a>(&'a AtomicUsize);

/// Maximum number of peers that have not proved their identity.
const UNPROVED_MAX: usize = 64;
/// Time limit for the proof.
const PROOF_TIME_MAX: Duration = Duration::from_secs(10);

impl Gate {
    pub(crate) fn new(admission: Admission) -> Gate {
        let Admission { trusted_networks, keys } = admission;
        let keys = RwLock::new(keys.map(Arc::new));
        Gate { trusted_networks, keys, unproved: AtomicUsize::new(0) }
    }

    /// Replaces the certificate, tokens and client authorities. They are checked for later
    /// connections.
    pub(crate) fn set_keys(&self, keys: ServerKeys) {
        *self.keys.write() = Some(Arc::new(keys));
    }

    /// Decides about a peer by its address.
    pub(crate) fn entry(&self, peer: IpAddr) -> io::Result<Entry<'_>> {
        let keys = self.keys.read().clone();
        let is_trusted = self.trusted_networks.iter().any(|network| network.contains(peer));
        match keys {
            None if is_trusted || peer.to_canonical().is_loopback() => Ok(Entry::Plain),
            None => Err(io::Error::other("it is not in a trusted network")),
            Some(keys) if is_trusted => Ok(Entry::Free(keys)),
            Some(keys) => {
                let _unproved = Unproved(&self.unproved);
                match self.unproved.fetch_add(1, Ordering::Relaxed) < UNPROVED_MAX {
                    true => Ok(Entry::Guarded { keys, _unproved }),
                    false => Err(io::Error::other("too many peers have not proved their identity")),
                }
            }
        }
    }
}

impl Drop for Unproved<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Entry<'_> {
    /// Waits until the peer has sent something, and has proved its identity if it must.
    pub(crate) fn pass(self, socket: &TcpStream, access: Access) -> Result<Channel, Close> {
        let timeout = socket.read_timeout()?;
        let keys = match &self {
            Entry::Plain => return Ok(Channel::plain()),
            Entry::Free(keys) => {
                let mut first = [0];
                match socket.peek(&mut first)? {
                    1 if first == [TLS_FIRST_BYTE] => keys,
                    _ => return Ok(Channel::plain()),
                }
            }
            Entry::Guarded { keys, .. } => keys,
        };
        let channel = keys.accept(socket, access, PROOF_TIME_MAX)?;
        socket.set_read_timeout(timeout)?;
        Ok(channel)
    }
}
