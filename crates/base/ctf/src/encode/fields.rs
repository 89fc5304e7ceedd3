//! Writing of visited fields into a packet.

use super::sink::{Mark, Sink};
use super::step::{Count, Step, Write};
use crate::decode::{Node, NodeKind, Visitor, trim_at_nul};
use crate::schema::{Encoding, Scope};

/// Maximum size of a counted string or blob, in bytes. A larger value is refused, because readers
/// could not read its event.
pub(super) const EVENT_SIZE_MAX: usize = 16 << 20;

/// A visitor that writes each field it receives. The caller must pass the fields in the order of
/// the schema.
#[derive(Debug)]
pub struct FieldWriter<'w> {
    pub(super) steps: &'w [Step],
    pub(super) sink: &'w mut Sink,
    /// Values of length fields written so far, by slot, for the counted strings that follow.
    pub(super) slots: &'w mut [u64],
    /// Position before the first field, to which a restart truncates the sink.
    pub(super) start: Mark,
    pub(super) too_large: bool,
}

impl<'w> FieldWriter<'w> {
    pub(super) fn new(steps: &'w [Step], sink: &'w mut Sink, slots: &'w mut [u64]) -> Self {
        let start = sink.mark();
        FieldWriter { steps, sink, slots, start, too_large: false }
    }

    #[inline]
    fn int(&mut self, node: &Node, value: u64) {
        let step = &self.steps[node.id as usize];
        self.sink.align(step.align);
        match step.write {
            Write::Int { bytes, big } => self.sink.int(bytes, big, value),
            Write::Bits(bits) => self.sink.bits(bits, value),
            Write::Truth(bits) => self.sink.bits(bits, u64::from(value != 0)),
            Write::VarInt { signed } => self.sink.var_int(signed, value),
            _ => {}
        }
        if let Some(slot) = step.save {
            self.slots[slot as usize] = value;
        }
    }

    /// Starts a compound field: writes its prefix, if it has one, and aligns.
    #[inline]
    fn begin(&mut self, node: &Node, prefix: u64) {
        let step = &self.steps[node.id as usize];
        if step.prefix.is_some() {
            self.prefix(node, prefix);
        }
        self.sink.align(step.align);
    }

    #[cold]
    fn prefix(&mut self, node: &Node, value: u64) {
        if let Some(prefix) = self.steps[node.id as usize].prefix {
            self.sink.align(prefix.align);
            self.sink.align(prefix.bits.align);
            self.sink.bits(prefix.bits, value);
        }
    }

    fn counted(&mut self, value: &[u8], count: Count) {
        let length = match count {
            Count::Exact => value.len() as u64,
            Count::Static(length) => length,
            Count::Slot(slot) => self.slots[slot as usize],
        };
        if length > EVENT_SIZE_MAX as u64 {
            self.too_large = true;
            return;
        }
        let length = length as usize;
        let value = &value[..value.len().min(length)];
        self.sink.blob(value);
        if value.len() < length {
            self.sink.reserve((length - value.len()) as u64 * 8);
        }
    }
}

impl Visitor for FieldWriter<'_> {
    fn restart(&mut self) {
        self.sink.truncate(self.start);
    }

    #[inline]
    fn begin_scope(&mut self, _: Scope, node: &Node) {
        self.begin(node, 0);
    }

    #[inline]
    fn begin_struct(&mut self, node: &Node) {
        self.begin(node, 0);
    }

    fn begin_array(&mut self, node: &Node, length: u64) {
        self.begin(node, length);
    }

    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.begin(node, u64::from(present));
    }

    fn begin_variant(&mut self, node: &Node, option: usize) {
        self.begin(node, option as u64);
    }

    #[inline]
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.int(node, value);
    }

    #[inline]
    fn signed(&mut self, node: &Node, value: i64) {
        self.int(node, value as u64);
    }

    fn float(&mut self, node: &Node, value: f64) {
        let step = &self.steps[node.id as usize];
        self.sink.align(step.align);
        match &step.write {
            Write::Float(class) => self.sink.float(class, value),
            write => {
                debug_assert!(false, "float written as {write:?} for {:?}", node.kind);
            }
        }
    }

    #[inline]
    fn string(&mut self, node: &Node, value: &[u8]) {
        let steps = self.steps;
        let step = &steps[node.id as usize];
        if step.prefix.is_some() {
            self.prefix(node, value.len() as u64);
        }
        self.sink.align(step.align);
        if self.sink.bytes.len().saturating_add(value.len()) > u32::MAX as usize {
            self.too_large = true;
            return;
        }
        match step.write {
            Write::String { from, to } if from == to || is_utf8(from) && is_utf8(to) => {
                let unit = to.unit_size();
                let value = match unit {
                    1 => memchr::memchr(0, value).map_or(value, |end| &value[..end]),
                    _ => trim_at_nul(value, to),
                };
                self.sink.blob(value);
                self.sink.blob(&[0; 4][..unit]);
            }
            Write::String { from, .. } => {
                let text = from.decode(trim_at_nul(value, from));
                self.sink.blob(text.as_bytes());
                self.sink.blob(&[0]);
            }
            Write::Text(count) | Write::Blob(count) => self.counted(value, count),
            _ => debug_assert!(matches!(node.kind, NodeKind::String(_))),
        }
    }

    fn blob(&mut self, node: &Node, value: &[u8]) {
        let step = &self.steps[node.id as usize];
        let (align, count) = match step.write {
            Write::Blob(count) => (step.align, count),
            _ => return,
        };
        if step.prefix.is_some() {
            self.prefix(node, value.len() as u64);
        }
        self.sink.align(align);
        self.counted(value, count);
    }
}

fn is_utf8(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Utf8 | Encoding::Ascii)
}
