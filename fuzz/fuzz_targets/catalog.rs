//! What a program tells of an event type is understood or refused, and a program that has understood it can
//! tell the same again. Words of a catalog point into it, or nowhere.
#![no_main]

use blkkin_control::catalog::{DESCRIPTIONS, Description, SIZE, decode, place, word};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((first, _)) = input.split_first_chunk::<8>()
        && let Some(place) = place(u64::from_le_bytes(*first))
    {
        assert!(place.start >= DESCRIPTIONS && place.end <= SIZE);
        assert_eq!(word(&place), u64::from_le_bytes(*first));
    }
    let Ok(event_type) = decode(input) else { return };
    let description = Description {
        index: event_type.index,
        name: &event_type.name,
        level: event_type.level,
        file: &event_type.file,
        line: event_type.line,
        fields: event_type.fields.iter().map(|field| (&*field.name, field.kind)),
    };
    let mut bytes = Vec::new();
    description.put(|piece| bytes.extend_from_slice(piece)).expect("what came can be told");
    assert_eq!(bytes, input);
});
