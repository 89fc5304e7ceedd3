//! The spans of several blocks in the order in which files hold them. Start at [`Sorted::of`].

use crate::block::{Block, Row, Scratch};
use blkkin_model::{AnnotationRef, EndpointRef, SpanRef, TagRef, ValueRef};
use std::cmp::Ordering;

/// The spans of several blocks, in order of the lower half of their request's id, its upper half, their start (those
/// without one first), their id, and then of all that they say. Spans that say exactly the same are one.
pub struct Sorted<'b> {
    blocks: Vec<&'b Block>,
    /// Block and row.
    places: Vec<(u32, Row)>,
    duplicates: usize,
}

/// By what most spans are told apart, and where the span is.
#[derive(Clone, Copy)]
struct Key {
    low: u64,
    block: u32,
    row: Row,
}

impl<'b> Sorted<'b> {
    /// Sorts the spans of these blocks.
    pub fn of(blocks: &[&'b Block]) -> Sorted<'b> {
        let count = blocks.iter().map(|block| block.len()).sum();
        Sorted::of_keys(blocks, Vec::with_capacity(count), |_| true)
    }

    /// Sorts those spans of these blocks for the lower half of whose request's id it holds.
    pub fn of_some(blocks: &[&'b Block], holds: impl Fn(u64) -> bool) -> Sorted<'b> {
        Sorted::of_keys(blocks, Vec::new(), holds)
    }

    /// Sorts these rows of these blocks.
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
            // Mostly the spans of a request are beside each other.
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
        for request in keys.chunk_by_mut(|a, b| a.low == b.low) {
            request.sort_unstable_by(|a, b| compare(blocks, a, b));
            let mut before = None;
            for key in request {
                let same = |before: &Key| compare(blocks, before, key) == Ordering::Equal;
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

    /// How many different spans there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many were left out, because another says exactly the same.
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// Leaves out those for which `keeps` is false, which gets the index that they had: they are known to be elsewhere.
    pub fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        let mut index = 0;
        let before = self.places.len();
        self.places.retain(|_| {
            index += 1;
            keeps(index - 1)
        });
        self.duplicates += before - self.places.len();
    }

    /// The blocks, in the order in which they were given.
    pub fn blocks(&self) -> &[&'b Block] {
        &self.blocks
    }

    /// The number of the block that holds a span, and its row there.
    #[inline]
    pub fn place(&self, index: usize) -> (usize, Row) {
        let (block, row) = self.places[index];
        (block as usize, row)
    }

    /// The block that holds a span, and its row there.
    #[inline]
    pub fn row(&self, index: usize) -> (&'b Block, Row) {
        let (block, row) = self.places[index];
        (self.blocks[block as usize], row)
    }

    /// A span.
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

fn compare(blocks: &[&Block], a: &Key, b: &Key) -> Ordering {
    let (of_a, of_b) = (blocks[a.block as usize], blocks[b.block as usize]);
    of_a.trace_high(a.row)
        .cmp(&of_b.trace_high(b.row))
        .then_with(|| of_a.start_ns(a.row).cmp(&of_b.start_ns(b.row)))
        .then_with(|| of_a.id(a.row).cmp(&of_b.id(b.row)))
        .then_with(|| compare_rest(of_a, a.row, of_b, b.row))
}

fn compare_rest(of_a: &Block, a: Row, of_b: &Block, b: Row) -> Ordering {
    of_a.parent_id(a)
        .cmp(&of_b.parent_id(b))
        .then_with(|| of_a.duration_ns(a).cmp(&of_b.duration_ns(b)))
        .then_with(|| of_a.flags(a).cmp(&of_b.flags(b)))
        .then_with(|| of_a.text(of_a.name_id(a)).cmp(of_b.text(of_b.name_id(b))))
        .then_with(|| {
            let local = (of_a.endpoint(of_a.local_id(a)), of_b.endpoint(of_b.local_id(b)));
            compare_endpoints(&local.0, &local.1)
        })
        .then_with(|| {
            let remote = (of_a.endpoint(of_a.remote_id(a)), of_b.endpoint(of_b.remote_id(b)));
            compare_endpoints(&remote.0, &remote.1)
        })
        .then_with(|| compare_annotations(of_a.annotations(a), of_b.annotations(b)))
        .then_with(|| compare_tags(of_a.tags(a), of_b.tags(b)))
}

fn compare_endpoints(a: &EndpointRef<'_>, b: &EndpointRef<'_>) -> Ordering {
    (a.service, a.ipv4, a.ipv6, a.port).cmp(&(b.service, b.ipv4, b.ipv6, b.port))
}

fn compare_annotations<'a>(
    a: impl Iterator<Item = AnnotationRef<'a>>,
    b: impl Iterator<Item = AnnotationRef<'a>>,
) -> Ordering {
    a.cmp(b)
}

fn compare_tags<'a>(
    a: impl Iterator<Item = TagRef<'a>>,
    mut b: impl Iterator<Item = TagRef<'a>>,
) -> Ordering {
    for a in a {
        let Some(b) = b.next() else { return Ordering::Greater };
        let order = (a.key, a.origin)
            .cmp(&(b.key, b.origin))
            .then_with(|| compare_values(&a.value, &b.value));
        if order != Ordering::Equal {
            return order;
        }
    }
    if b.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

/// Numbers are compared by their bits: a zero is not the other, and what is not a number is itself.
fn compare_values(a: &ValueRef<'_>, b: &ValueRef<'_>) -> Ordering {
    match (a, b) {
        (ValueRef::Str(a), ValueRef::Str(b)) => a.cmp(b),
        (ValueRef::Int(a), ValueRef::Int(b)) => a.cmp(b),
        (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(b),
        (ValueRef::Double(a), ValueRef::Double(b)) => a.to_bits().cmp(&b.to_bits()),
        (ValueRef::Bytes(a), ValueRef::Bytes(b)) => a.cmp(b),
        _ => crate::ValueType::of(a).cmp(&crate::ValueType::of(b)),
    }
}
