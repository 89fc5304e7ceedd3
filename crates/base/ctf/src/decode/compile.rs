//! Compilation of field classes to programs.
//!
//! The compiler answers three questions once, instead of at each event:
//!
//! - Does an integer start on a byte boundary, and have 1, 2, 4 or 8 bytes in the usual bit order?
//!   Then it needs no bit arithmetic.
//! - Does a later length or selector need the field's value? Then the field gets a slot.
//! - Is the field visible? Then it gets a [`Node`]. Fields that only serve the format (ids, times,
//!   sizes) are hidden unless another field depends on them, as in babeltrace2.

use super::decoder::{Decoder, EventIds, StreamDecoder};
use super::header::Header;
use super::node::{Node, NodeKind, NodeLabels};
use super::op::{Branch, Count, ElementSize, NONE, Op, Save};
use super::plain::PlainProgram;
use super::program::Program;
use super::walk::SIGN_BIT;
use crate::schema::*;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Error of a schema that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Error message for users, in lower case and without a full stop.
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CompileError {}

fn error<T>(message: impl Into<String>) -> Result<T, CompileError> {
    Err(CompileError { message: message.into() })
}

impl Decoder {
    /// Compiles `schema` into a decoder. Fails for example if a length refers to a field that is no
    /// integer.
    pub fn new(schema: Arc<Schema>) -> Result<Decoder, CompileError> {
        compile(schema)
    }
}

fn compile(schema: Arc<Schema>) -> Result<Decoder, CompileError> {
    let mut compiler = Compiler::default();
    for class in scopes(&schema) {
        compiler.collect_references(class)?;
    }
    let packet_header =
        compiler.program(Scope::PacketHeader, schema.trace.packet_header.as_ref(), false)?;
    let mut streams = Vec::with_capacity(schema.streams.len());
    for stream in &schema.streams {
        streams.push(compiler.stream(stream)?);
    }
    let stream_of_id =
        schema.streams.iter().enumerate().map(|(index, stream)| (stream.id, index)).collect();
    Ok(Decoder {
        nodes: compiler.nodes,
        slot_count: compiler.slots.len(),
        packet_header,
        streams,
        stream_of_id,
        schema,
    })
}

/// Iterates over the root class of each scope of a schema.
fn scopes(schema: &Schema) -> impl Iterator<Item = &FieldClass> {
    let streams = schema.streams.iter().flat_map(|stream| {
        let own = [&stream.packet_context, &stream.event_header, &stream.common_context];
        let events = stream
            .events
            .iter()
            .flat_map(|event| [&event.specific_context, &event.payload].into_iter().flatten());
        own.into_iter().flatten().chain(events)
    });
    schema.trace.packet_header.iter().chain(streams)
}

/// Iterates over those root classes of a stream whose fields may refer to the event header: the
/// common context, and the specific contexts and payloads.
fn scopes_after_header(stream: &StreamClass) -> impl Iterator<Item = &FieldClass> {
    let events = stream.events.iter();
    let of_events = events.flat_map(|event| [&event.specific_context, &event.payload]);
    of_events.chain([&stream.common_context]).flatten()
}

fn refers_to_header(class: &FieldClass) -> bool {
    let of_header = |reference: &FieldRef| reference.scope == Scope::EventHeader;
    let by_length = |length: &Length| match length {
        Length::Static(_) => false,
        Length::Dynamic(reference) => of_header(reference),
    };
    match class {
        FieldClass::Text(TextClass { length, .. }) | FieldClass::Blob(BlobClass { length, .. }) => {
            by_length(length)
        }
        FieldClass::Struct(structure) => {
            structure.members.iter().any(|member| refers_to_header(&member.class))
        }
        FieldClass::Array(array) => by_length(&array.length) || refers_to_header(&array.element),
        FieldClass::Optional(optional) => {
            of_header(&optional.selector) || refers_to_header(&optional.content)
        }
        FieldClass::Variant(variant) => {
            of_header(&variant.selector)
                || variant.options.iter().any(|option| refers_to_header(&option.class))
        }
        _ => false,
    }
}

/// Storage for the value of a field on which later fields depend.
#[derive(Clone, Copy, Debug)]
struct Slot {
    index: u16,
    /// Signedness of the class that was last compiled for the slot; `None` before the first one.
    signed: Option<bool>,
}

