//! Execution of a program on a packet's bytes.
//!
//! The bytes may be hostile. Every op checks that its bytes exist, counts are compared with the
//! remaining bytes before any loop, and elements with a minimum size of zero are charged to a
//! budget. Execution allocates nothing.

use super::error::DecodeErrorKind;
use super::node::Node;
use super::op::{Count, ElementSize, NONE, Op, Save};
use super::program::Program;
use super::view::{Stop, View};
use super::visit::Visitor;
use crate::schema::{ByteOrder, Encoding, Role, Uuid};
use crate::{bits, float};

/// Maximum work in one walk for array elements whose minimum size is zero. Each such element counts
/// as its number of ops plus one.
const EMPTY_BUDGET: u64 = 1 << 20;

const ROLE_COUNT: usize = 11;

/// The decoding state of a stream: its clock, the values on which later fields depend, and the
/// values of fields with roles.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The stream's clock, in cycles.
    pub clock: u64,
    slots: Box<[u64]>,
    roles: [u64; ROLE_COUNT],
    roles_set: u16,
    uuid: Option<Uuid>,
    pub(super) width_discarded: u32,
}

impl Machine {
    pub(super) fn new(slot_count: usize) -> Machine {
        Machine {
            clock: 0,
            slots: vec![0; slot_count].into(),
            roles: [0; ROLE_COUNT],
            roles_set: 0,
            uuid: None,
            width_discarded: 64,
        }
    }

    pub(super) fn role(&self, role: Role) -> Option<u64> {
        let bit = role as u16;
        (self.roles_set & bit != 0).then(|| self.roles[bit.trailing_zeros() as usize])
    }

    pub(super) fn roles_clear(&mut self) {
        self.roles_set = 0;
        self.uuid = None;
    }

    #[inline]
    pub(super) fn event_id_clear(&mut self) {
        self.roles_set &= !(Role::EventClassId as u16);
    }

    /// Returns the UUID in the packet's header; `None` if the header has none.
    pub(super) fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// Stores the value of an integer field in its slot and under its roles. Updates the clock if
    /// the field is a timestamp. `raw` contains the field's bits, with zeros above them.
    #[inline]
    fn save(&mut self, save: &Save, raw: u64, signed: bool) {
        if let Some(slot) = save.slot {
            let value =
                if signed { bits::sign_extend(raw, save.size) as u64 ^ SIGN_BIT } else { raw };
            self.slots[slot as usize] = value;
        }
        let mut roles = save.roles;
        while roles != 0 {
            let role = roles.trailing_zeros();
            self.roles[role as usize] = raw;
            roles &= roles - 1;
        }
        self.roles_set |= save.roles;
        if save.roles & Role::EventsDiscarded as u16 != 0 {
            self.width_discarded = save.size;
        }
        if save.clock_bits != 0 {
            self.clock = clock_after(self.clock, raw, save.clock_bits);
        }
    }

    /// Walks `program` from bit `position` of `view`, and advances `position` to the end of the
    /// fields.
    #[inline]
    pub(super) fn walk<V: Visitor>(
        &mut self,
        nodes: &[Node],
        program: &Program,
        view: View<'_>,
        position: &mut u64,
        visitor: &mut V,
    ) -> Result<(), Stop> {
        if let Some(plain) = &program.plain {
            return match V::USES_VALUES {
                true => plain.visit(nodes, view, position, visitor),
                false => plain.skip(view, position),
            };
        }
        let mut walk = Walk {
            machine: self,
            saves: &program.saves,
            nodes,
            view,
            position: *position,
            empty_budget: EMPTY_BUDGET,
            order: None,
        };
        walk.run(&program.ops, visitor)?;
        *position = walk.position;
        Ok(())
    }
}

/// Bit that is flipped in stored signed values, so that they compare as unsigned numbers.
pub(super) const SIGN_BIT: u64 = 1 << 63;

/// Returns a clock's value after a reading of its low `size` bits. A reading below the clock's low
/// bits means that these bits have wrapped once.
#[inline]
pub(crate) fn clock_after(clock: u64, value: u64, size: u32) -> u64 {
    if size >= 64 {
        return value;
    }
    let mask = (1u64 << size) - 1;
    let base = if value < clock & mask { clock.wrapping_add(mask + 1) } else { clock };
    base & !mask | value
}

