//! String interner for all strings of reports except tag values, with limits on count, memory and
//! length. A string that the interner does not accept is stored in its request by `open_request`.

use std::collections::HashMap;
use std::sync::Arc;

/// Number of a string in an [`Interner`] or, with the upper bit set, of a string stored in one
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(pub(crate) u32);

/// Bit that marks strings of one request.
pub(crate) const REQUEST_LOCAL: u32 = 1 << 31;

/// Predefined strings: the empty string, core annotations and other keys of Zipkin. The index of a
/// string is its [`Symbol`].
const KNOWN: [&str; 13] =
    ["", "cs", "cr", "sr", "ss", "ms", "mr", "ws", "wr", "ca", "sa", "ma", "lc"];

impl Symbol {
    pub(crate) const NONE: Symbol = Symbol(0);
    pub(crate) const CLIENT_SEND: Symbol = Symbol(1);
    pub(crate) const CLIENT_RECEIVE: Symbol = Symbol(2);
    pub(crate) const SERVER_RECEIVE: Symbol = Symbol(3);
    pub(crate) const SERVER_SEND: Symbol = Symbol(4);
    pub(crate) const MESSAGE_SEND: Symbol = Symbol(5);
    pub(crate) const MESSAGE_RECEIVE: Symbol = Symbol(6);
    pub(crate) const WIRE_SEND: Symbol = Symbol(7);
    pub(crate) const WIRE_RECEIVE: Symbol = Symbol(8);
    pub(crate) const CLIENT_ADDRESS: Symbol = Symbol(9);
    pub(crate) const SERVER_ADDRESS: Symbol = Symbol(10);
    pub(crate) const MESSAGE_ADDRESS: Symbol = Symbol(11);
    pub(crate) const LOCAL_COMPONENT: Symbol = Symbol(12);

    pub(crate) fn is_none(self) -> bool {
        self == Symbol::NONE
    }
}

/// Table that stores each interned string once, under its symbol.
#[derive(Debug)]
pub(crate) struct Interner {
    texts: Vec<Arc<str>>,
    bytes: usize,
    numbers: HashMap<Arc<str>, u32>,
    /// Direct-mapped cache in front of `numbers`, indexed by a cheap hash.
    guesses: Box<[u32; GUESSES]>,
}

const GUESSES: usize = 1024;
const COUNT_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 4 << 20;
/// Maximum length of an interned string, in bytes. Longer strings rarely repeat.
const SIZE_MAX: usize = 128;

impl Interner {
    pub(crate) fn new() -> Interner {
        let mut interner = Interner {
            texts: Vec::new(),
            bytes: 0,
            numbers: HashMap::new(),
            guesses: Box::new([0; GUESSES]),
        };
        for text in KNOWN {
            interner.keep(text);
        }
        interner
    }

    /// Returns the symbol of a string; `None` if the string is new and the interner is full, or the
    /// string is too long.
    #[inline]
    pub(crate) fn intern(&mut self, text: &str) -> Option<Symbol> {
        let place = guess(text.as_bytes());
        let number = self.guesses[place];
        if *self.texts[number as usize] == *text {
            return Some(Symbol(number));
        }
        let symbol = match self.numbers.get(text) {
            Some(number) => Symbol(*number),
            None => self.keep(text)?,
        };
        self.guesses[place] = symbol.0;
        Some(symbol)
    }

    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0 as usize).map_or("", |text| text)
    }

    #[cold]
    fn keep(&mut self, text: &str) -> Option<Symbol> {
        let is_full = self.texts.len() >= COUNT_MAX || self.bytes + text.len() > BYTES_MAX;
        if is_full || text.len() > SIZE_MAX {
            return None;
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        let text: Arc<str> = text.into();
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        Some(Symbol(number))
    }
}

/// Returns a hash of the length and at most 16 bytes: the first 8 and the last 8.
#[inline]
fn guess(text: &[u8]) -> usize {
    let half = |bytes: &[u8]| {
        let mut half = [0; 8];
        let size = bytes.len().min(8);
        half[..size].copy_from_slice(&bytes[..size]);
        u64::from_le_bytes(half)
    };
    let (first, last) = (half(text), half(&text[text.len().saturating_sub(8)..]));
    let mixed =
        (first ^ last.rotate_left(23) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_one_word() {
        let mut interner = Interner::new();
        let texts = ["", "cs", "lc", "osd.3", "osd.4", "a text that is longer than 16 bytes", "ä"];
        let numbers: Vec<_> = texts.iter().map(|text| interner.intern(text)).collect();
        for (text, number) in texts.iter().zip(&numbers) {
            assert_eq!(interner.intern(text), *number, "{text}");
            assert_eq!(interner.text(number.expect("room")), *text);
        }
        assert_eq!(interner.intern("cs"), Some(Symbol::CLIENT_SEND));
        assert_eq!(interner.intern("lc"), Some(Symbol::LOCAL_COMPONENT));
        assert_eq!(interner.intern("sa"), Some(Symbol::SERVER_ADDRESS));
        assert_eq!(interner.intern(""), Some(Symbol::NONE));
    }

    #[test]
    fn room_is_limited() {
        let mut interner = Interner::new();
        assert_eq!(interner.intern(&"x".repeat(SIZE_MAX + 1)), None);
        assert!((0..COUNT_MAX).any(|number| interner.intern(&number.to_string()).is_none()));
        assert_eq!(interner.texts.len(), COUNT_MAX);
        assert_eq!(interner.intern("one more"), None);
        assert_eq!(interner.intern("cr"), Some(Symbol::CLIENT_RECEIVE));
    }
}
