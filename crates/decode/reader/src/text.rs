//! A buffer for lines, made for many small pieces.
//!
//! A piece is written as a whole chunk of fixed size, of which some bytes count: that is two
//! stores, where copying a length that is only known here is a call. What does not fit is counted
//! but not written, so that no piece has to be able to make room, which would cost each of them
//! more than writing it does. [`Text::append`] makes room afterwards, and has the line printed
//! again.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};

/// Text that is being written.
#[derive(Clone, Default)]
pub struct Text {
    /// The text, and room for more.
    bytes: Vec<u8>,
    /// Of the text; more than there is room for, if it did not fit. Blocks of text are small, and
    /// sums of this and a place's size need no check.
    length: u32,
}

/// A piece of text of any length that is written often.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    chunks: Vec<[u8; CHUNK]>,
    /// Bytes of the last chunk that do not count.
    padding: usize,
}

const CHUNK: usize = 32;

/// Bytes that may be appended at once; the largest event of bytes takes no more.
const APPENDED_MAX: u32 = 128 << 20;

impl Text {
    /// An empty text with room for `size` bytes.
    pub fn with_room(size: usize) -> Text {
        Text { bytes: vec![0; size], length: 0 }
    }

    /// Drops all of it; the room stays.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Drops all but the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length as u32);
    }

    /// A text of what `print` prints; nothing if that is too long.
    pub fn of(print: impl FnMut(&mut Text)) -> Text {
        let mut text = Text::default();
        let _ = text.append(print);
        text
    }

    /// Bytes that it takes.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Lets `print` append to the text; again from the start with more room, if there is too
    /// little. `None`, and nothing is appended, if it is longer than anybody can mean.
    #[inline]
    pub fn append<T>(&mut self, mut print: impl FnMut(&mut Text) -> T) -> Option<T> {
        let start = self.length;
        loop {
            let result = print(self);
            if self.length as usize <= self.bytes.len() {
                return Some(result);
            }
            let is_too_long = self.length - start > APPENDED_MAX;
            if !is_too_long {
                self.grow();
            }
            self.length = start;
            if is_too_long {
                return None;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.length as usize).max(2 * self.bytes.len()) + CHUNK;
        self.bytes.resize(size, 0);
    }

    /// Lets `write` fill a place of `N` bytes behind the text, and say how many of them count.
    #[inline(always)]
    pub fn push_with<const N: usize>(&mut self, write: impl FnOnce(&mut [u8; N]) -> usize) {
        let start = self.length as usize;
        let place = self.bytes.get_mut(start..start + N).and_then(|place| place.as_mut_array());
        match place {
            Some(place) => {
                let count = write(place);
                debug_assert!(count <= N);
                self.length += count as u32;
            }
            // The bytes that count might have fitted, but not the place.
            None => self.did_not_fit(N),
        }
    }

    /// Appends the first `count` bytes of `chunk`.
    #[inline(always)]
    pub fn push_some<const N: usize>(&mut self, chunk: [u8; N], count: usize) {
        self.push_with(|place| {
            *place = chunk;
            count
        });
    }

    /// Appends a byte.
    #[inline(always)]
    pub fn push(&mut self, byte: u8) {
        self.push_some([byte], 1);
    }

    /// Appends a few bytes whose number is known to the compiler.
    #[inline(always)]
    pub fn push_all<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.push_some(*bytes, N);
    }

    /// Appends any bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.length as usize;
        match self.bytes.get_mut(start..start + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.length += bytes.len() as u32;
            }
            None => self.did_not_fit(bytes.len()),
        }
    }

    /// Counts what there is no room for.
    #[inline(always)]
    fn did_not_fit(&mut self, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.length = self.length.max(self.bytes.len() as u32).saturating_add(size);
    }

    /// Appends a piece.
    #[inline(always)]
    pub fn push_piece(&mut self, piece: &Piece) {
        for chunk in &piece.chunks {
            self.push_some(*chunk, CHUNK);
        }
        self.length -= piece.padding as u32;
    }

    /// A part of the text, to be written over.
    #[inline]
    pub fn place(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// Puts `bytes` in the place of others.
    pub fn replace(&mut self, range: Range<usize>, bytes: &[u8]) {
        let behind = self[range.end..].to_vec();
        self.truncate(range.start);
        // Not much more than there was.
        let _ = self.append(|text| {
            text.extend_from_slice(bytes);
            text.extend_from_slice(&behind);
        });
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..(self.length as usize).min(self.bytes.len())]
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self))
    }
}

impl Piece {
    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The piece of these bytes.
    pub fn new(bytes: &[u8]) -> Piece {
        let mut piece = Piece::default();
        piece.set([bytes]);
        piece
    }

    /// Makes it the piece of these parts, in the memory that it has.
    pub fn set<const N: usize>(&mut self, parts: [&[u8]; N]) {
        let mut size = 0;
        self.chunks.clear();
        for byte in parts.into_iter().flatten() {
            if size % CHUNK == 0 {
                self.chunks.push([0; CHUNK]);
            }
            if let Some(chunk) = self.chunks.last_mut() {
                chunk[size % CHUNK] = *byte;
            }
            size += 1;
        }
        self.padding = size.next_multiple_of(CHUNK) - size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_lines_of_any_size() {
        for room in [0, 1, 31, 32, 33, 1000] {
            let mut text = Text::with_room(room);
            let mut expected = Vec::new();
            for length in 0..200 {
                let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
                let piece = Piece::new(&bytes);
                text.append(|text| {
                    text.push(b'x');
                    text.push_piece(&piece);
                    text.push_some(*b"0123456789", length % 11);
                    text.extend_from_slice(&bytes);
                    text.push_all(b"end");
                });
                expected.push(b'x');
                expected.extend_from_slice(&bytes);
                expected.extend_from_slice(&b"0123456789"[..length % 11]);
                expected.extend_from_slice(&bytes);
                expected.extend_from_slice(b"end");
                assert_eq!(*text, expected, "{room} {length}");
            }
            text.truncate(10);
            assert_eq!(*text, expected[..10]);
            text.truncate(20);
            assert_eq!(text.len(), 10);
            text.clear();
            assert!(text.is_empty());
        }
    }

    #[test]
    fn replaces_a_part_by_a_longer_or_shorter_one() {
        for new in ["", "b", "longer than before"] {
            let mut text = Text::of(|text| text.extend_from_slice(b"from here to there"));
            text.replace(5..9, new.as_bytes());
            assert_eq!(*text, *format!("from {new} to there").as_bytes());
        }
    }
}
