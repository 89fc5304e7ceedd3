//! Fuzzes the decoder of event types in a program's catalog: a description either is refused or
//! round-trips unchanged. A catalog word that decodes to a range points into the catalog.
#![no_main]

use blkkin_control::catalog::{
    DESCRIPTIONS, Description, Kind, Label, SIZE, decode, decode_word, encode_word,
};
use blkkin_control::{Field, FieldKind, Scalar};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((first, _)) = input.split_first_chunk::<8>()
        && let Some(place) = decode_word(u64::from_le_bytes(*first))
    {
        assert!(place.start >= DESCRIPTIONS && place.end <= SIZE);
        assert_eq!(encode_word(&place), u64::from_le_bytes(*first));
    }
    let Ok(event_type) = decode(input) else { return };
    let labels: Vec<Vec<Label<'_>>> = event_type.fields.iter().map(labels_of).collect();
    let fields = event_type.fields.iter().zip(&labels);
    let description = Description {
        index: event_type.index,
        name: &event_type.name,
        level: event_type.level,
        file: &event_type.file,
        line: event_type.line,
        fields: fields.map(|(field, labels)| (&*field.name, kind_of(&field.kind, labels))),
    };
    let mut bytes = Vec::new();
    description.encode(|piece| bytes.extend_from_slice(piece)).expect("what came can be told");
    assert_eq!(bytes, input);
});

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
