//! Construction of JSON objects for the writer of CTF 2's metadata.

use serde_json::{Map, Value};

/// A JSON object under construction: its properties by name.
pub(super) type Object = Map<String, Value>;

/// Makes an object whose first property is `"type": name`.
pub(super) fn object_of_type(name: &str) -> Object {
    let mut object = Object::new();
    object.insert("type".to_owned(), name.into());
    object
}

/// Adds the property `key`, unless `value` is `None`.
pub(super) fn put(object: &mut Object, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}
