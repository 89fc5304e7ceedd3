//! Connections of programs and commands. Each has a socket, a protocol state, and shares of the
//! user's quotas.

use crate::command::Command;
use crate::connection::Connection;
use crate::deferred_close::DeferredClose;
use crate::quota::{Account, Quota, QuotaError, Share};
use crate::source::{ConnectionId, Poller, Source};
use blkkin_control::{Decoder, FromApplication, Opening, Reply, ToApplication};
use blkkin_sys::socket::Peer;
use rustix::event::epoll::EventFlags;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All open connections, by their ids.
#[derive(Debug)]
pub(crate) struct Peers {
    by_id: BTreeMap<ConnectionId, PeerConnection>,
    next_id: ConnectionId,
    poller: Arc<Poller>,
    /// Commands whose decoder may hold another request.
    pub(crate) resumed: BTreeSet<ConnectionId>,
    /// Refused connections that stay open until they send `Hello`, the oldest first. Some of them
    /// may be closed already.
    refused: VecDeque<ConnectionId>,
}

/// Connection of a program or command, with its protocol state.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    pub(crate) connection: Connection,
    pub(crate) peer: Peer,
    pub(crate) state: PeerState,
    /// Time at which the connection was accepted.
    opened: Instant,
    /// Events for which the kernel watches the socket.
    watched: EventFlags,
    quota: ConnectionQuota,
}

/// Protocol state of a connection.
#[derive(Debug)]
pub(crate) enum PeerState {
    /// The peer has not sent `Hello` yet.
    Opening(Decoder<Opening, DeferredClose<OwnedFd>>),
    /// The connection was refused for this reason before it sent `Hello`.
    Refused(Decoder<Opening, DeferredClose<OwnedFd>>, String),
    Program(Decoder<FromApplication, DeferredClose<OwnedFd>>),
    Command(Command),
    /// The last message to the peer was sent or is queued. The connection is closed at the first
    /// event of its socket after which no bytes are queued.
    Closing,
}

/// Shares of the user's quotas that a connection has reserved.
#[derive(Debug)]
pub(crate) struct ConnectionQuota {
    /// Number of received descriptors that are not assigned to a message yet.
    descriptors: Share,
    /// Number of bytes that are received but not decoded yet, or queued for sending.
    message_bytes: Share,
}

/// Time limit for a new connection to send `Hello`.
const OPENING_TIME: Duration = Duration::from_secs(5);
/// Maximum number of refused connections that stay open until they send `Hello`. The number is
/// small, since they use descriptors that are reserved for the agent's own work: see
/// [`reserved_descriptors`](crate::acceptor::reserved_descriptors).
const REFUSED_MAX: usize = 4;

impl ConnectionQuota {
    pub(crate) fn new(account: &Arc<Account>) -> Result<ConnectionQuota, QuotaError> {
        Ok(ConnectionQuota {
            descriptors: account.reserve(Quota::Descriptors, 0)?,
            message_bytes: account.reserve(Quota::MessageBytes, 0)?,
        })
    }
}

impl PeerConnection {
    /// Charges the connection's undecoded and queued messages to the user's quotas.
    fn charge(&mut self) -> Result<(), QuotaError> {
        let (bytes, descriptors) = match &self.state {
            PeerState::Opening(decoder) | PeerState::Refused(decoder, _) => decoder.waiting(),
            PeerState::Program(decoder) => decoder.waiting(),
            PeerState::Command(command) => command.decoder.waiting(),
            PeerState::Closing => (0, 0),
        };
        self.quota.descriptors.set(descriptors as u64)?;
        self.quota.message_bytes.set((bytes + self.connection.waiting_size()) as u64)
    }

    /// Returns whether the connection belongs to a command that waits for an answer.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(&self.state, PeerState::Command(command) if command.is_busy)
    }

    /// Returns the deadline by which the connection must send `Hello`; `None` unless its state is
    /// `Opening` or `Refused`.
    fn opening_deadline(&self) -> Option<Instant> {
        let is_opening = matches!(self.state, PeerState::Opening(_) | PeerState::Refused(..));
        is_opening.then(|| self.opened + OPENING_TIME)
    }

    /// Receives bytes and descriptors from the socket. Returns false if the peer has closed the
    /// connection, or if a closing connection has sent its last message.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        match &mut self.state {
            PeerState::Opening(decoder) | PeerState::Refused(decoder, _) => {
                self.connection.receive(decoder)
            }
            PeerState::Program(decoder) => self.connection.receive(decoder),
            PeerState::Command(command) => self.connection.receive(&mut command.decoder),
            PeerState::Closing => Ok(self.connection.is_waiting()),
        }
    }
}