struct Walk<'w> {
    machine: &'w mut Machine,
    saves: &'w [Save],
    nodes: &'w [Node],
    view: View<'w>,
    position: u64,
    empty_budget: u64,
    /// Byte order of the last field read by a bit or float op.
    order: Option<ByteOrder>,
}

impl<'w> Walk<'w> {
    fn run<V: Visitor>(&mut self, ops: &[Op], visitor: &mut V) -> Result<(), Stop> {
        let mut index = 0;
        while let Some(op) = ops.get(index) {
            index += 1;
            match *op {
                Op::Align(align) => self.align(align)?,
                Op::Run { bytes, ops: count } => {
                    if !V::USES_VALUES {
                        self.consume(u64::from(bytes) * 8)?;
                        index += count as usize;
                    }
                }
                Op::Int { node, save, bytes, signed, big } => {
                    let raw = self.int(bytes, big)?;
                    self.integer(node, save, raw, signed.then_some(u32::from(bytes) * 8), visitor);
                }
                Op::Bits { node, save, bits, signed } => {
                    let at = self.consume(u64::from(bits.size))?;
                    self.check_order(at, bits.byte_order)?;
                    let raw = bits::read(self.view.bytes, at, bits);
                    self.integer(node, save, raw, signed.then_some(bits.size), visitor);
                }
                Op::VarInt { node, save, signed } => {
                    let raw = self.var_int(signed)?;
                    self.integer(node, save, raw, signed.then_some(64), visitor);
                }
                Op::Float { node, ref class } => {
                    let at = self.consume(u64::from(class.bits.size))?;
                    self.check_order(at, class.bits.byte_order)?;
                    if let Some(node) = self.visible_node::<V>(node) {
                        let value = float::read(self.view.bytes, at, class);
                        visitor.float(node, value);
                    }
                }
                Op::String { node, encoding } => {
                    let value = self.string(encoding.unit_size())?;
                    if let Some(node) = self.visible_node::<V>(node) {
                        visitor.string(node, value);
                    }
                }
                Op::Text { node, length, encoding } => {
                    let value = self.bytes(length)?;
                    if let Some(node) = self.visible_node::<V>(node) {
                        let value = trim_at_nul(value, encoding);
                        visitor.string(node, value);
                    }
                }
                Op::Blob { node, length, uuid } => {
                    let value = self.bytes(length)?;
                    if uuid && let Ok(value) = value.try_into() {
                        self.machine.uuid = Some(Uuid(value));
                    }
                    if let Some(node) = self.visible_node::<V>(node) {
                        visitor.blob(node, value);
                    }
                }
                Op::BeginScope(scope, node) => {
                    if let Some(node) = self.visible_node::<V>(node) {
                        visitor.begin_scope(scope, node);
                    }
                }
                Op::EndScope(scope) => {
                    if V::USES_VALUES {
                        visitor.end_scope(scope);
                    }
                }
                Op::BeginStruct(node) => {
                    if let Some(node) = self.visible_node::<V>(node) {
                        visitor.begin_struct(node);
                    }
                }
                Op::EndStruct(node) => {
                    if let Some(node) = self.visible_node::<V>(node) {
                        visitor.end_struct(node);
                    }
                }
                Op::Array { node, length, body, element } => {
                    let body_ops = &ops[index..index + body as usize];
                    index += body as usize;
                    self.array(node, length, element, body_ops, visitor)?;
                }
                Op::Optional { node, slot, ref ranges, body } => {
                    let body_ops = &ops[index..index + body as usize];
                    index += body as usize;
                    let present = in_ranges(ranges, self.machine.slots[slot as usize]);
                    let shown = self.visible_node::<V>(node);
                    if let Some(node) = shown {
                        visitor.begin_optional(node, present);
                    }
                    if present {
                        self.run(body_ops, visitor)?;
                    }
                    if let Some(node) = shown {
                        visitor.end_optional(node);
                    }
                }
                Op::Variant { node, slot, signed, ref branches, body } => {
                    let selector = self.machine.slots[slot as usize];
                    let branch = branches
                        .iter()
                        .find(|branch| in_ranges(&branch.ranges, selector))
                        .ok_or_else(|| {
                            let value = match signed {
                                true => i128::from((selector ^ SIGN_BIT) as i64),
                                false => i128::from(selector),
                            };
                            self.bad(DecodeErrorKind::NoOption(value))
                        })?;
                    let start = index + branch.start as usize;
                    let branch_ops = &ops[start..start + branch.ops as usize];
                    index += body as usize;
                    let shown = self.visible_node::<V>(node);
                    if let Some(node) = shown {
                        visitor.begin_variant(node, branch.option as usize);
                    }
                    self.run(branch_ops, visitor)?;
                    if let Some(node) = shown {
                        visitor.end_variant(node);
                    }
                }
            }
        }
        Ok(())
    }

