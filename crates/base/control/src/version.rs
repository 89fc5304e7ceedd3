//! The version of the protocol and its compatibility rule.

use std::fmt;

/// Version of the protocol. Versions with the same major number are compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

impl Version {
    /// Version that this crate implements.
    pub const OURS: Version = Version { major: 1, minor: 2 };
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
