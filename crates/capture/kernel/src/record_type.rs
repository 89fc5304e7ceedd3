//! Event types of tracepoints: how each field of the kernel's record is recorded, by the format
//! that the tracing file system shows.

use crate::event_format::{EventFormat, FieldKind as Form, FormatField};
use crate::event_type::{Integer, event_type};
use crate::redaction::{self, FieldRedactions};
use blkkin_control::{EventType, FieldKind, Redaction, RedactionMethod};

/// Maximum size of a text in an event, in bytes with its NUL.
pub(crate) const TEXT_SIZE_MAX: usize = 4096;
/// Maximum size of a dynamic array that is no text, in bytes.
pub(crate) const BYTES_SIZE_MAX: usize = 1024;
/// Maximum size of a structure or of an array with a fixed number of elements, in bytes.
const ARRAY_SIZE_MAX: usize = 256;
/// Size of the part of the record that programs cannot read: the common fields.
const HIDDEN_SIZE: u32 = 8;

/// Way in which a field of a record is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Integer(Integer),
    /// Text in an array of this size.
    Text {
        size: usize,
    },
    /// Array of integers, or the bytes of a structure.
    Array {
        element: Integer,
        count: usize,
    },
    /// Text whose offset and size are in the field. `base` is the position in the record from which
    /// the offset counts.
    DynamicText {
        base: u32,
    },
    /// Bytes whose offset and size are in the field, as for `DynamicText`.
    DynamicBytes {
        base: u32,
    },
}

impl RecordKind {
    /// Returns the kind for a field; `None` if it is not recorded: it is empty, too large, or in
    /// the hidden part.
    fn of(field: &FormatField) -> Option<RecordKind> {
        if field.offset < HIDDEN_SIZE {
            return None;
        }
        let is_text = field.type_text.trim_start_matches("const ") == "char";
        let size = field.size as usize;
        let is_aligned = |bytes: usize| (field.offset as usize).is_multiple_of(bytes);
        let base = match field.kind {
            Form::DynamicArray => 0,
            Form::RelativeDynamicArray => field.offset + 4,
            Form::FlexibleArray => return None,
            Form::Array(_) if is_text && (1..=TEXT_SIZE_MAX).contains(&size) => {
                return Some(RecordKind::Text { size });
            }
            Form::Plain if matches!(size, 1 | 2 | 4 | 8) && is_aligned(size) => {
                let is_hex = field.type_text.contains('*');
                let is_signed = field.is_signed && !is_hex;
                return Some(RecordKind::Integer(Integer { bytes: size, is_signed, is_hex }));
            }
            Form::Plain | Form::Array(_) => {
                let count = if let Form::Array(count) = field.kind { count as usize } else { 0 };
                let element = size
                    .checked_div(count)
                    .filter(|element| matches!(element, 1 | 2 | 4 | 8) && element * count == size);
                let (bytes, count) = element.map_or((1, size), |element| (element, count));
                // The bytes of a structure are shown in hexadecimal, as all single bytes are.
                let is_hex = bytes == 1;
                let element = Integer { bytes, is_signed: field.is_signed && !is_hex, is_hex };
                let is_recorded = (1..=ARRAY_SIZE_MAX).contains(&size);
                return is_recorded.then_some(RecordKind::Array { element, count });
            }
        };
        is_aligned(4).then_some(match is_text {
            true => RecordKind::DynamicText { base },
            false => RecordKind::DynamicBytes { base },
        })
    }

    fn size_max(self) -> usize {
        match self {
            RecordKind::Integer(integer) => integer.bytes,
            RecordKind::Text { size } => size,
            RecordKind::Array { element, count } => element.bytes * count,
            RecordKind::DynamicText { .. } => TEXT_SIZE_MAX,
            RecordKind::DynamicBytes { .. } => 4 + BYTES_SIZE_MAX,
        }
    }

    fn field(self) -> FieldKind {
        match self {
            RecordKind::Integer(integer) => integer.field(),
            RecordKind::Text { .. } | RecordKind::DynamicText { .. } => FieldKind::String,
            RecordKind::Array { element, count } => element.array(count),
            RecordKind::DynamicBytes { .. } => FieldKind::Bytes,
        }
    }
}

