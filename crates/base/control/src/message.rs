//! What all messages have in common, and how one becomes a frame.

use crate::fault::{Fault, Reason};
#[cfg(test)]
use crate::tests::Random;
use crate::wire::{Reader, Writer};
use std::fmt;

/// Bytes of a frame before its body.
pub const HEADER_SIZE: usize = 6;

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// As in the frame.
    pub number: u16,
    /// What it is called, here and in errors.
    pub name: &'static str,
}

impl Kind {
    /// How many descriptors come with such a message.
    pub const fn descriptors(self) -> usize {
        descriptors_of(self.number)
    }
}

/// Also for kinds that are not known: how many are to be taken off the socket.
pub(crate) const fn descriptors_of(number: u16) -> usize {
    (number >> 12) as usize
}

/// All messages that may come in one direction, at one time. Only this crate has some.
#[allow(private_bounds, reason = "others need not know how bodies are read and written")]
pub trait Messages: Body + Clone + fmt::Debug + PartialEq {
    /// Their kinds.
    const KINDS: &'static [Kind];
    /// Largest body.
    const BODY_SIZE_MAX: usize;
    /// Whether only one of them comes, and then others.
    const ONCE: bool;

    /// What kind of message this is.
    fn kind(&self) -> Kind;
}

/// How bodies are read and written.
pub(crate) trait Body: Sized {
    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Fault>;
    fn take(kind: Kind, reader: &mut Reader<'_>) -> Result<Self, Fault>;
    /// Any message of that kind.
    #[cfg(test)]
    fn make(kind: Kind, random: &mut Random) -> Self;
}

/// Appends a message's frame. If the message does not keep to [`limits`](crate::limits), nothing is
/// appended. The message's [descriptors](Kind::descriptors) are to be sent with the first byte.
pub fn encode<M: Messages>(message: &M, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    let start = bytes.len();
    let kind = message.kind();
    bytes.extend([0; 4]);
    bytes.extend(kind.number.to_le_bytes());
    let written = message.put(&mut Writer::new(kind.name, bytes)).and_then(|()| {
        let (size, size_max) = (bytes.len() - start - HEADER_SIZE, M::BODY_SIZE_MAX);
        let too_long = Reason::TooLong { size, size_max };
        let fault = Fault { message: kind.name, field: "", reason: too_long };
        u32::try_from(size).ok().filter(|_| size <= size_max).ok_or(fault)
    });
    match written {
        Ok(size) => bytes[start..start + 4].copy_from_slice(&size.to_le_bytes()),
        Err(_) => bytes.truncate(start),
    }
    written.map(|_| ())
}
