//! Field values of the events `blkkin:run`, `request:wait`, `request:disk` and `request:syscall:*`,
//! collected by a visitor and indexed by field name. All of them are integers, some with a label.
//! Other fields of system calls are their arguments, which become text.

use crate::refusal::Reason;
use blkkin_ctf::decode::{Node, NodeKind, Visitor};
use blkkin_ctf::schema::{Base, IntKind, Scope};
use blkkin_model::OwnKind;
use std::fmt::{Display, Write};

/// Index of a field name in [`NAMES`], or [`IGNORED`].
pub(crate) type ActivitySlot = u8;

const NAMES: [&str; 16] = [
    "trace_id",
    "trace_id_high",
    "span_id",
    "start",
    "duration",
    "reason",
    "call",
    "blocked",
    "runnable",
    "waker",
    "device",
    "queued",
    "served",
    "tid",
    "vtid",
    "ret",
];
pub(crate) const TRACE_ID: ActivitySlot = 0;
pub(crate) const TRACE_ID_HIGH: ActivitySlot = 1;
pub(crate) const SPAN_ID: ActivitySlot = 2;
pub(crate) const START: ActivitySlot = 3;
pub(crate) const DURATION: ActivitySlot = 4;
const REASON: ActivitySlot = 5;
pub(crate) const CALL: ActivitySlot = 6;
pub(crate) const BLOCKED: ActivitySlot = 7;
pub(crate) const RUNNABLE: ActivitySlot = 8;
pub(crate) const WAKER: ActivitySlot = 9;
pub(crate) const DEVICE: ActivitySlot = 10;
pub(crate) const QUEUED: ActivitySlot = 11;
pub(crate) const SERVED: ActivitySlot = 12;
const TID: ActivitySlot = 13;
const VTID: ActivitySlot = 14;
pub(crate) const RESULT: ActivitySlot = 15;
/// Slot of any other member of the payload.
const OTHER: ActivitySlot = NAMES.len() as ActivitySlot;
/// Slot of any other field.
const IGNORED: ActivitySlot = OTHER + 1;

/// Maximum length of the text of a call's arguments, in bytes. A longer text is truncated.
const ARGUMENTS_MAX: usize = 256;
/// Maximum length of a label, in characters. A longer label is truncated.
const LABEL_MAX: usize = 64;

/// Returns the slot of a field: of a member of the payload, or of a context's thread id.
pub(crate) fn slot(node: &Node, is_member: bool) -> ActivitySlot {
    let Some(name) = node.name.as_deref().filter(|_| is_member) else { return IGNORED };
    let known = NAMES.iter().position(|known| *known == name);
    let slot = known.map_or(OTHER, |known| known as ActivitySlot);
    let is_thread = matches!(slot, TID | VTID);
    match node.scope {
        Scope::Payload if !is_thread => slot,
        Scope::CommonContext | Scope::SpecificContext if is_thread => slot,
        _ => IGNORED,
    }
}

/// Field values of one event. The memory is reused for the next event.
#[derive(Debug, Default)]
pub(crate) struct ActivityFields {
    values: [FieldValue; NAMES.len()],
    /// Label of the field `call` or `device`; an event has at most one of them. Without a label,
    /// the number.
    label: String,
    /// Arguments of a system call.
    arguments: String,
    /// Kind of wait by the label of the field `reason`; `None` for another label or none.
    reason: Option<OwnKind>,
}

#[derive(Clone, Copy, Debug, Default)]
enum FieldValue {
    #[default]
    Absent,
    /// The bits of a signed or unsigned integer.
    Int(u64),
    /// The value of another type.
    Wrong,
}

impl ActivityFields {
    pub(crate) fn clear(&mut self) {
        self.values = [FieldValue::Absent; NAMES.len()];
        self.label.clear();
        self.arguments.clear();
        self.reason = None;
    }

    pub(crate) fn number(&self, slot: ActivitySlot) -> Result<u64, Option<Reason>> {
        match self.values[slot as usize] {
            FieldValue::Int(number) => Ok(number),
            FieldValue::Absent => Err(Some(Reason::Missing(NAMES[slot as usize]))),
            FieldValue::Wrong => Err(Some(Reason::WrongType(NAMES[slot as usize]))),
        }
    }

    /// Returns an integer field as [`ActivityFields::number`] does, but `otherwise` for a missing
    /// field.
    pub(crate) fn number_or(
        &self,
        slot: ActivitySlot,
        otherwise: u64,
    ) -> Result<u64, Option<Reason>> {
        match self.values[slot as usize] {
            FieldValue::Absent => Ok(otherwise),
            _ => self.number(slot),
        }
    }

    pub(crate) fn id(&self, slot: ActivitySlot) -> Result<u64, Option<Reason>> {
        match self.number(slot)? {
            0 => Err(Some(Reason::Zero(NAMES[slot as usize]))),
            id => Ok(id),
        }
    }

    /// Returns trace id (lower and upper half) and span id; 0 for a missing upper half.
    pub(crate) fn ids(&self) -> Result<(u64, u64, u64), Option<Reason>> {
        let (low, high) = (self.number(TRACE_ID)?, self.number_or(TRACE_ID_HIGH, 0)?);
        if low == 0 && high == 0 {
            return Err(Some(Reason::Zero(NAMES[TRACE_ID as usize])));
        }
        Ok((low, high, self.id(SPAN_ID)?))
    }

