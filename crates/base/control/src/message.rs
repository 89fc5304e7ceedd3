//! Kinds of messages, and the encoding of messages as frames.

use crate::fault::{Fault, Reason};
#[cfg(test)]
use crate::tests::Random;
use crate::wire::{Reader, Writer};
use std::fmt;

/// Size of a frame's header in bytes.
pub const HEADER_SIZE: usize = 6;

/// Kind of a message, such as `Ping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Number of the kind in the frame's header; its upper 4 bits count the message's descriptors.
    pub number: u16,
    /// Name of the message type, such as `Ping`; error messages contain it.
    pub name: &'static str,
}

impl Kind {
    /// Returns the number of descriptors passed with a message of this kind.
    pub const fn descriptors(self) -> usize {
        descriptors_of(self.number)
    }
}

/// Returns the number of descriptors passed with a message, given the number of the message's kind.
/// Numbers of unknown kinds contain this count too, so that a decoder can discard the descriptors.
pub(crate) const fn descriptors_of(number: u16) -> usize {
    (number >> 12) as usize
}

/// Type of all messages of one direction in one phase of a connection. Only this crate implements
/// the trait.
#[allow(private_bounds, reason = "others need not know how bodies are read and written")]
pub trait Messages: Body + Clone + fmt::Debug + PartialEq {
    /// List of all kinds of messages of this type.
    const KINDS: &'static [Kind];
    /// Size of the largest permitted body, in bytes.
    const BODY_SIZE_MAX: usize;
    /// True if a connection has exactly one message of this type, after which the next phase
    /// starts.
    const ONCE: bool;

    /// Returns the kind of this message.
    fn kind(&self) -> Kind;
}

/// Encoding of a message's body.
pub(crate) trait Body: Sized {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), Fault>;
    fn read(kind: Kind, reader: &mut Reader<'_>) -> Result<Self, Fault>;
    /// Makes a random message of this kind.
    #[cfg(test)]
    fn make(kind: Kind, random: &mut Random) -> Self;
}

/// Appends a message's frame to `bytes`. Fails, and appends nothing, if a value of the message is
/// invalid or exceeds [`limits`](crate::limits). The caller sends the message's
/// [descriptors](Kind::descriptors) with the frame's first byte.
pub fn encode<M: Messages>(message: &M, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    let start = bytes.len();
    let kind = message.kind();
    bytes.extend([0; 4]);
    bytes.extend(kind.number.to_le_bytes());
    let written = message.write(&mut Writer::new(kind.name, bytes)).and_then(|()| {
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
