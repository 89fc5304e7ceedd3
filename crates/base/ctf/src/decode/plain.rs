//! The fast path for programs that contain only strings and little-endian integers of whole bytes,
//! as the programs of most events do. Such programs need no bit positions, no slots and no
//! recursion. Consumers may also walk the list of fields themselves.

use super::node::Node;
use super::op::{Count, NONE, Op};
use super::strings::{NulMap, NulScan};
use super::view::{Stop, View};
use super::visit::Visitor;
use crate::schema::Scope;

/// Plain form of a program: a flat list of fields that all start on byte boundaries.
#[derive(Debug)]
pub(super) struct PlainProgram {
    pub(super) fields: Box<[PlainField]>,
    /// For each group of adjacent strings: the number of bytes before the group, and the number of
    /// its strings minus one. Used for skipping.
    before_strings: Box<[(u32, u32)]>,
    /// Number of bytes after the last string. Used for skipping.
    after: u32,
}

/// A step through a plain event: a field, or the start or end of a scope or structure.
#[derive(Clone, Copy, Debug)]
pub struct PlainField {
    /// Index in [`super::Decoder::nodes`]; meaningless at the end of a scope.
    pub node: u32,
    /// Kind of the step; for a field, with the type and size of its value.
    pub kind: PlainKind,
}

/// Kind of a [`PlainField`]'s step; integers are named by their width in bits.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum PlainKind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// A null-terminated string.
    String,
    /// A string padded with NULs to this many bytes.
    Text(u32),
    BeginScope(Scope),
    EndScope(Scope),
    BeginStruct,
    EndStruct,
}

impl PlainProgram {
    /// Makes the plain form of `ops`; `None` if any op has no plain form, any field is hidden, or
    /// the ops read no bytes.
    pub(super) fn new(ops: &[Op]) -> Option<PlainProgram> {
        let mut fields = Vec::new();
        let mut before_strings: Vec<(u32, u32)> = Vec::new();
        let mut bytes = 0u32;
        for op in ops {
            let (node, kind) = match *op {
                // Alignment is allowed at the start only: later padding would depend on the
                // position.
                Op::Align(8) if bytes == 0 && before_strings.is_empty() => continue,
                Op::Run { .. } => continue,
                Op::Int { node, save: NONE, bytes: size, signed, big } if size == 1 || !big => {
                    bytes = bytes.checked_add(size.into())?;
                    let kind = match (size, signed) {
                        (1, false) => PlainKind::U8,
                        (2, false) => PlainKind::U16,
                        (4, false) => PlainKind::U32,
                        (_, false) => PlainKind::U64,
                        (1, true) => PlainKind::I8,
                        (2, true) => PlainKind::I16,
                        (4, true) => PlainKind::I32,
                        (_, true) => PlainKind::I64,
                    };
                    (node, kind)
                }
                Op::Text { node, length: Count::Static(length), encoding }
                    if encoding.unit_size() == 1 =>
                {
                    let length = u32::try_from(length).ok()?;
                    bytes = bytes.checked_add(length)?;
                    (node, PlainKind::Text(length))
                }
                Op::String { node, encoding } if encoding.unit_size() == 1 => {
                    match before_strings.last_mut() {
                        Some((_, more)) if bytes == 0 => *more += 1,
                        _ => before_strings.push((std::mem::take(&mut bytes), 0)),
                    }
                    (node, PlainKind::String)
                }
                Op::BeginScope(scope, node) => (node, PlainKind::BeginScope(scope)),
                Op::EndScope(scope) => (0, PlainKind::EndScope(scope)),
                Op::BeginStruct(node) => (node, PlainKind::BeginStruct),
                Op::EndStruct(node) => (node, PlainKind::EndStruct),
                _ => return None,
            };
            if node == NONE {
                return None;
            }
            fields.push(PlainField { node, kind });
        }
        if bytes == 0 && before_strings.is_empty() {
            // The plain form starts on a byte boundary; a program without bytes may start within a
            // byte.
            return None;
        }
        let (fields, before_strings) = (fields.into(), before_strings.into());
        Some(PlainProgram { fields, before_strings, after: bytes })
    }