#[derive(Default)]
struct Compiler {
    nodes: Vec<Node>,
    /// Slots by the [`key`] of the referenced field.
    slots: HashMap<String, Slot>,
    draft: Draft,
    /// Names of the structure members on the path to the current field.
    path: Vec<String>,
    scope: Option<Scope>,
    /// False in packet and event headers, whose fields get no nodes.
    visible: bool,
}

/// A program under construction.
#[derive(Clone, Default)]
struct Draft {
    ops: Vec<Op>,
    saves: Vec<Save>,
    /// True if the current position is known to be a multiple of 8 bits.
    aligned: bool,
    /// Index of the [`Op::Run`] that the next integer may join.
    run: Option<usize>,
}

impl Draft {
    fn finish(self) -> Program {
        let plain = PlainProgram::new(&self.ops);
        Program { ops: self.ops.into(), saves: self.saves.into(), plain }
    }
}

/// Joins a scope and a field's path into a unique string.
fn key<'a>(scope: Scope, path: impl Iterator<Item = &'a str>) -> String {
    let mut key = format!("{scope:?}");
    for name in path {
        key.push('\0');
        key.push_str(name);
    }
    key
}

/// Name and parent of a node to be made, and whether it is the parent's first visible member.
#[derive(Clone, Copy)]
struct NodePosition<'p> {
    name: Option<&'p str>,
    parent: u32,
    first: bool,
}

impl Compiler {
    fn collect_references(&mut self, class: &FieldClass) -> Result<(), CompileError> {
        match class {
            FieldClass::Text(TextClass { length, .. })
            | FieldClass::Blob(BlobClass { length, .. }) => self.reference_length(length),
            FieldClass::Struct(structure) => structure
                .members
                .iter()
                .try_for_each(|member| self.collect_references(&member.class)),
            FieldClass::Array(array) => {
                self.reference_length(&array.length)?;
                self.collect_references(&array.element)
            }
            FieldClass::Optional(optional) => {
                self.reference(&optional.selector)?;
                self.collect_references(&optional.content)
            }
            FieldClass::Variant(variant) => {
                self.reference(&variant.selector)?;
                variant.options.iter().try_for_each(|option| self.collect_references(&option.class))
            }
            _ => Ok(()),
        }
    }

    fn reference_length(&mut self, length: &Length) -> Result<(), CompileError> {
        match length {
            Length::Static(_) => Ok(()),
            Length::Dynamic(reference) => self.reference(reference),
        }
    }

    fn reference(&mut self, reference: &FieldRef) -> Result<(), CompileError> {
        let Ok(index) = u16::try_from(self.slots.len()) else {
            return error("more than 65535 fields are used as lengths and selectors");
        };
        let key = key(reference.scope, reference.path.iter().map(String::as_str));
        self.slots.entry(key).or_insert(Slot { index, signed: None });
        Ok(())
    }

    fn stream(&mut self, stream: &StreamClass) -> Result<StreamDecoder, CompileError> {
        let packet_context =
            self.program(Scope::PacketContext, stream.packet_context.as_ref(), true)?;
        let program = self.program(Scope::EventHeader, stream.event_header.as_ref(), false)?;
        let only_header = !scopes_after_header(stream).any(refers_to_header);
        let event_header = stream
            .event_header
            .as_ref()
            .filter(|_| only_header)
            .and_then(Header::recognise)
            .unwrap_or(Header::Program(program));
        let mut bodies = Vec::with_capacity(stream.events.len());
        if !stream.events.is_empty() {
            // All events begin with the common context and share its nodes.
            self.visible = true;
            self.scope(Scope::CommonContext, stream.common_context.as_ref())?;
            let common = std::mem::take(&mut self.draft);
            for event in &stream.events {
                self.draft = common.clone();
                bodies.push(self.body(event).map_err(|error| CompileError {
                    message: match &event.name {
                        Some(name) => format!("event {name}: {error}"),
                        None => format!("event {}: {error}", event.id),
                    },
                })?);
            }
        }
        let event_of_id = EventIds::new(stream.events.iter().map(|event| event.id));
        Ok(StreamDecoder { packet_context, event_header, bodies, event_of_id })
    }

