//! Field values of an event, collected by a visitor and indexed by field name.

use crate::refusal::Reason;
use blkkin_ctf::decode::{Node, NodeKind, Visitor};
use blkkin_ctf::schema::{IntKind, Scope};
use blkkin_model::ValueRef;

/// Index of a field name in [`NAMES`], or [`PROGRAM_FIELD`] or [`IGNORED`].
pub(crate) type Slot = u8;

pub(crate) const NAMES: [&str; 17] = [
    "trace_id",
    "trace_id_high",
    "span_id",
    "parent_span_id",
    "start",
    "duration",
    "trace_name",
    "service_name",
    "port_no",
    "ip",
    "event",
    "key",
    "val",
    "kind",
    "flags",
    "span_name",
    "procname",
];
pub(crate) const TRACE_ID: Slot = 0;
pub(crate) const TRACE_ID_HIGH: Slot = 1;
pub(crate) const SPAN_ID: Slot = 2;
pub(crate) const PARENT: Slot = 3;
pub(crate) const START: Slot = 4;
pub(crate) const DURATION: Slot = 5;
pub(crate) const TRACE_NAME: Slot = 6;
pub(crate) const SERVICE: Slot = 7;
pub(crate) const PORT: Slot = 8;
pub(crate) const IP: Slot = 9;
pub(crate) const EVENT: Slot = 10;
pub(crate) const KEY: Slot = 11;
pub(crate) const VALUE: Slot = 12;
pub(crate) const KIND: Slot = 13;
pub(crate) const FLAGS: Slot = 14;
pub(crate) const SPAN_NAME: Slot = 15;
pub(crate) const PROCNAME: Slot = 16;
/// Slot of a payload field whose name is not in [`NAMES`].
pub(crate) const PROGRAM_FIELD: Slot = 17;
/// Slot of a nested field, or of a field outside of the payload other than a context's `procname`.
pub(crate) const IGNORED: Slot = 18;

/// Field values of one event: known fields by slot, and fields that the program added itself. The
/// memory is reused for the next event.
#[derive(Debug, Default)]
pub(crate) struct FieldValues {
    pub(crate) values: [Value; NAMES.len()],
    /// Node id and value of the fields that the program added itself.
    pub(crate) program_fields: Vec<(u32, Value)>,
    text: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Value {
    #[default]
    Absent,
    Int(i64),
    /// Unsigned integer above `i64::MAX`.
    Large(u64),
    Bool(bool),
    Float(f64),
    Text(u32, u32),
}

impl FieldValues {
    pub(crate) fn clear(&mut self) {
        self.values = [Value::Absent; NAMES.len()];
        self.program_fields.clear();
        self.text.clear();
    }

    pub(crate) fn get(&self, value: Value) -> &str {
        match value {
            Value::Text(start, end) => {
                self.text.get(start as usize..end as usize).unwrap_or_default()
            }
            _ => "",
        }
    }

    /// Returns an integer field, such as an id or a duration. Signed and unsigned fields are
    /// accepted.
    pub(crate) fn number(&self, slot: Slot) -> Result<u64, Option<Reason>> {
        match self.values[slot as usize] {
            Value::Int(number) => Ok(number.cast_unsigned()),
            Value::Large(number) => Ok(number),
            Value::Absent => Err(Some(Reason::Missing(NAMES[slot as usize]))),
            _ => Err(Some(Reason::WrongType(NAMES[slot as usize]))),
        }
    }

    /// Returns an integer field as [`FieldValues::number`] does, but `otherwise` for a missing
    /// field.
    pub(crate) fn number_or(&self, slot: Slot, otherwise: u64) -> Result<u64, Option<Reason>> {
        match self.values[slot as usize] {
            Value::Absent => Ok(otherwise),
            _ => self.number(slot),
        }
    }

    pub(crate) fn id(&self, slot: Slot) -> Result<u64, Option<Reason>> {
        match self.number(slot)? {
            0 => Err(Some(Reason::Zero(NAMES[slot as usize]))),
            id => Ok(id),
        }
    }

    pub(crate) fn text(&self, slot: Slot) -> Result<&str, Option<Reason>> {
        match self.values[slot as usize] {
            value @ Value::Text(..) => Ok(self.get(value)),
            Value::Absent => Err(Some(Reason::Missing(NAMES[slot as usize]))),
            _ => Err(Some(Reason::WrongType(NAMES[slot as usize]))),
        }
    }

