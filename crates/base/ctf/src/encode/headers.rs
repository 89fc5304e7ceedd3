//! Packet headers, packet contexts and event headers: fields that the encoder fills by itself, by
//! their roles.
//!
//! Such a structure may hold variants (LTTng's event headers do: a short form and an extended
//! one). Each choice of their options is a [`Way`] to write it, flat; the first way that can hold
//! an event's class and time is taken.

use super::error::EncodeError;
use super::sink::Sink;
use crate::bits;
use crate::decode::clock_after;
use crate::metadata::limits::DEPTH_MAX;
use crate::schema::{
    Bits, FieldClass, FieldRef, IntClass, IntKind, Length, Ranges, Role, Roles, Scope,
    VariantOption,
};
use std::collections::HashMap;

/// More combinations of options are not looked at.
const WAYS_MAX: usize = 64;
/// No header has more fields.
const FIELDS_MAX: usize = 4096;

/// A field that the encoder fills.
#[derive(Clone, Debug)]
pub(super) struct HeadField {
    pub(super) align: u64,
    pub(super) form: Form,
    pub(super) what: What,
    /// Names on the way, for selectors.
    path: Vec<String>,
    /// The width, if its value advances the clock.
    clock_bits: u32,
    is_signed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Bits(Bits),
    /// LEB128, always of ten bytes, so that its value can be set afterwards.
    VarInt {
        signed: bool,
    },
    /// So many bits.
    Filling(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Role(Role),
    Uuid,
    Const(u64),
}

/// Fields in the order of their bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) fields: Vec<HeadField>,
    /// Event class ids that it can hold.
    ids: Option<Ranges>,
    /// Alignment that the next field must have on top of its own.
    align: u64,
}

/// All ways to write a structure.
pub(super) fn ways(scope: Scope, class: &FieldClass) -> Result<Vec<Way>, EncodeError> {
    settled(&Search { scope, is_any_enough: false, values: HashMap::new() }, class)
}

/// One of the ways.
///
/// A selector gets its value when a variant needs it, perhaps after something else has taken it for
/// zero; so the values that were found are the start of another try.
pub(super) fn one_way(scope: Scope, class: &FieldClass) -> Result<Option<Way>, EncodeError> {
    const TRIES_MAX: usize = 8;
    let mut search = Search { scope, is_any_enough: true, values: HashMap::new() };
    for _ in 0..TRIES_MAX {
        let Some(way) = settled(&search, class)?.into_iter().next() else { return Ok(None) };
        let known = search.values.len();
        search.values.extend(way.fields.iter().filter_map(|field| match field.what {
            What::Const(value) if value != 0 => Some((field.path.clone(), value)),
            _ => None,
        }));
        if search.values.len() == known {
            return Ok(Some(way));
        }
    }
    fail(scope, "its selectors depend on each other")
}

struct Search {
    scope: Scope,
    /// Whether one option of each variant will do.
    is_any_enough: bool,
    /// Values of selectors, by path.
    values: HashMap<Vec<String>, u64>,
}

fn settled(search: &Search, class: &FieldClass) -> Result<Vec<Way>, EncodeError> {
    let mut all = vec![Way::default()];
    let mut path = Vec::new();
    add(search, class, &mut path, &mut all, 0)?;
    for way in &mut all {
        // What is empty may align all the same.
        if way.align > 1 {
            let (form, what) = (Form::Filling(0), What::Const(0));
            let path = Vec::new();
            let align = way.align;
            let (clock_bits, is_signed) = (0, false);
            way.fields.push(HeadField { align, form, what, path, clock_bits, is_signed });
        }
        way.settle();
    }
    Ok(all)
}

fn fail<T>(scope: Scope, message: &str) -> Result<T, EncodeError> {
    Err(EncodeError::new(format!("{}: {message}", scope.tsdl_name())))
}

