//! Parser for hexadecimal digits and dashes. Its errors have the offset of the fault.

use super::{ContextError, Part, Reason};

/// Unread bytes of a header, their offset in the header, and the header's [`Part`] for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'h> {
    part: Part,
    bytes: &'h [u8],
    offset: usize,
}

impl<'h> Cursor<'h> {
    /// Returns a cursor over a header's value without the blanks around it, which do not belong to
    /// the value.
    pub(super) fn trimmed(part: Part, bytes: &'h [u8]) -> Cursor<'h> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let offset = bytes.iter().take_while(|byte| blank(byte)).count();
        let rest = bytes.get(offset..).unwrap_or_default();
        let size = rest.len() - rest.iter().rev().take_while(|byte| blank(byte)).count();
        Cursor { part, bytes: rest.get(..size).unwrap_or_default(), offset }
    }

    pub(super) fn rest(&self) -> &'h [u8] {
        self.bytes
    }

    pub(super) fn error(&self, reason: Reason) -> ContextError {
        ContextError::new(self.part, self.offset, reason)
    }

    /// Returns the error for a next byte other than `expected`, or for the end of the value.
    pub(super) fn unexpected(&self, expected: &'static str) -> ContextError {
        self.error(match self.bytes.first() {
            Some(found) => Reason::Byte { expected, found: *found },
            None => Reason::TooShort { expected },
        })
    }

    pub(super) fn skip(&mut self) {
        if let Some((_, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            self.offset += 1;
        }
    }

    pub(super) fn expect_dash(&mut self) -> Result<(), ContextError> {
        match self.bytes.first() {
            Some(b'-') => {
                self.skip();
                Ok(())
            }
            _ => Err(self.unexpected("'-'")),
        }
    }

    pub(super) fn expect_end(&self) -> Result<(), ContextError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.error(Reason::TrailingBytes)) }
    }

    /// Parses exactly `digits` lower-case hexadecimal digits.
    pub(super) fn read_hex(&mut self, digits: usize) -> Result<u128, ContextError> {
        let mut number = 0;
        for _ in 0..digits {
            let digit = match self.bytes.first() {
                Some(byte @ b'0'..=b'9') => byte - b'0',
                Some(byte @ b'a'..=b'f') => byte - b'a' + 10,
                _ => return Err(self.unexpected("a digit of 0-9a-f")),
            };
            number = number << 4 | u128::from(digit);
            self.skip();
        }
        Ok(number)
    }

    /// Parses exactly `digits` hexadecimal digits as an id; `make` returns `None` for an invalid
    /// number.
    pub(super) fn read_id<T>(
        &mut self,
        digits: usize,
        make: impl FnOnce(u128) -> Option<T>,
    ) -> Result<T, ContextError> {
        let start = *self;
        make(self.read_hex(digits)?).ok_or(start.error(Reason::Zero))
    }

    /// Returns the number of bytes before the next dash or the end.
    pub(super) fn word_size(&self) -> usize {
        self.bytes.iter().take_while(|byte| **byte != b'-').count()
    }
}
