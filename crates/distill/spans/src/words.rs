//! Texts that come again and again, each kept once: names of services, spans and events.
//!
//! How many there may be is limited. Whoever finds no room here keeps the text himself, which is
//! what `pending` does.

use std::collections::HashMap;
use std::sync::Arc;

/// A text: one of [`Words`], or, with the upper bit set, one of a request's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word(pub(crate) u32);

/// Marks a request's own texts.
pub(crate) const OWN: u32 = 1 << 31;

/// Known to all, in the order of the constants below.
const KNOWN: [&str; 13] =
    ["", "cs", "cr", "sr", "ss", "ms", "mr", "ws", "wr", "ca", "sa", "ma", "lc"];

impl Word {
    pub(crate) const NONE: Word = Word(0);
    pub(crate) const CLIENT_SEND: Word = Word(1);
    pub(crate) const CLIENT_RECEIVE: Word = Word(2);
    pub(crate) const SERVER_RECEIVE: Word = Word(3);
    pub(crate) const SERVER_SEND: Word = Word(4);
    pub(crate) const MESSAGE_SEND: Word = Word(5);
    pub(crate) const MESSAGE_RECEIVE: Word = Word(6);
    pub(crate) const WIRE_SEND: Word = Word(7);
    pub(crate) const WIRE_RECEIVE: Word = Word(8);
    pub(crate) const CLIENT_ADDRESS: Word = Word(9);
    pub(crate) const SERVER_ADDRESS: Word = Word(10);
    pub(crate) const MESSAGE_ADDRESS: Word = Word(11);
    pub(crate) const LOCAL_COMPONENT: Word = Word(12);

    pub(crate) fn is_none(self) -> bool {
        self == Word::NONE
    }
}

/// Texts, each once.
#[derive(Debug)]
pub(crate) struct Words {
    texts: Vec<Arc<str>>,
    bytes: usize,
    numbers: HashMap<Arc<str>, u32>,
    /// Where a text may be, by a hash that is quick and can be fooled.
    guesses: Box<[u32; GUESSES]>,
}

const GUESSES: usize = 1024;
const COUNT_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 4 << 20;
/// Longer ones rarely come again.
const SIZE_MAX: usize = 128;

impl Words {
    pub(crate) fn new() -> Words {
        let mut words = Words {
            texts: Vec::new(),
            bytes: 0,
            numbers: HashMap::new(),
            guesses: Box::new([0; GUESSES]),
        };
        for text in KNOWN {
            words.keep(text);
        }
        words
    }

    /// The word for a text, if there is room for it.
    #[inline]
    pub(crate) fn find(&mut self, text: &str) -> Option<Word> {
        let place = guess(text.as_bytes());
        let number = self.guesses[place];
        if *self.texts[number as usize] == *text {
            return Some(Word(number));
        }
        let word = match self.numbers.get(text) {
            Some(number) => Word(*number),
            None => self.keep(text)?,
        };
        self.guesses[place] = word.0;
        Some(word)
    }

    pub(crate) fn text(&self, word: Word) -> &str {
        self.texts.get(word.0 as usize).map_or("", |text| text)
    }

    #[cold]
    fn keep(&mut self, text: &str) -> Option<Word> {
        let is_full = self.texts.len() >= COUNT_MAX || self.bytes + text.len() > BYTES_MAX;
        if is_full || text.len() > SIZE_MAX {
            return None;
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        let text: Arc<str> = text.into();
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        Some(Word(number))
    }
}

/// By length and at most 16 bytes.
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
        let mut words = Words::new();
        let texts = ["", "cs", "lc", "osd.3", "osd.4", "a text that is longer than 16 bytes", "ä"];
        let numbers: Vec<_> = texts.iter().map(|text| words.find(text)).collect();
        for (text, number) in texts.iter().zip(&numbers) {
            assert_eq!(words.find(text), *number, "{text}");
            assert_eq!(words.text(number.expect("room")), *text);
        }
        assert_eq!(words.find("cs"), Some(Word::CLIENT_SEND));
        assert_eq!(words.find("lc"), Some(Word::LOCAL_COMPONENT));
        assert_eq!(words.find("sa"), Some(Word::SERVER_ADDRESS));
        assert_eq!(words.find(""), Some(Word::NONE));
    }

    #[test]
    fn room_is_limited() {
        let mut words = Words::new();
        assert_eq!(words.find(&"x".repeat(SIZE_MAX + 1)), None);
        assert!((0..COUNT_MAX).any(|number| words.find(&number.to_string()).is_none()));
        assert_eq!(words.texts.len(), COUNT_MAX);
        assert_eq!(words.find("one more"), None);
        assert_eq!(words.find("cr"), Some(Word::CLIENT_RECEIVE));
    }
}