    /// Compiles the program of an event's body. The draft already contains the ops of the common
    /// context.
    fn body(&mut self, event: &EventClass) -> Result<Program, CompileError> {
        self.scope(Scope::SpecificContext, event.specific_context.as_ref())?;
        self.scope(Scope::Payload, event.payload.as_ref())?;
        Ok(std::mem::take(&mut self.draft).finish())
    }

    /// Compiles a program for a single scope. Fields get nodes only if `visible` is true.
    fn program(
        &mut self,
        scope: Scope,
        class: Option<&FieldClass>,
        visible: bool,
    ) -> Result<Program, CompileError> {
        self.visible = visible;
        self.scope(scope, class)?;
        Ok(std::mem::take(&mut self.draft).finish())
    }

    fn scope(&mut self, scope: Scope, class: Option<&FieldClass>) -> Result<(), CompileError> {
        let Some(class) = class else { return Ok(()) };
        let FieldClass::Struct(structure) = class else {
            return error(format!("{} is not a structure", scope.tsdl_name()));
        };
        self.scope = Some(scope);
        self.align(class.align());
        let shown = self.is_visible(class);
        let position = NodePosition { name: None, parent: NONE, first: false };
        let node = self.node_if(shown, position, || NodeKind::Struct);
        if shown {
            self.draft.ops.push(Op::BeginScope(scope, node));
        }
        self.members(structure, node)?;
        if shown {
            self.draft.ops.push(Op::EndScope(scope));
        }
        Ok(())
    }

    /// Returns whether the current field is visible. In headers no field is. A field with a role or
    /// clock is visible only if another field depends on it. A structure, array or variant is
    /// visible if any of its contents is. All other fields are visible, and so are empty
    /// structures.
    fn is_visible(&mut self, class: &FieldClass) -> bool {
        if !self.visible {
            return false;
        }
        match class {
            FieldClass::Int(IntClass { roles, clock: None, .. })
            | FieldClass::VarInt(VarIntClass { roles, .. })
            | FieldClass::Blob(BlobClass { roles, .. }) => {
                roles.is_empty() || self.slot().is_some()
            }
            FieldClass::Int(_) => self.slot().is_some(),
            FieldClass::Struct(structure) => {
                structure.members.is_empty()
                    || structure.members.iter().any(|member| {
                        self.path.push(member.name.clone());
                        let shown = self.is_visible(&member.class);
                        self.path.pop();
                        shown
                    })
            }
            FieldClass::Array(array) => self.is_visible(&array.element),
            FieldClass::Variant(variant) => {
                variant.options.iter().any(|option| self.is_visible(&option.class))
            }
            _ => true,
        }
    }

    /// Returns the slot of the current field, if another field depends on it.
    fn slot(&mut self) -> Option<&mut Slot> {
        if self.slots.is_empty() {
            return None;
        }
        let key = key(self.scope?, self.path.iter().map(String::as_str));
        self.slots.get_mut(&key)
    }

    fn node(&mut self, position: NodePosition<'_>, kind: NodeKind) -> u32 {
        let id = self.nodes.len() as u32;
        self.nodes.push(Node {
            id,
            name: position.name.map(Into::into),
            parent: (position.parent != NONE).then_some(position.parent),
            scope: self.scope.unwrap_or(Scope::Payload),
            first: position.first,
            kind,
        });
        id
    }

    fn node_if(
        &mut self,
        shown: bool,
        position: NodePosition<'_>,
        kind: impl FnOnce() -> NodeKind,
    ) -> u32 {
        if shown { self.node(position, kind()) } else { NONE }
    }

    /// Appends an op that is not part of a run of integers.
    fn push(&mut self, op: Op) {
        self.draft.run = None;
        self.draft.ops.push(op);
    }

    fn align(&mut self, align: u64) {
        if align <= 1 || align <= 8 && self.draft.aligned {
            return;
        }
        self.push(Op::Align(align));
        self.draft.aligned = align.is_multiple_of(8);
    }

    fn align_bytes(&mut self) {
        self.align(8);
        self.draft.aligned = true;
    }

