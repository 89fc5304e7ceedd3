//! Frames: a length of four bytes in big-endian order, then the body.
//!
//! [`Frames`] splits the received bytes into frames. [`FrameError`] reports peers of another
//! protocol, which are recognized by their first bytes.

use std::fmt;

/// Size of a frame's length field, in bytes.
pub(crate) const HEADER_BYTES: usize = 4;

/// Splitter of received bytes into frames.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Maximum size of a frame's body, in bytes.
    pub frame_bytes_max: usize,
}

/// Reason why received bytes are not an acceptable frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The bytes are HTTP.
    Http,
    /// The bytes are TLS.
    Tls,
    /// The bytes are Thrift without frames.
    Unframed,
    /// The frame exceeds the limit.
    TooLarge {
        /// Size of the body in bytes, according to the frame's length field.
        bytes: u32,
        /// Maximum size of a body, in bytes.
        bytes_max: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Http => write!(f, "that is HTTP; here is Scribe's protocol"),
            FrameError::Tls => {
                write!(f, "that is TLS; here is Scribe's protocol, without encryption")
            }
            FrameError::Unframed => {
                write!(f, "that is Thrift without frames; use its framed transport")
            }
            FrameError::TooLarge { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes; {bytes_max} are permitted")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// First bytes of HTTP requests and responses.
const HTTP: [&[u8; 4]; 9] =
    [b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"OPTI", b"DELE", b"PATC", b"PRI "];

impl Frames {
    /// Returns the size of the first frame, including its length field; `None` if the length field
    /// is incomplete.
    ///
    /// HTTP, TLS, unframed Thrift in the strict encoding, and too large frames are detected from
    /// the length field alone.
    pub fn size(self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        if HTTP.contains(&head) {
            return Err(FrameError::Http);
        }
        match head {
            [0x16, 3, 0..=4, _] => return Err(FrameError::Tls),
            [0x80, 1, 0, _] => return Err(FrameError::Unframed),
            _ => {}
        }
        let size = u32::from_be_bytes(*head);
        let large = FrameError::TooLarge { bytes: size, bytes_max: self.frame_bytes_max };
        let Ok(size) = usize::try_from(size) else { return Err(large) };
        if size > self.frame_bytes_max {
            return Err(large);
        }
        Ok(Some(HEADER_BYTES + size))
    }

    /// Returns the body of the first frame and the size of the whole frame; `None` if the frame is
    /// incomplete.
    pub fn next(self, bytes: &[u8]) -> Result<Option<(&[u8], usize)>, FrameError> {
        let Some(size) = self.size(bytes)? else { return Ok(None) };
        let Some(body) = bytes.get(HEADER_BYTES..size) else { return Ok(None) };
        // An unframed message in the old encoding begins with the length of its name and the name.
        if !body.is_empty() && body.len() < SMALLEST_MESSAGE && body.iter().all(is_name_byte) {
            return Err(FrameError::Unframed);
        }
        Ok(Some((body, size)))
    }
}

/// Minimum size of a message in bytes: a name of one byte with its length, type, sequence number,
/// and end of arguments.
const SMALLEST_MESSAGE: usize = 4 + 1 + 1 + 4 + 1;

fn is_name_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Reserves space for a frame's length and returns its offset.
pub(crate) fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

/// Sets the length of the frame that begins at `start` and ends at the end of `out`.
pub(crate) fn close(out: &mut [u8], start: usize) {
    let size = out.len().saturating_sub(start + HEADER_BYTES) as u32;
    if let Some(place) = out.get_mut(start..start + HEADER_BYTES) {
        place.copy_from_slice(&size.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_frame_is_named() {
        let check = |bytes: &[u8], expected| {
            let frames = Frames { frame_bytes_max: 1000 };
            assert_eq!(frames.next(bytes).map(|found| found.map(|(_, size)| size)), expected);
        };
        check(b"", Ok(None));
        check(&[0, 0, 0], Ok(None));
        check(&[0, 0, 0, 0], Ok(Some(4)));
        check(&[0, 0, 0, 2, 7], Ok(None));
        check(&[0, 0, 0, 2, 7, 8, 9], Ok(Some(6)));
        check(&[0, 0, 3, 0xe8], Ok(None));
        check(&[0, 0, 3, 0xe9], Err(FrameError::TooLarge { bytes: 1001, bytes_max: 1000 }));
        check(&[0xff; 4], Err(FrameError::TooLarge { bytes: u32::MAX, bytes_max: 1000 }));
        check(b"GET / HTTP/1.1", Err(FrameError::Http));
        check(b"POST", Err(FrameError::Http));
        check(&[0x16, 3, 1, 2], Err(FrameError::Tls));
        check(&[0x80, 1, 0, 1], Err(FrameError::Unframed));
        check(b"\0\0\0\x03Log\x01\0\0\0\0\0", Err(FrameError::Unframed));
        check(b"\0\0\0\x09getStatus\x01\0\0\0\0\0", Err(FrameError::Unframed));
    }
}
