//! Messages that the handlers of sessions and programs produce. The handlers have no sockets; the
//! event loop sends the messages in the order in which they were produced.

use crate::source::ConnectionId;
use blkkin_control::{Reply, ToApplication};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A message to send. The message is dropped if its connection was closed; the connection is closed
/// if sending fails.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Message to a program, with descriptors.
    Send { to: ConnectionId, message: ToApplication, descriptors: Vec<Arc<OwnedFd>> },
    /// Part of an answer to a command.
    Reply { to: ConnectionId, reply: Reply },
    /// Last part of an answer to a command. The command's next request may be handled afterwards.
    Finish { to: ConnectionId, reply: Reply },
}

impl Effect {
    /// Returns the effect that sends a program a message without descriptors.
    pub(crate) fn send(to: ConnectionId, message: ToApplication) -> Effect {
        Effect::Send { to, message, descriptors: vec![] }
    }

    pub(crate) fn send_with_descriptors(
        to: ConnectionId,
        message: ToApplication,
        descriptors: Vec<Arc<OwnedFd>>,
    ) -> Effect {
        Effect::Send { to, message, descriptors }
    }
}
