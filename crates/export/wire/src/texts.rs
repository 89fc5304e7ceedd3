//! Text and bytes of a span that are not in its batch as they stand: unescaped, repaired, rendered.

use std::cell::{Cell, OnceCell};

/// Keeps such text for as long as a span is looked at. Handing out references while more is kept
/// takes places that do not move, so there are blocks of them, each twice as large as the one
/// before.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    first: OnceCell<Box<Block>>,
    count: Cell<usize>,
}

#[derive(Debug)]
struct Block {
    places: Box<[OnceCell<Made>]>,
    next: OnceCell<Box<Block>>,
}

#[derive(Debug)]
enum Made {
    Text(String),
    Bytes(Vec<u8>),
}

/// Places of the first block.
const PLACES: usize = 8;

impl Texts {
    /// Keeps a text.
    #[cold]
    pub(crate) fn keep(&self, text: String) -> &str {
        match self.make(Made::Text(text)) {
            Made::Text(text) => text,
            Made::Bytes(_) => "",
        }
    }

    /// Keeps bytes.
    #[cold]
    pub(crate) fn keep_bytes(&self, bytes: Vec<u8>) -> &[u8] {
        match self.make(Made::Bytes(bytes)) {
            Made::Bytes(bytes) => bytes,
            Made::Text(_) => &[],
        }
    }

    fn make(&self, made: Made) -> &Made {
        let (mut index, mut size, mut link) = (self.count.get(), PLACES, &self.first);
        self.count.set(index + 1);
        loop {
            let block = link.get_or_init(|| Block::new(size));
            if let Some(place) = block.places.get(index) {
                return place.get_or_init(|| made);
            }
            (index, size, link) = (index - size, size * 2, &block.next);
        }
    }

    /// Bytes as text. What of them is not UTF-8 is replaced, as Zipkin does: a name with a letter
    /// too few is better than no span.
    #[inline]
    pub(crate) fn text<'t>(&'t self, bytes: &'t [u8]) -> &'t str {
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => self.keep(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    /// Forgets all.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.count.get() > 0 {
            *self = Texts::default();
        }
    }
}

impl Block {
    fn new(size: usize) -> Box<Block> {
        let places = (0..size).map(|_| OnceCell::new()).collect();
        Box::new(Block { places, next: OnceCell::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn texts_stay_where_they_are() {
        let mut texts = Texts::default();
        for round in 0..2 {
            let kept: Vec<&str> = (0..1000).map(|n| texts.keep(format!("{round} {n}"))).collect();
            for (n, text) in kept.iter().enumerate() {
                assert_eq!(*text, format!("{round} {n}"));
            }
            texts.clear();
        }
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        let texts = Texts::default();
        assert_eq!(texts.text(b"gr\xc3\xbcn"), "grün");
        assert_eq!(texts.count.get(), 0);
        assert_eq!(texts.text(b"gr\xfcn \xf0\x9f"), "gr\u{fffd}n \u{fffd}");
    }
}
