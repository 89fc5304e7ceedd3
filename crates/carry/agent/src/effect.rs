//! Effects: what the handlers of sessions and programs want sent. The handlers have no sockets; the
//! daemon's loop carries the effects out, in their order.

use crate::program::Message;
use crate::source::ConnectionId;
use blkkin_control::{Reply, ToApplication};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A message to send. If the connection is gone, it is dropped; if sending fails, the connection is
/// closed.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send a message to a program, with descriptors.
    Send { to: ConnectionId, message: ToApplication, descriptors: Vec<Arc<OwnedFd>> },
    /// Send a part of an answer to a command.
    Reply { to: ConnectionId, reply: Reply },
    /// Send the last part of an answer to a command, whose next request may then be handled.
    Finish { to: ConnectionId, reply: Reply },
}

impl Effect {
    /// A message without descriptors.
    pub(crate) fn send(to: ConnectionId, message: ToApplication) -> Effect {
        Effect::Send { to, message, descriptors: vec![] }
    }

    pub(crate) fn pass(to: ConnectionId, (message, descriptors): Message) -> Effect {
        Effect::Send { to, message, descriptors }
    }
}
