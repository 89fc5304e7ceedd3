//! Reasons for closing a connection.

use crate::fault::Fault;
use crate::frame::Misfit;
use std::fmt;
use std::io;

/// Reason why the server closed a connection.
#[derive(Debug)]
pub enum Closed {
    /// The maximum number of connections was reached.
    TooMany,
    /// The maximum was reached, and this connection had been idle for the longest time.
    MadeRoom,
    /// The connection was idle for too long.
    Idle,
    /// Receiving a frame or sending replies took too long.
    Slow,
    /// The received bytes are not a frame.
    Misfit(Misfit),
    /// The frame contains no valid request.
    Fault(Fault),
    /// There was no memory for the frame. A batch would have been refused with a reply instead, but
    /// this frame is no batch.
    NoMemory,
    /// The connection broke, or its thread could not be started.
    Io(io::Error),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::TooMany => write!(f, "too many connections"),
            Closed::MadeRoom => {
                write!(f, "too many connections, and this one was quiet for longest")
            }
            Closed::Idle => write!(f, "quiet for too long"),
            Closed::Slow => write!(f, "too slow"),
            Closed::Misfit(misfit) => misfit.fmt(f),
            Closed::Fault(fault) => fault.fmt(f),
            Closed::NoMemory => write!(f, "no memory is left for what it sends"),
            Closed::Io(error) => error.fmt(f),
        }
    }
}
