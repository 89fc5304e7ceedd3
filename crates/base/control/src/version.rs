//! Versions of the protocol, and which of them understand each other.

use crate::fault::{Fault, Reason};
use crate::form::{Form, Record};
#[cfg(test)]
use crate::tests::Random;
use crate::wire::{Reader, Writer};
use std::fmt;

/// What a version starts with, so that other protocols are not taken for this one.
const MAGIC: &[u8; 6] = b"blkkin";

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

/// As in `Hello` and `Welcome`: another major number is an error.
impl Record for Version {
    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Fault> {
        AnyVersion.put(self, writer)
    }

    fn take(reader: &mut Reader<'_>) -> Result<Version, Fault> {
        let theirs = AnyVersion.take(reader)?;
        match theirs.major == Version::OURS.major {
            true => Ok(theirs),
            false => Err(reader.fault(Reason::OtherVersion { theirs })),
        }
    }

    #[cfg(test)]
    fn make(random: &mut Random) -> Version {
        AnyVersion.make(random)
    }
}

/// As in `Refused`, which all versions read.
pub(crate) struct AnyVersion;

impl Form<Version> for AnyVersion {
    fn put(&self, value: &Version, writer: &mut Writer<'_>) -> Result<(), Fault> {
        writer.bytes(MAGIC);
        writer.bytes(&value.major.to_le_bytes());
        writer.bytes(&value.minor.to_le_bytes());
        Ok(())
    }

    fn take(&self, reader: &mut Reader<'_>) -> Result<Version, Fault> {
        if reader.array::<6>()? != *MAGIC {
            return Err(reader.fault(Reason::NotOurs));
        }
        let [major, minor] = [reader.array()?, reader.array()?].map(u16::from_le_bytes);
        let theirs = Version { major, minor };
        reader.set_peer(theirs);
        Ok(theirs)
    }

    #[cfg(test)]
    fn make(&self, _: &mut Random) -> Version {
        Version::OURS
    }
}
