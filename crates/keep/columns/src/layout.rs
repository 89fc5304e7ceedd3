//! Layouts: the keys, types and origins of a span's tags, in order, which many spans share. Start at [`Layouts`].

use crate::dictionary::{Slot, TextId, Texts, table_memory};
use blkkin_model::{Origin, TagRef, ValueRef};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// The number of a layout in its block. 0 is the one without tags.
pub type LayoutId = u32;

/// What a tag is, but for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The number of its key's text.
    pub key: u32,
    /// The type of its value.
    pub value: ValueType,
    /// Of what it is said.
    pub origin: Origin,
}

/// The type of a tag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// Text.
    Str,
    /// A whole number.
    Int,
    /// Yes or no.
    Bool,
    /// A number.
    Double,
    /// Anything.
    Bytes,
}

/// The tags of a span, but for their values.
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
    /// For each shape of a layout, what stood for the value that it had last.
    last: Vec<TextId>,
    table: HashTable<Slot>,
    state: RandomState,
    /// The layout that a span of a certain name had last, by the name's number.
    of_name: Vec<LayoutId>,
}

impl Layouts {
    pub(crate) fn new() -> Layouts {
        Layouts {
            shapes: Vec::new(),
            ends: vec![0],
            last: Vec::new(),
            table: HashTable::new(),
            state: RandomState::default(),
            of_name: Vec::new(),
        }
    }

    /// The layout of these tags, of a span with this name.
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
        if let Some(&id) = self.of_name.get(name)
            && self.is(id, tags, texts)
        {
            return id;
        }
        let mut hasher = self.state.build_hasher();
        for tag in tags {
            hasher.write(tag.key.as_bytes());
            hasher.write_u8(ValueType::of(&tag.value) as u8 | (tag.origin as u8) << 4);
        }
        let hash = hasher.finish() as u32;
        let same = |slot: &Slot| slot.has(hash) && self.is(slot.id, tags, texts);
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
        if name >= self.of_name.len() {
            self.of_name.resize(name + 1, 0);
        }
        self.of_name[name] = id;
        id
    }

    /// That of another block, whose texts have these numbers here.
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
    fn is(&self, id: LayoutId, tags: &[TagRef<'_>], texts: &Texts) -> bool {
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

    /// For each tag of a layout, what stood for the value that it had last.
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
            + (self.last.capacity() + self.ends.capacity() + self.of_name.capacity()) * 4
            + table_memory(&self.table)
    }

    pub(crate) fn clear(&mut self) {
        self.shapes.clear();
        self.last.clear();
        self.ends.truncate(1);
        self.table.clear();
        self.of_name.clear();
    }
}
