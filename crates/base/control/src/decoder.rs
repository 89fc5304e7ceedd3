//! Decodes the bytes of a socket into messages; see [`Decoder`].

use crate::fault::{DecodeError, Fault, Reason};
use crate::limits::DESCRIPTORS_MAX;
use crate::message::{HEADER_SIZE, Kind, Messages, descriptors_of};
use crate::version::Version;
use crate::wire::{Reader, is_newer};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;

/// Maximum capacity in bytes that the buffer retains once it is empty.
const IDLE_CAPACITY_MAX: usize = 64 << 10;

/// Decoder for the messages of a peer. It accepts the bytes in pieces of any size:
/// [`feed`](Self::feed) received bytes, then call [`take`](Self::take) until it returns no message.
///
/// Once `take` has returned no message, the decoder has less than one frame, or only bytes of the
/// connection's next phase. The decoder's memory is bounded by the bytes received, not by the size
/// that a header announces. After an error it decodes no more messages.
///
/// ```
/// use blkkin_control::{Answer, Decoder, Received, ToApplication, encode};
/// # use blkkin_control::{Version, Welcome};
/// # let mut bytes = Vec::new();
/// # let welcome = Welcome { version: Version::OURS, release: "0.1.0".into() };
/// # encode(&Answer::Welcome(welcome), &mut bytes)?;
/// # encode(&ToApplication::Ping(7), &mut bytes)?;
/// let mut decoder: Decoder<Answer> = Decoder::new();
/// decoder.feed(&bytes, []);
/// let Some(Received::Message { message: Answer::Welcome(_), .. }) = decoder.take()? else {
///     panic!("not welcome");
/// };
/// let mut decoder: Decoder<ToApplication> = decoder.followed_by();
/// while let Some(received) = decoder.take()? {
///     let Received::Message { message, descriptors } = received else { continue };
///     assert_eq!((message, descriptors.len()), (ToApplication::Ping(7), 0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder<M, D = OwnedFd> {
    bytes: Vec<u8>,
    /// Number of bytes at the start of `bytes` that have been decoded.
    consumed: usize,
    /// Number of bytes of a skipped message that have not been received yet.
    skip_remaining: usize,
    /// Offset of the first undecoded byte in the connection's stream.
    offset: u64,
    /// Descriptors that have been received and not been assigned to a message yet.
    descriptors: VecDeque<D>,
    /// Version of the peer; `None` until the peer's first message has been decoded.
    peer: Option<Version>,
    error: Option<DecodeError>,
    messages: PhantomData<fn() -> M>,
}

/// Message of the peer, either decoded or skipped.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<M, D = OwnedFd> {
    /// Decoded message, with as many descriptors as its kind requires.
    Message {
        /// Content of the decoded frame.
        message: M,
        /// Descriptors that the peer passed with the frame.
        descriptors: Vec<D>,
    },
    /// Skipped message of an unknown kind, from a peer with a newer minor version. A skipped
    /// request still requires an answer.
    Unknown {
        /// Number of the unknown kind, from the frame's header.
        kind: u16,
    },
}

impl<M, D> Default for Decoder<M, D> {
    fn default() -> Self {
        Decoder {
            bytes: Vec::new(),
            consumed: 0,
            skip_remaining: 0,
            offset: 0,
            descriptors: VecDeque::new(),
            peer: None,
            error: None,
            messages: PhantomData,
        }
    }
}

impl<M: Messages, D> Decoder<M, D> {
    /// Makes a decoder for a new connection.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Appends bytes received from the socket, and the descriptors passed with them. After an
    /// error, drops both.
    pub fn feed(&mut self, bytes: &[u8], descriptors: impl IntoIterator<Item = D>) {
        if self.error.is_some() {
            return;
        }
        self.descriptors.extend(descriptors);
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_CAPACITY_MAX {
            self.bytes = Vec::new();
        }
        let skipped = self.skip_remaining.min(bytes.len());
        self.skip_remaining -= skipped;
        self.offset += skipped as u64;
        self.bytes.extend_from_slice(&bytes[skipped..]);
    }