fn add(
    search: &Search,
    class: &FieldClass,
    path: &mut Vec<String>,
    all: &mut Vec<Way>,
    depth: usize,
) -> Result<(), EncodeError> {
    if depth > DEPTH_MAX || all.iter().any(|way| way.fields.len() > FIELDS_MAX) {
        return fail(search.scope, "more fields than a header could have");
    }
    for way in all.iter_mut() {
        way.align = way.align.max(class.align());
    }
    let is_signed = match class {
        FieldClass::Int(int) => int.kind == IntKind::Signed,
        FieldClass::VarInt(int) => int.signed,
        _ => false,
    };
    let value = |what: What, path: &[String]| match (what, search.values.get(path)) {
        (What::Const(_), Some(&value)) => What::Const(value),
        _ => what,
    };
    let mut push = |form: Form, what: What, clock_bits: u32| {
        for way in all.iter_mut() {
            let align = way.align.max(class.align());
            way.align = 0;
            way.fields.push(HeadField {
                align,
                form,
                what,
                path: path.clone(),
                clock_bits,
                is_signed,
            });
        }
    };
    match class {
        FieldClass::Int(int) => {
            let what = value(role(int.roles), path);
            let clock_bits = if int.roles.has(Role::Timestamp) { int.bits.size } else { 0 };
            push(Form::Bits(int.bits), what, clock_bits);
        }
        FieldClass::VarInt(int) => {
            let clock_bits = if int.roles.has(Role::Timestamp) { 64 } else { 0 };
            let what = value(role(int.roles), path);
            push(Form::VarInt { signed: int.signed }, what, clock_bits);
        }
        FieldClass::Float(float) => {
            push(Form::Filling(u64::from(float.bits.size)), What::Const(0), 0);
        }
        FieldClass::String(string) => {
            push(Form::Filling(string.encoding.unit_size() as u64 * 8), What::Const(0), 0);
        }
        FieldClass::Text(text) => push(filling(&text.length), What::Const(0), 0),
        FieldClass::Blob(blob) if blob.roles.has(Role::Uuid) => {
            push(filling(&blob.length), What::Uuid, 0);
        }
        FieldClass::Blob(blob) => push(filling(&blob.length), What::Const(0), 0),
        FieldClass::Struct(structure) => {
            for member in &structure.members {
                path.push(member.name.clone());
                let added = add(search, &member.class, path, all, depth + 1);
                path.pop();
                added?;
            }
        }
        FieldClass::Array(array) => {
            let Length::Static(length) = array.length else { return Ok(()) };
            if length > FIELDS_MAX as u64 {
                return fail(search.scope, "an array of more elements than a header could have");
            }
            for _ in 0..length {
                add(search, &array.element, path, all, depth + 1)?;
            }
        }
        FieldClass::Optional(optional) => {
            // Whether it is there is up to the value that its selector has by now.
            let ranges = match &optional.ranges {
                Some(ranges) => ranges.clone(),
                None => Ranges(vec![(1, u64::MAX.into())]),
            };
            let is_there = |way: &Way| way.has_value(&optional.selector, &ranges);
            let (mut with, without): (Vec<Way>, _) =
                std::mem::take(all).into_iter().partition(is_there);
            if !with.is_empty() {
                add(search, &optional.content, path, &mut with, depth + 1)?;
            }
            all.extend(with.into_iter().chain(without));
        }
        FieldClass::Variant(variant) => {
            let before = std::mem::take(all);
            // Of any that will do, the one that goes with the value that the selector has.
            let goes = |option: &VariantOption| {
                before.iter().all(|way| way.has_value(&variant.selector, &option.ranges))
            };
            let only = match search.is_any_enough {
                true => variant.options.iter().position(goes).or(Some(0)),
                false => None,
            };
            for (index, option) in variant.options.iter().enumerate() {
                if only.is_some_and(|only| only != index) {
                    continue;
                }
                let mut chosen: Vec<Way> = before
                    .iter()
                    .filter_map(|way| way.clone().choosing(&variant.selector, &option.ranges))
                    .collect();
                if chosen.len() + all.len() > WAYS_MAX {
                    return fail(search.scope, "more variants than a header could have");
                }
                add(search, &option.class, path, &mut chosen, depth + 1)?;
                all.append(&mut chosen);
            }
        }
    }
    Ok(())
}

fn filling(length: &Length) -> Form {
    match length {
        Length::Static(length) => Form::Filling(length.saturating_mul(8)),
        Length::Dynamic(_) => Form::Filling(0),
    }
}

fn role(roles: Roles) -> What {
    // A UUID is a blob, and has a form of its own.
    let mut others = Role::ALL.into_iter().filter(|&role| role != Role::Uuid);
    others.find(|&role| roles.has(role)).map_or(What::Const(0), What::Role)
}

impl Way {
    /// The way with a value of `ranges` in the selector.
    fn choosing(mut self, selector: &FieldRef, ranges: &Ranges) -> Option<Way> {
        let field = self.fields.iter_mut().rev().find(|field| field.path == selector.path)?;
        let low = ranges.0.iter().find(|(low, high)| low <= high)?.0;
        match field.what {
            What::Role(Role::EventClassId) => self.ids = Some(ranges.clone()),
            _ => field.what = What::Const(low as u64),
        }
        Some(self)
    }

