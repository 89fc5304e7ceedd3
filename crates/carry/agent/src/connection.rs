//! A connection that never blocks: bytes that cannot be sent yet are queued, up to a limit.

use crate::deferred_close::DeferredClose;
use crate::quota::Share;
use blkkin_control::{Decoder, Fault, Messages, encode};
use blkkin_sys::socket::Socket;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Maximum number of bytes queued for a program. A program that leaves more bytes unread is stuck,
/// or is hostile.
const WAITING_SIZE_MAX: usize = 2 << 20;
/// Maximum number of bytes received by one call.
const RECEIVE_SIZE: usize = 16 << 10;

/// Non-blocking connection to a program or command, with a queue of unsent messages.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: DeferredClose<Socket>,
    uid: u32,
    waiting: VecDeque<Piece>,
    waiting_size: usize,
}

#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<Arc<OwnedFd>>,
}

impl Connection {
    /// Makes a connection that is charged to the account of user `uid`.
    pub(crate) fn new(mut socket: DeferredClose<Socket>, uid: u32) -> Connection {
        socket.set_uid(uid);
        Connection { socket, uid, waiting: VecDeque::new(), waiting_size: 0 }
    }

    /// Returns the user to whose account the connection is charged.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Attaches a share of a quota to the connection. The share is returned when the connection is
    /// closed.
    pub(crate) fn store_share(&mut self, share: Share) {
        self.socket.store_share(share);
    }

    /// Queues a message with descriptors, and sends queued bytes. Fails if more than
    /// [`WAITING_SIZE_MAX`] bytes are queued.
    pub(crate) fn send<M: Messages>(
        &mut self,
        message: &M,
        descriptors: Vec<Arc<OwnedFd>>,
    ) -> io::Result<()> {
        self.queue(message, descriptors)?;
        if self.waiting_size > WAITING_SIZE_MAX {
            let why = "the other side does not read what it is sent";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        self.flush()
    }

    /// Queues a part of an answer to a command, and sends queued bytes. The quota for messages
    /// limits the number of queued bytes.
    pub(crate) fn answer<M: Messages>(&mut self, message: &M) -> io::Result<()> {
        self.queue(message, vec![])?;
        self.flush()
    }

    fn queue<M: Messages>(
        &mut self,
        message: &M,
        descriptors: Vec<Arc<OwnedFd>>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).map_err(|fault: Fault| {
            io::Error::new(io::ErrorKind::InvalidInput, fault.to_string())
        })?;
        self.waiting_size += bytes.len();
        self.waiting.push_back(Piece { bytes, sent: 0, descriptors });
        Ok(())
    }

    /// Sends queued bytes until the socket is full.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(piece) = self.waiting.front_mut() {
            let descriptors: Vec<BorrowedFd<'_>> =
                piece.descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
            match self.socket.send(&piece.bytes[piece.sent..], &descriptors) {
                Ok(sent) => {
                    piece.sent += sent;
                    piece.descriptors.clear();
                    self.waiting_size -= sent;
                    if piece.sent == piece.bytes.len() {
                        self.waiting.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns true if the process that connected has certainly ended, even if another process
    /// holds the connection; see [`Socket::peer_has_ended`].
    pub(crate) fn peer_has_ended(&self) -> bool {
        self.socket.peer_has_ended()
    }

    /// Returns the peer's supplementary groups; see [`Socket::peer_groups`].
    pub(crate) fn peer_groups(&self) -> io::Result<Option<Vec<u32>>> {
        self.socket.peer_groups()
    }

    /// Returns the number of queued bytes.
    pub(crate) fn waiting_size(&self) -> usize {
        self.waiting_size
    }

    /// Returns whether bytes are queued.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Receives bytes and descriptors into a decoder. Returns false if the peer has closed the
    /// connection.
    pub(crate) fn receive<M: Messages>(
        &self,
        decoder: &mut Decoder<M, DeferredClose<OwnedFd>>,
    ) -> io::Result<bool> {
        let (mut bytes, mut descriptors) = ([0; RECEIVE_SIZE], Vec::new());
        let received = self.socket.receive(&mut bytes, &mut descriptors);
        let descriptors: Vec<DeferredClose<OwnedFd>> =
            descriptors.into_iter().map(|one| DeferredClose::new(one, self.uid)).collect();
        match received {
            Ok(0) => Ok(false),
            Ok(size) => {
                decoder.feed(&bytes[..size], descriptors);
                Ok(true)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
