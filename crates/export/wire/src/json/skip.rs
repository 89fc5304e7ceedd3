//! Passing over a value that nobody asked for, however deep it is nested: without recursion.

use super::Reader;
use crate::fault::{Reason, Result};

impl Reader<'_> {
    /// Passes over the next value.
    pub(crate) fn skip(&mut self) -> Result<()> {
        // What is open: a bit for each, 1 is an object. Above them is a 1 that ends them.
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

    /// Passes over a value, or the begin of one that others are in. Whether there are.
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
        // There are 120 at most, for which there are bits.
        if depth >= self.limits.depth {
            return Err(Reason::TooDeep.at(self.at));
        }
        *open = *open << 1 | u128::from(is_object);
        if is_object {
            self.skip_key()?;
        }
        Ok(true)
    }

    /// Passes over what is behind a value: an end, after which there may be more of them, or a
    /// comma.
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
