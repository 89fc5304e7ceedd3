//! [`Sorted`]: the spans of several blocks in the row order of files. Start at [`Sorted::of`].

use crate::block::{Block, Row, Scratch};
use crate::layout::{Shape, ValueType};
use blkkin_model::{SpanRef, ValueRef};
use foldhash::fast::RandomState;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Spans of several blocks, sorted by trace id (lower half, then upper half), start (spans without
/// a start first) and span id. Ties are broken by all other fields, as in `blkkin_store::compare`.
/// Spans that are equal in all fields are merged into one.
pub struct Sorted<'b> {
    blocks: Vec<&'b Block>,
    /// Block index and row of each span, in sorted order.
    places: Vec<(u32, Row)>,
    duplicates: usize,
}

/// Sort key and location of a span. The lower half of the trace id decides most comparisons.
#[derive(Clone, Copy)]
struct Key {
    low: u64,
    block: u32,
    row: Row,
}

impl<'b> Sorted<'b> {
    /// Sorts all spans of the given blocks.
    pub fn of(blocks: &[&'b Block]) -> Sorted<'b> {
        let count = blocks.iter().map(|block| block.len()).sum();
        Sorted::of_keys(blocks, Vec::with_capacity(count), |_| true)
    }

    /// Sorts only the spans for which `holds` accepts the lower half of the trace id.
    pub fn of_requests(blocks: &[&'b Block], holds: impl Fn(u64) -> bool) -> Sorted<'b> {
        Sorted::of_keys(blocks, Vec::new(), holds)
    }

    /// Sorts only the given rows of each block.
    pub fn of_rows(blocks: &[&'b Block], rows: &[Vec<Row>]) -> Sorted<'b> {
        let mut keys = Vec::with_capacity(rows.iter().map(Vec::len).sum());
        for ((block, rows), of) in blocks.iter().zip(rows).zip(0..) {
            let key = |&row: &Row| Key { low: block.trace_low(row), block: of, row };
            keys.extend(rows.iter().map(key));
        }
        Sorted::sort(blocks, keys)
    }

    fn of_keys(
        blocks: &[&'b Block],
        mut keys: Vec<Key>,
        holds: impl Fn(u64) -> bool,
    ) -> Sorted<'b> {
        for (block, of) in blocks.iter().zip(0..) {
            let mut row = 0;
            // The spans of a request are mostly adjacent.
            for request in block.trace_lows().chunk_by(|one, other| one == other) {
                let rows = row..row + request.len() as Row;
                row = rows.end;
                if holds(request[0]) {
                    keys.extend(rows.map(|row| Key { low: request[0], block: of, row }));
                }
            }
        }
        Sorted::sort(blocks, keys)
    }

    fn sort(blocks: &[&'b Block], mut keys: Vec<Key>) -> Sorted<'b> {
        keys.sort_unstable_by_key(|key| key.low);
        let mut places = Vec::with_capacity(keys.len());
        let mut duplicates = 0;
        let comparison = Comparison { blocks, long_orders: RefCell::default() };
        for request in keys.chunk_by_mut(|a, b| a.low == b.low) {
            request.sort_unstable_by(|a, b| comparison.compare(a, b));
            let mut before = None;
            for key in request {
                let same = |before: &Key| comparison.compare(before, key).is_eq();
                if before.as_ref().is_some_and(same) {
                    duplicates += 1;
                    continue;
                }
                places.push((key.block, key.row));
                before = Some(*key);
            }
        }
        Sorted { blocks: blocks.to_vec(), places, duplicates }
    }

    /// Returns the number of distinct spans.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the number of spans that were removed as duplicates of other spans.
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// Removes the spans for which `keeps` returns false, and counts them as duplicates. The
    /// argument of `keeps` is the span's index before any removal.
    pub fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        let mut index = 0;
        let before = self.places.len();
        self.places.retain(|_| {
            index += 1;
            keeps(index - 1)
        });
        self.duplicates += before - self.places.len();
    }

    /// Returns the blocks in the order in which they were passed.
    pub fn blocks(&self) -> &[&'b Block] {
        &self.blocks
    }

    /// Returns the index of a span's block, and the span's row in that block.
    #[inline]
    pub fn place(&self, index: usize) -> (usize, Row) {
        let (block, row) = self.places[index];
        (block as usize, row)
    }

    /// Returns a span's block, and the span's row in that block.
    #[inline]
    pub fn row(&self, index: usize) -> (&'b Block, Row) {
        let (block, row) = self.places[index];
        (self.blocks[block as usize], row)
    }

    /// Returns a span, borrowed from its block and from `scratch`.
    pub fn span<'s>(&self, index: usize, scratch: &'s mut Scratch<'b>) -> SpanRef<'s>
    where
        'b: 's,
    {
        let (block, row) = self.row(index);
        block.span(row, scratch)
    }

    pub(crate) fn places(&self) -> &[(u32, Row)] {
        &self.places
    }
}

/// Minimum length in bytes of values for which the result of a comparison is cached.
const LONG_BYTES: usize = 256;

/// Comparator of spans by all fields except the lower half of the trace id, which is equal. Texts
/// and byte strings of one block with the same id are equal, so their bytes are not compared. The
/// order of long values is cached, since thousands of spans may share values of several megabytes.
struct Comparison<'a, 'b> {
    blocks: &'a [&'b Block],
    /// Results of the comparisons of long values, by pair of values.
    long_orders: RefCell<HashMap<[Value; 2], Ordering, RandomState>>,
}

/// Location of a tag value or another text: block index, type, and encoded value in the block.
type Value = (u32, ValueType, u32);

impl Comparison<'_, '_> {
    fn compare(&self, a: &Key, b: &Key) -> Ordering {
        let (of_a, of_b) = (self.blocks[a.block as usize], self.blocks[b.block as usize]);
        of_a.trace_high(a.row)
            .cmp(&of_b.trace_high(b.row))
            .then_with(|| of_a.start_ns(a.row).cmp(&of_b.start_ns(b.row)))
            .then_with(|| of_a.id(a.row).cmp(&of_b.id(b.row)))
            .then_with(|| self.compare_rest(a, b))
    }

    fn compare_rest(&self, a: &Key, b: &Key) -> Ordering {
        let fields = |key: &Key| {
            let (block, row) = (self.blocks[key.block as usize], key.row);
            let flags = (block.status(row), block.is_debug(row));
            (block.is_shared(row), block.parent_id(row), block.kind(row), flags)
        };
        let (of_a, of_b) = (self.blocks[a.block as usize], self.blocks[b.block as usize]);
        let text = |one: u32, other: u32| {
            let kind = ValueType::Str;
            self.compare_values((a.block, kind, one), (b.block, kind, other))
        };
        fields(a)
            .cmp(&fields(b))
            .then_with(|| text(of_a.name_id(a.row), of_b.name_id(b.row)))
            .then_with(|| of_a.duration_ns(a.row).cmp(&of_b.duration_ns(b.row)))
            .then_with(|| {
                let ends = [
                    (of_a.local_id(a.row), of_b.local_id(b.row)),
                    (of_a.remote_id(a.row), of_b.remote_id(b.row)),
                ];
                ends.into_iter().fold(Ordering::Equal, |order, (one, other)| {
                    let (one, other) = (of_a.endpoint_entry(one), of_b.endpoint_entry(other));
                    order.then_with(|| text(one.service, other.service)).then_with(|| {
                        (one.ipv4, one.ipv6, one.port).cmp(&(other.ipv4, other.ipv6, other.port))
                    })
                })
            })
            .then_with(|| {
                let (of_a, of_b) = (of_a.annotation_ids(a.row), of_b.annotation_ids(b.row));
                let (one, other) = (of_a.0.iter().zip(of_a.1), of_b.0.iter().zip(of_b.1));
                compare_lists(one, other, |one, other| {
                    one.0.cmp(other.0).then_with(|| text(*one.1, *other.1))
                })
            })
            .then_with(|| self.compare_tags(a, b))
    }

    fn compare_tags(&self, a: &Key, b: &Key) -> Ordering {
        let (of_a, of_b) = (self.blocks[a.block as usize], self.blocks[b.block as usize]);
        let text = |one: u32, other: u32| {
            let kind = ValueType::Str;
            self.compare_values((a.block, kind, one), (b.block, kind, other))
        };
        let (one, other) = (tags(of_a, a.row), tags(of_b, b.row));
        compare_lists(one, other, |(one, one_value), (other, other_value)| {
            text(one.key, other.key)
                .then_with(|| one.origin.cmp(&other.origin))
                .then_with(|| one.value.cmp(&other.value))
                .then_with(|| {
                    let of_a = (a.block, one.value, *one_value);
                    self.compare_values(of_a, (b.block, other.value, *other_value))
                })
        })
    }

    /// Compares two tag values or other texts. Floating-point numbers are compared by their bits,
    /// so the two zeros differ, and a NaN equals itself.
    fn compare_values(&self, a: Value, b: Value) -> Ordering {
        let is_kept_once = matches!(a.1, ValueType::Str | ValueType::Bytes);
        if a == b && is_kept_once {
            return Ordering::Equal;
        }
        let value = |(block, kind, number): Value| self.blocks[block as usize].value(kind, number);
        let (one, other) = match (value(a), value(b)) {
            (ValueRef::Str(a), ValueRef::Str(b)) => (a.as_bytes(), b.as_bytes()),
            (ValueRef::Bytes(a), ValueRef::Bytes(b)) => (a, b),
            (ValueRef::Int(a), ValueRef::Int(b)) => return a.cmp(&b),
            (ValueRef::Bool(a), ValueRef::Bool(b)) => return a.cmp(&b),
            (ValueRef::Double(a), ValueRef::Double(b)) => return a.to_bits().cmp(&b.to_bits()),
            (a, b) => return ValueType::of(&a).cmp(&ValueType::of(&b)),
        };
        if one.len().min(other.len()) < LONG_BYTES {
            return one.cmp(other);
        }
        *self.long_orders.borrow_mut().entry([a, b]).or_insert_with(|| one.cmp(other))
    }
}

/// Returns the tags of a row as pairs of shape and encoded value.
fn tags(block: &Block, row: Row) -> impl Iterator<Item = (&Shape, &u32)> {
    block.layout(block.layout_id(row)).iter().zip(block.values(row))
}

/// Compares two lists element by element; a proper prefix comes first.
fn compare_lists<T>(
    mut one: impl Iterator<Item = T>,
    mut other: impl Iterator<Item = T>,
    mut compare: impl FnMut(T, T) -> Ordering,
) -> Ordering {
    loop {
        let order = match (one.next(), other.next()) {
            (Some(one), Some(other)) => compare(one, other),
            (one, other) => return one.is_some().cmp(&other.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
}
