//! [`TagTable`]: the tag keys of a file, and the values of each key if they are few.

use crate::files::index::KeyValues;
use blkkin_columns::{Block, Sorted, ValueType};
use blkkin_store::text_of;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Maximum number of values stored for a key. A key with more values is stored without any.
const VALUES_MAX: usize = 64;

/// Maximum size of a stored value in bytes. Stored values fill selection lists, where longer values
/// are of no use.
const VALUE_BYTES_MAX: usize = 256;

/// Maximum number of keys stored for a file.
const KEYS_MAX: usize = 4096;

/// Tag keys of a file, each with its number of spans and its values.
#[derive(Default)]
pub(crate) struct TagTable {
    keys: BTreeMap<String, Tags>,
}

#[derive(Default)]
struct Tags {
    spans: u64,
    /// Distinct values as text. `None` if the values are too many, too long, or byte strings.
    values: Option<BTreeSet<String>>,
}

impl TagTable {
    /// Collects the tag keys and values of spans.
    pub(crate) fn of(sorted: &Sorted<'_>) -> TagTable {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); sorted.blocks().len()];
        for index in 0..sorted.len() {
            let (block, row) = sorted.place(index);
            rows[block].push(row);
        }
        let mut table = TagTable::default();
        for (block, rows) in sorted.blocks().iter().zip(rows) {
            table.add_block(block, &rows);
        }
        table
    }

    fn add_block(&mut self, block: &Block, rows: &[u32]) {
        // Distinct encoded values, by layout and position in the layout.
        let mut layouts: HashMap<u32, (u64, Vec<DistinctValues>)> = HashMap::new();
        for &row in rows {
            let layout = block.layout_id(row);
            let values = block.values(row);
            let (spans, numbers) = layouts
                .entry(layout)
                .or_insert_with(|| (0, values.iter().map(|_| DistinctValues::default()).collect()));
            *spans += 1;
            for (numbers, &value) in numbers.iter_mut().zip(values) {
                numbers.add(value);
            }
        }
        for (layout, (spans, numbers)) in layouts {
            for (place, (shape, numbers)) in block.layout(layout).iter().zip(numbers).enumerate() {
                // The last of several tags with the same key counts.
                let next = block.layout(layout).get(place + 1);
                let counts = next.is_none_or(|next| next.key != shape.key);
                if counts {
                    let values = numbers.values(block, shape.value);
                    self.add(block.text(shape.key), spans, values);
                }
            }
        }
    }

    fn add(&mut self, key: &str, spans: u64, values: Option<BTreeSet<String>>) {
        if let Some(tags) = self.keys.get_mut(key) {
            tags.spans = tags.spans.saturating_add(spans);
            tags.values = tags.values.take().zip(values).and_then(|(mut known, more)| {
                known.extend(more);
                (known.len() <= VALUES_MAX).then_some(known)
            });
        } else if self.keys.len() < KEYS_MAX {
            self.keys.insert(key.to_owned(), Tags { spans, values });
        }
    }

    /// Adds the tag keys of another table.
    pub(crate) fn merge(&mut self, keys: &[KeyValues]) {
        for key in keys {
            let values = (!key.values.is_empty()).then(|| key.values.iter().cloned().collect());
            self.add(&key.key, key.spans, values);
        }
    }

    /// Returns the tag keys in order, with their values.
    pub(crate) fn keys(self) -> Vec<KeyValues> {
        let keys = self.keys.into_iter().map(|(key, tags)| KeyValues {
            key,
            spans: tags.spans,
            values: tags.values.into_iter().flatten().collect(),
        });
        keys.collect()
    }
}

/// Set of the encoded values of one tag, for the spans of one tag layout (the same tag keys and
/// types in the same order). Values are no longer added once the set exceeds [`VALUES_MAX`].
#[derive(Default)]
struct DistinctValues {
    seen: HashSet<u32>,
    last: Option<u32>,
    are_too_many: bool,
}

impl DistinctValues {
    fn add(&mut self, value: u32) {
        if self.are_too_many || self.last == Some(value) {
            return;
        }
        self.last = Some(value);
        self.seen.insert(value);
        self.are_too_many = self.seen.len() > VALUES_MAX;
    }

    /// Returns the values as text. `None` if the values are too many, too long, or byte strings.
    fn values(&self, block: &Block, kind: ValueType) -> Option<BTreeSet<String>> {
        let are_few = !self.are_too_many && kind != ValueType::Bytes;
        let values = self.seen.iter().filter(|_| are_few);
        let values: BTreeSet<String> =
            values.map(|&value| text_of(block.value(kind, value)).into_owned()).collect();
        let are_short = values.iter().all(|value| value.len() <= VALUE_BYTES_MAX);
        (are_few && are_short).then_some(values)
    }
}