    /// Whether the value that a selector has already is in `ranges`.
    fn has_value(&self, selector: &FieldRef, ranges: &Ranges) -> bool {
        let field = self.fields.iter().rev().find(|field| field.path == selector.path);
        field.is_some_and(|field| match field.what {
            What::Const(value) if field.is_signed => ranges.contains((value as i64).into()),
            What::Const(value) => ranges.contains(value.into()),
            _ => false,
        })
    }

    /// An id that selects an option is no id if that option has one of its own.
    fn settle(&mut self) {
        let is_id = |field: &HeadField| field.what == What::Role(Role::EventClassId);
        let count = self.fields.iter().filter(|field| is_id(field)).count();
        if count < 2 {
            return;
        }
        let low = self.ids.take().and_then(|ranges| ranges.0.first().map(|&(low, _)| low));
        let earlier = self.fields.iter_mut().filter(|field| is_id(field)).take(count - 1);
        for field in earlier {
            field.what = What::Const(low.unwrap_or(0) as u64);
        }
    }

    /// Whether it can hold an event class's id.
    pub(super) fn holds_id(&self, id: u64) -> bool {
        let fits = |field: &HeadField| match (field.what, field.form) {
            (What::Role(Role::EventClassId), Form::Bits(bits)) => bits::low(id, bits.size) == id,
            _ => true,
        };
        self.ids.as_ref().is_none_or(|ids| ids.contains(i128::from(id)))
            && self.fields.iter().all(fits)
    }

    /// Whether a reader whose clock stands at `clock` finds out `time`.
    #[inline]
    pub(super) fn holds_time(&self, clock: u64, time: u64) -> bool {
        let mut after = None;
        for field in &self.fields {
            if field.clock_bits != 0 {
                let low = bits::low(time, field.clock_bits);
                after = Some(clock_after(after.unwrap_or(clock), low, field.clock_bits));
            }
        }
        after.is_none_or(|after| after == time)
    }

    /// Writes an event's header.
    #[inline]
    pub(super) fn write_event(&self, sink: &mut Sink, id: u64, time: u64) {
        for field in &self.fields {
            let value = match field.what {
                What::Role(Role::EventClassId) => id,
                What::Role(Role::Timestamp) => time,
                What::Const(value) => value,
                What::Role(_) | What::Uuid => 0,
            };
            field.write(sink, value);
        }
    }
}

impl HeadField {
    #[inline]
    pub(super) fn write(&self, sink: &mut Sink, value: u64) {
        sink.align(self.align);
        match self.form {
            Form::Bits(bits) => match bits.size {
                8 | 16 | 32 | 64
                    if self.align >= 8 && bits.bit_order == bits.byte_order.usual_bit_order() =>
                {
                    let big = bits.byte_order == crate::schema::ByteOrder::Big;
                    sink.int((bits.size / 8) as u8, big, value);
                }
                _ => sink.bits(bits, value),
            },
            Form::VarInt { signed } => {
                let at = sink.reserve(VAR_INT_SIZE as u64 * 8);
                set_var_int(&mut sink.bytes, at, value, signed);
            }
            Form::Filling(size) => {
                sink.reserve(size.min(FIELDS_MAX as u64 * 8));
            }
        }
    }
}

const VAR_INT_SIZE: usize = 10;

/// Writes a LEB128 integer of exactly ten bytes at bit `at`.
pub(super) fn set_var_int(bytes: &mut [u8], at: u64, value: u64, signed: bool) {
    let start = (at / 8) as usize;
    for (index, byte) in bytes[start..start + VAR_INT_SIZE].iter_mut().enumerate() {
        let more = if index + 1 < VAR_INT_SIZE { 0x80 } else { 0 };
        let rest = match signed {
            true => ((value as i64) >> (7 * index)) as u64,
            false => value >> (7 * index),
        };
        *byte = (rest & 0x7f) as u8 | more;
    }
}

/// Whether a field or something in it has a role.
pub(super) fn has_role(class: &FieldClass) -> bool {
    match class {
        FieldClass::Int(IntClass { roles, kind, .. }) => {
            !roles.is_empty() && *kind != IntKind::Signed
        }
        FieldClass::VarInt(int) => !int.roles.is_empty(),
        FieldClass::Blob(blob) => !blob.roles.is_empty(),
        FieldClass::Struct(structure) => {
            structure.members.iter().any(|member| has_role(&member.class))
        }
        FieldClass::Array(array) => has_role(&array.element),
        FieldClass::Optional(optional) => has_role(&optional.content),
        FieldClass::Variant(variant) => {
            variant.options.iter().any(|option| has_role(&option.class))
        }
        _ => false,
    }
}
