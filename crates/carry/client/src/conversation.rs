//! State of a client's connection between requests and replies, with the client's timeouts.

use crate::connection::Connection;
use blkkin_control::{Decoder, Reply};
use std::time::Duration;

/// Timeouts of a client's operations; by default 5 s and 30 s.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Timeout for connecting and for the answer to `Hello`.
    pub opening: Duration,
    /// Timeout for sending a request, and for receiving each item of its reply.
    pub item: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { opening: Duration::from_secs(5), item: Duration::from_secs(30) }
    }
}

/// Connection that the agent has welcomed, with the decoder of the agent's replies.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) connection: Connection,
    pub(crate) decoder: Decoder<Reply>,
    pub(crate) patience: Timeouts,
    /// Set if the last reply was received completely. Otherwise the next items received still
    /// belong to that reply.
    pub(crate) has_whole_reply: bool,
}