    fn bad(&self, kind: DecodeErrorKind) -> Stop {
        Stop::bad(self.view.base_bits() + self.position, kind)
    }

    /// Consumes `size` bits, and returns their position.
    #[inline]
    fn consume(&mut self, size: u64) -> Result<u64, Stop> {
        let at = self.position;
        if size > self.view.end.saturating_sub(at) {
            return Err(Stop::Incomplete);
        }
        self.position = at + size;
        Ok(at)
    }

    /// Rejects a field that begins within a byte whose earlier bits have another byte order.
    #[inline]
    fn check_order(&mut self, at: u64, order: ByteOrder) -> Result<(), Stop> {
        match self.order.replace(order) {
            Some(before) if before != order && !at.is_multiple_of(8) => {
                Err(self.bad(DecodeErrorKind::ByteOrder))
            }
            _ => Ok(()),
        }
    }

    /// Advances to a multiple of `align` bits from the packet's start. Padding may extend beyond
    /// the content.
    #[inline]
    fn align(&mut self, align: u64) -> Result<(), Stop> {
        let base = self.view.base_bits();
        let absolute = base + self.position;
        let aligned = absolute.checked_add(align - 1).ok_or(Stop::Incomplete)? & !(align - 1);
        self.position = aligned - base;
        Ok(())
    }