    /// Advances `position` to the end of the fields.
    #[inline]
    pub(super) fn skip(&self, view: View<'_>, position: &mut u64) -> Result<(), Stop> {
        let bytes = view.whole_bytes();
        let start = position.div_ceil(8) as usize;
        let mut nuls = NulScan::new(bytes, start);
        let end = self.end(bytes, start, |at, more| nuls.find(at, more)).ok_or(Stop::Incomplete)?;
        *position = end as u64 * 8;
        Ok(())
    }

    /// Returns the end of the fields that start at index `at` of the map, relative to the map's
    /// start. `None` if the map does not find the last NUL, or the view ends within the fields.
    #[inline(always)]
    pub(super) fn end_in(&self, map: &NulMap<'_>, at: usize) -> Option<usize> {
        self.end(map.rest(), at, |at, more| map.find(at, more))
    }

    #[inline(always)]
    fn end(
        &self,
        bytes: &[u8],
        mut at: usize,
        mut find_nul: impl FnMut(usize, u32) -> Option<usize>,
    ) -> Option<usize> {
        for &(before, more) in &self.before_strings {
            at = find_nul(at + before as usize, more)? + 1;
        }
        at += self.after as usize;
        (at <= bytes.len()).then_some(at)
    }

    /// Visits the fields, and advances `position` to their end.
    #[inline]
    pub(super) fn visit<V: Visitor>(
        &self,
        nodes: &[Node],
        view: View<'_>,
        position: &mut u64,
        visitor: &mut V,
    ) -> Result<(), Stop> {
        let bytes = view.whole_bytes();
        let mut at = position.div_ceil(8) as usize;
        let mut nuls = NulScan::new(bytes, at);
        for field in &self.fields {
            let node = &nodes[field.node as usize];
            match field.kind {
                PlainKind::U8 => {
                    visitor.unsigned(node, u8::from_le_bytes(read_bytes(bytes, &mut at)?).into())
                }
                PlainKind::U16 => {
                    visitor.unsigned(node, u16::from_le_bytes(read_bytes(bytes, &mut at)?).into());
                }
                PlainKind::U32 => {
                    visitor.unsigned(node, u32::from_le_bytes(read_bytes(bytes, &mut at)?).into());
                }
                PlainKind::U64 => {
                    visitor.unsigned(node, u64::from_le_bytes(read_bytes(bytes, &mut at)?))
                }
                PlainKind::I8 => {
                    visitor.signed(node, i8::from_le_bytes(read_bytes(bytes, &mut at)?).into())
                }
                PlainKind::I16 => {
                    visitor.signed(node, i16::from_le_bytes(read_bytes(bytes, &mut at)?).into())
                }
                PlainKind::I32 => {
                    visitor.signed(node, i32::from_le_bytes(read_bytes(bytes, &mut at)?).into())
                }
                PlainKind::I64 => {
                    visitor.signed(node, i64::from_le_bytes(read_bytes(bytes, &mut at)?))
                }
                PlainKind::String => {
                    let end = nuls.find(at, 0).ok_or(Stop::Incomplete)?;
                    visitor.string(node, &bytes[at..end]);
                    at = end + 1;
                }
                PlainKind::Text(length) => {
                    let text = bytes.get(at..at + length as usize).ok_or(Stop::Incomplete)?;
                    let used = memchr::memchr(0, text).unwrap_or(text.len());
                    visitor.string(node, &text[..used]);
                    at += text.len();
                }
                PlainKind::BeginScope(scope) => visitor.begin_scope(scope, node),
                PlainKind::EndScope(scope) => visitor.end_scope(scope),
                PlainKind::BeginStruct => visitor.begin_struct(node),
                PlainKind::EndStruct => visitor.end_struct(node),
            }
        }
        *position = at as u64 * 8;
        Ok(())
    }
}

#[inline(always)]
fn read_bytes<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], Stop> {
    let taken = bytes.get(*at..).and_then(|rest| rest.first_chunk()).ok_or(Stop::Incomplete)?;
    *at += N;
    Ok(*taken)
}