    fn members(&mut self, structure: &StructClass, parent: u32) -> Result<(), CompileError> {
        let mut first = true;
        for member in &structure.members {
            self.path.push(member.name.clone());
            let shown = self.is_visible(&member.class);
            let position = NodePosition { name: Some(&member.name), parent, first: first && shown };
            let done = self.field(&member.class, shown, position);
            self.path.pop();
            done?;
            first &= !shown;
        }
        Ok(())
    }

    fn field(
        &mut self,
        class: &FieldClass,
        shown: bool,
        position: NodePosition<'_>,
    ) -> Result<(), CompileError> {
        match class {
            FieldClass::Int(int) => self.int(int, shown, position),
            FieldClass::VarInt(int) => {
                self.align_bytes();
                let save = self.save(int.roles, int.signed, 64);
                let node = self.node_if(shown, position, || NodeKind::VarInt {
                    signed: int.signed,
                    base: int.base,
                    labels: int.mappings.clone().map(NodeLabels::new),
                });
                self.push(Op::VarInt { node, save, signed: int.signed });
                Ok(())
            }
            FieldClass::Float(float) => {
                let size = float.bits.size;
                if !(8..=128).contains(&size)
                    || !(2..=15).contains(&float.exponent)
                    || float.exponent + float.mantissa != size
                    || float.mantissa < 2
                {
                    return error(format!("no floating-point number has {size} bits"));
                }
                self.align(float.bits.align);
                let node = self.node_if(shown, position, || NodeKind::Float);
                self.push(Op::Float { node, class: float.clone() });
                self.draft.aligned &= size.is_multiple_of(8);
                Ok(())
            }
            FieldClass::String(string) => {
                self.align_bytes();
                let encoding = string.encoding;
                let node = self.node_if(shown, position, || NodeKind::String(encoding));
                self.push(Op::String { node, encoding });
                Ok(())
            }
            FieldClass::Text(text) => {
                self.align_bytes();
                let length = self.count(&text.length)?;
                let encoding = text.encoding;
                let node = self.node_if(shown, position, || NodeKind::String(encoding));
                self.push(Op::Text { node, length, encoding });
                Ok(())
            }
            FieldClass::Blob(blob) => {
                self.align_bytes();
                let length = self.count(&blob.length)?;
                let node = self.node_if(shown, position, || NodeKind::Blob);
                let uuid = blob.roles.has(Role::Uuid);
                self.push(Op::Blob { node, length, uuid });
                Ok(())
            }
            FieldClass::Struct(structure) => {
                self.align(class.align());
                let node = self.node_if(shown, position, || NodeKind::Struct);
                if shown {
                    self.draft.ops.push(Op::BeginStruct(node));
                }
                self.members(structure, node)?;
                if shown {
                    self.draft.ops.push(Op::EndStruct(node));
                }
                self.draft.run = None;
                Ok(())
            }
            FieldClass::Array(array) => self.array(class, array, shown, position),
            FieldClass::Optional(optional) => self.optional(optional, shown, position),
            FieldClass::Variant(variant) => self.variant(variant, shown, position),
        }
    }

    fn int(
        &mut self,
        int: &IntClass,
        shown: bool,
        position: NodePosition<'_>,
    ) -> Result<(), CompileError> {
        let bits = int.bits;
        if !(1..=64).contains(&bits.size) || !bits.align.is_power_of_two() {
            let Bits { size, align, .. } = bits;
            return error(format!("cannot read an integer of {size} bits aligned to {align}"));
        }
        self.align(bits.align);
        let signed = int.kind == IntKind::Signed;
        let save = self.save(int.roles, signed, bits.size);
        let node = self.node_if(shown, position, || NodeKind::Int {
            kind: int.kind,
            size: bits.size,
            base: int.base,
            labels: int.mappings.clone().map(NodeLabels::new),
        });
        let whole = self.draft.aligned
            && matches!(bits.size, 8 | 16 | 32 | 64)
            && bits.bit_order == bits.byte_order.usual_bit_order();
        if !whole {
            self.push(Op::Bits { node, save, bits, signed });
            self.draft.aligned &= bits.size.is_multiple_of(8);
            return Ok(());
        }
        let bytes = (bits.size / 8) as u8;
        let op = Op::Int { node, save, bytes, signed, big: bits.byte_order == ByteOrder::Big };
        if save != NONE {
            self.push(op);
            return Ok(());
        }
        let start = *self.draft.run.get_or_insert_with(|| {
            self.draft.ops.push(Op::Run { bytes: 0, ops: 0 });
            self.draft.ops.len() - 1
        });
        self.draft.ops.push(op);
        let joined = (self.draft.ops.len() - 1 - start) as u32;
        if let Op::Run { bytes: run_bytes, ops } = &mut self.draft.ops[start] {
            *run_bytes += u32::from(bytes);
            *ops = joined;
        }
        Ok(())
    }