impl Peers {
    pub(crate) fn new(poller: Arc<Poller>) -> Peers {
        let (resumed, refused) = (BTreeSet::new(), VecDeque::new());
        Peers { by_id: BTreeMap::new(), next_id: 1, poller, resumed, refused }
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&PeerConnection> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut PeerConnection> {
        self.by_id.get_mut(&id)
    }

    /// Returns the state of a command; `None` if the connection is not that of a welcomed command.
    pub(crate) fn command_mut(&mut self, id: ConnectionId) -> Option<&mut Command> {
        match self.get_mut(id).map(|peer| &mut peer.state) {
            Some(PeerState::Command(command)) => Some(command),
            _ => None,
        }
    }

    /// Returns the user to whose account a connection is charged; `u32::MAX` if it is closed.
    pub(crate) fn uid(&self, id: ConnectionId) -> u32 {
        self.get(id).map_or(u32::MAX, |peer| peer.connection.uid())
    }

    /// Adds a connection and has the kernel watch it. Returns its new id; `None` if watching fails.
    pub(crate) fn insert(
        &mut self,
        connection: Connection,
        peer: Peer,
        state: PeerState,
        quota: ConnectionQuota,
    ) -> Option<ConnectionId> {
        let id = self.next_id;
        self.next_id += 1;
        let (opened, watched) = (Instant::now(), EventFlags::IN);
        self.poller.add(&connection, Source::Peer(id), watched).ok()?;
        self.by_id.insert(id, PeerConnection { connection, peer, state, opened, watched, quota });
        Some(id)
    }

    /// Removes a connection, stops watching its socket, and returns it.
    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<PeerConnection> {
        let peer = self.by_id.remove(&id)?;
        self.poller.remove(&peer.connection);
        Some(peer)
    }

    /// Adds a connection to the list of refused connections.
    pub(crate) fn note_refused(&mut self, id: Option<ConnectionId>) {
        self.refused.extend(id);
    }

    /// Removes and returns the oldest refused connection if the list is full; otherwise `None`.
    pub(crate) fn take_oldest_refused(&mut self) -> Option<ConnectionId> {
        self.refused.retain(|id| self.by_id.contains_key(id));
        if self.refused.len() < REFUSED_MAX { None } else { self.refused.pop_front() }
    }

    /// Sends a message to a program, or queues it.
    pub(crate) fn send(
        &mut self,
        id: ConnectionId,
        message: &ToApplication,
        descriptors: Vec<Arc<OwnedFd>>,
    ) -> io::Result<()> {
        match self.get_mut(id) {
            Some(peer) => peer.connection.send(message, descriptors),
            None => Ok(()),
        }
    }

    /// Sends a reply to a command, or queues it.
    pub(crate) fn reply(&mut self, id: ConnectionId, reply: &Reply) -> io::Result<()> {
        match self.get_mut(id) {
            Some(peer) => peer.connection.answer(reply),
            None => Ok(()),
        }
    }

    /// Updates the quotas of a connection and the events for which the kernel watches its socket.
    /// The socket is not watched for input while a command waits for an answer. It is watched for
    /// output only while bytes are queued.
    pub(crate) fn update(&mut self, id: ConnectionId) -> Result<(), QuotaError> {
        let Some(peer) = self.by_id.get_mut(&id) else { return Ok(()) };
        peer.charge()?;
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !peer.is_busy());
        flags.set(EventFlags::OUT, peer.connection.is_waiting());
        if flags != peer.watched {
            peer.watched = flags;
            self.poller.modify(&peer.connection, Source::Peer(id), flags);
        }
        Ok(())
    }

    /// Returns the earliest deadline of the connections that have not sent `Hello`.
    pub(crate) fn next_opening_deadline(&self) -> Option<Instant> {
        self.by_id.values().filter_map(PeerConnection::opening_deadline).min()
    }

    /// Returns connections that have not sent `Hello` in time.
    pub(crate) fn late_openings(&self, now: Instant) -> Vec<ConnectionId> {
        let is_late = |peer: &PeerConnection| peer.opening_deadline().is_some_and(|at| now >= at);
        self.by_id.iter().filter(|(_, peer)| is_late(peer)).map(|(id, _)| *id).collect()
    }
}
