//! Formatting of JSON for readability: indented by two spaces as LTTng does, but with arrays of
//! plain values (paths, ranges, UUIDs) on one line.

use serde_json::Value;

/// Appends `value` to `text`. `depth` is the nesting level of the line on which the value starts;
/// each level is indented by two spaces.
pub(super) fn print(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            text.push('{');
            for (index, (key, value)) in object.iter().enumerate() {
                new_line(index, depth + 1, text);
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push_str(": ");
                print(value, depth + 1, text);
            }
            new_line(0, depth, text);
            text.push('}');
        }
        Value::Array(array) if is_plain(value) => {
            text.push('[');
            for (index, value) in array.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                print(value, depth, text);
            }
            text.push(']');
        }
        Value::Array(array) => {
            text.push('[');
            for (index, value) in array.iter().enumerate() {
                new_line(index, depth + 1, text);
                print(value, depth + 1, text);
            }
            new_line(0, depth, text);
            text.push(']');
        }
        _ => text.push_str(&value.to_string()),
    }
}

fn new_line(index: usize, depth: usize, text: &mut String) {
    if index > 0 {
        text.push(',');
    }
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(_) => false,
        Value::Array(array) => array.iter().all(is_plain),
        _ => true,
    }
}
