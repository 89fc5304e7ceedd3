//! The catalog: shared memory in which a traced program describes its event types for the agent.
//!
//! A program adds a type before it writes the type's first event to a ring. An agent reads a ring
//! first and the catalog afterwards, so it has the types of all events that it read, even if the
//! program was killed meanwhile. Adding a type takes no system call, lock or allocation, so it may
//! happen in a signal handler.
//!
//! Each process of a program makes a file whose size is sealed:
//!
//! ```text
//! 0       magic "blkcatal"
//! 8       version, u64: 1
//! 16      COUNT, u64: all types so far have lower indexes; written by the program
//! 24      REFUSED, u64: number of types that are not described, because the file is full or they
//!         exceed the limits on event types; written by the program
//! 32      CURRENT_SPAN, u64: offset of threads' current spans; 0 without such an offset, as in
//!         programs that do not know this word; written by the program before it sends the file
//! 40      IDENTITY, u64: a random number; 0 in programs that do not know this word; written by the
//!         program before it sends the file
//! 4096    a word for each index, u64: offset of the type's description in the upper 32 bits, its
//!         size in bytes in the lower ones; 0 before it is described; written by the program
//! 135168  descriptions: an [`EventType`], encoded as in messages
//! ```
//!
//! The program writes a description, then its word, then `COUNT` (the latter two with release
//! ordering). The agent reads them in the reverse order. It uses `pread`: in a hole of the file, a
//! load from a mapping would allocate a page, and could raise a signal in the agent. The agent does
//! not trust the file: [`decode_word`] and [`decode`] check their input.

use crate::application::{EventType, Scalar, Width};
use crate::encoding::Record;
use crate::fault::Fault;
use crate::limits::{EVENT_TYPE_SIZE_MAX, EVENT_TYPES_MAX, FIELDS_MAX, LABELS_MAX};
use crate::text::{EVENT_NAME, FIELD_NAME, FILE, LABEL};
use crate::wire::{Reader, Writer};
use blkkin_filter::Severity as Level;
use std::ops::Range;

/// Size of the file in bytes. The file is sparse: the kernel allocates each page on the first
/// write.
pub const SIZE: usize = 768 << 10;
/// First two words of the file: magic number and version.
pub const MAGIC: [u64; 2] = [u64::from_le_bytes(*b"blkcatal"), 1];
/// Byte offset of `COUNT`: all event types described so far have lower indexes.
pub const COUNT: usize = 16;
/// Byte offset of `REFUSED`, the number of event types without a description.
pub const REFUSED: usize = 24;
/// Byte offset of `CURRENT_SPAN`, an encoded [`SlotOffset`](crate::current_span::SlotOffset).
pub const CURRENT_SPAN: usize = 32;
/// Byte offset of `IDENTITY`, a random number by which the [description of a set of
/// rings](crate::RingDescription) names the catalog of its events.
pub const IDENTITY: usize = 40;
/// Byte offset of the first description, behind the table of words.
pub const DESCRIPTIONS: usize = word_of(EVENT_TYPES_MAX);

/// Returns the byte offset of the word that locates the description of the event type with this
/// index.
pub const fn word_of(index: usize) -> usize {
    4096 + 8 * index
}

/// Encodes the byte range of a description as a word of the table: offset in the upper 32 bits,
/// size in the lower.
pub const fn encode_word(place: &Range<usize>) -> u64 {
    (place.start as u64) << 32 | (place.end - place.start) as u64
}

/// Decodes the byte range of a description from a word of the table. Returns `None` if the range is
/// invalid.
pub fn decode_word(word: u64) -> Option<Range<usize>> {
    let (start, size) = ((word >> 32) as usize, (word & 0xffff_ffff) as usize);
    let place = start..start + size;
    (start >= DESCRIPTIONS && place.end <= SIZE && size <= EVENT_TYPE_SIZE_MAX).then_some(place)
}

/// Decodes and checks the description of an event type. The bytes may be arbitrary.
pub fn decode(bytes: &[u8]) -> Result<EventType, Fault> {
    let mut reader = Reader::new("EventType", bytes, None);
    let event_type = EventType::read(&mut reader)?;
    reader.end()?;
    Ok(event_type)
}

/// Encodes the description of an event type. Returns `None` if a name is invalid, or if the
/// description exceeds a limit.
pub fn encode(event_type: &EventType) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    event_type.write(&mut Writer::new("EventType", &mut bytes)).ok()?;
    (bytes.len() <= EVENT_TYPE_SIZE_MAX).then_some(bytes)
}