    /// Returns a text field, or a default for a missing field.
    pub(crate) fn text_or<'t>(
        &'t self,
        slot: Slot,
        otherwise: &'t str,
    ) -> Result<&'t str, Option<Reason>> {
        match self.values[slot as usize] {
            Value::Absent => Ok(otherwise),
            _ => self.text(slot),
        }
    }

    pub(crate) fn port(&self) -> Result<i32, Option<Reason>> {
        let number = self.number_or(PORT, 0)?.cast_signed();
        i32::try_from(number).map_err(|_| Some(Reason::WrongType(NAMES[PORT as usize])))
    }

    pub(crate) fn value(&self, value: Value) -> ValueRef<'_> {
        match value {
            Value::Int(number) => ValueRef::Int(number),
            Value::Bool(flag) => ValueRef::Bool(flag),
            Value::Float(number) => ValueRef::Double(number),
            Value::Text(..) | Value::Absent | Value::Large(_) => ValueRef::Str(self.get(value)),
        }
    }
}

/// Visitor that copies the field values of an event into their slots.
pub(crate) struct FieldVisitor<'w> {
    pub(crate) fields: &'w mut FieldValues,
    pub(crate) slots: &'w [Slot],
    /// Number of leading slots that are known fields of the event. Fields with other slots are the
    /// program's own, except `SERVICE` to `IP` if `has_service` is set, and the context's
    /// `procname`. The program's own fields are dropped if the number is the length of [`NAMES`].
    pub(crate) own_fields: usize,
    /// Set if service, port and address come from the tracing layer, not from the program's own
    /// fields.
    pub(crate) has_service: bool,
}

impl FieldVisitor<'_> {
    #[inline]
    fn put(&mut self, node: &Node, value: Value) {
        let slot = self.slots.get(node.id as usize).copied().unwrap_or(IGNORED);
        match slot {
            IGNORED => {}
            _ if (slot as usize) < self.own_fields
                || self.has_service && (SERVICE..=IP).contains(&slot)
                || slot == PROCNAME && node.scope != Scope::Payload =>
            {
                self.fields.values[slot as usize] = value;
            }
            _ if self.own_fields < NAMES.len() => self.fields.program_fields.push((node.id, value)),
            _ => {}
        }
    }

    #[inline]
    fn text(&mut self, value: &str) -> Value {
        let text = &mut self.fields.text;
        let start = text.len();
        text.push_str(value);
        // An event has at most 16 MiB, so offsets in its texts fit into 32 bits.
        Value::Text(start as u32, text.len() as u32)
    }

    /// Returns true for values that are passed on unchanged: tag values and the program's own
    /// fields.
    #[cold]
    fn is_passed_on(&self, node: &Node) -> bool {
        let slot = self.slots.get(node.id as usize).copied().unwrap_or(IGNORED);
        slot == VALUE || slot as usize >= self.own_fields
    }

    #[inline]
    fn is_used(&self, node: &Node) -> bool {
        let slot = self.slots.get(node.id as usize).copied().unwrap_or(IGNORED);
        slot < PROGRAM_FIELD || slot == PROGRAM_FIELD && self.own_fields < NAMES.len()
    }
}

impl Visitor for FieldVisitor<'_> {
    fn restart(&mut self) {
        self.fields.clear();
    }

    #[inline]
    fn unsigned(&mut self, node: &Node, value: u64) {
        let value = match &node.kind {
            NodeKind::Int { kind: IntKind::Bool, .. } => Value::Bool(value != 0),
            _ => match i64::try_from(value) {
                Ok(value) => Value::Int(value),
                Err(_) if self.is_passed_on(node) => self.text(&value.to_string()),
                Err(_) => Value::Large(value),
            },
        };
        self.put(node, value);
    }

    #[inline]
    fn signed(&mut self, node: &Node, value: i64) {
        self.put(node, Value::Int(value));
    }

    fn float(&mut self, node: &Node, value: f64) {
        self.put(node, Value::Float(value));
    }

    #[inline]
    fn string(&mut self, node: &Node, value: &[u8]) {
        if !self.is_used(node) {
            return;
        }
        let value = match (&node.kind, std::str::from_utf8(value)) {
            (NodeKind::String(encoding), _) if encoding.unit_size() > 1 => {
                self.text(&encoding.decode(value))
            }
            (_, Ok(value)) => self.text(value),
            (_, Err(_)) => self.text(&String::from_utf8_lossy(value)),
        };
        self.put(node, value);
    }
}
