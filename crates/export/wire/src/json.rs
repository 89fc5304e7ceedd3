//! JSON read in one pass, from bytes to a caller who knows what it expects. Start at [`Reader`].
//!
//! By hand, although there are good crates, because it is where a collector's time goes, and because
//! it takes what Zipkin takes: numbers for text and text for numbers, and anything behind the end.
//! Beside serde_json, which is the oracle of the tests, a span of Zipkin's takes 1/2.7 of the time
//! with all of Zipkin's rules kept, where serde_json only fills structures with borrowed text and
//! could not take text with escapes; a span of OpenTelemetry's takes 1/4.5. `cargo xtask bench wire`
//! measures it.
//!
//! What is fast is that nothing is built: text is borrowed, a key is compared with the one that
//! followed the last key before ([`Order`]), and ends of strings are looked for in 16 bytes at once.

mod number;
mod scan;
mod skip;
mod spans;
#[cfg(test)]
mod tests;

pub(crate) use spans::{Refused, spans};

use crate::Limits;
use crate::fault::{Fault, Reason, Result};
use crate::texts::Texts;

/// A batch that is read from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'t> {
    bytes: &'t [u8],
    /// The same, if all of it is text, as it should be.
    text: Option<&'t str>,
    at: usize,
    texts: &'t Texts,
    limits: &'t Limits,
}

/// A key as it stands in a batch, with quotes and colon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    quoted: &'static [u8],
    /// Its first 16 bytes, and which of them there are.
    head: u128,
    mask: u128,
}

/// Which key followed which in the objects before: most senders write all of them alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<const COUNT: usize> {
    first: u8,
    next: [u8; COUNT],
}

/// Tables of keys, and the index of each.
macro_rules! keys {
    ($($(#[$doc:meta])* $table:ident { $($key:ident = $name:literal,)* })*) => {
        $($(#[$doc])*
        #[allow(dead_code, reason = "the last key of a table is what is left where it is matched")]
        pub(crate) mod $table {
            use crate::json::{Name, Order};
            #[allow(non_camel_case_types, reason = "they are only counted")]
            #[allow(clippy::upper_case_acronyms, reason = "they are only counted")]
            enum Index { $($key,)* COUNT }
            $(pub(crate) const $key: usize = Index::$key as usize;)*
            pub(crate) const COUNT: usize = Index::COUNT as usize;
            pub(crate) static NAMES: [Name; COUNT] =
                [$(Name::new(concat!("\"", $name, "\":").as_bytes()),)*];
            pub(crate) type Keys = Order<COUNT>;
        })*
    };
}
pub(crate) use keys;

impl Name {
    pub(crate) const fn new(quoted: &'static [u8]) -> Name {
        let (mut head, mut mask, mut index) = ([0; 16], [0; 16], 0);
        while index < 16 && index < quoted.len() {
            head[index] = quoted[index];
            mask[index] = 0xff;
            index += 1;
        }
        Name { quoted, head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask) }
    }

    /// Without quotes and colon.
    fn bare(&self) -> &'static [u8] {
        self.quoted.get(1..self.quoted.len() - 2).unwrap_or_default()
    }

    /// Whether it is next in the batch.
    #[inline]
    fn is_at(&self, head: u128, rest: &[u8]) -> bool {
        (head ^ self.head) & self.mask == 0
            && (self.quoted.len() <= 16 || rest.starts_with(self.quoted))
    }
}

/// At first, the order in which they are listed.
impl<const COUNT: usize> Default for Order<COUNT> {
    fn default() -> Order<COUNT> {
        Order { first: 0, next: std::array::from_fn(|index| ((index + 1) % COUNT) as u8) }
    }
}

impl<'t> Reader<'t> {
    pub(crate) fn new(bytes: &'t [u8], texts: &'t Texts, limits: &'t Limits) -> Reader<'t> {
        let text = std::str::from_utf8(bytes).ok();
        Reader { bytes, text, at: 0, texts, limits }
    }

    /// The same place of the same batch, with room for what is read there.
    #[inline]
    pub(crate) fn with<'s>(&self, texts: &'s Texts) -> Reader<'s>
    where
        't: 's,
    {
        Reader { texts, ..*self }
    }

    pub(crate) fn texts(&self) -> &'t Texts {
        self.texts
    }

    pub(crate) fn limits(&self) -> &'t Limits {
        self.limits
    }

    /// Where the next byte is.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// All that is left.
    #[inline]
    pub(crate) fn rest(&self) -> &'t [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The next byte that is not blank.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => Ok(*byte),
            _ => self.peek_behind_blanks(),
        }
    }

    fn peek_behind_blanks(&mut self) -> Result<u8> {
        let rest = self.rest();
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += blanks.count();
        self.bytes.get(self.at).copied().ok_or_else(|| Reason::Ends.at(self.at))
    }

    /// Whether there is nothing but blanks.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_err()
    }

    /// The next byte is something else.
    #[cold]
    pub(crate) fn expected(&self, what: &'static str) -> Box<Fault> {
        Reason::Expected(what).at(self.at)
    }

    /// Passes over a byte that must be there.
    #[inline]
    fn punctuation(&mut self, byte: u8, what: &'static str) -> Result<()> {
        if self.peek()? != byte {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(())
    }

    /// Passes over `null`, if that is next.
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

    /// Passes over an object's begin. Whether there are keys.
    #[inline]
    pub(crate) fn open_object(&mut self) -> Result<bool> {
        self.punctuation(b'{', "an object")?;
        let is_empty = self.peek()? == b'}';
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    /// Passes over what is behind a value. Whether there are more keys.
    #[inline]
    pub(crate) fn more_keys(&mut self) -> Result<bool> {
        self.more(b'}', "',' or '}'")
    }

    /// Reads an object: calls `value` behind each key that is known, by its index, and passes over
    /// the others.
    #[inline]
    pub(crate) fn object<const COUNT: usize>(
        &mut self,
        names: &'static [Name; COUNT],
        order: &mut Order<COUNT>,
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

    /// Reads an object of any keys: calls `value` behind each.
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

    /// Reads a list: calls `item` at each.
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

    /// Passes over a list's begin. Whether there are items.
    pub(crate) fn open_list(&mut self) -> Result<bool> {
        self.punctuation(b'[', "a list")?;
        let is_empty = self.peek()? == b']';
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    /// Passes over what is behind an item. Whether there are more.
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

    /// The index of the next key, if it is known. `last` is the one before.
    #[inline]
    pub(crate) fn key<const COUNT: usize>(
        &mut self,
        names: &'static [Name; COUNT],
        order: &mut Order<COUNT>,
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