    /// Registers the uses of the current field's value. Returns the index of its [`Save`], or
    /// [`NONE`] if the value has no uses.
    fn save(&mut self, roles: Roles, signed: bool, size: u32) -> u32 {
        let slot = self.slot().map(|slot| {
            slot.signed = Some(signed);
            slot.index
        });
        if slot.is_none() && roles.is_empty() {
            return NONE;
        }
        let clock_bits = if roles.has(Role::Timestamp) { size } else { 0 };
        self.draft.saves.push(Save { slot, roles: roles.bits(), clock_bits, size });
        self.draft.saves.len() as u32 - 1
    }

    fn referenced_slot(&self, reference: &FieldRef) -> Result<Slot, CompileError> {
        let key = key(reference.scope, reference.path.iter().map(String::as_str));
        match self.slots.get(&key) {
            Some(slot) if slot.signed.is_some() => Ok(*slot),
            _ => error(format!(
                "{}.{} is not an integer before the field that depends on it",
                reference.scope.tsdl_name(),
                reference.path.join(".")
            )),
        }
    }

    fn count(&self, length: &Length) -> Result<Count, CompileError> {
        Ok(match length {
            Length::Static(count) => Count::Static(*count),
            Length::Dynamic(reference) => {
                let slot = self.referenced_slot(reference)?;
                if slot.signed == Some(true) {
                    return error(format!("length {} is signed", reference.path.join(".")));
                }
                Count::Slot(slot.index)
            }
        })
    }

    fn array(
        &mut self,
        class: &FieldClass,
        array: &ArrayClass,
        shown: bool,
        position: NodePosition<'_>,
    ) -> Result<(), CompileError> {
        self.align(class.align());
        let length = self.count(&array.length)?;
        let node = self.node_if(shown, position, || NodeKind::Array);
        let at = self.draft.ops.len();
        let element = ElementSize::Least(least_bits(&array.element));
        self.push(Op::Array { node, length, body: 0, element });
        // An element may start where the previous one ended. If the first element does not preserve
        // the alignment of its start, the element is compiled again without an assumed alignment.
        let saves = self.draft.saves.len();
        let nodes = self.nodes.len();
        for _ in 0..2 {
            let start_aligned = self.draft.aligned;
            let position = NodePosition { name: None, parent: node, first: false };
            self.field(&array.element, shown, position)?;
            if self.draft.aligned || !start_aligned {
                self.draft.aligned &= start_aligned;
                break;
            }
            self.draft.ops.truncate(at + 1);
            self.draft.saves.truncate(saves);
            self.nodes.truncate(nodes);
            self.draft.run = None;
            self.draft.aligned = false;
        }
        self.draft.run = None;
        let body = &self.draft.ops[at + 1..];
        let fixed = match body {
            [Op::Run { bytes, ops }, rest @ ..] if rest.len() == *ops as usize => Some(*bytes),
            _ => None,
        };
        let body_len = body.len() as u32;
        if let Op::Array { body, element, .. } = &mut self.draft.ops[at] {
            *body = body_len;
            if let Some(bytes) = fixed {
                *element = ElementSize::Bytes(bytes);
            }
        }
        Ok(())
    }

