//! Arena for strings that cannot be borrowed from the batch: unescaped, repaired or rendered text,
//! and decoded base64.

use std::cell::{Cell, OnceCell};

/// Append-only arena. References to items remain valid while the arena grows, so slots must not
/// move. The slots are in a chain of blocks, each twice as large as the previous block.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    first: OnceCell<Box<Block>>,
    count: Cell<usize>,
}

#[derive(Debug)]
struct Block {
    slots: Box<[OnceCell<Item>]>,
    next: OnceCell<Box<Block>>,
}

#[derive(Debug)]
enum Item {
    Text(String),
    Bytes(Vec<u8>),
}

/// Number of slots in the first block.
const FIRST_BLOCK_SLOTS: usize = 8;

impl Arena {
    /// Stores a string in the arena and returns a reference to it.
    #[cold]
    pub(crate) fn store(&self, text: String) -> &str {
        match self.push(Item::Text(text)) {
            Item::Text(text) => text,
            Item::Bytes(_) => "",
        }
    }

    /// Stores a byte string in the arena and returns a reference to it.
    #[cold]
    pub(crate) fn store_bytes(&self, bytes: Vec<u8>) -> &[u8] {
        match self.push(Item::Bytes(bytes)) {
            Item::Bytes(bytes) => bytes,
            Item::Text(_) => &[],
        }
    }

    fn push(&self, item: Item) -> &Item {
        let (mut index, mut size, mut link) = (self.count.get(), FIRST_BLOCK_SLOTS, &self.first);
        self.count.set(index + 1);
        loop {
            let block = link.get_or_init(|| Block::new(size));
            if let Some(slot) = block.slots.get(index) {
                return slot.get_or_init(|| item);
            }
            (index, size, link) = (index - size, size * 2, &block.next);
        }
    }

    /// Converts bytes to text. Invalid UTF-8 is replaced, as in Zipkin: a damaged name is better
    /// than a missing span.
    #[inline]
    pub(crate) fn text<'t>(&'t self, bytes: &'t [u8]) -> &'t str {
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => self.store(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    /// Removes all items, so that the arena can serve the next span.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.count.get() > 0 {
            *self = Arena::default();
        }
    }
}

impl Block {
    fn new(size: usize) -> Box<Block> {
        let slots = (0..size).map(|_| OnceCell::new()).collect();
        Box::new(Block { slots, next: OnceCell::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn texts_stay_where_they_are() {
        let mut arena = Arena::default();
        for round in 0..2 {
            let kept: Vec<&str> = (0..1000).map(|n| arena.store(format!("{round} {n}"))).collect();
            for (n, text) in kept.iter().enumerate() {
                assert_eq!(*text, format!("{round} {n}"));
            }
            arena.clear();
        }
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        let arena = Arena::default();
        assert_eq!(arena.text(b"gr\xc3\xbcn"), "grün");
        assert_eq!(arena.count.get(), 0);
        assert_eq!(arena.text(b"gr\xfcn \xf0\x9f"), "gr\u{fffd}n \u{fffd}");
    }
}