/// Description of an event type with borrowed names and fields, for programs that cannot allocate
/// an [`EventType`].
#[derive(Clone, Copy, Debug)]
pub struct Description<'d, F> {
    /// Number of the event type, assigned by the program and unique within it.
    pub index: u32,
    /// Name in the form `provider:name`.
    pub name: &'d str,
    /// Severity of all events of this type.
    pub level: Level,
    /// Path of the source file with the instrumentation point; empty if unknown.
    pub file: &'d str,
    /// Line of the instrumentation point in the source file, from 1; 0 if unknown.
    pub line: u32,
    /// Names and types of the fields, in the order in which an event stores them.
    pub fields: F,
}

/// A [`FieldKind`](crate::FieldKind) that borrows its labels.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'d> {
    /// Number or boolean, in the encoding of the [`Scalar`].
    Scalar(Scalar),
    /// UTF-8 text, terminated by a NUL.
    String,
    /// Byte string: a length of 4 bytes, then that many bytes.
    Bytes,
    /// Array: element type, and number of elements, which is the same in each event.
    Array(Scalar, u32),
    /// Sequence with this element type: a count of 4 bytes, then that many elements.
    Sequence(Scalar),
    /// Integer with labels for some values. The members are: true for a signed integer, the
    /// integer's size, the labels.
    Enum(bool, Width, &'d [Label<'d>]),
}

/// Label of an enumeration, and its value as 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Label<'d> {
    pub name: &'d str,
    pub value: u64,
}

impl<'d, F: Iterator<Item = (&'d str, Kind<'d>)> + Clone> Description<'d, F> {
    /// Encodes the description and passes the bytes to `put`, piece by piece. Returns `None`,
    /// without calling `put`, if a name, label or file path is invalid, if two fields have the same
    /// name, or if the number of fields or of an enumeration's labels is out of range. Does not
    /// check the total size. Allocates nothing.
    pub fn encode(&self, mut put: impl FnMut(&[u8])) -> Option<()> {
        let mut count = 0;
        for (place, (name, kind)) in self.fields.clone().enumerate() {
            FIELD_NAME.check(name).ok()?;
            if let Kind::Enum(.., labels) = kind {
                let are_labels = labels.iter().all(|label| LABEL.check(label.name).is_ok());
                ((1..=LABELS_MAX).contains(&labels.len()) && are_labels).then_some(())?;
            }
            let is_new = self.fields.clone().take(place).all(|(other, _)| other != name);
            count = is_new.then_some(place + 1).filter(|count| *count <= FIELDS_MAX)?;
        }
        EVENT_NAME.check(self.name).ok()?;
        FILE.check(self.file).ok()?;
        let text = |text: &str, put: &mut dyn FnMut(&[u8])| {
            put(&(text.len() as u32).to_le_bytes());
            put(text.as_bytes());
        };
        put(&self.index.to_le_bytes());
        text(self.name, &mut put);
        put(&[self.level as u8]);
        text(self.file, &mut put);
        put(&self.line.to_le_bytes());
        put(&(count as u16).to_le_bytes());
        for (name, kind) in self.fields.clone() {
            text(name, &mut put);
            let put_scalar = |scalar: Scalar, put: &mut dyn FnMut(&[u8])| {
                let (bytes, size) = scalar_bytes(scalar);
                put(&bytes[..size]);
            };
            match kind {
                Kind::Scalar(scalar) => put_scalar(scalar, &mut put),
                Kind::String => put(&[5]),
                Kind::Bytes => put(&[6]),
                Kind::Array(of, count) => {
                    put(&[7]);
                    put_scalar(of, &mut put);
                    put(&count.to_le_bytes());
                }
                Kind::Sequence(of) => {
                    put(&[8]);
                    put_scalar(of, &mut put);
                }
                Kind::Enum(is_signed, width, labels) => {
                    put(&[9, is_signed.into(), width as u8]);
                    put(&(labels.len() as u16).to_le_bytes());
                    for label in labels {
                        text(label.name, &mut put);
                        put(&label.value.to_le_bytes());
                    }
                }
            }
        }
        Some(())
    }

    /// Returns the size of the encoded description in bytes; `None` if [`encode`](Self::encode)
    /// fails or the size exceeds [`EVENT_TYPE_SIZE_MAX`].
    pub fn size(&self) -> Option<usize> {
        let mut size = 0;
        self.encode(|bytes| size += bytes.len())?;
        (size <= EVENT_TYPE_SIZE_MAX).then_some(size)
    }
}

