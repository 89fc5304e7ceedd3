//! Members of JSON objects.

use super::cells::Cell;

/// Appends a comma, a key and a colon; the caller appends the value.
pub(super) fn key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(super) fn number(out: &mut Vec<u8>, name: &str, value: Option<impl Cell>) {
    if let Some(value) = value {
        key(out, name);
        value.put(out);
    }
}

/// Appends a string that needs no escapes.
pub(super) fn word(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

pub(super) fn string(out: &mut Vec<u8>, name: &str, value: Option<impl AsRef<str>>) {
    if let Some(value) = value {
        key(out, name);
        let _ = serde_json::to_writer(&mut *out, value.as_ref());
    }
}
