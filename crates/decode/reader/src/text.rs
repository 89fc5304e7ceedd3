//! Text buffer for lines that consist of many small pieces.
//!
//! A piece is written in whole chunks of fixed size, and only its own bytes count. Such a write is
//! two store instructions; a copy of variable length would be a function call. A chunk that does
//! not fit into the capacity is not written; its size only increases the text's length, so no write
//! has to grow the buffer. [`Text::append`] grows the buffer afterwards and repeats the line.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};

/// Buffer of text that grows as lines are appended.
#[derive(Clone, Default)]
pub struct Text {
    /// Bytes of the text, followed by spare capacity.
    bytes: Vec<u8>,
    /// Length of the text in bytes; larger than the buffer after an overflow. Blocks of text are
    /// small, so the sum of this length and a chunk's size needs no overflow check.
    length: u32,
}

/// Bytes of any length that are appended often, stored in chunks.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    chunks: Vec<[u8; CHUNK]>,
    /// Number of unused bytes at the end of the last chunk.
    padding: usize,
}

const CHUNK: usize = 32;

/// Maximum number of appended bytes for which [`Text::append`] grows the buffer: 128 MiB, eight
/// times the size of the largest event.
const APPENDED_MAX: u32 = 128 << 20;

impl Text {
    /// Makes an empty text whose buffer has a capacity of `size` bytes.
    pub fn with_room(size: usize) -> Text {
        Text { bytes: vec![0; size], length: 0 }
    }

    /// Removes all text, and keeps the buffer's capacity.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Shortens the text to at most `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length as u32);
    }

    /// Returns the text that `print` appends, or an empty text if it exceeds the limit of
    /// [`Text::append`].
    pub fn from_print(print: impl FnMut(&mut Text)) -> Text {
        let mut text = Text::default();
        let _ = text.append(print);
        text
    }

    /// Returns the capacity of the buffer in bytes.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Calls `print`, which appends to the text. If the capacity is too small, grows the buffer and
    /// calls `print` again. Returns `None`, with the text unchanged, if `print` appends more than
    /// 128 MiB and the capacity is too small.
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

    /// Passes the `N` bytes after the text to `write`. The result of `write` is the number of these
    /// bytes that become part of the text. If the capacity is too small, counts `N` bytes without
    /// calling `write`.
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
            // The counted bytes might fit, but `write` needs all `N`.
            None => self.count_overflow(N),
        }
    }

    /// Appends the first `count` bytes of `chunk`. Copies the whole chunk, because a copy of
    /// constant size is faster, but advances the length by `count` only.
    #[inline(always)]
    pub fn push_some<const N: usize>(&mut self, chunk: [u8; N], count: usize) {
        self.push_with(|place| {
            *place = chunk;
            count
        });
    }

    /// Appends a single byte.
    #[inline(always)]
    pub fn push(&mut self, byte: u8) {
        self.push_some([byte], 1);
    }

    /// Appends an array of bytes whose length is known at compile time.
    #[inline(always)]
    pub fn push_all<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.push_some(*bytes, N);
    }

    /// Appends a slice of bytes of any length.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.length as usize;
        match self.bytes.get_mut(start..start + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.length += bytes.len() as u32;
            }
            None => self.count_overflow(bytes.len()),
        }
    }

    /// Raises the text's length to at least the capacity, and adds `size` bytes that were not
    /// written.
    #[inline(always)]
    fn count_overflow(&mut self, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.length = self.length.max(self.bytes.len() as u32).saturating_add(size);
    }

    /// Appends the bytes of a piece.
    #[inline(always)]
    pub fn push_piece(&mut self, piece: &Piece) {
        for chunk in &piece.chunks {
            self.push_some(*chunk, CHUNK);
        }
        self.length -= piece.padding as u32;
    }

    /// Returns a byte range of the text, to be overwritten.
    #[inline]
    pub fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// Replaces a byte range of the text by `bytes`, whose length may differ.
    pub fn replace(&mut self, range: Range<usize>, bytes: &[u8]) {
        let behind = self[range.end..].to_vec();
        self.truncate(range.start);
        // The text is hardly longer than before, so this cannot fail.
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
    /// Returns true if the piece has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Makes a piece that contains `bytes`.
    pub fn new(bytes: &[u8]) -> Piece {
        let mut piece = Piece::default();
        piece.set([bytes]);
        piece
    }

    /// Replaces the piece's bytes by the concatenation of `parts`. Reuses the piece's memory.
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
            let mut text = Text::from_print(|text| text.extend_from_slice(b"from here to there"));
            text.replace(5..9, new.as_bytes());
            assert_eq!(*text, *format!("from {new} to there").as_bytes());
        }
    }
}
