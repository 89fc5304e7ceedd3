//! Errors in a packet's bytes.

use std::fmt;

/// Bytes that the schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where, in bits from the packet's start.
    pub at_bits: u64,
    /// What.
    pub kind: DecodeErrorKind,
}

/// What is wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The packet does not start with the magic number: not a packet, or the one before was
    /// cut or lies about its size.
    Magic(u64),
    /// No stream class has this id: the metadata is older than the data, or of another trace.
    UnknownStream(u64),
    /// Packets do not say which of several stream classes they are of.
    AmbiguousStream,
    /// No event class of the stream has this id.
    UnknownEvent(u64),
    /// Events do not say which of several event classes they are of.
    AmbiguousEvent,
    /// An event without any bits would repeat for ever.
    EmptyEvent,
    /// Two fields of one byte have different byte orders.
    ByteOrder,
    /// The content is larger than the packet.
    ContentBeyondPacket {
        /// Declared content size in bits.
        content: u64,
        /// Declared packet size in bits.
        total: u64,
    },
    /// The content ends before the first event could start.
    ContentBeforeEvents {
        /// Declared content size in bits.
        content: u64,
        /// Size of packet header and context in bits.
        header: u64,
    },
    /// A packet's size is not a whole number of bytes.
    PacketSize(u64),
    /// No option of the variant goes with the selector's value.
    NoOption(i128),
    /// A variable-length integer of more than 64 bits.
    VarInt,
    /// So many elements without bytes that nobody can mean them.
    EmptyElements,
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeErrorKind::Magic(magic) => write!(
                f,
                "packet starts with 0x{magic:08x}, not with CTF's magic number 0xc1fc1fc1"
            ),
            DecodeErrorKind::UnknownStream(id) => {
                write!(f, "packet is of stream class {id}, which the metadata does not describe")
            }
            DecodeErrorKind::AmbiguousStream => {
                f.write_str("packet does not say of which of the stream classes it is")
            }
            DecodeErrorKind::UnknownEvent(id) => {
                write!(f, "event is of class {id}, which the metadata does not describe")
            }
            DecodeErrorKind::AmbiguousEvent => {
                f.write_str("event does not say of which of the event classes it is")
            }
            DecodeErrorKind::ByteOrder => f.write_str(
                "field begins within a byte, but has another byte order than the field before",
            ),
            DecodeErrorKind::EmptyEvent => f.write_str("event takes no bits, so it never ends"),
            DecodeErrorKind::ContentBeyondPacket { content, total } => {
                write!(f, "packet of {total} bits claims {content} bits of content")
            }
            DecodeErrorKind::ContentBeforeEvents { content, header } => write!(
                f,
                "packet claims {content} bits of content, but its header takes {header} bits"
            ),
            DecodeErrorKind::PacketSize(total) => {
                write!(f, "packet claims {total} bits, which is not a whole number of bytes")
            }
            DecodeErrorKind::NoOption(value) => {
                write!(f, "selector is {value}, for which the variant has no option")
            }
            DecodeErrorKind::VarInt => f.write_str("variable-length integer has more than 64 bits"),
            DecodeErrorKind::EmptyElements => f.write_str("array claims too many empty elements"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for DecodeError {}
