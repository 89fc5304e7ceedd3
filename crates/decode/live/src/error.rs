//! Errors: of the connection to a relay, and of what a relay sends.

use crate::url::SessionName;
use blkkin_lttng::Fault;
use blkkin_lttng::viewer::Session;
use std::fmt;
use std::io;

/// Error of reading from a relay.
#[derive(Debug)]
pub enum Error {
    /// No connection could be made.
    Connect {
        /// Relay's host and port.
        address: String,
        /// Error of the last attempt.
        error: io::Error,
    },
    /// The connection ended, or the relay did not answer in time.
    Lost {
        /// Relay's host and port.
        address: String,
        /// Cause.
        reason: String,
    },
    /// A message does not follow the protocol.
    Fault(Fault),
    /// The relay has another major version of the protocol.
    Version {
        /// Major version.
        major: u32,
    },
    /// The relay has no such session.
    NoSession {
        /// Name of the session.
        name: SessionName,
        /// Sessions that the relay has.
        sessions: Vec<Session>,
    },
    /// The session has no live timer.
    NotLive(SessionName),
    /// Another viewer is attached to the session.
    Taken(SessionName),
    /// The relay refused a request, for the reason in the text.
    Refused(&'static str),
    /// The metadata of a trace cannot be used.
    Metadata {
        /// Name of the trace.
        trace: String,
        /// Cause.
        reason: String,
    },
    /// Received packets cannot be kept.
    Storage(io::Error),
    /// The memory is full of packets that cannot be read.
    Unreadable,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connect { address, error } => {
                write!(f, "no relay answers at {address}: {error}")
            }
            Error::Lost { address, reason } => {
                write!(f, "the connection to the relay at {address} was lost: {reason}")
            }
            Error::Fault(fault) => {
                write!(f, "the relay sent a message that breaks the protocol: {fault}")
            }
            Error::Version { major } => {
                write!(f, "the relay has version {major} of the protocol instead of 2")
            }
            Error::NoSession { name, .. } => {
                write!(f, "the relay has no session `{}` of host `{}`", name.session, name.host)
            }
            Error::NotLive(name) => write!(f, "session `{}` is not live", name.session),
            Error::Taken(name) => {
                write!(f, "another viewer is attached to session `{}`", name.session)
            }
            Error::Refused(reason) => write!(f, "the relay refused: {reason}"),
            Error::Metadata { trace, reason } => {
                write!(f, "{trace}: metadata cannot be used: {reason}")
            }
            Error::Storage(error) => write!(f, "received packets cannot be kept: {error}"),
            Error::Unreadable => write!(f, "the relay sent too many packets that cannot be read"),
        }
    }
}

impl std::error::Error for Error {}
