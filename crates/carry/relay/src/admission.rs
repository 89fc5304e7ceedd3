//! Rules for peers: those of trusted networks may connect, and those that prove their identity by
//! TLS and a token or a certificate.

use crate::close::Close;
use blkkin_secure::{Access, Channel, Network, ServerKeys, TLS_FIRST_BYTE};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Rules for the peers of a relay.
#[derive(Debug, Default)]
pub struct Admission {
    /// Networks whose hosts need no TLS. Without `keys`, loopback addresses need none either.
    pub trusted_networks: Vec<Network>,
    /// Certificate, tokens and client authorities; `None` for no TLS.
    pub keys: Option<ServerKeys>,
}

/// Rules of a running relay, and the peers that have not proved their identity.
#[derive(Debug)]
pub(crate) struct Gate {
    trusted_networks: Vec<Network>,
    keys: RwLock<Option<Arc<ServerKeys>>>,
    /// Number of peers that have not proved their identity, by address or IPv6 network.
    unproved: Mutex<HashMap<IpAddr, usize>>,
}

/// Permission to begin a connection.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The peer needs no TLS, and can have none.
    Plain,
    /// The peer can have TLS.
    TlsOptional(Arc<ServerKeys>),
    /// The peer must have TLS.
    TlsRequired { keys: Arc<ServerKeys>, _peer: UnauthenticatedPeer },
}

/// Peer that has not proved its identity.
#[derive(Debug)]
pub(crate) struct UnauthenticatedPeer {
    gate: Arc<Gate>,
    network: IpAddr,
}

/// Maximum number of peers that have not proved their identity, of all networks and of one.
const UNPROVED_MAX: usize = 256;
const UNPROVED_OF_NETWORK_MAX: usize = 16;
/// Time limit for the proof.
const PROOF_TIME_MAX: Duration = Duration::from_secs(10);

/// Returns the network that one machine can have all addresses of.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

impl Gate {
    pub(crate) fn new(admission: Admission) -> Gate {
        let Admission { trusted_networks, keys } = admission;
        let keys = RwLock::new(keys.map(Arc::new));
        Gate { trusted_networks, keys, unproved: Mutex::default() }
    }

    /// Replaces the certificate, tokens and client authorities. They are checked for later
    /// connections.
    pub(crate) fn set_keys(&self, keys: ServerKeys) {
        *self.keys.write() = Some(Arc::new(keys));
    }

    /// Decides about a peer by its address.
    pub(crate) fn entry(self: &Arc<Self>, peer: IpAddr) -> io::Result<Entry> {
        let keys = self.keys.read().clone();
        let is_trusted = self.trusted_networks.iter().any(|network| network.contains(peer));
        match keys {
            None if is_trusted || peer.to_canonical().is_loopback() => Ok(Entry::Plain),
            None => Err(io::Error::other("it is not in a trusted network")),
            Some(keys) if is_trusted => Ok(Entry::TlsOptional(keys)),
            Some(keys) => Ok(Entry::TlsRequired { keys, _peer: self.admit_unauthenticated(peer)? }),
        }
    }

    fn admit_unauthenticated(self: &Arc<Self>, peer: IpAddr) -> io::Result<UnauthenticatedPeer> {
        let network = network_of(peer);
        let mut unproved = self.unproved.lock();
        let all: usize = unproved.values().sum();
        let own = unproved.entry(network).or_default();
        if all >= UNPROVED_MAX || *own >= UNPROVED_OF_NETWORK_MAX {
            return Err(io::Error::other("too many peers have not proved their identity"));
        }
        *own += 1;
        Ok(UnauthenticatedPeer { gate: self.clone(), network })
    }
}

impl Drop for UnauthenticatedPeer {
    fn drop(&mut self) {
        let mut unproved = self.gate.unproved.lock();
        if let Some(own) = unproved.get_mut(&self.network) {
            *own -= 1;
        }
        unproved.retain(|_, own| *own > 0);
    }
}

impl Entry {
    /// Waits until the peer has sent something, and has proved its identity if it must.
    pub(crate) fn authenticate(self, socket: &TcpStream, access: Access) -> Result<Channel, Close> {
        let timeout = socket.read_timeout()?;
        let (keys, must_have_tls) = match &self {
            Entry::Plain => return Ok(Channel::plain()),
            Entry::TlsOptional(keys) => (keys, false),
            Entry::TlsRequired { keys, .. } => {
                socket.set_read_timeout(Some(PROOF_TIME_MAX))?;
                (keys, true)
            }
        };
        let mut first = [0];
        if socket.peek(&mut first)? == 0 || first != [TLS_FIRST_BYTE] {
            return match must_have_tls {
                true => Err(Close::Order("it uses no TLS, and is in no trusted network")),
                false => Ok(Channel::plain()),
            };
        }
        let channel = keys.accept(socket, access, PROOF_TIME_MAX)?;
        socket.set_read_timeout(timeout)?;
        Ok(channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_cannot_keep_others_out() {
        let gate = Arc::new(Gate::new(Admission::default()));
        let admit =
            |address: &str| gate.admit_unauthenticated(address.parse().expect("an address"));
        let mut own: Vec<UnauthenticatedPeer> =
            (0..16).map(|at| admit(&format!("fd00::{at}")).expect("room")).collect();
        assert!(admit("fd00::17").is_err());
        let others: Vec<UnauthenticatedPeer> =
            (0..240).map(|at| admit(&format!("10.0.0.{at}")).expect("room")).collect();
        assert!(admit("10.0.1.1").is_err(), "there are too many of all");
        own.pop();
        assert!(admit("10.0.1.1").is_ok());
        drop((own, others));
        assert!(gate.unproved.lock().is_empty());
    }
}
