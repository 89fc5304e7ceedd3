//! From what a socket gives to messages. Start at [`Decoder`].

use crate::fault::{DecodeError, Fault, Reason};
use crate::limits::DESCRIPTORS_MAX;
use crate::message::{HEADER_SIZE, Kind, Messages, descriptors_of};
use crate::version::Version;
use crate::wire::{Reader, is_newer};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;

/// Room for bytes that is kept while there are none.
const KEPT_SIZE_MAX: usize = 64 << 10;

/// Makes messages of what the other side sends, however a socket has cut it: give it what there is
/// ([`feed`](Self::feed)), and take messages until there are none ([`take`](Self::take)).
///
/// Between two feeds it holds less than one frame, and no more memory than the bytes that came and
/// what it knows of a frame from them. After an error there is nothing more to be had.
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
    /// So many of the bytes are done with.
    done: usize,
    /// So many that are to come belong to a message that is passed over.
    passed_over: usize,
    /// Place of the first byte that is not done with, in all that came.
    offset: u64,
    /// Those that came, and that no message has taken.
    descriptors: VecDeque<D>,
    /// What the other side speaks, once it has said so.
    peer: Option<Version>,
    error: Option<DecodeError>,
    messages: PhantomData<fn() -> M>,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<M, D = OwnedFd> {
    /// A message, and as many descriptors as belong to its kind.
    Message {
        /// The message.
        message: M,
        /// What came with it.
        descriptors: Vec<D>,
    },
    /// A message of a newer minor version, which was passed over. A request must be answered
    /// nevertheless.
    Unknown {
        /// Its kind.
        kind: u16,
    },
}

impl<M, D> Default for Decoder<M, D> {
    fn default() -> Self {
        Decoder {
            bytes: Vec::new(),
            done: 0,
            passed_over: 0,
            offset: 0,
            descriptors: VecDeque::new(),
            peer: None,
            error: None,
            messages: PhantomData,
        }
    }
}

impl<M: Messages, D> Decoder<M, D> {
    /// For a new connection.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Takes what came from the socket: bytes, and the descriptors that came with any of them.
    pub fn feed(&mut self, bytes: &[u8], descriptors: impl IntoIterator<Item = D>) {
        if self.error.is_some() {
            return;
        }
        self.descriptors.extend(descriptors);
        self.bytes.drain(..self.done);
        self.done = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_SIZE_MAX {
            self.bytes = Vec::new();
        }
        let passed_over = self.passed_over.min(bytes.len());
        self.passed_over -= passed_over;
        self.offset += passed_over as u64;
        self.bytes.extend_from_slice(&bytes[passed_over..]);
    }

    /// The next message; `None` if more bytes are needed, or if others come from now on, as behind
    /// an [`Opening`](crate::Opening) or an [`Answer`](crate::Answer). To be called until then.
    pub fn take(&mut self) -> Result<Option<Received<M, D>>, DecodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if M::ONCE && self.peer.is_some() {
            return Ok(None);
        }
        self.step().inspect_err(|error| {
            self.error = Some(*error);
            // A connection that is of no use any more keeps nothing.
            self.bytes = Vec::new();
            self.done = 0;
            self.descriptors = VecDeque::new();
        })
    }

    /// For the messages that come from now on. What was fed is kept.
    pub fn followed_by<N: Messages>(self) -> Decoder<N, D> {
        Decoder {
            bytes: self.bytes,
            done: self.done,
            passed_over: self.passed_over,
            offset: self.offset,
            descriptors: self.descriptors,
            peer: self.peer,
            error: self.error,
            messages: PhantomData,
        }
    }

    /// Whether the stream may end here, after all messages have been taken.
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.error {
            Some(error) => Err(error),
            None if self.done < self.bytes.len() || self.passed_over > 0 => {
                Err(self.frame_error(self.bytes.len() - self.done, "", Reason::Cut))
            }
            None => Ok(()),
        }
    }

    /// Bytes and descriptors that wait for those that belong to them.
    pub fn waiting(&self) -> (usize, usize) {
        (self.bytes.len() - self.done, self.descriptors.len())
    }

    /// What the other side speaks, once it has said so.
    pub fn peer(&self) -> Option<Version> {
        self.peer
    }

    /// Room for bytes.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    fn step(&mut self) -> Result<Option<Received<M, D>>, DecodeError> {
        let waiting = &self.bytes[self.done..];
        let Some((header, rest)) = waiting.split_first_chunk::<HEADER_SIZE>() else {
            let permitted = if waiting.is_empty() { 0 } else { DESCRIPTORS_MAX };
            return self.wait(permitted);
        };
        let [size @ .., _, _] = *header;
        let [.., low, high] = *header;
        let size = u32::from_le_bytes(size) as usize;
        let number = u16::from_le_bytes([low, high]);
        let known = self.known(number)?;
        if size > M::BODY_SIZE_MAX {
            let reason = Reason::TooLong { size, size_max: M::BODY_SIZE_MAX };
            return Err(self.frame_error(0, "size", reason));
        }
        let Some(kind) = known else {
            let here = rest.len().min(size);
            self.take_descriptors(number)?;
            self.advance(HEADER_SIZE + here);
            self.passed_over = size - here;
            return Ok(Some(Received::Unknown { kind: number }));
        };
        let Some(body) = rest.get(..size) else { return self.wait(kind.descriptors()) };
        let mut reader = Reader::new(kind.name, body, self.peer);
        let message = M::take(kind, &mut reader).and_then(|message| {
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

    /// The kind of that number; `None` for one that is to be passed over.
    fn known(&self, number: u16) -> Result<Option<Kind>, DecodeError> {
        let known = M::KINDS.iter().find(|kind| kind.number == number);
        let may_be_unknown = is_newer(self.peer) && descriptors_of(number) <= DESCRIPTORS_MAX;
        match known {
            None if !may_be_unknown => {
                Err(self.frame_error(4, "kind", Reason::UnknownKind { kind: number }))
            }
            known => Ok(known.copied()),
        }
    }

    /// More bytes are needed. Until then there may be so many descriptors: what came before the
    /// bytes of a message belongs to another.
    fn wait(&self, permitted: usize) -> Result<Option<Received<M, D>>, DecodeError> {
        match self.descriptors.len() {
            count if count > permitted => {
                Err(self.frame_error(0, "descriptors", Reason::DescriptorsLeft { count }))
            }
            _ => Ok(None),
        }
    }

    /// Those that belong to a message of that kind.
    fn take_descriptors(&mut self, number: u16) -> Result<Vec<D>, DecodeError> {
        let (expected, actual) = (descriptors_of(number), self.descriptors.len());
        if expected > actual {
            let reason = Reason::DescriptorsMissing { expected, actual };
            return Err(self.frame_error(0, "descriptors", reason));
        }
        Ok(self.descriptors.drain(..expected).collect())
    }

    /// So many bytes are done with.
    fn advance(&mut self, size: usize) {
        self.done += size;
        self.offset += size as u64;
    }

    /// What is wrong with a frame, so many bytes behind what is done with.
    fn frame_error(&self, at: usize, field: &'static str, reason: Reason) -> DecodeError {
        self.error_at(at, Fault { message: "frame", field, reason })
    }

    fn error_at(&self, at: usize, fault: Fault) -> DecodeError {
        DecodeError { offset: self.offset + at as u64, fault }
    }
}
