//! Event headers. Nearly all traces have one of LTTng's two layouts, which the compiler recognises
//! in the schema and the decoder reads in one step. Any other header is walked as a program.

use super::program::Program;
use super::view::{Stop, View};
use super::walk::{Machine, clock_after};
use crate::schema::{ByteOrder, FieldClass, IntClass, Role, StructClass, VariantClass};

/// Layout of a stream's event headers.
#[derive(Debug)]
pub(super) enum Header {
    /// A 16-bit id and a 32-bit time. The id 65535 instead announces a 32-bit id and a 64-bit time.
    Large,
    /// A 5-bit id and a 27-bit time in one word. The id 31 instead announces a 32-bit id and a
    /// 64-bit time.
    Compact,
    /// Any other layout, decoded by a program.
    Program(Program),
}

impl Header {
    /// Detects whether event headers of `class` have one of LTTng's layouts, in little-endian order
    /// and aligned to 8 bits. Returns `None` for any other layout.
    pub(super) fn recognise(class: &FieldClass) -> Option<Header> {
        let FieldClass::Struct(StructClass { members, .. }) = class else { return None };
        let [id, rest] = &members[..] else { return None };
        let (FieldClass::Int(id_class), FieldClass::Variant(variant)) = (&id.class, &rest.class)
        else {
            return None;
        };
        let is_selector = variant.selector.path == [id.name.as_str()];
        let whole_bytes = class.align() == 8;
        let extended = struct_option_ranges(variant, |members| match members {
            [id, time] => {
                matches_int(id, 32, 8, Role::EventClassId)
                    && matches_int(time, 64, 8, Role::Timestamp)
            }
            _ => false,
        })?;
        let short = |size, align| {
            struct_option_ranges(variant, move |members| match members {
                [time] => matches_int(time, size, align, Role::Timestamp),
                _ => false,
            })
        };
        let ranges_are = |short: &[(i128, i128)], last: i128| {
            short == [(0, last - 1)] && extended == [(last, last)]
        };
        if !is_selector || !whole_bytes || variant.options.len() != 2 {
            return None;
        }
        if matches_int(id_class, 16, 8, Role::EventClassId) && ranges_are(short(32, 8)?, 65535) {
            return Some(Header::Large);
        }
        if matches_int(id_class, 5, 1, Role::EventClassId) && ranges_are(short(27, 1)?, 31) {
            return Some(Header::Compact);
        }
        None
    }

    /// Splits the first `word` of a short header into the header's size in bytes, the event class
    /// id, and the low bits of the time. Returns `None` for an extended header.
    #[inline(always)]
    pub(super) fn short_parts(large: bool, word: u64) -> Option<(usize, u64, u64)> {
        let (size, id, time) = match large {
            true => (6, word & 0xffff, word >> 16 & 0xffff_ffff),
            false => (4, word & 0x1f, word >> 5 & 0x7ff_ffff),
        };
        let last = if large { 0xffff } else { 0x1f };
        (id != last).then_some((size, id, time))
    }

    /// Reads a header of one of LTTng's layouts. Advances `position` and the machine's clock, and
    /// returns the id of the event class.
    #[inline(always)]
    pub(super) fn read(
        large: bool,
        view: View<'_>,
        position: &mut u64,
        machine: &mut Machine,
    ) -> Result<u64, Stop> {
        let start = position.next_multiple_of(8);
        let bytes = view.whole_bytes().get((start / 8) as usize..).ok_or(Stop::Incomplete)?;
        let short = if large { 6 } else { 4 };
        let word = match bytes.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None if bytes.len() >= short => {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
            None => return Err(Stop::Incomplete),
        };
        if let Some((size, id, time)) = Header::short_parts(large, word) {
            machine.clock = clock_after(machine.clock, time, if large { 32 } else { 27 });
            *position = start + size as u64 * 8;
            return Ok(id);
        }
        // The extended part starts at the next byte after the short id.
        let id_size = if large { 2 } else { 1 };
        let extended = bytes.get(id_size..).and_then(|rest| rest.first_chunk::<12>());
        let Some(extended) = extended else { return Err(Stop::Incomplete) };
        let (id, time) = extended.split_at(4);
        machine.clock = u64::from_le_bytes(time.try_into().unwrap_or_default());
        *position = start + (id_size as u64 + 12) * 8;
        Ok(u64::from(u32::from_le_bytes(id.try_into().unwrap_or_default())))
    }
}

fn matches_int(int: &IntClass, size: u32, align: u64, role: Role) -> bool {
    int.bits.size == size
        && int.bits.align == align
        && int.bits.byte_order == ByteOrder::Little
        && int.bits.bit_order == ByteOrder::Little.usual_bit_order()
        && int.kind == crate::schema::IntKind::Unsigned
        && int.roles == role.into()
}

/// Returns the selector ranges of the first option that is a structure of integers accepted by
/// `wanted`, with an alignment of 1 or 8 bits; `None` if there is no such option.
fn struct_option_ranges(
    variant: &VariantClass,
    wanted: impl Fn(&[&IntClass]) -> bool,
) -> Option<&[(i128, i128)]> {
    variant.options.iter().find_map(|option| {
        let FieldClass::Struct(structure) = &option.class else { return None };
        let ints: Option<Vec<&IntClass>> = structure
            .members
            .iter()
            .map(|member| match &member.class {
                FieldClass::Int(int) => Some(int),
                _ => None,
            })
            .collect();
        let aligned = matches!(option.class.align(), 1 | 8);
        (aligned && wanted(&ints?)).then_some(&option.ranges.0[..])
    })
}
