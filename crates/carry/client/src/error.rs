//! Errors of a client's connection and requests, with the reason. Most have the agent's address,
//! and some have a hint.

use blkkin_control::address::VARIABLE;
use blkkin_control::{DecodeError, Failed, Fault, Reason, Refused};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why connecting or a request failed, or may have failed.
#[derive(Debug)]
#[allow(missing_docs, reason = "an address is the daemon's socket")]
pub enum Error {
    /// No agent listens on any of the addresses.
    NoDaemon {
        /// Addresses that were tried, in this order.
        tried: Vec<PathBuf>,
    },
    /// The permissions of the agent's socket, or of a directory above it, do not let this user
    /// connect.
    NotPermitted { address: PathBuf },
    /// The agent refuses the connection.
    Refused {
        address: PathBuf,
        /// The agent's message, which includes the reason.
        refused: Refused,
    },
    /// The request exceeds a limit, and was not sent.
    LimitExceeded(Fault),
    /// The agent reports that the request failed.
    Failed {
        address: PathBuf,
        /// The agent's message: an error code, the reason, and possibly a hint.
        failed: Failed,
    },
    /// The agent closed the connection before its answer to `Hello` or before the end of its reply.
    Disconnected { address: PathBuf },
    /// A message from the agent cannot be decoded.
    InvalidMessage {
        address: PathBuf,
        /// Decoding error, with its offset in the received bytes.
        error: DecodeError,
    },
    /// The agent did not accept the connection, read the request or answer before the timeout.
    TimedOut {
        address: PathBuf,
        /// Timeout that was exceeded.
        waited: Duration,
    },
    /// The reply exceeds the maximum size of a reply.
    ReplyTooLarge { address: PathBuf },
    /// An operation on the socket failed for another reason, such as an address that is too long.
    Socket {
        address: PathBuf,
        /// Error of the operation.
        error: io::Error,
    },
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::LimitExceeded(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDaemon { tried } => {
                let tried: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
                write!(f, "no agent runs (none at {})", tried.join(", nor at "))
            }
            Error::NotPermitted { address } => {
                write!(f, "you may not talk to the agent at {}", address.display())
            }
            Error::Refused { address, refused } => {
                write!(f, "the agent at {} refuses: {}", address.display(), refused.reason)
            }
            Error::LimitExceeded(fault) => fault.fmt(f),
            Error::Failed { address, failed } => {
                let Failed { code, message, .. } = failed;
                write!(f, "{message} [{code}] (agent at {})", address.display())
            }
            Error::Disconnected { address } => {
                write!(f, "the agent at {} went away before it had answered", address.display())
            }
            Error::InvalidMessage { address, error } => {
                write!(f, "cannot understand the agent at {}: {error}", address.display())
            }
            Error::TimedOut { address, waited } => write!(
                f,
                "the agent at {} has not answered for {} s",
                address.display(),
                waited.as_secs_f64()
            ),
            Error::ReplyTooLarge { address } => {
                write!(f, "the agent at {} does not come to an end", address.display())
            }
            Error::Socket { address, error } => {
                write!(f, "cannot talk to an agent at {}: {error}", address.display())
            }
        }
    }
}

impl Error {
    /// Returns a hint about what the user can do; `None` if there is no advice for this error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoDaemon { .. } => "start one with `blkkin agent`, or use `blkkin record -- \
                                       COMMAND`, which needs none"
                .into(),
            Error::NotPermitted { address } => format!(
                "join the group that the socket belongs to (`ls -l {}` shows it), or start an agent \
                 of your own with `blkkin agent`",
                address.display()
            ),
            Error::Refused { refused, .. } if refused.try_again => "try again later".into(),
            Error::Failed { failed, .. } => failed.hint.clone()?,
            Error::Disconnected { .. } => {
                "it may have done it nevertheless: look with `blkkin session list`; \
                                   the agent's own messages say why it ended"
                    .into()
            }
            Error::InvalidMessage { error, .. } => match error.fault.reason {
                Reason::OtherVersion { .. } => return None,
                Reason::OtherProtocol | Reason::UnknownKind { .. } => {
                    format!("{VARIABLE} may name the socket of another program")
                }
                _ => "install the same release on both sides, and start the agent again".into(),
            },
            Error::Socket { error, .. } if error.kind() == io::ErrorKind::InvalidInput => {
                "paths of sockets have at most 107 bytes".into()
            }
            Error::Refused { .. }
            | Error::LimitExceeded(_)
            | Error::TimedOut { .. }
            | Error::ReplyTooLarge { .. }
            | Error::Socket { .. } => return None,
        })
    }
}

impl std::error::Error for Error {}
