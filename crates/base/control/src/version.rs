//! Versions of the protocol, and which of them understand each other.

use std::fmt;

/// A version of the protocol. Sides with the same major number understand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

impl Version {
    /// What this crate speaks.
    pub const OURS: Version = Version { major: 1, minor: 0 };
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
