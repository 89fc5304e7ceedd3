//! Annotations as received from callers in C, before validation.

use std::ffi::c_char;

/// Content of an annotation before validation; any string may be NULL.
#[derive(Clone, Copy)]
pub(crate) enum RawAnnotation {
    Event(*const c_char),
    String { key: *const c_char, val: *const c_char },
    Integer { key: *const c_char, val: i64 },
}

impl RawAnnotation {
    pub(crate) fn lacks_string(self) -> bool {
        match self {
            RawAnnotation::Event(event) => event.is_null(),
            RawAnnotation::String { key, val } => key.is_null() || val.is_null(),
            RawAnnotation::Integer { key, .. } => key.is_null(),
        }
    }
}
