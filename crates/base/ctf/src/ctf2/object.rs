//! JSON objects under construction.

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// An object that starts with its type.
pub(super) fn typed(name: &str) -> Object {
    let mut object = Object::new();
    object.insert("type".to_owned(), name.into());
    object
}

/// Adds a property, if there is a value for it.
pub(super) fn put(object: &mut Object, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}
