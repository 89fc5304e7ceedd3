//! Fuzzes the parser of events' formats: a text is refused with a line of the text, or gives fields
//! with names and types.
#![no_main]

use blkkin_kernel::EventFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match EventFormat::parse(&text) {
        Ok(format) => {
            assert!(format.own_fields().len() + format.common_field_count == format.fields.len());
            for field in &format.fields {
                assert!(!field.name.is_empty() && !field.type_text.is_empty());
                assert!(field.offset.checked_add(field.size).is_some());
            }
        }
        Err(error) => assert!(error.line <= text.lines().count() + 1 && error.found.len() <= 64),
    }
});
