//! [`Layouts`]: interns tag layouts. A layout is the list of keys, types and origins of a span's
//! tags. Many spans share a layout.

use crate::dictionary::{Slot, TextId, Texts, table_memory};
use blkkin_model::{Origin, TagRef, ValueRef};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// Id of a layout: its number in the block, from 0. Id 0 is the empty layout.
pub type LayoutId = u32;

/// Shape of a tag: its key, type and origin, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Text id of the key.
    pub key: u32,
    /// Type of the tag's value.
    pub value: ValueType,
    /// Origin of the tag: the span, its resource or its scope.
    pub origin: Origin,
}

/// Type of a tag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// Text in UTF-8.
    Str,
    /// Integer of 64 bits.
    Int,
    /// Boolean.
    Bool,
    /// Floating-point number of 64 bits.
    Double,
    /// Byte string.
    Bytes,
}

/// Layout of a span: the shapes of its tags, in order.
pub type Layout<'a> = &'a [Shape];

impl ValueType {
    pub(crate) fn of(value: &ValueRef<'_>) -> ValueType {
        match value {
            ValueRef::Str(_) => ValueType::Str,
            ValueRef::Int(_) => ValueType::Int,
            ValueRef::Bool(_) => ValueType::Bool,
            ValueRef::Double(_) => ValueType::Double,
            ValueRef::Bytes(_) => ValueType::Bytes,
        }
    }
}

pub(crate) struct Layouts {
    shapes: Vec<Shape>,
    ends: Vec<u32>,
    /// Encoded value of the last pushed tag for each entry of `shapes`. 0 for booleans, and until
    /// the first push.
    last: Vec<TextId>,
    table: HashTable<Slot>,
    state: RandomState,
    /// Layout of the last pushed span with tags for each name, indexed by the name's text id; 0
    /// without such a span.
    last_of_name: Vec<LayoutId>,
}

impl Layouts {
    pub(crate) fn new() -> Layouts {
        Layouts {
            shapes: Vec::new(),
            ends: vec![0],
            last: Vec::new(),
            table: HashTable::new(),
            state: RandomState::default(),
            last_of_name: Vec::new(),
        }
    }

    /// Returns the id of a span's tag layout. Adds the layout if it is new. The lookup starts with
    /// the layout that `last_of_name` has for `name`.
    pub(crate) fn intern(
        &mut self,
        tags: &[TagRef<'_>],
        name: TextId,
        texts: &mut Texts,
    ) -> LayoutId {
        if tags.is_empty() {
            return 0;
        }
        let name = name as usize;
        if let Some(&id) = self.last_of_name.get(name)
            && self.matches(id, tags, texts)
        {
            return id;
        }
        let mut hasher = self.state.build_hasher();
        for tag in tags {
            hasher.write(tag.key.as_bytes());
            hasher.write_u8(ValueType::of(&tag.value) as u8 | (tag.origin as u8) << 4);
        }
        let hash = hasher.finish() as u32;
        let same = |slot: &Slot| slot.has(hash) && self.matches(slot.id, tags, texts);
        let id = match self.table.find(Slot::spread(hash), same) {
            Some(slot) => slot.id,
            None => {
                let shapes = tags.iter().map(|tag| Shape {
                    key: texts.intern(tag.key),
                    value: ValueType::of(&tag.value),
                    origin: tag.origin,
                });
                self.shapes.extend(shapes);
                self.add(hash)
            }
        };
        if name >= self.last_of_name.len() {
            self.last_of_name.resize(name + 1, 0);
        }
        self.last_of_name[name] = id;
        id
    }

    /// Returns the id for a layout of another block. Adds the layout if it is new. `keys` maps text
    /// ids of the other block to text ids of this block.
    pub(crate) fn intern_layout(
        &mut self,
        layout: Layout<'_>,
        keys: &[TextId],
        texts: &Texts,
    ) -> LayoutId {
        if layout.is_empty() {
            return 0;
        }
        let mut hasher = self.state.build_hasher();
        for shape in layout {
            hasher.write(texts.get(keys[shape.key as usize]).as_bytes());
            hasher.write_u8(shape.value as u8 | (shape.origin as u8) << 4);
        }
        let hash = hasher.finish() as u32;
        let here = || layout.iter().map(|shape| Shape { key: keys[shape.key as usize], ..*shape });
        let same = |slot: &Slot| slot.has(hash) && self.get(slot.id).iter().copied().eq(here());
        if let Some(slot) = self.table.find(Slot::spread(hash), same) {
            return slot.id;
        }
        self.shapes.extend(here());
        self.add(hash)
    }

    fn add(&mut self, hash: u32) -> LayoutId {
        let id = self.ends.len() as u32;
        self.ends.push(self.shapes.len() as u32);
        self.last.resize(self.shapes.len(), 0);
        self.table.insert_unique(Slot::spread(hash), Slot::new(hash, id), Slot::rehash);
        id
    }

    #[inline]
    fn matches(&self, id: LayoutId, tags: &[TagRef<'_>], texts: &Texts) -> bool {
        let layout = self.get(id);
        layout.len() == tags.len()
            && layout.iter().zip(tags).all(|(shape, tag)| {
                shape.origin == tag.origin
                    && shape.value == ValueType::of(&tag.value)
                    && texts.get(shape.key) == tag.key
            })
    }

    #[inline]
    pub(crate) fn get(&self, id: LayoutId) -> Layout<'_> {
        &self.shapes[self.range(id)]
    }

    #[inline]
    fn range(&self, id: LayoutId) -> std::ops::Range<usize> {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        start..self.ends[id] as usize
    }

    /// Returns the entries of `last` for a layout. The caller updates them.
    #[inline]
    pub(crate) fn last(&mut self, id: LayoutId) -> &mut [TextId] {
        let range = self.range(id);
        &mut self.last[range]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn shapes(&self) -> usize {
        self.shapes.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.shapes.capacity() * size_of::<Shape>()
            + (self.last.capacity() + self.ends.capacity() + self.last_of_name.capacity()) * 4
            + table_memory(&self.table)
    }

    pub(crate) fn clear(&mut self) {
        self.shapes.clear();
        self.last.clear();
        self.ends.truncate(1);
        self.table.clear();
        self.last_of_name.clear();
    }
}
