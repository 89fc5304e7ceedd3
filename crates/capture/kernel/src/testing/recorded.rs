//! Values of an event that has been recorded, as a filter in a program sees them.

use blkkin_control::{EventType, FieldKind, Scalar, Width};
use blkkin_filter::{Operand, OperandKind, PseudoField, Severity, Step, Value, Values};
use blkkin_ring::{layout, packet};

/// Event that has been recorded, as a filter in a program sees it.
#[derive(Debug)]
pub struct RecordedEvent<'r> {
    of: &'r EventType,
    operands: &'r [Operand],
    /// Bytes from the event's id on.
    bytes: &'r [u8],
}

impl<'r> RecordedEvent<'r> {
    /// Reads the first event of a packet, for a filter with these operands.
    pub fn new(of: &'r EventType, operands: &'r [Operand], packet: &'r [u8]) -> RecordedEvent<'r> {
        RecordedEvent { of, operands, bytes: &packet[packet::SIZE..] }
    }

    /// Returns the time of the event, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn time(&self) -> u64 {
        u64::from_le_bytes(array(&self.bytes[layout::TIME_AT..]))
    }

    fn context(&self, index: usize) -> Value<'r> {
        let at = blkkin_ring::HEADER_SIZE + 4 * index;
        Value::Int(i32::from_le_bytes(array(&self.bytes[at..])).into())
    }

    fn field(&self, name: &str, element: Option<u64>) -> Option<Value<'r>> {
        let mut rest = &self.bytes[blkkin_ring::HEADER_SIZE + 8..];
        for field in &self.of.fields {
            let (value, after) = take(&field.kind, rest, element);
            if field.name == name {
                return Some(value);
            }
            rest = after;
        }
        None
    }
}

impl<'r> RecordedEvent<'r> {
    /// Returns the content of a field: of a text without its NUL, of bytes without their number.
    pub fn content(&self, name: &str) -> Option<&'r [u8]> {
        let mut rest = &self.bytes[blkkin_ring::HEADER_SIZE + 8..];
        for field in &self.of.fields {
            let (_, after) = take(&field.kind, rest, None);
            if field.name == name {
                let content = &rest[..rest.len() - after.len()];
                return Some(match field.kind {
                    FieldKind::String => &content[..content.len() - 1],
                    FieldKind::Bytes => &content[4..],
                    _ => content,
                });
            }
            rest = after;
        }
        None
    }
}

/// Returns the value of a field, or of an element of it, and the bytes after the field.
fn take<'r>(kind: &FieldKind, bytes: &'r [u8], element: Option<u64>) -> (Value<'r>, &'r [u8]) {
    let (size, start, of) = match kind {
        FieldKind::Unsigned { width, hex } => {
            (width.bytes(), 0, Scalar::Unsigned { width: *width, hex: *hex })
        }
        FieldKind::Signed { width, hex } => {
            (width.bytes(), 0, Scalar::Signed { width: *width, hex: *hex })
        }
        FieldKind::String => {
            let size = bytes.iter().position(|byte| *byte == 0).expect("a NUL");
            let value = element.map_or(Value::Str(&bytes[..size]), |_| Value::Absent);
            return (value, &bytes[size + 1..]);
        }
        FieldKind::Array { of, count } => (of.bytes() * *count as usize, 0, *of),
        FieldKind::Bytes => {
            let size = u32::from_le_bytes(array(bytes)) as usize;
            let width = Width::Bits8;
            (4 + size, 4, Scalar::Unsigned { width, hex: true })
        }
        other => panic!("{other:?}"),
    };
    let (field, rest) = bytes.split_at(size);
    let is_array = matches!(kind, FieldKind::Array { .. } | FieldKind::Bytes);
    let value = match (is_array, element) {
        (true, None) => Value::Present,
        (false, Some(_)) => Value::Absent,
        (_, index) => {
            let index = index.unwrap_or(0) as usize;
            let element = field[start..].chunks(of.bytes()).nth(index);
            element.map_or(Value::Absent, |element| number(of, element))
        }
    };
    (value, rest)
}

/// Returns the first bytes; zeros if there are too few.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn number(of: Scalar, bytes: &[u8]) -> Value<'static> {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let unused = 64 - 8 * bytes.len();
    match of {
        Scalar::Signed { .. } => Value::Int(i64::from_le_bytes(word) << unused >> unused),
        _ => Value::Uint(u64::from_le_bytes(word)),
    }
}

impl Values for RecordedEvent<'_> {
    fn value(&self, operand: usize) -> Value<'_> {
        let operand = &self.operands[operand];
        let pseudo = match (operand.kind, &*operand.path) {
            (OperandKind::Payload, [Step::Name(name), Step::Index(index)]) => {
                return self.field(name, Some(*index)).unwrap_or(Value::Absent);
            }
            (OperandKind::Payload, [Step::Name(name)]) => match self.field(name, None) {
                Some(value) => return value,
                None => operand.pseudo(),
            },
            (OperandKind::Context, [Step::Name(name)]) => PseudoField::from_name(name),
            _ => operand.pseudo(),
        };
        match pseudo {
            Some(PseudoField::Pid) => self.context(0),
            Some(PseudoField::Tid) => self.context(1),
            Some(PseudoField::Name) => Value::Str(self.of.name.as_bytes()),
            Some(PseudoField::Severity) => Severity::Info.value(),
            _ => Value::Absent,
        }
    }
}
