//! Packet headers, packet contexts and event headers: structures whose fields the encoder fills by
//! role.
//!
//! Such a structure may contain variants. (LTTng's event headers have one, with a short and an
//! extended form.) Each combination of options is a [`Layout`], a flat list of fields. For each
//! event, the encoder uses the first layout that can represent the event class's id and the time.

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

/// Maximum number of layouts, i.e. of combinations of options.
const LAYOUTS_MAX: usize = 64;
/// Maximum number of fields of a header. Also the maximum number of elements of an array in a
/// header, and of bytes of a padding; a longer padding is truncated.
const FIELDS_MAX: usize = 4096;

/// A header field that the encoder fills by role or with a constant.
#[derive(Clone, Debug)]
pub(super) struct HeaderField {
    pub(super) align: u64,
    pub(super) form: Form,
    pub(super) content: Content,
    /// Names on the path to the field, by which selectors refer to it.
    path: Vec<String>,
    /// Width of the value in bits if the field is a timestamp, else 0.
    clock_bits: u32,
    is_signed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Bits(Bits),
    /// A LEB128 integer that always has ten bytes, so that its value can be set afterwards.
    VarInt {
        signed: bool,
    },
    /// Padding: this number of zero bits.
    Padding(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Role(Role),
    Uuid,
    Const(u64),
}

/// The fields of a header for one combination of options, in the order of their bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) fields: Vec<HeaderField>,
    /// Event class ids that the layout can represent; `None` for no restriction.
    ids: Option<Ranges>,
    /// Minimum alignment of the next field in bits, in addition to the field's own; set at the
    /// start of a structure or array.
    align: u64,
}

/// Returns the layouts of a header, one for each combination of options.
pub(super) fn layouts(scope: Scope, class: &FieldClass) -> Result<Vec<Layout>, EncodeError> {
    search_layouts(&Search { scope, first_only: false, values: HashMap::new() }, class)
}

/// Returns the first layout of a packet header or context; `None` if no combination of options is
/// possible.
///
/// The chosen option of a variant determines the value of the variant's selector. An earlier
/// optional or variant with the same selector may have assumed that the value is zero. The search
/// is therefore repeated with the values found, until it finds no further values.
pub(super) fn one_layout(scope: Scope, class: &FieldClass) -> Result<Option<Layout>, EncodeError> {
    const TRIES_MAX: usize = 8;
    let mut search = Search { scope, first_only: true, values: HashMap::new() };
    for _ in 0..TRIES_MAX {
        let Some(layout) = search_layouts(&search, class)?.into_iter().next() else {
            return Ok(None);
        };
        let known = search.values.len();
        search.values.extend(layout.fields.iter().filter_map(|field| match field.content {
            Content::Const(value) if value != 0 => Some((field.path.clone(), value)),
            _ => None,
        }));
        if search.values.len() == known {
            return Ok(Some(layout));
        }
    }
    fail(scope, "its selectors depend on each other")
}

struct Search {
    scope: Scope,
    /// True if only one option of each variant is searched: the option that matches the selector's
    /// current value, else the first one.
    first_only: bool,
    /// Values of selectors that earlier searches found, by path.
    values: HashMap<Vec<String>, u64>,
}

fn search_layouts(search: &Search, class: &FieldClass) -> Result<Vec<Layout>, EncodeError> {
    let mut all = vec![Layout::default()];
    let mut path = Vec::new();
    add(search, class, &mut path, &mut all, 0)?;
    for layout in &mut all {
        // An empty structure at the end may still require alignment.
        if layout.align > 1 {
            let (form, content) = (Form::Padding(0), Content::Const(0));
            let path = Vec::new();
            let align = layout.align;
            let (clock_bits, is_signed) = (0, false);
            layout.fields.push(HeaderField { align, form, content, path, clock_bits, is_signed });
        }
        layout.resolve_ids();
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
    all: &mut Vec<Layout>,
    depth: usize,
) -> Result<(), EncodeError> {
    if depth > DEPTH_MAX || all.iter().any(|layout| layout.fields.len() > FIELDS_MAX) {
        return fail(search.scope, "more fields than a header could have");
    }
    for layout in all.iter_mut() {
        layout.align = layout.align.max(class.align());
    }
    let is_signed = match class {
        FieldClass::Int(int) => int.kind == IntKind::Signed,
        FieldClass::VarInt(int) => int.signed,
        _ => false,
    };
    let value = |content: Content, path: &[String]| match (content, search.values.get(path)) {
        (Content::Const(_), Some(&value)) => Content::Const(value),
        _ => content,
    };
    let mut push = |form: Form, content: Content, clock_bits: u32| {
        for layout in all.iter_mut() {
            let align = layout.align.max(class.align());
            layout.align = 0;
            layout.fields.push(HeaderField {
                align,
                form,
                content,
                path: path.clone(),
                clock_bits,
                is_signed,
            });
        }
    };
    match class {
        FieldClass::Int(int) => {
            let content = value(role(int.roles), path);
            let clock_bits = if int.roles.has(Role::Timestamp) { int.bits.size } else { 0 };
            push(Form::Bits(int.bits), content, clock_bits);
        }
        FieldClass::VarInt(int) => {
            let clock_bits = if int.roles.has(Role::Timestamp) { 64 } else { 0 };
            let content = value(role(int.roles), path);
            push(Form::VarInt { signed: int.signed }, content, clock_bits);
        }
        FieldClass::Float(float) => {
            push(Form::Padding(u64::from(float.bits.size)), Content::Const(0), 0);
        }
        FieldClass::String(string) => {
            push(Form::Padding(string.encoding.unit_size() as u64 * 8), Content::Const(0), 0);
        }
        FieldClass::Text(text) => push(padding(&text.length), Content::Const(0), 0),
        FieldClass::Blob(blob) if blob.roles.has(Role::Uuid) => {
            push(padding(&blob.length), Content::Uuid, 0);
        }
        FieldClass::Blob(blob) => push(padding(&blob.length), Content::Const(0), 0),
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
            // The content is present in those layouts whose selector currently has a matching
            // value.
            let ranges = match &optional.ranges {
                Some(ranges) => ranges.clone(),
                None => Ranges(vec![(1, u64::MAX.into())]),
            };
            let is_there = |layout: &Layout| layout.has_value(&optional.selector, &ranges);
            let (mut with, without): (Vec<Layout>, _) =
                std::mem::take(all).into_iter().partition(is_there);
            if !with.is_empty() {
                add(search, &optional.content, path, &mut with, depth + 1)?;
            }
            all.extend(with.into_iter().chain(without));
        }
        FieldClass::Variant(variant) => {
            let before = std::mem::take(all);
            // Prefers the option that matches the current value of the selector.
            let fits = |option: &VariantOption| {
                before.iter().all(|layout| layout.has_value(&variant.selector, &option.ranges))
            };
            let only = match search.first_only {
                true => variant.options.iter().position(fits).or(Some(0)),
                false => None,
            };
            for (index, option) in variant.options.iter().enumerate() {
                if only.is_some_and(|only| only != index) {
                    continue;
                }
                let mut chosen: Vec<Layout> = before
                    .iter()
                    .filter_map(|layout| {
                        layout.clone().with_selector_in(&variant.selector, &option.ranges)
                    })
                    .collect();
                if chosen.len() + all.len() > LAYOUTS_MAX {
                    return fail(search.scope, "more variants than a header could have");
                }
                add(search, &option.class, path, &mut chosen, depth + 1)?;
                all.append(&mut chosen);
            }
        }
    }
    Ok(())
}