    /// Returns true if all ids are present and 0.
    pub(crate) fn has_no_ids(&self) -> bool {
        let is_zero = |slot: ActivitySlot| matches!(self.number(slot), Ok(0));
        is_zero(TRACE_ID) && is_zero(SPAN_ID) && matches!(self.number_or(TRACE_ID_HIGH, 0), Ok(0))
    }

    /// Returns the label of the field `call` or `device`, or its number if the value has no label.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Returns the arguments of a system call as text.
    pub(crate) fn arguments(&self) -> &str {
        &self.arguments
    }

    fn push_argument(&mut self, node: &Node, value: impl Display) {
        let Some(name) = node.name.as_deref() else { return };
        let name = &name[..name.floor_char_boundary(LABEL_MAX)];
        let start = self.arguments.len();
        if start > ARGUMENTS_MAX {
            return;
        }
        let comma = if start == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(self.arguments, "{comma}{name}={value}");
        if self.arguments.len() > ARGUMENTS_MAX {
            self.arguments.truncate(self.arguments.floor_char_boundary(ARGUMENTS_MAX));
            self.arguments.push('…');
        }
    }

    /// Returns the kind of wait that the field `reason` names; [`OwnKind::Other`] for an unknown
    /// name.
    pub(crate) fn reason(&self) -> Result<OwnKind, Option<Reason>> {
        self.number(REASON)?;
        Ok(self.reason.unwrap_or(OwnKind::Other))
    }

    /// Returns the id of the thread from the event's context; `None` if unknown.
    pub(crate) fn thread(&self) -> Option<u32> {
        let thread = self.number(TID).or_else(|_| self.number(VTID)).ok()?;
        u32::try_from(thread).ok().filter(|thread| *thread != 0)
    }
}

/// Visitor that copies the field values of an event into their slots.
pub(crate) struct ActivityVisitor<'w> {
    pub(crate) fields: &'w mut ActivityFields,
    /// Slot of each field, by node id of the decoder.
    pub(crate) slots: &'w [ActivitySlot],
    /// Set for an event of a system call, whose further fields are arguments.
    pub(crate) is_call: bool,
}

impl ActivityVisitor<'_> {
    /// Returns true if a field is an argument of a system call.
    fn is_argument(&self, node: &Node) -> bool {
        const NO_ARGUMENTS: [ActivitySlot; 5] =
            [TRACE_ID, TRACE_ID_HIGH, SPAN_ID, DURATION, RESULT];
        let slot = self.slots.get(node.id as usize).copied().unwrap_or(IGNORED);
        let is_known =
            NO_ARGUMENTS.contains(&slot) || slot == IGNORED || node.scope != Scope::Payload;
        self.is_call && !is_known
    }

    fn put(&mut self, node: &Node, value: FieldValue) {
        let slot = self.slots.get(node.id as usize).copied().unwrap_or(IGNORED);
        if let Some(place) = self.fields.values.get_mut(slot as usize) {
            *place = value;
        }
    }

    fn integer(&mut self, node: &Node, bits: u64, value: i128) {
        if self.is_argument(node) {
            // The kernel's tracer describes flags and addresses as hexadecimal. Addresses mean
            // nothing outside of the process.
            if !is_hexadecimal(node) {
                self.fields.push_argument(node, value);
            } else if is_flags(node) {
                self.fields.push_argument(node, format_args!("{bits:#x}"));
            }
            return;
        }
        let slot = self.slots.get(node.id as usize).copied().unwrap_or(IGNORED);
        if matches!(slot, CALL | DEVICE | REASON) {
            let label = match &node.kind {
                NodeKind::Int { labels, .. } | NodeKind::VarInt { labels, .. } => {
                    labels.as_ref().and_then(|labels| labels.of(value).next())
                }
                _ => None,
            };
            if slot == REASON {
                self.fields.reason = label.and_then(OwnKind::of_name).filter(|it| it.is_wait());
            } else {
                self.fields.label.clear();
                match label {
                    Some(label) => self.fields.label.extend(label.chars().take(LABEL_MAX)),
                    None => self.fields.label.push_str(&value.to_string()),
                }
            }
        }
        self.put(node, FieldValue::Int(bits));
    }
}

impl Visitor for ActivityVisitor<'_> {
    fn restart(&mut self) {
        self.fields.clear();
    }

    fn unsigned(&mut self, node: &Node, value: u64) {
        match &node.kind {
            NodeKind::Int { kind: IntKind::Bool, .. } => self.put(node, FieldValue::Wrong),
            _ => self.integer(node, value, value.into()),
        }
    }

    fn signed(&mut self, node: &Node, value: i64) {
        self.integer(node, value.cast_unsigned(), value.into());
    }

    fn float(&mut self, node: &Node, _: f64) {
        self.put(node, FieldValue::Wrong);
    }

    fn string(&mut self, node: &Node, text: &[u8]) {
        if self.is_argument(node) {
            let text = &text[..text.len().min(ARGUMENTS_MAX)];
            return self
                .fields
                .push_argument(node, format_args!("{:?}", String::from_utf8_lossy(text)));
        }
        self.put(node, FieldValue::Wrong);
    }
}

fn is_hexadecimal(node: &Node) -> bool {
    matches!(
        node.kind,
        NodeKind::Int { base: Base::Hexadecimal, .. }
            | NodeKind::VarInt { base: Base::Hexadecimal, .. }
    )
}

fn is_flags(node: &Node) -> bool {
    node.name.as_deref().is_some_and(|name| name.ends_with("flags"))
}
