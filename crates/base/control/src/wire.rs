//! Reader and writer for the bytes of a body. Both keep the name of the current field, and put it
//! into each [`Fault`] that they report.

use crate::fault::{Fault, Reason};
use crate::version::Version;

/// Reader of a complete body.
pub(crate) struct Reader<'b> {
    body: &'b [u8],
    at: usize,
    /// Offset at which the last read of the body began, or at which trailing bytes begin.
    begin: usize,
    message: &'static str,
    field: &'static str,
    /// Version of the peer; `None` until the version in the peer's first message has been read.
    peer: Option<Version>,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(message: &'static str, body: &'b [u8], peer: Option<Version>) -> Self {
        Reader { body, at: 0, begin: 0, message, field: "", peer }
    }

    /// Sets the name of the field to be read next, for errors.
    pub(crate) fn field(&mut self, name: &'static str) {
        self.field = name;
    }

    /// Returns the name of the current field.
    pub(crate) fn field_name(&self) -> &'static str {
        self.field
    }

    pub(crate) fn bytes(&mut self, size: usize) -> Result<&'b [u8], Fault> {
        self.begin = self.at;
        let rest = &self.body[self.at..];
        let Some((bytes, _)) = rest.split_at_checked(size) else {
            return Err(self.fault(Reason::Truncated { needed: size - rest.len() }));
        };
        self.at += size;
        Ok(bytes)
    }

    pub(crate) fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Fault> {
        let mut array = [0; SIZE];
        array.copy_from_slice(self.bytes(SIZE)?);
        Ok(array)
    }

    /// Checks that no bytes are left in the body. Ignores fields that a peer with a newer version
    /// appended.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        let left = self.body.len() - self.at;
        if left == 0 || is_newer(self.peer) {
            return Ok(());
        }
        (self.begin, self.field) = (self.at, "end");
        Err(self.fault(Reason::TrailingBytes { left }))
    }

    pub(crate) fn set_peer(&mut self, peer: Version) {
        self.peer = Some(peer);
    }

    pub(crate) fn peer(&self) -> Option<Version> {
        self.peer
    }

    /// Returns the offset at which the last read of the body began, or at which trailing bytes
    /// begin, for errors.
    pub(crate) fn begin(&self) -> usize {
        self.begin
    }

    /// Makes an error of this kind in the current field.
    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        Fault { message: self.message, field: self.field, reason }
    }
}

/// Returns true if the peer's version is newer than this crate's. A newer peer may send messages
/// that this crate does not know.
pub(crate) fn is_newer(peer: Option<Version>) -> bool {
    peer.is_some_and(|peer| peer > Version::OURS)
}

/// Writer that appends a body to a buffer.
pub(crate) struct Writer<'b> {
    bytes: &'b mut Vec<u8>,
    message: &'static str,
    field: &'static str,
}

impl<'b> Writer<'b> {
    pub(crate) fn new(message: &'static str, bytes: &'b mut Vec<u8>) -> Self {
        Writer { bytes, message, field: "" }
    }

    /// Sets the name of the field to be written next, for errors.
    pub(crate) fn field(&mut self, name: &'static str) {
        self.field = name;
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes an error of this kind in the current field.
    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        Fault { message: self.message, field: self.field, reason }
    }
}