fn padding(length: &Length) -> Form {
    match length {
        Length::Static(length) => Form::Padding(length.saturating_mul(8)),
        Length::Dynamic(_) => Form::Padding(0),
    }
}

fn role(roles: Roles) -> Content {
    // A UUID field is a blob, which gets `Content::Uuid` instead.
    let mut others = Role::ALL.into_iter().filter(|&role| role != Role::Uuid);
    others.find(|&role| roles.has(role)).map_or(Content::Const(0), Content::Role)
}

impl Layout {
    /// Sets the selector to a value of `ranges`, or restricts the ids if the selector is the event
    /// class id. Returns `None` if the selector is unknown or the ranges are empty.
    fn with_selector_in(mut self, selector: &FieldRef, ranges: &Ranges) -> Option<Layout> {
        let field = self.fields.iter_mut().rev().find(|field| field.path == selector.path)?;
        let low = ranges.0.iter().find(|(low, high)| low <= high)?.0;
        match field.content {
            Content::Role(Role::EventClassId) => self.ids = Some(ranges.clone()),
            _ => field.content = Content::Const(low as u64),
        }
        Some(self)
    }

    /// Returns whether the current constant value of a selector is in `ranges`.
    fn has_value(&self, selector: &FieldRef, ranges: &Ranges) -> bool {
        let field = self.fields.iter().rev().find(|field| field.path == selector.path);
        field.is_some_and(|field| match field.content {
            Content::Const(value) if field.is_signed => ranges.contains((value as i64).into()),
            Content::Const(value) => ranges.contains(value.into()),
            _ => false,
        })
    }

    /// Turns all id fields except the last one into constants: with several id fields, the earlier
    /// ones only select the option that contains the last one.
    fn resolve_ids(&mut self) {
        let is_id = |field: &HeaderField| field.content == Content::Role(Role::EventClassId);
        let count = self.fields.iter().filter(|field| is_id(field)).count();
        if count < 2 {
            return;
        }
        let low = self.ids.take().and_then(|ranges| ranges.0.first().map(|&(low, _)| low));
        let earlier = self.fields.iter_mut().filter(|field| is_id(field)).take(count - 1);
        for field in earlier {
            field.content = Content::Const(low.unwrap_or(0) as u64);
        }
    }

    /// Returns whether the layout can represent the event class id `id`.
    pub(super) fn holds_id(&self, id: u64) -> bool {
        let fits = |field: &HeaderField| match (field.content, field.form) {
            (Content::Role(Role::EventClassId), Form::Bits(bits)) => bits::low(id, bits.size) == id,
            _ => true,
        };
        self.ids.as_ref().is_none_or(|ids| ids.contains(i128::from(id)))
            && self.fields.iter().all(fits)
    }

    /// Returns whether a reader whose clock is at `clock` would compute `time` from the header.
    /// True if the header has no timestamp.
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

    /// Writes the header of an event with the event class id `id` at `time`.
    #[inline]
    pub(super) fn write_event(&self, sink: &mut Sink, id: u64, time: u64) {
        for field in &self.fields {
            let value = match field.content {
                Content::Role(Role::EventClassId) => id,
                Content::Role(Role::Timestamp) => time,
                Content::Const(value) => value,
                Content::Role(_) | Content::Uuid => 0,
            };
            field.write(sink, value);
        }
    }
}

impl HeaderField {
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
            Form::Padding(size) => {
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

/// Returns whether the field, or a field within it, has a role. Roles of signed fixed-width
/// integers do not count.
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