    /// Decodes the next message. Returns `None` if the decoder needs more bytes. Also returns
    /// `None` after an [`Opening`](crate::Opening) or [`Answer`](crate::Answer), because the
    /// messages after it have a type other than `M`. Callers repeat the call until it returns
    /// `None`.
    pub fn take(&mut self) -> Result<Option<Received<M, D>>, DecodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if M::ONCE && self.peer.is_some() {
            return Ok(None);
        }
        self.decode_frame().inspect_err(|error| {
            self.error = Some(*error);
            // Free all memory of a connection that can no longer be used.
            self.bytes = Vec::new();
            self.consumed = 0;
            self.descriptors = VecDeque::new();
        })
    }

    /// Returns a decoder for the connection's next phase, whose messages have type `N`. Undecoded
    /// bytes and descriptors carry over.
    pub fn followed_by<N: Messages>(self) -> Decoder<N, D> {
        Decoder {
            bytes: self.bytes,
            consumed: self.consumed,
            skip_remaining: self.skip_remaining,
            offset: self.offset,
            descriptors: self.descriptors,
            peer: self.peer,
            error: self.error,
            messages: PhantomData,
        }
    }

    /// Checks that the connection did not end within a message. Call this method after
    /// [`take`](Self::take) has returned all messages. If `take` has failed, returns the same
    /// error.
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.error {
            Some(error) => Err(error),
            None if self.consumed < self.bytes.len() || self.skip_remaining > 0 => {
                Err(self.frame_error(self.bytes.len() - self.consumed, "", Reason::StreamTruncated))
            }
            None => Ok(()),
        }
    }

    /// Returns the number of undecoded bytes and the number of unassigned descriptors.
    pub fn waiting(&self) -> (usize, usize) {
        (self.bytes.len() - self.consumed, self.descriptors.len())
    }

    /// Returns the version of the peer; `None` until the peer's first message has been decoded.
    pub fn peer(&self) -> Option<Version> {
        self.peer
    }

    /// Returns the capacity of the receive buffer in bytes.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    fn decode_frame(&mut self) -> Result<Option<Received<M, D>>, DecodeError> {
        let waiting = &self.bytes[self.consumed..];
        let Some((header, rest)) = waiting.split_first_chunk::<HEADER_SIZE>() else {
            let permitted = if waiting.is_empty() { 0 } else { DESCRIPTORS_MAX };
            return self.need_more(permitted);
        };
        let [size @ .., _, _] = *header;
        let [.., low, high] = *header;
        let size = u32::from_le_bytes(size) as usize;
        let number = u16::from_le_bytes([low, high]);
        let known = self.kind_of(number)?;
        if size > M::BODY_SIZE_MAX {
            let reason = Reason::TooLong { size, size_max: M::BODY_SIZE_MAX };
            return Err(self.frame_error(0, "size", reason));
        }
        let Some(kind) = known else {
            let here = rest.len().min(size);
            self.take_descriptors(number)?;
            self.advance(HEADER_SIZE + here);
            self.skip_remaining = size - here;
            return Ok(Some(Received::Unknown { kind: number }));
        };
        let Some(body) = rest.get(..size) else { return self.need_more(kind.descriptors()) };
        let mut reader = Reader::new(kind.name, body, self.peer);
        let message = M::read(kind, &mut reader).and_then(|message| {
            reader.end()?;
            Ok(message)
        });
        let (at, peer) = (reader.begin(), reader.peer());
        let message = message.map_err(|fault| self.error_at(HEADER_SIZE + at, fault))?;
        let descriptors = self.take_descriptors(number)?;
        self.peer = peer;
        self.advance(HEADER_SIZE + size);
        Ok(Some(Received::Message { message, descriptors }))
    }

    /// Returns the message kind with this number; `None` if the kind is unknown and the message can
    /// be skipped. Fails for an unknown kind if the peer is not newer, or if the number stands for
    /// more than [`DESCRIPTORS_MAX`] descriptors.
    fn kind_of(&self, number: u16) -> Result<Option<Kind>, DecodeError> {
        let known = M::KINDS.iter().find(|kind| kind.number == number);
        let may_be_unknown = is_newer(self.peer) && descriptors_of(number) <= DESCRIPTORS_MAX;
        match known {
            None if !may_be_unknown => {
                Err(self.frame_error(4, "kind", Reason::UnknownKind { kind: number }))
            }
            known => Ok(known.copied()),
        }
    }

    /// Returns `None`, which requests more bytes from the caller. Fails if more than `permitted`
    /// descriptors are unassigned. Without any byte of a message, none are permitted, because
    /// descriptors belong to a message whose first byte has arrived.
    fn need_more(&self, permitted: usize) -> Result<Option<Received<M, D>>, DecodeError> {
        match self.descriptors.len() {
            count if count > permitted => {
                Err(self.frame_error(0, "descriptors", Reason::UnexpectedDescriptors { count }))
            }
            _ => Ok(None),
        }
    }

    /// Removes and returns the descriptors of a message of kind `number`.
    fn take_descriptors(&mut self, number: u16) -> Result<Vec<D>, DecodeError> {
        let (expected, actual) = (descriptors_of(number), self.descriptors.len());
        if expected > actual {
            let reason = Reason::DescriptorsMissing { expected, actual };
            return Err(self.frame_error(0, "descriptors", reason));
        }
        Ok(self.descriptors.drain(..expected).collect())
    }

    /// Marks the next `size` bytes as decoded.
    fn advance(&mut self, size: usize) {
        self.consumed += size;
        self.offset += size as u64;
    }

    /// Makes an error in a frame. `at` is the error's offset from the first undecoded byte.
    fn frame_error(&self, at: usize, field: &'static str, reason: Reason) -> DecodeError {
        self.error_at(at, Fault { message: "frame", field, reason })
    }

    fn error_at(&self, at: usize, fault: Fault) -> DecodeError {
        DecodeError { offset: self.offset + at as u64, fault }
    }
}
