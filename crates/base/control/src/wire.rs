//! The bytes of a body, read and written one after the other. Both know which field they are at, so
//! that a [`Fault`] can say it.

use crate::fault::{Fault, Reason};
use crate::version::Version;

/// Reads a body that is there as a whole.
pub(crate) struct Reader<'b> {
    body: &'b [u8],
    at: usize,
    /// Where what was read last begins.
    begin: usize,
    message: &'static str,
    field: &'static str,
    /// What the other side speaks, if it has said so.
    peer: Option<Version>,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(message: &'static str, body: &'b [u8], peer: Option<Version>) -> Self {
        Reader { body, at: 0, begin: 0, message, field: "", peer }
    }

    /// What follows is a field of that name.
    pub(crate) fn field(&mut self, name: &'static str) {
        self.field = name;
    }

    /// What is read now.
    pub(crate) fn field_name(&self) -> &'static str {
        self.field
    }

    pub(crate) fn bytes(&mut self, size: usize) -> Result<&'b [u8], Fault> {
        self.begin = self.at;
        let rest = &self.body[self.at..];
        let Some((bytes, _)) = rest.split_at_checked(size) else {
            return Err(self.fault(Reason::Ends { needed: size - rest.len() }));
        };
        self.at += size;
        Ok(bytes)
    }

    pub(crate) fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Fault> {
        let mut array = [0; SIZE];
        array.copy_from_slice(self.bytes(SIZE)?);
        Ok(array)
    }

    /// Whether the body ends where it should: a newer version may have added to it.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        let left = self.body.len() - self.at;
        if left == 0 || is_newer(self.peer) {
            return Ok(());
        }
        (self.begin, self.field) = (self.at, "end");
        Err(self.fault(Reason::GoesOn { left }))
    }

    pub(crate) fn set_peer(&mut self, peer: Version) {
        self.peer = Some(peer);
    }

    pub(crate) fn peer(&self) -> Option<Version> {
        self.peer
    }

    /// Where in the body what is wrong begins.
    pub(crate) fn begin(&self) -> usize {
        self.begin
    }

    /// What is wrong with what was read last.
    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        Fault { message: self.message, field: self.field, reason }
    }
}

/// Whether the other side may say what this one does not know.
pub(crate) fn is_newer(peer: Option<Version>) -> bool {
    peer.is_some_and(|peer| peer > Version::OURS)
}

/// Writes a body.
pub(crate) struct Writer<'b> {
    bytes: &'b mut Vec<u8>,
    message: &'static str,
    field: &'static str,
}

impl<'b> Writer<'b> {
    pub(crate) fn new(message: &'static str, bytes: &'b mut Vec<u8>) -> Self {
        Writer { bytes, message, field: "" }
    }

    /// What follows is a field of that name.
    pub(crate) fn field(&mut self, name: &'static str) {
        self.field = name;
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What is wrong with what is written now.
    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        Fault { message: self.message, field: self.field, reason }
    }
}
