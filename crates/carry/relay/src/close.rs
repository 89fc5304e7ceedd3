//! Reasons for closing a peer's connection.

use blkkin_lttng::Fault;
use blkkin_lttng::relay::MINOR_MIN;
use std::fmt;
use std::io;

/// Reason for closing a connection.
#[derive(Debug)]
pub enum Close {
    /// The producer does not follow the protocol.
    Fault(Fault),
    /// The command is not permitted in this state of the connection.
    Order(&'static str),
    /// The producer has a version that is not supported.
    Version(u32, u32),
    /// The command is not implemented.
    Unknown(u32),
    /// A file cannot be written, or a limit is exceeded.
    Io(io::Error),
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Close::Fault(fault) => write!(f, "{fault}"),
            Close::Order(why) => write!(f, "{why}"),
            Close::Version(major, minor) => {
                write!(f, "version {major}.{minor} is not supported, only 2.{MINOR_MIN} and later")
            }
            Close::Unknown(number) => write!(f, "command {number} is not implemented"),
            Close::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Close {}

impl From<Fault> for Close {
    fn from(fault: Fault) -> Close {
        Close::Fault(fault)
    }
}

impl From<io::Error> for Close {
    fn from(error: io::Error) -> Close {
        Close::Io(error)
    }
}
