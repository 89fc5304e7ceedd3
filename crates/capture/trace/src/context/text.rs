//! Short texts in fixed-size buffers, so that headers are written without allocation.

use std::fmt;

/// An ASCII text of at most `SIZE_MAX` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const SIZE_MAX: usize> {
    bytes: [u8; SIZE_MAX],
    size: usize,
}

impl<const SIZE_MAX: usize> Text<SIZE_MAX> {
    pub(super) const fn new() -> Text<SIZE_MAX> {
        Text { bytes: [b' '; SIZE_MAX], size: 0 }
    }

    /// Appends a byte; `?` in place of a byte that is not ASCII. A byte beyond `SIZE_MAX` is
    /// dropped, so callers choose a sufficient `SIZE_MAX`.
    pub(super) fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.size) {
            *slot = if byte.is_ascii() { byte } else { b'?' };
            self.size += 1;
        }
    }

    /// Appends a number as 16 hexadecimal digits. Does nothing if the digits do not fit.
    pub(super) fn push_hex(&mut self, mut number: u64) {
        let rest = self.bytes.get_mut(self.size..).unwrap_or_default();
        let Some(digits) = rest.first_chunk_mut::<16>() else { return };
        for digit in digits.iter_mut().rev() {
            let value = (number & 15) as u8;
            *digit = value + if value < 10 { b'0' } else { b'a' - 10 };
            number >>= 4;
        }
        self.size += 16;
    }

    /// Returns the text as a string; only ASCII bytes are ever appended.
    pub fn as_str(&self) -> &str {
        // All bytes are ASCII, and `size` is at most `SIZE_MAX`.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.size).unwrap_or_default()
    }
}

impl<const SIZE_MAX: usize> fmt::Display for Text<SIZE_MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const SIZE_MAX: usize> fmt::Debug for Text<SIZE_MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<const SIZE_MAX: usize> AsRef<str> for Text<SIZE_MAX> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
