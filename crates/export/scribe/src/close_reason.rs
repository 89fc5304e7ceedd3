//! Reasons for closing a connection.

use crate::fault::Fault;
use crate::frame::FrameError;
use std::fmt;
use std::io;

/// Reason why the server closed a connection.
#[derive(Debug)]
pub enum CloseReason {
    /// The maximum number of connections was reached.
    TooMany,
    /// The maximum was reached, and this connection had been idle for the longest time.
    Evicted,
    /// The connection was idle for longer than the time limit.
    Idle,
    /// Receiving a frame or sending replies took longer than the time limit.
    Slow,
    /// The received bytes are not a frame, or the frame is too large.
    Misfit(FrameError),
    /// The frame contains no valid request.
    Fault(Fault),
    /// The server has no memory for a frame that is not a batch. A batch would be refused with a
    /// reply instead.
    NoMemory,
    /// The connection broke, or its thread could not be started.
    Io(io::Error),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::TooMany => write!(f, "too many connections"),
            CloseReason::Evicted => {
                write!(f, "too many connections, and this one was quiet for longest")
            }
            CloseReason::Idle => write!(f, "quiet for too long"),
            CloseReason::Slow => write!(f, "too slow"),
            CloseReason::Misfit(misfit) => misfit.fmt(f),
            CloseReason::Fault(fault) => fault.fmt(f),
            CloseReason::NoMemory => write!(f, "no memory is left for what it sends"),
            CloseReason::Io(error) => error.fmt(f),
        }
    }
}
