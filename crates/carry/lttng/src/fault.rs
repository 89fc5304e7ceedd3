//! Errors of decoding: the message, the offset of the offending byte in it, and the reason.

use std::fmt;

/// Error of a message that does not follow the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the message in LTTng's sources, such as `ADD_STREAM`.
    pub message: &'static str,
    /// Offset of the offending field in the message, in bytes from the message's first byte.
    pub offset: usize,
    /// Reason for refusing the message.
    pub reason: Reason,
}

/// Reason for refusing a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The message declares a size that the protocol does not permit here.
    Size {
        /// Declared size in bytes, or declared count.
        declared: u64,
        /// Permitted sizes.
        permitted: &'static str,
    },
    /// The message ends before the field.
    Short,
    /// The message has bytes after its last field.
    Long,
    /// A name is no valid name: one component of a path, in UTF-8, with its NUL.
    Name(String),
    /// A path is absolute, has empty components, or leaves its directory.
    Path(String),
    /// A field has a value that the protocol does not define.
    Value(u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}", self.message, self.offset, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Size { declared, permitted } => {
                write!(f, "size {declared} is not permitted, only {permitted}")
            }
            Reason::Short => write!(f, "the message ends too early"),
            Reason::Long => write!(f, "the message has too many bytes"),
            Reason::Name(name) => write!(f, "`{}` is no valid name", name.escape_debug()),
            Reason::Path(path) => {
                write!(f, "`{}` is no path below a directory", path.escape_debug())
            }
            Reason::Value(value) => write!(f, "value {value} is not defined"),
        }
    }
}

impl std::error::Error for Fault {}
