//! JSON pull parser. Start at [`Reader`].
//!
//! The parser is hand-written, although good crates exist, because a collector spends most of its
//! time here, and because the parser must accept everything that Zipkin accepts: numbers for text,
//! text for numbers, and trailing bytes. serde_json is the oracle in the tests. The parser is 2.7
//! times as fast as serde_json for a Zipkin span, and 4.5 times as fast for an OpenTelemetry span
//! (measured by `cargo xtask bench wire`). In this comparison only the parser checks all rules of
//! the formats; serde_json just fills structures: for Zipkin with borrowed text, without decoding
//! escapes, for OpenTelemetry the types of OpenTelemetry's own library.
//!
//! The parser allocates only for escaped text and invalid UTF-8; all other text is borrowed. Each
//! key is first compared with the key that followed the previous key in earlier objects
//! ([`KeyOrder`]). The ends of strings are searched 16 bytes at a time.

mod number;
mod scan;
mod skip;
mod spans;
#[cfg(test)]
mod tests;

pub(crate) use spans::{ItemError, spans};

use crate::arena::Arena;
use crate::error::{Fault, Reason, Result};
use crate::limits::Limits;

/// JSON text of a batch, with a read position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'t> {
    bytes: &'t [u8],
    /// The batch as text, if it is valid UTF-8.
    text: Option<&'t str>,
    at: usize,
    arena: &'t Arena,
    limits: &'t Limits,
}

/// A key in its encoded form, with quotes and colon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedKey {
    quoted: &'static [u8],
    /// First 16 bytes of the encoded key; `mask` selects the bytes in use.
    head: u128,
    mask: u128,
}

/// Prediction of the next key: the key that followed the previous key in earlier objects. Most
/// senders write the keys of all objects in the same order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyOrder<const COUNT: usize> {
    first: u8,
    next: [u8; COUNT],
}