/// Returns the encoding of a scalar type, at the start of the array, and its size in bytes. Fields
/// and elements have the same encoding.
fn scalar_bytes(scalar: Scalar) -> ([u8; 3], usize) {
    match scalar {
        Scalar::Unsigned { width, hex } => ([0, width as u8, hex.into()], 3),
        Scalar::Signed { width, hex } => ([1, width as u8, hex.into()], 3),
        Scalar::F32 => ([2, 0, 0], 1),
        Scalar::F64 => ([3, 0, 0], 1),
        Scalar::Bool => ([4, 0, 0], 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{Field, FieldKind};
    use crate::encoding::Form;
    use crate::tests::Random;

    fn labels_of(field: &Field) -> Vec<Label<'_>> {
        match &field.kind {
            FieldKind::Enum { labels, .. } => {
                labels.iter().map(|label| Label { name: &label.name, value: label.value }).collect()
            }
            _ => Vec::new(),
        }
    }

    fn kind_of<'d>(kind: &FieldKind, labels: &'d [Label<'d>]) -> Kind<'d> {
        match *kind {
            FieldKind::Unsigned { width, hex } => Kind::Scalar(Scalar::Unsigned { width, hex }),
            FieldKind::Signed { width, hex } => Kind::Scalar(Scalar::Signed { width, hex }),
            FieldKind::F32 => Kind::Scalar(Scalar::F32),
            FieldKind::F64 => Kind::Scalar(Scalar::F64),
            FieldKind::Bool => Kind::Scalar(Scalar::Bool),
            FieldKind::String => Kind::String,
            FieldKind::Bytes => Kind::Bytes,
            FieldKind::Array { of, count } => Kind::Array(of, count),
            FieldKind::Sequence { of } => Kind::Sequence(of),
            FieldKind::Enum { is_signed, width, .. } => Kind::Enum(is_signed, width, labels),
        }
    }

    /// [`Description::encode`] and the message encoding of [`EventType`] write the same bytes.
    #[test]
    fn descriptions_have_the_form_of_messages() {
        let mut random = Random::new(7);
        for _ in 0..2000 {
            let event_type: EventType = crate::encoding::RecordForm.make(&mut random);
            let mut expected = Vec::new();
            event_type.write(&mut Writer::new("EventType", &mut expected)).unwrap();
            let labels: Vec<Vec<Label<'_>>> = event_type.fields.iter().map(labels_of).collect();
            let description = Description {
                index: event_type.index,
                name: &event_type.name,
                level: event_type.level,
                file: &event_type.file,
                line: event_type.line,
                fields: event_type
                    .fields
                    .iter()
                    .zip(&labels)
                    .map(|(field, labels)| (&*field.name, kind_of(&field.kind, labels))),
            };
            let mut bytes = Vec::new();
            description.encode(|piece| bytes.extend_from_slice(piece)).unwrap();
            assert_eq!(bytes, expected);
            assert_eq!(encode(&event_type), Some(bytes.clone()));
            assert_eq!(description.size(), Some(bytes.len()));
            assert_eq!(decode(&bytes).unwrap(), event_type);
        }
    }

    #[test]
    fn what_cannot_be_a_type_is_not_told() {
        let kind = Kind::Scalar(Scalar::Bool);
        let of = |name: &'static str, fields: &'static [&str]| {
            let fields = fields.iter().map(move |name| (*name, kind));
            Description { index: 0, name, level: Level::Info, file: "", line: 0, fields }.size()
        };
        assert!(of("a:b", &["x", "y"]).is_some());
        assert_eq!(of("a:\n", &[]), None);
        assert_eq!(of("a:b", &["x", "x"]), None);
        assert_eq!(of("a:b", &["x", "0"]), None);
        assert_eq!(of("a:b", &["x"; FIELDS_MAX + 1]), None);
    }

    #[test]
    fn places_are_within_the_file() {
        let first = DESCRIPTIONS..DESCRIPTIONS + 10;
        assert_eq!(decode_word(encode_word(&first)), Some(first));
        for wrong in [0..10, DESCRIPTIONS - 1..DESCRIPTIONS, SIZE - 1..SIZE + 1] {
            assert_eq!(decode_word(encode_word(&wrong)), None, "{wrong:?}");
        }
        assert_eq!(decode_word(u64::MAX), None);
        assert_eq!(decode_word(0), None);
    }
}