    /// Returns the node for a visit; `None` if the field is hidden or the visitor ignores values.
    #[inline(always)]
    fn visible_node<V: Visitor>(&self, node: u32) -> Option<&'w Node> {
        (V::USES_VALUES && node != NONE).then(|| &self.nodes[node as usize])
    }

    /// Stores an integer as its [`Save`] requires, and passes it to the visitor. `sign_size` is the
    /// width of a signed integer in bits.
    #[inline(always)]
    fn integer<V: Visitor>(
        &mut self,
        node: u32,
        save: u32,
        raw: u64,
        sign_size: Option<u32>,
        visitor: &mut V,
    ) {
        if save != NONE {
            self.machine.save(&self.saves[save as usize], raw, sign_size.is_some());
        }
        if let Some(node) = self.visible_node::<V>(node) {
            match sign_size {
                Some(size) => visitor.signed(node, bits::sign_extend(raw, size)),
                None => visitor.unsigned(node, raw),
            }
        }
    }

    #[inline]
    fn int(&mut self, bytes: u8, big: bool) -> Result<u64, Stop> {
        let at = (self.consume(u64::from(bytes) * 8)? / 8) as usize;
        let from = &self.view.bytes[at..];
        fn first<const N: usize>(from: &[u8]) -> [u8; N] {
            from.first_chunk().copied().unwrap_or([0; N])
        }
        Ok(match (bytes, big) {
            (1, _) => u64::from(from[0]),
            (2, false) => u64::from(u16::from_le_bytes(first(from))),
            (4, false) => u64::from(u32::from_le_bytes(first(from))),
            (_, false) => u64::from_le_bytes(first(from)),
            (2, true) => u64::from(u16::from_be_bytes(first(from))),
            (4, true) => u64::from(u32::from_be_bytes(first(from))),
            (_, true) => u64::from_be_bytes(first(from)),
        })
    }

    fn var_int(&mut self, signed: bool) -> Result<u64, Stop> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let at = self.consume(8)?;
            let byte = self.view.bytes[(at / 8) as usize];
            let part = u64::from(byte & 0x7f);
            // Above bit 63 only copies of the sign (zeros in unsigned integers) are accepted.
            if shift < 64 {
                value |= part << shift;
            }
            let lost = match shift {
                0..=56 => false,
                63 if signed => part != 0 && part != 0x7f,
                63 => part > 1,
                _ => part != 0 && !(signed && part == 0x7f),
            };
            if lost || shift > 1024 {
                return Err(self.bad(DecodeErrorKind::VarInt));
            }
            shift += 7;
            if byte & 0x80 == 0 {
                if signed && shift < 64 && byte & 0x40 != 0 {
                    value |= u64::MAX << shift;
                }
                return Ok(value);
            }
        }
    }

    /// Reads a string up to a NUL of `unit` bytes, and consumes the NUL too.
    #[inline]
    fn string(&mut self, unit: usize) -> Result<&'w [u8], Stop> {
        let start = (self.position / 8) as usize;
        let bytes = self.view.whole_bytes();
        let rest = bytes.get(start..).ok_or(Stop::Incomplete)?;
        let length = find_nul(rest, unit).ok_or(Stop::Incomplete)?;
        self.position = ((start + length + unit) as u64) * 8;
        Ok(&rest[..length])
    }

    #[inline]
    fn count(&self, count: Count) -> u64 {
        match count {
            Count::Static(count) => count,
            Count::Slot(slot) => self.machine.slots[slot as usize],
        }
    }

    #[inline]
    fn bytes(&mut self, length: Count) -> Result<&'w [u8], Stop> {
        let length = self.count(length);
        let at = (self.consume(length.checked_mul(8).ok_or(Stop::Incomplete)?)? / 8) as usize;
        // A string of zero bytes may follow padding that extends beyond the view.
        Ok(self.view.bytes.get(at..at + length as usize).unwrap_or_default())
    }

    fn array<V: Visitor>(
        &mut self,
        node: u32,
        length: Count,
        element: ElementSize,
        body: &[Op],
        visitor: &mut V,
    ) -> Result<(), Stop> {
        let length = self.count(length);
        let shown = self.visible_node::<V>(node);
        let least = match element {
            ElementSize::Bytes(bytes) => u64::from(bytes) * 8,
            ElementSize::Least(bits) => bits,
        };
        let left = self.view.end.saturating_sub(self.position);
        if length.checked_mul(least).is_none_or(|size| size > left) {
            return Err(Stop::Incomplete);
        }
        if least == 0 {
            let cost = length.saturating_mul(body.len() as u64 + 1);
            self.empty_budget = self
                .empty_budget
                .checked_sub(cost)
                .ok_or_else(|| self.bad(DecodeErrorKind::EmptyElements))?;
        }
        if let Some(node) = shown {
            visitor.begin_array(node, length);
        }
        if let (None, ElementSize::Bytes(_)) = (shown, element) {
            self.consume(length * least)?;
        } else {
            for _ in 0..length {
                self.run(body, visitor)?;
            }
        }
        if let Some(node) = shown {
            visitor.end_array(node);
        }
        Ok(())
    }
}

#[inline]
fn in_ranges(ranges: &[(u64, u64)], value: u64) -> bool {
    ranges.iter().any(|&(low, high)| low <= value && value <= high)
}

/// Returns the number of bytes before the first NUL; a NUL is `unit` zero bytes.
#[inline]
fn find_nul(bytes: &[u8], unit: usize) -> Option<usize> {
    let is_nul = |unit: &[u8]| unit.iter().all(|&byte| byte == 0);
    match unit {
        1 => memchr::memchr(0, bytes),
        _ => bytes.chunks_exact(unit).position(is_nul).map(|index| index * unit),
    }
}

/// Returns the complete code units of a string before its first NUL. Bytes from the NUL on are
/// padding.
#[inline]
pub(crate) fn trim_at_nul(bytes: &[u8], encoding: Encoding) -> &[u8] {
    let unit = encoding.unit_size();
    match find_nul(bytes, unit) {
        Some(length) => &bytes[..length],
        None if unit == 1 => bytes,
        None => &bytes[..bytes.len() - bytes.len() % unit],
    }
}
