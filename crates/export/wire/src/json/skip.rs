//! Skips values of any permitted depth, without recursion.

use super::Reader;
use crate::error::{Reason, Result};

impl Reader<'_> {
    /// Skips the next value with all nested values.
    pub(crate) fn skip(&mut self) -> Result<()> {
        // Stack of open lists and objects, one bit each; 1 is an object. The highest 1 marks the
        // bottom of the stack.
        let mut open: u128 = 1;
        loop {
            if self.opens(&mut open)? {
                continue;
            }
            while self.closes(&mut open)? {}
            if open == 1 {
                return Ok(());
            }
        }
    }

    /// Skips a scalar or an empty list or object, and returns false. Enters any other list or
    /// object up to its first value, and returns true.
    fn opens(&mut self, open: &mut u128) -> Result<bool> {
        let byte = self.peek()?;
        if !matches!(byte, b'{' | b'[') {
            self.skip_scalar(byte)?;
            return Ok(false);
        }
        self.at += 1;
        let is_object = byte == b'{';
        if self.peek()? == if is_object { b'}' } else { b']' } {
            self.at += 1;
            return Ok(false);
        }
        let depth = 127 - open.leading_zeros() as usize;
        // At most 120 levels are open, so 128 bits suffice.
        if depth >= self.limits.depth {
            return Err(Reason::TooDeep.at(self.at));
        }
        *open = *open << 1 | u128::from(is_object);
        if is_object {
            self.skip_key()?;
        }
        Ok(true)
    }

    /// Skips the comma after a value, in an object also the next key; or skips one closing bracket.
    /// Returns true after a bracket, since more brackets may follow.
    fn closes(&mut self, open: &mut u128) -> Result<bool> {
        if *open == 1 {
            return Ok(false);
        }
        let is_object = *open & 1 == 1;
        match (self.peek()?, is_object) {
            (b',', _) => {
                self.at += 1;
                if is_object {
                    self.skip_key()?;
                }
                Ok(false)
            }
            (b'}', true) | (b']', false) => {
                self.at += 1;
                *open >>= 1;
                Ok(true)
            }
            _ => Err(self.expected("',' or an end")),
        }
    }

    fn skip_key(&mut self) -> Result<()> {
        self.peek()?;
        self.skip_string()?;
        self.punctuation(b':', "':'")
    }

    fn skip_scalar(&mut self, byte: u8) -> Result<()> {
        match byte {
            b'"' => self.skip_string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(drop),
        }
    }
}