/// Tracepoint that is recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordType {
    /// The kernel's number of the tracepoint.
    pub(crate) number: u32,
    /// Id of the tracepoint's events.
    pub(crate) id: u16,
    /// Name in the form `subsystem:event`.
    pub(crate) name: String,
    /// Fields: name, offset in the record, kind.
    pub(crate) fields: Vec<(String, u32, RecordKind)>,
    /// Maximum size of the fields in an event, in bytes.
    pub(crate) size_max: usize,
    redactions: FieldRedactions,
}

impl RecordType {
    /// Returns the type for a tracepoint as the kernel describes it. A field that no longer
    /// fits into the event is left out.
    pub(crate) fn new(subsystem: &str, format: &EventFormat, id: u16) -> RecordType {
        let mut size_max = 0;
        let field = |field: &FormatField| {
            let kind = RecordKind::of(field)?;
            (size_max + kind.size_max() <= FIELDS_SIZE_MAX).then(|| {
                size_max += kind.size_max();
                (field.name.clone(), field.offset, kind)
            })
        };
        let fields = format.own_fields().iter().filter_map(field).collect();
        let name = format!("{subsystem}:{}", format.name);
        let redactions = FieldRedactions::default();
        RecordType { number: format.id, id, name, fields, size_max, redactions }
    }

    /// Returns the type with those of the redactions that hold for the tracepoint.
    pub(crate) fn redacted(self, redactions: &[Redaction]) -> RecordType {
        let redactions = FieldRedactions::of(redactions, &self.name);
        let mut redacted = RecordType { redactions, ..self };
        let sizes = redacted.fields.iter().map(|(name, _, kind)| {
            redaction::size_max(redacted.redaction(name, *kind), kind.size_max())
        });
        redacted.size_max = sizes.sum();
        redacted
    }

    /// Returns the redaction of a field; `None` if it is recorded as it is.
    pub(crate) fn redaction(&self, name: &str, kind: RecordKind) -> Option<RedactionMethod> {
        self.redactions.method(name).filter(|_| redaction::is_redactable(&kind.field()))
    }

    /// Returns the description of the tracepoint's events.
    pub(crate) fn event_type(&self) -> EventType {
        let fields = self.fields.iter().map(|(name, _, kind)| (&**name, kind.field()));
        self.redactions.redact(event_type(self.id, self.name.clone(), fields))
    }
}

/// Maximum size of all fields of an event, in bytes.
const FIELDS_SIZE_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(declaration: &str, offset: u32, size: u32, is_signed: bool) -> Option<RecordKind> {
        let signed = u32::from(is_signed);
        let text = format!(
            "name: test\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\t\
             signed:0;\n\n\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n\n\
             print fmt: \"\"\n"
        );
        let format = EventFormat::parse(&text).unwrap();
        let record = RecordType::new("group", &format, 0);
        assert_eq!(record.name, "group:test");
        record.fields.first().map(|(_, _, kind)| *kind)
    }

    #[test]
    fn fields_are_recorded_by_their_form() {
        let integer = |bytes, is_signed, is_hex| {
            Some(RecordKind::Integer(Integer { bytes, is_signed, is_hex }))
        };
        assert_eq!(kind("pid_t prev_pid", 24, 4, true), integer(4, true, false));
        assert_eq!(kind("dev_t dev", 8, 4, false), integer(4, false, false));
        assert_eq!(kind("struct page * page", 8, 8, false), integer(8, false, true));
        assert_eq!(kind("char comm[16]", 8, 16, false), Some(RecordKind::Text { size: 16 }));
        assert_eq!(
            kind("unsigned long args[6]", 16, 48, false),
            Some(RecordKind::Array { element: Integer::unsigned(8), count: 6 })
        );
        assert_eq!(
            kind("__data_loc char[] name", 8, 4, false),
            Some(RecordKind::DynamicText { base: 0 })
        );
        assert_eq!(
            kind("__rel_loc u8[] data", 12, 4, false),
            Some(RecordKind::DynamicBytes { base: 16 })
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(kind("int hidden", 4, 4, true), None);
        assert_eq!(kind("struct big data", 8, 300, false), None);
        // A program cannot load an integer at an odd place; its bytes are copied.
        assert_eq!(
            kind("u64 packed", 12, 8, false),
            Some(RecordKind::Array {
                element: Integer { bytes: 1, is_signed: false, is_hex: true },
                count: 8
            })
        );
    }
}