/// Defines tables of keys, with constants for their indexes.
macro_rules! keys {
    ($($(#[$doc:meta])* $table:ident { $($key:ident = $name:literal,)* })*) => {
        $($(#[$doc])*
        #[allow(dead_code, reason = "the last key of a table is what is left where it is matched")]
        pub(crate) mod $table {
            use crate::json::{EncodedKey, KeyOrder};
            #[allow(non_camel_case_types, reason = "they are only counted")]
            #[allow(clippy::upper_case_acronyms, reason = "they are only counted")]
            enum Index { $($key,)* COUNT }
            $(pub(crate) const $key: usize = Index::$key as usize;)*
            pub(crate) const COUNT: usize = Index::COUNT as usize;
            pub(crate) static NAMES: [EncodedKey; COUNT] =
                [$(EncodedKey::new(concat!("\"", $name, "\":").as_bytes()),)*];
            pub(crate) type Keys = KeyOrder<COUNT>;
        })*
    };
}
pub(crate) use keys;

impl EncodedKey {
    pub(crate) const fn new(quoted: &'static [u8]) -> EncodedKey {
        let (mut head, mut mask, mut index) = ([0; 16], [0; 16], 0);
        while index < 16 && index < quoted.len() {
            head[index] = quoted[index];
            mask[index] = 0xff;
            index += 1;
        }
        EncodedKey { quoted, head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask) }
    }

    /// Returns the text of the key without quotes and colon.
    fn bare(&self) -> &'static [u8] {
        self.quoted.get(1..self.quoted.len() - 2).unwrap_or_default()
    }

    /// Returns true if the input continues with this key.
    #[inline]
    fn is_at(&self, head: u128, rest: &[u8]) -> bool {
        (head ^ self.head) & self.mask == 0
            && (self.quoted.len() <= 16 || rest.starts_with(self.quoted))
    }
}

/// The initial prediction is the order of the keys in the table.
impl<const COUNT: usize> Default for KeyOrder<COUNT> {
    fn default() -> KeyOrder<COUNT> {
        KeyOrder { first: 0, next: std::array::from_fn(|index| ((index + 1) % COUNT) as u8) }
    }
}

impl<'t> Reader<'t> {
    pub(crate) fn new(bytes: &'t [u8], arena: &'t Arena, limits: &'t Limits) -> Reader<'t> {
        let text = std::str::from_utf8(bytes).ok();
        Reader { bytes, text, at: 0, arena, limits }
    }

    /// Returns a copy of the reader with `arena` as the storage of strings that cannot be borrowed.
    #[inline]
    pub(crate) fn with<'s>(&self, arena: &'s Arena) -> Reader<'s>
    where
        't: 's,
    {
        Reader { arena, ..*self }
    }

    pub(crate) fn arena(&self) -> &'t Arena {
        self.arena
    }

    pub(crate) fn limits(&self) -> &'t Limits {
        self.limits
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the bytes from the read position on.
    #[inline]
    pub(crate) fn rest(&self) -> &'t [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Skips blanks and returns the next byte.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => Ok(*byte),
            _ => self.peek_after_blanks(),
        }
    }

    fn peek_after_blanks(&mut self) -> Result<u8> {
        let rest = self.rest();
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += blanks.count();
        self.bytes.get(self.at).copied().ok_or_else(|| Reason::Ends.at(self.at))
    }

    /// Returns true if only blanks remain.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_err()
    }

    /// Creates a fault at the read position: `what` was expected there.
    #[cold]
    pub(crate) fn expected(&self, what: &'static str) -> Box<Fault> {
        Reason::Expected(what).at(self.at)
    }

    /// Skips the byte `byte`, or returns a fault if another byte is next.
    #[inline]
    fn punctuation(&mut self, byte: u8, what: &'static str) -> Result<()> {
        if self.peek()? != byte {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips `null` if it is the next value. Returns true if `null` was skipped.
    #[inline]
    pub(crate) fn null(&mut self) -> Result<bool> {
        if self.peek()? != b'n' {
            return Ok(false);
        }
        self.word(b"null").map(|()| true)
    }

    fn word(&mut self, word: &'static [u8]) -> Result<()> {
        if !self.rest().starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    pub(crate) fn boolean(&mut self) -> Result<bool> {
        match self.peek()? {
            b't' => self.word(b"true").map(|()| true),
            b'f' => self.word(b"false").map(|()| false),
            _ => Err(self.expected("true or false")),
        }
    }

    /// Enters an object. Returns true if it has keys.
    #[inline]
    pub(crate) fn open_object(&mut self) -> Result<bool> {
        self.punctuation(b'{', "an object")?;
        let is_empty = self.peek()? == b'}';
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    /// Skips the comma or closing brace after a value. Returns true if the object has more keys.
    #[inline]
    pub(crate) fn more_keys(&mut self) -> Result<bool> {
        self.more(b'}', "',' or '}'")
    }

    /// Reads an object: calls `value` with the index of each key in the table and skips the values
    /// of unknown keys.
    #[inline]
    pub(crate) fn object<const COUNT: usize>(
        &mut self,
        names: &'static [EncodedKey; COUNT],
        order: &mut KeyOrder<COUNT>,
        mut value: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        if !self.open_object()? {
            return Ok(());
        }
        let mut last = None;
        loop {
            match self.key(names, order, last)? {
                Some(key) => {
                    value(self, key)?;
                    last = Some(key);
                }
                None => self.skip()?,
            }
            if !self.more_keys()? {
                return Ok(());
            }
        }
    }

    /// Reads an object with arbitrary keys: calls `value` for each key.
    #[inline]
    pub(crate) fn map(
        &mut self,
        mut value: impl FnMut(&mut Self, &'t str) -> Result<()>,
    ) -> Result<()> {
        if !self.open_object()? {
            return Ok(());
        }
        loop {
            self.peek()?;
            let key = self.string()?;
            self.punctuation(b':', "':'")?;
            value(self, key)?;
            if !self.more_keys()? {
                return Ok(());
            }
        }
    }

    /// Reads a list: calls `item` for each item.
    #[inline]
    pub(crate) fn list(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !self.open_list()? {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.more_items()? {
                return Ok(());
            }
        }
    }

    /// Enters a list. Returns true if it has items.
    pub(crate) fn open_list(&mut self) -> Result<bool> {
        self.punctuation(b'[', "a list")?;
        let is_empty = self.peek()? == b']';
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    /// Skips the comma or closing bracket after an item. Returns true if the list has more items.
    #[inline]
    pub(crate) fn more_items(&mut self) -> Result<bool> {
        self.more(b']', "',' or ']'")
    }

    #[inline]
    fn more(&mut self, close: u8, what: &'static str) -> Result<bool> {
        let byte = self.peek()?;
        if byte != b',' && byte != close {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(byte == b',')
    }

    /// Reads the next key with its colon and returns the key's index in the table; `None` for an
    /// unknown key. `order` predicts the key from `last`, the index of the previous known key.
    #[inline]
    pub(crate) fn key<const COUNT: usize>(
        &mut self,
        names: &'static [EncodedKey; COUNT],
        order: &mut KeyOrder<COUNT>,
        last: Option<usize>,
    ) -> Result<Option<usize>> {
        self.peek()?;
        let guess = match last {
            Some(last) => &mut order.next[last],
            None => &mut order.first,
        };
        let rest = self.rest();
        if let Some(head) = rest.first_chunk().copied().map(u128::from_le_bytes) {
            let guessed = usize::from(*guess);
            if names[guessed].is_at(head, rest) {
                self.at += names[guessed].quoted.len();
                return Ok(Some(guessed));
            }
            if let Some(key) = names.iter().position(|name| name.is_at(head, rest)) {
                self.at += names[key].quoted.len();
                *guess = key as u8;
                return Ok(Some(key));
            }
        }
        let key = self.string()?;
        self.punctuation(b':', "':'")?;
        Ok(names.iter().position(|name| name.bare() == key.as_bytes()))
    }
}