    fn optional(
        &mut self,
        optional: &OptionalClass,
        shown: bool,
        position: NodePosition<'_>,
    ) -> Result<(), CompileError> {
        let slot = self.referenced_slot(&optional.selector)?;
        let ranges = match &optional.ranges {
            Some(ranges) => stored_ranges(ranges, slot),
            None => Box::new([(1, u64::MAX)]),
        };
        let node = self.node_if(shown, position, || NodeKind::Optional);
        let at = self.draft.ops.len();
        self.push(Op::Optional { node, slot: slot.index, ranges, body: 0 });
        let before = self.draft.aligned;
        let position = NodePosition { name: None, parent: node, first: false };
        let content_shown = shown && self.is_visible(&optional.content);
        self.field(&optional.content, content_shown, position)?;
        self.draft.aligned &= before;
        self.draft.run = None;
        let body_len = (self.draft.ops.len() - at - 1) as u32;
        if let Op::Optional { body, .. } = &mut self.draft.ops[at] {
            *body = body_len;
        }
        Ok(())
    }

    fn variant(
        &mut self,
        variant: &VariantClass,
        shown: bool,
        position: NodePosition<'_>,
    ) -> Result<(), CompileError> {
        let slot = self.referenced_slot(&variant.selector)?;
        let node = self.node_if(shown, position, || NodeKind::Variant {
            options: variant.options.iter().map(|o| o.name.as_deref().map(Into::into)).collect(),
        });
        let at = self.draft.ops.len();
        let signed = slot.signed == Some(true);
        let no_branches = Box::new([]);
        self.push(Op::Variant { node, slot: slot.index, signed, branches: no_branches, body: 0 });
        let before = self.draft.aligned;
        let mut after = true;
        let mut compiled = Vec::with_capacity(variant.options.len());
        for (index, option) in variant.options.iter().enumerate() {
            self.draft.aligned = before;
            self.draft.run = None;
            let start = self.draft.ops.len();
            let position =
                NodePosition { name: option.name.as_deref(), parent: node, first: false };
            self.field(&option.class, shown, position)?;
            after &= self.draft.aligned;
            compiled.push(Branch {
                ranges: stored_ranges(&option.ranges, slot),
                start: (start - at - 1) as u32,
                ops: (self.draft.ops.len() - start) as u32,
                option: index as u32,
            });
        }
        self.draft.aligned = after;
        self.draft.run = None;
        let body_len = (self.draft.ops.len() - at - 1) as u32;
        if let Op::Variant { branches, body, .. } = &mut self.draft.ops[at] {
            *branches = compiled.into();
            *body = body_len;
        }
        Ok(())
    }
}

/// Clips ranges of selector values to the range of `i64` (signed selector) or `u64`, and converts
/// them to the form in which slots store values: with the sign bit of signed values flipped.
fn stored_ranges(ranges: &Ranges, slot: Slot) -> Box<[(u64, u64)]> {
    let signed = slot.signed == Some(true);
    let (least, most) = match signed {
        true => (i128::from(i64::MIN), i128::from(i64::MAX)),
        false => (0, i128::from(u64::MAX)),
    };
    let stored = |value: i128| if signed { value as u64 ^ SIGN_BIT } else { value as u64 };
    ranges
        .0
        .iter()
        .filter(|&&(low, high)| low <= high && high >= least && low <= most)
        .map(|&(low, high)| (stored(low.max(least)), stored(high.min(most))))
        .collect()
}

/// Returns a lower bound of a field's size in bits.
fn least_bits(class: &FieldClass) -> u64 {
    match class {
        FieldClass::Int(int) => u64::from(int.bits.size),
        FieldClass::Float(float) => u64::from(float.bits.size),
        FieldClass::VarInt(_) => 8,
        FieldClass::String(string) => string.encoding.unit_size() as u64 * 8,
        FieldClass::Text(TextClass { length: Length::Static(bytes), .. })
        | FieldClass::Blob(BlobClass { length: Length::Static(bytes), .. }) => {
            bytes.saturating_mul(8)
        }
        FieldClass::Text(_) | FieldClass::Blob(_) => 0,
        FieldClass::Struct(structure) => structure
            .members
            .iter()
            .map(|member| least_bits(&member.class))
            .fold(0, u64::saturating_add),
        FieldClass::Array(array) => match array.length {
            Length::Static(count) => count.saturating_mul(least_bits(&array.element)),
            Length::Dynamic(_) => 0,
        },
        FieldClass::Optional(_) => 0,
        FieldClass::Variant(variant) => {
            variant.options.iter().map(|option| least_bits(&option.class)).min().unwrap_or(0)
        }
    }
}
