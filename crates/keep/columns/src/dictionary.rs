//! [`Dictionary`]: interns texts and byte strings. Each distinct value is stored once and has a
//! number.
//!
//! Hashes are seeded for each process, so that senders of spans cannot choose texts that collide.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::Range;

/// Id of a text or byte string: its number in the dictionary, from 0. Id 0 is the empty value.
pub(crate) type TextId = u32;

/// Entry of a hash table: the number of a value, and a part of its hash. The stored hash avoids
/// most comparisons of values, and all rehashing when the table grows.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    hash: u32,
    pub(crate) id: u32,
}

impl Slot {
    pub(crate) fn new(hash: u32, id: u32) -> Slot {
        Slot { hash, id }
    }

    pub(crate) fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }

    pub(crate) fn has(&self, hash: u32) -> bool {
        self.hash == hash
    }

    pub(crate) fn rehash(&self) -> u64 {
        Slot::spread(self.hash)
    }
}

/// Dictionary of texts, stored in one `String`.
pub(crate) type Texts = Dictionary<String>;

/// Dictionary of byte strings, stored in one `Vec`.
pub(crate) type Blobs = Dictionary<Vec<u8>>;

/// Dictionary of distinct values of one type. Each value has a number.
pub(crate) struct Dictionary<A> {
    arena: A,
    ends: Vec<u32>,
    table: HashTable<Slot>,
    state: RandomState,
}

/// Contiguous memory that stores the values of a dictionary.
pub(crate) trait Arena: Default {
    type Value: AsRef<[u8]> + Eq + ?Sized;

    fn push(&mut self, value: &Self::Value);
    fn get(&self, range: Range<usize>) -> &Self::Value;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn clear(&mut self);
}

impl Arena for String {
    type Value = str;

    fn push(&mut self, value: &str) {
        self.push_str(value);
    }

    #[inline]
    fn get(&self, range: Range<usize>) -> &str {
        &self[range]
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl Arena for Vec<u8> {
    type Value = [u8];

    fn push(&mut self, value: &[u8]) {
        self.extend_from_slice(value);
    }

    #[inline]
    fn get(&self, range: Range<usize>) -> &[u8] {
        &self[range]
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl<A: Arena> Dictionary<A> {
    pub(crate) fn new() -> Dictionary<A> {
        let state = RandomState::default();
        Dictionary { arena: A::default(), ends: vec![0], table: HashTable::new(), state }
    }

    /// Returns the id of a value. Adds the value if it is new. The caller ensures that offsets into
    /// the values fit into 32 bits.
    #[inline]
    pub(crate) fn intern(&mut self, text: &A::Value) -> TextId {
        if text.as_ref().is_empty() {
            return 0;
        }
        let hash = self.state.hash_one(text.as_ref()) as u32;
        let spread = Slot::spread(hash);
        let found = self
            .table
            .find(spread, |slot| slot.has(hash) && get(&self.arena, &self.ends, slot.id) == text);
        match found {
            Some(slot) => slot.id,
            None => self.add(text, hash),
        }
    }

    fn add(&mut self, text: &A::Value, hash: u32) -> TextId {
        let id = self.ends.len() as u32;
        self.arena.push(text);
        self.ends.push(self.arena.len() as u32);
        self.table.insert_unique(Slot::spread(hash), Slot::new(hash, id), Slot::rehash);
        id
    }

    pub(crate) fn find(&self, text: &A::Value) -> Option<TextId> {
        if text.as_ref().is_empty() {
            return Some(0);
        }
        let hash = self.state.hash_one(text.as_ref()) as u32;
        self.table
            .find(Slot::spread(hash), |slot| {
                slot.has(hash) && get(&self.arena, &self.ends, slot.id) == text
            })
            .map(|slot| slot.id)
    }

    #[inline]
    pub(crate) fn get(&self, id: TextId) -> &A::Value {
        get(&self.arena, &self.ends, id)
    }

    /// Returns the number of values, including the empty value.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.arena.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.arena.capacity() + self.ends.capacity() * 4 + table_memory(&self.table)
    }

    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.ends.truncate(1);
        self.table.clear();
    }
}

#[inline]
fn get<'a, A: Arena>(arena: &'a A, ends: &[u32], id: TextId) -> &'a A::Value {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    arena.get(start..ends[id] as usize)
}

/// Returns the approximate memory of a hash table in bytes.
pub(crate) fn table_memory(table: &HashTable<Slot>) -> usize {
    table.capacity() * 9 * 8 / 7
}
